/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of filters share.
 */
#ifndef IP_FILTERS_PRIVATE_H
#define IP_FILTERS_PRIVATE_H

#include <stdint.h>
#include <sys/types.h>

#include "hotpatcher/plan/filters.h"

/* The next thread id of a list that is separated by commas. Returns what stands behind it; NULL:
 * the text is no such list. */
const char *ip_filters_next_tid(const char *text, uint32_t *ret);

/* Tells the hooks which threads are recorded (--tid, --thread). 0, or -1 with an error. */
int ip_filters_begin_threads(const struct ip_filter_options *o, struct ip_filters *f,
			     const struct ip_target *target);

#endif
