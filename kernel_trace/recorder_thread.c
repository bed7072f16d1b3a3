/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that reads the kernel's buffers, and writes what is in them.
 */
#include "kernel_trace/recorder.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/now.h"
#include "common/trace/kernel_format.h"
#include "kernel_trace/begin_states.h"
#include "kernel_trace/event_layout.h"
#include "kernel_trace/recorder_private.h"

#define ROUNDS_MOST  16u
#define NAP_MS	     200
#define NAP_LEAST_MS 4
#define FLUSH_NS     1000000000ull

/* Events of a buffer were lost. The total may be no greater than before: readers must see each
 * loss.
 */
static int note_loss(void *context, uint64_t total)
{
	struct buffer *buffer = context;

	if (buffer->recorder->descriptors) /* what was made may have been closed */
		ip_descriptor_log_give_up(buffer->recorder->descriptors);
	return ip_kernel_stream_lost(&buffer->stream,
				     total > buffer->stream.lost ? total : buffer->stream.lost + 1);
}

/* Converts a record. Times never go back: a record that comes late is one of now. */
static int take_record(void *context, const void *record, size_t size, uint64_t tsc)
{
	struct buffer *buffer = context;
	struct ip_kernel_recorder *r = buffer->recorder;
	const struct ip_record_source *source = r->source;
	uint8_t *out = ip_kernel_stream_room(&buffer->stream);
	size_t converted;

	if (!out)
		return -1;
	if (r->dropping)
		return 0;
	if (tsc < buffer->stream.end)
		tsc = buffer->stream.end;
	if (tsc < r->told)
		tsc = r->told;
	converted = ip_event_convert(r->layout, record, size, tsc, out);
	if (!converted || (buffer->part == IP_RECORD_TARGET && source->ops->wants &&
			   !source->ops->wants(source, out, converted)))
		return 0;
	ip_kernel_stream_add(&buffer->stream, tsc, converted);
	if (r->descriptors)
		ip_descriptor_log_event(r->descriptors, out);
	return 0;
}

/* Takes what is in a CPU's buffer. 1: there is more; 0; -1 with an error. */
static int drain(struct ip_kernel_recorder *r, struct buffer *buffer)
{
	const struct ip_record_sink taker = {
		.record = take_record, .lost = note_loss, .context = buffer};

	return r->source->ops->drain(r->source, buffer->part, buffer->cpu, &taker);
}

/* Whether what is in the buffers may have gaps that nothing counts: also if that has ended since
 * the last time. */
static bool has_gaps(struct ip_kernel_recorder *r)
{
	const bool before = r->had_gaps;

	r->had_gaps = r->source->ops->misses && r->source->ops->misses(r->source);
	return before || r->had_gaps;
}

int ip_kernel_recorder_drain(struct ip_kernel_recorder *r)
{
	int more = 0, ret;

	r->dropping = has_gaps(r);
	for (size_t i = 0; i < r->nbuffers; i++) {
		ret = drain(r, &r->buffers[i]);
		if (ret < 0 || (r->dropping && note_loss(&r->buffers[i], 0) < 0))
			return -1;
		r->buffers[i].more = ret;
		more |= ret;
	}
	return more;
}

static int take_path(void *context, const struct ip_call_path *path)
{
	struct ip_kernel_recorder *r = context;

	if (r->sink)
		return r->sink->path(r->sink->context, path);
	ip_descriptor_log_path(r->descriptors, path);
	return 0;
}

int ip_kernel_recorder_drain_paths(struct ip_kernel_recorder *r)
{
	if (!r->paths)
		return 0;
	if (ip_path_ring_drain(r->paths, take_path, r) < 0)
		return -1;
	return r->descriptors ? ip_descriptor_log_paths_end(r->descriptors) : 0;
}

/* Takes what is in all buffers, and looks at descriptors that were made: then *nap becomes short.
 * As drain(). */
static int turn(struct ip_kernel_recorder *r, int *nap)
{
	int more = ip_kernel_recorder_drain_paths(r) < 0 ? -1 : ip_kernel_recorder_drain(r);

	if (more < 0 || !r->descriptors || !ip_descriptor_log_look(r->descriptors))
		return more;
	*nap = NAP_LEAST_MS;
	/* to the end of them: all that has happened up to the look is there */
	for (unsigned i = 0; i < ROUNDS_MOST; i++) {
		more = ip_kernel_recorder_drain(r);
		if (more < 0)
			return -1;
		if (!more)
			return ip_descriptor_log_write(r->descriptors);
	}
	ip_descriptor_log_give_up(r->descriptors); /* events come as fast as they are read */
	return more;
}

void ip_kernel_recorder_count(struct ip_kernel_recorder *r)
{
	struct ip_kernel_stats stats = {.events = r->state.events,
					.bytes = r->begun + r->state.bytes,
					.source = r->source->ops->name,
					.functions = r->stats.functions,
					.missed = r->stats.missed};

	if (r->descriptors)
		stats.bytes += ip_descriptor_log_bytes(r->descriptors);

	for (size_t i = 0; i < r->nbuffers; i++) {
		stats.events += r->buffers[i].stream.events;
		stats.lost += r->buffers[i].stream.lost;
		stats.bytes += r->buffers[i].stream.bytes;
	}
	pthread_mutex_lock(&r->lock);
	ip_recorded_segments_count(&r->segments, &stats);
	r->stats = stats;
	pthread_mutex_unlock(&r->lock);
}

