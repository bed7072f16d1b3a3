/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe report --slowest: finds single calls, and prints them with their values for people.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/call_values.h"
#include "cli/elide.h"
#include "cli/filter/filter_check.h"
#include "cli/report/report_slowest.h"
#include "cli/trace_args.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"
#include "common/units.h"

#define TEXT_MIN 24u

static int by_time(const void *a, const void *b)
{
	const struct ip_slow_call *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	/* of calls that began at the same time the outer one ends later */
	return x->ordinal < y->ordinal ? 1 : -1;
}

int cli_slowest_caller(const struct cli_slowest *s, const struct ip_slow_call *call,
		       struct cli_slowest_caller *ret)
{
	const struct ip_recording *session = s->trace->session;
	uint64_t address = ip_recording_call_site(call->args);
	const struct ip_place *place;

	*ret = (struct cli_slowest_caller){0};
	if (address) {
		place = ip_symbolizer_get(s->places, call->member,
					  session->functions[call->function].module, address);
		ret->text = place ? ip_place_text(place) : NULL;
		if (!ret->text)
			return ip_error("out of memory");
		ret->name = place->name ? place->name : ret->text;
		ret->module = place->module;
		ret->from = "call site";
	} else if (call->around != IP_NO_CALL_AROUND) {
		ret->name = ip_names_get(s->names, call->around);
		ret->module = ip_recording_module_name(session, &session->functions[call->around]);
		ret->from = "frame";
	}
	return 0;
}

const char *cli_slowest_thread(const struct cli_slowest *s, const struct ip_slow_call *call)
{
	return ip_recording_thread_name_at(s->trace->session, call->member, call->tid,
					   call->start + call->ticks);
}

static char *thread_text(const struct cli_slowest *s, const struct ip_slow_call *call)
{
	const char *name = cli_slowest_thread(s, call);
	char *text, pid[16] = "";

	if (s->trace->processes > 1)
		snprintf(pid, sizeof(pid), "%u/", call->pid);
	if (asprintf(&text, "%s%u%s%s", pid, call->tid, name ? " " : "", name ? name : "") < 0)
		return NULL;
	ip_clean(text);
	return text;
}

static const char *mark_of(const struct ip_slow_call *call)
{
	if (call->how == IP_END_UNFINISHED)
		return "  (not finished)";
	if (call->how == IP_END_UNWOUND)
		return "  (unwound)";
	return call->flags & IP_FRAME_TAIL ? "  (until its tail call)" : "";
}

char *cli_slowest_number(const struct cli_slowest *s, const struct ip_slow_call *call)
{
	struct ip_value value;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (out && s->value.text && ip_slow_call_value(call, &s->value, &value))
		ip_value_print(out, &value);
	return ip_print_end_text(out, &text);
}

/* Prints the column of the value, which the values of the call may be cut off before. */
static int print_number(const struct cli_slowest *s, const struct ip_slow_call *call)
{
	_cleanup_free_ char *text = s->value.text ? cli_slowest_number(s, call) : NULL;

	if (!s->value.text)
		return 0;
	if (!text)
		return ip_error("out of memory");
	ip_print(stdout, "%*s%s  ", (int)(s->value_width - cli_width_of(text)), "", text);
	return 0;
}

static int print_call(const struct cli_slowest *s, const struct ip_slow_call *call, unsigned width)
{
	uint64_t ns = ip_recording_since_start(s->trace->session, call->start);
	_cleanup_free_ char *text =
		cli_call_text(s->trace->session, ip_names_get(s->names, call->function), call);
	_cleanup_free_ char *thread = thread_text(s, call);
	_cleanup_free_ char *place = NULL;
	char duration[16], self[16];
	struct cli_slowest_caller caller;
	size_t room, others = 15 + 2 * 9 + 2 + width + 2;

	others += s->value.text ? s->value_width + 2 : 0;
	if (!text || !thread)
		return ip_error("out of memory");
	if (cli_slowest_caller(s, call, &caller) < 0)
		return -1;
	place = caller.text;
	others += strlen(mark_of(call));
	if (caller.from)
		others += 5 + cli_width_of(place ? place : caller.name);
	room = cli_name_width(others, TEXT_MIN);
	cli_cut_text(text, room);
	ip_print(stdout, "%5" PRIu64 ".%09" PRIu64 " %8s %8s  ", ns / 1000000000, ns % 1000000000,
		 ip_format_ns(ip_recording_ns(s->trace->session, call->ticks), duration),
		 ip_format_ns(ip_recording_ns(s->trace->session, call->self), self));
	if (print_number(s, call) < 0)
		return -1;
	ip_print(stdout, "%s%*s  %s", thread, (int)(width - cli_width_of(thread)), "", text);
	if (caller.from)
		ip_print(stdout, "  <- %s", place ? place : caller.name);
	ip_print(stdout, "%s\n", mark_of(call));
	return 0;
}

