/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of a point, as the probe list tells them: what they are called, and where they are.
 */
#ifndef IP_VALUES_POINT_H
#define IP_VALUES_POINT_H

#include <stddef.h>
#include <stdint.h>

#include "common/abi/values.h"
#include "common/elf/point_names.h"
#include "common/elf/probe_list.h"
#include "hotpatcher/plan/value_types.h"

struct ip_value_point {
	unsigned n;
	struct ip_point_names names;
	struct ip_value_type types[IP_POINT_ARGS_MAX]; /* without debug information */
	/* source 0: it is not known where the value is */
	struct ip_value_op ops[IP_POINT_ARGS_MAX];
};

/* Reads the values of a point of the list. bias: the load bias of its module. */
void ip_value_point_init(const struct ip_probe_list *list, const struct ip_pl_probe *probe,
			 uint64_t bias, struct ip_value_point *ret);

/* Finds the value that length bytes of an expression are the name of: the text in the source, or
 * argN. Returns its number; -1: there is none. */
int ip_value_point_find(const struct ip_value_point *point, const char *text, size_t length);

#endif
