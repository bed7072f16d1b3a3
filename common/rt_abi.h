/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared-memory ABI between the runtime in the target and the hotpatcher
 * outside. Fixed-width types, no pointers, no libc: both sides include it.
 *
 * Four pieces of memory:
 *
 *   anchor   data of libiprobe-rt.so, exported as iprobe_rt_anchor. Says where the
 *            rest is. Written once by the runtime's constructor, read from outside.
 *   gate     one private page of the target, wiped in a forked child
 *            (MADV_WIPEONFORK). gate->session is the session that records; 0: none.
 *            Only the hotpatcher writes it: opens it while the target is stopped,
 *            closes it at any time. Only a forked child of a session that follows forks opens its own.
 *   private  data of the runtime (struct ip_rt_private): whatever decides where hooks read, write and jump. Only the hotpatcher writes it, by
 *            /proc/PID/mem, while the gate is closed.
 *   area     a memfd, shared, and kept from forked children (runtime/area.c) unless they are followed. Header, modules, slots (one a thread), descriptors
 *            of sub-buffers, what values to record where, what functions do, sub-buffers, counts and histograms. Forked children share it with their parent; one session at a
 *            time uses it (an OFD write lock on byte IP_AREA_LOCK_SESSION of the memfd).
 *
 * One ring a thread, made of sub-buffers that the thread takes from a pool:
 *
 *   slot->cur     bits 0..47   position: words written since the slot was claimed, monotonic
 *                 bits 48..63  index of the current sub-buffer, IP_NO_SUBBUF: none
 *   The word for position p lies at word p % IP_SUBBUF_WORDS of the current sub-buffer. Word 0 of a sub-buffer is never used,
 *   so position % IP_SUBBUF_WORDS == 0 means: no room, take a new one. One compare-and-exchange on cur (not
 *   locked: only signal handlers of the same thread compete) therefore reserves words
 *   or changes the sub-buffer, and fails where a handler has recorded meanwhile. (With coarse time words are reserved by addition, too: then the
 *   last words of a sub-buffer are no room either, and without a sub-buffer the position is that of the first of these; runtime/record.c, A3.)
 *
 * Life of a sub-buffer (descriptor->state):
 *   FREE -> OWNED   by the thread (locked compare-and-exchange), all words are zero
 *   OWNED -> FULL   by the thread's outermost hook when it has no room left
 *   FULL -> FREE    by the collector, after it has copied and zeroed it
 *   A hook that runs in a signal handler on top of another hook of the same thread (slot->guard != 0) leaves a
 *   full sub-buffer OWNED, since the hook below may still have to fill the words it reserved; the
 *   collector takes it when the slot has moved on and guard has been seen 0 since.
 *   A word that is still zero in a taken sub-buffer belongs to a hook that never came back
 *   (longjmp out of a handler): the collector counts it as lost.
 *
 * In sessions that overwrite (IP_MODE_OVERWRITE) the collector takes nothing while the thread lives. Instead
 *   FULL -> OWNED   by its thread, which has no other room: the oldest that it has, zeroed by itself
 *   FULL -> FREE    by the collector, which takes the oldest of a thread that has more than its share for others that have less
 *   slot->tail      bits 0..47   events that were in sub-buffers given up so far
 *                   bits 48..63  low bits of the ordinal of the oldest that is kept
 *   Who moves the tail on (a locked compare-and-exchange: it only grows, so nothing can have changed in between) has the sub-buffer that was
 *   the oldest, and has counted its events in the same moment. A sub-buffer's events are its words less those that are none (surplus).
 *
 * Everything in the area may be scribbled over, by the target and by whoever else may have it mapped: a followed child, which may have other
 * credentials than its parent by now. So the collector checks every index; and so do hooks, against struct ip_rt_private. Nothing in the area
 * is an address, and none that is computed from what stands there lies outside of what the file has room for.
 */
#ifndef IP_RT_ABI_H
#define IP_RT_ABI_H

#include <stddef.h>
#include <stdint.h>

#include "common/again_slots.h"

#define IP_RT_MAGIC   0x545265626f727069ull /* "iprobeRT" */
#define IP_AREA_MAGIC 0x414165626f727069ull /* "iprobeAA" */
#define IP_RT_ABI     11

#define IP_ANCHOR_SYMBOL "iprobe_rt_anchor"
#define IP_RT_SONAME	 "libiprobe-rt.so"

/* Stub pools. A module that brings room of its own along (ip_pl_header.stub_area_offset) needs none, where that room is
 * mapped executable. */
#define IP_POOLS	   2
#define IP_POOL_EXECUTABLE 0 /* memory near the executable; no unwinding information */
#define IP_POOL_LIBRARIES  1 /* near the libraries */
#define IP_POOL_OWN	   2 /* the module's own room */

/* Each pool, and each module's own room, starts with the addresses of the hooks, for stubs that a direct jump does not carry
 * to the runtime: hooks[kind - 1][regs], then jump_hooks[kind - 1], then payload_hooks[kind - 1][jump]. */
#define IP_POOL_HEAD		 256u
#define IP_POOL_SLOT(kind, regs) (8u * (((kind)-1u) * IP_HOOK_REGS + (regs)))
#define IP_POOL_JUMP_SLOT(kind)	 (8u * (IP_HOOK_KINDS * IP_HOOK_REGS + (kind)-1u))

