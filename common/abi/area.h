/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ABI: the memory that the runtime in the target and iprobe outside share.
 * Fixed-width types, no pointers, no libc: both sides include it.
 *
 * Four pieces of memory:
 *
 *   anchor   data of libiprobe-rt.so, exported as iprobe_rt_anchor. Says where the
 *            rest is. Written once by the runtime's constructor, read from outside.
 *   gate     one private page of the target, wiped in a forked child
 *            (MADV_WIPEONFORK). gate->session is the session that records; 0: none.
 *            Only the hotpatcher writes it: opens it while the target is stopped,
 *            closes it at any time. Only a forked child of a session that follows forks opens its
 *            own.
 *   private  data of the runtime (struct ip_rt_private): whatever decides where hooks read, write
 *            and jump. Only the hotpatcher writes it, by /proc/PID/mem, while the gate is closed.
 *   area     a memfd, shared, and kept from forked children (runtime/area.c) unless they are
 *            followed. Header, modules, slots (one a thread), descriptors of sub-buffers, what
 *            values to record where, what functions do, sub-buffers, counts and histograms. Forked
 *            children share it with their parent; one session at a time uses it (an OFD write lock
 *            on byte IP_AREA_LOCK_SESSION of the memfd).
 *
 * Everything in the area may be scribbled over, by the target and by whoever else may have it
 * mapped: a followed child, which may have other credentials than its parent by now. So the
 * collector checks every index; and so do hooks, against struct ip_rt_private. Nothing in the area
 * is an address, and none that is computed from what stands there lies outside of what the file has
 * room for.
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
	uint32_t session; /* 0: silent */
	/* whose session it is, in its own namespace: a vfork child shares the gate, but is
	 * silent */
	uint32_t pid;
	/* the hotpatcher's number of the session: that of a followed child is its own */
	uint32_t base;
	uint32_t reserved;
};

#define IP_AREA_SLOTS	8192u
#define IP_AREA_MODULES 1024u
/* OFD write locks on bytes of the memfd; the kernel drops them when their holder dies. */
#define IP_AREA_LOCK_SESSION 0 /* held by the iprobe whose session uses the area */
#define IP_AREA_LOCK_PATCH   1 /* held while text is being changed */

/* A module that has ever been patched in this process family. Its stubs have fixed places and
 * numbers for good, so that writing them again changes no byte under a thread that may still be
 * on its way through. */
struct ip_area_module {
	uint64_t load_bias;
	uint64_t stubs; /* where they start (hotpatcher/plan/stub_layout.h) */
	/* function f has number first_number + 2 f, its inlined instances the next one */
	uint32_t first_number;
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
	/* atomic: the last number given, to a session or to a forked child that records */
	uint32_t last_session;
	uint32_t follow; /* as in struct ip_rt_private; who clears it here stops children at once */
	/* atomic, of FPerf's hooks: a system call has failed, so they make none any more */
	uint32_t refused;
	uint32_t modes; /* of the session, IP_MODE_..., for the next iprobe */
	/* blocks of meters (struct ip_meters), the shared one included, a power of two; 0: none */
	uint32_t nmeters;
	/* for the next iprobe, too; hooks have theirs in struct ip_rt_private */
	uint64_t meters, meters_size;
	/* blocks that the session began with, a power of two; nmeters: that are handed out now */
	uint32_t meters_all;
	uint32_t fperf;
	/* where the next search for a free block starts: the lowest come first */
	uint32_t meters_hint;
	uint32_t share;	  /* sessions that overwrite: sub-buffers that a thread may have */
	uint32_t reserve; /* the same: so many stay free for threads that have none yet */
	uint32_t inherit; /* the launcher's: 1: forked children get the area */
};

/*
 * What a session wants besides the common case: every function logged, with precise time. Slots
 * have a copy (struct ip_slot).
 *
 * The hooks' common path does not look at them: in a session with one of IP_MODES_MARKED threads
 * note the session's number with IP_SESSION_MARK (rt_self.session, slot->session), so that the
 * comparison with the gate, which that path makes anyway, fails. Whoever compares such a number
 * takes the mark off (IP_SESSION_NUMBER).
 */
