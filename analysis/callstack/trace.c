/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a trace directory and reads it thread by thread.
 */
#include "analysis/callstack/trace.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/callstack/frames_words.h"
#include "analysis/callstack/trace_private.h"
#include "analysis/read/members.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/trace/trace_segments.h"

#define BATCH	   256u
#define WORTHWHILE 16u /* words taken at once, where events are fed singly between them */

int ip_trace_reader_damaged(struct ip_trace_reader *t, const char *line)
{
	if (!line)
		return 0;
	for (size_t i = 0; i < t->ndamages; i++)
		if (!strcmp(t->damages[i], line))
			return 0;
	if (ip_array_grow(&t->damages, t->ndamages, sizeof(*t->damages)) < 0)
		return -1;
	t->damages[t->ndamages] = strdup(line);
	if (!t->damages[t->ndamages])
		return ip_error("out of memory");
	t->ndamages++;
	return 0;
}

/* Returns the parsed name of a file that list_streams() has taken. */
static struct ip_stream_name name_of(const char *path)
{
	struct ip_stream_name name;

	ip_stream_name_parse(strrchr(path, '/') + 1, &name);
	return name;
}

/* Sorts stream-9 before stream-10, and the pieces of a stream together. */
static int by_number(const void *a, const void *b)
{
	const char *x = *(char *const *)a, *y = *(char *const *)b;
	struct ip_stream_name nx = name_of(x), ny = name_of(y);

	if (nx.slot != ny.slot)
		return nx.slot < ny.slot ? -1 : 1;
	if (nx.in_pieces != ny.in_pieces || nx.compressed != ny.compressed)
		return 2 * nx.in_pieces + nx.compressed < 2 * ny.in_pieces + ny.compressed ? -1 : 1;
	return nx.piece != ny.piece ? (nx.piece < ny.piece ? -1 : 1) : strcmp(x, y);
}

static bool are_pieces_of_one(const char *x, const char *y)
{
	struct ip_stream_name nx = name_of(x), ny = name_of(y);

	return nx.slot == ny.slot && nx.in_pieces && ny.in_pieces && nx.compressed == ny.compressed;
}

static int list_streams(struct ip_trace_reader *t)
{
	_cleanup_closedir_ DIR *dir = opendir(t->dir);
	struct dirent *entry;

	if (!dir)
		return ip_error_errno("%s: cannot read the trace directory", t->dir);
	while ((entry = readdir(dir))) {
		struct ip_stream_name name;

		/* Pieces that were to be removed when the recording was cut off do not count any
		 * more. */
		if (!ip_stream_name_parse(entry->d_name, &name) ||
		    (name.in_pieces && name.piece < t->session->rotated_pieces))
			continue;
		if (ip_array_grow(&t->names, t->nnames, sizeof(*t->names)) < 0)
			return -1;
		if (asprintf(&t->names[t->nnames], "%s/%s", t->dir, entry->d_name) < 0)
			return ip_error("out of memory");
		t->nnames++;
	}
	if (t->nnames)
		qsort(t->names, t->nnames, sizeof(*t->names), by_number);
	for (size_t i = 0; i < t->nnames; i++) {
		if (i && are_pieces_of_one(t->names[i - 1], t->names[i]))
			continue;
		if (ip_array_grow(&t->first, t->nstreams, sizeof(*t->first)) < 0)
			return -1;
		t->first[t->nstreams++] = i;
	}
	return 0;
}

/* Reports that a file could not be opened. During a recording the oldest pieces may be removed. */
static int has_gone(const struct ip_trace_reader *t, const char *path)
{
	if (t->session->rotates && ip_access(path, F_OK) < 0 && errno == ENOENT)
		return ip_error("%s: it has been rotated away (--rotate) while the trace was being "
				"read: try again",
				path);
	return -1;
}

