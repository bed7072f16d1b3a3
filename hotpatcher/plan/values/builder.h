/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a program and its signature, item by item.
 */
#ifndef IP_VALUES_BUILDER_H
#define IP_VALUES_BUILDER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/abi/values.h"
#include "hotpatcher/plan/value_types.h"

/* A program that is not yet divided into blocks. */
struct ip_value_code {
	uint32_t nops, max_words;
	struct ip_value_op ops[IP_PROGRAM_OPS];
};

/* A program, and the text of its signature, which is owned. The text is NULL if the program records
 * no value. A program without operations does nothing. */
struct ip_arguments {
	struct ip_value_code program;
	char *text;
};

void ip_arguments_clear(struct ip_arguments *arguments);

struct ip_value_builder {
	struct ip_arguments *result;
	FILE *text;
	size_t size;
	unsigned n;  /* number of items */
	bool useful; /* at least one of them is recorded */
	unsigned string_limit;
	/* operations that record the values; they come behind those in result->program */
	struct ip_value_op ops[IP_PROGRAM_OPS];
	unsigned nops;
};

/* Begins. Returns 0; the caller must finish. -1 with an error: out of memory. */
int ip_value_builder_begin(struct ip_value_builder *b, unsigned string_limit,
			   struct ip_arguments *ret);

/* Adds an item; op NULL: its value is not recorded. op->limit: of a string; 0: the usual one.
 * Returns false if there is no room for more. */
bool ip_value_builder_add(struct ip_value_builder *b, const struct ip_value_type *type,
			  const char *name, const struct ip_value_op *op);

/* Adds an operation that records nothing. Returns false if there is no room for more. */
bool ip_value_builder_keep(struct ip_value_builder *b, const struct ip_value_op *op);

/* Ends. Returns 0, or -1 with an error: out of memory. */
int ip_value_builder_finish(struct ip_value_builder *b);

#endif
