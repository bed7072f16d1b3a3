/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes events that come by a socket. worker_recorder.h says from whom.
 */
#include "kernel_trace/users/worker_recorder.h"

#include <errno.h>
#include <linux/capability.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/notice.h"
#include "common/now.h"
#include "common/trace/kernel_format.h"
#include "kernel_trace/descriptor_log.h"
#include "kernel_trace/event_layout.h"
#include "kernel_trace/kernel_stream.h"
#include "kernel_trace/users/event_protocol.h"
#include "kernel_trace/users/worker_private.h"

#define ANSWER_MS 20000
#define FLUSH_NS  1000000000ull
#define NAMES_NS  2000000000ull /* of a snapshot: so long it waits for names of descriptors */

static int ask(const struct ip_worker_recorder *w, enum ip_event_word word, int32_t number,
	       uint64_t size)
{
	const struct ip_event_message m = {.word = word, .number = number, .size = size};

	if (send(w->socket, &m, sizeof(m), MSG_NOSIGNAL) == sizeof(m))
		return 0;
	return ip_error("iprobed's reader of kernel events has ended");
}

/* Receives one packet. Returns the size of what follows the message, or -1 with an error. */
static ssize_t receive(struct ip_worker_recorder *w, struct ip_event_message *ret)
{
	const uint64_t until = ip_now_ns() + ANSWER_MS * 1000000ull;
	struct pollfd p = {.fd = w->socket, .events = POLLIN};
	uint64_t now;
	ssize_t n;

	do {
		now = ip_now_ns();
		n = now < until ? poll(&p, 1, (until - now) / 1000000 + 1) : 0;
	} while (n < 0 && errno == EINTR);
	errno = 0; /* it is not the disk */
	if (n <= 0)
		return ip_error("iprobed's reader of kernel events does not answer");
	n = recv(w->socket, w->packet, sizeof(w->packet) - 1, 0);
	if (n < (ssize_t)sizeof(*ret))
		return ip_error("iprobed's reader of kernel events has ended");
	w->packet[n] = '\0';
	memcpy(ret, w->packet, sizeof(*ret));
	return n - sizeof(*ret);
}

static const char *text_of(const struct ip_worker_recorder *w)
{
	return (const char *)w->packet + sizeof(struct ip_event_message);
}

static int begin(struct ip_worker_recorder *w, const struct ip_kernel_options *options)
{
	struct ip_event_message m;

	if (ask(w, IP_EVENT_BEGIN, options->groups, options->buffer) < 0 || receive(w, &m) < 0)
		return -1;
	if (m.word != IP_EVENT_DONE)
		return ip_error("%s", text_of(w));
	if (*text_of(w))
		ip_notice("%s", text_of(w));
	return 0;
}

int ip_worker_recorder_missing(const struct ip_kernel_options *options, char **ret)
{
	struct ip_worker_recorder *w = calloc(1, sizeof(*w));
	struct ip_event_message m;
	int done = -1;

	*ret = NULL;
	if (!w)
		return ip_error("out of memory");
	w->socket = options->reader;
	if (ask(w, IP_EVENT_LOOK, options->groups, 0) == 0 && receive(w, &m) >= 0) {
		if (m.word != IP_EVENT_DONE)
			ip_error("%s", text_of(w));
		else if (!(*ret = strdup(text_of(w))))
			ip_error("out of memory");
		else
			done = 0;
	}
	free(w);
	return done;
}

int ip_worker_recorder_create(const struct ip_kernel_options *options, int trace, int dir,
			      const uint8_t *uuid, struct ip_recorded_segments *segments,
			      struct ip_worker_recorder **ret)
{
	const bool calls = options->groups >> IP_KERNEL_GROUP_SYSCALLS & 1 && !options->sink;
	struct ip_worker_recorder *w = calloc(1, sizeof(*w));
	pthread_condattr_t monotonic;