#define IP_POOL_PAYLOAD_SLOT(kind, jump)                                                                     \
	(8u * (IP_HOOK_KINDS * (IP_HOOK_REGS + 1u) + 2u * ((kind)-1u) + !!(jump)))

#define IP_HOOK_KINDS 4 /* enum ip_probe_kind - 1 */
#define IP_HOOK_REGS  4 /* enum ip_site_regs */

/* The thread that was to set the runtime up may not read the processor's clock (PR_SET_TSC), as hooks do. */
#define IP_RT_NO_TSC 0x10000u

struct ip_rt_anchor {
	uint64_t magic;
	uint32_t abi;
	uint32_t error; /* errno of the constructor's failure, or IP_RT_NO_TSC; the runtime is inert then */
	uint64_t area;	/* address of the area's mapping; 0: none */
	uint64_t area_size; /* bytes mapped; the memfd may be shorter */
	uint64_t gate;
	int32_t area_fd; /* of a process without privileges: a descriptor that names the memfd (O_PATH), for users without map_files; -1 */
	int32_t pid;	 /* who ran the constructor, in its own namespace */
	/* What stubs jump to: number in r11d, with IP_REGS_ALL on the stack (the hook takes it off). Each preserves every
	 * register that may be live there, vector state and errno always. */
	uint64_t hooks[IP_HOOK_KINDS][IP_HOOK_REGS];
	/* What jump stubs call: number on the stack under the return address; all is preserved. */
	uint64_t jump_hooks[IP_HOOK_KINDS];
	/* What payload stubs jump to, [0], and payload jump stubs call, [1]: payload number as IP_REGS_ALL stubs pass theirs; 0 for
	 * tail exits, which have no values. All is preserved. */
	uint64_t payload_hooks[IP_HOOK_KINDS][2];
	uint64_t text_start, text_end; /* the runtime's own code: no thread is settled in it */
	struct {
		uint64_t address, size; /* r-x, private; 0: none */
	} pools[IP_POOLS];
	/* Of a runtime that is linked in and was not launched by iprobe run: it sleeps until a borrowed thread runs the code
	 * at wake, with the stack pointer at wake_block (hotpatcher/inject/runtime_wake.h). All 0 in libiprobe-rt.so. */
	uint64_t wake, wake_end, wake_block;
	uint32_t waking;    /* atomic: a thread is at it */
	uint32_t fperf_abi; /* IP_FPERF_ABI: its hooks count for no other */
	/* Code by which a thread that we stopped in a system call goes on waiting (struct ip_again). 0: it has none. The three places are
	 * those of older runtimes, whose code wanted room on the stack: none is sent there any more. */
	uint64_t again, again_end, again_places[3];
	/* Slots for that, and how many. x86-64: again is where their calls lie, IP_AGAIN_CALLS bytes for each, and what they all go on
	 * with lies behind. i386: again is where the slots themselves lie (again_slots is 0). No slots: an older runtime. */
	uint64_t again_slots, again_nslots;
	/* Where a borrowed thread changes mappings of text, and its struct ip_flip (hotpatcher/patch/remap.h). 0: not on this machine. */
	uint64_t flip, flip_end, flip_block;
	uint64_t own; /* struct ip_rt_private */
	/* From the thread pointer to the thread's id, where hooks take it from there; 0: they ask the kernel. */
	uint64_t tid_at;
};

/* What hooks take from nowhere else: memory of the process alone, which a forked child copies and cannot change for its parent. Written from
 * outside (hotpatcher/plan/bounds.h) before the gate opens. A hook that is late may find it half written for the next
 * session: so what must never be wrong, end and nsubbufs, only grows. */
struct ip_rt_private {
	uint64_t end;	     /* of the area's file: what lies below is memory. It never gets shorter */
	uint64_t place_last; /* the last address where a struct ip_hist_tails still lies below end */
	uint64_t
		frames; /* bytes of frames that a block of meters has room for; 0: no durations are measured */
	uint32_t nsubbufs;	       /* that lie below end */
	uint32_t modes;		       /* of the session, IP_MODE_...; its threads copy it to their slots */
	uint64_t meters;	       /* offset of block 0 of meters, the shared one, in the memfd */
	uint32_t meters_size, nmeters; /* of a block, bytes; and how many there are at most */
	uint32_t may_read; /* 1: hooks may make system calls that read (no thread is under seccomp) */
	uint32_t
		follow; /* number of a session whose forked children have the area, and record by themselves; 0: none do */
	/* of the user's payload: */
	uint64_t user_call;    /* its address in the present image; 0: it is not there */
	uint32_t user_scratch; /* offset in a block of what each thread has; 0: nothing */
	uint32_t
		user_mask; /* state components of the processor that it may change (bits of XCR0, 0: no XSAVE) */
	uint32_t user_cell; /* bytes of a function's cell */
	/* of FPerf (fperf_abi.h): */
	uint32_t fperf;		 /* offset in a block of what it has there; 0: nothing */
	uint32_t fperf_pmu;	 /* the same of what fperf_pmu_abi.h tells */
	uint32_t fperf_counters; /* of the kernel */
	uint32_t fperf_reads;	 /* system calls that it makes, IP_FPERF_READS_...; none unless may_read */
	uint32_t inherited;	 /* the runtime's own: 1: a forked child gets the area */
};

/* A system call that a stop broke off goes on in code of the runtime with what is left of its time limit or of its
 * transfer, and then returns to its caller with every register but its result as it was (hotpatcher/ptrace/syscall_restart.h). It lies in a slot of the
 * runtime meanwhile (hotpatcher/ptrace/restart_slot.h). Written from outside; read by arch/x86_64/again.S. */
