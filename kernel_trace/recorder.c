/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records events of the kernel: the instances, and the thread that reads them.
 */
#include "kernel_trace/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
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
#include "common/notice.h"
#include "common/now.h"
#include "common/trace/kernel_format.h"
#include "common/trace/kernel_metadata.h"
#include "kernel_trace/begin_states.h"
#include "kernel_trace/event_layout.h"
#include "kernel_trace/instance.h"
#include "kernel_trace/kernel_probes.h"
#include "kernel_trace/recorder_private.h"

#define PAGE_MOST    (64u << 10) /* what one read returns at most */
#define PAGE_END     16u	 /* zeros behind it */
#define PAGES_MOST   256u	 /* of one CPU, until the others have their turn */
#define ROUNDS_MOST  16u
#define NAP_MS	     200
#define NAP_LEAST_MS 4
#define FLUSH_NS     1000000000ull

static const char *const parts[INSTANCES] = {IP_KERNEL_ALL, IP_KERNEL_TARGET};

/* Adds a CPU's buffers. */
static int add_source(struct ip_kernel_recorder *r, int instance, unsigned cpu)
{
	struct source source = {.instance = instance, .cpu = cpu};

	if (ip_array_grow(&r->sources, r->nsources, sizeof(source)) < 0)
		return -1;
	source.fd = ip_instance_open_cpu(r->instances[instance], cpu);
	if (source.fd < 0)
		return -1;
	ip_kernel_stream_init(&source.stream, r->dir, r->uuid, parts[instance], cpu);
	source.stream.sink = r->sink;
	source.stream.in_segments = r->in_segments;
	source.stream.segment = r->segment;
	source.stream.kept = r->kept;
	r->sources[r->nsources++] = source;
	return 0;
}

static int make_polls(struct ip_kernel_recorder *r)
{
	r->polls = calloc(r->nsources + 1, sizeof(*r->polls));
	r->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!r->polls || r->wake < 0)
		return ip_error("out of memory");
	for (size_t i = 0; i < r->nsources; i++)
		r->polls[i] = (struct pollfd){.fd = r->sources[i].fd, .events = POLLIN};
	r->polls[r->nsources] = (struct pollfd){.fd = r->wake, .events = POLLIN};
	return 0;
}

static int enable(struct ip_kernel_recorder *r)
{
	for (unsigned id = 0; id < IP_KERNEL_EVENTS; id++) {
		const struct ip_kernel_kind *kind = ip_kernel_kind_of(id);

		if (!kind || !kind->system || !(r->groups >> kind->group & 1))
			continue;
		if (ip_instance_enable(r->instances[kind->everywhere && !r->sink ? ALL : TARGET],
				       kind->system, kind->tracepoint) < 0)
			return -1;
	}
	if (r->probes && ip_kernel_probes_enable(r->probes, r->instances[TARGET]) < 0)
		return -1;
	if (!(r->groups >> IP_KERNEL_GROUP_SYSCALLS & 1))
		return 0;
	return ip_instance_enable(r->instances[TARGET], "raw_syscalls", "sys_enter") < 0 ||
			       ip_instance_enable(r->instances[TARGET], "raw_syscalls",
						  "sys_exit") < 0
		       ? -1
		       : 0;
}

