/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lays the intervals of clients over states and calls.
 */
#include "analysis/wait/clients/client_sums.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/callstack/open_calls.h"
#include "analysis/wait/function_index.h"
#include "analysis/wait/wait_sums.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"

#define NAME_MOST 256u

struct maker {
	const struct ip_states *states;
	const struct ip_client_intervals *intervals;
	const struct ip_client_names *names;
	struct ip_client_sums *to;
	uint32_t *client_of; /* by connection: index into to->clients */
	struct ip_wait_sums functions;
	/* the calls of a thread */
	const struct ip_thread_states *thread;
	size_t interval, end; /* of the thread: the first one that is not over, their end */
	uint64_t now;
	bool failed;
};

void ip_client_name(const char *connection, bool port, char *ret, size_t size)
{
	const char *far = strstr(connection, " - ");
	const char *text = far ? far + 3 : connection;
	size_t n = strlen(text);

	if (far && !port)
		while (n && text[n - 1] != ':')
			n--;
	n -= far && !port && n;
	if (!n) { /* there is no other end */
		text = connection;
		n = strlen(text);
	}
	if (n >= size)
		n = size - 1;
	memcpy(ret, text, n);
	ret[n] = '\0';
}

/* What a thread did from one time to another. span: where to begin to look, and where it ended. */
static void add_parts(const struct ip_states *states, const struct ip_thread_states *t,
		      const struct ip_client_interval *i, uint64_t from, uint64_t to,
		      struct ip_wait_parts *parts)
{
	size_t at = t ? ip_states_span_at(t, from) : 0;
	bool awaits = false; /* it was blocked, and has not had a CPU since */

	if (to > states->end) {
		const uint64_t known = from > states->end ? from : states->end;

		parts->elapsed += to - known;
		parts->unknown += to - known;
		to = known;
	}
	while (from < to) {
		const bool known = t && at < t->nspans && t->spans[at].from <= from;
		const size_t next = known ? at + 1 : 0;
		const uint64_t end = t && next < t->nspans && t->spans[next].from > from &&
						     t->spans[next].from < to
					     ? t->spans[next].from
					     : to;
		const uint64_t ticks = end - from;

		switch (known ? (enum ip_thread_state)t->spans[at].state : IP_THREAD_UNKNOWN) {
		case IP_THREAD_RUNNING:
			parts->cpu += ticks;
			parts->elapsed += ticks;
			awaits = false;
			break;
		case IP_THREAD_RUNNABLE:
			parts->runqueue += i->asks && awaits ? 0 : ticks;
			parts->elapsed += i->asks && awaits ? 0 : ticks;
			break;
		case IP_THREAD_BLOCKED:
			parts->elapsed += i->asks ? 0 : ticks;
			awaits = true;
			break;
		default:
			parts->unknown += ticks;
			parts->elapsed += ticks;
		}
		at = next;
		from = end;
	}
}

/* The thread's time up to ts belongs to its innermost open call, as far as it was for clients. */
static void pass(void *context, const uint32_t *innermost, uint64_t ts)
{
	struct maker *m = context;
	const struct ip_client_interval *all = m->intervals->items;
	const uint64_t since = m->now;

	if (ts <= m->now || m->failed)
		return;
	m->now = ts;
	while (m->interval < m->end && all[m->interval].to <= since)
		m->interval++;
	for (size_t k = m->interval; innermost && k < m->end && all[k].from < ts; k++) {
		const struct ip_client_interval *i = &all[k];
		struct ip_wait_parts parts = {0};

		add_parts(m->states, m->thread, i, i->from > since ? i->from : since,
			  i->to < ts ? i->to : ts, &parts);
		if (*innermost == IP_NO_FUNCTION_AT)
			continue;
		m->failed = m->failed || ip_wait_sums_add(&m->functions, m->client_of[i->client],
							  *innermost, parts.cpu, parts.elapsed) < 0;
	}
}

static int on_opened(void *context, const struct ip_frame *frame, const uint32_t *above,
		     uint32_t *ret)
{
	(void)context;
	(void)above;
	*ret = frame->function;
	return 0;
}