static int print_notes(const struct cli_slowest *s)
{
	const size_t around =
		s->options->slowest_by == IP_SLOWEST_BY_DURATION && !s->options->innermost
			? ip_slowest_count_around(s->found)
			: 0;
	char count[32];

	if (around)
		ip_print(stdout,
			 "\n%zu of these %s around others of these; --innermost leaves %s out, -s "
			 "self lists the calls that took the time themselves.\n",
			 around, around == 1 ? "is" : "are", around == 1 ? "it" : "them");
	if (s->found->outer)
		ip_print(stdout,
			 "\n%s call%s around others of these: not among these (--innermost).\n",
			 ip_format_count(s->found->outer, count),
			 s->found->outer == 1 ? " is" : "s are");
	if (s->found->suspect)
		ip_print(stdout,
			 "\n%s call%s may be several taken for one, since events were lost "
			 "meanwhile: not among these.\n",
			 ip_format_count(s->found->suspect, count),
			 s->found->suspect == 1 ? "" : "s");
	if (s->found->earlier)
		ip_print(stdout,
			 "\n%s call%s open already when the recording began: not among these.\n",
			 ip_format_count(s->found->earlier, count),
			 s->found->earlier == 1 ? " was" : "s were");
	if (s->found->unkept)
		ip_print(stdout,
			 "\nThe values of %s calls were not kept: too many calls with values were "
			 "open at once.\n",
			 ip_format_count(s->found->unkept, count));
	if (s->found->numberless)
		ip_print(stdout, "\n%s call%s recorded no number %s: not among these.\n",
			 ip_format_count(s->found->numberless, count),
			 s->found->numberless == 1 ? " has" : "s have", s->value.text);
	return 0;
}

static int print_table(struct cli_slowest *s)
{
	unsigned width = 6;

	if (!s->found->n) /* what there is in the place of a table has been told */
		return print_notes(s);
	s->value_width = s->value.text ? cli_width_of(s->value.text) : 0;
	for (size_t i = 0; i < s->found->n; i++) {
		_cleanup_free_ char *thread = thread_text(s, &s->found->calls[i]);
		_cleanup_free_ char *number = cli_slowest_number(s, &s->found->calls[i]);

		if (!thread || !number)
			return ip_error("out of memory");
		if (cli_width_of(thread) > width)
			width = cli_width_of(thread);
		if (s->value.text && cli_width_of(number) > s->value_width)
			s->value_width = cli_width_of(number);
	}
	ip_print(stdout, "%15s %8s %8s  ", "when", "duration", "self");
	if (s->value.text)
		ip_print(stdout, "%*s%s  ", (int)(s->value_width - cli_width_of(s->value.text)), "",
			 s->value.text);
	ip_print(stdout, "%-*s  %s\n", (int)width, "thread", "call");
	for (size_t i = 0; i < s->found->n; i++)
		if (print_call(s, &s->found->calls[i], width) < 0)
			return -1;
	return print_notes(s);
}

/* Finds the value by which calls are sorted, if they are. Texts have no size. */
static int find_value(struct cli_slowest *s, const char *dir)
{
	const char *name = s->options->slowest_value;

	if (!name)
		return 0;
	if (ip_value_name_find(s->trace->session, dir, name, &s->value) < 0)
		return -1;
	return ip_value_name_is_text(&s->value)
		       ? ip_error("%s: the value '%s' is text, and --slowest sorts by numbers; "
				  "--value '%s=GLOB' chooses calls by text",
				  dir, name, name)
		       : 0;
}

/* Returns -1 with an error where the calls have no number by which they could be sorted. */
static int check_numbers(const struct cli_slowest *s, const char *dir)
{
	const struct ip_slowest *found = s->found;

	if (found->n || (!found->numberless && !found->points))
		return 0;
	if (found->points)
		return ip_error("%s: '%s' came with points, which are no calls: iprobe report --by "
				"'value:%s' -s value lists its values",
				dir, s->value.text, s->value.text);
	return ip_error("%s: none of the chosen calls has recorded a number '%s'", dir,
			s->value.text);
}

static int find(struct cli_slowest *s, const char *dir, struct cli_report_options *o)
{
	_cleanup_free_ bool *selected = cli_reader_select(s->trace, o->filter.functions);
	struct ip_slowest_options wanted = {.n = o->slowest,
					    .innermost = o->innermost,
					    .by = o->slowest_by,
					    .value = &s->value,
					    .selected = selected,
					    .matches = &o->filter.matches};

	if (!selected || find_value(s, dir) < 0 ||
	    ip_value_matches_find(&o->filter.matches, s->trace->session, dir) < 0)
		return -1;
	s->names = ip_names_create(s->trace->session);
	s->places = ip_symbolizer_create(dir, s->trace->session);
	if (!s->names || !s->places || ip_slowest_find(s->trace, &wanted, &s->found) < 0 ||
	    check_numbers(s, dir) < 0)
		return -1;
	if (o->in_time && s->found->n)
		qsort(s->found->calls, s->found->n, sizeof(*s->found->calls), by_time);
	return 0;
}

int cli_report_slowest(const char *dir, struct cli_report_options *o)
{
	struct cli_slowest s = {.options = o};
	int ret = cli_reader_open_functions(dir, o->filter.process, &s.trace);

	if (ret == 0)
		ret = find(&s, dir, o);
	if (ret == 0) {
		cli_reader_warn(s.trace);
		cli_reader_warn_counted(s.trace);
		if (!s.found->n)
			cli_filter_warn_no_calls(s.trace, &o->filter, s.found->events,
						 s.found->chosen_points);
		ret = o->format == CLI_REPORT_JSON  ? cli_slowest_json(&s)
		      : o->format == CLI_REPORT_CSV ? cli_slowest_csv(&s)
						    : print_table(&s);
	}
	if (ret == 0)
		ret = cli_reader_check_stdout();
	ip_slowest_destroy(s.found);
	ip_value_name_clear(&s.value);
	ip_symbolizer_destroy(s.places);
	ip_names_destroy(s.names);
	ip_trace_reader_close(s.trace);
	return ret;
}
