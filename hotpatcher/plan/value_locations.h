/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The places to read values from: at a function's entry, at its return, and at a point. They come
 * from debug information, or from the arguments that the probe list has for a point.
 */
#ifndef IP_VALUE_LOCATIONS_H
#define IP_VALUE_LOCATIONS_H

#include <stdint.h>

#include "common/abi/values.h"
#include "hotpatcher/process/debug_info.h"

/* A program without session and signature number, and the text of its signature. The text is owned;
 * NULL: there is nothing to record. */
struct ip_arguments {
	struct ip_value_program program;
	char *text;
};

void ip_arguments_clear(struct ip_arguments *arguments);

/* Makes the program for the function's arguments at its first instruction, where only the return
 * address has been pushed. Returns 0, or -1 with an error: out of memory. */
int ip_arguments_of_entry(struct ip_debug_function *function, unsigned string_limit,
			  struct ip_arguments *ret);

/* Makes the program for the function's result, just before it returns. */
int ip_arguments_of_return(struct ip_debug_function *function, unsigned string_limit,
			   struct ip_arguments *ret);

/* Makes the program for the arguments of a point. text: ip_pl_probe.args (common/point_args.h).
 * bias: the load bias of the point's module. */
int ip_arguments_of_point(const char *text, uint64_t bias, unsigned string_limit,
			  struct ip_arguments *ret);

#endif