/* The first interval of a thread that may reach behind a time. */
static size_t first_of(const struct ip_client_intervals *all, int32_t tid, uint64_t tsc)
{
	size_t low = 0, high = all->n;

	while (low < high) {
		const size_t middle = (low + high) / 2;
		const struct ip_client_interval *i = &all->items[middle];

		if (i->tid < tid || (i->tid == tid && i->to <= tsc))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool on_run(void *context, const struct ip_thread_packets *run)
{
	struct maker *m = context;

	m->now = run->begin;
	m->thread = ip_states_find(m->states, run->machine_tid,
				   run->begin > m->states->begin ? run->begin : m->states->begin);
	m->interval = first_of(m->intervals, run->machine_tid, run->begin);
	m->end = m->interval;
	while (m->end < m->intervals->n &&
	       m->intervals->items[m->end].tid == (int32_t)run->machine_tid)
		m->end++;
	return true;
}

struct name {
	char *text;
	uint32_t connection;
};

static int by_text(const void *left, const void *right)
{
	const struct name *a = left, *b = right;
	const int order = strcmp(a->text, b->text);

	return order ? order : a->connection < b->connection ? -1 : a->connection > b->connection;
}

/* Puts connections with the same other end together. */
static int group(struct maker *m)
{
	const struct ip_client_names *all = m->names;
	const bool by_port = all->naming == IP_CLIENT_OTHER_END_AND_PORT;
	struct name *names = calloc(all->n + 1, sizeof(*names));
	struct ip_client_sums *to = m->to;
	size_t n = 0, used = 0, nameless;
	_cleanup_free_ bool *served = calloc(all->n + 1, sizeof(*served));

	for (size_t i = 0; served && i < m->intervals->n; i++)
		served[m->intervals->items[i].client] = true;
	m->client_of = calloc(all->n + 1, sizeof(*m->client_of));
	to->clients = calloc(all->n + 1, sizeof(*to->clients));
	to->memory = calloc(all->naming == IP_CLIENT_EACH ? 1 : all->n + 1, NAME_MOST);
	if (!served || !names || !m->client_of || !to->clients || !to->memory) {
		free(names);
		return ip_error("out of memory");
	}
	for (size_t i = 0; all->naming == IP_CLIENT_EACH && i < all->n; i++) {
		to->clients[to->n].name = all->texts[i];
		to->clients[to->n].number = i;
		m->client_of[i] = to->n++;
	}
	if (all->naming == IP_CLIENT_EACH) {
		free(names);
		return 0;
	}
	for (size_t i = 0; i < all->n; i++) {
		if (!all->texts[i])
			continue;
		names[n] = (struct name){to->memory + used, i};
		ip_client_name(all->texts[i], by_port, names[n++].text, NAME_MOST);
		used += NAME_MOST;
	}
	if (n)
		qsort(names, n, sizeof(*names), by_text);
	for (size_t i = 0; i < n; i++) {
		if (!i || strcmp(names[i].text, names[i - 1].text))
			to->clients[to->n++].name = names[i].text;
		m->client_of[names[i].connection] = to->n - 1;
		to->clients[to->n - 1].connections++;
	}
	nameless = to->n;
	for (size_t i = 0; i < all->n; i++)
		if (!all->texts[i] && served[i]) {
			m->client_of[i] = nameless;
			to->clients[nameless].connections++;
			to->n = nameless + 1;
		}
	free(names);
	return 0;
}

/* CPU time of the target's threads. */
static uint64_t cpu_time(const struct ip_states *states, const struct ip_client_names *names)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < states->n; i++) {
		const struct ip_thread_states *t = &states->threads[i];

		if (!t->nspans || !names->pid_of(names->context, t->tid,
						 t->end < states->end ? t->end : states->end))
			continue;
		for (size_t k = 0; k < t->nspans; k++) {
			const uint64_t end = k + 1 < t->nspans ? t->spans[k + 1].from : states->end;

			if (t->spans[k].state == IP_THREAD_RUNNING && end > t->spans[k].from)
				sum += end - t->spans[k].from;
		}
	}
	return sum;
}

