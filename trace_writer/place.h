/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The place of a new trace directory. What is there already is kept as DIR.old.
 */
#ifndef IP_TRACE_PLACE_H
#define IP_TRACE_PLACE_H

#include "common/dir.h"

/* Renames the existing directory to DIR.old and removes the directory that was DIR.old. Both are
 * checked before either is changed. *ret_moved: a descriptor of the renamed directory, which the
 * caller closes, or -1 if there was none. Returns 0, or -1 with an error. */
int ip_trace_place_take(const char *dir, const struct ip_dir_place *place, int *ret_moved);

/* The new directory has been removed: what was renamed gets its name back. */
void ip_trace_place_give_back(const struct ip_dir_place *place, int moved);

#endif
