/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which paths system calls were given (common/trace/call_path.h): by the thread, the call, the
 * address, and the time.
 *
 * A path was copied when its call returned, so it is the first one of the thread behind the call's
 * begin, and stands beside its end. One of another call, or of another address, is not taken for
 * it, and neither is any where some are missing.
 */
#ifndef IP_CALL_PATHS_H
#define IP_CALL_PATHS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/trace/call_path.h"

struct ip_call_paths {
	struct ip_call_path *items; /* with those of tid 0: gaps */
	size_t n;
	bool sorted; /* by thread and time */
};

/* Adds one, whose text is borrowed. Returns 0, or -1 with an error. */
int ip_call_paths_add(struct ip_call_paths *paths, const struct ip_call_path *path);
/* Whenever some were added, before they are looked for. */
void ip_call_paths_sort(struct ip_call_paths *paths);

/* The text of what a call was given. key: its thread, number, argument and address; tsc is not
 * looked at. begin, end: of the call. NULL: not known. */
const char *ip_call_paths_find(const struct ip_call_paths *paths, const struct ip_call_path *key,
			       uint64_t begin, uint64_t end);

#endif
