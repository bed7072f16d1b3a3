/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the rows of iprobe report: figures, names, conditions.
 */
#include "cli/report/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/profile/trace_counts.h"
#include "cli/screen/reading_screen.h"
#include "cli/trace_args.h"
#include "common/cleanup.h"
#include "common/error.h"

/* Takes the figures of a histogram. Percentiles are upper bounds. */
static void summarize_counted(const struct cli_report *r, const struct ip_count *c,
			      struct ip_stats_summary *ret)
{
	const struct ip_recording *s = r->trace->session;
	uint64_t from;

	*ret = (struct ip_stats_summary){0};
	if (!c->ended)
		return;
	ret->total = ip_recording_ns(s, c->sum);
	ret->self = ip_recording_ns(s, c->self);
	ret->avg = ip_recording_ns(s, c->sum / c->ended);
	ret->min = ip_recording_ns(s, c->min);
	ret->max = ip_recording_ns(s, c->max);
	for (size_t i = 0; i < CLI_REPORT_COLUMNS; i++)
		if (cli_report_columns[i].share)
			ip_counts_percentile(r->counts, s, c, cli_report_columns[i].share, &from,
					     cli_report_figure(ret, i));
}

static bool is_wanted(const struct cli_report *r, const struct cli_report_row *row)
{
	const struct cli_report_options *o = r->options;

	for (size_t i = 0; i < o->nconditions; i++) {
		const struct cli_report_condition *c = &o->conditions[i];
		double value = cli_report_value(row, c->column);

		/* an unknown figure cannot be compared */
		if (!cli_report_is_known(row, c->column))
			return false;
		if (!(c->op == '<'   ? value < c->value
		      : c->op == '>' ? value > c->value
		      : c->op == 'l' ? value <= c->value
				     : value >= c->value))
			return false;
	}
	return true;
}

static void summarize(const struct cli_report *r, struct cli_report_row *row)
{
	const struct ip_recording *s = r->trace->session;

	ip_stats_summarize(r->clock, row->stats, &row->summary);
	row->summary.total = ip_recording_ns(s, row->stats->total);
	row->summary.self = ip_recording_ns(s, row->stats->self);
}

/* Makes one row for each function that was called. */
static int make_functions(struct cli_report *r, const bool *selected)
{
	const struct ip_recording *s = r->trace->session;

	r->rows = calloc(s->nfunctions, sizeof(*r->rows));
	if (!r->rows)
		return ip_error("out of memory");
	for (size_t i = 0; i < s->nfunctions; i++) {
		struct cli_report_row *row = &r->rows[r->nrows];

		*row = (struct cli_report_row){.stats = &r->stats->items[i],
					       .function = &s->functions[i]};
		row->count = row->stats->calls ? row->stats->calls : row->stats->points;
		row->logged = row->count || row->stats->earlier;
		if (!selected[i])
			continue;
		/* what the process counted has no values */
		if (ip_value_filter_is_on(&r->options->filter.matches)) {
			r->uncounted += r->counts->functions[i].calls;
		} else if (r->counts->functions[i].calls) {
			row->counted = &r->counts->functions[i];
			row->count += row->counted->calls;
		}
		if (!row->count && !row->logged)
			continue;
		row->name = ip_names_get(r->names, i);
		if (row->counted && !row->logged)
			summarize_counted(r, row->counted, &row->summary);
		else
			summarize(r, row);
		r->nrows += is_wanted(r, row);
	}
	return 0;
}

/* Makes "1234 worker", with the process before it where there are several processes. The name is
 * the last one that the trace tells. */
static void name_thread(const struct cli_report *r, struct cli_report_row *row)
{
	const uint32_t tid = row->group->tid;
	char pid[16] = "";

	row->thread = ip_recording_thread_name(r->trace->session, row->group->member, tid);
	if (r->trace->processes > 1)
		snprintf(pid, sizeof(pid), "%u/", row->group->pid);
	if (asprintf(&row->text, "%s%u%s%s", pid, tid, row->thread ? " " : "",
		     row->thread ? row->thread : "") < 0)
		row->text = NULL;
	row->name = row->text;
}

const char *cli_report_text(const struct cli_report *r, const struct cli_report_row *row)
{
	return row->function ? ip_names_text(r->names, row->function - r->trace->session->functions)
			     : row->name;
}

/* Makes "4711 nginx". */
static char *process_text(const struct ip_trace_process *p)
{
	char *text;

	return asprintf(&text, "%u %s", p->pid, p->name) < 0 ? NULL : text;
}

