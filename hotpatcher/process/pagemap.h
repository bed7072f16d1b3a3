/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pages a target has written to (proc_pid_pagemap(5)).
 */
#ifndef IP_PAGEMAP_H
#define IP_PAGEMAP_H

#include <stdbool.h>
#include <stdint.h>

#include "hotpatcher/process/target.h"

/* *ret_end: the end of the last page in [start, start + size) that is not all zero; start if there
 * is none. A page that is in memory may be zero: mlockall() brings all of them there. Only pages
 * that are in memory or swapped out are read; all, where the kernel does not tell which these are.
 * start and size are multiples of a page. 0, or -1 with an error. */
int ip_pagemap_filled_end(const struct ip_target *target, uint64_t start, uint64_t size,
			  uint64_t *ret_end);

/* Pages one by one, in any order. NULL with an error: out of memory. */
struct ip_pagemap;
struct ip_pagemap *ip_pagemap_open(const struct ip_target *target);
void ip_pagemap_close(struct ip_pagemap *pagemap);

/* Whether the page of the address is in memory, the target's own (no file's), and shared with no
 * forked process: then the kernel copies nothing when it is written to. False also where the kernel
 * does not tell. A page may change at once: this is a hint. */
bool ip_pagemap_is_own(struct ip_pagemap *pagemap, uint64_t address);

#endif
