/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ABI between the runtime in the target and iprobe outside: the anchor, by which the runtime says
 * what it is and where its parts lie; the runtime's private data; and what iprobe tells a runtime
 * that it puts into a process without one. abi/area.h lists all pieces of memory. Types have fixed
 * widths; there are no pointers and no libc, since both sides include this file.
 */
#ifndef IP_ABI_ANCHOR_H
#define IP_ABI_ANCHOR_H

#include <stddef.h>
#include <stdint.h>

#define IP_RT_MAGIC 0x545265626f727069ull /* "iprobeRT" */
#define IP_RT_ABI   16

#define IP_ANCHOR_SYMBOL "iprobe_rt_anchor"
#define IP_RT_SONAME	 "libiprobe-rt.so"

/* Stub pools. A module may bring its own room for stubs (ip_pl_header.stub_area_offset). It needs
 * no pool if that room is mapped executable. */
#define IP_POOLS	   8
#define IP_POOL_EXECUTABLE 0 /* memory near the executable; it has no unwinding information */
#define IP_POOL_LIBRARIES  1 /* near the libraries */
#define IP_POOL_MORE	   2 /* this one and those that follow were made when one was full */
#define IP_POOL_OWN	   8 /* the module's own room */
#define IP_POOL_SIZE_MAX   (64u << 20)
/* where iprobe has put the runtime into a process, and its modules do not need more */
#define IP_POOL_SIZE_LEAST (4u << 20)

/* Each pool, and each module's own room, starts with the addresses of the hooks. Stubs use them
 * where a direct jump does not reach the runtime. The order is hooks[kind - 1][regs], then
 * jump_hooks[kind - 1], then payload_hooks[kind - 1][jump], then return_hooks[values],
 * then tail_hook and plt_hook. */
#define IP_POOL_HEAD		 256u
#define IP_POOL_SLOT(kind, regs) (8u * (((kind)-1u) * IP_HOOK_REGS + (regs)))
#define IP_POOL_JUMP_SLOT(kind)	 (8u * (IP_HOOK_KINDS * IP_HOOK_REGS + (kind)-1u))

#define IP_POOL_PAYLOAD_SLOT(kind, jump)                                                           \
	(8u * (IP_HOOK_KINDS * (IP_HOOK_REGS + 1u) + 2u * ((kind)-1u) + !!(jump)))
#define IP_POOL_RETURN_SLOT(values) (8u * (IP_HOOK_KINDS * (IP_HOOK_REGS + 3u) + !!(values)))
#define IP_POOL_TAIL_SLOT	    (8u * (IP_HOOK_KINDS * (IP_HOOK_REGS + 3u) + 2u))
#define IP_POOL_PLT_SLOT	    (8u * (IP_HOOK_KINDS * (IP_HOOK_REGS + 3u) + 3u))

#define IP_HOOK_KINDS 4 /* enum ip_probe_kind - 1 */
#define IP_HOOK_REGS  4 /* enum ip_site_regs */

/* An error: the thread that was to set the runtime up may not read the processor's clock
 * (PR_SET_TSC). Hooks read that clock. */
#define IP_RT_NO_TSC 0x10000u

struct ip_rt_anchor {
	uint64_t magic;
	uint32_t abi;
	/* errno of the constructor's failure, or IP_RT_NO_TSC. If it is set, the runtime does
	 * nothing. */
	uint32_t error;
	uint64_t area;	    /* address of the area's mapping; 0: none */
	uint64_t area_size; /* bytes mapped; the memfd may be shorter */
	uint64_t gate;
	/* a descriptor that names the memfd (O_PATH), for a tracer that may not use map_files. Only
	 * a process without privileges has one. -1: none */
	int32_t area_fd;
	int32_t pid; /* process that ran the constructor, in its own namespace */
	/* The hooks that stubs jump to. A stub passes the number in r11d; with IP_REGS_ENTRY and
	 * IP_REGS_RETURN at 8 bytes below the stack pointer; with IP_REGS_ALL on the stack, and the
	 * hook removes it. Each hook preserves every register that may be live at its sites; it
	 * always preserves vector state and errno. */
	uint64_t hooks[IP_HOOK_KINDS][IP_HOOK_REGS];
	/* The hooks that jump stubs call. The number lies on the stack under the return address.
	 * These hooks preserve all registers. */
	uint64_t jump_hooks[IP_HOOK_KINDS];
	/* The hooks of sites whose values are recorded: payload stubs jump to [0], payload jump
	 * stubs call [1]. The stub passes the payload number as an IP_REGS_ALL stub passes its
	 * number. 0 for tail exits, which have no values. These hooks preserve all registers. */
	uint64_t payload_hooks[IP_HOOK_KINDS][2];
	/* bounds of the runtime's own code: a thread in it counts as being inside a hook */
	uint64_t text_start, text_end;
	struct {
		uint64_t address, size; /* r-x, private; 0: none */
	} pools[IP_POOLS];
	/* Only for a runtime that is linked into the program and was not launched by iprobe run. It
	 * does nothing until a borrowed thread runs the code at wake, with the stack pointer at
	 * wake_block (hotpatcher/inject/runtime_wake.h). All three are 0 in libiprobe-rt.so. */
	uint64_t wake, wake_end, wake_block;
	uint32_t waking;    /* atomic; 1: a thread is setting the runtime up */
	uint32_t fperf_abi; /* IP_FPERF_ABI: the hooks support no other version */
	/* Code in which a thread continues a system call that a stop interrupted (struct
	 * ip_restart). 0: the runtime has no such code. Only older runtimes fill restart_places.
	 * Their code needs room on the thread's stack, so the tracer sends no thread there any
	 * more. */
	uint64_t restart, restart_end, restart_places[3];
	/* Slots for such threads, and their number. x86-64: `again` is the address of the slots'
	 * calls, IP_RESTART_CALLS bytes for each slot; the code that all slots share follows. i386:
	 * `again` is the address of the slots themselves, and restart_slots is 0. If restart_nslots
	 * is 0, the runtime is an older one. */
	uint64_t restart_slots, restart_nslots;
	/* Code in which a borrowed thread changes mappings of text, and its struct ip_remap
	 * (hotpatcher/patch/remap.h). 0: this machine does not have it. */
	uint64_t remap, remap_end, remap_block;
	uint64_t own; /* address of struct ip_rt_private */
	/* Distance from the thread pointer to the place where hooks read the thread's id. 0: hooks
	 * ask the kernel for it. */
	uint64_t tid_at;
	/* The hooks of exits that are returns (ip_probe_returns()). [0] is passed the number as
	 * the others; payload stubs jump to [1]. They do what the site would do, and return to the
	 * function's caller. 0: the architecture has no such exits. */
	uint64_t return_hooks[2];
	/* The hook that stubs of form TAIL call. The number lies on the stack under the return
	 * address. It preserves all registers but the flags. 0: as above. */
	uint64_t tail_hook;
	/* The same that stubs of form PLT call. */
	uint64_t plt_hook;
};

