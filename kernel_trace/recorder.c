/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records events of the kernel: the buffers, and the thread that reads them.
 */
#include "kernel_trace/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <tracefs.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/dir.h"
#include "common/error.h"
#include "common/file.h"
#include "common/notice.h"
#include "common/now.h"
#include "common/trace/kernel_format.h"
#include "common/trace/kernel_metadata.h"
#include "kernel_trace/begin_states.h"
#include "kernel_trace/event_layout.h"
#include "kernel_trace/kernel_probes.h"
#include "kernel_trace/recorder_private.h"
#include "kernel_trace/source_choice.h"
#include "kernel_trace/tracefs_source.h"
#include "kernel_trace/users/worker_recorder.h"

#define ROUNDS_MOST  16u
#define NAP_MS	     200
#define NAP_LEAST_MS 4
#define FLUSH_NS     1000000000ull
#define OTHER_FILES  256u /* that this process may have open besides */
#define JOIN_NS	     5000000000ull

static const char *const parts[IP_RECORD_PARTS] = {IP_KERNEL_ALL, IP_KERNEL_TARGET};

static int add_buffer(struct ip_kernel_recorder *r, enum ip_record_part part, unsigned cpu)
{
	struct buffer buffer = {.recorder = r, .part = part, .cpu = cpu};

	if (ip_array_grow(&r->buffers, r->nbuffers, sizeof(buffer)) < 0)
		return -1;
	ip_kernel_stream_init(&buffer.stream, r->dir, r->uuid, parts[part], cpu);
	buffer.stream.sink = r->sink;
	buffer.stream.in_segments = r->in_segments;
	buffer.stream.segment = r->segment;
	buffer.stream.kept = r->kept;
	r->buffers[r->nbuffers++] = buffer;
	return 0;
}

static int make_polls(struct ip_kernel_recorder *r)
{
	r->polls = calloc(r->nbuffers + 1, sizeof(*r->polls));
	r->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!r->polls || r->wake < 0)
		return ip_error("out of memory");
	for (size_t i = 0; i < r->nbuffers; i++)
		r->polls[i].events = POLLIN;
	r->polls[r->nbuffers] = (struct pollfd){.fd = r->wake, .events = POLLIN};
	return 0;
}

static bool takes_everywhere(const struct ip_kernel_recorder *r)
{
	return !r->sink || r->sink->everywhere;
}

/* Each CPU takes a file in each part: of many CPUs that is more than usual limits allow. */
static int check_descriptors(const bool needed[IP_RECORD_PARTS], unsigned cpus)
{
	const uint64_t files = (uint64_t)cpus * (needed[IP_RECORD_ALL] + needed[IP_RECORD_TARGET]) +
			       OTHER_FILES,
		       limit = ip_descriptor_limit_raise();

	if (files <= limit)
		return 0;
	return ip_error("events of the kernel of %u CPUs take %lu open files, and the limit is "
			"%lu: raise it (ulimit -Hn)",
			cpus, files, limit);
}

/* The parts that the groups need. */
static int make_buffers(struct ip_kernel_recorder *r)
{
	const unsigned everywhere = takes_everywhere(r) ? 1 << IP_KERNEL_GROUP_SCHED |
								  1 << IP_KERNEL_GROUP_BLOCK
							: 0,
		       cpus = ip_record_cpus();

	r->needed[IP_RECORD_ALL] = r->groups & everywhere;
	r->needed[IP_RECORD_TARGET] = r->groups & ~everywhere || r->probes;
	if (check_descriptors(r->needed, cpus) < 0)
		return -1;
	for (unsigned part = 0; part < IP_RECORD_PARTS; part++)
		for (unsigned cpu = 0; r->needed[part] && cpu < cpus; cpu++)
			if (add_buffer(r, part, cpu) < 0)
				return -1;
	return make_polls(r);
}

/* What is missing is told, once: nobody takes its absence for a machine on which it did not happen.
 */