struct ip_again {
	uint64_t pc;	/* where the caller goes on */
	uint64_t flags; /* the caller's */
	uint64_t arguments
		[6];	   /* registers of the caller that hold arguments of a system call, in their order */
	uint64_t deadline; /* CLOCK_MONOTONIC, nanoseconds; ~0: none */
	uint64_t time[2];  /* what is left: a struct timespec or timeval */
	uint64_t number;   /* of the call */
	/* The long form only: ppoll() for what is left, then the call for what is ready, until all is transferred. */
	uint64_t rest[7];    /* number and arguments of the call to make */
	uint64_t part;	     /* bytes that were transferred already */
	uint64_t all;	     /* 1: all must be transferred; rest[2] is advanced, rest[3] reduced */
	int64_t limit_error; /* what it returns when its time is over */
	uint64_t tries;	     /* how often it may be ready for nothing; then it is started anew as a whole */
	int32_t poll_fd;     /* a struct pollfd; without events: does not poll */
	int16_t poll_events, poll_revents;
};

/* Where that lies on x86-64: in the runtime's own memory. A slot is free where owner is 0; the thread gives
 * it back itself, last of all. Handed out from outside, while every thread stands (hotpatcher/ptrace/restart_slot.h). */
struct ip_again_slot {
	struct ip_again again;
	uint64_t calls;	 /* of this slot: where they lie */
	uint64_t owner;	 /* the thread's id in its own namespace */
	uint64_t sp;	 /* its stack pointer */
	uint64_t result; /* the code's own */
	uint64_t reserved[4];
};

#define IP_WAKE_STACK 262144ull /* bytes below wake_block (arch/ARCH/wake.S) */

/* The way back of a borrowed thread, which it takes by itself if its iprobe has died; the stack is below. */
struct ip_wake {
	uint64_t registers[15]; /* in the order in which the code at wake takes them off */
	uint64_t frame[5];	/* as an interrupt's: instruction pointer, cs, flags, stack pointer, ss */
	uint64_t mask;		/* of signals */
	uint64_t tid;		/* whose, as iprobe names it; 0: nobody's */
};

/* Text that is switched as a whole, in pages. */
struct ip_flip_piece {
	uint64_t at, size;
	uint64_t staged; /* where pages of it lie besides; 0: nowhere */
	uint32_t what;	 /* enum ip_flip_what */
	int32_t error;	 /* errno of what was done last; 0: none */
};

enum ip_flip_what {
	IP_FLIP_NOTHING = 0,
	IP_FLIP_STAGE =
		1, /* moves the text's pages away, to a mapping of the same file; it has the file's then */
	IP_FLIP_SWITCH = 2, /* puts the staged pages in the place of the text's */
	IP_FLIP_DROP = 3,   /* unmaps what is staged */
	IP_FLIP_REVERT = 4, /* the text has the file's pages then: staged, and dropped */
	IP_FLIP_CLOSE =
		5, /* no text: closes descriptor at, if it is that of the kernel's counter size (fperf_pmu_abi.h) */
	IP_FLIP_INHERIT = 7,  /* no text: forked children get the area (at, size); */
	IP_FLIP_WITHHOLD = 8, /* or do not */
	IP_FLIP_CLOCK =
		10, /* no text: error says whether the thread, and those that it makes, may read the processor's clock */
	IP_FLIP_DISOWN =
		9, /* no text: the area (at, size) is put out of this process's reach, by zeros of its own */
	IP_FLIP_COPY =
		6, /* the text stays as it is, but for the moment that it takes; staged is another mapping of the same file then, and has
			     the file's pages */
};

#define IP_FLIP_PIECES 512u

struct ip_flip {
	struct ip_wake
		back; /* the thread's way back, which it takes by itself if its iprobe has died; the stack is below */
	uint32_t npieces;
	uint32_t
		policy; /* 1 + the thread's scheduling policy, where it was raised: it goes back to that by itself; 0: it was not */
	/* Of the last run, nanoseconds, written by the thread: so long mappings were changed; so long, of these, pieces that were being copied
	 * had the file's pages, one after the other. */
	uint32_t changing_ns, bare_ns;
	struct ip_flip_piece pieces[IP_FLIP_PIECES];
};

/* Of a runtime that iprobe has put into a running process: stands behind the anchor, which begins the writable part of the image.
 * Written by iprobe before the anchor's magic number. */
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

struct ip_gate {
	uint32_t session; /* 0: silent */
	uint32_t pid;	  /* whose session it is, in its own namespace: a vfork child shares the gate, but is
			     silent */
	uint32_t base;	  /* the hotpatcher's number of the session: that of a followed child is its own */
	uint32_t reserved;
};

#define IP_AREA_SLOTS	  8192u
#define IP_FILTER_THREADS 128u /* that --tid can name */
#define IP_AREA_MODULES	  1024u
#define IP_SUBBUF_WORDS	  4096u
#define IP_SUBBUF_SIZE	  (IP_SUBBUF_WORDS * 8u)
#define IP_SUBBUF_SPARE	  8u	 /* words at its end that no record takes in a session with coarse time */
#define IP_AREA_SUBBUFS	  32768u /* descriptors: 1 GiB of sub-buffers */
#define IP_NO_SUBBUF	  0xffffull
#define IP_NO_SLOT	  0xffffffffu
#define IP_POSITION_BITS  48
#define IP_POSITION_MASK  ((1ull << IP_POSITION_BITS) - 1)

