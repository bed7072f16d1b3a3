/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When functions were taken out of a recording that ran on, and put into it again (lines "removed"
 * and "added" of the session file).
 *
 * A call that is open when its function is removed never shows an exit: it ends there for a reader,
 * as calls do that are open at the recording's end.
 */
#ifndef IP_CHANGES_H
#define IP_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ip_recording;

struct ip_changes {
	uint64_t *removals; /* TSC of each line that removed some function, ascending */
	size_t nremovals;
	/* private. Times at which functions were removed and added in turn: those of function f
	 * are times[starts[f]] up to times[starts[f + 1]], ascending. Until ip_changes_index():
	 * as they came, with whose they are. */
	uint64_t *times;
	uint32_t *functions;
	size_t n;
	uint32_t *starts;
	uint8_t *off; /* by function: whether it is removed so far; noff of them */
	size_t noff;
	uint64_t last;
};

/* The next "N" or "N-M" of *text, which moves behind its comma. false: it is none. */
bool ip_numbers_next(const char **text, uint64_t *ret_first, uint64_t *ret_last);

/* A line of the session file: numbers as "1-4,7", of functions that the recording knows by now
 * (others are left out). NULL, or what is wrong with it. */
const char *ip_changes_add(struct ip_changes *changes, const struct ip_recording *session,
			   bool removed, uint64_t tsc, const char *numbers);

/* All lines are there. Marks the numbers of functions that were ever removed
 * (ip_recording_number.changes). -1 with an error. */
int ip_changes_index(struct ip_changes *changes, struct ip_recording *session);

void ip_changes_clear(struct ip_changes *changes);

/* Whether the function is removed behind ts: at ts itself a change has happened already. */
bool ip_changes_is_off(const struct ip_changes *changes, uint32_t function, uint64_t ts);

#endif
