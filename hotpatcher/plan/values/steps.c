/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects operations and orders them. See steps.h.
 */
#include "hotpatcher/plan/values/steps.h"

#include <string.h>

#include "common/error.h"

/* Whether base, and index, of an operation are temporaries. */
static bool takes_base(const struct ip_value_op *op)
{
	return op->source >= IP_VALUE_TEMPORARY;
}

static bool takes_index(const struct ip_value_op *op)
{
	return op->source >= IP_VALUE_TEMPORARY && op->source != IP_VALUE_BITS &&
	       op->index != IP_VALUE_NOTHING;
}

static bool is_same(const struct ip_value_step *s, const struct ip_value_op *op, const char *text)
{
	struct ip_value_op other = *op;

	other.limit = s->op.limit; /* the temporary */
	return !memcmp(&s->op, &other, sizeof(other)) &&
	       (!text || !memcmp(s->text, text, (size_t)op->value));
}

int ip_value_step(struct ip_value_steps *steps, const struct ip_value_op *op, const char *text)
{
	struct ip_value_step *s = &steps->items[steps->n];
	struct ip_value_op kept = *op;

	kept.flags |= IP_VALUE_KEEP;
	for (unsigned i = 0; i < steps->n; i++)
		if (is_same(&steps->items[i], &kept, text))
			return (int)i;
	if (steps->n == IP_PROGRAM_TEMPS)
		return ip_error("the expressions of one function take more than %u steps",
				IP_PROGRAM_TEMPS);
	*s = (struct ip_value_step){.op = kept};
	s->op.limit = steps->n;
	if (takes_base(op))
		s->level = steps->items[op->base].level;
	if (takes_index(op) && steps->items[op->index].level > s->level)
		s->level = steps->items[op->index].level;
	s->level += op->source == IP_VALUE_LOAD;
	if (text)
		memcpy(s->text, text, (size_t)op->value);
	return (int)steps->n++;
}

static int write_step(const struct ip_value_step *s, struct ip_value_builder *b)
{
	bool room = ip_value_builder_keep(b, &s->op);

	if (s->op.source == IP_VALUE_COMPARE)
		for (int64_t at = 0; at < s->op.value; at += sizeof(struct ip_value_op)) {
			struct ip_value_op bytes = {0};
			size_t left = (size_t)(s->op.value - at);

			memcpy(&bytes, s->text + at, left < sizeof(bytes) ? left : sizeof(bytes));
			room &= ip_value_builder_keep(b, &bytes);
		}
	return room ? 0
		    : ip_error("the expressions of one function take more than %u operations",
			       IP_PROGRAM_OPS);
}

int ip_value_steps_write(struct ip_value_steps *steps, struct ip_value_builder *b)
{
	/* operands have smaller numbers than what uses them, and no higher level */
	for (unsigned level = 0; level <= IP_PROGRAM_TEMPS; level++)
		for (int loads = 1; loads >= 0; loads--)
			for (unsigned i = 0; i < steps->n; i++) {
				struct ip_value_step *s = &steps->items[i];

				if (s->written || s->level != level ||
				    (s->op.source == IP_VALUE_LOAD) != loads)
					continue;
				if (write_step(s, b) < 0)
					return -1;
				s->written = true;
			}
	return 0;
}
