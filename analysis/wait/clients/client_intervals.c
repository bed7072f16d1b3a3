/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the system calls of threads. client_intervals.h has the rules.
 */
#include "analysis/wait/clients/client_intervals.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "analysis/wait/number_map.h"
#include "analysis/wait/sort.h"
#include "analysis/wait/wait_object.h"
#include "common/array.h"
#include "common/error.h"

#define DATAGRAMS_MOST	 1024	     /* that one call receives: the kernel takes no more */
#define LOSSES_WORK_MOST 4000000000u /* threads that losses may have looked at */

/* Places of fields in events (common/trace/kernel_events.c). */
enum { FORK_CHILD_TID = 36, EXIT_TID = 16, CALL_TID = 0, CALL_NUMBER = 4, CALL_ARGUMENTS = 8 };

/* Whether a client's last request was answered. */
enum asked { NEVER_ASKED, ASKED, ANSWERED };

struct worker {
	int32_t tid;
	struct ip_thread_call call; /* in which it is */
	uint32_t client, before;    /* before: whom it worked for when the call asked for work */
	uint32_t begins;
	bool closes;
	bool seen;	/* one of its calls was seen to begin or to return */
	bool by_answer; /* it works for whom it has answered: another thread has read */
	uint64_t since, free_since;
};

struct reading {
	const struct ip_states *states;
	struct ip_client_intervals *to;
	struct ip_client_connections *connections;
	struct worker *workers;
	size_t n;
	struct ip_number_map by_tid; /* index + 1 */
	struct ip_number_map asked;  /* by client + 1: enum asked */
	uint64_t work;		     /* that losses have made */
};

static struct worker *worker_of(struct reading *r, int32_t tid)
{
	const uint32_t at = ip_number_map_get(&r->by_tid, (uint32_t)tid + 1ull);
	const struct worker new = {
		.tid = tid, .client = IP_NOBODY, .before = IP_NOBODY, .call.number = IP_NO_CALL};

	if (at)
		return &r->workers[at - 1];
	if (r->n >= UINT32_MAX - 1) {
		ip_error("too many threads");
		return NULL;
	}
	if (ip_array_grow(&r->workers, r->n, sizeof(new)) < 0 ||
	    ip_number_map_put(&r->by_tid, (uint32_t)tid + 1ull, r->n + 1) < 0)
		return NULL;
	r->workers[r->n] = new;
	return &r->workers[r->n++];
}

static int add(struct reading *r, const struct worker *w, uint64_t from, uint64_t to,
	       uint32_t client, uint32_t begins, bool asks)
{
	struct ip_client_intervals *all = r->to;

	if (from >= to)
		return 0;
	if (ip_array_grow(&all->items, all->n, sizeof(*all->items)) < 0)
		return -1;
	all->items[all->n++] = (struct ip_client_interval){.from = from,
							   .to = to,
							   .tid = w->tid,
							   .client = client,
							   .begins = begins,
							   .asks = asks};
	return 0;
}

/* The thread's work for its client ends. */
static int leave(struct reading *r, struct worker *w, uint64_t tsc)
{
	int ret =
		w->client == IP_NOBODY ? 0 : add(r, w, w->since, tsc, w->client, w->begins, false);

	w->client = IP_NOBODY;
	w->free_since = tsc;
	return ret;
}

static bool is_accept(const struct ip_thread_call *call)
{
	return call->number == SYS_accept || call->number == SYS_accept4;
}

static bool reads(const struct ip_thread_call *call)
{
	switch (call->number) {
	case SYS_read:
	case SYS_readv:
	case SYS_preadv2:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_recvmmsg:
		return true;
	default:
		return false;
	}
}

static bool writes(const struct ip_thread_call *call)
{
	switch (call->number) {
	case SYS_write:
	case SYS_writev:
	case SYS_pwritev2:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_sendmmsg:
	case SYS_sendfile: /* the first argument is where it goes to */
		return true;
	default:
		return false;
	}
}

/* Calls in which a thread waits for work of any kind. */
static bool waits_for_work(const struct reading *r, const struct worker *w)
{
	const struct ip_thread_call *call = &w->call;
	const unsigned operation = call->arguments[1] & FUTEX_CMD_MASK;

	switch (call->number) {
	case SYS_futex: /* not for locks: who has one takes it within the work */
		return (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET ||
			operation == FUTEX_WAIT_REQUEUE_PI) &&
		       !ip_wait_is_lock(call);
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
	case SYS_rt_sigtimedwait:
	case SYS_io_uring_enter:
		return true;
	default:
		break;
	}
	if (!reads(call))
		return ip_wait_is_poll(call) || is_accept(call);
	return ip_client_connections_kind(r->connections, w->tid, ip_wait_call_fd(call),
					  call->begin) == IP_WAIT_PIPE;
}

