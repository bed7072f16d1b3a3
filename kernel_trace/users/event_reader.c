/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads events of the kernel, filters them, and sends what remains. event_reader.h has the steps.
 */
#include "kernel_trace/users/event_reader.h"
#include "kernel_trace/kernel_check.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/notice.h"
#include "common/now.h"
#include "common/proc.h"
#include "common/trace/kernel_format.h"
#include "kernel_trace/event_layout.h"
#include "kernel_trace/instance.h"
#include "kernel_trace/kernel_stream.h"
#include "kernel_trace/recorder.h"
#include "kernel_trace/users/event_filter.h"
#include "kernel_trace/users/event_packets.h"
#include "kernel_trace/users/event_protocol.h"
#include "kernel_trace/users/event_queues.h"
#include "kernel_trace/users/event_targets.h"

#define SEND_S	    10		  /* a worker that takes nothing for so long has failed */
#define QUEUES_MOST (24u << 20)	  /* of all CPUs together */
#define CHECK_SHARE 20		  /* one part in so many of our time goes to checks */
#define PAUSE_NS    2000000000ull /* between two checks, at most */
#define ALIVE_NS    1000000000ull
#define FLUSH_NS    3000000000ull /* events may come faster than they are read */
#define FLUSH_NAP   2000000l	  /* ns */

struct reader {
	const struct ip_event_reader_options *options;
	struct ip_kernel_sink sink;
	struct ip_kernel_recorder *recorder;
	struct ip_event_filter *filter;
	unsigned cpus;
	struct ip_event_queues queues;	 /* two of each CPU: of the target, of all processes */
	struct ip_event_writer *writers; /* likewise */
	struct ip_event_targets targets;
	uint64_t next_ns; /* when processes are checked again */
	/* what the worker was told of the time last (atomic), and when */
	uint64_t until, told_ns;
	bool started, stops;
	char notice[1024];
};

static int the_socket;

/* recv() ends, and so do we. */
static void on_term(int number)
{
	shutdown(the_socket, SHUT_RDWR);
}

static int send_word(enum ip_event_word word, uint64_t size, const char *text)
{
	return ip_event_send_word(the_socket, word, size, text);
}

static int on_filtered(void *context, bool all, uint32_t cpu, const uint8_t *event, size_t size)
{
	struct reader *r = context;

	return ip_event_gather(the_socket, &r->writers[2 * cpu + all], all, cpu, event, size);
}

static int on_filtered_lost(void *context, bool all, uint32_t cpu)
{
	struct reader *r = context;

	return ip_event_gather_loss(&r->writers[2 * cpu + all], all, cpu);
}

static int on_event(void *context, uint32_t cpu, const uint8_t *event, size_t size)
{
	struct reader *r = context;
	struct ip_kernel_event_header header;
	const struct ip_kernel_kind *kind;
	struct ip_event_item item = {.size = size};
	struct ip_event_queue *q;

	if (cpu == IP_KERNEL_CPUS_MAX)
		return ip_event_targets_begin_state(&r->targets, event, size);
	memcpy(&header, event, sizeof(header));
	kind = ip_kernel_kind_of(header.id);
	ip_event_targets_note(&r->targets, &header, event);
	item.tsc = header.tsc;
	q = cpu < r->cpus ? &r->queues.items[2 * cpu + (kind && kind->everywhere)] : NULL;
	return !q || ip_event_queue_put(&r->queues, q, &item, event)
		       ? 0
		       : ip_event_queue_put_loss(&r->queues, q);
}

static int on_lost(void *context, bool all, uint32_t cpu, uint64_t n)
{
	struct reader *r = context;
	struct ip_event_queue *q = cpu < r->cpus ? &r->queues.items[2 * cpu + all] : NULL;

	if (all)
		ip_event_targets_note_loss(&r->targets, ip_clock_now());
	return q ? ip_event_queue_put_loss(&r->queues, q) : 0;
}

static pid_t process_of(pid_t tid)
{
	return ip_proc_status(tid, "Tgid");
}

/* Step 3. */
static int check_process(void *context, pid_t pid)
{
	struct reader *r = context;
	const uint64_t now = ip_clock_now();
	struct ip_event_target *t = ip_event_targets_find(&r->targets, pid);

	if (t && ip_event_target_is_strange(t)) {
		ip_event_filter_refuse(r->filter, pid);
		return 0;
	}
	switch (r->options->access(r->options->context, pid)) {
	case IP_EVENT_ALLOWED:
		ip_event_filter_allow(r->filter, pid, now, ip_clock_now());
		break;
	case IP_EVENT_GONE:
		break;
	case IP_EVENT_FORBIDDEN:
		ip_event_filter_refuse(r->filter, pid);
		if (t)
			ip_event_target_set_strange(t);
		return pid == r->options->pid ? -1 : 0;
	}
	return 0;
}

