/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that what stands in a target is the runtime's code, before iprobe sends one of the
 * target's threads through it. The target's own memory tells where the code stands, and the process
 * may have written anything there since.
 */
#ifndef IP_OWN_CODE_H
#define IP_OWN_CODE_H

#include "hotpatcher/inject/borrow_search.h"

/* Checks the code that a borrowed thread runs first, byte by byte, and where it leads: it calls a
 * function of the same mapping, and goes back by the block of the place. The result holds while the
 * thread is stopped. 0, or -1 with an error. */
int ip_own_code_check_place(const struct ip_target *target, const struct ip_borrow_place *place);

/* Checks all code of the runtime. The address `within` must lie in that code. An injected runtime
 * must have the code that this iprobe brings along. A runtime from a file must have the code that
 * the file has, where it is certain which file is mapped. 0, or -1 with an error. */
int ip_own_code_check(const struct ip_target *target, uint64_t within);

#endif
