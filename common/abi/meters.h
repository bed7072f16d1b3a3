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
 * this session. The low 3 bits are an enum ip_duty. The upper bits are an offset in each thread's
 * block of meters, where the function has its memory: a uint64_t for IP_DUTY_COUNT, a struct
 * ip_hist for IP_DUTY_HIST and IP_DUTY_TIMED. The offset is a multiple of 8, so no shift is needed.
 * 0 is IP_DUTY_LOG: a function that the hotpatcher has said nothing about is logged. No read may
 * hit a hole, so the hotpatcher allocates the table's pages for all numbers in use before the first
 * site goes live. While probes are live an entry may change at any time, from one duty to another
 * whose meters exist.
 *
 * Calls are counted at entry probes. The other probes of such a function do nothing, so they need
 * not be live. A histogram needs entries and exits.
 *
 * A thread takes a block together with its slot (slot->block). The block belongs to this thread
 * alone. So adding to it is one instruction that is not locked: only signal handlers of the same
 * thread compete. If no block is free, the thread has none. Then its calls are counted in block 0,
 * which is shared, by locked instructions, and its durations are counted there as unmeasured. When
 * the thread has ended, the collector adds what the block holds to its own sums, zeroes the block
 * and gives it back (FREE). Reading a live block is always right, except for what is just being
 * added: words only grow. The longest duration alone may be taken out of a live block: the
 * collector writes a 0, which the next call replaces.
 *
 * The blocks lie behind the sub-buffers and are part of what --memory allows. Functions have
 * consecutive places, so only selected functions cost memory. If functions are added and there is
 * no room for them, the upper half of the blocks is not handed out any more. Block i + nmeters / 2
 * then becomes additional room of block i, at an offset that is the same for every i.
 */
enum ip_duty {
	IP_DUTY_LOG = 0,
	IP_DUTY_COUNT = 1,
	IP_DUTY_HIST = 2,
	/* calls the user's payload (include/iprobe/payload.h); offset: of a struct ip_user_function
	 * in block 0, of the function's cell in the others */
	IP_DUTY_USER = 3,
	IP_DUTY_SILENT = 4, /* does nothing */
	/* reads counters (fperf.h); offset: of a struct ip_fperf_quota in block 0, of a struct
	 * ip_fperf_cell in the others */
	IP_DUTY_FPERF = 5,
	IP_DUTY_TIMED = 6, /* as HIST, and each event is logged too */
	/* the function was not selected. But measured calls that have jumped to it continue in it
	 * and end with it (runtime/open_calls.h) */
	IP_DUTY_JOIN = 7,
	/* tail exits of the function whose number is one less: its call continues where they jump
	 * to. They are logged if that function is */
	IP_DUTY_JUMP = 8 | IP_DUTY_JOIN,
};

#define IP_DUTY_MASK	      7u
#define IP_DUTY(duty, offset) ((uint32_t)(duty) | (uint32_t)(offset))
#define IP_DUTY_OFFSET(word)  ((word) & ~IP_DUTY_MASK)

/* Durations are in TSC ticks. self is the part that lies in no other measured call
 * (runtime/meters.c tells whose time is subtracted from whose). buckets[0] has the durations below
 * 2^IP_HIST_SHIFT, the last bucket those above the last bound, and bucket i in between those of
 * [2^(IP_HIST_SHIFT + i - 1), 2^(IP_HIST_SHIFT + i)). The structure takes two cache lines; calls
 * below 2^14 ticks touch only the first. Buckets wrap. So a reader must read them at most 60 s
 * apart and add the differences (no thread makes 2^32 measured calls in that time). */
#define IP_HIST_BUCKETS 24u
#define IP_HIST_SHIFT	7u

