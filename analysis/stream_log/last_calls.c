/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a live log several times: first its text, which tells what numbers stand for; then the
 * records, for as many threads at a time as their stack machines have room. The file is input from
 * outside: the number of readings is bounded. Where it has more threads than these have room for,
 * the oldest ones are left out, of those that had ended.
 */
#include "analysis/stream_log/last_calls.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/callstack/trace.h"
#include "analysis/stream_log/batch_reader.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/elf/probe_list.h"
#include "common/error.h"

#define TEXT_MOST     (1u << 30)
#define MACHINES_SIZE (512u << 20) /* bytes of stack machines at a time */
#define MACHINES_MOST 16384u	   /* each has large parts that are mapped by themselves */
#define READINGS_MOST 64u	   /* of the records */
#define STACKS_MOST   10000u

/* A thread while its records are read. */
struct reading {
	struct ip_last_thread thread;
	uint64_t sp; /* of its first record */
	uint32_t number;
	bool known; /* a section has told of it */
	bool ends;  /* another one tells of its end */
	bool now;   /* it is read in this reading */
	bool read;  /* it was */
	bool begun;
	struct ip_frames *frames; /* NULL: not now */
	size_t next;		  /* in thread.calls, once it is full: the oldest one */
	uint64_t batch;		  /* the last one that thread.behind is of */
	struct reader *reader;
};

struct reader {
	struct ip_batch_reader *batches;
	struct ip_last_calls *last;
	const char *path;
	char *text;
	size_t text_size, text_room;
	struct reading **threads; /* by number; NULL: none */
	size_t nthreads;
	size_t most;
	struct reading **order; /* threads, in the order in which they are read */
	size_t norder;
	size_t machines;   /* that are there at a time */
	uint64_t nbatches; /* of this reading */
	size_t first, end; /* the threads of `order` that are read now */
	bool failed;	   /* memory ran out in a visitor */
	bool finishes;	   /* what the machine still knows is asked for */
};

static int add_text(struct reader *r, const uint8_t *text, size_t size)
{
	if (size > TEXT_MOST - r->text_size)
		return ip_error("%s: too large to be a live log of iprobe", r->path);
	if (!size)
		return 0;
	if (r->text_size + size > r->text_room) {
		const size_t room = 2 * r->text_room + size;
		char *grown = realloc(r->text, room);

		if (!grown)
			return ip_error("out of memory");
		r->text = grown;
		r->text_room = room;
	}
	memcpy(r->text + r->text_size, text, size);
	r->text_size += size;
	return 0;
}

/* A line that was begun before missing batches does not go on behind them. */
static void cut_line(struct reader *r)
{
	const char *last = r->text ? memrchr(r->text, '\n', r->text_size) : NULL;

	r->text_size = last ? last + 1 - r->text : 0;
}

/* Returns the thread of a number, which is made where it is new; NULL with an error. */
static struct reading *thread_of(struct reader *r, uint32_t number)
{
	if (number >= r->nthreads) {
		const size_t n = (size_t)number + 1;
		struct reading **grown = realloc(r->threads, n * sizeof(*grown));

		if (!grown) {
			ip_error("out of memory");
			return NULL;
		}
		memset(grown + r->nthreads, 0, (n - r->nthreads) * sizeof(*grown));
		r->threads = grown;
		r->nthreads = n;
	}
	if (!r->threads[number]) {
		r->threads[number] = calloc(1, sizeof(**r->threads));
		if (!r->threads[number]) {
			ip_error("out of memory");
			return NULL;
		}
		r->threads[number]->reader = r;
		r->threads[number]->number = number;
	}
	return r->threads[number];
}

static int add_threads(struct reader *r, const struct ip_batch_section *section)
{
	const struct ip_stream_log_thread *items = (const void *)section->content;

	for (size_t i = 0; i < section->size / sizeof(*items); i++) {
		struct reading *t;

		if (items[i].thread >= IP_STREAM_LOG_THREADS)
			continue;
		t = thread_of(r, items[i].thread);
		if (!t)
			return -1;
		/* it may be told again, with its stack pointer */
		if (t->known &&
		    (t->sp || t->thread.pid != items[i].pid || t->thread.tid != items[i].tid))
			continue;
		t->known = true;
		t->thread.pid = items[i].pid;
		t->thread.tid = items[i].tid;
		t->sp = items[i].sp;
	}
	return 0;
}

