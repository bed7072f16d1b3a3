/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's tracefs. Where the system has not mounted it, it is mounted for this process alone,
 * where no path leads to it: nothing is left behind, whatever becomes of us.
 */
#ifndef IP_TRACEFS_PLACE_H
#define IP_TRACEFS_PLACE_H

struct ip_tracefs {
	int fd; /* of its top directory; -1: not open */
};

/* Opens it, to read what tracepoints there are. libtracefs (tracefs_set_tracing_dir(3)) works with
 * it from then on, in the whole process, until it is closed. Returns 0, or -1 with an error that
 * says what is missing. */
int ip_tracefs_open(struct ip_tracefs *ret);

/* Whether instances can be made in it, with the clock that we need. Returns 0, or -1 with an error.
 */
int ip_tracefs_check(const struct ip_tracefs *tracefs);

void ip_tracefs_close(struct ip_tracefs *tracefs);

#endif
