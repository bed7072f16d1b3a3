/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads take the parts of a trace one after the other. A part that is done waits until those
 * before it are done.
 */
#include "analysis/callstack/trace_parts.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/callstack/trace_private.h"
#include "common/cleanup.h"
#include "common/error.h"

#define JOBS_MAX       256u
#define PARTS_A_JOB    4u
#define PART_BYTES_MIN (1u << 20)   /* a part with less is not worth a thread */
#define MEMORY_MAX     (256u << 20) /* bytes of all receivers and machines together */

struct part {
	struct work *work;
	size_t from, to; /* runs */
	void *receiver;
	struct ip_trace_result seen;
	bool done;
	atomic_uint_least64_t bytes; /* read so far */
	atomic_bool wanted;	     /* a copy is, from the thread that reads the part */
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
	/* Of a caller who wants to see the result grow: */
	size_t reading;		/* threads that have not ended, without the caller's */
	pthread_cond_t changed; /* a thread has ended, or made its copy */
	size_t waiting;		/* copies that are wanted and not made */
	void *copies;		/* those that are made, put together; NULL: none yet */
	uint64_t copied_events; /* that are in them */
	bool no_copies;		/* one could not be made */
	atomic_bool stopping;	/* all threads are to end after their next packet */
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

/* Tells a copy, which has the calls up to now, that those that are open end here. */
static int end_copy(const struct work *w, const struct ip_frames *frames,
		    const struct ip_thread_packets *run, void *copy)
{
	struct ip_frames *machine =
		ip_frames_create(w->trace->session, w->parts->visitor.ops, copy);
	struct ip_frames_state *state = ip_frames_save(frames);
	int done = -1;

	if (machine && state) {
		ip_frames_set_member(machine, run->member);
		done = ip_frames_restore(machine, state);
	}
	if (done == 0)
		ip_frames_finish(machine, 0);
	ip_frames_state_destroy(state);
	ip_frames_destroy(machine);
	return done;
}

/* Puts a copy of the part to the others. frames: of the part, which is being read; NULL: it has
 * ended. */
static void add_copy(struct work *w, struct part *part, const struct ip_frames *frames,
		     const struct ip_thread_packets *run)
{
	void *copy = w->no_copies ? NULL : w->parts->copy(part->receiver);
	int done = copy ? 0 : -1;

	if (copy && frames)
		done = end_copy(w, frames, run, copy);
	if (done == 0)
		done = w->parts->end(copy);
	w->copied_events += part->seen.events;
	if (done == 0 && !w->copies)
		w->copies = ip_steal_ptr(copy);
	else if (done == 0)
		done = w->parts->merge(w->copies, copy);
	if (copy)
		w->parts->destroy(copy);
	w->no_copies |= done < 0;
}

/* Makes the copy of the part that the caller waits for. */
static void make_copy(struct work *w, struct part *part, const struct ip_frames *frames,
		      const struct ip_thread_packets *run)
{
	if (!part->wanted)
		return;
	add_copy(w, part, frames, run);
	part->wanted = false;
	w->waiting--;
	pthread_cond_signal(&w->changed);
}

/* For ip_trace_pause: tells the caller how far the part is, and makes its copy. */
static int on_pause(void *context, struct ip_frames *frames, const struct ip_thread_packets *run,
		    uint64_t bytes)
{
	struct part *part = context;
	struct work *w = part->work;

	atomic_store_explicit(&part->bytes, part->bytes + bytes, memory_order_relaxed);
	if (atomic_load_explicit(&part->wanted, memory_order_relaxed)) {
		pthread_mutex_lock(&w->lock);
		make_copy(w, part, frames, run);
		pthread_mutex_unlock(&w->lock);
	}
	return atomic_load_explicit(&w->stopping, memory_order_relaxed);
}

static int read_part(struct work *w, struct part *part)
{
	struct ip_trace_visitor visitor = w->parts->visitor;
	const struct ip_trace_pause pause = {on_pause, part};
	struct ip_frames *frames;
	int done;

	part->receiver = w->parts->create(w->parts->context);
	if (!part->receiver)
		return -1;
	visitor.context = part->receiver;
	frames = ip_frames_create(w->trace->session, visitor.ops, part->receiver);
	done = frames ? ip_trace_reader_visit_runs(w->trace, part->from, part->to, &visitor, frames,
						   w->trace->progress ? &pause : NULL, &part->seen)
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
	/* where the reading ends early, the first part is there nevertheless */
	while (!w->failed && w->next < w->n && !(w->stopping && w->next)) {
		struct part *part = &w->items[w->next++];
		int done;

		pthread_mutex_unlock(&w->lock);
		done = read_part(w, part);
		pthread_mutex_lock(&w->lock);
		part->done = done == 0;
		if (done < 0)
			fail(w);
		else
			make_copy(w, part, NULL, NULL);
		merge(w);
	}
	w->reading -= w->reading > 0;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* Asks all threads for copies, and waits for them. Returns the copies, put together; NULL: there is
 * nothing to show. */
static void *collect_copies(struct work *w)
{
	void *copies;

	w->no_copies = !w->parts->copy;
	w->copied_events = 0;
	if (!w->no_copies && w->merged)
		add_copy(w, w->items, NULL, NULL);
	for (size_t i = 1; i < w->merged; i++)
		w->copied_events += w->items[i].seen.events;
	for (size_t i = w->merged; !w->no_copies && i < w->next; i++) {
		struct part *part = &w->items[i];

		if (part->done) {
			add_copy(w, part, NULL, NULL);
		} else {
			part->wanted = true;
			w->waiting++;
		}
	}
	/* a thread that has failed makes no copy any more */
	while (w->waiting && !w->failed)
		pthread_cond_wait(&w->changed, &w->lock);
	copies = ip_steal_ptr(w->copies);
	if (copies && (w->no_copies || w->failed)) {
		w->parts->destroy(copies);
		copies = NULL;
	}
	return copies;
}

static void count_bytes(struct work *w)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < w->n; i++)
		bytes += w->items[i].bytes;
	w->trace->progress->read_bytes = bytes;
}

