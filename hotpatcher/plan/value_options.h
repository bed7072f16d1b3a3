/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which values a session records.
 */
#ifndef IP_VALUE_OPTIONS_H
#define IP_VALUE_OPTIONS_H

#include <stdbool.h>

#include "common/values/value_request.h"

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