#define IP_MODE_CAREFUL	  1u /* every event goes through C (record.c): filters, call sites */
#define IP_MODE_COARSE	  2u /* stamps are the clock line's (struct ip_area_clock) */
#define IP_MODE_PAYLOADS  4u /* duties[] say what a probe does */
#define IP_MODE_OVERWRITE 8u /* where no sub-buffer is free, a thread writes over its oldest */
/* The TSC is not to be trusted: stamps are CLOCK_MONOTONIC_RAW, by a system call, in
 * nanoseconds; every event goes through C. Where may_read is 0 they are the clock line's. */
#define IP_MODE_MONOTONIC 16u
#define IP_MODES_MARKED	  (IP_MODE_CAREFUL | IP_MODE_COARSE | IP_MODE_PAYLOADS | IP_MODE_MONOTONIC)

#define IP_SESSION_MARK		  0x80000000u /* no session's number has it */
#define IP_SESSION_NUMBER(marked) ((marked) & ~IP_SESSION_MARK)

/* A line of its own in the header's page (IP_AREA_CLOCK_OFFSET): only the iprobe of a session
 * with IP_MODE_COARSE writes it, and all threads of the target read it. */
struct ip_area_clock {
	uint64_t now; /* TSC, read just before it was stored; never goes back */
	uint64_t reserved[7];
};

/* Offsets in the memfd; each a multiple of the page size. FIRSTS: a module's first payload
 * number, 0: it has none yet; from PAYLOADS on the file has holes up to the sub-buffers, but for
 * what a session uses. */
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
#define IP_AREA_CLOCK_OFFSET	2048ull
#define IP_AREA_FILTERS_OFFSET	2560ull /* struct ip_filters */

#define IP_AREA_DUTIES	 (1u << 21) /* all probe numbers */
#define IP_AREA_PAYLOADS (1u << 20)
#define IP_AREA_PROGRAMS (1u << 15)
#define IP_AREA_RULES	 (1u << 21) /* numbers */

/* Covers: pages of the mapping that are not the file's (runtime/area.c): behind the descriptors,
 * and at the start of some sub-buffers, which nobody takes (OWNED, of no slot), close enough for
 * a usual limit on stacks. Blocks of meters lie beyond them. */
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

/* Where the runtime asks for it, 64 bits: up to 256 GiB above. The kernel's own mappings begin
 * at least 200 GiB further up, from the stack downwards, or at a third of the address space; and
 * ThreadSanitizer bears mappings from 0x7e8000000000 on only. */
#define IP_AREA_PLACE	    0x7e8100000000ull
#define IP_AREA_PLACE_RANGE 0x4000000000ull

#define IP_AREA_OWN_SIZE (312ull << 20) /* mapped of an area that the runtime makes itself */

#define IP_AREA_WINDOW_MAX (IP_AREA_DATA_OFFSET + (uint64_t)IP_AREA_SUBBUFS * IP_SUBBUF_SIZE)

_Static_assert(sizeof(struct ip_area_module) == 64 &&
		       sizeof(struct ip_area_header) <= IP_AREA_CLOCK_OFFSET,
	       "ABI");
_Static_assert(IP_AREA_CLOCK_OFFSET + sizeof(struct ip_area_clock) <= IP_AREA_FILTERS_OFFSET &&
		       IP_AREA_FILTERS_OFFSET + sizeof(struct ip_filters) <= IP_AREA_MODULES_OFFSET,
	       "filters lie in the header's page");
/* 32-bit compilers align 64-bit numbers to 4 bytes in a structure: where each lies must not depend
 * on that. */
_Static_assert(offsetof(struct ip_area_header, unserved) == 32 &&
		       offsetof(struct ip_area_header, stubs_used) == 48 &&
		       offsetof(struct ip_area_header, modes) == 104 &&
		       offsetof(struct ip_area_header, meters) == 112 &&
		       offsetof(struct ip_area_module, build_id) == 28,
	       "the ABI is the same for 32 and 64 bits");

#endif
