/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --stream of run and attach.
 */
#include "cli/record/stream_log.h"

#include <stdio.h>

#include "common/error.h"
#include "common/json.h"
#include "common/print.h"
#include "common/units.h"
#include "stream_log/log_place.h"

int cli_stream_parse(const char *text, struct ip_session_options *options)
{
	options->stream = text;
	options->own = "--stream";
	return ip_log_place_kind(text) < 0 ? -1 : 0;
}

int cli_stream_parse_interval(const char *text, struct ip_session_options *options)
{
	if (ip_parse_duration(text, &options->stream_interval_ns) < 0)
		return -1;
	return options->stream_interval_ns >= IP_STREAM_LOG_LEAST_NS &&
			       options->stream_interval_ns <= IP_STREAM_LOG_MOST_NS
		       ? 0
		       : ip_error("--stream-interval %s: from 1ms to 10s", text);
}

const char *cli_stream_contradiction(const struct ip_session_options *o)
{
	if (!o->stream)
		return o->stream_interval_ns
			       ? "--stream-interval is that of --stream: add that option"
			       : NULL;
	if (o->overwrite || o->resume)
		return "--stream does not go with --overwrite nor with --resume";
	if (o->filters.min_duration_ns)
		return "--min-duration holds entries back until their calls have ended: --stream "
		       "would not have the call that never ends: leave one out";
	return NULL;
}

void cli_stream_print(const struct ip_session_options *o, const struct ip_session_summary *s)
{
	const struct ip_stream_log_counts *c = &s->stream;
	char records[32], size[16], dropped[32], left[48] = "", unwritten[16], why[96] = "",
						 unsorted[32];

	if (!o->stream)
		return;
	if (c->unwritten)
		snprintf(left, sizeof(left), ", %s not taken at the end",
			 ip_format_size(c->unwritten, unwritten));
	if (c->dropped)
		snprintf(why, sizeof(why), " (%s%s%s%s)",
			 c->dropped > c->unsorted ? "it was not taken fast enough" : "",
			 c->dropped > c->unsorted && c->unsorted ? "; " : "",
			 c->unsorted ? ip_format_count(c->unsorted, unsorted) : "",
			 c->unsorted ? " found no room to be put in order" : "");
	ip_print(stderr, "iprobe: live log in %s: %s record%s (%s), %s dropped%s%s%s%s\n",
		 o->stream, ip_format_count(c->records, records), ip_plural(c->records),
		 ip_format_size(c->written, size),
		 c->dropped ? ip_format_count(c->dropped, dropped) : "none", why, left,
		 *s->stream_failure ? "; it ended early: " : "", s->stream_failure);
}

void cli_stream_json(struct ip_json *j, const struct ip_session_options *o,
		     const struct ip_session_summary *s)
{
	const struct ip_stream_log_counts *c = &s->stream;

	if (!o->stream)
		return;
	ip_json_object(j, "stream");
	ip_json_string(j, "place", o->stream);
	ip_json_uint(j, "batches", c->batches);
	ip_json_uint(j, "records", c->records);
	ip_json_uint(j, "dropped", c->dropped);
	ip_json_uint(j, "unsorted", c->unsorted);
	ip_json_uint(j, "late", c->late);
	ip_json_uint(j, "bytes", c->written);
	ip_json_uint(j, "bytes_not_taken", c->unwritten);
	ip_json_uint(j, "longest_gap_ns", c->longest_gap_ns);
	if (c->syncs)
		ip_json_uint(j, "longest_sync_ns", c->longest_sync_ns);
	if (*s->stream_failure)
		ip_json_string(j, "error", s->stream_failure);
	ip_json_end_object(j);
}