/* OFD write locks on bytes of the memfd; the kernel drops them when their holder dies. */
#define IP_AREA_LOCK_SESSION 0 /* held by the iprobe whose session uses the area */
#define IP_AREA_LOCK_PATCH   1 /* held while text is being changed */

/* A module that has ever been patched in this process family. Its stubs have fixed places and numbers for good, so
 * that writing them again changes no byte under a thread that may still be on its way through. */
struct ip_area_module {
	uint64_t load_bias;
	uint64_t stubs;	       /* where they start (hotpatcher/plan/stub_layout.h) */
	uint32_t first_number; /* function f has number first_number + 2 f, its inlined instances the next one
				*/
	uint32_t nfunctions;
	uint32_t build_id_size; /* 0: entry unused */
	uint8_t build_id[32];
	uint32_t pool; /* IP_POOL_... that they lie in, or IP_POOL_OWN */
};

#define IP_NUMBERS_PER_FUNCTION 2u

struct ip_area_header {
	uint64_t magic;
	uint32_t abi;
	uint32_t session;    /* number of the last session; never repeats */
	uint32_t nsubbufs;   /* in this session's pool */
	int32_t nfree;	     /* atomic, a hint: <= 0 means do not search */
	uint32_t hint;	     /* where the next search starts */
	uint32_t slots_used; /* atomic: slots ever claimed in this session lie below it */
	uint64_t unserved;   /* atomic: events lost because no slot was free */
	uint32_t owner_pid;  /* the iprobe of the last session, for messages */
	uint32_t nmodules;
	uint64_t stubs_used[IP_POOLS]; /* bytes handed out */
	/* iprobe run: the launcher makes the area, the constructor reports and waits. */
	uint32_t ready;	      /* futex: number of images that reached their constructor */
	uint32_t go;	      /* futex: images released; an image waits until go >= its ready */
	int32_t run_pid;      /* only this process may use the area that IPROBE_AREA names */
	uint32_t ended;	      /* number of a session that iprobe detach has ended from outside */
	uint32_t session_pid; /* target of the session, as its iprobe names it */
	uint32_t npayloads;   /* payload numbers given for good, 0 included, which is none */
	uint32_t user;	      /* 1: the session has a payload of the user's */
	uint32_t
		last_session; /* atomic: the last number given, to a session or to a forked child that records */
	uint32_t follow;      /* as in struct ip_rt_private; who clears it here stops children at once */
	uint32_t refused; /* atomic, of FPerf's hooks: a system call has failed, so they make none any more */
	uint32_t modes;	  /* of the session, IP_MODE_..., for the next iprobe */
	uint32_t
		nmeters; /* blocks of meters (struct ip_meters), the shared one included, a power of two; 0: none */
	/* for the next iprobe, too; hooks have theirs in struct ip_rt_private */
	uint64_t meters, meters_size;
	uint32_t
		meters_all; /* blocks that the session began with, a power of two; nmeters: that are handed out now */
	uint32_t fperf;
	uint32_t meters_hint; /* where the next search for a free block starts: the lowest come first */
	uint32_t share;	      /* sessions that overwrite: sub-buffers that a thread may have */
	uint32_t reserve;     /* the same: so many stay free for threads that have none yet */
	uint32_t inherit;     /* the launcher's: 1: forked children get the area */
};

/*
 * What a session wants besides the common case: every function logged, with precise time. Slots have a copy (struct ip_slot).
 *
 * The hooks' common path does not look at them: in a session with one of IP_MODES_MARKED threads note the session's number with
 * IP_SESSION_MARK (rt_self.session, slot->session), so that the comparison with the gate, which that path makes anyway, fails. Whoever
 * compares such a number takes the mark off (IP_SESSION_NUMBER).
 */
#define IP_MODE_CAREFUL	  1u /* every event goes through C (record.c): filters, call sites */
#define IP_MODE_COARSE	  2u /* stamps are the clock line's (struct ip_area_clock) */
#define IP_MODE_PAYLOADS  4u /* duties[] say what a probe does */
#define IP_MODE_OVERWRITE 8u /* where no sub-buffer is free, a thread writes over its oldest */
/* The TSC is not to be trusted: stamps are CLOCK_MONOTONIC_RAW, by a system call, in nanoseconds; every event goes through C. Where may_read
 * is 0 they are the clock line's. */
#define IP_MODE_MONOTONIC 16u
#define IP_MODES_MARKED	  (IP_MODE_CAREFUL | IP_MODE_COARSE | IP_MODE_PAYLOADS | IP_MODE_MONOTONIC)

#define IP_SESSION_MARK		  0x80000000u /* no session's number has it */
#define IP_SESSION_NUMBER(marked) ((marked) & ~IP_SESSION_MARK)

/* A line of its own in the header's page (IP_AREA_CLOCK_OFFSET): only the iprobe of a session with IP_MODE_COARSE writes it, and all
 * threads of the target read it. */
struct ip_area_clock {
	uint64_t now; /* TSC, read just before it was stored; never goes back */
	uint64_t reserved[7];
};

