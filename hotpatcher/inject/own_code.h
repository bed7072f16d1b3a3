/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether what stands in a target is the runtime's code, before one of its threads is sent through
 * it. Where it stands is told by the target's own memory, and anything may have been written there
 * since.
 */
#ifndef IP_OWN_CODE_H
#define IP_OWN_CODE_H

#include "hotpatcher/inject/borrow_search.h"

/* What a borrowed thread runs first: byte by byte, and where it leads: it calls a function of
 * the same mapping, and goes back by the place's block. To be asked while the thread stands. 0,
 * or -1 with an error. */
int ip_own_code_check_place(const struct ip_target *target, const struct ip_borrow_place *place);

/* All of the code that the runtime has: an injected one's is this iprobe's, that of a file is
 * what the file has, where the file can be told for certain. 0, or -1 with an error. */
int ip_own_code_check(const struct ip_target *target, uint64_t within);

#endif