struct ip_hist {
	uint64_t sum; /* of the durations */
	uint64_t self;
	uint32_t max;	     /* ip_hist_pack() of the longest duration */
	uint32_t min;	     /* ~ip_hist_pack() of the shortest, so that 0 means none */
	uint32_t unmeasured; /* entries without a known duration: runtime/meters.c tells why */
	/* the most significant bit of the last duration, at least IP_HIST_SHIFT - 1; hooks.S writes
	 * it */
	uint32_t recent;
	uint32_t buckets[IP_HIST_BUCKETS];
};

/* The histogram of a function that has tail exits (IP_PROBE_TAIL_EXIT, also those that are
 * followed). It has one cache line more, which only tail exits touch. */
struct ip_hist_tails {
	struct ip_hist hist;
	/* calls that ended at a tail exit: their own, or that of a function that they had jumped
	 * to */
	uint64_t tailed;
	uint64_t reserved[7];
};

/* Packs ticks into 32 bits and keeps their order. Ticks below 2^31 stay as they are. Larger ones
 * keep their 27 most significant bits. */
static inline uint32_t ip_hist_pack(uint64_t ticks)
{
	/* from bit 31 on: 32 - the leading zeros */
	unsigned more = ticks >> 31 ? 32 - __builtin_clzll(ticks) : 0;

	return ticks >> 31 ? 1u << 31 | more << 26 | ((uint32_t)(ticks >> (more + 5)) & 0x3ffffff)
			   : (uint32_t)ticks;
}

/* The smallest number of ticks that packs to `packed`. */
static inline uint64_t ip_hist_unpack(uint32_t packed)
{
	return packed >> 31 ? (1ull << 26 | (packed & 0x3ffffff)) << ((packed >> 26 & 31) + 5)
			    : packed;
}

/* The largest number of ticks that packs to `packed`. */
static inline uint64_t ip_hist_unpack_most(uint32_t packed)
{
	return ip_hist_unpack(packed) +
	       (packed >> 31 ? (1ull << ((packed >> 26 & 31) + 5)) - 1 : 0);
}

/* An open call. */
struct ip_meters_frame {
	uint64_t sp;	/* as in trace_format.h; 0: no call, or not yet filled */
	uint64_t time;	/* TSC */
	uint64_t duty;	/* the word in duties[] */
	uint64_t inner; /* ticks of the measured calls in it that have ended */
};

enum ip_meters_state {
	IP_METERS_FREE = 0,
	IP_METERS_OWNED = 1,
	IP_METERS_PART = 2, /* room of another block: only `state` is valid in its head */
	/* free, but it still notes kernel counters that its last thread held (fperf_pmu.h); it
	 * never becomes room of another block */
	IP_METERS_LEFT = 3,
};

/* What a hook must know about a function with IP_DUTY_USER, in the shared block. */
struct ip_user_function {
	/* distance from the duty's offset to the function's cell, in each thread's block */
	uint32_t cell;
	uint16_t frame; /* frame and flags as in struct ip_filter_rule */
	uint16_t flags;
	char name[]; /* the linker's name, and a zero */
};

/* A block begins with this head. meters_depth frames follow, then the functions' meters. Meters
 * with histograms are aligned to cache lines. */
struct ip_meters {
	uint32_t state;	 /* atomic, enum ip_meters_state; block 0 is always owned */
	uint32_t slot;	 /* index of the slot of the block's thread */
	uint64_t top;	 /* bytes of open frames: the next frame lies at frames + top */
	uint64_t jumped; /* number of open frames whose call continues in another function */
	/* stack pointer of the hook in which the user's payload runs; 0: it does not run */
	uint64_t busy;
	/* The members below look like a frame below the first one. It stands for the caller of a
	 * call that lies in no other measured call. */
	/* its stack pointer: all ones, which is above any other; 0 in a block without a thread */
	uint64_t outmost;
	/* calls of the user's payload that were left out because it was already running */
	uint64_t reentered;
	uint64_t reserved;
	uint64_t inner; /* ticks of measured calls that lie in no other one */
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
