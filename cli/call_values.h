/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values that came with a call, as views of single calls show them.
 */
#ifndef IP_CLI_CALL_VALUES_H
#define IP_CLI_CALL_VALUES_H

#include "analysis/profile/slowest.h"
#include "analysis/read/session.h"
#include "common/json.h"

/* Makes the values of what came with an event as people read them: fd=3, path="/etc/motd". "" where
 * there are none. The caller frees the text. Returns NULL where memory ran out. */
char *cli_call_values(const struct ip_recording *session, const uint64_t *payload);

/* Makes `handle(fd=3) = 0`; the name alone where nothing was recorded with the call. The caller
 * frees the text. Returns NULL where memory ran out. */
char *cli_call_text(const struct ip_recording *session, const char *name,
		    const struct ip_slow_call *call);

/* Writes "args" and "retval", each where it was recorded, and "cut" where a string of them was cut
 * at the limit, into the object that is open. */
void cli_call_values_json(struct ip_json *j, const struct ip_recording *session,
			  const struct ip_slow_call *call);

#endif
