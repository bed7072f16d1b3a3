/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows which threads may be shown.
 */
#include "kernel_trace/users/event_threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "kernel_trace/users/event_filter.h"

#define ENDED	  (-1)
#define NOT_KNOWN 0

void ip_event_threads_clear(struct ip_event_threads *threads)
{
	for (size_t i = 0; i < IP_EVENT_THREADS_BUCKETS; i++)
		while (threads->buckets[i]) {
			struct ip_event_thread *next = threads->buckets[i]->next;

			free(threads->buckets[i]);
			threads->buckets[i] = next;
		}
	threads->n = 0;
}

static struct ip_event_thread **place_of(struct ip_event_threads *threads, pid_t tid)
{
	struct ip_event_thread **at = &threads->buckets[(uint32_t)tid % IP_EVENT_THREADS_BUCKETS];

	while (*at && (*at)->tid != tid)
		at = &(*at)->next;
	return at;
}

struct ip_event_thread *ip_event_threads_find(struct ip_event_threads *threads, pid_t tid)
{
	return tid > 0 ? *place_of(threads, tid) : NULL;
}

/* at: where it is in its bucket. */
static void hide(struct ip_event_threads *threads, struct ip_event_thread **at)
{
	struct ip_event_thread *gone = *at;

	*at = gone->next;
	free(gone);
	threads->n--;
}

static void tell_anew(struct ip_event_thread *t)
{
	t->told[0] = t->told[1] = false;
}

static void set_check(struct ip_event_thread *t, struct ip_event_check check)
{
	t->check = check;
	t->later = (struct ip_event_check){0};
	tell_anew(t);
}

/* What it has executed while it was checked may be another program than the one that was found. */
static bool holds(const struct ip_event_check *c, const struct ip_event_thread *t)
{
	return c->ended && t->exec < c->asked;
}

static bool any_holds(const struct ip_event_thread *t)
{
	return holds(&t->check, t) || holds(&t->later, t);
}

bool ip_event_thread_is_shown(const struct ip_event_thread *t, uint64_t tsc)
{
	return t && ((t->check.ended <= tsc && holds(&t->check, t)) ||
		     (t->later.ended <= tsc && holds(&t->later, t)));
}

/* Makes an entry for a thread where it has none. NULL with an error; *ret_full: there are too many
 * threads. */
static struct ip_event_thread *make(struct ip_event_threads *threads, pid_t tid, bool *ret_full)
{
	struct ip_event_thread **at = place_of(threads, tid);

	*ret_full = !*at && threads->n >= IP_EVENT_FILTER_THREADS;
	if (*at || *ret_full)
		return *at;
	*at = calloc(1, sizeof(**at));
	if (!*at) {
		ip_error("out of memory");
		return NULL;
	}
	threads->n++;
	(*at)->tid = tid;
	return *at;
}

int ip_event_threads_show(struct ip_event_threads *threads, pid_t tid, pid_t pid, const char *comm,
			  uint64_t asked, uint64_t tsc)
{
	const struct ip_event_check check = {asked, tsc};
	bool full;
	struct ip_event_thread *t = make(threads, tid, &full);

	if (!t)
		return full ? 0 : -1;
	if (holds(&t->check, t))
		t->later = check;
	else
		set_check(t, check);
	t->pid = pid;
	snprintf(t->comm, sizeof(t->comm), "%s", comm);
	return 0;
}

int ip_event_threads_born(struct ip_event_threads *threads, pid_t tid, uint64_t tsc)
{
	bool full;
	struct ip_event_thread *t = make(threads, tid, &full);

	if (!t)
		return full ? 0 : -1;
	if (t->check.ended) /* it has become a target since */
		t->later = t->check;
	t->check = (struct ip_event_check){tsc, tsc};
	return 0;
}

void ip_event_threads_end(struct ip_event_threads *threads, pid_t tid, uint64_t tsc)
{
	struct ip_event_thread *t = ip_event_threads_find(threads, tid);

	if (!t)
		return;
	/* of one that is checked later nothing is known yet */
	if (t->later.ended > tsc)
		set_check(t, t->later);
	else if (t->check.ended <= tsc)
		hide(threads, place_of(threads, tid));
}

