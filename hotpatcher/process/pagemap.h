/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pages of a range a target has written to (proc_pid_pagemap(5)).
 */
#ifndef IP_PAGEMAP_H
#define IP_PAGEMAP_H

#include <stdint.h>

#include "hotpatcher/process/target.h"

/* *ret_end: the end of the last page in [start, start + size) that is not all zero; start if there
 * is none. A page that is in memory may be zero: mlockall() brings all of them there. Only pages
 * that are in memory or swapped out are read; all, where the kernel does not tell which these are.
 * start and size are multiples of a page. 0, or -1 with an error. */
int ip_pagemap_filled_end(const struct ip_target *target, uint64_t start, uint64_t size,
			  uint64_t *ret_end);

#endif
