/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds programs and signatures. See builder.h.
 */
#include "hotpatcher/plan/values/builder.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/trace/values.h"

void ip_arguments_clear(struct ip_arguments *arguments)
{
	free(arguments->text);
	arguments->text = NULL;
	arguments->program.nops = 0;
}

int ip_value_builder_begin(struct ip_value_builder *b, unsigned string_limit,
			   struct ip_arguments *ret)
{
	*ret = (struct ip_arguments){0};
	*b = (struct ip_value_builder){.result = ret, .string_limit = string_limit};
	b->text = open_memstream(&ret->text, &b->size);
	return b->text ? 0 : ip_error("out of memory");
}

static unsigned words_of(const struct ip_value_op *op)
{
	if (op->flags & IP_VALUE_STRING)
		return 2 + op->limit / 8;
	return op->source == IP_VALUE_X87 || op->flags & IP_VALUE_LONG ? 2 : 1;
}

/* Shortens the strings' limits so that all values together fit. */
static void share_room(struct ip_value_builder *b)
{
	unsigned fixed = 0, strings = 0;

	for (unsigned i = 0; i < b->nops; i++) {
		if (b->ops[i].flags & IP_VALUE_STRING)
			strings++;
		else
			fixed += words_of(&b->ops[i]);
	}
	for (unsigned i = 0; i < b->nops; i++) {
		unsigned most = strings ? ((IP_PROGRAM_WORDS - fixed) / strings - 2) * 8 : 0;

		if (b->ops[i].flags & IP_VALUE_STRING && b->ops[i].limit > most)
			b->ops[i].limit = most;
		b->result->program.max_words += words_of(&b->ops[i]);
	}
}

int ip_value_builder_finish(struct ip_value_builder *b)
{
	struct ip_arguments *a = b->result;
	struct ip_value_code *program = &a->program;

	if (fclose(b->text) != 0 || !a->text) {
		ip_arguments_clear(a);
		return ip_error("out of memory");
	}
	if (!b->useful) {
		free(a->text);
		a->text = NULL;
		return 0;
	}
	share_room(b);
	memcpy(&program->ops[program->nops], b->ops, b->nops * sizeof(*b->ops));
	program->nops += b->nops;
	return 0;
}

bool ip_value_builder_keep(struct ip_value_builder *b, const struct ip_value_op *op)
{
	struct ip_value_code *p = &b->result->program;

	if (p->nops + b->nops >= IP_PROGRAM_OPS)
		return false;
	p->ops[p->nops++] = *op;
	return true;
}

bool ip_value_builder_add(struct ip_value_builder *b, const struct ip_value_type *type,
			  const char *name, const struct ip_value_op *op)
{
	static const struct ip_value_type nothing = {.item = "-"};
	bool recorded = op && type->item[0] != '-';
	struct ip_value_op *next = &b->ops[b->nops];
	long before, after;

	if (b->n == IP_VALUES_MAX || b->result->program.nops + b->nops >= IP_PROGRAM_OPS)
		return false;
	before = ftell(b->text);
	if (b->n)
		putc(' ', b->text);
	ip_value_type_write(b->text, recorded ? type : &nothing, name);
	after = ftell(b->text);
	if (after > (long)IP_SIGNATURE_MAX) {
		fseek(b->text, before, SEEK_SET);
		return false;
	}
	b->n++;
	if (!recorded)
		return true;
	b->useful |= op->source != 0;
	*next = *op;
	next->size = type->size > 8 ? 8 : type->size;
	next->flags |= type->flags;
	/* It takes two words even if its value is unknown: readers go by the type. */
	if (type->item[0] == 'x')
		next->flags |= IP_VALUE_LONG;
	if (type->flags & IP_VALUE_STRING && !next->limit)
		next->limit = b->string_limit;
	b->nops++;
	return true;
}
