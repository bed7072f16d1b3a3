/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that are chosen by what was recorded with them (value_match.h), for views that add calls
 * up. A condition may ask for what a call returned: so whether the call counts is known when it
 * ends. A view is told its beginning in any case, and its end only where the call is chosen;
 * otherwise the view is told that the call was left.
 *
 * A view must not ask whether a call lies in another one of the same kind: that one may not be
 * chosen, which is known too late. Each chosen call counts whole.
 */
#ifndef IP_VALUE_FILTER_H
#define IP_VALUE_FILTER_H

#include "analysis/callstack/trace.h"
#include "analysis/read/value_match.h"

/* Does ip_trace_reader_visit(), for a visitor without words(), with the calls and points that meet
 * all conditions; ip_value_matches_find() has been called. NULL, or none: with all calls. */
int ip_value_filter_visit(struct ip_trace_reader *trace, const struct ip_trace_visitor *visitor,
			  const struct ip_value_matches *matches, uint64_t *ret_events);

/* Whether there are conditions. */
static inline bool ip_value_filter_is_on(const struct ip_value_matches *matches)
{
	return matches && matches->n;
}

#endif
