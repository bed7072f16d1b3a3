/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns expressions into operations, by the debug information of a function, or by what the probe
 * list tells of a point.
 */
#ifndef IP_VALUES_EXPRESSION_H
#define IP_VALUES_EXPRESSION_H

#include "common/values/expression.h"
#include "hotpatcher/plan/value_locations.h"
#include "hotpatcher/plan/values/point.h"
#include "hotpatcher/plan/values/steps.h"

#define IP_PLACES_MAX 64u

/* What expressions can name: at one function's entry or at its return, or at a point. */
struct ip_value_scope {
	struct ip_debug_function *function; /* NULL at a point */
	const struct ip_value_point *point; /* NULL at a function */
	const char *text;		    /* of which the expression was made; for points only */
	bool at_return;
	struct ip_argument_place places[IP_PLACES_MAX];
	unsigned nplaces;
	struct ip_value_steps steps;
};

/* Finds the parameters, or the result. */
void ip_value_scope_init(struct ip_value_scope *scope, struct ip_debug_function *function,
			 bool at_return);

/* What is to be recorded of an expression. */
struct ip_value_result {
	struct ip_value_type type;
	struct ip_value_op op;
};

/* Make the operations for an expression. Both return -1 with an error that says which part of it
 * does not fit the function; names in the error are the nearest ones. */
int ip_value_expression(struct ip_value_scope *scope, const struct ip_expression *expression,
			struct ip_value_result *ret);
/* Returns the temporary that holds whether the condition is true. */
int ip_value_condition(struct ip_value_scope *scope, const struct ip_expression *expression);

#endif