	if (!w)
		return ip_error("out of memory");
	w->socket = options->reader;
	w->trace = trace;
	w->dir = dir;
	w->uuid = uuid;
	w->segments = segments;
	w->sink = options->sink;
	w->only_64_bit = options->only_64_bit;
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&w->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	for (unsigned i = 0; i < IP_WORKER_STATES; i++) {
		ip_kernel_stream_init(&w->states[i], dir, uuid, IP_KERNEL_STATE, i);
		w->states[i].cpu = w->sink ? IP_KERNEL_CPUS_MAX : 0;
		w->states[i].sink = w->sink;
		ip_kernel_stream_put_in(&w->states[i], segments);
	}
	if (begin(w, options) < 0) { /* nothing was written yet */
		ip_worker_recorder_destroy(w);
		return -1;
	}
	if (calls)
		w->descriptors = ip_descriptor_log_open(trace, segments->any, segments->newest,
							segments->kept);
	if (calls && !w->descriptors) {
		ip_worker_recorder_destroy(w);
		return -1;
	}
	*ret = w;
	return 0;
}

static struct ip_kernel_stream *stream_of(struct ip_worker_recorder *w, bool all, uint32_t cpu)
{
	struct source source = {.all = all, .cpu = cpu};

	if (cpu == IP_KERNEL_CPUS_MAX)
		return &w->states[IP_WORKER_TOLD];
	for (size_t i = 0; i < w->nsources; i++)
		if (w->sources[i].cpu == cpu && w->sources[i].all == all)
			return &w->sources[i].stream;
	if (cpu > IP_KERNEL_CPUS_MAX) {
		ip_error("iprobed's reader of kernel events tells of CPU %u", cpu);
		return NULL;
	}
	if (ip_array_grow(&w->sources, w->nsources, sizeof(source)) < 0)
		return NULL;
	ip_kernel_stream_init(&source.stream, w->dir, w->uuid,
			      all ? IP_KERNEL_ALL : IP_KERNEL_TARGET, cpu);
	source.stream.sink = w->sink;
	ip_kernel_stream_put_in(&source.stream, w->segments);
	w->sources[w->nsources] = source;
	return &w->sources[w->nsources++].stream;
}

static int take_events(struct ip_worker_recorder *w, const struct ip_event_message *m, size_t n)
{
	struct ip_kernel_stream *stream = stream_of(w, m->all, m->cpu);
	const uint8_t *at = w->packet + sizeof(*m), *end = at + n;
	struct ip_kernel_event_header header;

	while (stream && at < end) {
		uint8_t *out = ip_kernel_stream_room(stream);
		int size = -1;

		if (!out)
			return -1;
		if ((size_t)(end - at) >= sizeof(header)) {
			memcpy(&header, at, sizeof(header));
			size = ip_kernel_fields_size(header.id);
		}
		if (size < 0 || (size_t)(end - at) < sizeof(header) + size ||
		    sizeof(header) + size > IP_EVENT_SIZE_MAX)
			return ip_error("iprobed's reader of kernel events sends what is none");
		memcpy(out, at, sizeof(header) + size);
		ip_kernel_stream_add(stream, header.tsc, sizeof(header) + size);
		if (w->descriptors && m->cpu != IP_KERNEL_CPUS_MAX)
			ip_descriptor_log_event(w->descriptors, out);
		at += sizeof(header) + size;
	}
	return stream ? 0 : -1;
}

static int take_lost(struct ip_worker_recorder *w, const struct ip_event_message *m)
{
	struct ip_kernel_stream *stream = stream_of(w, m->all, m->cpu);

	if (w->descriptors)
		ip_descriptor_log_give_up(w->descriptors);
	w->looked = 0;
	/* how many they are is not told, nor whose */
	return stream ? ip_kernel_stream_lost(stream, stream->lost + 1) : -1;
}

static void count(struct ip_worker_recorder *w)
{
	struct ip_kernel_stats stats = {0};

	if (w->descriptors)
		stats.bytes += ip_descriptor_log_bytes(w->descriptors);
	for (size_t i = 0; i < IP_WORKER_STATES; i++) {
		stats.events += w->states[i].events;
		stats.bytes += w->states[i].bytes;
	}
	for (size_t i = 0; i < w->nsources; i++) {
		stats.events += w->sources[i].stream.events;
		stats.lost += w->sources[i].stream.lost;
		stats.bytes += w->sources[i].stream.bytes;
	}
	ip_recorded_segments_count(w->segments, &stats);
	pthread_mutex_lock(&w->lock);
	w->stats = stats;
	pthread_mutex_unlock(&w->lock);
}