/* The instances that the groups need. */
static int make_instances(struct ip_kernel_recorder *r, size_t buffer)
{
	const unsigned everywhere =
		r->sink ? 0 : 1 << IP_KERNEL_GROUP_SCHED | 1 << IP_KERNEL_GROUP_BLOCK;
	const bool needed[INSTANCES] = {r->groups & everywhere,
					r->groups & ~everywhere || r->probes};
	const long cpus = sysconf(_SC_NPROCESSORS_CONF);

	for (int i = 0; i < INSTANCES; i++) {
		if (!needed[i])
			continue;
		r->instances[i] = ip_instance_create(parts[i], buffer);
		if (!r->instances[i])
			return -1;
		for (long cpu = 0; cpu < cpus && cpu < (long)IP_KERNEL_CPUS_MAX; cpu++)
			if (add_source(r, i, cpu) < 0)
				return -1;
	}
	return make_polls(r) < 0 ? -1 : enable(r);
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
static int make_probes(struct ip_kernel_recorder *r, const char *patterns, int dir)
{
	if (!patterns)
		return 0;
	if (ip_kernel_probes_make(patterns, &r->probes) < 0 ||
	    ip_event_layout_add_functions(r->layout, r->probes) < 0)
		return -1;
	r->stats.functions = r->probes->functions.n;
	return ip_kernel_functions_write(dir, &r->probes->functions);
}

/* Those of processes that are gone, instances first: a probe that is on cannot be removed. */
static void remove_left(void)
{
	ip_instance_remove_left();
	ip_kernel_probes_remove_left();
}

int ip_kernel_recorder_create(const struct ip_kernel_options *options, int dir,
			      struct ip_kernel_recorder **ret)
{
	struct ip_kernel_recorder *r = calloc(1, sizeof(*r));

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
	r->sink = options->sink;
	ip_kernel_stream_init(&r->state, -1, r->uuid, IP_KERNEL_STATE,
			      r->sink ? IP_KERNEL_CPUS_MAX : 0);
	r->state.sink = r->sink;
	r->state.in_segments = r->in_segments;
	r->state.kept = r->kept;
	pthread_cond_init(&r->answered, NULL);
	r->bytes = malloc(PAGE_MOST + PAGE_END);
	r->page = kbuffer_alloc(KBUFFER_LSIZE_SAME_AS_HOST, KBUFFER_ENDIAN_SAME_AS_HOST);
	if (!r->bytes || !r->page || (options->keep && !r->kept) ||
	    getrandom(r->uuid, sizeof(r->uuid), 0) != sizeof(r->uuid)) {
		ip_kernel_recorder_destroy(r);
		return ip_error("out of memory");
	}
	if (ip_tracefs_open(&r->tracefs) < 0)
		goto fail;
	remove_left();
	r->layout = ip_event_layout_read();
	if (!r->layout || tell_missing(r) < 0 || make_dir(r, dir) < 0 ||
	    make_probes(r, options->functions, dir) < 0 ||
	    (r->resumes && !r->kept && ip_kernel_recorder_find_begun(r) < 0) ||
	    make_instances(r, options->buffer) < 0)
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
	ip_kernel_recorder_destroy(r);
	return -1;
}

/* Events were lost before a page. The count may be of a loss behind the page already: then this one
 * was counted with the page before, and is counted once more, since readers must see it. */
static int note_loss(struct ip_kernel_recorder *r, struct source *source)
{
	const uint64_t lost = ip_instance_lost(r->instances[source->instance], source->cpu);

	if (r->descriptors) /* what was made may have been closed */
		ip_descriptor_log_give_up(r->descriptors);
	return ip_kernel_stream_lost(&source->stream,
				     lost > source->stream.lost ? lost : source->stream.lost + 1);
}

/* Converts the events of a page. */
static int take_page(struct ip_kernel_recorder *r, struct source *source)
{
	unsigned long long tsc;
	void *record;
	uint8_t *out;
	size_t size;

	if (kbuffer_load_subbuffer(r->page, r->bytes) < 0)
		return ip_error("cannot read a page of the kernel's events of CPU %u", source->cpu);
	if (kbuffer_missed_events(r->page) && note_loss(r, source) < 0)
		return -1;
	for (record = kbuffer_read_event(r->page, &tsc); record;
	     record = kbuffer_next_event(r->page, &tsc)) {
		out = ip_kernel_stream_room(&source->stream);
		if (!out)
			return -1;
		size = ip_event_convert(r->layout, record, kbuffer_event_size(r->page), tsc, out);
		if (!size)
			continue;
		ip_kernel_stream_add(&source->stream, tsc, size);
		if (r->descriptors)
			ip_descriptor_log_event(r->descriptors, out);
	}
	return 0;
}

/* Takes what is in a CPU's buffer. 1: there is more; 0; -1 with an error. */
static int drain(struct ip_kernel_recorder *r, struct source *source)
{
	for (unsigned i = 0; i < PAGES_MOST; i++) {
		ssize_t n = read(source->fd, r->bytes, PAGE_MOST);

		if (n < 0 && errno == ENODEV) { /* the CPU has never been online */
			r->polls[source - r->sources].fd = -1;
			return 0;
		}
		if (n <= 0)
			return n < 0 && errno != EAGAIN && errno != EINTR
				       ? ip_error_errno("cannot read the kernel's events of CPU %u",
							source->cpu)
				       : 0;
		r->polls[source - r->sources].fd = source->fd;
		memset(r->bytes + n, 0, PAGE_END);
		if (take_page(r, source) < 0)
			return -1;
	}
	return 1;
}

static int drain_all(struct ip_kernel_recorder *r)
{
	int more = 0, ret;

	for (size_t i = 0; i < r->nsources; i++) {
		ret = drain(r, &r->sources[i]);
		if (ret < 0)
			return -1;
		r->sources[i].more = ret;
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
					.functions = r->stats.functions,
					.missed = r->stats.missed};

	if (r->descriptors)
		stats.bytes += ip_descriptor_log_bytes(r->descriptors);

	for (size_t i = 0; i < r->nsources; i++) {
		stats.events += r->sources[i].stream.events;
		stats.lost += r->sources[i].stream.lost;
		stats.bytes += r->sources[i].stream.bytes;
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
	struct tracefs_instance *target = r->instances[TARGET];
	const uint64_t now = ip_clock_now();

	if (target && ip_instance_limit(target, pid) < 0)
		return -1;
	/* without a thread it would record all of them */
	if (target && !r->limited && ip_instance_switch(target, true) < 0)
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
	*ret_pid = r->request.pid;
	pthread_mutex_unlock(&r->lock);
	if (what != NOTHING)
		(void)!read(r->wake, &woken, sizeof(woken));
	return what;
}

static void answer(struct ip_kernel_recorder *r, int result)
{
	pthread_mutex_lock(&r->lock);
	r->request.done = true;
	r->request.result = result;
	r->request.why = result < 0 ? strdup(ip_error_message()) : NULL;
	pthread_cond_signal(&r->answered);
	pthread_mutex_unlock(&r->lock);
}

static int flush_all(struct ip_kernel_recorder *r)
{
	int ret = 0;

	for (size_t i = 0; i < r->nsources; i++)
		if (ip_kernel_stream_flush(&r->sources[i].stream) < 0)
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
	for (size_t i = 0; i < r->nsources; i++)
		if (ip_kernel_stream_mark(&r->sources[i].stream, drained) < 0)
			return -1;
	return 0;
}

/* Tells the sink that all events have come that happened before the buffers were read: of a buffer
 * that is not empty, those up to its last event. */
static int tell(struct ip_kernel_recorder *r, uint64_t before)
{
	if (!r->sink)
		return 0;
	for (size_t i = 0; i < r->nsources; i++)
		if (r->sources[i].more && r->sources[i].stream.end < before)
			before = r->sources[i].stream.end;
	return r->sink->until(r->sink->context, before);
}

static void *run(void *context)
{
	struct ip_kernel_recorder *r = context;
	int more = 0, nap = NAP_LEAST_MS;
	enum asked asked;
	uint64_t before;
	pid_t pid;

	while (!__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE)) {
		if (!more)
			poll(r->polls, r->nsources + 1, nap);
		asked = take_request(r, &pid);
		if (asked == JOIN)
			answer(r, take_in(r, pid));
		/* a program that makes descriptors may not keep them for long */
		nap = 2 * nap < NAP_MS ? 2 * nap : NAP_MS;
		errno = 0;
		before = ip_clock_now();
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
			break;
		}
		count(r);
		if (asked == WRITE_OUT)
			answer(r, ip_kernel_recorder_write_out(r, before));
	}
	return NULL;
}