/* What a call closes. */
static int note_close(struct reading *r, struct worker *w)
{
	const struct ip_thread_call *call = &w->call;
	uint32_t client;

	switch (call->number) {
	case SYS_close:
		if (ip_client_connections_find(r->connections, w->tid, ip_wait_call_fd(call),
					       call->begin, &client) < 0)
			return -1;
		w->closes = client != IP_NOBODY && client == w->client;
		return ip_client_connections_close(r->connections, w->tid, call->arguments[0],
						   call->arguments[0], call->begin);
	case SYS_dup2:
	case SYS_dup3:
		return ip_client_connections_close(r->connections, w->tid, call->arguments[1],
						   call->arguments[1], call->begin);
	case SYS_close_range:
		return ip_client_connections_close(r->connections, w->tid, call->arguments[0],
						   call->arguments[1], call->begin);
	default:
		return 0;
	}
}

/* Since when a thread works that has not waited for work yet: its first request was there already
 * when it began. */
static uint64_t born(const struct reading *r, const struct worker *w)
{
	const struct ip_thread_states *t = ip_states_find(r->states, w->tid, w->call.begin);
	const uint64_t begin = t && t->nspans ? t->spans[0].from : 0;

	return begin > r->states->begin ? begin : r->states->begin;
}

static int enter(struct reading *r, struct worker *w)
{
	const struct ip_thread_call *call = &w->call;
	uint32_t client = IP_NOBODY;

	r->to->calls++;
	w->before = IP_NOBODY;
	w->closes = false;
	if (writes(call) &&
	    ip_client_connections_transfer(r->connections, w->tid, ip_wait_call_fd(call),
					   call->begin, false) < 0)
		return -1;
	if ((reads(call) || writes(call)) &&
	    ip_client_connections_find(r->connections, w->tid, ip_wait_call_fd(call), call->begin,
				       &client) < 0)
		return -1;
	if (reads(call) && client != IP_NOBODY) {
		w->before = w->client;
		return leave(r, w, call->begin);
	}
	if (ip_wait_is_poll(call) || is_accept(call))
		return leave(r, w, call->begin);
	if (writes(call) && client != IP_NOBODY && w->client == IP_NOBODY) {
		w->client = client;
		w->since = w->free_since ? w->free_since : born(r, w);
		w->by_answer = true;
		/* who has read the request has begun it */
		w->begins = ip_number_map_get(&r->asked, client + 1ull) == NEVER_ASKED;
	}
	if (writes(call) && client != IP_NOBODY)
		return ip_number_map_put(&r->asked, client + 1ull, ANSWERED);
	if (writes(call) && client == IP_NOBODY)
		return ip_client_connections_hand_on(r->connections, w->tid, ip_wait_call_fd(call),
						     call->begin, w->client);
	return note_close(r, w);
}

/* A call that has read from a client's connection, or has tried to. */
static int take_up(struct reading *r, struct worker *w, int64_t result, uint64_t tsc)
{
	uint32_t client, begins;
	const char *name;

	if (result > 0 &&
	    ip_client_connections_transfer(r->connections, w->tid, ip_wait_call_fd(&w->call),
					   w->call.begin, true) < 0)
		return -1;
	if (ip_client_connections_find(r->connections, w->tid, ip_wait_call_fd(&w->call),
				       w->call.begin, &client) < 0)
		return -1;
	if (client == IP_NOBODY || (result <= 0 && client != w->before))
		return 0;
	/* a request may come in pieces; a datagram is whole */
	name = r->connections->clients[client];
	begins = result > 0 && ip_number_map_get(&r->asked, client + 1ull) != ASKED;
	if (result > 0 && name && ip_client_connections_is_datagram(r->connections, name))
		begins = w->call.number == SYS_recvmmsg && result <= DATAGRAMS_MOST ? result : 1;
	w->client = client;
	w->since = tsc;
	w->begins = 0;
	w->by_answer = false;
	if (begins && ip_number_map_put(&r->asked, client + 1ull, ASKED) < 0)
		return -1;
	return add(r, w, w->call.begin, tsc, client, begins, true);
}

static int return_from(struct reading *r, struct worker *w, int64_t result, uint64_t tsc)
{
	int ret = 0;

	if (w->call.number == IP_NO_CALL)
		return 0;
	if (is_accept(&w->call))
		ret = ip_client_connections_accept(r->connections, w->tid, result, tsc);
	else if (reads(&w->call))
		ret = take_up(r, w, result, tsc);
	else if (w->closes || (w->by_answer && w->client != IP_NOBODY))
		ret = leave(r, w, tsc);
	if (w->client == IP_NOBODY && waits_for_work(r, w))
		w->free_since = tsc;
	w->call.number = IP_NO_CALL;
	return ret;
}

