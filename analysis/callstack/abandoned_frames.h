/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of a thread that have been left without an exit. Most of them are gone (longjmp,
 * exception), some come back (a coroutine is resumed). They are found again by the function and
 * the stack pointer of an exit event.
 */
#ifndef IP_ABANDONED_FRAMES_H
#define IP_ABANDONED_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/frames.h"

struct ip_abandoned_frames_entry {
	struct ip_frame frame;
	/* The function whose exit brings the frame back: its own, or the one that it has jumped
	 * to. */
	uint32_t function;
	uint64_t left;	/* TSC */
	uint64_t group; /* number of the group of frames of one stack that were left together */
	/* the frame below this one in its group */
	bool has_parent;
	uint32_t parent_function;
	uint64_t parent_sp;
	uint32_t next; /* private */
};

struct ip_abandoned_frames {
	struct ip_abandoned_frames_entry *entries;
	uint32_t *heads; /* index + 1 of the first entry of each chain */
	size_t n, capacity;
};

/* The most frames that are kept. */
#define IP_ABANDONED_FRAMES_MAX 65536u

void ip_abandoned_frames_deinit(struct ip_abandoned_frames *abandoned);

/* Adds an entry. Where an older entry has the same function and sp, it is taken out and stored
 * in *ret_old: its memory has been used again, so it cannot come back. Returns 1 where there was
 * one, 0 where there was none, -1 where the table is full or memory ran out and nothing was
 * added. */
int ip_abandoned_frames_add(struct ip_abandoned_frames *abandoned,
			    const struct ip_abandoned_frames_entry *entry,
			    struct ip_abandoned_frames_entry *ret_old);

/* Takes out the entry of a function at a stack pointer. group 0: an entry of any group. Returns
 * false where there is none. */
bool ip_abandoned_frames_take(struct ip_abandoned_frames *abandoned, uint32_t function, uint64_t sp,
			      uint64_t group, struct ip_abandoned_frames_entry *ret);

/* Takes out any entry. Returns false where there is none. */
bool ip_abandoned_frames_take_any(struct ip_abandoned_frames *abandoned,
				  struct ip_abandoned_frames_entry *ret);

#endif
