/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the table of iprobe report, and the notes above and below it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/read/members.h"
#include "cli/elide.h"
#include "cli/filter/filter_note.h"
#include "cli/info_recorded.h"
#include "cli/report/report.h"
#include "cli/report/report_processes.h"
#include "cli/report/value_note.h"
#include "cli/silent_note.h"
#include "cli/trace_args.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/names/short_name.h"
#include "common/print.h"
#include "common/selection/selection.h"
#include "common/units.h"

#define NAME_MIN 24u

#define MISSING_SHOWN 10 /* --json has all */

static void print_time(FILE *out, uint64_t ns)
{
	char buffer[16];

	ip_print(out, " %8s", ip_format_ns(ns, buffer));
}

/* Prints a percentile. For a histogram only an upper bound is known. */
static void print_percentile(FILE *out, const struct cli_report_row *row, uint64_t ns)
{
	char buffer[16], bound[20];

	if (row->logged) {
		print_time(out, ns);
		return;
	}
	snprintf(bound, sizeof(bound), "<%s", ip_format_ns(ns, buffer));
	ip_print(out, " %8s", bound);
}

static void print_missing(const struct cli_report *r)
{
	const struct ip_recording *s = r->trace->session;
	char from[16], to[16], in[16];

	if (s->nmissing)
		ip_print(stdout, "\nCalls are missing, since somebody else (a uprobe, a debugger) "
				 "had changed the sites of\n");
	for (size_t i = 0; i < s->nmissing && i < MISSING_SHOWN; i++) {
		ip_print(stdout, "  ");
		ip_print(stdout, "%s",
			 ip_names_text(r->names, cli_report_missing_function(r, &s->missing[i])));
		ip_print(stdout, "%s from %s to %s after the start\n",
			 cli_in_member(r->trace, s->missing[i].member, in),
			 ip_format_ns(ip_recording_since_start(s, s->missing[i].from), from),
			 ip_format_ns(ip_recording_since_start(s, s->missing[i].to), to));
	}
	if (s->nmissing > MISSING_SHOWN)
		ip_print(stdout, "  ... and %zu more\n", s->nmissing - MISSING_SHOWN);
}

/* Prints what the rows of dropped functions are about. */
static void print_drops(const struct cli_report *r)
{
	const struct ip_recording *s = r->trace->session;
	char at[16], in[16];

	if (s->ndrops)
		ip_print(stdout,
			 "\nProbes took too much of the time of these functions, and were taken "
			 "away (--drop-hot). Times and events are those until then:\n");
	for (size_t i = 0; i < s->ndrops; i++) {
		ip_print(stdout, "  ");
		ip_print(stdout, "%s", ip_names_text(r->names, s->drops[i].function));
		ip_print(stdout, " after %s%s%s\n",
			 ip_format_ns(ip_recording_since_start(s, s->drops[i].tsc), at),
			 cli_in_member(r->trace, s->drops[i].member, in),
			 s->drops[i].counted ? ", calls are all that were made"
					     : ", later calls are not known");
	}
}

static void print_header(const struct cli_report *r)
{
	const struct ip_trace_reader *t = r->trace;
	/* different commands are in the list of processes */
	const char *what = t->session->command || !t->session->members
				   ? t->session->command
				   : t->session->members->service;
	char duration[64], events[32], threads[32], lost[32], invalid[32], counted[32], end[1024];

	if (cli_info_early(t->session, end, sizeof(end)))
		ip_print(stdout, "%s\n", end);
	else if (cli_info_condition(t->session, end, sizeof(end)))
		ip_print(stdout, "ended: %s\n", end);
	ip_print(stdout, "%s", t->dir);
	if (what && *what) {
		ip_print(stdout, ": ");
		ip_print(stdout, "%s", what);
	}
	ip_print(stdout, "\n%s event%s", ip_format_count(r->stats->events, events),
		 ip_plural(r->stats->events));
	if (t->lost)
		ip_print(stdout, ", %s LOST", ip_format_count(t->lost, lost));
	else
		ip_print(stdout, ", none lost%s", cli_reader_is_cut_off(t) ? " so far" : "");
	if (t->session->invalid)
		ip_print(stdout, ", %s INVALID", ip_format_count(t->session->invalid, invalid));
	if (t->session->payloads)
		ip_print(stdout, ", %s call%s counted", ip_format_count(r->counts->calls, counted),
			 ip_plural(r->counts->calls));
	if (t->session->overwrites)
		ip_print(stdout, ", %s before them overwritten",
			 ip_format_count(t->session->overwritten, lost));
	if (t->session->rotates)
		ip_print(stdout, ", %s before them rotated away",
			 ip_format_count(t->session->rotated, lost));
	if (t->session->filtered)
		ip_print(stdout, ", %s filtered", ip_format_count(t->session->filtered, lost));
	if (t->processes > 1)
		ip_print(stdout, ", %s processes", ip_format_count(t->processes, lost));
	/* calls that are only counted are not told apart by their threads */
	if (t->threads || !t->session->payloads)
		ip_print(stdout, ", %s thread%s", ip_format_count(t->threads, threads),
			 t->threads == 1 ? "" : "s");
	ip_print(stdout, ", %s\n", cli_reader_duration(t, duration));
	cli_silent_note(t);
	cli_filter_note(stdout, "", t->session);
	ip_print(stdout, "\n");
}