static int lose(struct reading *r, const struct ip_kernel_record *record)
{
	r->work += r->n;
	if (r->work > LOSSES_WORK_MOST)
		return ip_error("the kernel's events have too many losses");
	for (size_t i = 0; i < r->n; i++) {
		if (leave(r, &r->workers[i], record->lost_since) < 0)
			return -1;
		r->workers[i].call.number = IP_NO_CALL;
		r->workers[i].seen = false;
		r->workers[i].before = IP_NOBODY;
		r->workers[i].free_since = record->tsc;
	}
	ip_client_connections_lose(r->connections);
	ip_number_map_clear(&r->asked);
	return 0;
}

/* A process has the connections of the one that has made it. */
static int take_fork(struct reading *r, const struct ip_kernel_record *record)
{
	const struct ip_client_connections *c = r->connections;
	const int32_t tid = ip_kernel_s32(record, FORK_CHILD_TID);
	const uint32_t parent = c->pid_of(c->context, record->tid, record->tsc),
		       child = c->pid_of(c->context, tid, record->tsc);

	return parent && child && parent != child && child == (uint32_t)tid
		       ? ip_client_connections_fork(r->connections, parent, child)
		       : 0;
}

static int take(struct reading *r, const struct ip_kernel_record *record)
{
	struct worker *w;

	if (record->id == IP_KERNEL_LOST)
		return record->all ? 0 : lose(r, record);
	if (record->id == IP_KERNEL_SCHED_FORK)
		return take_fork(r, record);
	if (record->id == IP_KERNEL_SCHED_EXIT) {
		w = worker_of(r, ip_kernel_s32(record, EXIT_TID));
		if (!w || leave(r, w, record->tsc) < 0)
			return -1;
		w->call.number = IP_NO_CALL;
		w->free_since = 0;
		return 0;
	}
	if (record->id == IP_KERNEL_SYSCALL_STATE) {
		w = worker_of(r, ip_kernel_s32(record, CALL_TID));
		if (!w || w->seen || w->call.number != IP_NO_CALL)
			return w ? 0 : -1;
		w->call = (struct ip_thread_call){.begin = record->tsc,
						  .number = ip_kernel_s32(record, CALL_NUMBER)};
		memcpy(w->call.arguments, record->fields + CALL_ARGUMENTS,
		       sizeof(w->call.arguments));
		return enter(r, w);
	}
	if (record->id < IP_KERNEL_SYSCALL_ENTRY)
		return 0;
	w = worker_of(r, record->tid);
	if (!w)
		return -1;
	w->seen = true;
	if (record->id >= IP_KERNEL_SYSCALL_EXIT)
		return return_from(r, w, ip_kernel_u64(record, 0), record->tsc);
	if (record->id - IP_KERNEL_SYSCALL_ENTRY == SYS_restart_syscall)
		return 0; /* of a sleep, or a wait for descriptors, which goes on */
	w->call = (struct ip_thread_call){.begin = record->tsc,
					  .number = record->id - IP_KERNEL_SYSCALL_ENTRY};
	memcpy(w->call.arguments, record->fields,
	       record->size < sizeof(w->call.arguments) ? record->size : sizeof(w->call.arguments));
	return enter(r, w);
}

static int compare(const void *left, const void *right)
{
	const struct ip_client_interval *a = left, *b = right;

	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return a->from < b->from ? -1 : a->from > b->from;
}

int ip_client_intervals_read(struct ip_kernel_reader *reader, const struct ip_states *states,
			     struct ip_client_connections *connections,
			     struct ip_client_intervals *ret)
{
	struct reading r = {.states = states, .connections = connections, .to = ret};
	struct ip_kernel_record record;
	int got = 0;

	*ret = (struct ip_client_intervals){0};
	while (got == 0 && (got = ip_kernel_reader_next(reader, &record)) > 0)
		got = take(&r, &record);
	for (size_t i = 0; got == 0 && i < r.n; i++)
		got = leave(&r, &r.workers[i], states->end);
	if (got == 0)
		ip_sort(ret->items, ret->n, sizeof(*ret->items), compare);
	ip_number_map_clear(&r.by_tid);
	ip_number_map_clear(&r.asked);
	free(r.workers);
	return got;
}

void ip_client_intervals_clear(struct ip_client_intervals *intervals)
{
	free(intervals->items);
	*intervals = (struct ip_client_intervals){0};
}
