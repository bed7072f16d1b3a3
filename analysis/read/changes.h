/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The times at which functions were removed from a recording that went on, and added to it again
 * (lines "removed" and "added" of the session file).
 *
 * A call that is open when its function is removed never shows an exit. A reader ends it at the
 * removal, as it ends the calls that are open at the recording's end.
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
	/* Private. The times at which functions were removed and added in turn. Those of
	 * function f are times[starts[f]] up to times[starts[f + 1]], ascending. Before
	 * ip_changes_index() they are in the order of the lines, and functions[i] is the
	 * function of times[i]. */
	uint64_t *times;
	uint32_t *functions;
	size_t n;
	uint32_t *starts;
	uint8_t *off; /* by function: whether it is removed at the last line read; noff of them */
	size_t noff;
	uint64_t last;
};

/* Reads the next "N" or "N-M" of *text and moves *text behind the comma after it. Returns false
 * where there is none. */
bool ip_numbers_next(const char **text, uint64_t *ret_first, uint64_t *ret_last);

/* Takes a line of the session file. numbers is a list as "1-4,7". Numbers that the recording
 * does not know yet are left out. Returns NULL, or what is wrong with the line. */
const char *ip_changes_add(struct ip_changes *changes, const struct ip_recording *session,
			   bool removed, uint64_t tsc, const char *numbers);

/* Must be called when all lines have been added. Marks the numbers of functions that were ever
 * removed (ip_recording_number.changes). Returns -1 with an error. */
int ip_changes_index(struct ip_changes *changes, struct ip_recording *session);

void ip_changes_clear(struct ip_changes *changes);

/* Returns whether the function is removed right after ts. A change at ts itself counts as done. */
bool ip_changes_is_off(const struct ip_changes *changes, uint32_t function, uint64_t ts);

#endif