/* Prints how many calls had not finished. Their time is never longer than their threads lived
 * (ip_run.end). */
static void print_unfinished(const struct cli_report *r)
{
	const struct ip_trace_reader *t = r->trace;
	bool one = r->stats->unfinished == 1;
	char count[32], within[16];

	ip_print(stdout,
		 "\n%s call%s had not finished when %s thread or the recording ended; until then "
		 "%s in calls, total and self",
		 ip_format_count(r->stats->unfinished, count), one ? "" : "s",
		 one ? "its" : "their", one ? "it counts" : "they count");
	if (!t->session->ends)
		ip_print(stdout, ":\nuntil the thread's last event, since this trace does not tell "
				 "when threads ended");
	else if (t->ended)
		ip_print(stdout,
			 ".\nA thread ends here when it was seen last, which was up to %s before "
			 "it was seen to be gone",
			 ip_format_ns(ip_recording_ns(t->session, t->ended_within), within));
	ip_print(stdout, ".\n");
}

static void print_footer(const struct cli_report *r, size_t limit)
{
	char count[32];

	if (limit < r->nrows)
		ip_print(stdout, "... and %zu more %s\n", r->nrows - limit,
			 cli_report_is_by_function(r->options) ? "functions" : "rows");
	if (r->uncounted)
		ip_print(stdout, "\n%s call%s counted without %s; they are not among these.\n",
			 ip_format_count(r->uncounted, count),
			 r->uncounted == 1 ? " was" : "s were",
			 r->options->filter.matches.n ? "values" : "a thread and a caller");
	if (r->stats->earlier)
		ip_print(stdout,
			 "\n%s call%s open already when the recording began; from then on the time "
			 "counts in total and self,\nand in no other figure.\n",
			 ip_format_count(r->stats->earlier, count),
			 r->stats->earlier == 1 ? " was" : "s were");
	if (r->stats->unfinished)
		print_unfinished(r);
	if (r->stats->suspect)
		ip_print(stdout,
			 "\n%s call%s may be several taken for one, since events were lost "
			 "meanwhile; they are not in min to max,\n"
			 "and the time in which events were lost is in none's total and self.\n",
			 ip_format_count(r->stats->suspect, count), ip_plural(r->stats->suspect));
	if (r->stats->orphans)
		ip_print(stdout, "\n%s exit%s of calls that began before %s %s not counted.\n",
			 ip_format_count(r->stats->orphans, count), ip_plural(r->stats->orphans),
			 r->trace->session->overwritten || r->trace->session->rotated
				 ? "what is kept"
				 : "the recording of their thread",
			 r->stats->orphans == 1 ? "is" : "are");
}

/* Prints what is not told by value. */
static void print_values(const struct cli_report *r)
{
	const struct ip_value_groups *values = r->stats->groups->values;
	const char *sort = r->options->sort;
	char count[32];

	if (r->valueless == 1)
		ip_print(stdout,
			 "\n1 call or point of a function that does not record %s is not among "
			 "these.\n",
			 values->name.text);
	else if (r->valueless)
		ip_print(stdout,
			 "\n%s calls and points of functions that do not record %s are not among "
			 "these.\n",
			 ip_format_count(r->valueless, count), values->name.text);
	if (!sort || !strcmp(sort, cli_report_columns[CLI_BY_FUNCTION].name))
		sort = cli_report_columns[CLI_BY_TOTAL].name;
	/* texts are not chosen by their order */
	cli_value_note(values, !strcmp(sort, CLI_SORT_VALUE) && ip_value_name_is_text(&values->name)
				       ? NULL
				       : sort);
}

/* Returns the name with the parameters, which tell functions of one name apart. The caller frees
 * it. */
static char *name_with_args(const struct cli_report *r, const struct cli_report_row *row)
{
	char *name = ip_demangle(row->function->linker_name, true), *shorter;

	if (!name || r->options->filter.full_names)
		return name;
	shorter = ip_short_name(name, SIZE_MAX);
	free(name);
	return shorter;
}

