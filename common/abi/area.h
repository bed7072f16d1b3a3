/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ABI: the memory that the runtime in the target and iprobe outside share. Types have fixed widths;
 * there are no pointers and no libc, since both sides include this file.
 *
 * There are four pieces of memory:
 *
 *   anchor   data of libiprobe-rt.so, exported as iprobe_rt_anchor. It says where the other pieces
 *            are. The runtime's constructor writes it once; iprobe reads it from outside.
 *   gate     one private page of the target. The kernel clears it in a forked child
 *            (MADV_WIPEONFORK). gate->session is the session that records; 0: none. Only the
 *            hotpatcher writes the gate: it opens the gate while the target is stopped, and
 *            closes it at any time. There is one exception: a forked child of a session that
 *            follows forks opens its own gate.
 *   private  data of the runtime (struct ip_rt_private). It decides where hooks read, write and
 *            jump. Only the hotpatcher writes it, through /proc/PID/mem, while the gate is closed.
 *   area     a shared memfd. Forked children do not get it (runtime/area.c), unless they are
 *            followed. It holds the header, modules, slots (one a thread), descriptors of
 *            sub-buffers, which values to record where, what functions do, sub-buffers, counts
 *            and histograms. A followed child shares it with its parent. One session at a time
 *            uses it: that session holds an OFD write lock on byte IP_AREA_LOCK_SESSION of the
 *            memfd.
 *
 * The target may overwrite everything in the area. So may any other process that has the area
 * mapped: a followed child, whose credentials may differ from its parent's by now. Therefore the
 * collector checks every index. Hooks check every index too, against struct ip_rt_private. The area
 * contains no addresses. No address that is computed from its contents lies outside of the memory
 * that the file has room for.
 */
#ifndef IP_ABI_AREA_H
#define IP_ABI_AREA_H

#include "common/abi/anchor.h"
#include "common/abi/filters.h"
#include "common/abi/meters.h"
#include "common/abi/ring.h"
#include "common/abi/values.h"

#include <stddef.h>
#include <stdint.h>

#define IP_AREA_MAGIC 0x414165626f727069ull /* "iprobeAA" */

struct ip_gate {
	uint32_t session; /* 0: hooks record nothing */
	/* process that the session belongs to, in its own namespace: a vfork child shares the gate,
	 * but records nothing */
	uint32_t pid;
	/* the hotpatcher's number of the session; a followed child has its own number in
	 * `session` */
	uint32_t base;
	uint32_t reserved;
};

#define IP_AREA_SLOTS	8192u
#define IP_AREA_MODULES 1024u
/* OFD write locks on bytes of the memfd; the kernel drops them when their holder dies. */
#define IP_AREA_LOCK_SESSION 0 /* held by the iprobe whose session uses the area */
#define IP_AREA_LOCK_PATCH   1 /* held while text is being changed */

/* A module that has ever been patched in this process family. The places and numbers of its stubs
 * never change. So writing the stubs again changes no byte under a thread that may still be running
 * through them. */
struct ip_area_module {
	uint64_t load_bias;
	uint64_t stubs; /* address of the first stub (hotpatcher/plan/stub_layout.h) */
	/* function f has number first_number + 2 f, its inlined instances have the next number */
	uint32_t first_number;
	uint32_t nfunctions;
	uint32_t build_id_size; /* 0: entry unused */
	uint8_t build_id[32];
	uint16_t pool; /* pool that the stubs lie in: IP_POOL_..., or IP_POOL_OWN */
	/* 1: the module's list had the functions of its PLT behind its own (struct ip_module). A
	 * module may have one entry with them and one without */
	uint16_t plt;
};

#define IP_NUMBERS_PER_FUNCTION 2u

