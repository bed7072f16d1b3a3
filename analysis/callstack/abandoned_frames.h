/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of a thread that have been left without an exit: most are gone (longjmp, exception), some
 * come back (a coroutine is resumed). They are found again by what an exit event has: function and
 * stack pointer.
 */
#ifndef IP_ABANDONED_FRAMES_H
#define IP_ABANDONED_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/frames.h"

struct ip_abandoned_frames_entry {
	struct ip_frame frame;
	/* whose exit brings it back: the frame's, or the one that it has jumped to */
	uint32_t function;
	uint64_t left;	/* TSC */
	uint64_t group; /* frames of one stack that were left together */
	/* the frame below it in its group */
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

/* Frames that are kept at most. */
#define IP_ABANDONED_FRAMES_MAX 65536u

void ip_abandoned_frames_deinit(struct ip_abandoned_frames *abandoned);

/* Adds an entry. An older one with the same function and sp is given out instead: its memory has
 * been used again, it cannot come back. 1: *ret_old is that one; 0: there was none; -1: it is
 * full or memory ran out, nothing was added. */
int ip_abandoned_frames_add(struct ip_abandoned_frames *abandoned,
			    const struct ip_abandoned_frames_entry *entry,
			    struct ip_abandoned_frames_entry *ret_old);

/* Takes out the entry of a function at a stack pointer. group 0: of any group. */
bool ip_abandoned_frames_take(struct ip_abandoned_frames *abandoned, uint32_t function, uint64_t sp,
			      uint64_t group, struct ip_abandoned_frames_entry *ret);

/* Takes out any entry; false: it is empty. */
bool ip_abandoned_frames_take_any(struct ip_abandoned_frames *abandoned,
				  struct ip_abandoned_frames_entry *ret);

#endif