/* Returns the name of the caller of a row that has one. The caller of this function frees it. */
static char *caller_of(const struct cli_report *r, const struct cli_report_row *row)
{
	if (row->group->from == IP_CALLER_FRAME)
		return strdup(ip_names_text(r->names, row->group->caller));
	return r->options->filter.full_names ? strdup(row->caller)
					     : ip_short_name(row->caller, SIZE_MAX);
}

char *cli_report_row_name(const struct cli_report *r, const struct cli_report_row *row,
			  size_t width)
{
	_cleanup_free_ char *full = row->ambiguous ? name_with_args(r, row) : NULL;
	_cleanup_free_ char *caller = NULL;
	const char *name = full ? full : cli_report_text(r, row);
	const char *module = full ? ip_recording_module_name(r->trace->session, row->function) : "";
	bool called = row->group && row->group->from != IP_CALLER_NONE;
	const struct ip_recording *s = r->trace->session;
	const struct ip_recording_drop *drop =
		row->function ? ip_names_drop(s, row->function - s->functions) : NULL;
	_cleanup_free_ char *process = NULL;
	char *text, *marked, mark[64] = "", at[16];
	_cleanup_free_ char *value = row->value ? strdup(row->value) : NULL;

	/* the row's calls include those that were counted afterwards */
	if (drop)
		snprintf(mark, sizeof(mark), " [%suntil dropped at %s]",
			 drop->counted && cli_report_is_by_function(r->options) ? "times " : "",
			 ip_format_ns(ip_recording_since_start(s, drop->tsc), at));
	if (row->value && !value)
		return NULL;
	/* the value gets what the name leaves, and a half of the room at least */
	if (value) {
		size_t taken = cli_width_of(name) + 2, half = width / 2;

		cli_cut_text(value, taken < half ? width - taken : half);
		width -= cli_width_of(value) + 2;
	}
	if (called)
		caller = caller_of(r, row);
	if (called && !caller)
		return NULL;
	/* a thread has its process in its name */
	if (r->options->per_process && r->options->by != IP_GROUP_BY_THREAD &&
	    asprintf(&process, "%u %s: ", row->process->pid, row->process->name) < 0) {
		process = NULL;
		return NULL;
	}
	if (asprintf(&text, "%s%s%s%s%s%s%s%s", process ? process : "", name, full ? " [" : "",
		     module, full ? "]" : "", called ? " <- " : "", called ? caller : "",
		     called && row->group->from == IP_CALLER_FRAME ? " (around)" : "") < 0)
		return NULL;
	cli_fit_name(text, width > strlen(mark) + 3 ? width - strlen(mark) : 3);
	if (asprintf(&marked, "%s%s%s%s", text, mark, value ? "  " : "", value ? value : "") < 0)
		marked = NULL;
	free(text);
	return marked;
}

const char *cli_report_tail_mark(const struct cli_report_row *row, char mark[CLI_TAIL_MARK_MAX])
{
	if (!row->logged && row->counted && row->counted->measured)
		return cli_tail_mark_counted(row->counted, row->function && row->function->tails,
					     mark);
	return row->logged ? cli_tail_mark(row->stats->until_tail, row->stats->calls, mark) : "";
}

/* Adds to the note of a row what of its calls has not finished. */
static const char *add_unfinished(const struct cli_report_row *row, char note[CLI_ROW_NOTE_MAX])
{
	const size_t used = strlen(note);
	char length[16];

	if (row->open_ns)
		snprintf(note + used, CLI_ROW_NOTE_MAX - used,
			 "%s%" PRIu64 " not finished, after %s", used ? "; " : "",
			 row->stats->unfinished, ip_format_ns(row->open_ns, length));
	return note;
}

const char *cli_report_row_note(const struct cli_report_row *row, char note[CLI_ROW_NOTE_MAX])
{
	char mark[CLI_TAIL_MARK_MAX];

	snprintf(note, CLI_ROW_NOTE_MAX, "%s", cli_report_tail_mark(row, mark));
	return add_unfinished(row, note);
}

static bool has_callers(const struct cli_report *r)
{
	return r->options->by == IP_GROUP_BY_CALLER || r->options->by == IP_GROUP_BY_CALL_SITE;
}

/* The note of a row in the table. A function has a row for each caller, with two names: what a tail
 * call means for its times is said once, below the table. */
static const char *table_note(const struct cli_report *r, const struct cli_report_row *row,
			      char note[CLI_ROW_NOTE_MAX])
{
	char mark[CLI_TAIL_MARK_MAX];

	if (!has_callers(r) || !row->logged)
		return cli_report_row_note(row, note);
	snprintf(note, CLI_ROW_NOTE_MAX, "%s",
		 cli_tail_mark_short(row->stats->until_tail, row->stats->calls, mark));
	return add_unfinished(row, note);
}