static int switch_off(struct ip_kernel_recorder *r)
{
	for (int i = 0; i < INSTANCES; i++)
		if (r->instances[i] && ip_instance_switch(r->instances[i], false) < 0)
			return -1;
	return 0;
}

/* Each stream tells where the gap ends: all of them at one time, before anything is recorded. */
static int end_gap(struct ip_kernel_recorder *r)
{
	const uint64_t now = ip_clock_now();

	for (size_t i = 0; i < r->nsources; i++)
		if (ip_kernel_stream_begin(&r->sources[i].stream, now) < 0)
			return -1;
	return 0;
}

int ip_kernel_recorder_start(struct ip_kernel_recorder *r)
{
	sigset_t all, before;
	int error;

	if (r->resumes && !r->kept && end_gap(r) < 0)
		return -1;
	if (r->instances[ALL] && ip_instance_switch(r->instances[ALL], true) < 0)
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

int ip_kernel_recorder_ask(struct ip_kernel_recorder *r, enum asked what, pid_t pid)
{
	const uint64_t one = 1;
	int result;

	pthread_mutex_lock(&r->lock);
	r->request = (struct request){.what = what, .pid = pid};
	(void)!write(r->wake, &one, sizeof(one));
	while (!r->request.done && !r->why)
		pthread_cond_wait(&r->answered, &r->lock);
	result = r->request.done ? r->request.result : -1;
	if (result < 0)
		ip_error("%s", r->request.why ? r->request.why : r->why ? r->why : "out of memory");
	free(r->request.why);
	r->request = (struct request){0};
	pthread_mutex_unlock(&r->lock);
	return result;
}

int ip_kernel_recorder_add(struct ip_kernel_recorder *r, pid_t pid)
{
	return ip_kernel_recorder_ask(r, JOIN, pid);
}

int ip_kernel_recorder_stats(struct ip_kernel_recorder *r, struct ip_kernel_stats *ret)
{
	int failed;

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

/* The rest of the events. The instances are off: there is an end of them. */
static int finish(struct ip_kernel_recorder *r)
{
	const uint64_t now = ip_clock_now();
	int more;

	do
		more = drain_all(r);
	while (more > 0);
	if (more < 0)
		return -1;
	for (size_t i = 0; i < r->nsources; i++) {
		struct source *source = &r->sources[i];

		if (ip_kernel_stream_lost(
			    &source->stream,
			    ip_instance_lost(r->instances[source->instance], source->cpu)) < 0 ||
		    ip_kernel_stream_finish(&source->stream, now) < 0)
			return -1;
	}
	if (r->kept &&
	    ip_kernel_segments_write(r->kept, r->trace, r->room, &r->first, &r->written) < 0)
		return -1;
	count(r);
	return tell(r, now);
}

/* What we have in tracefs. A probe can be removed when no instance has it any more. */
static void remove_own(struct ip_kernel_recorder *r)
{
	for (int i = 0; i < INSTANCES; i++)
		ip_instance_remove(ip_steal_ptr(r->instances[i]));
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

	/* From here on nothing is said of descriptors: what closes them is not recorded any more.
	 */
	join(r);
	ret = switch_off(r);
	if (ret == 0)
		ret = ip_kernel_recorder_stats(r, &stats);
	if (ret == 0)
		ret = finish(r);
	if (ret < 0) /* what was gathered until then is kept */
		flush_all(r);
	for (size_t i = 0; i < r->nsources; i++) {
		close(r->sources[i].fd);
		r->sources[i].fd = -1;
	}
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
	join(r);
	for (size_t i = 0; i < r->nsources; i++) {
		if (r->sources[i].fd >= 0)
			close(r->sources[i].fd);
		ip_kernel_stream_clear(&r->sources[i].stream);
	}
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
	if (r->page)
		kbuffer_free(r->page);
	pthread_cond_destroy(&r->answered);
	pthread_mutex_destroy(&r->lock);
	free(r->bytes);
	free(r->sources);
	free(r->polls);
	free(r->why);
	free(r);
}

void ip_kernel_recorder_leave(const struct ip_kernel_recorder *r)
{
	for (size_t i = 0; r && i < r->nsources; i++)
		if (r->sources[i].fd >= 0)
			close(r->sources[i].fd);
	if (r && r->tracefs.fd >= 0)
		close(r->tracefs.fd);
	tracefs_set_tracing_dir(NULL);
}

int ip_kernel_missing(unsigned groups, char **ret)
{
	struct ip_tracefs tracefs;
	struct ip_event_layout *layout;

	*ret = NULL;
	if (ip_tracefs_open(&tracefs) < 0)
		return -1;
	layout = ip_event_layout_read();
	if (layout)
		*ret = ip_event_layout_missing(layout, groups);
	ip_event_layout_free(layout);
	ip_tracefs_close(&tracefs);
	return *ret ? 0 : -1;
}

void ip_kernel_remove_left(void)
{
	struct ip_tracefs tracefs;

	if (ip_tracefs_open(&tracefs) < 0)
		return;
	remove_left();
	ip_tracefs_close(&tracefs);
}

int ip_kernel_functions_check(void)
{
	struct ip_tracefs tracefs;
	int ret;

	if (ip_tracefs_open(&tracefs) < 0)
		return -1;
	ret = ip_kernel_probes_check();
	ip_tracefs_close(&tracefs);
	return ret;
}