/* Notes which threads have ended. */
static void note_ends(struct reader *r, const struct ip_batch_section *section)
{
	const struct ip_stream_log_ended *items = (const void *)section->content;

	for (size_t i = 0; i < section->size / sizeof(*items); i++)
		if (items[i].thread < r->nthreads && r->threads[items[i].thread])
			r->threads[items[i].thread]->ends = true;
}

/* The first reading: text, threads, and what the end marks say. */
static int read_text(struct reader *r)
{
	const struct ip_stream_log_header *batch;
	struct ip_last_calls *last = r->last;
	uint64_t missing;
	bool late = false;
	int found;

	while ((found = ip_batch_reader_next(r->batches, &batch, &missing)) > 0) {
		struct ip_batch_section section = {0};

		if (missing)
			cut_line(r);
		late |= missing && !last->batches;
		last->missing += missing;
		if (last->batches++ && batch->complete > last->complete &&
		    batch->complete - last->complete > last->longest_ticks && last->complete)
			last->longest_ticks = batch->complete - last->complete;
		last->complete =
			batch->complete > last->complete ? batch->complete : last->complete;
		last->dropped = batch->dropped;
		last->lost = batch->lost;
		last->late += batch->late;
		last->interval_ns = batch->interval_us * 1000ull;
		while (ip_batch_reader_section(r->batches, &section)) {
			int ret = 0;

			if (section.kind == IP_STREAM_LOG_TEXT)
				ret = add_text(r, section.content, section.size);
			else if (section.kind == IP_STREAM_LOG_THREAD)
				ret = add_threads(r, &section);
			else if (section.kind == IP_STREAM_LOG_ENDED)
				note_ends(r, &section);
			else if (section.kind == IP_STREAM_LOG_UNSORTED &&
				 section.size >= sizeof(last->unsorted))
				memcpy(&last->unsorted, section.content, sizeof(last->unsorted));
			if (ret < 0)
				return -1;
		}
	}
	last->unsorted = last->unsorted < last->dropped ? last->unsorted : last->dropped;
	ip_batch_reader_damage(r->batches, &last->damaged, &last->tail);
	if (found < 0)
		return -1;
	if (ip_recording_parse(r->path, r->text ? r->text : "", r->text_size, &last->session) == 0)
		return 0;
	return late ? ip_error("%s: its beginning is missing, which tells what its numbers stand "
			       "for",
			       r->path)
		    : -1;
}

/* Keeps a call that has ended. */
static void keep(struct reading *t, const struct ip_last_call *call)
{
	struct ip_last_thread *thread = &t->thread;
	const size_t most = t->reader->most;

	if (!most)
		return;
	if (thread->ncalls < most) {
		if (ip_array_grow(&thread->calls, thread->ncalls, sizeof(*call)) < 0) {
			t->reader->failed = true;
			return;
		}
		thread->calls[thread->ncalls++] = *call;
		return;
	}
	if (call->end < thread->calls[t->next].end)
		return;
	thread->calls[t->next] = *call;
	t->next = (t->next + 1) % most;
}

static void closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		   enum ip_frame_end how)
{
	struct reading *t = context;
	const struct ip_last_call call = {.function = frame->function,
					  .flags = frame->flags,
					  .depth = depth,
					  .start = frame->start,
					  .end = end,
					  .how = how};

	/* these are open */
	if (how == IP_END_UNFINISHED && t->reader->finishes)
		return;
	keep(t, &call);
}

static const struct ip_frames_ops visitor = {.closed = closed};