/* Does what the caller wants, who has been told how far the reading is. */
static void look(struct work *w)
{
	struct ip_trace_progress *p = w->trace->progress;
	enum ip_progress_request request;
	void *copies;

	count_bytes(w);
	pthread_mutex_unlock(&w->lock);
	request = p->look(p->context, p);
	pthread_mutex_lock(&w->lock);
	if (request == IP_PROGRESS_STOP && w->reading) {
		w->stopping = p->stopped = true;
	} else if (request == IP_PROGRESS_SHOW) {
		copies = collect_copies(w);
		pthread_mutex_unlock(&w->lock);
		if (copies && w->parts->complete)
			w->parts->complete(copies, w->copied_events);
		p->show(p->context, p, copies);
		if (copies)
			w->parts->destroy(copies);
		pthread_mutex_lock(&w->lock);
	}
}

/* Lets the caller's thread look until all others have ended. */
static void watch(struct work *w)
{
	struct timespec until;

	pthread_mutex_lock(&w->lock);
	while (w->reading) {
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += IP_PROGRESS_NS;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		if (pthread_cond_clockwait(&w->changed, &w->lock, CLOCK_MONOTONIC, &until) &&
		    w->reading && !w->stopping)
			look(w);
	}
	pthread_mutex_unlock(&w->lock);
}

/* Has the parts read by so many threads, or by as many as there can be. The caller is one of them,
 * unless it wants to see the result grow. */
static void run(struct work *w, size_t jobs)
{
	_cleanup_free_ pthread_t *threads = calloc(jobs, sizeof(*threads));
	const size_t others = w->trace->progress ? jobs : jobs - 1;
	size_t n = 0;
	static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
	sigset_t all, before;

	/* signals are for the caller's thread, but for those of a crash: they give the terminal
	 * back */
	sigfillset(&all);
	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		sigdelset(&all, crashes[i]);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_mutex_lock(&w->lock);
	while (threads && n < others && pthread_create(&threads[n], NULL, work, w) == 0)
		n++;
	w->reading = n;
	pthread_mutex_unlock(&w->lock);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (n && w->trace->progress)
		watch(w);
	else
		work(w);
	while (n)
		pthread_join(threads[--n], NULL);
}

/* For receivers and machines. Where there is progress, the other half is for copies. */
static size_t memory_of(const struct ip_trace_reader *trace)
{
	return trace->progress ? MEMORY_MAX / 2 : MEMORY_MAX;
}

/* Returns how many threads may read: as many as there is memory for. Each has a receiver and a
 * machine, which takes machine bytes. */
static size_t count_jobs(const struct ip_trace_reader *trace, const struct ip_trace_parts *parts,
			 size_t machine)
{
	const size_t memory = memory_of(trace);
	size_t jobs = trace->jobs > JOBS_MAX ? JOBS_MAX : trace->jobs;

	if (trace->on_packet)
		return 1;
	if (jobs > memory / (parts->size + machine))
		jobs = memory / (parts->size + machine);
	return jobs ? jobs : 1;
}

int ip_trace_reader_visit_parts(struct ip_trace_reader *trace, const struct ip_trace_parts *parts,
				void **ret_part, uint64_t *ret_events)
{
	size_t machine = ip_frames_size(trace->session);
	size_t jobs = count_jobs(trace, parts, machine), wanted;
	struct work w = {.trace = trace,
			 .parts = parts,
			 .lock = PTHREAD_MUTEX_INITIALIZER,
			 .changed = PTHREAD_COND_INITIALIZER};
	int done = 0;

	wanted = jobs == 1 ? 1 : jobs * PARTS_A_JOB;
	while (wanted > jobs && wanted * parts->size + jobs * machine > memory_of(trace))
		wanted--;
	w.items = calloc(wanted + 1, sizeof(*w.items));
	if (!w.items)
		return ip_error("out of memory");
	w.n = divide(trace, wanted, w.items);
	for (size_t i = 0; i < w.n; i++)
		w.items[i].work = &w;
	if (trace->progress)
		ip_trace_progress_begin(trace->progress, trace);
	run(&w, jobs < w.n ? jobs : w.n);
	if (trace->progress)
		count_bytes(&w);
	if (w.copies)
		parts->destroy(w.copies); /* one that came after another had failed */
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
	if (*ret_part && parts->complete)
		parts->complete(*ret_part, *ret_events);
	free(w.error);
	free(w.items);
	return done;
}
