/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe report --json.
 */
#include "cli/elide.h"
#include "cli/info_recorded.h"
#include "cli/report/report.h"
#include "cli/report/report_processes.h"
#include "cli/silent_note.h"
#include "cli/tail_mark.h"
#include "cli/trace_args.h"

#include "common/json.h"

/* Prints from when to when calls were not recorded because another tool had changed the sites. */
static void print_missing_json(struct ip_json *j, const struct cli_report *r)
{
	const struct ip_recording *s = r->trace->session;

	if (!s->nmissing)
		return;
	ip_json_array(j, "missing");
	for (size_t i = 0; i < s->nmissing; i++) {
		ip_json_object(j, NULL);
		ip_json_string(
			j, "function",
			ip_names_get(r->names, cli_report_missing_function(r, &s->missing[i])));
		ip_json_uint(j, "from_ns", ip_recording_since_start(s, s->missing[i].from));
		ip_json_uint(j, "to_ns", ip_recording_since_start(s, s->missing[i].to));
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
}

/* All columns but the calls, which stand elsewhere. Durations are those of calls that have ended:
 * null where none has ended. */
static void json_columns(struct ip_json *j, const struct cli_report_row *row)
{
	for (size_t i = CLI_BY_CALLS + 1; i < CLI_REPORT_COLUMNS; i++) {
		const char *key = cli_report_columns[i].key;
		bool sum = row->logged && (i == CLI_BY_TOTAL || i == CLI_BY_SELF);

		if (!key)
			continue;
		if (!sum && !cli_report_is_exact(row, i))
			ip_json_string(j, key, NULL);
		else if (i == CLI_BY_STDDEV)
			ip_json_double(j, key, cli_report_value(row, i));
		else
			ip_json_uint(j, key, cli_report_value(row, i));
	}
}

static void json_logged(struct ip_json *j, const struct cli_report_row *row)
{
	json_columns(j, row);
	ip_json_uint(j, "tail_exits", row->stats->tails);
	cli_report_tail_json(j, row);
	ip_json_uint(j, "unwound", row->stats->unwound);
	ip_json_uint(j, "unfinished", row->stats->unfinished);
	if (row->open_ns)
		ip_json_uint(j, "unfinished_max_ns", row->open_ns);
	if (row->stats->earlier)
		ip_json_uint(j, "earlier", row->stats->earlier);
}

void cli_report_tail_json(struct ip_json *j, const struct cli_report_row *row)
{
	if (row->logged)
		cli_tail_json(j, row->stats->until_tail, row->stats->calls);
	else if (row->counted && row->counted->measured)
		cli_tail_json_counted(j, row->counted, row->function && row->function->tails);
}

static void json_bounds(struct ip_json *j, const struct cli_report *r,
			const struct cli_report_row *row, const char *key, double share)
{
	uint64_t from, below;

	ip_counts_percentile(r->counts, r->trace->session, row->counted, share, &from, &below);
	ip_json_array(j, key);
	ip_json_uint(j, NULL, from);
	ip_json_uint(j, NULL, below);
	ip_json_end_array(j);
}

static void json_counted(struct ip_json *j, const struct cli_report *r,
			 const struct cli_report_row *row)
{
	json_columns(j, row);
	for (size_t i = 0; row->counted->ended && i < CLI_REPORT_COLUMNS; i++)
		if (cli_report_columns[i].share)
			json_bounds(j, r, row, cli_report_columns[i].bounds,
				    cli_report_columns[i].share);
	cli_report_tail_json(j, row);
	if (row->counted->measured)
		ip_json_uint(j, "unmeasured", row->counted->calls - row->counted->ended);
}

static void json_fields(struct ip_json *j, const struct cli_report *r,
			const struct cli_report_row *row)
{
	struct cli_field fields[CLI_FIELDS_MAX];
	size_t n = cli_report_fields(r, row, fields);

	for (size_t i = 0; i < n; i++)
		if (fields[i].type == CLI_FIELD_NUMBER)
			ip_json_uint(j, fields[i].key, fields[i].number);
		else if (fields[i].type == CLI_FIELD_REAL)
			ip_json_double(j, fields[i].key, fields[i].real);
		else if (fields[i].type == CLI_FIELD_VALUE)
			ip_value_key_json(j, fields[i].key, fields[i].value);
		else
			ip_json_string(j, fields[i].key,
				       fields[i].type == CLI_FIELD_NONE ? NULL : fields[i].string);
	if (row && row->function)
		cli_json_short(
			j, row->name,
			ip_names_short(r->names, row->function - r->trace->session->functions));
}

void cli_json_dropped(struct ip_json *j, const struct ip_recording *s, uint32_t function)
{
	const struct ip_recording_drop *drop = ip_names_drop(s, function);

	if (!drop)
		return;
	ip_json_uint(j, "dropped_after_ns", ip_recording_since_start(s, drop->tsc));
	ip_json_bool(j, "counted_since", drop->counted);
}

void cli_report_json(const struct cli_report *r)
{
	const struct ip_trace_reader *t = r->trace;
	struct ip_json j;

	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	ip_json_uint(&j, "events", r->stats->events);
	cli_silent_json(&j, t);
	ip_json_uint(&j, "lost", t->lost);
	ip_json_uint(&j, "invalid", t->session->invalid);
	if (t->session->payloads)
		ip_json_uint(&j, "counted", r->counts->calls);
	if (t->session->overwrites)
		ip_json_uint(&j, "overwritten", t->session->overwritten);
	if (t->session->rotates)
		ip_json_uint(&j, "rotated", t->session->rotated);
	if (t->session->filtered)
		ip_json_uint(&j, "filtered", t->session->filtered);
	if (t->session->nfilters) {
		ip_json_array(&j, "filters");
		for (size_t i = 0; i < t->session->nfilters; i++)
			ip_json_string(&j, NULL, t->session->filters[i]);
		ip_json_end_array(&j);
	}
	ip_json_uint(&j, "threads", t->threads);
	ip_json_uint(&j, "duration_ns", ip_recording_ns(t->session, ip_trace_reader_recorded(t)));
	cli_reader_json_kept(&j, t);
	ip_json_bool(&j, "ended", t->session->ended);
	cli_info_early_json(&j, t->session);
	ip_json_bool(&j, "damaged", t->ndamages || t->missing);
	ip_json_uint(&j, "unwound", r->stats->unwound);
	ip_json_uint(&j, "unfinished", r->stats->unfinished);
	ip_json_uint(&j, "orphan_exits", r->stats->orphans);
	ip_json_uint(&j, "suspect", r->stats->suspect);
	ip_json_uint(&j, "earlier", r->stats->earlier);
	print_missing_json(&j, r);
	cli_processes_json(&j, t);
	if (!cli_report_is_by_function(r->options))
		ip_json_string(&j, "by", cli_report_group_name(r->options));
	if (r->options->per_process)
		ip_json_bool(&j, "per_process", true);
	if (r->options->by == IP_GROUP_BY_VALUE) {
		ip_json_uint(&j, "without_value", r->valueless);
		ip_json_uint(&j, "other_values", r->stats->groups->values->others);
	}
	ip_json_array(&j, cli_report_is_by_function(r->options) ? "functions" : "rows");
	for (size_t i = 0; i < r->nrows && i < r->options->filter.limit; i++) {
		const struct cli_report_row *row = &r->rows[i];

		ip_json_object(&j, NULL);
		json_fields(&j, r, row);
		ip_json_uint(&j, "calls", row->count);
		if (cli_report_is_by_function(r->options))
			ip_json_string(&j, "payload", cli_report_payload(row));
		if (row->function && cli_report_is_by_function(r->options))
			cli_json_dropped(&j, t->session, row->function - t->session->functions);
		ip_json_uint(&j, "points", row->stats->points);
		if (row->counted && !row->logged)
			json_counted(&j, r, row);
		else
			json_logged(&j, row);
		ip_json_end_object(&j);
	}
	ip_json_end_array(&j);
	cli_reader_json_no_events(&j, t->session);
	ip_json_end_object(&j);
}