/* descriptor_log.h, steps 2 to 4: all events before tsc have come. */
static int look(struct ip_worker_recorder *w, uint64_t tsc)
{
	if (w->looked && tsc > w->looked) {
		w->looked = 0;
		if (ip_descriptor_log_write(w->descriptors) < 0)
			return -1;
	}
	if (!w->looked && ip_descriptor_log_look(w->descriptors))
		w->looked = ip_clock_now();
	return 0;
}

static int take_until(struct ip_worker_recorder *w, uint64_t tsc)
{
	const uint64_t now = ip_now_ns();

	if (w->sink)
		return w->sink->until(w->sink->context, tsc);
	w->until = tsc > w->until ? tsc : w->until;
	if ((w->descriptors && look(w, tsc) < 0) || ip_worker_cut(w) < 0)
		return -1;
	if (now - w->flushed_ns < FLUSH_NS)
		return 0;
	w->flushed_ns = now;
	if (ip_worker_flush_states(w) < 0)
		return -1;
	for (size_t i = 0; i < w->nsources; i++)
		if (ip_kernel_stream_mark(&w->sources[i].stream, tsc) < 0)
			return -1;
	return 0;
}

static int take_in(struct ip_worker_recorder *w, pid_t pid, bool *ret_blind)
{
	if (w->sink)
		return 0;
	if (ip_array_grow(&w->joined, w->njoined, sizeof(*w->joined)) < 0)
		return -1;
	w->joined[w->njoined++] = pid;
	*ret_blind = w->descriptors && !ip_descriptor_log_may_look(pid);
	return ip_worker_read_process(w, pid);
}

/* The answer to what was asked for. Returns whether more may come; -1 with an error. */
static int take_answer(struct ip_worker_recorder *w, bool done)
{
	enum ip_event_word word;
	bool blind = false;
	pid_t pid;

	pthread_mutex_lock(&w->lock);
	word = w->word;
	pid = w->joins;
	pthread_mutex_unlock(&w->lock);
	if ((done && word == IP_EVENT_ADD && take_in(w, pid, &blind) < 0) ||
	    (done && word == IP_EVENT_FLUSH && ip_worker_write_out(w) < 0))
		return -1;
	pthread_mutex_lock(&w->lock);
	w->asked = false;
	w->blind = blind;
	w->unnamed = w->descriptors ? ip_descriptor_log_oldest(w->descriptors) : UINT64_MAX;
	w->answer = done ? 0 : -1;
	free(w->answer_text);
	w->answer_text = strdup(text_of(w));
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
	return word != IP_EVENT_STOP;
}

/* Takes a packet. Returns whether more may come; -1 with an error. */
static int take(struct ip_worker_recorder *w)
{
	struct ip_event_message m;
	const ssize_t n = receive(w, &m);
	int ret = 0;

	if (n < 0)
		return -1;
	switch (m.word) {
	case IP_EVENT_EVENTS:
		ret = take_events(w, &m, n);
		break;
	case IP_EVENT_LOST:
		ret = take_lost(w, &m);
		break;
	case IP_EVENT_UNTIL:
		ret = take_until(w, m.size);
		break;
	case IP_EVENT_DONE:
	case IP_EVENT_REFUSED:
		return take_answer(w, m.word == IP_EVENT_DONE);
	case IP_EVENT_OVER:
		errno = 0;
		return ip_error("%s", text_of(w));
	default:
		return ip_error("iprobed's reader of kernel events says what is not known");
	}
	if (ret == 0)
		count(w);
	return ret < 0 ? -1 : 1;
}

/* The user's rights are enough: files of the trace are the user's, and so is the process. */
static int give_up_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

	return syscall(SYS_capset, &header, none) < 0 ? ip_error_errno("capset") : 0;
}

static void *run(void *context)
{
	struct ip_worker_recorder *w = context;
	int more = give_up_capabilities() < 0 ? -1 : 1;

	while (more > 0)
		more = take(w);
	pthread_mutex_lock(&w->lock);
	if (more < 0) {
		w->why_errno = errno;
		w->why = strdup(ip_error_message());
		if (!w->why)
			w->why = strdup("");
	}
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
	if (more < 0 && w->sink && w->sink->failed)
		w->sink->failed(w->sink->context, w->why);
	return NULL;
}

