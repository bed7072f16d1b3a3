/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ABI: what functions do besides being logged, and their counts and histograms in the shared area
 * (abi/area.h).
 */
#ifndef IP_ABI_METERS_H
#define IP_ABI_METERS_H

#include <stddef.h>
#include <stdint.h>

/*
 * Payloads of functions (IP_MODE_PAYLOADS). duties[number] says what the probes of a number do in
 * this session: an enum ip_duty in the low 3 bits, above them (a multiple of 8, so that no shift is
 * needed) the offset in each thread's block of meters where the function has its own: IP_DUTY_COUNT
 * a uint64_t, IP_DUTY_HIST and IP_DUTY_TIMED a struct ip_hist. 0 is IP_DUTY_LOG: what the
 * hotpatcher has not said is logged. It allocates the table's pages for all numbers in use before
 * the first site goes live, since no read may hit a hole; an entry may change at any time while
 * probes are live, from one duty to another whose meters exist.
 *
 * Calls are counted at entry probes: the others of such a function need not be live (they do
 * nothing). A histogram takes both.
 *
 * A thread takes a block with its slot (slot->block) and has it to itself: adding to it is one
 * instruction that is not locked, so that only handlers of the same thread compete. Where no block
 * is free it has none; its calls are counted in block 0, which is shared, with locked instructions,
 * and its durations are counted there as unmeasured. When the thread has ended, the collector adds
 * what the block holds to what it has, and zeroes it before it gives it back (FREE). Reading a live
 * block is always right but for what is being added just now: words only grow.
 *
 * The blocks lie behind the sub-buffers and are part of what --memory allows; functions have
 * consecutive places, so that only those selected cost memory. Where more come than there is room
 * for, the upper half of the blocks is not handed out any more: block i + nmeters / 2 becomes more
 * room of block i, at an offset that is the same for each.
 */
enum ip_duty {
	IP_DUTY_LOG = 0,
	IP_DUTY_COUNT = 1,
	IP_DUTY_HIST = 2,
	/* calls the user's own (include/iprobe/payload.h); offset: of a struct ip_user_function in
	 * block 0, of the cell in others */
	IP_DUTY_USER = 3,
	IP_DUTY_SILENT = 4, /* nothing */
	/* reads counters (fperf.h); offset: of a struct ip_fperf_control in block 0, of an
	 * ip_fperf_cell in others */
	IP_DUTY_FPERF = 5,
	IP_DUTY_TIMED = 6, /* as HIST, and each event is logged besides */
	/* nobody has selected it, but measured calls go on in it that have jumped to it, and end
	 * with it (runtime/open_calls.h) */
	IP_DUTY_JOIN = 7,
	/* tail exits of the function whose number is one less: its call goes on where they lead.
	 * Logged if that is */
	IP_DUTY_JUMP = 8 | IP_DUTY_JOIN,
};

#define IP_DUTY_MASK	      7u
#define IP_DUTY(duty, offset) ((uint32_t)(duty) | (uint32_t)(offset))
#define IP_DUTY_OFFSET(word)  ((word) & ~IP_DUTY_MASK)

/* Durations in TSC ticks; self is what lies in no other measured call (runtime/meters.c tells
 * whose time is taken off whose). buckets[0] has those below 2^IP_HIST_SHIFT, the last one those
 * above the last bound, and i in between those of [2^(IP_HIST_SHIFT + i - 1), 2^(IP_HIST_SHIFT +
 * i)). Two cache lines, of which calls below 2^14 ticks touch only the first. Buckets wrap: who
 * reads them less than 60 s apart adds the differences (no thread makes 2^32 measured calls in
 * that time). */
#define IP_HIST_BUCKETS 24u
#define IP_HIST_SHIFT	7u

struct ip_hist {
	uint64_t sum; /* of the durations */
	uint64_t self;
	uint32_t max;	     /* ip_hist_pack() of it */
	uint32_t min;	     /* ~ of ip_hist_pack() of it, so that 0 says none */
	uint32_t unmeasured; /* entries of which no duration is known: runtime/meters.c tells why */
	/* what hooks.S makes of the last duration: its most significant bit, at least IP_HIST_SHIFT
	 * - 1 */
	uint32_t recent;
	uint32_t buckets[IP_HIST_BUCKETS];
};

/* That of a function that has tail exits (IP_PROBE_TAIL_EXIT, also ones that are followed): a line
 * more, which only they touch. */
struct ip_hist_tails {
	struct ip_hist hist;
	/* calls that ended at a tail exit, their own or that of a function that they had jumped
	 * to */
	uint64_t tailed;
	uint64_t reserved[7];
};

/* Ticks in 32 bits, in their order: below 2^31 as they are, above with the 27 bits that count
 * most. */
static inline uint32_t ip_hist_pack(uint64_t ticks)
{
	unsigned more = ticks >> 31 ? 32 - __builtin_clzll(ticks) : 0; /* top bit, from 31 on */

	return ticks >> 31 ? 1u << 31 | more << 26 | ((uint32_t)(ticks >> (more + 5)) & 0x3ffffff)
			   : (uint32_t)ticks;
}

/* The least that it may stand for; */
static inline uint64_t ip_hist_unpack(uint32_t packed)
{
	return packed >> 31 ? (1ull << 26 | (packed & 0x3ffffff)) << ((packed >> 26 & 31) + 5)
			    : packed;
}

/* and the most. */
static inline uint64_t ip_hist_unpack_most(uint32_t packed)
{
	return ip_hist_unpack(packed) +
	       (packed >> 31 ? (1ull << ((packed >> 26 & 31) + 5)) - 1 : 0);
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
	/* free, but what its last thread held of the kernel's is noted there (fperf_pmu.h): no part
	 * of another */
	IP_METERS_LEFT = 3,
};

/* What a hook has to know of a function with IP_DUTY_USER, in the shared block. */
struct ip_user_function {
	/* distance from the duty's offset to the function's cell, in each thread's block */
	uint32_t cell;
	uint16_t frame; /* as struct ip_rule has them */
	uint16_t flags;
	char name[]; /* the linker's, and a zero */
};

/* Begins a block: this head, meters_depth frames, then the functions' meters, those with histograms
 * aligned to cache lines. */
struct ip_meters {
	uint32_t state;	 /* atomic, enum ip_meters_state; block 0 is always owned */
	uint32_t slot;	 /* whose */
	uint64_t top;	 /* frames that are open, in bytes: the next one lies at frames + top */
	uint64_t jumped; /* how many of them go on in another function */
	/* stack pointer of the hook that the user's payload runs in; 0: it does not */
	uint64_t busy;
	/* These stand as a frame below the first would: the caller of a call that no other is
	 * around. */
	/* its stack pointer: all ones, since it is above any; a block of nobody has 0 */
	uint64_t outmost;
	/* calls of the user's payload that were left out, since it was running */
	uint64_t reentered;
	uint64_t reserved;
	uint64_t inner; /* ticks of such calls */
	struct ip_meters_frame frames[];
};

#define IP_METERS_HEAD 64u

_Static_assert(sizeof(struct ip_hist) == 128 && sizeof(struct ip_meters) == IP_METERS_HEAD &&
		       offsetof(struct ip_meters, outmost) ==
			       IP_METERS_HEAD - sizeof(struct ip_meters_frame) &&
		       offsetof(struct ip_meters, inner) - offsetof(struct ip_meters, outmost) ==
			       offsetof(struct ip_meters_frame, inner) &&
		       sizeof(struct ip_meters_frame) == 32,
	       "meters");

#endif