struct ip_area_header {
	uint64_t magic;
	uint32_t abi;
	uint32_t session;    /* number of the last session; it never repeats */
	uint32_t nsubbufs;   /* in this session's pool */
	int32_t nfree;	     /* atomic; a hint: if it is <= 0, threads do not search */
	uint32_t hint;	     /* where the next search starts */
	uint32_t slots_used; /* atomic; every slot that was claimed in this session lies below it */
	uint64_t unserved;   /* atomic; events lost because no slot was free */
	uint32_t owner_pid;  /* the iprobe of the last session, for messages */
	uint32_t nmodules;
	uint64_t stubs_used[IP_POOLS]; /* bytes handed out */
	/* iprobe run: the launcher makes the area, the constructor reports and waits. */
	uint32_t ready;	 /* futex: number of images whose constructor has run */
	uint32_t go;	 /* futex: images released; an image waits until go >= its ready */
	int32_t run_pid; /* only this process may use the area that IPROBE_AREA names */
	/* number of a session that ends: iprobe detach has ended it from outside, or its iprobe
	 * has begun to */
	uint32_t ended;
	uint32_t session_pid; /* target of the session, as its iprobe names it */
	/* payload numbers that are given out and never change, number 0 included, which means
	 * none */
	uint32_t npayloads;
	uint32_t user; /* 1: the session has a payload of the user */
	/* atomic: the last number that was given, to a session or to a forked child that records */
	uint32_t last_session;
	/* as in struct ip_rt_private; clearing it here stops children at once */
	uint32_t follow;
	/* atomic, written by FPerf's hooks; 1: a system call has failed, so they make no more */
	uint32_t refused;
	uint32_t modes; /* IP_MODE_... of the session, for the next iprobe */
	/* blocks of meters (struct ip_meters) that are handed out now, the shared one included; a
	 * power of two; 0: none */
	uint32_t nmeters;
	/* for the next iprobe; hooks use the copy in struct ip_rt_private */
	uint64_t meters, meters_size;
	/* blocks that the session began with, a power of two */
	uint32_t meters_all;
	uint32_t fperf;
	/* where the next search for a free block starts: threads take the lowest free blocks
	 * first */
	uint32_t meters_hint;
	/* sessions that overwrite: the number of sub-buffers that a thread may have */
	uint32_t share;
	/* sessions that overwrite: free sub-buffers to keep for threads that have none yet */
	uint32_t reserve;
	uint32_t inherit; /* written by the launcher; 1: forked children get the area */
	/* number of the session, if it ends when another iprobe attaches. Written by the iprobe of
	 * the session; 0 by the other one, before that sets ended */
	uint32_t yields;
	/* 1: the area was made for a forked process, whose pools may hold its parent's stubs */
	uint32_t renewed;
	uint32_t written; /* number of a session whose trace is closed */
	/* number of a session whose sites iprobe detach has put back from outside, and when that
	 * was done (CLOCK_MONOTONIC_RAW). Only iprobes use it, and the target can write it */
	uint32_t idle;
	uint64_t idle_ns;
	/* 1: a hook may be in flight that no slot tells of any more. Only iprobes use it
	 * (hotpatcher/shm/late_slots.h) */
	uint32_t doubt;
	uint32_t reserved;
};

/*
 * What a session wants besides the common case. In the common case every function is logged, with
 * precise time. Each slot has a copy of the modes (struct ip_slot).
 *
 * The common path of the hooks does not look at the modes. In a session with one of
 * IP_MODES_MARKED, threads note the session's number with IP_SESSION_MARK (rt_self.session,
 * slot->session). Then the comparison with the gate, which the common path makes anyway, fails.
 * Code that compares such a number removes the mark first (IP_SESSION_NUMBER).
 */
#define IP_MODE_CAREFUL	  1u /* every event goes through C (record.c): filters, call sites */
#define IP_MODE_COARSE	  2u /* stamps come from struct ip_area_clock */
#define IP_MODE_PAYLOADS  4u /* duties[] say what a probe does */
#define IP_MODE_OVERWRITE 8u /* if no sub-buffer is free, a thread overwrites its oldest one */
/* The TSC is not reliable. Stamps are CLOCK_MONOTONIC_RAW in nanoseconds, read by a system call,
 * and every event goes through C. If may_read is 0, stamps come from struct ip_area_clock. */