static int tell_missing(const struct ip_kernel_recorder *r)
{
	_cleanup_free_ char *missing = ip_event_layout_missing(r->layout, r->groups);

	if (missing && *missing)
		ip_notice("this kernel cannot tell of %s: such events are missing", missing);
	return missing ? 0 : -1;
}

static int make_dir(struct ip_kernel_recorder *r, int dir)
{
	if (r->sink)
		return 0;
	r->dir = ip_dir_make(dir, IP_KERNEL_SUBDIR);
	if (r->dir < 0 && errno == EEXIST && r->resumes)
		r->dir = ip_dir_open(dir, IP_KERNEL_SUBDIR);
	if (r->dir < 0)
		return ip_error_errno("cannot make the directory %s of the trace",
				      IP_KERNEL_SUBDIR);
	return 0;
}

/* The probes of the kernel's functions, and their names in the trace. */
static int make_probes(struct ip_kernel_recorder *r, const struct ip_kernel_options *options,
		       int dir)
{
	if (!options->functions)
		return 0;
	if (ip_source_check_probes(options->source, &r->tracefs) < 0)
		return -1;
	ip_tracefs_source_remove_left();
	if (ip_kernel_probes_make(options->functions, &r->probes) < 0 ||
	    ip_event_layout_add_functions(r->layout, r->probes) < 0)
		return -1;
	r->stats.functions = r->probes->functions.n;
	return ip_kernel_functions_write(dir, &r->probes->functions);
}

static int make_source(struct ip_kernel_recorder *r, const struct ip_kernel_options *options)
{
	const struct ip_source_request request = {.source = options->source,
						  .groups = options->groups,
						  .all = r->needed[IP_RECORD_ALL],
						  .target = r->needed[IP_RECORD_TARGET],
						  .size = options->buffer,
						  .unwritten = r->sink && r->sink->everywhere,
						  .tracefs = &r->tracefs,
						  .layout = r->layout,
						  .probes = r->probes};

	r->source = ip_source_choose(&request);
	return r->source ? 0 : -1;
}

int ip_kernel_recorder_create(const struct ip_kernel_options *options, int dir,
			      struct ip_kernel_recorder **ret)
{
	struct ip_kernel_recorder *r = calloc(1, sizeof(*r));
	pthread_condattr_t monotonic;

	if (!r)
		return ip_error("out of memory");
	r->groups = options->groups;
	r->trace = dir;
	r->dir = r->tracefs.fd = r->wake = -1;
	r->resumes = options->resumes;
	r->in_segments = options->in_segments || options->keep || r->resumes;
	r->segment = r->first = r->wanted = r->wanted_first = options->segment;
	r->room = UINT64_MAX;
	if (options->keep)
		r->kept = ip_kernel_segments_create(options->keep);
	pthread_mutex_init(&r->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&r->answered, &monotonic);
	pthread_condattr_destroy(&monotonic);
	r->sink = options->sink;
	ip_kernel_stream_init(&r->state, -1, r->uuid, IP_KERNEL_STATE,
			      r->sink ? IP_KERNEL_CPUS_MAX : 0);
	r->state.sink = r->sink;
	r->state.in_segments = r->in_segments;
	r->state.kept = r->kept;
	if (options->keep && !r->kept) {
		ip_kernel_recorder_destroy(r);
		return ip_error("out of memory");
	}
	if (getrandom(r->uuid, sizeof(r->uuid), 0) != sizeof(r->uuid)) {
		ip_kernel_recorder_destroy(r);
		return ip_error_errno("cannot make an id for the trace");
	}
	if (options->reader) {
		if (make_dir(r, dir) < 0 ||
		    ip_worker_recorder_create(options, dir, r->dir, r->uuid, &r->worker) < 0)
			goto fail;
		*ret = r;
		return 0;
	}
	if (ip_tracefs_open(&r->tracefs) < 0)
		goto fail;
	r->layout = ip_event_layout_read();
	if (!r->layout || tell_missing(r) < 0 || make_dir(r, dir) < 0 ||
	    make_probes(r, options, dir) < 0 ||
	    (r->resumes && !r->kept && ip_kernel_recorder_find_begun(r) < 0) ||
	    make_buffers(r) < 0 || make_source(r, options) < 0)
		goto fail;
	r->state.dir = r->dir;
	r->state.segment = r->segment;
	if (r->groups >> IP_KERNEL_GROUP_SYSCALLS & 1 && !r->sink) {
		r->descriptors = ip_descriptor_log_open(dir, r->in_segments, r->segment, r->kept);
		if (!r->descriptors)
			goto fail;
	}
	*ret = r;
	return 0;
fail:
	if (r->dir >= 0) /* nothing was written there yet */
		unlinkat(dir, IP_KERNEL_SUBDIR, AT_REMOVEDIR);
	ip_kernel_recorder_destroy(r);
	return -1;
}

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

