/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the waits for each lock and the system calls that wake from it into one order of time, and
 * follows who has it.
 */
#include "analysis/wait/locks/lock_profile.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "analysis/wait/function_index.h"
#include "analysis/wait/function_search.h"
#include "analysis/wait/sort.h"
#include "analysis/wait/wait_sums.h"
#include "common/array.h"
#include "common/error.h"

#define PARENTS_MOST 16u

struct key {
	uint64_t place; /* the word's address, or the number of the file */
	uint32_t pid;	/* 0: a file */
};

/* What happens to a lock. */
struct event {
	struct key key;
	uint64_t tsc;
	enum what {
		GETS, /* a thread's wait has returned: it may have the lock */
		RELEASES,
		WAITS
	} what;
	int32_t tid;
	uint64_t ticks; /* WAITS */
	/* WAITS, GETS: that it got it can be told, and so can its unlocking */
	bool sure;
	struct ip_wait_object object; /* WAITS */
};

/* A wait for a lock, or a time that it was had. */
struct use {
	uint32_t lock;
	uint32_t function;
	int32_t tid;
	uint64_t from, ticks;
	bool waits, whole;
};

struct maker {
	const struct ip_states *states;
	const struct ip_descriptors *descriptors;
	const struct ip_thread_owners *owners;
	struct ip_wait_objects files;
	struct event *events;
	size_t nevents;
	struct use *uses;
	size_t nuses;
	struct ip_lock *locks;
	size_t nlocks;
};

/* The process of a thread. One of which no function was recorded is taken for one of the process of
 * the thread that made it. */
static uint32_t pid_of(const struct maker *m, const struct ip_thread_states *t)
{
	for (unsigned i = 0; t && i < PARENTS_MOST; i++) {
		/* what it was when it began may have been noted later */
		const uint64_t last = t->end < m->states->end ? t->end : m->states->end;
		const uint32_t pid = m->owners->pid_of(m->owners->context, t->tid, last);

		if (pid)
			return pid;
		t = t->parent ? ip_states_find(m->states, t->parent, t->begin) : NULL;
	}
	return 0;
}

static bool is_file_lock(const struct ip_thread_call *call)
{
	return call->number == SYS_flock ||
	       (call->number == SYS_fcntl &&
		(call->arguments[1] == F_SETLKW || call->arguments[1] == F_OFD_SETLKW));
}

/* Behind the end of the states something may be missing: that is not looked at. */
static int put(struct maker *m, const struct event *event)
{
	if (event->tsc > m->states->end)
		return 0;
	if (ip_array_grow(&m->events, m->nevents, sizeof(*event)) < 0)
		return -1;
	m->events[m->nevents++] = *event;
	return 0;
}

/* A wait from one time to another, if it is for a lock. */
static int put_wait(struct maker *m, const struct ip_thread_states *t, uint32_t pid,
		    const struct ip_thread_wait *wait, uint64_t from, uint64_t to)
{
	struct event e = {.tsc = from, .what = WAITS, .tid = t->tid, .ticks = to - from};
	const bool file = is_file_lock(&wait->call);

	/* of a call that was not recorded it is not known which lock it was */
	if (wait->call.untold || (!file && !ip_wait_is_lock(&wait->call)))
		return 0;
	ip_wait_object_of_thread(wait, m->descriptors, m->owners, t->tid, from, &e.object);
	if (file) {
		uint32_t number = ip_wait_objects_add(&m->files, &e.object);

		if (number == UINT32_MAX)
			return -1;
		e.key.place = number;
	} else {
		e.key = (struct key){.place = e.object.address, .pid = pid};
		e.sure = wait->returned && ip_wait_tells_owner(&wait->call, wait->result);
	}
	if (put(m, &e) < 0)
		return -1;
	if (file && wait->waking.tsc && !wait->waking.context && wait->waking.waker) {
		e.what = RELEASES;
		e.tsc = wait->waking.tsc;
		e.tid = wait->waking.waker;
		return put(m, &e);
	}
	e.what = GETS;
	e.tsc = wait->end;
	return e.sure ? put(m, &e) : 0;
}