/* Says what the short marks mean, where a row that is shown has one. */
static void print_tails(const struct cli_report *r)
{
	bool any = false;

	for (size_t i = 0; i < r->nrows && i < r->options->filter.limit; i++)
		any |= r->rows[i].logged && r->rows[i].stats->until_tail;
	if (any)
		ip_print(stdout,
			 "\ntail N %%: of so many of these calls the time ends at their tail "
			 "call (TAIL CALLS in iprobe-concepts(7)).\n");
}

void cli_report_print_cell(FILE *out, const struct cli_report_row *row,
			   enum cli_report_column column)
{
	if (!cli_report_is_known(row, column)) {
		ip_print(out, " %8s", "-");
		return;
	}
	switch (column) {
	case CLI_BY_CALLS:
		ip_print(out, " %10" PRIu64, row->count);
		break;
	case CLI_BY_THREADS:
		ip_print(out, " %8" PRIu64, row->stats->threads);
		break;
	case CLI_BY_TOTAL:
	case CLI_BY_SELF:
	case CLI_BY_STDDEV:
	case CLI_BY_MIN:
	case CLI_BY_AVG:
	case CLI_BY_MAX:
		print_time(out, cli_report_value(row, column));
		break;
	default:
		print_percentile(out, row, cli_report_value(row, column));
	}
}

/* Prints how callers are known. */
static void print_callers(const struct cli_report *r)
{
	uint64_t by_frame = 0, by_site = 0;
	char count[32];

	for (size_t i = 0; i < r->stats->groups->n && i < r->stats->nitems; i++) {
		const struct ip_group *g = &r->stats->groups->groups[i];

		by_site += g->from == IP_CALLER_SITE ? r->stats->items[i].calls : 0;
		by_frame += g->from == IP_CALLER_FRAME ? r->stats->items[i].calls : 0;
	}
	if (by_site)
		ip_print(stdout, "\n<-: the caller, by the return address of %s calls.\n",
			 ip_format_count(by_site, count));
	if (by_frame)
		ip_print(stdout,
			 "\n<- ... (around): the recorded call around it, of %s calls; functions "
			 "without probes in between are not seen\n"
			 "(--callsite of iprobe run and attach records return addresses).\n",
			 ip_format_count(by_frame, count));
}

int cli_report_table(const struct cli_report *r)
{
	static const char *const titles[] = {[IP_GROUP_BY_FUNCTION] = "function",
					     [IP_GROUP_BY_CALLER] = "function <- caller",
					     [IP_GROUP_BY_CALL_SITE] =
						     "function <- place of the call",
					     [IP_GROUP_BY_THREAD] = "thread",
					     [IP_GROUP_BY_MODULE] = "module",
					     [IP_GROUP_BY_FILE] = "file",
					     [IP_GROUP_BY_VALUE] = "function, ",
					     [IP_GROUP_BY_PROCESS] = "process"};
	const struct cli_report_options *o = r->options;
	size_t others = 1;

	print_header(r);
	for (size_t i = 0; i < o->ncolumns; i++) {
		int width = o->columns[i] == CLI_BY_CALLS ? 10 : 8;

		ip_print(stdout, " %*s", width, cli_report_columns[o->columns[i]].name);
		others += width + 1;
	}
	ip_print(stdout, "  %s%s%s\n", o->per_process ? "process: " : "", titles[o->by],
		 o->by == IP_GROUP_BY_VALUE ? r->stats->groups->values->name.text : "");
	for (size_t i = 0; i < r->nrows && i < o->filter.limit; i++) {
		const struct cli_report_row *row = &r->rows[i];
		char mark[CLI_ROW_NOTE_MAX];
		size_t more;

		table_note(r, row, mark);
		more = *mark ? strlen(mark) + 4 : 0;
		_cleanup_free_ char *name =
			cli_report_row_name(r, row, cli_name_width(others + 1 + more, NAME_MIN));
		if (!name)
			return ip_error("out of memory");
		for (size_t k = 0; k < o->ncolumns; k++)
			cli_report_print_cell(stdout, row, o->columns[k]);
		ip_print(stdout, "  %s%s%s%s\n", name, *mark ? "  (" : "", mark, *mark ? ")" : "");
	}
	print_footer(r, o->filter.limit);
	if (o->by == IP_GROUP_BY_VALUE)
		print_values(r);
	if (has_callers(r)) {
		print_callers(r);
		print_tails(r);
	}
	print_missing(r);
	print_drops(r);
	return 0;
}
