/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a live log (--stream), and what the summary says of it.
 */
#ifndef CLI_RECORD_STREAM_LOG_H
#define CLI_RECORD_STREAM_LOG_H

#include "session/session.h"

struct ip_json;

/* Takes the arguments of --stream and --stream-interval. Each returns 0, or -1 with an error. */
int cli_stream_parse(const char *text, struct ip_session_options *options);
int cli_stream_parse_interval(const char *text, struct ip_session_options *options);
/* Returns which options contradict a live log; NULL: none does. */
const char *cli_stream_contradiction(const struct ip_session_options *options);

/* A line on stderr, and "stream":{...} into the object that is open. */
void cli_stream_print(const struct ip_session_options *options,
		      const struct ip_session_summary *summary);
void cli_stream_json(struct ip_json *j, const struct ip_session_options *options,
		     const struct ip_session_summary *summary);

#endif
