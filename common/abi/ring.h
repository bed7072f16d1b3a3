/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ABI: rings of threads in the shared area (abi/area.h).
 *
 * Each thread has one ring. It consists of sub-buffers that the thread takes from a pool:
 *
 *   slot->cur     bits 0..47   position: words written since the slot was claimed, monotonic
 *                 bits 48..63  index of the current sub-buffer, IP_NO_SUBBUF: none
 *
 *   The word for position p lies at word p % IP_SUBBUF_WORDS of the current sub-buffer. Word 0 of a
 *   sub-buffer is never used. So position % IP_SUBBUF_WORDS == 0 means: no room, take a new
 *   sub-buffer. One compare-and-exchange on cur therefore reserves words or changes the sub-buffer.
 *   It fails if a signal handler has recorded in the meantime. It is not locked: only signal
 *   handlers of the same thread compete. (With coarse time, words are also reserved by addition.
 *   Then the last words of a sub-buffer are no room either, and without a sub-buffer the position
 *   is that of the first of these words; runtime/record.c, A3.)
 *
 * Life of a sub-buffer (descriptor->state):
 *
 *   FREE -> OWNED   by the thread (locked compare-and-exchange); all words are zero
 *   OWNED -> FULL   by the thread's outermost hook when the sub-buffer has no room left
 *   FULL -> FREE    by the collector, after it has copied and zeroed the sub-buffer
 *
 *   A hook may run in a signal handler on top of another hook of the same thread (slot->guard !=
 *   0). Such a hook leaves a full sub-buffer OWNED, since the hook below may still have to fill the
 *   words that it reserved. The collector takes this sub-buffer when the slot has moved on and
 *   guard has been seen 0 since. A word that is still zero in a taken sub-buffer belongs to a hook
 *   that never returned (longjmp out of a handler). The collector counts it as lost.
 *
 * In sessions that overwrite (IP_MODE_OVERWRITE) the collector takes nothing while the thread
 * lives. Instead:
 *
 *   FULL -> OWNED   by its thread, which has no other room: the thread takes the oldest sub-buffer
 *                   that it has, and zeroes it itself
 *   FULL -> FREE    by the collector, which takes the oldest one of a thread that has more than its
 *                   share, for other threads that have less
 *   slot->tail      bits 0..47   events in the sub-buffers that were given up so far
 *                   bits 48..63  low bits of the ordinal of the oldest sub-buffer that is kept
 *
 *   The thread or collector that moves the tail on owns the sub-buffer that was the oldest, and has
 *   counted its events in the same moment. It moves the tail by a locked compare-and-exchange. The
 *   tail only grows, so nothing can have changed in between. The events of a sub-buffer are its
 *   words minus the words that are no event (surplus).
 */
#ifndef IP_ABI_RING_H
#define IP_ABI_RING_H

#include <stddef.h>
#include <stdint.h>

#define IP_SUBBUF_WORDS 4096u
#define IP_SUBBUF_SIZE	(IP_SUBBUF_WORDS * 8u)
/* words at its end that no record takes in a session with coarse time */
#define IP_SUBBUF_SPARE	 8u
#define IP_AREA_SUBBUFS	 32768u /* descriptors: 1 GiB of sub-buffers */
#define IP_NO_SUBBUF	 0xffffull
#define IP_NO_SLOT	 0xffffffffu
#define IP_POSITION_BITS 48
#define IP_POSITION_MASK ((1ull << IP_POSITION_BITS) - 1)

#define IP_TAIL(ordinal, events)                                                                   \
	((uint64_t)(ordinal) << IP_POSITION_BITS | ((events)&IP_POSITION_MASK))
#define IP_TAIL_EVENTS(tail) ((tail)&IP_POSITION_MASK)
/* Number of sub-buffers between the oldest one that is kept and the one with that ordinal. */
#define IP_TAIL_DISTANCE(tail, ordinal) ((uint16_t)((ordinal) - ((tail) >> IP_POSITION_BITS)))
/* words of a sub-buffer that can hold records */
#define IP_SUBBUF_ROOM (IP_SUBBUF_WORDS - 1u)