static int drain_all(struct ip_kernel_recorder *r)
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

/* Takes what is in all buffers, and looks at descriptors that were made: then *nap becomes short.
 * As drain(). */
static int turn(struct ip_kernel_recorder *r, int *nap)
{
	int more = drain_all(r);

	if (more < 0 || !r->descriptors || !ip_descriptor_log_look(r->descriptors))
		return more;
	*nap = NAP_LEAST_MS;
	/* to the end of them: all that has happened up to the look is there */
	for (unsigned i = 0; i < ROUNDS_MOST; i++) {
		more = drain_all(r);
		if (more < 0)
			return -1;
		if (!more)
			return ip_descriptor_log_write(r->descriptors);
	}
	ip_descriptor_log_give_up(r->descriptors); /* events come as fast as they are read */
	return more;
}

static void count(struct ip_kernel_recorder *r)
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
	if (r->kept)
		stats.bytes = r->written;
	ip_kernel_recorder_count_dropped(r, &stats);
	r->stats = stats;
	pthread_mutex_unlock(&r->lock);
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
	if (ip_array_grow(&r->targets, r->ntargets, sizeof(*r->targets)) < 0)
		return -1;
	r->targets[r->ntargets++] = pid;
	if (ip_begin_states_write(&r->state, pid, calls) < 0)
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

static int flush_all(struct ip_kernel_recorder *r)
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
static int tell(struct ip_kernel_recorder *r, uint64_t before)
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

static void *run(void *context)
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
		events = r->stats.events; /* nobody else writes it */
		more = turn(r, &nap);
		if (more < 0 || tell(r, before) < 0 || ip_kernel_recorder_cut(r, before) < 0 ||
		    (!more && flush(r, before) < 0)) {
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
		count(r);
		if (asked == WRITE_OUT)
			answer(r, ip_kernel_recorder_write_out(r, before));
		if (r->sink && r->sink->hurries && r->stats.events != events)
			nap = 2 * NAP_LEAST_MS;
	}
	return NULL;
}

/* Each stream tells where the gap ends: all of them at one time, before anything is recorded. */
static int end_gap(struct ip_kernel_recorder *r)
{
	const uint64_t now = ip_clock_now();

	for (size_t i = 0; i < r->nbuffers; i++)
		if (ip_kernel_stream_begin(&r->buffers[i].stream, now) < 0)
			return -1;
	return 0;
}

int ip_kernel_go_without(struct ip_kernel_stats *stats)
{
	snprintf(stats->missing, sizeof(stats->missing), "%s", ip_error_message());
	ip_notice("recording goes on without events of the kernel: %s", stats->missing);
	return 0;
}

