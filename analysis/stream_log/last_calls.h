/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last calls of each thread of a live log: those that were open at its end, and some that had
 * ended before; and how much may be missing behind them.
 */
#ifndef IP_LAST_CALLS_H
#define IP_LAST_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/frames.h"
#include "analysis/read/session.h"

#define IP_LAST_CALLS_MOST 10000u /* of each thread that are kept */

struct ip_last_call {
	uint32_t function;     /* index into functions of the recording */
	uint32_t flags;	       /* IP_FRAME_... */
	uint32_t depth;	       /* frames below it */
	uint64_t start, end;   /* TSC; end: of calls that have ended */
	enum ip_frame_end how; /* the same */
};

struct ip_last_thread {
	uint32_t pid, tid;
	uint64_t records;
	uint64_t newest; /* TSC of its newest record; 0: it has none */
	uint64_t ended;	 /* TSC: it had ended by then; 0: not as far as is known */
	/* Words of 8 bytes that waited in its ring when the last batch was made. */
	uint32_t behind;
	struct ip_last_call *open; /* the outermost first */
	size_t nopen;
	struct ip_last_call *calls; /* that have ended, in the order of their ends */
	size_t ncalls;
};

struct ip_last_calls {
	struct ip_recording *session;
	struct ip_last_thread *threads; /* those with open calls first, the newest first */
	size_t nthreads;
	/* Every event before this TSC time is in the log, but for what the next ones tell. */
	uint64_t complete;
	uint64_t dropped, lost, late;
	uint64_t unsorted; /* of those that were dropped: found no room to be put in order */
	uint64_t batches, records;
	uint64_t unnamed;	/* records of threads that no batch tells of: it is missing */
	uint64_t unread;	/* threads that were left out, since there are too many */
	uint64_t missing;	/* batches that are missing between others */
	uint64_t damaged, tail; /* bytes within the log and behind it that are no whole batch */
	uint64_t longest_ticks; /* between the ends of two batches */
	uint64_t interval_ns;	/* between two batches, as was meant */
};

/* Reads a live log. most: calls of each thread. Returns 0, or -1 with an error. */
int ip_last_calls_read(const char *path, size_t most, struct ip_last_calls *ret);
/* The same for a descriptor, which is closed. machines: the stack machines that are there at a
 * time; 0: as many as there is memory for. */
int ip_last_calls_read_fd(int fd, const char *path, size_t most, size_t machines,
			  struct ip_last_calls *ret);
void ip_last_calls_clear(struct ip_last_calls *last);

#endif
