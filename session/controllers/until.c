/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --until in a session: which histograms are looked at, and when. See until.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/condition_history.h"
#include "common/error.h"
#include "common/names/name_list.h"
#include "hotpatcher/ptrace/stop.h"
#include "session/controllers/until.h"
#include "session/session_private.h"

#define SILENT_PERIODS 4u /* between two looks, at most */
#define SILENT_EACH    2u /* looks until there is one period more between them */
#define SILENT_LOOKS   (IP_CONDITION_LOOKS + SILENT_PERIODS * SILENT_EACH)

/* One function under one condition. Each inlined instance has an entry of its own. */
struct watched {
	uint32_t number;
	const struct ip_condition *condition;
	char *function;
	char *linker_name;
	struct ip_condition_history history;
	uint64_t next_ns;
	uint64_t calls;	 /* at the last look */
	unsigned silent; /* looks in a row that found no new call */
	uint64_t max;	 /* the longest call since the function was looked at, in ticks */
};

struct until {
	struct ip_session_controller controller;
	const struct ip_conditions *conditions;
	struct watched *items;
	size_t n;
	uint64_t next_ns; /* the earliest next_ns of the items */
	uint64_t met_ns;  /* when a condition was met; 0: none was yet */
	uint64_t linger_ns;
	bool waits; /* the session is for a rule, which waits */
};

static void destroy(void *data)
{
	struct until *u = data;

	for (size_t i = 0; i < u->n; i++) {
		free(u->items[i].function);
		free(u->items[i].linker_name);
	}
	free(u->items);
	free(u);
}

/* The function is about to go live, for the first time or again. Its first period begins with the
 * first look after that. */
static int watch(struct until *u, struct ip_counters *counters,
		 const struct ip_condition *condition, uint32_t number, const char *name)
{
	struct watched w = {.number = number, .condition = condition};

	u->next_ns = 0;
	if (condition->measure == IP_CONDITION_MAX)
		ip_counters_keep_max(counters, number);
	for (size_t i = 0; i < u->n; i++)
		if (u->items[i].number == number && u->items[i].condition == condition) {
			u->items[i].next_ns = u->items[i].max = 0;
			ip_condition_history_restart(&u->items[i].history);
			return 0;
		}
	if (ip_array_grow(&u->items, u->n, sizeof(w)) < 0)
		return -1;
	w.function = ip_name_for_people(name);
	w.linker_name = strdup(name);
	if (!w.function || !w.linker_name) {
		free(w.function);
		free(w.linker_name);
		return ip_error("out of memory");
	}
	u->items[u->n++] = w;
	return 0;
}

/* Watches those functions of the plan that a condition names. */
static int planned(void *data, struct ip_session *s, const struct ip_plan *plan)
{
	struct until *u = data;

	for (size_t i = 0; i < plan->nfunctions; i++) {
		const struct ip_plan_function *f = &plan->functions[i];
		bool measured = f->duty == IP_DUTY_HIST || f->duty == IP_DUTY_TIMED;
		const struct ip_probe_list *list = f->module->list;
		const char *name = ip_probe_list_string(list, list->functions[f->function].name);
		uint32_t file = list->functions[f->function].file;

		for (size_t k = 0; measured && k < u->conditions->n; k++)
			if (ip_selection_match(u->conditions->items[k].selection, name,
					       file ? ip_probe_list_string(list, file) : NULL,
					       f->module->path) &&
			    watch(u, s->counters, &u->conditions->items[k], f->number, name) < 0)
				return -1;
	}
	return 0;
}

static double ns_per_tick(const struct ip_session *s)
{
	struct ip_clock_reading now;

	ip_clock_read(&now);
	return now.tsc > s->start.tsc
		       ? (double)(now.raw_ns - s->start.raw_ns) / (double)(now.tsc - s->start.tsc)
		       : 0;
}

/* How long until the next look. A rule waits for hours. While the function is not called, looks
 * become rarer: one in each period at first, then one in two, three, four. So the first period that
 * is judged after a silence may be as long as that; all calls of it are new. Calls are counted by
 * the time that they took to come, so a number of calls keeps its period. */
static uint64_t interval(const struct until *u, struct watched *w, uint64_t calls)
{
	const uint64_t part = ip_condition_interval(w->condition);
	const unsigned most = w->condition->measure == IP_CONDITION_RATE ? 1 : SILENT_PERIODS;
	unsigned periods;

	w->silent = !u->waits || calls != w->calls ? 0 : w->silent + (w->silent < SILENT_LOOKS);
	w->calls = calls;
	if (w->silent < IP_CONDITION_LOOKS)
		return part;
	periods = (w->silent - IP_CONDITION_LOOKS) / SILENT_EACH + 1;
	return IP_CONDITION_LOOKS * part * (periods < most ? periods : most);
}

