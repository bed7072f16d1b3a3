/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of a program that record nothing: they read and compute what others need. Each has
 * a temporary of its own. Equal operations are made once.
 */
#ifndef IP_VALUES_STEPS_H
#define IP_VALUES_STEPS_H

#include "common/abi/values.h"
#include "hotpatcher/plan/values/builder.h"

struct ip_value_steps {
	struct ip_value_step {
		struct ip_value_op op;
		unsigned level; /* number of loads in the longest chain that leads to it */
		/* text of a comparison */
		char text[IP_VALUE_TEXT_MAX];
		bool written;
	} items[IP_PROGRAM_TEMPS];
	unsigned n; /* item i has temporary i */
};

/* Adds an operation; text: that of a comparison, op->value bytes, else NULL. Returns the number of
 * its temporary; -1 with an error: there is no room. */
int ip_value_step(struct ip_value_steps *steps, const struct ip_value_op *op, const char *text);

/* Hands the operations that have not been handed over to the builder, in such an order that loads
 * which do not need each other come together. Returns 0, or -1 with an error: there is no room. */
int ip_value_steps_write(struct ip_value_steps *steps, struct ip_value_builder *b);

#endif