/* Gives an item to the filter. */
static int give(void *context, size_t number, const struct ip_event_item *item,
		const uint8_t *event, uint64_t next)
{
	const struct reader *r = context;

	return item->lost ? ip_event_filter_lost(r->filter, number & 1, number / 2, next)
			  : ip_event_filter_event(r->filter, number & 1, number / 2, event,
						  item->size);
}

static int check_all(struct reader *r)
{
	const uint64_t before = ip_thread_cpu_ns();
	const int ret = ip_event_filter_each(r->filter, check_process, r);
	const uint64_t pause = CHECK_SHARE * (ip_thread_cpu_ns() - before);

	r->next_ns = ip_now_ns() + (pause < PAUSE_NS ? pause : PAUSE_NS);
	return ret;
}

/* A worker that hears nothing takes it that we have failed. */
static int keep_alive(struct reader *r, uint64_t now)
{
	if (now - r->told_ns < ALIVE_NS)
		return 0;
	r->told_ns = now;
	return send_word(IP_EVENT_UNTIL, r->until, NULL);
}

static int on_until(void *context, uint64_t tsc)
{
	struct reader *r = context;
	const uint64_t now = ip_now_ns();

	if (r->options->pid && r->targets.n && ip_event_target_is_strange(&r->targets.items[0]))
		return ip_error("pid %d is not recorded", r->options->pid);
	/* what was read waits for the check */
	if (now < r->next_ns && !r->stops)
		return keep_alive(r, now);
	if (check_all(r) < 0)
		return -1;
	if (ip_event_targets_send_begin(&r->targets, the_socket, tsc, r->stops) < 0 ||
	    ip_event_queues_merge(&r->queues, tsc, give, r) < 0)
		return -1;
	for (size_t i = 0; i < 2 * r->cpus; i++)
		if (ip_event_send(the_socket, &r->writers[i]) < 0)
			return -1;
	r->told_ns = ip_now_ns();
	if (send_word(IP_EVENT_UNTIL, tsc, NULL) < 0)
		return -1;
	/* whoever sees it here may answer: the worker has been told before */
	__atomic_store_n(&r->until, tsc, __ATOMIC_RELEASE);
	return 0;
}

/* The recording has failed: the worker is told why, and there is nothing more to serve. */
static void on_failed(void *context, const char *why)
{
	send_word(IP_EVENT_OVER, 0, why);
	shutdown(the_socket, SHUT_RD);
}

static struct reader *the_reader;

/* The worker tells it to the user. */
static void take_notice(const char *who, const char *text)
{
	snprintf(the_reader->notice, sizeof(the_reader->notice), "%s", text);
}

static unsigned groups_of(const struct ip_event_message *m)
{
	return (m->number & ((1u << IP_KERNEL_GROUPS) - 1)) | 1u << IP_KERNEL_GROUP_SCHED;
}

/* What users are not given. */
static int check_groups(const struct ip_event_message *m)
{
	const char *why;

	if (m->number >> IP_KERNEL_GROUP_BLOCK & 1)
		return ip_error(
			"--kernel: events of the group block (and so, all) are not given to "
			"users, since the kernel does not tell for whom a thread asks for "
			"blocks: name sched, syscalls, irq or faults");
	/* what belongs to whom is known by the order of events of several CPUs */
	if (!ip_clock_trustworthy(&why))
		return ip_error("events of the kernel are not given to users of this machine: %s",
				why);
	return 0;
}

/* Whether events could be read. The list of those that are missing becomes the answer. */
static int look(struct reader *r, const struct ip_event_message *m)
{
	_cleanup_free_ char *missing = NULL;

	if (check_groups(m) < 0 ||
	    ip_kernel_missing(groups_of(m), IP_KERNEL_SOURCE_TRACEFS, &missing) < 0)
		return -1;
	snprintf(r->notice, sizeof(r->notice), "%s", missing);
	return 0;
}

static int begin(struct reader *r, const struct ip_event_message *m)
{
	const struct ip_kernel_options o = {
		.groups = groups_of(m),
		.source = IP_KERNEL_SOURCE_TRACEFS, /* whose order of events is exact */
		.buffer = m->size,
		.sink = &r->sink};

	if (r->recorder)
		return ip_error("events are read already");
	if (check_groups(m) < 0)
		return -1;
	if (m->size < 4096 || m->size > r->options->buffer_most)
		return ip_error("a buffer of %lu bytes for each CPU is not given", m->size);
	return ip_kernel_recorder_create(&o, -1, &r->recorder);
}

static int judge(const struct reader *r, pid_t pid)
{
	switch (r->options->access(r->options->context, pid)) {
	case IP_EVENT_ALLOWED:
		return 0;
	case IP_EVENT_GONE:
		return ip_error("pid %d has ended", pid);
	default:
		return -1;
	}
}

/* Step 2. The process is judged before anything is switched on, and once more when execs are told
 * of. What is read by its number is its own if it has not ended by then: otherwise nothing more is
 * read of it for this worker. */
