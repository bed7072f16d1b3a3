/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a point's values from a probe list. See point.h.
 */
#include "hotpatcher/plan/values/point.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/elf/point_args.h"

/* Returns the type of an argument, as a signature names it. */
static struct ip_value_type type_of(const struct ip_point_arg *arg)
{
	struct ip_value_type type = {.size = arg->size ? arg->size : 8,
				     .flags = arg->is_string   ? IP_VALUE_STRING
					      : arg->is_signed ? IP_VALUE_SIGNED
							       : 0};

	if (arg->is_string || arg->is_pointer || arg->is_hex)
		strcpy(type.item, arg->is_string ? "s" : arg->is_pointer ? "p" : "h8");
	else
		snprintf(type.item, sizeof(type.item), "%c%u", arg->is_signed ? 'i' : 'u',
			 type.size % 10u);
	return type;
}

static struct ip_value_op op_of(const struct ip_point_arg *arg, uint64_t bias)
{
	struct ip_value_op op = {
		.base = arg->base, .index = arg->index, .scale = arg->scale, .value = arg->value};

	if (arg->operand == IP_OPERAND_REGISTER)
		op.source = IP_VALUE_REGISTER;
	else if (arg->operand == IP_OPERAND_IMMEDIATE)
		op.source = IP_VALUE_IMMEDIATE;
	else if (arg->operand == IP_OPERAND_MEMORY)
		op.source = IP_VALUE_MEMORY;
	else
		op.source = 0; /* unknown: shown as missing */
	if (arg->in_module)
		op.value += (int64_t)bias;
	return op;
}

void ip_value_point_init(const struct ip_probe_list *list, const struct ip_pl_probe *probe,
			 uint64_t bias, struct ip_value_point *ret)
{
	struct ip_point_arg args[IP_POINT_ARGS_MAX];
	const int n = ip_point_args_parse(ip_probe_list_string(list, probe->args), args);

	*ret = (struct ip_value_point){.n = n > 0 ? (unsigned)n : 0};
	ip_point_names_make(ip_probe_arg_text(list, probe), ret->n, &ret->names);
	for (unsigned i = 0; i < ret->n; i++) {
		ret->types[i] = type_of(&args[i]);
		ret->ops[i] = op_of(&args[i], bias);
	}
}

/* Whether another value has the same name but for its number: the second of two. */
static bool has_second(const struct ip_value_point *point, const char *name)
{
	const size_t most = IP_POINT_NAME_MAX - 2, length = strlen(name);
	const size_t n = length < most ? length : most;

	for (unsigned i = 0; i < point->n; i++) {
		const char *other = point->names.names[i];

		if (strlen(other) > n && !strncmp(other, name, n) && other[n] == '#' &&
		    strcmp(other, name) != 0)
			return true;
	}
	return false;
}

int ip_value_point_find(const struct ip_value_point *point, const char *text, size_t length)
{
	struct ip_point_names wanted;
	char copy[256];
	unsigned number;
	int end = 0;

	if (!length || length >= sizeof(copy))
		return -1;
	memcpy(copy, text, length);
	copy[length] = '\0';
	ip_point_names_make(copy, 1, &wanted);
	for (unsigned i = 0; i < point->n && *wanted.names[0]; i++)
		if (!strcmp(point->names.names[i], wanted.names[0]))
			/* of a text that became the name of several values nobody knows whose it
			 * is; a name itself is that of the first one */
			return strcmp(copy, wanted.names[0]) != 0 &&
					       has_second(point, wanted.names[0])
				       ? -1
				       : (int)i;
	if (sscanf(copy, "arg%1u%n", &number, &end) == 1 && (size_t)end == length && number &&
	    number <= point->n)
		return (int)number - 1;
	return -1;
}