/* A process may be asked for again. */
static int add_target(struct ip_kernel_recorder *r, pid_t pid)
{
	for (size_t i = 0; i < r->ntargets; i++)
		if (r->targets[i] == pid)
			return 0;
	if (ip_array_grow(&r->targets, r->ntargets, sizeof(*r->targets)) < 0)
		return -1;
	r->targets[r->ntargets++] = pid;
	return 0;
}

/* The process' threads are recorded from here on. What is known of it is read then: what changes
 * meanwhile is among the events. */
static int take_in(struct ip_kernel_recorder *r, pid_t pid)
{
	const bool calls = r->groups >> IP_KERNEL_GROUP_SYSCALLS & 1;
	const bool target = r->needed[IP_RECORD_TARGET];
	const uint64_t now = ip_clock_now();

	if (target && r->source->ops->limit(r->source, pid) < 0)
		return -1;
	/* without a thread it would record all of them */
	if (target && !r->limited && r->source->ops->switch_on(r->source, IP_RECORD_TARGET) < 0)
		return -1;
	r->limited = true;
	if (r->paths && ip_path_ring_add(r->paths, pid) < 0)
		return -1;
	if (add_target(r, pid) < 0)
		return -1;
	if (ip_begin_states_write(&r->state, pid, calls, true) < 0)
		return -1;
	return r->descriptors ? ip_descriptor_log_scan(r->descriptors, pid, now) : 0;
}

/* What is asked. *ret_pid: of a process that is to be taken in. */
static enum asked take_request(struct ip_kernel_recorder *r, pid_t *ret_pid)
{
	enum asked what;
	uint64_t woken;

	pthread_mutex_lock(&r->lock);
	what = r->request.done ? NOTHING : r->request.what;
	r->request.taken = what != NOTHING;
	*ret_pid = r->request.pid;
	pthread_mutex_unlock(&r->lock);
	if (what != NOTHING)
		(void)!read(r->wake, &woken, sizeof(woken));
	return what;
}

static void answer(struct ip_kernel_recorder *r, int result)
{
	pthread_mutex_lock(&r->lock);
	if (r->request.left) {
		r->request = (struct request){0};
	} else {
		r->request.done = true;
		r->request.result = result;
		r->request.why = result < 0 ? strdup(ip_error_message()) : NULL;
		pthread_cond_signal(&r->answered);
	}
	pthread_mutex_unlock(&r->lock);
}

int ip_kernel_recorder_flush(struct ip_kernel_recorder *r)
{
	int ret = 0;

	for (size_t i = 0; i < r->nbuffers; i++)
		if (ip_kernel_stream_flush(&r->buffers[i].stream) < 0)
			ret = -1;
	return ret;
}

/* What is gathered is on disk a second later at most, whatever becomes of us. drained: the buffers
 * were emptied after that time. */
static int flush(struct ip_kernel_recorder *r, uint64_t drained)
{
	uint64_t now = ip_now_ns();

	if (now - r->flushed_ns < FLUSH_NS)
		return 0;
	r->flushed_ns = now;
	for (size_t i = 0; i < r->nbuffers; i++)
		if (ip_kernel_stream_mark(&r->buffers[i].stream, drained) < 0)
			return -1;
	return 0;
}

/* Tells the sink that all events have come that happened before the buffers were read: of a buffer
 * that is not empty, those up to its last event. */
int ip_kernel_recorder_tell(struct ip_kernel_recorder *r, uint64_t before)
{
	if (!r->sink)
		return 0;
	for (size_t i = 0; i < r->nbuffers; i++)
		if (r->buffers[i].more && r->buffers[i].stream.end < before)
			before = r->buffers[i].stream.end;
	r->told = before;
	return r->sink->until(r->sink->context, before);
}

static void wait_for_events(struct ip_kernel_recorder *r, int nap)
{
	for (size_t i = 0; i < r->nbuffers; i++)
		r->polls[i].fd =
			r->source->ops->poll_fd(r->source, r->buffers[i].part, r->buffers[i].cpu);
	poll(r->polls, r->nbuffers + 1, nap);
}

void *ip_kernel_recorder_run(void *context)
{
	struct ip_kernel_recorder *r = context;
	int more = 0, nap = NAP_LEAST_MS;
	enum asked asked;
	uint64_t before, events;
	pid_t pid;

	while (!__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE)) {
		if (!more)
			wait_for_events(r, nap);
		asked = take_request(r, &pid);
		if (asked == JOIN)
			answer(r, take_in(r, pid));
		/* a program that makes descriptors may not keep them for long */
		nap = 2 * nap < NAP_MS ? 2 * nap : NAP_MS;
		errno = 0;
		before = ip_clock_now() - r->source->ops->imprecision;
		if (r->sink && r->paths)
			before -= IP_CALL_PATH_BEHIND;
		events = r->stats.events; /* nobody else writes it */
		more = turn(r, &nap);
		if (more < 0 || ip_kernel_recorder_tell(r, before) < 0 ||
		    ip_kernel_recorder_cut(r, before) < 0 || (!more && flush(r, before) < 0)) {
			pthread_mutex_lock(&r->lock);
			r->why_errno = errno;
			r->why = strdup(ip_error_message());
			if (!r->why)
				r->why = strdup("");
			pthread_cond_signal(&r->answered);
			pthread_mutex_unlock(&r->lock);
			if (r->sink && r->sink->failed)
				r->sink->failed(r->sink->context, r->why);
			break;
		}
		ip_kernel_recorder_count(r);
		if (asked == WRITE_OUT)
			answer(r, ip_kernel_recorder_write_out(r, before));
		if (r->sink && r->sink->hurries && r->stats.events != events)
			nap = 2 * NAP_LEAST_MS;
	}
	return NULL;
}