/*
 * Payloads of functions (IP_MODE_PAYLOADS). duties[number] says what the probes of a number do in this session: an enum ip_duty in the
 * low 3 bits, above them (a multiple of 8, so that no shift is needed) the offset in each thread's block of meters where
 * the function has its own: IP_DUTY_COUNT a uint64_t, IP_DUTY_HIST and IP_DUTY_TIMED a struct ip_hist. 0 is IP_DUTY_LOG: what the hotpatcher has not said
 * is logged. It allocates the table's pages for all numbers in use before the first site goes live, since no read may hit a hole; an entry
 * may change at any time while probes are live, from one duty to another whose meters exist.
 *
 * Calls are counted at entry probes: the others of such a function need not be live (they do nothing). A histogram takes both.
 *
 * A thread takes a block with its slot (slot->block) and has it to itself: adding to it is one instruction that is not locked, so that
 * only handlers of the same thread compete. Where no block is free it has none; its calls are counted in block 0, which is shared, with
 * locked instructions, and its durations are counted there as unmeasured. When the thread has ended, the collector adds what the block holds to what it has, and
 * zeroes it before it gives it back (FREE). Reading a live block is always right but for what is being added just now: words only grow.
 *
 * The blocks lie behind the sub-buffers and are part of what --memory allows; functions have consecutive places, so that only those
 * selected cost memory. Where more come than there is room for, the upper half of the blocks is not handed out any more: block i + nmeters / 2 becomes
 * more room of block i, at an offset that is the same for each.
 */
enum ip_duty {
	IP_DUTY_LOG = 0,
	IP_DUTY_COUNT = 1,
	IP_DUTY_HIST = 2,
	IP_DUTY_USER =
		3, /* calls the user's own (include/iprobe/payload.h); offset: of a struct ip_user_function in block 0, of the cell in others */
	IP_DUTY_SILENT = 4, /* nothing */
	IP_DUTY_FPERF =
		5, /* reads counters (fperf_abi.h); offset: of a struct ip_fperf_control in block 0, of an ip_fperf_cell in others */
	IP_DUTY_TIMED = 6, /* as HIST, and each event is logged besides */
	IP_DUTY_JOIN =
		7, /* nobody has selected it, but measured calls go on in it that have jumped to it, and end with it (runtime/open_calls.h) */
	IP_DUTY_JUMP =
		8 |
		IP_DUTY_JOIN, /* tail exits of the function whose number is one less: its call goes on where they lead. Logged if that is */
};

#define IP_DUTY_MASK	      7u
#define IP_DUTY(duty, offset) ((uint32_t)(duty) | (uint32_t)(offset))
#define IP_DUTY_OFFSET(word)  ((word) & ~IP_DUTY_MASK)

/* Durations in TSC ticks; self is what lies in no other measured call (runtime/meters.c tells whose time is taken off whose). buckets[0] has those below 2^IP_HIST_SHIFT, the last one those above the last bound, and i in between those of
 * [2^(IP_HIST_SHIFT + i - 1), 2^(IP_HIST_SHIFT + i)). Two cache lines, of which calls below 2^14 ticks touch only the first. Buckets
 * wrap: who reads them less than 60 s apart adds the differences (no thread makes 2^32 measured calls in that time). */
#define IP_HIST_BUCKETS 24u
#define IP_HIST_SHIFT	7u

struct ip_hist {
	uint64_t sum; /* of the durations */
	uint64_t self;
	uint32_t max;	     /* ip_hist_pack() of it */
	uint32_t min;	     /* ~ of ip_hist_pack() of it, so that 0 says none */
	uint32_t unmeasured; /* entries of which no duration is known: runtime/meters.c tells why */
	uint32_t
		recent; /* what hooks.S makes of the last duration: its most significant bit, at least IP_HIST_SHIFT - 1 */
	uint32_t buckets[IP_HIST_BUCKETS];
};

/* That of a function that has tail exits (IP_PROBE_TAIL_EXIT, also ones that are followed): a line more, which only they touch. */
struct ip_hist_tails {
	struct ip_hist hist;
	uint64_t
		tailed; /* calls that ended at a tail exit, their own or that of a function that they had jumped to */
	uint64_t reserved[7];
};

/* Ticks in 32 bits, in their order: below 2^31 as they are, above with the 27 bits that count most. */
static inline uint32_t ip_hist_pack(uint64_t ticks)
{
	unsigned more = ticks >> 31 ? 32 - __builtin_clzll(ticks) : 0; /* top bit, from 31 on */

	return ticks >> 31 ? 1u << 31 | more << 26 | ((uint32_t)(ticks >> (more + 5)) & 0x3ffffff)
			   : (uint32_t)ticks;
}

/* The least that it may stand for; */
static inline uint64_t ip_hist_unpack(uint32_t packed)
{
	return packed >> 31 ? (1ull << 26 | (packed & 0x3ffffff)) << ((packed >> 26 & 31) + 5) : packed;
}

/* and the most. */
static inline uint64_t ip_hist_unpack_most(uint32_t packed)
{
	return ip_hist_unpack(packed) + (packed >> 31 ? (1ull << ((packed >> 26 & 31) + 5)) - 1 : 0);
}

/* A call that is open. */
struct ip_meters_frame {
	uint64_t sp;	/* as trace_format.h has it; 0: none, or not yet filled */
	uint64_t time;	/* TSC */
	uint64_t duty;	/* its word */
	uint64_t inner; /* ticks of measured calls that it has made, and that have ended */
};

enum ip_meters_state {
	IP_METERS_FREE = 0,
	IP_METERS_OWNED = 1,
	IP_METERS_PART = 2, /* more room of another block: its state alone is a head's */
	IP_METERS_LEFT =
		3, /* free, but what its last thread held of the kernel's is noted there (fperf_pmu_abi.h): no part of another */
};