struct place {
	struct ip_client_sum sum;
	uint32_t before;
};

static int by_cpu(const void *left, const void *right)
{
	const struct place *a = left, *b = right;

	if (a->sum.parts.cpu != b->sum.parts.cpu)
		return a->sum.parts.cpu > b->sum.parts.cpu ? -1 : 1;
	return a->before < b->before ? -1 : a->before > b->before;
}

/* Puts those first that had the CPU longest, and their functions with them. */
static int sort(struct maker *m)
{
	struct ip_client_sums *to = m->to;
	struct place *places = calloc(to->n + 1, sizeof(*places));
	uint32_t *now = calloc(to->n + 1, sizeof(*now));
	struct ip_wait_sums sorted = {0};
	struct ip_wait_sum *items = NULL;
	size_t n = 0;
	int ret = places && now ? 0 : ip_error("out of memory");

	for (uint32_t i = 0; ret == 0 && i < to->n; i++)
		places[i] = (struct place){to->clients[i], i};
	if (ret == 0 && to->n)
		qsort(places, to->n, sizeof(*places), by_cpu);
	for (uint32_t i = 0; ret == 0 && i < to->n; i++) {
		to->clients[i] = places[i].sum;
		now[places[i].before] = i;
	}
	for (size_t i = 0; ret == 0 && i < m->functions.size; i++) {
		const struct ip_wait_sum *s = &m->functions.slots[i];

		if (s->count || s->ticks)
			ret = ip_wait_sums_add(&sorted, now[s->owner], s->object, s->ticks,
					       s->count);
	}
	ip_wait_sums_sort(&sorted, &items, &n);
	to->functions = ret == 0 ? calloc(n + 1, sizeof(*to->functions)) : NULL;
	if (ret == 0 && !to->functions)
		ret = ip_error("out of memory");
	for (size_t i = 0; ret == 0 && i < n; i++)
		to->functions[to->nfunctions++] = (struct ip_client_function){
			items[i].owner, items[i].object, items[i].ticks, items[i].count};
	free(items);
	free(places);
	free(now);
	return ret;
}

int ip_client_sums_make(struct ip_trace_reader *trace, const struct ip_states *states,
			const struct ip_client_intervals *intervals,
			const struct ip_client_names *names, struct ip_client_sums *ret)
{
	static const struct ip_open_calls_ops ops = {on_run, pass, on_opened, NULL};
	struct maker m = {.states = states, .intervals = intervals, .names = names, .to = ret};
	const uint64_t whole = cpu_time(states, names);
	uint64_t charged = 0;
	int result;

	*ret = (struct ip_client_sums){0};
	result = group(&m);
	for (size_t i = 0; result == 0 && i < intervals->n; i++) {
		const struct ip_client_interval *interval = &intervals->items[i];
		struct ip_client_sum *sum = &ret->clients[m.client_of[interval->client]];

		add_parts(states, ip_states_find(states, interval->tid, interval->from), interval,
			  interval->from, interval->to, &sum->parts);
		sum->requests += interval->begins;
		sum->from = !sum->from || interval->from < sum->from ? interval->from : sum->from;
		sum->to = interval->to > sum->to ? interval->to : sum->to;
	}
	if (result == 0) {
		result = ip_open_calls_read(trace, &ops, &m, IP_NO_FUNCTION_AT, &ret->events);
		result = m.failed ? -1 : result;
	}
	for (size_t i = 0; result == 0 && i < ret->n; i++)
		charged += ret->clients[i].parts.cpu;
	ret->nobody = whole > charged ? whole - charged : 0;
	if (result == 0)
		result = sort(&m);
	ip_wait_sums_clear(&m.functions);
	free(m.client_of);
	return result;
}

void ip_client_sums_clear(struct ip_client_sums *sums)
{
	free(sums->clients);
	free(sums->functions);
	free(sums->memory);
	*sums = (struct ip_client_sums){0};
}
