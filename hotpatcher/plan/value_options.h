/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which values a session records.
 */
#ifndef IP_VALUE_OPTIONS_H
#define IP_VALUE_OPTIONS_H

#include <stdbool.h>

#include "common/values/value_request.h"

/* What to do where the values of a scope (IPROBE_SCOPE) are asked for. */
#define IP_SCOPE_VALUES                                                                            \
	"a scope has a beginning and an end, and no values: put IPROBE_POINT(NAME, VALUES) into "  \
	"it, or ask for those of the function around it"

struct ip_value_options {
	bool args, retval;     /* all parameters, all results */
	unsigned string_limit; /* bytes */
	/* of single functions; they come before args and retval. May be NULL */
	const struct ip_value_requests *requests;
};

/* Whether any values are to be recorded, or to be looked at. */
static inline bool ip_values_any(const struct ip_value_options *options)
{
	return options->args || options->retval || (options->requests && options->requests->n);
}

#endif