/* What a hook has to know of a function with IP_DUTY_USER, in the shared block. */
struct ip_user_function {
	uint32_t cell;	/* distance from the duty's offset to the function's cell, in each thread's block */
	uint16_t frame; /* as struct ip_rule has them */
	uint16_t flags;
	char name[]; /* the linker's, and a zero */
};

/* Begins a block: this head, meters_depth frames, then the functions' meters, those with histograms aligned to cache lines. */
struct ip_meters {
	uint32_t state;	 /* atomic, enum ip_meters_state; block 0 is always owned */
	uint32_t slot;	 /* whose */
	uint64_t top;	 /* frames that are open, in bytes: the next one lies at frames + top */
	uint64_t jumped; /* how many of them go on in another function */
	uint64_t busy;	 /* stack pointer of the hook that the user's payload runs in; 0: it does not */
	/* These stand as a frame below the first would: the caller of a call that no other is around. */
	uint64_t outmost;   /* its stack pointer: all ones, since it is above any; a block of nobody has 0 */
	uint64_t reentered; /* calls of the user's payload that were left out, since it was running */
	uint64_t reserved;
	uint64_t inner; /* ticks of such calls */
	struct ip_meters_frame frames[];
};

#define IP_METERS_HEAD 64u

/* What a careful session leaves out (runtime/filter.c). Lies behind the header, in its page; written before the gate opens, but for what
 * is said to be the hooks'. */
struct ip_filters {
	uint64_t min_ticks; /* shorter calls leave nothing; 0: all are kept */
	uint32_t depth;	    /* calls with as many frames below them leave nothing; 0: all are kept */
	uint32_t frames;    /* 1: threads need a stack of frames */
	uint32_t callsite;  /* 1: entries tell where the call comes from */
	uint32_t threads;   /* 1: threads[] alone; 2: iprobe says of each slot (wanted); 3: both; 0: all */
	uint32_t nrules;    /* numbers below it have a rule */
	uint32_t start_after, stop_after; /* calls of a function with such a rule; 0: none */
	/* the hooks', atomic */
	uint32_t started, stopped, start_calls, stop_calls;
	uint32_t nthreads;
	uint32_t thread[IP_FILTER_THREADS]; /* ids as the target names them */
};

/* Of one number; for sampling, for telling frames apart, and to find return addresses. */
struct ip_rule {
	uint32_t every; /* one call in so many is kept; 0: each */
	uint32_t count; /* atomic, the hooks': calls so far */
	uint32_t group; /* the least number of the same function: instances and parts */
	uint16_t
		frame; /* from the stack pointer at the entry site up to the caller's before its call; 0: not known */
	uint16_t flags;
};

#define IP_RULE_START	1u /* trigger */
#define IP_RULE_STOP	2u
#define IP_RULE_INLINED 4u /* its frame is its host's */
#define IP_RULE_EXACT	8u /* entry and exit have the same stack pointer */
#define IP_RULE_NO_EXIT 16u
#define IP_RULE_SITE                                                                                         \
	32u /* the site's own return address, below its stack pointer, is what is known of the caller */
#define IP_RULE_SILENT 128u /* it was not selected: recorded only where a call goes on in it */
#define IP_RULE_JUMP   64u  /* second number of a function: its tail exits lead on to where exits are live */

#define IP_TAIL(ordinal, events) ((uint64_t)(ordinal) << IP_POSITION_BITS | ((events)&IP_POSITION_MASK))
#define IP_TAIL_EVENTS(tail)	 ((tail)&IP_POSITION_MASK)
/* How many sub-buffers lie between the oldest that is kept and one with that ordinal. */
#define IP_TAIL_DISTANCE(tail, ordinal) ((uint16_t)((ordinal) - ((tail) >> IP_POSITION_BITS)))
#define IP_SUBBUF_ROOM			(IP_SUBBUF_WORDS - 1u) /* words of it that can hold records */

/* Values. A payload stub passes a payload number, which is the stub's for the life of the process; the session says in
 * payloads[] what it means now: whose event it is, and which program reads its values. So a thread that has been on its
 * way through a stub since an earlier session finds no other bytes there, and at worst records an event without values.
 *
 * A program is read by hooks while another session may write it: session is 0 then, and a hook that finds another value than
 * its own session's in front of or behind its copying has copied nothing of use. */
struct ip_payload {
	uint32_t number;  /* of the event; 0: silent */
	uint32_t program; /* index + 1; 0: without values */
};

enum ip_value_source {
	IP_VALUE_REGISTER = 1,	/* general register base (as the machine numbers them) */
	IP_VALUE_IMMEDIATE = 2, /* value */
	IP_VALUE_MEMORY = 3,	/* at value + base + index * scale */
	IP_VALUE_VECTOR = 4,	/* low bytes of vector register base */
	IP_VALUE_X87 = 5,	/* st(0), two words */
};

#define IP_VALUE_SIGNED	 1u    /* extend with the sign */
#define IP_VALUE_STRING	 2u    /* it is the address of one; values.h tells the words */
#define IP_VALUE_LONG	 4u    /* 16 bytes in memory, of which 10 count: two words */
#define IP_VALUE_NOTHING 0xffu /* base, index: none */
#define IP_PROGRAM_OPS	 16u
#define IP_PROGRAM_WORDS 512u /* of values: what a hook takes of the thread's stack */

