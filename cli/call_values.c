/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the values that came with a call.
 */
#include "cli/call_values.h"

#include <stdio.h>
#include <stdlib.h>

#include "analysis/read/values.h"
#include "common/cleanup.h"
#include "common/print.h"

char *cli_call_values(const struct ip_recording *session, const uint64_t *payload)
{
	const struct ip_signature *signature = ip_recording_signature(session, payload);
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (out && signature)
		ip_values_print(out, signature, payload);
	return ip_print_end_text(out, &text);
}

char *cli_call_text(const struct ip_recording *session, const char *name,
		    const struct ip_slow_call *call)
{
	_cleanup_free_ char *args = cli_call_values(session, call->args);
	_cleanup_free_ char *result = cli_call_values(session, call->result);
	bool has_args = ip_recording_signature(session, call->args);
	bool has_result = ip_recording_signature(session, call->result);
	char *text;

	if (!args || !result ||
	    asprintf(&text, "%s%s%s%s%s%s", name, has_args ? "(" : "", args, has_args ? ")" : "",
		     has_result ? " = " : "", result) < 0)
		return NULL;
	return text;
}

void cli_call_values_json(struct ip_json *j, const struct ip_recording *session,
			  const struct ip_slow_call *call)
{
	const struct ip_signature *args = ip_recording_signature(session, call->args),
				  *result = ip_recording_signature(session, call->result);

	if (args) {
		ip_json_object(j, "args");
		ip_values_json(j, args, call->args);
		ip_json_end_object(j);
	}
	if (result)
		ip_value_json(j, "retval", result, call->result);
	if ((args && ip_values_cut(args, call->args)) ||
	    (result && ip_values_cut(result, call->result)))
		ip_json_bool(j, "cut", true);
}
