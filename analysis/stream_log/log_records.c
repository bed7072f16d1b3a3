/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the records of a live log: each thread that is read has a stack machine, which tells its
 * calls.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/callstack/trace.h"
#include "analysis/stream_log/last_calls_private.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/elf/probe_list.h"
#include "common/error.h"

/* Keeps a call that has ended. */
static void keep(struct ip_log_thread *t, const struct ip_last_call *call)
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
	struct ip_log_thread *t = context;
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

int ip_log_thread_begin(struct ip_log_thread *t, uint64_t time)
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

static uint64_t sp_of(const struct ip_log_thread *t, const struct ip_stream_log_record *record)
{
	const uint64_t low = ((uint64_t)record->sp | (uint64_t)(record->what >> 24) << 32) << 3;

	return (t->sp & ~((1ull << IP_STREAM_LOG_SP_BITS) - 1)) | low;
}

/* Returns the thread of a number if it is known; else NULL. */
static struct ip_log_thread *named(const struct ip_log_reader *r, uint32_t number)
{
	struct ip_log_thread *t = number < r->nthreads ? r->threads[number] : NULL;

	return t && t->known ? t : NULL;
}

/* Returns the thread of a number if it is known and read now; else NULL. */
static struct ip_log_thread *wanted(const struct ip_log_reader *r, uint32_t number)
{
	struct ip_log_thread *t = named(r, number);

	return t && t->now ? t : NULL;
}

static int add_records(struct ip_log_reader *r, const struct ip_batch_section *section)
{
	const struct ip_stream_log_record *items =
		(const void *)(section->content + sizeof(uint64_t));
	uint64_t base;

	if (section->size < sizeof(base))
		return 0;
	memcpy(&base, section->content, sizeof(base));
	for (size_t i = 0; i < (section->size - sizeof(base)) / sizeof(*items); i++) {
		struct ip_log_thread *t = named(r, items[i].thread);
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
		if (!t->begun && ip_log_thread_begin(t, event.ts) < 0)
			return -1;
		t->thread.newest = event.ts;
		t->thread.records++;
		if (ip_frames_feed(t->frames, &event, 1) < 0)
			return -1;
	}
	return 0;
}

static void end_threads(struct ip_log_reader *r, const struct ip_batch_section *section)
{
	const struct ip_stream_log_ended *items = (const void *)section->content;

	for (size_t i = 0; i < section->size / sizeof(*items); i++) {
		struct ip_log_thread *t = wanted(r, items[i].thread);

		if (!t || t->thread.ended)
			continue;
		t->thread.ended = items[i].time ? items[i].time : 1;
		if (t->frames)
			ip_frames_finish(t->frames, items[i].time);
		ip_frames_destroy(ip_steal_ptr(t->frames));
	}
}

static void note_behind(struct ip_log_reader *r, const struct ip_batch_section *section)
{
	const struct ip_stream_log_behind *items = (const void *)section->content;

	for (size_t i = 0; i < section->size / sizeof(*items); i++) {
		struct ip_log_thread *t = wanted(r, items[i].thread);

		if (!t)
			continue;
		t->thread.behind = items[i].words;
		t->batch = r->nbatches;
	}
}

static int read_batch(struct ip_log_reader *r)
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

int ip_log_thread_finish(struct ip_log_thread *t)
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

int ip_log_records_read(struct ip_log_reader *r)
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
		if (ip_log_thread_finish(r->order[i]) < 0)
			return -1;
	}
	return found;
}