enum ip_slot_wanted {
	IP_SLOT_WANTED = 0,
	IP_SLOT_UNDECIDED = 1, /* iprobe has not looked at the thread yet: it records nothing */
	IP_SLOT_UNWANTED = 2,
};

enum ip_slot_state {
	IP_SLOT_FREE = 0,
	IP_SLOT_CLAIMED = 1,
	IP_SLOT_CLAIMING = 2, /* its thread is setting it up */
	/* a hook of an earlier session may still use it: in this session no thread owns it */
	IP_SLOT_LATE = 3,
	IP_SLOT_UNFINISHED = 4, /* likewise; its thread was setting it up for an earlier session */
};

struct ip_slot {
	/* the owner's cache line */
	uint64_t cur;
	/* stack pointer of the outermost hook in flight that writes records or meters; 0: none */
	uint64_t guard;
	uint64_t last_sp; /* stack pointer of the last record */
	/* time >> IP_TIME_BITS of the last record; ~0: the next record is extended. With coarse
	 * time: the stamp of the last record */
	uint64_t epoch;
	uint64_t lost;
	/* index + 1 of the sub-buffer that the outermost hook has left last */
	uint64_t leaving;
	uint64_t last_time; /* time of the last record of a careful session */
	uint64_t tail;	    /* for sessions that overwrite: see above */
	/* set when the slot is claimed */
	uint32_t state; /* atomic, enum ip_slot_state */
	uint32_t tid;
	uint32_t pid;
	uint32_t session; /* with IP_SESSION_MARK if the session's modes are marked */
	uint64_t claimed; /* tsc */
	/* sessions with IP_MODE_MONOTONIC: the latest time that was read */
	uint64_t last_stamp;
	uint32_t modes; /* of the session */
	/* number of the thread's block of meters; 0: none. Hooks use their own note of it
	 * (runtime/meters.h) */
	uint32_t block;
	uint64_t filtered; /* events that left nothing because of struct ip_filters */
	/* entries that are held back now; they become filtered if nothing follows */
	uint32_t held;
	/* index + 1 of a sub-buffer that runtime/filter.c uses as memory; 0: none */
	uint32_t memory;
	uint32_t wanted; /* enum ip_slot_wanted */
	/* index of the oldest sub-buffer that is kept; a hint. In sessions with meters, 1: a hook
	 * may be in flight although guard is 0 */
	uint32_t oldest;
};

enum ip_subbuf_state {
	IP_SUBBUF_FREE = 0,
	IP_SUBBUF_OWNED = 1,
	IP_SUBBUF_FULL = 2,
	IP_SUBBUF_TAKEN = 3, /* by the collector, which is about to free it */
	/* suspect; its thread has given it up, and it belongs to the collector */
	IP_SUBBUF_LEFT = 4,
};

struct ip_subbuf {
	uint32_t state;	  /* atomic, enum ip_subbuf_state */
	uint32_t slot;	  /* IP_NO_SLOT: no slot has it yet, or it is taken out of circulation */
	uint64_t ordinal; /* position / IP_SUBBUF_WORDS at which the slot took it */
	uint64_t lost;	  /* slot->lost at that moment: losses before this sub-buffer */
	/* 1: not to be reused in this session, since a hook may fill words of it late */
	uint16_t suspect;
	/* words that are no event: padding, and all words of an extended record except one */
	uint16_t surplus;
	uint32_t next; /* index of the sub-buffer that the slot took after it; a hint */
};

_Static_assert(sizeof(struct ip_slot) == 128 && sizeof(struct ip_subbuf) == 32,
	       "arch/ARCH/layout.h");
/* 32-bit compilers align 64-bit numbers to 4 bytes in a structure. The offsets must not depend on
 * that. */
_Static_assert(offsetof(struct ip_slot, claimed) == 80 &&
		       offsetof(struct ip_slot, last_stamp) == 88 &&
		       offsetof(struct ip_slot, modes) == 96 &&
		       offsetof(struct ip_subbuf, lost) == 16,
	       "the ABI is the same for 32 and 64 bits");

#endif