static void note_exec(struct ip_event_thread *t, uint64_t tsc)
{
	if (any_holds(t))
		tell_anew(t);
	t->exec = t->exec < tsc ? tsc : t->exec;
}

/* What is known of the process is of the thread that was checked last. */
static pid_t process_at(const struct ip_event_thread *t, uint64_t tsc)
{
	return t->later.ended > tsc ? NOT_KNOWN : t->pid;
}

/* A process gets a new name in an exec, and then it has one thread, which has its id. Whose thread
 * it was cannot be asked for now: its id may be another's by now. */
void ip_event_threads_rename(struct ip_event_threads *threads, pid_t tid, uint64_t tsc)
{
	struct ip_event_thread *t = ip_event_threads_find(threads, tid);

	if (t && (t->pid == t->tid || process_at(t, tsc) <= 0))
		note_exec(t, tsc);
}

/* The program may have other rights. Of several threads the one that executes it has the id of the
 * first from here on. */
void ip_event_threads_exec(struct ip_event_threads *threads, pid_t tid, pid_t old, uint64_t tsc)
{
	struct ip_event_thread *from = ip_event_threads_find(threads, old),
			       *t = ip_event_threads_find(threads, tid);
	bool full;

	if (from && from->check.ended > tsc) /* of one that gets the id later */
		from = NULL;
	if (from && !t) {
		t = make(threads, tid, &full);
		if (t) {
			t->pid = process_at(from, tsc);
			t->check = from->check;
			memcpy(t->comm, from->comm, sizeof(t->comm));
		}
	}
	if (from && from != t)
		ip_event_threads_end(threads, old, tsc);
	if (!t)
		return;
	note_exec(t, tsc);
	if (t->pid == ENDED) /* it is asked for anew */
		t->pid = NOT_KNOWN;
}

/* An exec may be missing. An id may be that of another process' thread by now. */
void ip_event_threads_lose(struct ip_event_threads *threads, uint64_t tsc)
{
	for (size_t i = 0; i < IP_EVENT_THREADS_BUCKETS; i++)
		for (struct ip_event_thread *t = threads->buckets[i]; t; t = t->next) {
			note_exec(t, tsc);
			t->pid = NOT_KNOWN;
		}
}

static int by_pid(const void *left, const void *right)
{
	const pid_t a = *(const pid_t *)left, b = *(const pid_t *)right;

	return (a > b) - (a < b);
}

int ip_event_threads_each(struct ip_event_threads *threads, pid_t (*process_of)(pid_t tid),
			  int (*visit)(void *context, pid_t pid), void *context)
{
	pid_t *pids = calloc(threads->n + 1, sizeof(*pids));
	size_t n = 0;
	int ret = 0;

	if (!pids)
		return ip_error("out of memory");
	for (size_t i = 0; i < IP_EVENT_THREADS_BUCKETS; i++)
		for (struct ip_event_thread *t = threads->buckets[i]; t; t = t->next) {
			if (t->pid == NOT_KNOWN) {
				t->pid = process_of(t->tid);
				t->pid = t->pid > 0 ? t->pid : ENDED;
			}
			if (t->pid > 0)
				pids[n++] = t->pid;
		}
	qsort(pids, n, sizeof(*pids), by_pid);
	for (size_t i = 0; i < n && ret >= 0; i++)
		if (!i || pids[i] != pids[i - 1])
			ret = visit(context, pids[i]);
	free(pids);
	return ret;
}

void ip_event_threads_allow(struct ip_event_threads *threads, pid_t pid, uint64_t asked,
			    uint64_t tsc)
{
	for (size_t i = 0; i < IP_EVENT_THREADS_BUCKETS; i++)
		for (struct ip_event_thread *t = threads->buckets[i]; t; t = t->next)
			if (t->pid == pid && !any_holds(t) && t->exec < asked)
				set_check(t, (struct ip_event_check){asked, tsc});
}

void ip_event_threads_refuse(struct ip_event_threads *threads, pid_t pid)
{
	for (size_t i = 0; i < IP_EVENT_THREADS_BUCKETS; i++)
		for (struct ip_event_thread **at = &threads->buckets[i]; *at;)
			if ((*at)->pid == pid)
				hide(threads, at);
			else
				at = &(*at)->next;
}
