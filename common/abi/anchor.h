/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ABI between the runtime in the target and iprobe outside: where the runtime says what it is and
 * has, what it has of its own, and what iprobe puts into a process that has none (abi/area.h tells
 * which pieces of memory there are). Fixed-width types, no pointers, no libc: both sides include
 * it.
 */
#ifndef IP_ABI_ANCHOR_H
#define IP_ABI_ANCHOR_H

#include <stddef.h>
#include <stdint.h>

#define IP_RT_MAGIC 0x545265626f727069ull /* "iprobeRT" */
#define IP_RT_ABI   11

#define IP_ANCHOR_SYMBOL "iprobe_rt_anchor"
#define IP_RT_SONAME	 "libiprobe-rt.so"

/* Stub pools. A module that brings room of its own along (ip_pl_header.stub_area_offset) needs
 * none, where that room is mapped executable. */
#define IP_POOLS	   2
#define IP_POOL_EXECUTABLE 0 /* memory near the executable; no unwinding information */
#define IP_POOL_LIBRARIES  1 /* near the libraries */
#define IP_POOL_OWN	   2 /* the module's own room */

/* Each pool, and each module's own room, starts with the addresses of the hooks, for stubs that
 * a direct jump does not carry to the runtime: hooks[kind - 1][regs], then jump_hooks[kind - 1],
 * then payload_hooks[kind - 1][jump]. */
#define IP_POOL_HEAD		 256u
#define IP_POOL_SLOT(kind, regs) (8u * (((kind)-1u) * IP_HOOK_REGS + (regs)))
#define IP_POOL_JUMP_SLOT(kind)	 (8u * (IP_HOOK_KINDS * IP_HOOK_REGS + (kind)-1u))

#define IP_POOL_PAYLOAD_SLOT(kind, jump)                                                           \
	(8u * (IP_HOOK_KINDS * (IP_HOOK_REGS + 1u) + 2u * ((kind)-1u) + !!(jump)))

#define IP_HOOK_KINDS 4 /* enum ip_probe_kind - 1 */
#define IP_HOOK_REGS  4 /* enum ip_site_regs */

/* The thread that was to set the runtime up may not read the processor's clock (PR_SET_TSC), as
 * hooks do. */
#define IP_RT_NO_TSC 0x10000u

struct ip_rt_anchor {
	uint64_t magic;
	uint32_t abi;
	/* errno of the constructor's failure, or IP_RT_NO_TSC; the runtime is inert then */
	uint32_t error;
	uint64_t area;	    /* address of the area's mapping; 0: none */
	uint64_t area_size; /* bytes mapped; the memfd may be shorter */
	uint64_t gate;
	/* of a process without privileges: a descriptor that names the memfd (O_PATH), for users
	 * without map_files; -1 */
	int32_t area_fd;
	int32_t pid; /* who ran the constructor, in its own namespace */
	/* What stubs jump to: number in r11d, with IP_REGS_ALL on the stack (the hook takes it
	 * off). Each preserves every register that may be live there, vector state and errno
	 * always. */
	uint64_t hooks[IP_HOOK_KINDS][IP_HOOK_REGS];
	/* What jump stubs call: number on the stack under the return address; all is preserved. */
	uint64_t jump_hooks[IP_HOOK_KINDS];
	/* What payload stubs jump to, [0], and payload jump stubs call, [1]: payload number as
	 * IP_REGS_ALL stubs pass theirs; 0 for tail exits, which have no values. All is
	 * preserved. */
	uint64_t payload_hooks[IP_HOOK_KINDS][2];
	uint64_t text_start, text_end; /* the runtime's own code: no thread is settled in it */
	struct {
		uint64_t address, size; /* r-x, private; 0: none */
	} pools[IP_POOLS];
	/* Of a runtime that is linked in and was not launched by iprobe run: it sleeps until a
	 * borrowed thread runs the code at wake, with the stack pointer at wake_block
	 * (hotpatcher/inject/runtime_wake.h). All 0 in libiprobe-rt.so. */
	uint64_t wake, wake_end, wake_block;
	uint32_t waking;    /* atomic: a thread is at it */
	uint32_t fperf_abi; /* IP_FPERF_ABI: its hooks count for no other */
	/* Code by which a thread that we stopped in a system call goes on waiting (struct
	 * ip_restart). 0: it has none. The three places are those of older runtimes, whose code
	 * wanted room on the stack: none is sent there any more. */
	uint64_t again, restart_end, restart_places[3];
	/* Slots for that, and how many. x86-64: again is where their calls lie, IP_RESTART_CALLS
	 * bytes for each, and what they all go on with lies behind. i386: again is where the
	 * slots themselves lie (again_slots is 0). No slots: an older runtime. */
	uint64_t restart_slots, restart_nslots;
	/* Where a borrowed thread changes mappings of text, and its struct ip_remap
	 * (hotpatcher/patch/remap.h). 0: not on this machine. */
	uint64_t remap, remap_end, remap_block;
	uint64_t own; /* struct ip_rt_private */
	/* From the thread pointer to the thread's id, where hooks take it from there; 0: they ask
	 * the kernel. */
	uint64_t tid_at;
};

