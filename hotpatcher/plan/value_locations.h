/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The places to read values from at a function's entry, and at its return. They come from debug
 * information.
 */
#ifndef IP_VALUE_LOCATIONS_H
#define IP_VALUE_LOCATIONS_H

#include <stdint.h>

#include "hotpatcher/plan/values/builder.h"
#include "hotpatcher/plan/x86_64/call_abi.h"
#include "hotpatcher/process/debug_info.h"

enum ip_place_kind {
	IP_PLACE_UNKNOWN,   /* it cannot be told */
	IP_PLACE_REGISTERS, /* ops[i] gives eightbyte i of the value */
	IP_PLACE_STACK,	    /* ops[0] gives the first eightbyte; the rest lies behind it */
	IP_PLACE_REFERENCE, /* ops[0] gives the address of the value */
};

/* Where a parameter, or a result, is. */
struct ip_argument_place {
	const char *name; /* NULL: it has none */
	bool typed;	  /* type and abi are known */
	struct ip_value_type type;
	struct ip_call_abi abi;
	enum ip_place_kind kind;
	struct ip_value_op ops[2];
	unsigned n; /* number of ops of IP_PLACE_REGISTERS, 1 or 2 */
};

/* Calls found() for each parameter, in their order, until it returns false. The places are those at
 * the function's first instruction, where only the return address has been pushed. */
void ip_argument_places(struct ip_debug_function *function,
			bool (*found)(void *context, const struct ip_argument_place *place),
			void *context);

/* Finds where the result is just before the function returns. Returns 1; 0: the function returns
 * nothing; -1: it cannot be told. */
int ip_result_place(struct ip_debug_function *function, struct ip_argument_place *ret);

/* Adds a parameter as an item, by its own type. Returns whether there was room for it. */
bool ip_argument_add(struct ip_value_builder *b, const struct ip_argument_place *place);

/* Adds the result as an item. */
void ip_arguments_add_return(struct ip_value_builder *b, struct ip_debug_function *function);

#endif