static void tell_function(const struct watched *w, struct ip_session_summary *summary)
{
	const size_t size = sizeof(summary->until_function);

	if (strlen(w->linker_name) < size)
		memcpy(summary->until_function, w->linker_name, strlen(w->linker_name) + 1);
}

/* Looks at those functions whose time has come. all: at all of them. Returns whether a condition is
 * met; if so, the summary tells which one. */
static bool look(struct until *u, struct ip_session *s, uint64_t now, bool all)
{
	double tick_ns = ns_per_tick(s);

	ip_counters_look(s->counters);
	u->next_ns = UINT64_MAX;
	for (size_t i = 0; i < u->n; i++) {
		struct watched *w = &u->items[i];
		struct ip_condition_durations total;
		struct ip_condition_figure figure;
		bool due = all || now >= w->next_ns;

		/* others may be looked at more often: each look takes the longest call away */
		if (due || w->condition->measure == IP_CONDITION_MAX) {
			ip_counters_durations(s->counters, w->number, &total);
			w->max = total.max > w->max ? total.max : w->max;
		}
		if (due) {
			w->next_ns = now + interval(u, w, total.calls);
			total.max = w->max;
			w->max = 0;
			if (ip_condition_history_look(&w->history, w->condition, &total, now,
						      tick_ns, &figure)) {
				s->summary->until = 1 + (w->condition - s->options->until.items);
				ip_condition_say(w->condition, w->function, &figure,
						 s->summary->until_said);
				s->summary->until_ns = now - s->start_ns;
				tell_function(w, s->summary);
				return true;
			}
		}
		u->next_ns = w->next_ns < u->next_ns ? w->next_ns : u->next_ns;
	}
	return false;
}

static enum ip_end_reason step(void *data, struct ip_session *s)
{
	struct until *u = data;
	uint64_t now = ip_now_ns();

	if (!s->counters)
		return IP_END_NONE;
	if (!u->met_ns && now >= u->next_ns && look(u, s, now, false))
		u->met_ns = now;
	return u->met_ns && now - u->met_ns >= u->linger_ns ? IP_END_UNTIL : IP_END_NONE;
}

static uint64_t rest(const void *data, uint64_t now_ns)
{
	const struct until *u = data;

	if (u->met_ns) {
		const uint64_t past_ns = now_ns - u->met_ns;

		return past_ns < u->linger_ns ? u->linger_ns - past_ns : 0;
	}
	return u->next_ns > now_ns ? u->next_ns - now_ns : 0;
}

/* The function that came nearest to its limit; NULL: none has a figure. *ret_judged: some period
 * was judged. */
static const struct watched *highest_of(const struct until *u, const struct ip_condition *condition,
					bool *ret_judged)
{
	const struct watched *best = NULL;

	*ret_judged = false;
	for (size_t i = 0; i < u->n; i++) {
		const struct watched *w = &u->items[i];
		double least = best ? best->history.highest.value : 0;

		if (w->condition != condition)
			continue;
		*ret_judged |= w->history.judged;
		if (w->history.highest.value > least)
			best = w;
	}
	return best;
}

/* If memory is short the summary says nothing of it. */
static void tell_unmet(const struct until *u, struct ip_session_summary *summary)
{
	summary->unmet = calloc(u->conditions->n, sizeof(*summary->unmet));
	for (size_t i = 0; summary->unmet && i < u->conditions->n; i++) {
		const struct ip_condition *condition = &u->conditions->items[i];
		struct ip_session_unmet *unmet = &summary->unmet[i];
		bool judged;
		const struct watched *w = highest_of(u, condition, &judged);

		unmet->condition = condition;
		if (w) {
			unmet->highest = w->history.highest;
			snprintf(unmet->function, sizeof(unmet->function), "%s", w->function);
		}
		ip_condition_say_highest(condition, w ? w->function : NULL, &unmet->highest, judged,
					 unmet->said);
		summary->nunmet = i + 1;
	}
}

/* What has returned since the last look may still meet a condition. */
static void end(void *data, struct ip_session *s)
{
	struct until *u = data;
	uint64_t now = ip_now_ns();

	if (!s->counters)
		return;
	if (u->met_ns)
		return;
	if (look(u, s, now, true))
		s->summary->until_ns = s->summary->length_ns;
	else
		tell_unmet(u, s->summary);
}

int ip_until_add(struct ip_session *s, const struct ip_conditions *conditions)
{
	struct until *u = calloc(1, sizeof(*u));

	if (!u)
		return ip_error("out of memory");
	u->conditions = conditions;
	u->waits = s->options->yields;
	u->linger_ns = s->options->linger_ns;
	u->controller = (struct ip_session_controller){.data = u,
						       .planned = planned,
						       .step = step,
						       .rest = rest,
						       .end = end,
						       .destroy = destroy};
	ip_controllers_add(s, &u->controller);
	return 0;
}