int ip_worker_recorder_start(struct ip_worker_recorder *w)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&w->thread, NULL, run, w);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error) {
		errno = error;
		return ip_error_errno("cannot make the thread that writes kernel events");
	}
	w->runs = true;
	return 0;
}

/* Asks, and waits until the thread has taken the answer. */
static int ask_and_wait(struct ip_worker_recorder *w, enum ip_event_word word, pid_t pid)
{
	int ret;

	pthread_mutex_lock(&w->lock);
	w->asked = true;
	w->word = word;
	w->joins = pid;
	ret = ask(w, word, pid, word == IP_EVENT_ADD && w->only_64_bit);
	while (ret == 0 && w->asked && !w->why)
		pthread_cond_wait(&w->changed, &w->lock);
	if (w->why)
		ret = ip_error("%s", w->why);
	else if (ret == 0 && w->answer < 0)
		ret = ip_error("%s", w->answer_text ? w->answer_text : "out of memory");
	pthread_mutex_unlock(&w->lock);
	return ret;
}

int ip_worker_recorder_add(struct ip_worker_recorder *w, pid_t pid)
{
	if (ask_and_wait(w, IP_EVENT_ADD, pid) < 0)
		return -1;
	if (w->blind)
		ip_notice("pid %d is another user's: its files, sockets and pipes are numbers in "
			  "the events of the kernel, without names",
			  pid);
	return 0;
}

int ip_worker_recorder_write_out(struct ip_worker_recorder *w)
{
	const uint64_t since = ip_clock_now(), limit = ip_now_ns() + NAMES_NS;

	/* What was made shortly before has its name when events that come behind the look at it
	 * have been read: descriptor_log.h, steps 2 to 4. */
	do
		if (ask_and_wait(w, IP_EVENT_FLUSH, 0) < 0)
			return -1;
	while (w->unnamed < since && ip_now_ns() < limit);
	return 0;
}

int ip_worker_recorder_stats(struct ip_worker_recorder *w, struct ip_kernel_stats *ret)
{
	int failed;

	pthread_mutex_lock(&w->lock);
	*ret = w->stats;
	failed = w->why ? ip_error("kernel events: %s", w->why) : 0;
	ret->no_space = w->why &&
			(w->why_errno == ENOSPC || w->why_errno == EDQUOT || w->why_errno == EFBIG);
	pthread_mutex_unlock(&w->lock);
	return failed;
}

static void join(struct ip_worker_recorder *w)
{
	if (!w->runs)
		return;
	shutdown(w->socket, SHUT_RDWR);
	pthread_join(w->thread, NULL);
	w->runs = false;
}

int ip_worker_recorder_stop(struct ip_worker_recorder *w)
{
	const uint64_t now = ip_clock_now();
	int ret = w->runs ? ask_and_wait(w, IP_EVENT_STOP, 0) : 0;
	_cleanup_free_ char *why = ret < 0 ? strdup(ip_error_message()) : NULL;

	join(w);
	/* what was gathered until then is kept */
	if (ip_worker_flush_states(w) < 0)
		ret = -1;
	for (size_t i = 0; i < w->nsources; i++)
		if (ip_kernel_stream_finish(&w->sources[i].stream, now) < 0)
			ret = -1;
	if (ip_recorded_segments_write(w->segments, w->trace) < 0)
		ret = -1;
	count(w);
	if (why)
		ip_error("%s", why);
	return ret;
}

void ip_worker_recorder_leave(const struct ip_worker_recorder *w)
{
	close(w->socket);
}

void ip_worker_recorder_destroy(struct ip_worker_recorder *w)
{
	if (!w)
		return;
	join(w);
	for (size_t i = 0; i < w->nsources; i++)
		ip_kernel_stream_clear(&w->sources[i].stream);
	for (size_t i = 0; i < IP_WORKER_STATES; i++)
		ip_kernel_stream_clear(&w->states[i]);
	ip_descriptor_log_close(w->descriptors);
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
	free(w->sources);
	free(w->joined);
	free(w->answer_text);
	free(w->why);
	free(w);
}
