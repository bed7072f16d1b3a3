/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --until in a session: which histograms are looked at, and when. See until.h.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/ptrace/stop.h"
#include "session/session_private.h"
#include "session/until.h"

/* One function under one condition. Each inlined instance has an entry of its own. */
struct watched {
	uint32_t number;
	const struct ip_condition *condition;
	char *function;
	/* looks[at] is the oldest look, which is the next to be replaced */
	struct ip_condition_durations looks[IP_CONDITION_LOOKS];
	uint64_t looks_ns[IP_CONDITION_LOOKS]; /* when they were taken */
	uint64_t since_ns;		       /* no call was measured before */
	unsigned nlooks, at;
	uint64_t next_ns;
};

struct until {
	struct ip_session_controller controller;
	const struct ip_conditions *conditions;
	struct watched *items;
	size_t n;
	uint64_t next_ns; /* the earliest next_ns of the items */
	uint64_t met_ns;  /* when a condition was met; 0: none was yet */
};

static void destroy(void *data)
{
	struct until *u = data;

	for (size_t i = 0; i < u->n; i++)
		free(u->items[i].function);
	free(u->items);
	free(u);
}

static int watch(struct until *u, const struct ip_condition *condition, uint32_t number,
		 const char *name)
{
	struct watched w = {.number = number, .condition = condition, .since_ns = ip_now_ns()};

	for (size_t i = 0; i < u->n; i++)
		if (u->items[i].number == number && u->items[i].condition == condition)
			return 0;
	if (ip_array_grow(&u->items, u->n, sizeof(w)) < 0)
		return -1;
	w.function = ip_demangle(name, false);
	if (!w.function)
		return ip_error("out of memory");
	u->items[u->n++] = w;
	u->next_ns = 0;
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
			    watch(u, &u->conditions->items[k], f->number, name) < 0)
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

/* Whether the condition holds for the calls since the oldest look. At the first looks these are all
 * calls since the start. *ret_in_ns: the time in which they came. */
static bool look(struct ip_session *s, struct watched *w, uint64_t now_ns, double *ret_value,
		 uint64_t *ret_calls, uint64_t *ret_in_ns)
{
	struct ip_condition_durations now = {0}, in;
	const struct ip_condition_durations *from = &w->looks[w->at];
	uint64_t since;

	ip_counters_durations(s->counters, w->number, &now);
	in = now;
	/* iprobe run begins later than the session has been made ready */
	since = w->since_ns > s->start_ns ? w->since_ns : s->start_ns;
	*ret_in_ns = now_ns - (w->nlooks == IP_CONDITION_LOOKS ? w->looks_ns[w->at] : since);
	if (w->nlooks == IP_CONDITION_LOOKS) {
		in.calls -= from->calls;
		in.sum -= from->sum;
		for (unsigned i = 0; i < IP_HIST_BUCKETS; i++)
			in.buckets[i] -= from->buckets[i];
	} else {
		w->nlooks++;
	}
	w->looks[w->at] = now;
	w->looks_ns[w->at] = now_ns;
	w->at = (w->at + 1) % IP_CONDITION_LOOKS;
	*ret_calls = in.calls;
	return ip_condition_holds(w->condition, &in, ns_per_tick(s), ret_value);
}

/* Looks at those functions whose time has come. Returns whether a condition is met; if so, the
 * summary tells which one. */
static bool look_at_all(struct until *u, struct ip_session *s, uint64_t now)
{
	ip_counters_collect(s->counters);
	u->next_ns = UINT64_MAX;
	for (size_t i = 0; i < u->n; i++) {
		struct watched *w = &u->items[i];
		double value;
		uint64_t calls, in_ns;

		if (now >= w->next_ns) {
			w->next_ns = now + w->condition->over_ns / IP_CONDITION_LOOKS;
			if (look(s, w, now, &value, &calls, &in_ns)) {
				s->summary->until = 1 + (w->condition - s->options->until.items);
				ip_condition_say(w->condition, w->function, value, calls, in_ns,
						 s->summary->until_said);
				s->summary->until_ns = now - s->start_ns;
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
	if (!u->met_ns && now >= u->next_ns && look_at_all(u, s, now))
		u->met_ns = now;
	return u->met_ns && now - u->met_ns >= s->options->linger_ns ? IP_END_UNTIL : IP_END_NONE;
}

int ip_until_add(struct ip_session *s, const struct ip_conditions *conditions)
{
	struct until *u = calloc(1, sizeof(*u));

	if (!u)
		return ip_error("out of memory");
	u->conditions = conditions;
	u->controller = (struct ip_session_controller){
		.data = u, .planned = planned, .step = step, .destroy = destroy};
	ip_controllers_add(s, &u->controller);
	return 0;
}