static int add(struct reader *r, const struct ip_event_message *m)
{
	struct ip_event_target *t;
	int words = 1;

	if (!r->recorder || m->number <= 0 || (r->options->pid && m->number != r->options->pid))
		return ip_error("pid %d is not the process that was asked for", m->number);
	t = ip_event_targets_take(&r->targets, m->number);
	if (!t)
		return -1;
	if (t->refused || ip_event_target_is_strange(t))
		return ip_error("pid %d was refused before", m->number);
	t->refused = true; /* unless all goes well */
	if (judge(r, t->pid) < 0)
		return -1;
	if (!r->started && ip_kernel_recorder_start(r->recorder) < 0)
		return -1;
	r->started = true;
	t->asked = ip_clock_now();
	if (m->size)
		words = ip_proc_is_64_bit(t->pid);
	/* what was read is told of a process that may be traced, and of no other */
	if (judge(r, t->pid) < 0) {
		ip_event_target_set_strange(t);
		return -1;
	}
	if (words <= 0)
		return ip_error(words ? "pid %d: whether it is a 64-bit program is not known"
				      : "pid %d: system calls of 32-bit programs cannot be told "
					"apart from those of others",
				m->number);
	if (ip_kernel_recorder_add(r->recorder, m->number) < 0)
		return -1;
	if (ip_event_target_is_gone(&r->targets, t))
		ip_event_target_set_strange(t);
	if (ip_event_target_is_strange(t))
		return ip_error("pid %d has ended", m->number);
	t->refused = false;
	return 0;
}

/* Checks may have to wait for their share of our time: then the events wait, too. */
static int flush(struct reader *r)
{
	const struct timespec nap = {.tv_nsec = FLUSH_NAP};
	const uint64_t since = ip_clock_now(), limit = ip_now_ns() + FLUSH_NS;

	if (!r->started)
		return ip_error("no events are read yet");
	for (;;) {
		if (ip_kernel_recorder_tell_now(r->recorder) < 0)
			return -1;
		if (__atomic_load_n(&r->until, __ATOMIC_ACQUIRE) >= since || ip_now_ns() > limit)
			return 0;
		nanosleep(&nap, NULL);
	}
}

/* Does what the worker asks for. Returns whether there is more to do. */
static bool serve(struct reader *r, const struct ip_event_message *m)
{
	int done = -1;

	switch (m->word) {
	case IP_EVENT_BEGIN:
		done = begin(r, m);
		break;
	case IP_EVENT_LOOK:
		done = look(r, m);
		break;
	case IP_EVENT_ADD:
		done = add(r, m);
		break;
	case IP_EVENT_STOP:
		r->stops = true;
		done = r->started ? ip_kernel_recorder_stop(r->recorder) : 0;
		break;
	case IP_EVENT_FLUSH:
		done = flush(r);
		break;
	default:
		return false;
	}
	done = done < 0 ? send_word(IP_EVENT_REFUSED, 0, ip_error_message())
			: send_word(IP_EVENT_DONE, 0, r->notice);
	r->notice[0] = '\0';
	return done == 0 && m->word != IP_EVENT_STOP;
}

static void clear(struct reader *r)
{
	ip_kernel_recorder_destroy(r->recorder);
	ip_event_filter_destroy(r->filter);
	for (size_t i = 0; r->writers && i < 2 * r->cpus; i++)
		ip_event_writer_clear(&r->writers[i]);
	ip_event_targets_clear(&r->targets);
	ip_event_queues_clear(&r->queues);
	free(r->writers);
}

int ip_event_reader_serve(const struct ip_event_reader_options *options)
{
	static struct reader r;
	const struct ip_event_filter_output output = {.event = on_filtered,
						      .lost = on_filtered_lost,
						      .process_of = process_of,
						      .context = &r};
	const struct timeval limit = {.tv_sec = SEND_S};
	struct sigaction action = {.sa_handler = on_term};
	struct ip_event_message m;
	const long cpus = sysconf(_SC_NPROCESSORS_CONF);

	memset(&r, 0, sizeof(r));
	r.options = options;
	r.cpus = cpus > 0 ? cpus : 1;
	r.sink = (struct ip_kernel_sink){.event = on_event,
					 .lost = on_lost,
					 .until = on_until,
					 .failed = on_failed,
					 .context = &r,
					 .everywhere = true,
					 .hurries = true};
	the_socket = options->socket;
	the_reader = &r;
	sigaction(SIGTERM, &action, NULL);
	setsockopt(the_socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	ip_notice_to(take_notice);
	ip_event_queues_init(&r.queues, 2 * r.cpus, QUEUES_MOST);
	r.writers = calloc(2 * r.cpus, sizeof(*r.writers));
	r.filter = ip_event_filter_create(r.cpus, &output);
	r.targets.options = options;
	r.targets.filter = r.filter;
	r.targets.queues = &r.queues;
	while (r.queues.items && r.writers && r.filter && ip_event_receive(the_socket, &m) &&
	       serve(&r, &m))
		;
	clear(&r);
	return ip_instance_remains() ? -1 : 0;
}
