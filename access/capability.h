/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of capabilities (capabilities(7)).
 */
#ifndef IP_CAPABILITY_H
#define IP_CAPABILITY_H

#include <stdint.h>

/* Returns the names of a set, as the kernel numbers its bits: "CAP_CHOWN, CAP_KILL", in the order
 * of the bits; one without a name here is "capability 63". malloc'ed; NULL: out of memory. */
char *ip_capability_names(uint64_t set);

#endif