struct ip_value_op {
	uint8_t source; /* enum ip_value_source */
	uint8_t size;	/* 1, 2, 4, 8 */
	uint8_t flags;
	uint8_t base, index, scale;
	uint16_t limit; /* of a string, bytes */
	int64_t value;
};

struct ip_value_program {
	uint32_t session;
	uint32_t signature;
	uint32_t nops;
	uint32_t max_words; /* that the values can take */
	struct ip_value_op ops[IP_PROGRAM_OPS];
};

enum ip_slot_wanted {
	IP_SLOT_WANTED = 0,
	IP_SLOT_UNDECIDED = 1, /* iprobe has not looked yet: silent */
	IP_SLOT_UNWANTED = 2,
};

enum ip_slot_state {
	IP_SLOT_FREE = 0,
	IP_SLOT_CLAIMED = 1,
	IP_SLOT_CLAIMING = 2, /* being set up by its thread */
	IP_SLOT_LATE = 3,     /* a hook of an earlier session may still be at it: nobody's in this one */
};

struct ip_slot {
	/* the owner's line */
	uint64_t cur;
	uint64_t
		guard; /* stack pointer of the outermost hook in flight that writes records or meters; 0: none */
	uint64_t last_sp; /* of the last record */
	uint64_t
		epoch; /* time >> IP_TIME_BITS of the last record; ~0: the next one is extended. With coarse time its stamp */
	uint64_t lost;
	uint64_t leaving;   /* index + 1 of the sub-buffer that the outermost hook has left last */
	uint64_t last_time; /* of the last record of a careful session */
	uint64_t tail;	    /* of sessions that overwrite: see above */
	/* set at the claim */
	uint32_t state; /* atomic, enum ip_slot_state */
	uint32_t tid;
	uint32_t pid;
	uint32_t session;    /* with IP_SESSION_MARK where its modes are marked */
	uint64_t claimed;    /* tsc */
	uint64_t last_stamp; /* of sessions with IP_MODE_MONOTONIC: the latest time that was read */
	uint32_t modes;	     /* of the session */
	uint32_t
		block; /* number of the thread's block of meters; 0: none. Hooks have their own note of it (runtime/meters.h) */
	uint64_t filtered; /* events that left nothing because of struct ip_filters */
	uint32_t held;	   /* entries that are held back now: filtered, too, if nothing follows */
	uint32_t memory;   /* index + 1 of a sub-buffer that runtime/filter.c works in; 0: none */
	uint32_t wanted;   /* enum ip_slot_wanted */
	uint32_t
		oldest; /* index of the oldest sub-buffer that is kept; a hint. In sessions with meters 1: a hook may be in flight though guard is 0 */
};

enum ip_subbuf_state {
	IP_SUBBUF_FREE = 0,
	IP_SUBBUF_OWNED = 1,
	IP_SUBBUF_FULL = 2,
	IP_SUBBUF_TAKEN = 3, /* by the collector, which is about to free it */
	IP_SUBBUF_LEFT = 4,  /* suspect, given up by its thread: the collector's */
};

struct ip_subbuf {
	uint32_t state;	  /* atomic, enum ip_subbuf_state */
	uint32_t slot;	  /* IP_NO_SLOT: of nobody yet, or taken out of circulation */
	uint64_t ordinal; /* position / IP_SUBBUF_WORDS at which the slot took it */
	uint64_t lost;	  /* slot->lost at that moment: losses before this sub-buffer */
	uint16_t suspect; /* not to be reused in this session: a hook may fill words of it late */
	uint16_t surplus; /* words that are no event: padding, and all but one of an extended record's */
	uint32_t next;	  /* index of the one that the slot took after it; a hint */
};

/* Offsets in the memfd; each a multiple of the page size. FIRSTS: a module's first payload number, 0: it has none yet; from PAYLOADS on
 * the file has holes up to the sub-buffers, but for what a session uses. */
#define IP_AREA_MODULES_OFFSET 4096ull
#define IP_AREA_SLOTS_OFFSET   (IP_AREA_MODULES_OFFSET + IP_AREA_MODULES * 64ull)
#define IP_AREA_SUBBUFS_OFFSET (IP_AREA_SLOTS_OFFSET + IP_AREA_SLOTS * 128ull)
#define IP_AREA_FIRSTS_OFFSET                                                                                \
	(IP_AREA_SUBBUFS_OFFSET + IP_AREA_SUBBUFS * 32ull + 4096ull) /* behind a cover */
#define IP_AREA_PAYLOADS_OFFSET (IP_AREA_FIRSTS_OFFSET + IP_AREA_MODULES * 4ull)
#define IP_AREA_PROGRAMS_OFFSET (IP_AREA_PAYLOADS_OFFSET + IP_AREA_PAYLOADS * 8ull)
#define IP_AREA_DUTIES_OFFSET	(IP_AREA_PROGRAMS_OFFSET + IP_AREA_PROGRAMS * 272ull)
#define IP_AREA_RULES_OFFSET	(IP_AREA_DUTIES_OFFSET + IP_AREA_DUTIES * 4ull)
#define IP_AREA_DATA_OFFSET	(IP_AREA_RULES_OFFSET + IP_AREA_RULES * 16ull)
#define IP_AREA_CLOCK_OFFSET	2048ull
#define IP_AREA_FILTERS_OFFSET	2560ull /* struct ip_filters */