/* Values that hooks read only here. This memory belongs to the process alone: a forked child has a
 * copy and cannot change its parent's. The tracer writes it from outside (hotpatcher/plan/bounds.h)
 * before it opens the gate. A late hook may read it while it is half written for the next session.
 * So the values that must never be wrong, end and nsubbufs, only grow. */
struct ip_rt_private {
	/* end of the area's file: the bytes below it are memory. The file never gets shorter */
	uint64_t end;
	/* the last address at which a struct ip_hist_tails still lies below end */
	uint64_t place_last;
	/* bytes of frames that fit into a block of meters; 0: no durations are measured */
	uint64_t frames;
	uint32_t nsubbufs; /* sub-buffers that lie below end */
	/* IP_MODE_... of the session; its threads copy them to their slots */
	uint32_t modes;
	/* offset in the memfd of block 0 of meters, the shared block */
	uint64_t meters;
	/* bytes of a block; the largest number of blocks */
	uint32_t meters_size, nmeters;
	/* 1: hooks may make system calls that read (no thread is under seccomp) */
	uint32_t may_read;
	/* number of a session whose forked children have the area and record by themselves; 0:
	 * there is none */
	uint32_t follow;
	/* the user's payload: */
	uint64_t user_call; /* its address in the present image; 0: it is not loaded */
	/* offset in a block of the memory that each thread has for it; 0: none */
	uint32_t user_scratch;
	/* state components of the processor that it may change (bits of XCR0, 0: no XSAVE) */
	uint32_t user_mask;
	uint32_t user_cell; /* bytes of the memory that a function has for it */
	/* FPerf (fperf.h): */
	uint32_t fperf;		 /* offset of its data in a block; 0: none */
	uint32_t fperf_pmu;	 /* offset of the data of fperf_pmu.h; 0: none */
	uint32_t fperf_counters; /* number of the kernel's counters */
	/* system calls that FPerf makes, IP_FPERF_READS_...; it makes them only if may_read is 1 */
	uint32_t fperf_reads;
	/* written by the runtime itself; 1: a forked child gets the area */
	uint32_t inherited;
};

/* What iprobe tells a runtime that it puts into a running process. This structure follows the
 * anchor, which begins the writable part of the image. iprobe writes it before it writes the
 * anchor's magic number. */
#define IP_INJECTION_ROOMS 256u

struct ip_injection {
	/* distance from the thread pointer to the thread's id (runtime/self.h) */
	uint64_t tid_at;
	uint64_t executable; /* an address in the executable */
	/* bytes of the area that are mapped at first, from IP_AREA_SMALL_SIZE to IP_AREA_OWN_SIZE;
	 * the tables are mapped with IP_AREA_OWN_SIZE alone */
	uint64_t area_size;
	uint64_t pool_size; /* bytes of each pool */
	uint32_t nrooms;    /* rooms for stubs, which the runtime makes executable */
	uint32_t reserved;
	struct {
		uint64_t address, size;
	} rooms[IP_INJECTION_ROOMS];
};

/* The image of such a runtime begins with this structure. Its numbers are distances from the
 * image's start. */
#define IP_IMAGE_MAGIC 0x4d4965626f727069ull /* "iprobeIM" */

struct ip_rt_image {
	uint64_t magic;
	uint64_t data;	   /* [0, data) is code; the anchor and all other writable data follow */
	uint64_t data_end; /* end of what the file holds; zeros follow */
	uint64_t pool;	   /* code again, for stubs */
	uint64_t end;
	uint64_t injection;
	uint64_t wake, wake_end, wake_block; /* as in the anchor */
};

/* Environment variable that iprobe run sets: the path of the area's memfd. */
#define IP_ENV_AREA "IPROBE_AREA"

_Static_assert(sizeof(struct ip_rt_private) == 96 &&
		       offsetof(struct ip_rt_private, nsubbufs) == 24 &&
		       offsetof(struct ip_rt_private, user_call) == 56 &&
		       offsetof(struct ip_rt_private, inherited) == 92,
	       "the same for runtimes of 32 and 64 bits: the tool writes all of it");
/* 32-bit compilers align 64-bit numbers to 4 bytes in a structure. The offsets must not depend on
 * that. */
_Static_assert(offsetof(struct ip_rt_anchor, area) == 16 &&
		       offsetof(struct ip_rt_anchor, hooks) == 48 &&
		       offsetof(struct ip_rt_anchor, fperf_abi) == 444,
	       "the ABI is the same for 32 and 64 bits");

#endif