int ip_kernel_recorder_start(struct ip_kernel_recorder *r)
{
	sigset_t all, before;
	int error;

	if (r->worker)
		return ip_worker_recorder_start(r->worker);
	if (r->resumes && !r->kept && end_gap(r) < 0)
		return -1;
	if (r->needed[IP_RECORD_ALL] && r->source->ops->switch_on(r->source, IP_RECORD_ALL) < 0)
		return -1;
	/* Signals are for the session's thread: they interrupt its system calls. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&r->thread, NULL, run, r);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error) {
		errno = error;
		return ip_error_errno("cannot make the thread that reads kernel events");
	}
	r->runs = true;
	return 0;
}

/* Waits until the thread has answered. Called with the lock. Returns 0, or -1 with an error: it has
 * not for too long. */
static int wait_answered(struct ip_kernel_recorder *r)
{
	const uint64_t until = ip_now_ns() + JOIN_NS;
	const struct timespec limit = {until / 1000000000, until % 1000000000};
	const pid_t pid = r->request.pid;
	int ret = 0;

	while (!r->request.done && !r->why && !ret)
		ret = r->request.what == JOIN
			      ? pthread_cond_timedwait(&r->answered, &r->lock, &limit)
			      : pthread_cond_wait(&r->answered, &r->lock);
	if (r->request.done || r->why)
		return 0;
	if (r->request.taken)
		r->request.left = true;
	else
		r->request = (struct request){0};
	return ip_error("pid %d: events of the kernel cannot be had of it: what /proc tells of it "
			"has not come within %llu s",
			pid, JOIN_NS / 1000000000);
}

int ip_kernel_recorder_ask(struct ip_kernel_recorder *r, enum asked what, pid_t pid)
{
	const uint64_t one = 1;
	int result = -1;

	pthread_mutex_lock(&r->lock);
	if (r->request.what != NOTHING) { /* one that was let go */
		result = ip_error("pid %d: events of the kernel cannot be had of it, since pid %d "
				  "does not let itself be looked at",
				  what == JOIN ? pid : r->request.pid, r->request.pid);
		pthread_mutex_unlock(&r->lock);
		return result;
	}
	r->request = (struct request){.what = what, .pid = pid};
	(void)!write(r->wake, &one, sizeof(one));
	if (wait_answered(r) == 0) {
		result = r->request.done ? r->request.result : -1;
		if (result < 0)
			ip_error("%s", r->request.why ? r->request.why
				       : r->why	      ? r->why
						      : "out of memory");
		free(r->request.why);
		r->request = (struct request){0};
	}
	pthread_mutex_unlock(&r->lock);
	return result;
}

int ip_kernel_recorder_add(struct ip_kernel_recorder *r, pid_t pid)
{
	return r->worker ? ip_worker_recorder_add(r->worker, pid)
			 : ip_kernel_recorder_ask(r, JOIN, pid);
}

int ip_kernel_recorder_stats(struct ip_kernel_recorder *r, struct ip_kernel_stats *ret)
{
	int failed;

	if (r->worker)
		return ip_worker_recorder_stats(r->worker, ret);
	pthread_mutex_lock(&r->lock);
	*ret = r->stats;
	failed = r->why ? ip_error("kernel events: %s", r->why) : 0;
	ret->no_space = r->why &&
			(r->why_errno == ENOSPC || r->why_errno == EDQUOT || r->why_errno == EFBIG);
	pthread_mutex_unlock(&r->lock);
	return failed;
}

static void join(struct ip_kernel_recorder *r)
{
	const uint64_t one = 1;

	if (!r->runs)
		return;
	__atomic_store_n(&r->stop, true, __ATOMIC_RELEASE);
	(void)!write(r->wake, &one, sizeof(one));
	pthread_join(r->thread, NULL);
	r->runs = false;
}

/* The rest of the events. The source is off: there is an end of them. */
static int finish(struct ip_kernel_recorder *r)
{
	const uint64_t now = ip_clock_now();
	int more;

	do
		more = drain_all(r);
	while (more > 0);
	if (more < 0)
		return -1;
	for (size_t i = 0; i < r->nbuffers; i++) {
		struct buffer *b = &r->buffers[i];

		if (ip_kernel_stream_lost(&b->stream,
					  r->source->ops->lost(r->source, b->part, b->cpu)) < 0 ||
		    ip_kernel_stream_finish(&b->stream, now) < 0)
			return -1;
	}
	if (r->kept &&
	    ip_kernel_segments_write(r->kept, r->trace, r->room, &r->first, &r->written) < 0)
		return -1;
	count(r);
	return tell(r, now);
}

/* The source, and what we have in tracefs. A probe can be removed when no instance has it any more.
 */
static void remove_own(struct ip_kernel_recorder *r)
{
	if (r->source)
		r->source->ops->destroy(r->source);
	r->source = NULL;
	if (!r->probes)
		return;
	/* readers need the names until the last metadata is written */
	r->functions = r->probes->functions;
	r->probes->functions = (struct ip_kernel_functions){0};
	ip_kernel_probes_remove(ip_steal_ptr(r->probes));
}

int ip_kernel_recorder_stop(struct ip_kernel_recorder *r)
{
	struct ip_kernel_stats stats;
	int ret;

	if (r->worker)
		return ip_worker_recorder_stop(r->worker);
	/* From here on nothing is said of descriptors: what closes them is not recorded any more.
	 */
	join(r);
	ret = r->source->ops->switch_off(r->source);
	if (ret == 0)
		ret = ip_kernel_recorder_stats(r, &stats);
	if (ret == 0)
		ret = finish(r);
	if (ret < 0) /* what was gathered until then is kept */
		flush_all(r);
	if (r->probes)
		r->stats.missed = ip_kernel_probes_missed(r->probes);
	remove_own(r);
	ip_tracefs_close(&r->tracefs);
	return ret;
}

int ip_kernel_recorder_describe_in(const struct ip_kernel_recorder *r, int dir,
				   struct ip_ctf_metadata *m)
{
	_cleanup_fclose_ FILE *out = NULL;
	int fd;

	memcpy(m->uuid, r->uuid, sizeof(m->uuid));
	unlinkat(dir, "metadata.new", 0);
	fd = ip_file_make(dir, "metadata.new", O_WRONLY);
	out = fd < 0 ? NULL : fdopen(fd, "w");
	if (!out && fd >= 0)
		close(fd);
	if (!out)
		return ip_error_errno("cannot make %s/metadata", IP_KERNEL_SUBDIR);
	if (ip_kernel_metadata_write(out, m, r->probes ? &r->probes->functions : &r->functions) < 0)
		return -1;
	if (fflush(out) || renameat(dir, "metadata.new", dir, "metadata") < 0)
		return ip_error_errno("cannot write %s/metadata", IP_KERNEL_SUBDIR);
	return 0;
}

int ip_kernel_recorder_describe(const struct ip_kernel_recorder *r, struct ip_ctf_metadata *m)
{
	return ip_kernel_recorder_describe_in(r, r->dir, m);
}

void ip_kernel_recorder_destroy(struct ip_kernel_recorder *r)
{
	if (!r)
		return;
	ip_worker_recorder_destroy(r->worker);
	join(r);
	for (size_t i = 0; i < r->nbuffers; i++)
		ip_kernel_stream_clear(&r->buffers[i].stream);
	ip_kernel_stream_clear(&r->state);
	ip_descriptor_log_close(r->descriptors);
	ip_kernel_segments_destroy(r->kept);
	free(r->targets);
	remove_own(r);
	ip_kernel_functions_clear(&r->functions);
	ip_event_layout_free(r->layout);
	ip_tracefs_close(&r->tracefs);
	if (r->dir >= 0)
		close(r->dir);
	if (r->wake >= 0)
		close(r->wake);
	pthread_cond_destroy(&r->answered);
	pthread_mutex_destroy(&r->lock);
	free(r->buffers);
	free(r->polls);
	free(r->why);
	free(r);
}

void ip_kernel_recorder_leave(const struct ip_kernel_recorder *r)
{
	if (r && r->worker)
		ip_worker_recorder_leave(r->worker);
	if (r && r->source)
		r->source->ops->leave(r->source);
	if (r && r->tracefs.fd >= 0)
		close(r->tracefs.fd);
	tracefs_set_tracing_dir(NULL);
}
