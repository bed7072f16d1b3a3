/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first reading of a live log: its text, which tells what numbers stand for, its threads, and
 * what the end marks say.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/stream_log/last_calls_private.h"
#include "common/error.h"

#define TEXT_MOST (1u << 30)

static int add_text(struct ip_log_reader *r, const uint8_t *text, size_t size)
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
static void cut_line(struct ip_log_reader *r)
{
	const char *last = r->text ? memrchr(r->text, '\n', r->text_size) : NULL;

	r->text_size = last ? last + 1 - r->text : 0;
}

struct ip_log_thread *ip_log_thread_of(struct ip_log_reader *r, uint32_t number)
{
	if (number >= r->nthreads) {
		const size_t n = (size_t)number + 1;
		struct ip_log_thread **grown = realloc(r->threads, n * sizeof(*grown));

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

static int add_threads(struct ip_log_reader *r, const struct ip_batch_section *section)
{
	const struct ip_stream_log_thread *items = (const void *)section->content;

	for (size_t i = 0; i < section->size / sizeof(*items); i++) {
		struct ip_log_thread *t;

		if (items[i].thread >= IP_STREAM_LOG_THREADS)
			continue;
		t = ip_log_thread_of(r, items[i].thread);
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
static void note_ends(struct ip_log_reader *r, const struct ip_batch_section *section)
{
	const struct ip_stream_log_ended *items = (const void *)section->content;

	for (size_t i = 0; i < section->size / sizeof(*items); i++)
		if (items[i].thread < r->nthreads && r->threads[items[i].thread])
			r->threads[items[i].thread]->ends = true;
}

int ip_log_text_read(struct ip_log_reader *r)
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