/* The thread's first record comes at that time: calls that were open before are put below it. */
static int begin_thread(struct reading *t, uint64_t time)
{
	const struct ip_recording *s = t->reader->last->session;
	struct ip_thread_packets run = {.pid = t->thread.pid, .tid = t->thread.tid, .begin = time};
	const size_t stack = ip_recording_find_stack(s, run.pid, run.tid);

	t->begun = true;
	t->frames = ip_frames_create(s, &visitor, t);
	if (!t->frames)
		return -1;
	if (stack && s->stacks[stack - 1].tsc <= time)
		run.stack = stack;
	return ip_frames_begin_run(t->frames, &run);
}

static uint64_t sp_of(const struct reading *t, const struct ip_stream_log_record *record)
{
	const uint64_t low = ((uint64_t)record->sp | (uint64_t)(record->what >> 24) << 32) << 3;

	return (t->sp & ~((1ull << IP_STREAM_LOG_SP_BITS) - 1)) | low;
}

/* Returns the thread of a number if it is known; else NULL. */
static struct reading *named(const struct reader *r, uint32_t number)
{
	struct reading *t = number < r->nthreads ? r->threads[number] : NULL;

	return t && t->known ? t : NULL;
}

/* Returns the thread of a number if it is known and read now; else NULL. */
static struct reading *wanted(const struct reader *r, uint32_t number)
{
	struct reading *t = named(r, number);

	return t && t->now ? t : NULL;
}

static int add_records(struct reader *r, const struct ip_batch_section *section)
{
	const struct ip_stream_log_record *items =
		(const void *)(section->content + sizeof(uint64_t));
	uint64_t base;

	if (section->size < sizeof(base))
		return 0;
	memcpy(&base, section->content, sizeof(base));
	for (size_t i = 0; i < (section->size - sizeof(base)) / sizeof(*items); i++) {
		struct reading *t = named(r, items[i].thread);
		struct ip_event event;

		/* counted in one of the readings */
		r->last->unnamed += !t && !r->first;
		if (!t || !t->now || t->thread.ended)
			continue;
		event = (struct ip_event){.ts = base + items[i].after,
					  .sp = sp_of(t, &items[i]),
					  .number = IP_STREAM_LOG_NUMBER(items[i].what),
					  .kind = IP_STREAM_LOG_KIND(items[i].what)};
		/* of one thread they come in order, or someone has made them up */
		if (!event.number || event.ts < t->thread.newest)
			continue;
		if (!t->begun && begin_thread(t, event.ts) < 0)
			return -1;
		t->thread.newest = event.ts;
		t->thread.records++;
		if (ip_frames_feed(t->frames, &event, 1) < 0)
			return -1;
	}
	return 0;
}

static void end_threads(struct reader *r, const struct ip_batch_section *section)
{
	const struct ip_stream_log_ended *items = (const void *)section->content;

	for (size_t i = 0; i < section->size / sizeof(*items); i++) {
		struct reading *t = wanted(r, items[i].thread);

		if (!t || t->thread.ended)
			continue;
		t->thread.ended = items[i].time ? items[i].time : 1;
		if (t->frames)
			ip_frames_finish(t->frames, items[i].time);
		ip_frames_destroy(ip_steal_ptr(t->frames));
	}
}

static void note_behind(struct reader *r, const struct ip_batch_section *section)
{
	const struct ip_stream_log_behind *items = (const void *)section->content;

	for (size_t i = 0; i < section->size / sizeof(*items); i++) {
		struct reading *t = wanted(r, items[i].thread);

		if (!t)
			continue;
		t->thread.behind = items[i].words;
		t->batch = r->nbatches;
	}
}

static int read_batch(struct reader *r)
{
	struct ip_batch_section section = {0};

	r->nbatches++;
	while (ip_batch_reader_section(r->batches, &section)) {
		if (section.kind == IP_STREAM_LOG_RECORDS && add_records(r, &section) < 0)
			return -1;
		if (section.kind == IP_STREAM_LOG_ENDED)
			end_threads(r, &section);
		if (section.kind == IP_STREAM_LOG_BEHIND)
			note_behind(r, &section);
	}
	return 0;
}

