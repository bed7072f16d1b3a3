/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a live log several times: first its text, which tells what numbers stand for; then the
 * records, for as many threads at a time as their stack machines have room. The file is input from
 * outside: the number of readings is bounded. Where it has more threads than these have room for,
 * the oldest ones are left out, of those that had ended.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/stream_log/last_calls_private.h"
#include "common/cleanup.h"
#include "common/error.h"

#define MACHINES_SIZE (512u << 20) /* bytes of stack machines at a time */
#define MACHINES_MOST 16384u	   /* each has large parts that are mapped by themselves */
#define READINGS_MOST 64u	   /* of the records */
#define STACKS_MOST   10000u

static int by_ids(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t ids_of(uint32_t pid, uint32_t tid)
{
	return (uint64_t)pid << 32 | tid;
}

/* Adds threads that have had no event since the attach, but calls that were open then. */
static int add_silent_threads(struct ip_log_reader *r)
{
	const struct ip_recording *s = r->last->session;
	_cleanup_free_ uint64_t *ids = calloc(r->nthreads + 1, sizeof(*ids));
	const size_t most = READINGS_MOST * r->machines;
	size_t n = 0, nsilent = 0;

	if (!ids)
		return ip_error("out of memory");
	for (size_t i = 0; i < r->nthreads; i++)
		if (r->threads[i])
			ids[n++] = ids_of(r->threads[i]->thread.pid, r->threads[i]->thread.tid);
	qsort(ids, n, sizeof(*ids), by_ids);

	for (size_t i = 0; i < s->nstacks && i < STACKS_MOST && nsilent < most; i++) {
		const struct ip_recording_stack *stack = &s->stacks[i];
		const uint64_t id = ids_of(stack->pid, stack->tid);
		struct ip_log_thread *t;

		if (bsearch(&id, ids, n, sizeof(*ids), by_ids))
			continue;
		t = ip_log_thread_of(r, r->nthreads);
		if (!t)
			return -1;
		nsilent++;
		t->known = t->read = true;
		t->thread.pid = stack->pid;
		t->thread.tid = stack->tid;
		if (ip_log_thread_begin(t, stack->tsc) < 0 || ip_log_thread_finish(t) < 0)
			return -1;
	}
	return 0;
}

static int by_end(const void *a, const void *b)
{
	const struct ip_last_call *x = a, *y = b;

	if (x->end != y->end)
		return x->end < y->end ? -1 : 1;
	return x->depth > y->depth ? -1 : x->depth < y->depth;
}

static int by_interest(const void *a, const void *b)
{
	const struct ip_last_thread *x = a, *y = b;

	if (!x->nopen != !y->nopen)
		return x->nopen ? -1 : 1;
	if (x->newest != y->newest)
		return x->newest > y->newest ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

/* Hands the threads over. */
static int collect(struct ip_log_reader *r)
{
	struct ip_last_calls *last = r->last;

	last->threads = calloc(r->nthreads + 1, sizeof(*last->threads));
	if (!last->threads)
		return ip_error("out of memory");
	for (size_t i = 0; i < r->nthreads; i++) {
		struct ip_log_thread *t = r->threads[i];

		if (!t || !t->read)
			continue;
		if (t->thread.ncalls)
			qsort(t->thread.calls, t->thread.ncalls, sizeof(*t->thread.calls), by_end);
		last->records += t->thread.records;
		last->threads[last->nthreads++] = t->thread;
		t->thread.calls = t->thread.open = NULL;
	}
	if (last->nthreads)
		qsort(last->threads, last->nthreads, sizeof(*last->threads), by_interest);
	return 0;
}

/* Those first that have not ended, and of each kind the newest ones. */
static int by_need(const void *a, const void *b)
{
	const struct ip_log_thread *x = *(struct ip_log_thread *const *)a,
				   *y = *(struct ip_log_thread *const *)b;

	if (x->ends != y->ends)
		return x->ends ? 1 : -1;
	return x->number > y->number ? -1 : x->number < y->number;
}

/* Decides which threads are read, and in which order. */
static int make_order(struct ip_log_reader *r)
{
	const size_t most = READINGS_MOST * r->machines;

	r->order = calloc(r->nthreads + 1, sizeof(*r->order));
	if (!r->order)
		return ip_error("out of memory");
	for (size_t i = 0; i < r->nthreads; i++)
		if (r->threads[i])
			r->order[r->norder++] = r->threads[i];
	qsort(r->order, r->norder, sizeof(*r->order), by_need);
	if (r->norder > most) {
		r->last->unread = r->norder - most;
		r->norder = most;
	}
	return 0;
}

static size_t count_machines(const struct ip_recording *session)
{
	const size_t size = ip_frames_size(session),
		     n = size < MACHINES_SIZE ? MACHINES_SIZE / (size + 1) : 1;

	return n < MACHINES_MOST ? n : MACHINES_MOST;
}

static int read_all(struct ip_log_reader *r)
{
	if (ip_log_text_read(r) < 0)
		return -1;
	if (!r->machines)
		r->machines = count_machines(r->last->session);
	if (make_order(r) < 0)
		return -1;
	/* one reading at least: it counts the records of unknown threads */
	do {
		r->end = r->norder - r->first < r->machines ? r->norder : r->first + r->machines;
		if (ip_log_records_read(r) < 0)
			return -1;
		r->first = r->end;
	} while (r->first < r->norder);
	return add_silent_threads(r) < 0 ? -1 : collect(r);
}

/* batches is closed. */
static int read_batches(struct ip_batch_reader *batches, const char *path, size_t most,
			size_t machines, struct ip_last_calls *ret)
{
	struct ip_log_reader r = {
		.batches = batches, .last = ret, .path = path, .most = most, .machines = machines};
	int done;

	*ret = (struct ip_last_calls){0};
	done = read_all(&r);
	for (size_t i = 0; i < r.nthreads; i++) {
		if (!r.threads[i])
			continue;
		ip_frames_destroy(r.threads[i]->frames);
		free(r.threads[i]->thread.open);
		free(r.threads[i]->thread.calls);
		free(r.threads[i]);
	}
	free(r.threads);
	free(r.order);
	free(r.text);
	ip_batch_reader_close(r.batches);
	if (done < 0)
		ip_last_calls_clear(ret);
	return done;
}

int ip_last_calls_read(const char *path, size_t most, struct ip_last_calls *ret)
{
	struct ip_batch_reader *batches;

	return ip_batch_reader_open(path, &batches) < 0 ? -1
							: read_batches(batches, path, most, 0, ret);
}

int ip_last_calls_read_fd(int fd, const char *path, size_t most, size_t machines,
			  struct ip_last_calls *ret)
{
	struct ip_batch_reader *batches;

	return ip_batch_reader_open_fd(fd, path, &batches) < 0
		       ? -1
		       : read_batches(batches, path, most, machines, ret);
}

void ip_last_calls_clear(struct ip_last_calls *last)
{
	for (size_t i = 0; i < last->nthreads; i++) {
		free(last->threads[i].open);
		free(last->threads[i].calls);
	}
	free(last->threads);
	ip_recording_destroy(last->session);
	*last = (struct ip_last_calls){0};
}