#define IP_MODE_MONOTONIC 16u
/* with IP_MODE_CAREFUL: for call sites alone. Hooks record these in line, as the runtime's
 * arch/ARCH/record_paths.S tells; one that does not know this mode goes through C */
#define IP_MODE_SITES 32u
/* with IP_MODE_CAREFUL: a thread records within functions with IP_RULE_WITHIN alone
 * (runtime/flow.h) */
#define IP_MODE_WITHIN 64u
/* with IP_MODE_WITHIN: there is nothing else to be careful for. Hooks do it in line as for
 * IP_MODE_SITES */
#define IP_MODE_ALONE	128u
#define IP_MODES_MARKED (IP_MODE_CAREFUL | IP_MODE_COARSE | IP_MODE_PAYLOADS | IP_MODE_MONOTONIC)

#define IP_SESSION_MARK		  0x80000000u /* no session's number has this bit */
#define IP_SESSION_NUMBER(marked) ((marked) & ~IP_SESSION_MARK)

/* A cache line of its own in the header's page (IP_AREA_CLOCK_OFFSET). Only the iprobe of a session
 * with IP_MODE_COARSE or IP_MODE_MONOTONIC writes it. All threads of the target read it. */
struct ip_area_clock {
	uint64_t now; /* TSC, read just before it was stored; it never decreases */
	uint64_t reserved[7];
};

/* Where the trace of a session lies, for the iprobe that goes on with it (IP_AREA_TRACE_OFFSET, in
 * the header's page). Only iprobes use it, and the target can write it: it is a hint. */
#define IP_AREA_TRACE_MAX 1000u
struct ip_area_trace {
	uint32_t session;
	uint32_t reserved;
	char path[IP_AREA_TRACE_MAX]; /* absolute, ends with a zero */
};

/* Offsets in the memfd; each is a multiple of the page size. The table at FIRSTS holds the first
 * payload number of each module; 0: the module has none yet. From PAYLOADS on, up to the
 * sub-buffers, the file has holes except for the pages that a session uses. */
#define IP_AREA_MODULES_OFFSET 4096ull
#define IP_AREA_SLOTS_OFFSET   (IP_AREA_MODULES_OFFSET + IP_AREA_MODULES * 64ull)
#define IP_AREA_SUBBUFS_OFFSET (IP_AREA_SLOTS_OFFSET + IP_AREA_SLOTS * 128ull)
#define IP_AREA_FIRSTS_OFFSET                                                                      \
	(IP_AREA_SUBBUFS_OFFSET + IP_AREA_SUBBUFS * 32ull + 4096ull) /* behind a cover */
#define IP_AREA_PAYLOADS_OFFSET (IP_AREA_FIRSTS_OFFSET + IP_AREA_MODULES * 4ull)
#define IP_AREA_PROGRAMS_OFFSET (IP_AREA_PAYLOADS_OFFSET + IP_AREA_PAYLOADS * 8ull)
#define IP_AREA_DUTIES_OFFSET	(IP_AREA_PROGRAMS_OFFSET + IP_AREA_PROGRAMS * 272ull)
#define IP_AREA_RULES_OFFSET	(IP_AREA_DUTIES_OFFSET + IP_AREA_DUTIES * 4ull)
#define IP_AREA_DATA_OFFSET	(IP_AREA_RULES_OFFSET + IP_AREA_RULES * 16ull)
#define IP_AREA_TRACE_OFFSET	1024ull
#define IP_AREA_CLOCK_OFFSET	2048ull
#define IP_AREA_FILTERS_OFFSET	2560ull /* struct ip_filters */

#define IP_AREA_DUTIES	 (1u << 21) /* one for each probe number */
#define IP_AREA_PAYLOADS (1u << 20)
#define IP_AREA_PROGRAMS (1u << 15)
#define IP_AREA_RULES	 (1u << 21) /* one for each number */

/* Covers: pages of the mapping that are not pages of the file (runtime/area.c). One lies behind the
 * descriptors. The others lie at the start of some sub-buffers, which no thread takes (state OWNED,
 * no slot). They are close enough to each other for a usual limit on stacks. Blocks of meters lie
 * beyond them. */
