/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads take the parts of a trace one after the other. A part that is done waits until those
 * before it are done.
 */
#include "analysis/callstack/trace_parts.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/callstack/trace_private.h"
#include "common/cleanup.h"
#include "common/error.h"

#define JOBS_MAX       256u
#define PARTS_A_JOB    4u
#define PART_BYTES_MIN (1u << 20)   /* a part with less is not worth a thread */
#define MEMORY_MAX     (256u << 20) /* bytes of all receivers and machines together */

struct part {
	size_t from, to; /* runs */
	void *receiver;
	struct ip_trace_result seen;
	bool done;
};

struct work {
	struct ip_trace_reader *trace;
	const struct ip_trace_parts *parts;
	struct part *items;
	size_t n;
	pthread_mutex_t lock; /* protects what follows, and receivers of parts that are done */
	size_t next;	      /* part that nobody has taken */
	size_t merged;	      /* parts before it have been put together, in the first one */
	bool failed;
	char *error;
};

/* Divides the runs. Returns the number of parts. */
static size_t divide(const struct ip_trace_reader *t, size_t wanted, struct part *ret)
{
	uint64_t all = 0, bytes = 0, each;
	size_t n = 0;

	for (size_t i = 0; i < t->nruns; i++)
		all += t->runs[i].off ? 0 : t->runs[i].bytes;
	each = all / wanted > PART_BYTES_MIN ? all / wanted : PART_BYTES_MIN;
	ret[0].from = 0;
	for (size_t i = 0; i < t->nruns; i++) {
		bytes += t->runs[i].off ? 0 : t->runs[i].bytes;
		if (i + 1 < t->nruns && t->runs[i + 1].stream == t->runs[i].stream)
			continue;
		if (bytes < each || n + 1 == wanted)
			continue;
		ret[n].to = i + 1;
		ret[++n].from = i + 1;
		bytes = 0;
	}
	if (!n || ret[n].from < t->nruns)
		ret[n++].to = t->nruns;
	return n;
}

static int read_part(struct work *w, struct part *part)
{
	struct ip_trace_visitor visitor = w->parts->visitor;
	struct ip_frames *frames;
	int done;

	part->receiver = w->parts->create(w->parts->context);
	if (!part->receiver)
		return -1;
	visitor.context = part->receiver;
	frames = ip_frames_create(w->trace->session, visitor.ops, part->receiver);
	done = frames ? ip_trace_reader_visit_runs(w->trace, part->from, part->to, &visitor, frames,
						   &part->seen)
		      : -1;
	ip_frames_destroy(frames);
	return done < 0 ? -1 : w->parts->end(part->receiver);
}

static void fail(struct work *w)
{
	if (!w->failed)
		w->error = strdup(ip_error_message());
	w->failed = true;
}

/* Puts the parts together that are done and follow those that have been put together. */
static void merge(struct work *w)
{
	while (!w->failed && w->merged < w->n && w->items[w->merged].done) {
		struct part *part = &w->items[w->merged++];

		if (part == w->items)
			continue;
		if (w->parts->merge(w->items->receiver, part->receiver) < 0)
			fail(w);
		w->parts->destroy(part->receiver);
		part->receiver = NULL;
	}
}

static void *work(void *context)
{
	struct work *w = context;

	pthread_mutex_lock(&w->lock);
	while (!w->failed && w->next < w->n) {
		struct part *part = &w->items[w->next++];
		int done;

		pthread_mutex_unlock(&w->lock);
		done = read_part(w, part);
		pthread_mutex_lock(&w->lock);
		part->done = done == 0;
		if (done < 0)
			fail(w);
		merge(w);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* Has the parts read by so many threads, or by as many as there can be. */
static void run(struct work *w, size_t jobs)
{
	_cleanup_free_ pthread_t *threads = calloc(jobs, sizeof(*threads));
	size_t n = 0;
	sigset_t all, before;

	/* signals are for the caller's thread */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (threads && n + 1 < jobs && pthread_create(&threads[n], NULL, work, w) == 0)
		n++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	work(w);
	while (n)
		pthread_join(threads[--n], NULL);
}

/* Returns how many threads may read: as many as there is memory for. Each has a receiver and a
 * machine, which takes machine bytes. */
static size_t count_jobs(const struct ip_trace_reader *trace, const struct ip_trace_parts *parts,
			 size_t machine)
{
	size_t jobs = trace->jobs > JOBS_MAX ? JOBS_MAX : trace->jobs;

	if (trace->on_packet)
		return 1;
	if (jobs > MEMORY_MAX / (parts->size + machine))
		jobs = MEMORY_MAX / (parts->size + machine);
	return jobs ? jobs : 1;
}

int ip_trace_reader_visit_parts(struct ip_trace_reader *trace, const struct ip_trace_parts *parts,
				void **ret_part, uint64_t *ret_events)
{
	size_t machine = ip_frames_size(trace->session);
	size_t jobs = count_jobs(trace, parts, machine), wanted;
	struct work w = {.trace = trace, .parts = parts, .lock = PTHREAD_MUTEX_INITIALIZER};
	int done = 0;

	wanted = jobs == 1 ? 1 : jobs * PARTS_A_JOB;
	while (wanted > jobs && wanted * parts->size + jobs * machine > MEMORY_MAX)
		wanted--;
	w.items = calloc(wanted + 1, sizeof(*w.items));
	if (!w.items)
		return ip_error("out of memory");
	w.n = divide(trace, wanted, w.items);
	run(&w, jobs < w.n ? jobs : w.n);
	*ret_events = trace->silent = 0;
	for (size_t i = 0; i < w.n; i++)
		if (ip_trace_result_take(&w.items[i].seen, trace, ret_events) < 0)
			done = -1;
	for (size_t i = 0; i < w.n; i++) {
		if (w.items[i].receiver && (i || w.failed || done < 0))
			parts->destroy(w.items[i].receiver);
	}
	if (w.failed)
		done = ip_error("%s", w.error ? w.error : "out of memory");
	*ret_part = done < 0 ? NULL : w.items->receiver;
	free(w.error);
	free(w.items);
	return done;
}