static int name_group(struct cli_report *r, struct cli_report_row *row)
{
	const struct ip_recording *s = r->trace->session;
	const struct ip_group *g = row->group;

	if (g->value) {
		row->value = ip_value_key_shown(g->value);
		row->value_text = ip_value_key_text(g->value);
		if (!row->value || !row->value_text)
			return -1;
	}
	if (row->function) {
		row->name = ip_names_get(r->names, g->function);
		if (g->from == IP_CALLER_FRAME) {
			row->caller = ip_names_get(r->names, g->caller);
		} else if (g->from == IP_CALLER_SITE &&
			   (r->options->by == IP_GROUP_BY_CALL_SITE || !g->site->name)) {
			row->caller = row->text = ip_place_text(g->site);
			if (!row->text)
				return ip_error("out of memory");
		} else if (g->from == IP_CALLER_SITE) {
			row->caller = g->site->name;
		}
	} else if (r->options->by == IP_GROUP_BY_THREAD) {
		name_thread(r, row);
	} else if (r->options->by == IP_GROUP_BY_PROCESS) {
		row->name = row->text = process_text(row->process);
	} else if (r->options->by == IP_GROUP_BY_MODULE) {
		row->name = g->module == IP_NO_MODULE ? "[unknown]" : s->modules[g->module].path;
	} else {
		row->name = g->file ? g->file : "[unknown]";
	}
	return row->name ? 0 : ip_error("out of memory");
}

/* Calls that were only counted have a module and a file, but no thread or caller. */
static int count_groups(struct cli_report *r, const bool *selected, uint64_t **ret)
{
	const struct ip_recording *s = r->trace->session;
	bool known = (r->options->by == IP_GROUP_BY_MODULE || r->options->by == IP_GROUP_BY_FILE) &&
		     !r->options->per_process &&
		     !ip_value_filter_is_on(&r->options->filter.matches);
	uint64_t *counted = calloc(r->stats->groups->n + s->nfunctions, sizeof(*counted));

	*ret = counted;
	if (!counted)
		return ip_error("out of memory");
	for (size_t i = 0; i < s->nfunctions; i++) {
		uint32_t group;

		if (!selected[i] || !r->counts->functions[i].calls)
			continue;
		if (!known) {
			r->uncounted += r->counts->functions[i].calls;
			continue;
		}
		group = ip_groups_of_function(r->stats->groups, NULL, i);
		if (group == IP_NO_GROUP)
			return -1;
		counted[group] += r->counts->functions[i].calls;
	}
	return 0;
}

static int make_groups(struct cli_report *r, const bool *selected)
{
	static const struct ip_call_stats none;
	const struct ip_recording *s = r->trace->session;
	_cleanup_free_ uint64_t *counted = NULL;

	if (count_groups(r, selected, &counted) < 0)
		return -1;
	r->rows = calloc(r->stats->groups->n + 1, sizeof(*r->rows));
	if (!r->rows)
		return ip_error("out of memory");
	for (size_t i = 0; i < r->stats->groups->n; i++) {
		struct cli_report_row *row = &r->rows[r->nrows];

		*row = (struct cli_report_row){.stats = i < r->stats->nitems ? &r->stats->items[i]
									     : &none,
					       .group = &r->stats->groups->groups[i]};
		if (r->options->per_process || r->options->by == IP_GROUP_BY_PROCESS ||
		    r->options->by == IP_GROUP_BY_THREAD)
			row->process = &r->trace->process_list[row->group->process];
		if (row->group->function != IP_NO_FUNCTION)
			row->function = &s->functions[row->group->function];
		/* points are no calls, unless the function has nothing else */
		row->count = row->stats->calls + counted[i];
		if (!row->count && row->function)
			row->count = row->stats->points;
		row->logged = row->stats->calls || row->stats->points || row->stats->earlier;
		if (!row->count && !row->logged)
			continue;
		if (row->group->value &&
		    !ip_value_groups_has_values(r->stats->groups->values, row->group->function)) {
			r->valueless += row->count;
			continue;
		}
		ip_stats_summarize(s, row->stats, &row->summary);
		if (!is_wanted(r, row))
			continue;
		r->nrows++;
		if (name_group(r, row) < 0)
			return -1;
	}
	return 0;
}

/* What is printed while the trace is being read. */
struct so_far {
	const struct cli_report *report;
	const bool *selected;
};

/* Prints the table of what has been read so far; as cli_reading_screen.print. */
static int print_so_far(void *context, void *result, size_t lines)
{
	const struct so_far *s = context;
	struct cli_report r = *s->report;
	struct cli_report_options options = *r.options;
	int ret;

	if (options.filter.limit > lines)
		options.filter.limit = lines;
	r.options = &options;
	r.stats = result;
	ret = make_functions(&r, s->selected);
	if (ret == 0 && r.nrows)
		cli_report_sort_rows(&r);
	if (ret == 0)
		ret = cli_report_table(&r);
	free(r.rows);
	return ret;
}