#define IP_AREA_DUTIES	 (1u << 21) /* all probe numbers */
#define IP_AREA_PAYLOADS (1u << 20)
#define IP_AREA_PROGRAMS (1u << 15)
#define IP_AREA_RULES	 (1u << 21) /* numbers */

/* Covers: pages of the mapping that are not the file's (runtime/area.c): behind the descriptors, and at the start of some sub-buffers, which
 * nobody takes (OWNED, of no slot), close enough for a usual limit on stacks. Blocks of meters lie beyond them. */
#define IP_AREA_COVERS	10u
#define IP_COVER_STRIDE 240u /* sub-buffers: 7.5 MiB */
#define IP_COVER_LAST	((IP_AREA_COVERS - 1) * IP_COVER_STRIDE)

/* Where one lies, an offset; below IP_AREA_COVERS. */
static inline uint64_t ip_area_cover(unsigned i)
{
	return i ? IP_AREA_DATA_OFFSET + (uint64_t)i * IP_COVER_STRIDE * IP_SUBBUF_SIZE
		 : IP_AREA_FIRSTS_OFFSET - 4096;
}

static inline int ip_subbuf_is_cover(uint32_t i)
{
	return i && i <= IP_COVER_LAST && i % IP_COVER_STRIDE == 0;
}

/* Where the runtime asks for it, 64 bits: up to 256 GiB above. The kernel's own mappings begin at least 200 GiB further up, from the stack
 * downwards, or at a third of the address space; and ThreadSanitizer bears mappings from 0x7e8000000000 on only. */
#define IP_AREA_PLACE	    0x7e8100000000ull
#define IP_AREA_PLACE_RANGE 0x4000000000ull

#define IP_AREA_OWN_SIZE (312ull << 20) /* mapped of an area that the runtime makes itself */

#define IP_AREA_WINDOW_MAX (IP_AREA_DATA_OFFSET + (uint64_t)IP_AREA_SUBBUFS * IP_SUBBUF_SIZE)

_Static_assert(sizeof(struct ip_area_module) == 64 && sizeof(struct ip_slot) == 128 &&
		       sizeof(struct ip_subbuf) == 32 && sizeof(struct ip_value_program) == 272 &&
		       sizeof(struct ip_flip) == 192 + IP_FLIP_PIECES * 32,
	       "ABI");
_Static_assert(sizeof(struct ip_hist) == 128 && sizeof(struct ip_meters) == IP_METERS_HEAD &&
		       offsetof(struct ip_meters, outmost) ==
			       IP_METERS_HEAD - sizeof(struct ip_meters_frame) &&
		       offsetof(struct ip_meters, inner) - offsetof(struct ip_meters, outmost) ==
			       offsetof(struct ip_meters_frame, inner) &&
		       sizeof(struct ip_meters_frame) == 32 &&
		       sizeof(struct ip_area_header) <= IP_AREA_CLOCK_OFFSET,
	       "meters");
_Static_assert(sizeof(struct ip_rule) == 16 &&
		       IP_AREA_CLOCK_OFFSET + sizeof(struct ip_area_clock) <= IP_AREA_FILTERS_OFFSET &&
		       IP_AREA_FILTERS_OFFSET + sizeof(struct ip_filters) <= IP_AREA_MODULES_OFFSET,
	       "filters lie in the header's page");
_Static_assert(sizeof(struct ip_again_slot) == IP_AGAIN_SLOT &&
		       offsetof(struct ip_again_slot, calls) == 192 &&
		       offsetof(struct ip_again_slot, owner) == 200 &&
		       offsetof(struct ip_again_slot, result) == 216,
	       "arch/x86_64/again.S");
_Static_assert(sizeof(struct ip_rt_private) == 96 && offsetof(struct ip_rt_private, user_call) == 56 &&
		       offsetof(struct ip_rt_private, inherited) == 92,
	       "the same for runtimes of 32 and 64 bits: the tool writes all of it");
_Static_assert(sizeof(struct ip_again) == 192 && offsetof(struct ip_again, arguments) == 16 &&
		       offsetof(struct ip_again, time) == 72 && offsetof(struct ip_again, rest) == 96 &&
		       offsetof(struct ip_again, poll_fd) == 184,
	       "arch/ARCH/again.S");
/* 32-bit compilers align 64-bit numbers to 4 bytes in a structure: where each lies must not depend on that. */
_Static_assert(offsetof(struct ip_rt_anchor, area) == 16 && offsetof(struct ip_rt_anchor, hooks) == 48 &&
		       offsetof(struct ip_rt_anchor, fperf_abi) == 348 &&
		       offsetof(struct ip_area_header, unserved) == 32 &&
		       offsetof(struct ip_area_header, stubs_used) == 48 &&
		       offsetof(struct ip_area_module, build_id) == 28 &&
		       offsetof(struct ip_slot, claimed) == 80 &&
		       offsetof(struct ip_slot, last_stamp) == 88 && offsetof(struct ip_slot, modes) == 96 &&
		       offsetof(struct ip_area_header, modes) == 104 &&
		       offsetof(struct ip_rt_private, nsubbufs) == 24 &&
		       offsetof(struct ip_rt_private, user_call) == 56 &&
		       offsetof(struct ip_area_header, meters) == 112 &&
		       offsetof(struct ip_subbuf, lost) == 16,
	       "the ABI is the same for 32 and 64 bits");

/* Environment of iprobe run: path of the area's memfd. */
#define IP_ENV_AREA "IPROBE_AREA"

#endif