/* Adds the other files of a stream after its first one. */
static int opened(const struct ip_trace_reader *t, uint32_t stream, int done, struct ip_stream *s)
{
	size_t first = t->first[stream],
	       end = stream + 1 < t->nstreams ? t->first[stream + 1] : t->nnames;

	if (done < 0)
		return has_gone(t, t->names[first]);
	ip_stream_go_on(s, (const char *const *)t->names + first + 1, end - first - 1);
	if (t->members) {
		const struct ip_recording_member *m =
			&t->session->members->items[t->stream_member[stream]];

		ip_stream_renumber(s,
				   &(struct ip_stream_renumber){m->numbers, m->most, m->signatures,
								m->most_signature});
	}
	return 0;
}

int ip_trace_reader_stream(const struct ip_trace_reader *t, uint32_t stream, struct ip_stream **ret)
{
	int done = ip_stream_open(t->names[t->first[stream]], ret);

	return opened(t, stream, done, done < 0 ? NULL : *ret);
}

int ip_trace_reader_stream_small(const struct ip_trace_reader *t, uint32_t stream,
				 struct ip_unpack **unpack, struct ip_stream **ret)
{
	int done = ip_stream_open_small(t->names[t->first[stream]], unpack, ret);

	return opened(t, stream, done, done < 0 ? NULL : *ret);
}

/* Returns the last time before the packet at which its process became another program; 0: never. */
static uint64_t last_exec(const struct ip_recording *s, const struct ip_packet *p)
{
	uint64_t last = 0;

	for (size_t i = 0; i < s->nexecs; i++)
		if (s->execs[i].pid == p->pid && s->execs[i].tsc <= p->begin &&
		    s->execs[i].tsc > last)
			last = s->execs[i].tsc;
	return last;
}

static int scan_stream(struct ip_trace_reader *t, uint32_t index,
		       struct ip_trace_progress *progress)
{
	struct ip_stream *stream;
	struct ip_thread_packets *run = NULL;
	struct ip_packet p;
	int more;

	if (ip_trace_reader_stream(t, index, &stream) < 0)
		return -1;
	while ((more = ip_stream_next_packet(stream, &p)) > 0) {
		uint64_t exec = last_exec(t->session, &p);

		p.ended &= t->session->ends;
		/* An iprobe that was killed may have written an end, and the iprobe that took
		 * over writes it again. */
		if (!run || run->pid != p.pid || run->tid != p.tid ||
		    (!p.ended && (exec > run->begin || run->gone))) {
			if (ip_array_grow(&t->runs, t->nruns, sizeof(*t->runs)) < 0) {
				more = -1;
				break;
			}
			run = &t->runs[t->nruns++];
			*run = (struct ip_thread_packets){.stream = index,
							  .pid = p.pid,
							  .tid = p.tid,
							  .machine_pid = p.pid,
							  .machine_tid = p.tid,
							  .begin = p.begin};
		}
		run->packets++;
		run->bytes += p.bytes;
		if (!p.ended)
			run->end = p.end;
		else if (p.begin > run->end)
			run->end = p.begin;
		run->gone = p.ended ? p.end : 0;
		run->lost += p.lost;
		t->lost += p.lost;
		t->missing += p.missing;
		if (!t->begin || p.begin < t->begin)
			t->begin = p.begin;
		if (p.end > t->end)
			t->end = p.end;
		if (progress && ip_trace_progress_ask(progress, NULL, run, p.bytes)) {
			more = ip_error("%s: interrupted", t->dir);
			break;
		}
	}
	if (more == 0)
		more = ip_trace_reader_damaged(t, ip_stream_damage(stream));
	ip_stream_close(stream);
	return more;
}

