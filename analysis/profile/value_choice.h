/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the values that get groups of their own (value_groups.h) where a trace has more of them
 * than there may be groups: those that come first in the order that the reader wants, such as those
 * with the slowest calls, not those that happened to be recorded first.
 *
 * The trace is read once more for that, with 32 bytes for each value. Where there are too many
 * even for these (IP_VALUE_CHOICE_MAX), the half that is last in the order so far is forgotten. By
 * max, min and value the choice is right nevertheless; by a sum a value may be missed whose calls
 * are spread thinly over the trace.
 */
#ifndef IP_VALUE_CHOICE_H
#define IP_VALUE_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/trace.h"
#include "analysis/profile/value_filter.h"
#include "analysis/profile/value_groups.h"

#define IP_VALUE_CHOICE_MAX (1u << 20)

/* The largest of these come first. */
enum ip_value_order {
	IP_VALUES_AS_RECORDED, /* the first values of the trace; nothing is chosen */
	IP_VALUES_BY_CALLS,
	IP_VALUES_BY_TOTAL,
	IP_VALUES_BY_SELF,
	IP_VALUES_BY_MIN,
	IP_VALUES_BY_AVG,
	IP_VALUES_BY_MAX,
	IP_VALUES_BY_VALUE, /* numbers before texts; texts as they were recorded */
};

/* A set of values of functions, by ip_value_group_hash(). */
struct ip_value_choice;

/* Reads the whole trace. groups tells which value it is. selected: by function, those that count;
 * NULL: all. tid 0: all threads. matches: as ip_value_filter_visit() takes them. Returns 0, or -1
 * with an error. *ret is to be destroyed by ip_value_choice_destroy(). */
int ip_value_choice_find(struct ip_trace_reader *trace, const struct ip_value_groups *groups,
			 const bool *selected, uint32_t tid, const struct ip_value_matches *matches,
			 enum ip_value_order order, struct ip_value_choice **ret);
void ip_value_choice_destroy(struct ip_value_choice *choice);
bool ip_value_choice_has(const struct ip_value_choice *choice, uint64_t hash);

#endif
