/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drops hot functions. drop_hot.h describes the steps; comments here name them.
 */
#include "session/controllers/drop_hot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/hot_functions.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/names/name_list.h"
#include "common/notice.h"
#include "common/selection/selection.h"
#include "common/units.h"
#include "hotpatcher/ptrace/stop.h"
#include "session/session_private.h"
#include "session/update.h"

#define LOOK_NS	  100000000ull
#define REST	  100u /* the pause after a change, as a multiple of the length of its stops */
#define RETRY_NS  1000000000ull
#define AT_ONCE	  256u /* functions */
#define NAMES_MAX 4u   /* in the summary; the trace has all */
#define HZ_NS	  20000000ull

struct drop {
	uint8_t build_id[IP_BUILD_ID_MAX];
	size_t build_id_size;
	uint32_t function;
	bool counted;
	char *name; /* for people */
};

struct drop_hot {
	struct ip_session_controller controller;
	struct ip_chooser chooser;
	struct ip_hot *hot;
	struct drop *items;
	size_t n;
	uint64_t next_ns, hz;
	bool behind; /* step 4 has failed: it must be done again */
};

static void destroy(void *data)
{
	struct drop_hot *d = data;

	for (size_t i = 0; i < d->n; i++)
		free(d->items[i].name);
	free(d->items);
	ip_hot_destroy(d->hot);
	free(d);
}

/* Finds the entry of a function of the module's probe list; NULL: the function was not dropped. */
static const struct drop *find(const struct drop_hot *d, const struct ip_module *module,
			       uint32_t function)
{
	for (size_t i = 0; module->elf && i < d->n; i++) {
		const struct drop *drop = &d->items[i];

		if (drop->function == function &&
		    drop->build_id_size == module->elf->build_id_size &&
		    !memcmp(drop->build_id, module->elf->build_id, drop->build_id_size))
			return drop;
	}
	return NULL;
}

static enum ip_verdict judge(const void *data, const struct ip_module *module, uint32_t function)
{
	const struct drop *drop = find(data, module, function);

	if (!drop)
		return IP_VERDICT_TAKEN;
	return drop->counted ? IP_VERDICT_COUNTED : IP_VERDICT_LEFT_OUT;
}

/* Finds the module and function of a number; NULL: the module is not there any more. */
static const struct ip_module *find_function(const struct ip_session *s, uint32_t number,
					     uint32_t *ret_function)
{
	for (size_t i = 0; i < s->modules.n; i++) {
		const struct ip_module *m = &s->modules.items[i];
		uint32_t first = m->list && m->elf ? ip_plan_first_number(s->area, m) : 0;

		if (!first || number < first ||
		    number - first >= IP_NUMBERS_PER_FUNCTION * m->list->header->nfunctions)
			continue;
		*ret_function = (number - first) / IP_NUMBERS_PER_FUNCTION;
		return m;
	}
	return NULL;
}

/* Step 2. *ret_first: the first of the function's numbers. false: the function is unknown, was
 * dropped before, does not log, or memory ran out. */
static bool note(struct drop_hot *d, const struct ip_session *s, const struct ip_hot_function *f,
		 uint32_t *ret_first)
{
	uint32_t function;
	const struct ip_module *m = find_function(s, f->number, &function);
	struct drop drop = {0};

	if (!m || find(d, m, function) || s->area->duties[f->number] != IP_DUTY_LOG ||
	    ip_array_grow(&d->items, d->n, sizeof(*d->items)) < 0)
		return false;
	drop.function = function;
	drop.build_id_size = m->elf->build_id_size;
	memcpy(drop.build_id, m->elf->build_id, drop.build_id_size);
	drop.counted = !ip_hot_is_even_counted(d->hot, f);
	drop.name = ip_name_for_people(
		ip_probe_list_string(m->list, m->list->functions[function].name));
	d->items[d->n++] = drop;
	*ret_first = ip_plan_first_number(s->area, m) + IP_NUMBERS_PER_FUNCTION * function;
	return true;
}

/* Step 3. */
static int set_duties(struct ip_session *s, uint32_t first, uint32_t duty)
{
	for (uint32_t i = 0; i < IP_NUMBERS_PER_FUNCTION; i++)
		if (ip_trace_knows(s->trace, first + i) &&
		    ip_counters_set(s->counters, first + i, duty, false) < 0)
			return -1;
	return 0;
}

static void tell(const struct drop_hot *d, const struct drop *drop, const struct ip_hot_function *f)
{
	char rate[32], own[16];

	ip_notice("%s dropped: %s calls a second of %s each, %u %% of its time went to its probes; "
		  "%s",
		  drop->name ? drop->name : "?", ip_format_count(f->per_second, rate),
		  ip_format_ns(f->own_ticks * 1e9 / d->hz, own), f->share,
		  drop->counted ? "from now on its calls are counted" : "from now on it has none");
}

