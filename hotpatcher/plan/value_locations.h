/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What to read at a function's entry and return, and at a point, to have its values: from debug
 * information, or from what the probe list says of a point.
 */
#ifndef IP_VALUE_LOCATIONS_H
#define IP_VALUE_LOCATIONS_H

#include <stdint.h>

#include "common/abi/values.h"
#include "hotpatcher/process/debug_info.h"

/* A program without session and signature number, and the signature's text (owned; NULL: there is
 * nothing to record). */
struct ip_arguments {
	struct ip_value_program program;
	char *text;
};

void ip_arguments_clear(struct ip_arguments *arguments);

/* The arguments of the function at its first instruction, where nothing but the return address
 * has been pushed. 0, or -1 with an error: memory ran out. */
int ip_arguments_of_entry(struct ip_debug_function *function, unsigned string_limit,
			  struct ip_arguments *ret);

/* The result, in front of the return. */
int ip_arguments_of_return(struct ip_debug_function *function, unsigned string_limit,
			   struct ip_arguments *ret);

/* The arguments of a point; text: ip_pl_probe.args (common/elf/point_args.h), bias: the load bias
 * of its module. */
int ip_arguments_of_point(const char *text, uint64_t bias, unsigned string_limit,
			  struct ip_arguments *ret);

#endif
