/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fields of a row of iprobe report: names and values for JSON and CSV.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/report/report.h"

struct fields {
	struct cli_field *items;
	size_t n;
};

static void add_string(struct fields *f, const char *key, const char *value)
{
	f->items[f->n++] =
		(struct cli_field){.key = key, .type = CLI_FIELD_STRING, .string = value};
}

static void add_number(struct fields *f, const char *key, bool known, uint64_t value)
{
	f->items[f->n++] = (struct cli_field){
		.key = key, .type = known ? CLI_FIELD_NUMBER : CLI_FIELD_NONE, .number = value};
}

const char *cli_report_payload(const struct cli_report_row *row)
{
	if (!row->counted)
		return "log";
	if (row->logged)
		return row->counted->measured ? "log+hist" : "log+count";
	return row->counted->measured ? "hist" : "count";
}

const char *cli_report_caller_from(const struct ip_group *group)
{
	return group->from == IP_CALLER_SITE	? "call site"
	       : group->from == IP_CALLER_FRAME ? "frame"
						: NULL;
}

static void add_function(struct fields *f, const struct cli_report *r,
			 const struct cli_report_row *row)
{
	const struct ip_recording_function *function = row ? row->function : NULL;

	add_string(f, "function", row ? row->name : NULL);
	add_string(f, "linker_name", function ? function->linker_name : NULL);
	add_string(f, "module",
		   function ? ip_recording_module_name(r->trace->session, function) : NULL);
	add_string(f, "file", function ? function->file : NULL);
	add_number(f, "line", function, function ? function->line : 0);
}

static void add_caller(struct fields *f, const struct cli_report *r,
		       const struct cli_report_row *row)
{
	const struct ip_group *g = row ? row->group : NULL;
	const struct ip_place *site = g ? g->site : NULL;
	bool by_frame = g && g->from == IP_CALLER_FRAME;
	const struct ip_recording *s = r->trace->session;

	/* a call site whose function is not known is an address in a module */
	add_string(f, "caller",
		   site	      ? site->name ? site->name : row->caller
		   : by_frame ? row->caller
			      : NULL);
	add_string(f, "caller_module",
		   site	      ? site->module
		   : by_frame ? ip_recording_module_name(s, &s->functions[g->caller])
			      : NULL);
	add_string(f, "caller_from", g ? cli_report_caller_from(g) : NULL);
	if (r->options->by != IP_GROUP_BY_CALL_SITE)
		return;
	add_string(f, "caller_address", NULL);
	if (site) {
		struct cli_field *address = &f->items[f->n - 1];

		snprintf(address->buffer, sizeof(address->buffer), "%#" PRIx64, site->address);
		address->string = address->buffer;
	}
	add_number(f, "caller_offset", site && site->function, site ? site->offset : 0);
	add_string(f, "caller_file", site ? site->file : NULL);
	add_number(f, "caller_line", site && site->file, site ? site->line : 0);
}

static void add_bound(struct fields *f, const char *key, bool known, double value)
{
	f->items[f->n++] = (struct cli_field){
		.key = key, .type = known ? CLI_FIELD_REAL : CLI_FIELD_NONE, .real = value};
}

static void add_value(struct fields *f, const struct cli_report_row *row)
{
	const struct ip_value_key *value = row ? row->group->value : NULL;
	double from = 0, to = 0;
	bool bounded = value && !strcmp(ip_value_key_is(value), "range") &&
		       ip_value_key_bounds(value, &from, &to);

	f->items[f->n++] = (struct cli_field){.key = "value",
					      .type = CLI_FIELD_VALUE,
					      .string = row ? row->value_text : NULL,
					      .value = value};
	add_string(f, "value_is", value ? ip_value_key_is(value) : NULL);
	add_bound(f, "value_from", bounded, from);
	add_bound(f, "value_to", bounded, to);
}

static void add_process(struct fields *f, const struct cli_report_row *row)
{
	const struct ip_trace_process *p = row ? row->process : NULL;

	add_number(f, "pid", p, p ? p->pid : 0);
	add_string(f, "process", p ? p->name : NULL);
}

size_t cli_report_fields(const struct cli_report *r, const struct cli_report_row *row,
			 struct cli_field ret[CLI_FIELDS_MAX])
{
	struct fields f = {.items = ret};
	const struct ip_recording *s = r->trace->session;
	const struct ip_group *g = row ? row->group : NULL;

	if (r->options->per_process || r->options->by == IP_GROUP_BY_PROCESS)
		add_process(&f, row);
	switch (r->options->by) {
	case IP_GROUP_BY_PROCESS:
		break;
	case IP_GROUP_BY_FUNCTION:
		add_function(&f, r, row);
		break;
	case IP_GROUP_BY_CALLER:
	case IP_GROUP_BY_CALL_SITE:
		add_function(&f, r, row);
		add_caller(&f, r, row);
		break;
	case IP_GROUP_BY_THREAD:
		if (!r->options->per_process)
			add_number(&f, "pid", g, g ? g->pid : 0);
		add_number(&f, "tid", g, g ? g->tid : 0);
		add_string(&f, "name", row ? row->thread : NULL);
		/* the key that stands beside tid in all that tells of threads */
		add_string(&f, "thread", row ? row->thread : NULL);
		break;
	case IP_GROUP_BY_MODULE:
		add_string(&f, "module", row ? row->name : NULL);
		add_string(&f, "build_id",
			   g && g->module != IP_NO_MODULE ? s->modules[g->module].build_id : NULL);
		break;
	case IP_GROUP_BY_VALUE:
		add_function(&f, r, row);
		add_value(&f, row);
		break;
	case IP_GROUP_BY_FILE:
		add_string(&f, "file", g ? g->file : NULL);
	}
	return f.n;
}