/* Steps 2 to 5. n may be 0: then only step 4 is done, which has failed before. */
static void drop(struct drop_hot *d, struct ip_session *s, const struct ip_hot_function *hot,
		 size_t n)
{
	const struct ip_change_options options = {.kind = "drop",
						  .max_stop_ns = s->options->max_stop_ns,
						  .values = s->options->values};
	_cleanup_free_ uint32_t *firsts = calloc(n + 1, sizeof(*firsts));
	_cleanup_free_ size_t *from = calloc(n + 1, sizeof(*from));
	struct ip_change_result result = {0};
	size_t before = d->n;
	bool again = d->behind;
	uint64_t stopped = 0;

	for (size_t i = 0; i < n && firsts && from; i++) {
		size_t at = d->n - before;

		if (!note(d, s, &hot[i], &firsts[at]))
			continue;
		from[at] = i;
		/* there is no room for the count: losing the calls is better than what they cost
		 * now */
		if (d->items[d->n - 1].counted && set_duties(s, firsts[at], IP_DUTY_COUNT) < 0)
			d->items[d->n - 1].counted = false;
	}
	if (d->n == before && !again)
		return;
	d->behind = ip_session_update(s, &options, &result) < 0; /* 4 */
	for (size_t i = before; i < d->n; i++) {
		const struct ip_hot_function *f = &hot[from[i - before]];

		if (d->behind && !d->items[i].counted)
			set_duties(s, firsts[i - before], IP_DUTY_SILENT);
		tell(d, &d->items[i], f);
		ip_trace_add_dropped(s->trace, ip_clock_now(), firsts[i - before],
				     d->items[i].counted, f->per_second, f->own_ticks, f->share);
	}
	stopped = result.stops.ns;
	d->next_ns = ip_now_ns() + (d->behind		       ? RETRY_NS
				    : LOOK_NS > REST * stopped ? LOOK_NS
							       : REST * stopped);
	if (d->behind && !again)
		ip_notice("pid %d: the probes of hot functions cannot be taken away now, and are "
			  "tried again: %s",
			  s->target->pid, ip_error_message());
	if (d->n > before)
		ip_trace_sync(s->trace);
}

/* Step 1, and the other steps if there is anything to do. */
static enum ip_end_reason step(void *data, struct ip_session *s)
{
	struct drop_hot *d = data;
	_cleanup_free_ struct ip_hot_function *hot = NULL;
	struct ip_clock_reading now;
	size_t n;

	if (!s->counters || !s->live || ip_now_ns() < d->next_ns)
		return IP_END_NONE;
	d->next_ns = ip_now_ns() + LOOK_NS;
	ip_clock_read(&now);
	d->hz = ip_clock_hz(&s->start, &now, HZ_NS);
	hot = calloc(AT_ONCE, sizeof(*hot));
	n = hot ? ip_hot_take(d->hot, d->hz, hot, AT_ONCE) : 0;
	if (n || d->behind)
		drop(d, s, hot, n);
	return IP_END_NONE;
}

static int begin(void *data, struct ip_session *s)
{
	struct drop_hot *d = data;

	ip_collector_set_hot(s->collector, d->hot);
	return 0;
}

/* How many functions were dropped, and the names of the first. */
static void end(void *data, struct ip_session *s)
{
	const struct drop_hot *d = data;
	char *text = NULL;
	size_t size;
	FILE *out;

	s->summary->dropped = d->n;
	out = d->n ? open_memstream(&text, &size) : NULL;
	if (!out)
		return;
	for (size_t i = 0; i < d->n && i < NAMES_MAX; i++)
		fprintf(out, "%s%s", i ? ", " : "", d->items[i].name ? d->items[i].name : "?");
	if (d->n > NAMES_MAX)
		fprintf(out, " and %zu more", d->n - NAMES_MAX);
	fclose(out);
	free(s->summary->dropped_names);
	s->summary->dropped_names = text;
}

int ip_drop_hot_add(struct ip_session *s, unsigned percent)
{
	struct drop_hot *d = calloc(1, sizeof(*d));

	if (!d)
		return ip_error("out of memory");
	d->hot = ip_hot_create(percent);
	if (!d->hot) {
		free(d);
		return -1;
	}
	d->chooser = (struct ip_chooser){.data = d, .judge = judge};
	d->controller = (struct ip_session_controller){.data = d,
						       .chooser = &d->chooser,
						       .counts = true,
						       .begin = begin,
						       .step = step,
						       .end = end,
						       .destroy = destroy};
	ip_controllers_add(s, &d->controller);
	return 0;
}
