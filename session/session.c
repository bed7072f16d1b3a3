/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all parts of a session use: selections, stops and functions that are counted, priority,
 * naps. go_live.c makes its sites live, begin.c what it begins with, loop.c has its loop, end.c
 * ends it.
 */
#include "session/session.h"

#include <sys/resource.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/notice.h"
#include "hotpatcher/ptrace/stops.h"
#include "session/controllers/drop_hot.h"
#include "session/controllers/until.h"
#include "session/session_private.h"

#define HURRY (-10) /* nice value: weighs nine times what 0 does */

void ip_session_nap(uint64_t ns)
{
	const struct timespec t = {ns / 1000000000, ns % 1000000000};

	nanosleep(&t, NULL);
}

static bool is_counted(const struct ip_session *s, uint32_t number)
{
	return number > IP_NUMBER_MAX || (s->counted[number / 8] & 1 << number % 8);
}

static uint8_t *silent_of(const struct ip_session *s)
{
	return s->counted + IP_NUMBER_MAX / 8 + 1;
}

const uint8_t *ip_session_silent(const struct ip_session *s)
{
	return s->counted ? silent_of(s) : NULL;
}

static bool is_counted_silent(const struct ip_session *s, uint32_t number)
{
	return number <= IP_NUMBER_MAX && (silent_of(s)[number / 8] & 1 << number % 8);
}

/* A function may be selected that was silent before. */
static void count_sites(struct ip_session *s, const struct ip_plan *plan)
{
	for (size_t i = 0; i < plan->nchanges; i++) {
		const struct ip_plan_function *f = &plan->functions[plan->function_of[i]];

		if (!is_counted(s, f->number)) {
			s->summary->sites++;
			s->summary->silent_sites += f->silent;
		} else if (!f->silent && is_counted_silent(s, f->number)) {
			s->summary->silent_sites--;
		}
	}
}

void ip_session_count(struct ip_session *s, const struct ip_plan *plan)
{
	if (!s->counted)
		s->counted = calloc(2, IP_NUMBER_MAX / 8 + 1);
	if (!s->counted)
		return;
	count_sites(s, plan);
	for (size_t i = 0; i < plan->nfunctions; i++) {
		const struct ip_plan_function *f = &plan->functions[i];

		const bool was_silent = is_counted_silent(s, f->number);
		/* the number of the function's other instance is next to this number
		 * (ip_plan_bind) */
		const uint32_t other = f->inlined ? f->number - 1 : f->number + 1;

		if (is_counted(s, f->number) && (f->silent || !was_silent))
			continue;
		if (f->silent || was_silent)
			silent_of(s)[f->number / 8] ^= 1 << f->number % 8;
		if (f->silent && !is_counted(s, other))
			ip_name_list_add(&s->summary->silent_functions, ip_plan_function_name(f));
		else if (!f->silent)
			s->summary->functions +=
				!is_counted(s, other) || is_counted_silent(s, other);
		if (was_silent && !is_counted_silent(s, other))
			ip_name_list_remove(&s->summary->silent_functions,
					    ip_plan_function_name(f));
		s->counted[f->number / 8] |= 1 << f->number % 8;
	}
}

void ip_session_add_stop(struct ip_session *s, const struct ip_stop_record *stop)
{
	ip_stop_log_add(&s->summary->stops, stop);
	if (s->trace)
		ip_trace_add_stop(s->trace, stop);
}

/* Adds the stops of a log to the summary, and those that are listed in it also to the trace. */
static void add_stops(struct ip_session *s, const struct ip_stop_log *log, const char *kind)
{
	for (size_t i = 0; s->trace && i < log->n; i++) {
		struct ip_stop_record stop = log->items[i];

		if (!stop.kind)
			stop.kind = kind;
		ip_trace_add_stop(s->trace, &stop);
	}
	if (s->trace)
		ip_trace_add_looks(s->trace, &log->looks);
	ip_stop_log_append(&s->summary->stops, log, kind);
}

void ip_session_tell_stops(struct ip_session *s, const char *kind)
{
	if (!s->target)
		return;
	add_stops(s, &ip_stops_of(s->target)->log, kind);
	ip_stop_log_clear(&ip_stops_of(s->target)->log);
}

void ip_session_note_stop(struct ip_session *s, const char *kind, const struct ip_patch_result *r)
{
	if (s->trace)
		ip_session_tell_stops(s, kind);
	add_stops(s, &r->stops, kind);
}

void ip_session_hurry(struct ip_session *s, bool start)
{
	if (start) {
		s->own_nice = getpriority(PRIO_PROCESS, 0);
		s->hurries = s->own_nice > HURRY && setpriority(PRIO_PROCESS, 0, HURRY) == 0;
	} else if (s->hurries) {
		s->hurries = setpriority(PRIO_PROCESS, 0, s->own_nice) < 0;
	}
}

int ip_session_open(struct ip_session *s, pid_t pid)
{
	if (ip_stops_open(pid, &s->target) < 0)
		return -1;
	s->target->plt = s->options->plt;
	return 0;
}

int ip_session_select(struct ip_session *s)
{
	if (ip_payload_rules_select(&s->options->payloads, s->options->functions, &s->selections) <
	    0)
		return -1;
	if (ip_payload_rules_matter(&s->options->payloads))
		s->selections.rules = &s->options->payloads;
	s->selections.plt = s->options->plt;
	if (s->options->controller)
		ip_controllers_add(s, s->options->controller);
	if (s->options->drop_hot && ip_drop_hot_add(s, s->options->drop_hot) < 0)
		return -1;
	return s->options->until.n ? ip_until_add(s, &s->options->until) : 0;
}

void ip_session_tell_unused(const struct ip_session *s)
{
	const struct ip_payload_rules *rules = &s->options->payloads;
	_cleanup_free_ char *unused = ip_plan_unused(&s->modules, s->selections.items[0].selection);

	if (unused)
		ip_notice_of(s->target->pid, "nothing matches %s", unused);
	for (size_t i = 0; i < rules->n; i++) {
		_cleanup_free_ char *missing =
			ip_plan_unused(&s->modules, rules->items[i].selection);

		if (missing)
			ip_notice_of(s->target->pid, "nothing matches %s of %s", missing,
				     rules->items[i].text);
	}
	ip_filters_tell_samples(&s->options->filters, &s->modules, s->target->pid);
}
