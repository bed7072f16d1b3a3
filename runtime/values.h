/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running the program that reads the values at a site (common/abi/values.h).
 */
#ifndef RT_VALUES_H
#define RT_VALUES_H

#include <stdint.h>

#include "common/abi/values.h"
#include "runtime/payload.h"

/* Memory is read in lines: a line lies in one page, so all of it can be read, or nothing. */
#define RT_LINE	 64u
#define RT_LINES 12u
/* loads that are read together; each needs two lines at most */
#define RT_LOADS (RT_LINES / 2)

/* Memory that a program has read through pointers. Only programs that do so need one. */
struct rt_loads {
	uint32_t nlines, nwaiting;
	uint32_t bad; /* one bit a line: it cannot be read */
	struct {
		uint64_t address;
		const struct ip_value_op *op;
	} waiting[RT_LOADS];
	uint64_t address[RT_LINES];
	uint64_t words[RT_LINES][RT_LINE / 8];
};

struct rt_run {
	const struct rt_frame *frame;
	const struct ip_value_op *ops;
	uint32_t nops;
	uint64_t *words; /* [room] */
	uint32_t n, room;
	uint32_t place;	  /* of the next value */
	uint32_t missing; /* one bit a value */
	uint32_t out;	  /* 1: the condition is not true: the call leaves no event */
	uint64_t unknown; /* one bit a temporary: its value could not be read */
	uint64_t pending; /* one bit a temporary: it waits to be read */
	struct rt_loads *loads;
	uint64_t temporary[IP_PROGRAM_TEMPS];
};

/* Runs the operations and fills in words, n, missing and out. What a program says is not trusted:
 * numbers that are too large mean nothing, and no access to memory can fault. */
void rt_values_run(struct rt_run *run);

/* Whether an operation needs run->loads. */
static inline int rt_value_loads(const struct ip_value_op *op)
{
	return op->source == IP_VALUE_LOAD;
}

#endif