static int by_thread(const void *a, const void *b)
{
	const struct ip_thread_packets *x = *(const struct ip_thread_packets *const *)a,
				       *y = *(const struct ip_thread_packets *const *)b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Returns the time up to which sites were live. What is written of a trace after that takes some
 * milliseconds, in which no call's end could be seen. */
static uint64_t live_until(const struct ip_trace_reader *t)
{
	const struct ip_recording *s = t->session;
	uint64_t idle = 0, live = 0, until;

	for (size_t i = 0; i < s->nstops; i++) {
		uint64_t *last = strcmp(s->stops[i].kind, "detach") ? &live : &idle;

		if (!s->stops[i].failed && s->stops[i].tsc > *last)
			*last = s->stops[i].tsc;
	}
	until = idle > live ? idle : t->end;
	if (s->tsc_idle && s->tsc_idle < until)
		until = s->tsc_idle;
	return until < t->end ? until : t->end;
}

/* Returns the stack that the first run of a thread begins with; 0: it is not known. It does not fit
 * where events behind it are missing. */
static size_t stack_of(const struct ip_trace_reader *t, const struct ip_thread_packets *run)
{
	const struct ip_recording *s = t->session;
	size_t stack = ip_recording_find_stack(s, run->pid, run->tid);

	if (!stack || s->trimmed || s->overwrites || s->rotated_packets ||
	    s->stacks[stack - 1].tsc > run->begin)
		return 0;
	for (size_t i = 0; i < s->nexecs; i++)
		if (s->execs[i].pid == run->pid && s->execs[i].tsc <= run->begin)
			return 0;
	return stack;
}

/* Counts the threads and finds out up to when each run may have lasted. */
static int bound_runs(struct ip_trace_reader *t)
{
	_cleanup_free_ struct ip_thread_packets **sorted =
		calloc(t->nruns ? t->nruns : 1, sizeof(*sorted));
	const struct ip_recording *s = t->session;
	uint64_t live = live_until(t);

	if (!sorted)
		return ip_error("out of memory");
	for (size_t i = 0; i < t->nruns; i++)
		sorted[i] = &t->runs[i];
	qsort(sorted, t->nruns, sizeof(*sorted), by_thread);
	for (size_t i = 0; i < t->nruns; i++) {
		struct ip_thread_packets *run = sorted[i];
		const struct ip_thread_packets *next = i + 1 < t->nruns ? sorted[i + 1] : NULL;
		const struct ip_thread_packets *later =
			run + 1 < t->runs + t->nruns ? run + 1 : NULL;
		uint64_t last = run->end;

		run->end = run->gone || !s->ends ? last : live;
		if (!i || sorted[i - 1]->pid != run->pid || sorted[i - 1]->tid != run->tid) {
			run->stack = stack_of(t, run);
			t->threads++;
		}
		t->processes += !i || sorted[i - 1]->pid != run->pid;
		if (next && next->pid == run->pid && next->tid == run->tid &&
		    next->begin < run->end)
			run->end = next->begin;
		/* Another thread has the stream now: this thread had ended before. */
		if (later && later->stream == run->stream && later != next)
			run->end = last;
		for (size_t k = 0; k < s->nexecs; k++)
			if (s->execs[k].pid == run->pid && s->execs[k].tsc > run->begin &&
			    s->execs[k].tsc < run->end)
				run->end = s->execs[k].tsc;
		if (run->end < last)
			run->end = last;
		if (!run->gone)
			continue;
		t->ended++;
		if (run->gone > run->end && run->gone - run->end > t->ended_within)
			t->ended_within = run->gone - run->end;
	}
	return 0;
}

int ip_trace_reader_open_one(const char *dir, struct ip_trace_progress *progress,
			     struct ip_trace_reader **ret)
{
	struct ip_trace_reader *t = calloc(1, sizeof(*t));
	uint64_t told;
	int bad;

	if (!t)
		return ip_error("out of memory");
	t->dir = strdup(dir);
	bad = t->dir ? ip_recording_load(dir, &t->session) : ip_error("out of memory");
	if (bad == 0)
		bad = list_streams(t);
	for (size_t i = 0; bad == 0 && i < t->nstreams; i++)
		bad = scan_stream(t, i, progress);
	if (bad < 0) {
		ip_trace_reader_close(t);
		return -1;
	}
	if (t->session->tsc_start &&
	    !(t->session->rotated_packets && t->begin > t->session->tsc_start))
		t->begin = t->session->tsc_start;
	if (t->session->tsc_end)
		t->end = t->session->tsc_end;
	if (t->session->trimmed) {
		t->begin = t->session->trimmed_from;
		t->end = t->session->trimmed_to;
	}
	if (t->end < t->begin)
		t->end = t->begin;
	if (bound_runs(t) < 0) {
		ip_trace_reader_close(t);
		return -1;
	}
	told = t->lost;
	/* CTF readers see events that were overwritten as discarded. People do not count them as
	 * lost. */
	t->lost -= t->session->overwritten < t->lost ? t->session->overwritten : t->lost;
	/* Losses after the last packet of a stream that was cut off are known to the session
	 * file only, if at all. */
	if (t->session->lost > t->lost)
		t->lost = t->session->lost;
	if (t->session->rotated_lost > t->lost)
		t->lost = t->session->rotated_lost;
	t->lost += t->session->unserved;
	if (ip_trace_reader_list_processes(t, told) < 0) {
		ip_trace_reader_close(t);
		return -1;
	}
	*ret = t;
	return 0;
}

static uint64_t first_of(const struct ip_trace_reader *t, const struct ip_thread_packets *run)
{
	return run->stack ? t->session->stacks[run->stack - 1].tsc : run->begin;
}

uint64_t ip_trace_reader_first_event(const struct ip_trace_reader *t)
{
	uint64_t first = t->end;

	if (t->session->trimmed || !t->nruns)
		return t->begin;
	for (size_t i = 0; i < t->nruns; i++)
		if (first_of(t, &t->runs[i]) < first)
			first = first_of(t, &t->runs[i]);
	return first > t->begin ? first : t->begin;
}

/* When probes were live, as far as the trace tells. */
static void live_time(const struct ip_trace_reader *t, uint64_t *from, uint64_t *to)
{
	const struct ip_recording *s = t->session;

	*from = t->begin;
	*to = t->end;
	if (s->tsc_live > *from && s->tsc_live <= *to)
		*from = s->tsc_live;
	if (s->tsc_idle >= *from && s->tsc_idle < *to)
		*to = s->tsc_idle;
}

uint64_t ip_trace_reader_last_moment(const struct ip_trace_reader *t)
{
	uint64_t from, last;

	if (t->session->trimmed)
		return t->end;
	live_time(t, &from, &last);
	for (size_t i = 0; i < t->nruns; i++)
		if (t->runs[i].end > last)
			last = t->runs[i].end;
	return last < t->end ? last : t->end;
}

uint64_t ip_trace_reader_recorded(const struct ip_trace_reader *t)
{
	uint64_t from, to;

	live_time(t, &from, &to);
	return to - from;
}

uint64_t ip_trace_reader_kept(const struct ip_trace_reader *t)
{
	const struct ip_recording *s = t->session;
	uint64_t from, to;

	live_time(t, &from, &to);
	/* What a thread has overwritten counts as lost before its packets. A thread of which
	 * nothing is kept has an empty packet at the very end, which tells of losses only. */
	for (size_t i = 0; s->overwritten && i < t->nruns; i++) {
		const struct ip_thread_packets *run = &t->runs[i];

		if (!run->off && run->lost && run->bytes && run->begin > from)
			from = run->begin;
	}
	if (s->rotated && s->rotated_tsc > from)
		from = s->rotated_tsc;
	return from < to ? to - from : 0;
}

void ip_trace_reader_close(struct ip_trace_reader *t)
{
	if (!t)
		return;
	if (!t->borrowed)
		ip_recording_destroy(t->session);
	for (size_t i = 0; i < t->nmembers; i++)
		ip_trace_reader_close(t->members[i]);
	free(t->members);
	for (size_t i = 0; i < t->nprocesses; i++)
		free(t->process_list[i].name);
	free(t->process_list);
	free(t->stream_member);
	for (size_t i = 0; i < t->nnames; i++)
		free(t->names[i]);
	for (size_t i = 0; i < t->ndamages; i++)
		free(t->damages[i]);
	free(t->names);
	free(t->first);
	free(t->damages);
	free(t->runs);
	free(t->dir);
	free(t);
}

int ip_trace_reader_next_packet(struct ip_stream *stream, struct ip_packet *ret)
{
	int more = ip_stream_next_packet(stream, ret);

	return more ? more
		    : ip_error("%s: changed while it was being read", ip_stream_path(stream));
}

static uint64_t count_silent(const struct ip_recording *s, const struct ip_event *events, size_t n)
{
	uint64_t silent = 0;

	for (size_t i = 0; i < n; i++)
		silent += ip_recording_number(s, events[i].number).silent;
	return silent;
}

/* Takes words as long as the next events are common (frames_words.h). *max becomes how many events
 * are fed one by one then: more, where that is tried in vain time and again. Returns 0, or -1 with
 * an error. */
static int take_words(struct ip_stream *stream, struct ip_frames *frames,
		      const struct ip_trace_visitor *visitor, uint64_t *events, size_t *max)
{
	struct ip_stream_words words;
	size_t n, sum = 0;
	int more;

	while ((more = ip_stream_words(stream, &words)) > 0) {
		uint64_t ts, sp;

		n = visitor->words(visitor->context, frames, &words, &ts, &sp);
		if (!n)
			break;
		ip_stream_pass(stream, n, ts, sp);
		sum += n;
		if (n < IP_FRAMES_WORDS && n < words.n)
			break;
	}
	*events += sum;
	if (sum >= WORTHWHILE)
		*max = 1;
	else if (*max < BATCH)
		*max *= 2;
	return more < 0 ? -1 : 0;
}

/* Feeds all events of one run. silent: adds to it where it is not NULL. frames NULL: counts them
 * only. Returns as ip_trace_pause.at() does. */
static int visit_run(const struct ip_trace_reader *t, struct ip_stream *stream,
		     const struct ip_thread_packets *run, struct ip_frames *frames,
		     const struct ip_trace_visitor *visitor, const struct ip_trace_pause *pause,
		     uint64_t *events, uint64_t *silent)
{
	const bool words = visitor && visitor->words;
	struct ip_event batch[BATCH];
	size_t max = words ? 1 : BATCH;
	struct ip_packet p;
	int stop = 0;

	if (frames && !run->off && ip_frames_begin_run(frames, run) < 0)
		return -1;
	for (uint32_t i = 0; !stop && i < run->packets; i++) {
		ssize_t n;

		if (ip_trace_reader_next_packet(stream, &p) < 0)
			return -1;
		if (run->off)
			continue;
		if (frames && (p.lost || p.missing))
			ip_frames_loss(frames);
		for (;;) {
			if (words && take_words(stream, frames, visitor, events, &max) < 0)
				return -1;
			n = ip_stream_read(stream, batch, max);
			if (n <= 0)
				break;
			*events += n;
			if (silent)
				*silent += count_silent(t->session, batch, n);
			if (frames)
				ip_frames_set_payloads(frames, ip_stream_payloads(stream));
			if (frames && ip_frames_feed(frames, batch, n) < 0)
				return -1;
		}
		if (n < 0)
			return -1;
		if (t->on_packet && t->on_packet(t->on_packet_context, &p) < 0)
			return -1;
		stop = pause ? pause->at(pause->context, frames, run, p.bytes) : 0;
		if (stop < 0)
			return -1;
	}
	if (frames && !run->off)
		ip_frames_finish(frames, stop ? 0 : run->end);
	return stop;
}

static int note_damage(struct ip_trace_result *visit, const char *line)
{
	if (!line)
		return 0;
	if (ip_array_grow(&visit->damages, visit->ndamages, sizeof(*visit->damages)) < 0)
		return -1;
	visit->damages[visit->ndamages] = strdup(line);
	if (!visit->damages[visit->ndamages])
		return ip_error("out of memory");
	visit->ndamages++;
	return 0;
}

/* Returns whether none of the runs from i on, of the same stream, is wanted. */
static bool is_off(const struct ip_trace_reader *t, size_t i)
{
	uint32_t stream = t->runs[i].stream;

	while (i < t->nruns && t->runs[i].stream == stream)
		if (!t->runs[i++].off)
			return false;
	return true;
}

int ip_trace_reader_visit_runs(struct ip_trace_reader *t, size_t from, size_t to,
			       const struct ip_trace_visitor *visitor, struct ip_frames *frames,
			       const struct ip_trace_pause *pause, struct ip_trace_result *ret)
{
	uint64_t *silent = ip_recording_silent(t->session) ? &ret->silent : NULL;
	struct ip_stream *stream = NULL;
	uint32_t member = 0;
	int done = 0;

	*ret = (struct ip_trace_result){0};
	for (size_t i = from; done == 0 && i < to; i++) {
		struct ip_thread_packets *run = &t->runs[i];
		uint64_t before = ret->events;

		if (!stream && is_off(t, i))
			continue;
		if (!stream)
			done = ip_trace_reader_stream(t, run->stream, &stream);
		if (done == 0) {
			if (visitor && !run->off)
				visitor->run(visitor->context, run);
			if (frames && run->member != member)
				ip_frames_set_member(frames, member = run->member);
			done = visit_run(t, stream, run, frames, visitor, pause, &ret->events,
					 silent);
			run->events = ret->events - before;
		}
		if (done > 0 ||
		    (done == 0 && (i + 1 == t->nruns || t->runs[i + 1].stream != run->stream))) {
			if (note_damage(ret, ip_stream_damage(stream)) < 0)
				done = -1;
			ip_stream_close(stream);
			stream = NULL;
		}
	}
	ip_stream_close(stream);
	return done < 0 ? -1 : 0;
}

int ip_trace_result_take(struct ip_trace_result *visit, struct ip_trace_reader *t,
			 uint64_t *ret_events)
{
	int done = 0;

	*ret_events += visit->events;
	t->silent += visit->silent;
	for (size_t i = 0; i < visit->ndamages; i++) {
		if (done == 0)
			done = ip_trace_reader_damaged(t, visit->damages[i]);
		free(visit->damages[i]);
	}
	free(visit->damages);
	*visit = (struct ip_trace_result){0};
	return done;
}

/* Visits all runs. visitor and frames NULL: counts the events only. */
static int visit(struct ip_trace_reader *t, const struct ip_trace_visitor *visitor,
		 struct ip_frames *frames, uint64_t *ret_events)
{
	struct ip_trace_progress *progress = frames ? t->progress : NULL;
	const struct ip_trace_pause pause = {ip_trace_progress_ask, progress};
	struct ip_trace_result seen;
	int done, taken;

	*ret_events = t->silent = 0;
	if (progress)
		ip_trace_progress_begin(progress, t);
	done = ip_trace_reader_visit_runs(t, 0, t->nruns, visitor, frames, progress ? &pause : NULL,
					  &seen);
	taken = ip_trace_result_take(&seen, t, ret_events);
	return done < 0 ? -1 : taken;
}

int ip_trace_reader_visit(struct ip_trace_reader *t, const struct ip_trace_visitor *visitor,
			  uint64_t *ret_events)
{
	struct ip_frames *frames = ip_frames_create(t->session, visitor->ops, visitor->context);
	int ret = frames ? visit(t, visitor, frames, ret_events) : -1;

	ip_frames_destroy(frames);
	return ret;
}

int ip_trace_reader_count(struct ip_trace_reader *t, uint64_t *ret_events)
{
	return visit(t, NULL, NULL, ret_events);
}