/* What hooks take from nowhere else: memory of the process alone, which a forked child copies
 * and cannot change for its parent. Written from outside (hotpatcher/plan/bounds.h) before the
 * gate opens. A hook that is late may find it half written for the next session: so what must
 * never be wrong, end and nsubbufs, only grows. */
struct ip_rt_private {
	uint64_t end; /* of the area's file: what lies below is memory. It never gets shorter */
	/* the last address where a struct ip_hist_tails still lies below end */
	uint64_t place_last;
	/* bytes of frames that a block of meters has room for; 0: no durations are measured */
	uint64_t frames;
	uint32_t nsubbufs; /* that lie below end */
	uint32_t modes;	   /* of the session, IP_MODE_...; its threads copy it to their slots */
	uint64_t meters;   /* offset of block 0 of meters, the shared one, in the memfd */
	uint32_t meters_size, nmeters; /* of a block, bytes; and how many there are at most */
	/* 1: hooks may make system calls that read (no thread is under seccomp) */
	uint32_t may_read;
	/* number of a session whose forked children have the area, and record by themselves; 0:
	 * none do */
	uint32_t follow;
	/* of the user's payload: */
	uint64_t user_call;    /* its address in the present image; 0: it is not there */
	uint32_t user_scratch; /* offset in a block of what each thread has; 0: nothing */
	/* state components of the processor that it may change (bits of XCR0, 0: no XSAVE) */
	uint32_t user_mask;
	uint32_t user_cell; /* bytes of a function's cell */
	/* of FPerf (fperf.h): */
	uint32_t fperf;		 /* offset in a block of what it has there; 0: nothing */
	uint32_t fperf_pmu;	 /* the same of what fperf_pmu.h tells */
	uint32_t fperf_counters; /* of the kernel */
	/* system calls that it makes, IP_FPERF_READS_...; none unless may_read */
	uint32_t fperf_reads;
	uint32_t inherited; /* the runtime's own: 1: a forked child gets the area */
};

/* Of a runtime that iprobe has put into a running process: stands behind the anchor, which
 * begins the writable part of the image. Written by iprobe before the anchor's magic number. */
#define IP_INJECTION_ROOMS 256u

struct ip_injection {
	uint64_t tid_at;     /* from the thread pointer to the thread's id (runtime/self.h) */
	uint64_t executable; /* an address of it */
	uint32_t nrooms;     /* for stubs, to be made executable */
	uint32_t reserved;
	struct {
		uint64_t address, size;
	} rooms[IP_INJECTION_ROOMS];
};

/* The image of that runtime begins with this: distances from its start. */
#define IP_IMAGE_MAGIC 0x4d4965626f727069ull /* "iprobeIM" */

struct ip_rt_image {
	uint64_t magic;
	uint64_t data;	   /* [0, data) is code; then the anchor and all that is writable */
	uint64_t data_end; /* of what the file holds; zeros follow */
	uint64_t pool;	   /* code again, for stubs */
	uint64_t end;
	uint64_t injection;
	uint64_t wake, wake_end, wake_block; /* as in the anchor */
};

/* Environment of iprobe run: path of the area's memfd. */
#define IP_ENV_AREA "IPROBE_AREA"

_Static_assert(sizeof(struct ip_rt_private) == 96 &&
		       offsetof(struct ip_rt_private, nsubbufs) == 24 &&
		       offsetof(struct ip_rt_private, user_call) == 56 &&
		       offsetof(struct ip_rt_private, inherited) == 92,
	       "the same for runtimes of 32 and 64 bits: the tool writes all of it");
/* 32-bit compilers align 64-bit numbers to 4 bytes in a structure: where each lies must not depend
 * on that. */
_Static_assert(offsetof(struct ip_rt_anchor, area) == 16 &&
		       offsetof(struct ip_rt_anchor, hooks) == 48 &&
		       offsetof(struct ip_rt_anchor, fperf_abi) == 348,
	       "the ABI is the same for 32 and 64 bits");

#endif