/* Takes the calls that are open, and closes the machine. */
static int finish_thread(struct reading *t)
{
	const struct ip_frame *frames;
	const size_t n = t->frames ? ip_frames_open(t->frames, &frames) : 0;
	const size_t unsure = t->frames ? ip_frames_suspect(t->frames) : 0;
	struct ip_last_thread *thread = &t->thread;

	thread->open = calloc(n + 1, sizeof(*thread->open));
	if (!thread->open)
		return ip_error("out of memory");
	for (size_t i = 0; i < n; i++)
		thread->open[i] = (struct ip_last_call){
			.function = frames[i].function,
			.flags = frames[i].flags | (i < unsure ? IP_FRAME_SUSPECT : 0),
			.depth = i,
			.start = frames[i].start};
	thread->nopen = n;
	if (t->batch != t->reader->nbatches)
		thread->behind = 0;
	t->reader->finishes = true;
	if (t->frames)
		ip_frames_finish(t->frames, thread->newest);
	t->reader->finishes = false;
	ip_frames_destroy(ip_steal_ptr(t->frames));
	return 0;
}

/* Reads the records of the threads first..end-1 of the order. */
static int read_records(struct reader *r)
{
	const struct ip_stream_log_header *batch;
	uint64_t missing, dropped = 0, lost = 0;
	int found;

	ip_batch_reader_rewind(r->batches);
	r->nbatches = 0;
	for (size_t i = r->first; i < r->end; i++)
		r->order[i]->now = r->order[i]->read = true;
	while ((found = ip_batch_reader_next(r->batches, &batch, &missing)) > 0) {
		const bool loss = missing || batch->dropped != dropped || batch->lost != lost;

		/* whose records they were is not known */
		for (size_t i = r->first; loss && i < r->end; i++)
			if (r->order[i]->frames)
				ip_frames_loss(r->order[i]->frames);
		dropped = batch->dropped;
		lost = batch->lost;
		if (read_batch(r) < 0)
			return -1;
		if (r->failed)
			return ip_error("out of memory");
	}
	for (size_t i = r->first; found == 0 && i < r->end; i++) {
		r->order[i]->now = false;
		if (finish_thread(r->order[i]) < 0)
			return -1;
	}
	return found;
}

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
static int add_silent_threads(struct reader *r)
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
		struct reading *t;

		if (bsearch(&id, ids, n, sizeof(*ids), by_ids))
			continue;
		t = thread_of(r, r->nthreads);
		if (!t)
			return -1;
		nsilent++;
		t->known = t->read = true;
		t->thread.pid = stack->pid;
		t->thread.tid = stack->tid;
		if (begin_thread(t, stack->tsc) < 0 || finish_thread(t) < 0)
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
static int collect(struct reader *r)
{
	struct ip_last_calls *last = r->last;

	last->threads = calloc(r->nthreads + 1, sizeof(*last->threads));
	if (!last->threads)
		return ip_error("out of memory");
	for (size_t i = 0; i < r->nthreads; i++) {
		struct reading *t = r->threads[i];

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
	const struct reading *x = *(struct reading *const *)a, *y = *(struct reading *const *)b;

	if (x->ends != y->ends)
		return x->ends ? 1 : -1;
	return x->number > y->number ? -1 : x->number < y->number;
}

/* Decides which threads are read, and in which order. */
static int make_order(struct reader *r)
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

static int read_all(struct reader *r)
{
	if (read_text(r) < 0)
		return -1;
	if (!r->machines)
		r->machines = count_machines(r->last->session);
	if (make_order(r) < 0)
		return -1;
	/* one reading at least: it counts the records of unknown threads */
	do {
		r->end = r->norder - r->first < r->machines ? r->norder : r->first + r->machines;
		if (read_records(r) < 0)
			return -1;
		r->first = r->end;
	} while (r->first < r->norder);
	return add_silent_threads(r) < 0 ? -1 : collect(r);
}

/* batches is closed. */
static int read_batches(struct ip_batch_reader *batches, const char *path, size_t most,
			size_t machines, struct ip_last_calls *ret)
{
	struct reader r = {
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