#define IP_AREA_COVERS	10u
#define IP_COVER_STRIDE 240u /* sub-buffers: 7.5 MiB */
#define IP_COVER_LAST	((IP_AREA_COVERS - 1) * IP_COVER_STRIDE)

/* The offset of cover i; i is below IP_AREA_COVERS. */
static inline uint64_t ip_area_cover(unsigned i)
{
	return i ? IP_AREA_DATA_OFFSET + (uint64_t)i * IP_COVER_STRIDE * IP_SUBBUF_SIZE
		 : IP_AREA_FIRSTS_OFFSET - 4096;
}

static inline int ip_subbuf_is_cover(uint32_t i)
{
	return i && i <= IP_COVER_LAST && i % IP_COVER_STRIDE == 0;
}

/* The address that the runtime asks for, on 64 bits: between this one and 256 GiB above it. The
 * kernel's own mappings begin at least 200 GiB further up: it places them from the stack downwards,
 * or from a third of the address space on. ThreadSanitizer tolerates mappings from 0x7e8000000000
 * on only. */
#define IP_AREA_PLACE	    0x7e8100000000ull
#define IP_AREA_PLACE_RANGE 0x4000000000ull

/* Bytes from the start to the end of the mapping of an area that the runtime makes itself: of one
 * that cannot grow, and the most that one can grow to... */
#define IP_AREA_OWN_SIZE (312ull << 20)
/* ... and of one that can grow, at first: it ends behind the first covers, 16 sub-buffers into the
 * memory that the next one will protect. (The last part must be memory of the file: a cover does
 * not grow upwards.) */
#define IP_AREA_SMALL_SIZE (IP_AREA_DATA_OFFSET + (2ull * IP_COVER_STRIDE + 16) * IP_SUBBUF_SIZE)

/* Tables of payloads, programs, duties and rules, which lie between these offsets. Where no session
 * has needed them yet, an area that can grow has nothing mapped there. Then hooks take the memory
 * of sub-buffers for the table of duties (runtime/area_window.c), so the file has that much. */
#define IP_AREA_TABLES_OFFSET IP_AREA_FIRSTS_OFFSET
#define IP_AREA_TABLES_END    IP_AREA_DATA_OFFSET
#define IP_AREA_SMALL_DUTIES  (IP_AREA_DATA_OFFSET + IP_SUBBUF_SIZE)
#define IP_AREA_SMALL_FILE    (IP_AREA_SMALL_DUTIES + IP_AREA_DUTIES * 4ull)

#define IP_AREA_WINDOW_MAX (IP_AREA_DATA_OFFSET + (uint64_t)IP_AREA_SUBBUFS * IP_SUBBUF_SIZE)

_Static_assert(IP_AREA_SMALL_FILE <= IP_AREA_SMALL_SIZE, "a table fits in the place of another");
_Static_assert(sizeof(struct ip_area_module) == 64 &&
		       sizeof(struct ip_area_header) <= IP_AREA_TRACE_OFFSET &&
		       IP_AREA_TRACE_OFFSET + sizeof(struct ip_area_trace) <= IP_AREA_CLOCK_OFFSET,
	       "ABI");
_Static_assert(IP_AREA_CLOCK_OFFSET + sizeof(struct ip_area_clock) <= IP_AREA_FILTERS_OFFSET &&
		       IP_AREA_FILTERS_OFFSET + sizeof(struct ip_filters) <= IP_AREA_MODULES_OFFSET,
	       "filters lie in the header's page");
/* 32-bit compilers align 64-bit numbers to 4 bytes in a structure. The offsets must not depend on
 * that. */
_Static_assert(offsetof(struct ip_area_header, unserved) == 32 &&
		       offsetof(struct ip_area_header, stubs_used) == 48 &&
		       offsetof(struct ip_area_header, modes) == 152 &&
		       offsetof(struct ip_area_header, meters) == 160 &&
		       offsetof(struct ip_area_header, idle_ns) == 216 &&
		       offsetof(struct ip_area_module, build_id) == 28,
	       "the ABI is the same for 32 and 64 bits");

#endif