static int put_waits(struct maker *m)
{
	for (size_t i = 0; i < m->states->n; i++) {
		const struct ip_thread_states *t = &m->states->threads[i];
		const uint32_t pid = t->nwaits ? pid_of(m, t) : 0;

		for (size_t k = 0; k < t->nspans; k++) {
			const struct ip_thread_span *span = &t->spans[k];
			const uint64_t known = m->states->end,
				       to = k + 1 < t->nspans && t->spans[k + 1].from < known
						    ? t->spans[k + 1].from
						    : known;

			if (span->state == IP_THREAD_BLOCKED && to > span->from &&
			    put_wait(m, t, pid, &t->waits[span->wait], span->from, to) < 0)
				return -1;
		}
	}
	return 0;
}

static int compare_keys(const struct key *a, const struct key *b)
{
	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	return a->place < b->place ? -1 : a->place > b->place;
}

static int by_key(const void *left, const void *right)
{
	const struct event *a = left, *b = right;
	int order = compare_keys(&a->key, &b->key);

	if (order)
		return order;
	if (a->tsc != b->tsc)
		return a->tsc < b->tsc ? -1 : 1;
	return a->what < b->what ? -1 : a->what > b->what;
}

static bool is_waited_for(const struct event *events, size_t n, const struct key *key)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = (low + high) / 2;
		int order = compare_keys(&events[middle].key, key);

		if (!order)
			return true;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

/* The system calls that wake from a word which somebody waits for. */
static int put_wakes(struct maker *m)
{
	const size_t n = m->nevents;
	const struct ip_thread_states *t = NULL;
	uint32_t pid = 0;

	for (size_t i = 0; i < m->states->nwakes; i++) {
		const struct ip_futex_call *wake = &m->states->wakes[i];
		struct event e = {.tsc = wake->tsc, .what = RELEASES, .tid = wake->tid};

		if (!t || t->tid != wake->tid || t->begin > wake->tsc) {
			t = ip_states_find(m->states, wake->tid, wake->tsc);
			pid = pid_of(m, t);
		}
		e.key = (struct key){.place = wake->address, .pid = pid};
		if (is_waited_for(m->events, n, &e.key) && put(m, &e) < 0)
			return -1;
	}
	return 0;
}

static int use(struct maker *m, const struct use *use)
{
	if (ip_array_grow(&m->uses, m->nuses, sizeof(*use)) < 0)
		return -1;
	m->uses[m->nuses++] = *use;
	return 0;
}

/* Follows one lock through its events. */
static int follow(struct maker *m, const struct event *events, size_t n)
{
	const uint32_t lock = m->nlocks;
	uint64_t got = 0, since = 0; /* since: somebody waits */
	int32_t owner = 0;

	if (ip_array_grow(&m->locks, m->nlocks, sizeof(*m->locks)) < 0)
		return -1;
	m->locks[m->nlocks++] = (struct ip_lock){.pid = events->key.pid};
	for (size_t i = 0; i < n; i++) {
		const struct event *e = &events[i];
		struct use u = {.lock = lock, .tid = e->tid};

		switch (e->what) {
		case WAITS:
			m->locks[lock].object = e->object;
			u.from = e->tsc;
			u.ticks = e->ticks;
			u.waits = true;
			if (use(m, &u) < 0)
				return -1;
			since = since ? since : e->tsc;
			owner = owner == e->tid ? 0 : owner; /* it has not got it */
			break;
		case GETS:
			if (!owner) {
				owner = e->tid;
				got = e->tsc;
			}
			break;
		case RELEASES:
			u.whole = owner == e->tid;
			u.from = u.whole ? got : since;
			u.ticks = e->tsc - u.from;
			if (u.from && !ip_states_lost_between(m->states, u.from, e->tsc) &&
			    use(m, &u) < 0)
				return -1;
			owner = 0;
			since = 0;
			break;
		}
	}
	return 0;
}

static int follow_all(struct maker *m)
{
	for (size_t i = 0, end; i < m->nevents; i = end) {
		for (end = i + 1;
		     end < m->nevents && !compare_keys(&m->events[i].key, &m->events[end].key);
		     end++)
			;
		if (follow(m, m->events + i, end - i) < 0)
			return -1;
	}
	return 0;
}

static int find_functions(struct maker *m, struct ip_trace_reader *trace, uint64_t *ret_events)
{
	struct ip_function_search *searches = NULL;
	int ret;

	for (size_t i = 0; i < m->nuses; i++)
		m->uses[i].function = IP_NO_FUNCTION_AT;
	if (!trace)
		return 0;
	searches = calloc(m->nuses + 1, sizeof(*searches));
	if (!searches)
		return ip_error("out of memory");
	for (size_t i = 0; i < m->nuses; i++)
		searches[i] =
			(struct ip_function_search){.tsc = m->uses[i].from, .tid = m->uses[i].tid};
	ret = ip_function_search_all(trace, searches, m->nuses, ret_events);
	for (size_t i = 0; i < m->nuses; i++)
		m->uses[i].function = ip_function_search_answer(searches, m->nuses, m->uses[i].tid,
								m->uses[i].from);
	free(searches);
	return ret;
}