static int read_trace(struct cli_report *r, const struct ip_stats_options *wanted,
		      struct cli_reading_screen *screen)
{
	struct so_far so_far = {r, wanted->selected};
	int ret;

	if (!screen)
		return ip_stats_collect(r->trace, wanted, &r->stats);
	screen->print = print_so_far;
	screen->context = &so_far;
	cli_reading_screen_begin(screen, r->trace);
	ret = ip_stats_collect(r->trace, wanted, &r->stats);
	cli_reading_screen_end(screen, r->trace);
	return ret;
}

/* Reads the trace. What the conditions ask for is found in each trace anew. */
static int collect(struct cli_report *r, struct ip_stats_options *wanted,
		   struct cli_reading_screen *screen)
{
	struct ip_value_matches matches = r->options->filter.matches;
	int ret = ip_value_matches_find(&matches, r->trace->session, r->trace->dir);

	wanted->matches = &matches;
	if (ret == 0)
		ret = read_trace(r, wanted, screen);
	wanted->matches = NULL;
	ip_value_matches_forget(&matches);
	return ret;
}

/* Two calibrations of one clock differ by less than this share. */
#define SAME_CLOCK 0.001

/* trace NULL: dir is opened. */
static int load(const char *dir, struct ip_trace_reader *trace,
		const struct cli_report_options *options, bool compared,
		const struct cli_report *base, struct cli_reading_screen *screen,
		struct cli_report *r)
{
	struct ip_stats_options wanted = {.by = options->by,
					  .value = options->value,
					  .order = cli_report_value_order(options),
					  .per_process = options->per_process,
					  .batches = compared,
					  .scale = 1};
	_cleanup_free_ bool *selected = NULL;
	int ret;

	*r = (struct cli_report){.options = options, .trace = trace};
	if (!trace && cli_reading_screen_open(screen, dir, options->filter.process, &r->trace) < 0)
		return -1;
	cli_reader_use_jobs(r->trace, options->filter.jobs);
	r->clock = r->trace->session;
	if (base) {
		double ratio = (double)base->clock->tsc_hz / r->clock->tsc_hz;

		/* Steps of the same duration must have the same ticks. But between two
		 * calibrations of one clock there is no scaling: rounding would separate ties. */
		if (fabs(ratio - 1) > SAME_CLOCK) {
			wanted.scale = ratio;
			r->clock = base->clock;
		}
	}
	selected = cli_reader_select(r->trace, options->filter.functions);
	wanted.selected = selected;
	r->names = ip_names_create(r->trace->session);
	if (r->names && options->filter.full_names)
		ip_names_use_full(r->names);
	if (!selected || !r->names || ip_counts_of_trace(r->trace, &r->counts) < 0 ||
	    collect(r, &wanted, screen) < 0)
		return -1;
	ret = cli_report_is_by_function(options) ? make_functions(r, selected)
						 : make_groups(r, selected);
	if (ret == 0 && options->by == IP_GROUP_BY_VALUE && !r->stats->groups->values->nvalues)
		return ip_error("%s: no call%s has recorded the value '%s'", dir,
				options->filter.functions ? " of these functions" : "",
				r->stats->groups->values->name.text);
	if (ret == 0 && r->nrows && !compared)
		cli_report_sort_rows(r);
	return ret;
}

int cli_report_load_compared(const char *dir, const struct cli_report_options *options,
			     const struct cli_report *base, struct cli_report *r)
{
	return load(dir, NULL, options, true, base, NULL, r);
}

int cli_report_load(const char *dir, const struct cli_report_options *options,
		    struct cli_reading_screen *screen, struct cli_report *r)
{
	return load(dir, NULL, options, false, NULL, screen, r);
}

int cli_report_load_open(struct ip_trace_reader *trace, const struct cli_report_options *options,
			 struct cli_report *r)
{
	return load(trace->dir, trace, options, false, NULL, NULL, r);
}

void cli_report_clear(struct cli_report *r)
{
	for (size_t i = 0; i < r->nrows; i++) {
		free(r->rows[i].text);
		free(r->rows[i].value);
		free(r->rows[i].value_text);
	}
	free(r->rows);
	ip_stats_destroy(r->stats);
	ip_counts_destroy(r->counts);
	ip_names_destroy(r->names);
	ip_trace_reader_close(r->trace);
}

uint32_t cli_report_missing_function(const struct cli_report *r,
				     const struct ip_recording_missing *m)
{
	return ip_recording_number(r->trace->session, m->number).function;
}