static int by_lock(const void *left, const void *right)
{
	const struct use *a = left, *b = right;

	if (a->lock != b->lock)
		return a->lock < b->lock ? -1 : 1;
	return a->function < b->function ? -1 : a->function > b->function;
}

static void add(struct ip_lock_sums *sums, const struct use *u)
{
	uint64_t *max = u->waits ? &sums->wait_max : &sums->had_max;

	*max = u->ticks > *max ? u->ticks : *max;
	*(u->waits ? &sums->waits : &sums->had) += 1;
	*(u->waits ? &sums->wait_ticks : &sums->had_ticks) += u->ticks;
	sums->whole += u->whole;
	sums->whole_ticks += u->whole ? u->ticks : 0;
}

static int by_function_time(const void *left, const void *right)
{
	const struct ip_lock_function *a = left, *b = right;
	const uint64_t x = a->sums.wait_ticks + a->sums.had_ticks,
		       y = b->sums.wait_ticks + b->sums.had_ticks;

	if (x != y)
		return x > y ? -1 : 1;
	return a->function < b->function ? -1 : a->function > b->function;
}

static int by_wait(const void *left, const void *right)
{
	const struct ip_lock *a = left, *b = right;

	if (a->sums.wait_ticks != b->sums.wait_ticks)
		return a->sums.wait_ticks > b->sums.wait_ticks ? -1 : 1;
	return a->functions < b->functions ? -1 : a->functions > b->functions;
}

static int sum(struct maker *m, struct ip_lock_profile *p)
{
	p->functions = calloc(m->nuses + 1, sizeof(*p->functions));
	if (!p->functions)
		return ip_error("out of memory");
	ip_sort(m->uses, m->nuses, sizeof(*m->uses), by_lock);
	for (size_t i = 0, n = 0; i < m->nuses; i++) {
		const struct use *u = &m->uses[i];
		struct ip_lock *lock = &m->locks[u->lock];

		if (!lock->functions)
			lock->functions = &p->functions[n];
		if (!lock->nfunctions ||
		    lock->functions[lock->nfunctions - 1].function != u->function) {
			p->functions[n++].function = u->function;
			lock->nfunctions++;
		}
		add(&lock->sums, u);
		add(&lock->functions[lock->nfunctions - 1].sums, u);
	}
	for (size_t i = 0; i < m->nlocks; i++)
		qsort(m->locks[i].functions, m->locks[i].nfunctions, sizeof(*m->locks->functions),
		      by_function_time);
	if (m->nlocks)
		qsort(m->locks, m->nlocks, sizeof(*m->locks), by_wait);
	p->locks = m->locks;
	p->n = m->nlocks;
	m->locks = NULL;
	return 0;
}

static int make(struct maker *m, struct ip_trace_reader *trace, struct ip_lock_profile *p)
{
	if (put_waits(m) < 0)
		return -1;
	for (int last = 0; last < 2; last++) {
		ip_sort(m->events, m->nevents, sizeof(*m->events), by_key);
		if (!last && put_wakes(m) < 0)
			return -1;
	}
	return follow_all(m) < 0 || find_functions(m, trace, &p->events) < 0 ? -1 : sum(m, p);
}

struct ip_lock_profile *ip_lock_profile_make(struct ip_trace_reader *trace,
					     const struct ip_states *states,
					     const struct ip_descriptors *descriptors,
					     const struct ip_thread_owners *owners)
{
	struct ip_lock_profile *p = calloc(1, sizeof(*p));
	struct maker m = {.states = states, .descriptors = descriptors, .owners = owners};
	int ret = p ? make(&m, trace, p) : ip_error("out of memory");

	ip_wait_objects_clear(&m.files);
	free(m.events);
	free(m.uses);
	free(m.locks);
	if (ret == 0)
		return p;
	ip_lock_profile_destroy(p);
	return NULL;
}

void ip_lock_profile_destroy(struct ip_lock_profile *p)
{
	if (!p)
		return;
	free(p->functions);
	free(p->locks);
	free(p);
}
