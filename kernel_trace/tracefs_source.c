/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the pages of instances' buffers.
 */
#include "kernel_trace/tracefs_source.h"

#include <errno.h>
#include <kbuffer.h>
#include <stdlib.h>
#include <string.h>
#include <tracefs.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/trace/kernel_format.h"
#include "kernel_trace/event_layout.h"
#include "kernel_trace/instance.h"
#include "kernel_trace/kernel_probes.h"

#define PAGE_MOST  (64u << 10) /* what one read returns at most */
#define PAGE_END   16u	       /* zeros behind it */
#define PAGES_MOST 256u	       /* of one CPU, until the others have their turn */

/* The buffer of one CPU in one instance. */
struct cpu {
	int fd;
	bool absent; /* it has never been online: poll(2) would not wait for it */
	uint64_t lost;
};

struct tracefs_source {
	struct ip_record_source source;
	struct tracefs_instance *instances[IP_RECORD_PARTS];
	struct cpu *cpus[IP_RECORD_PARTS];
	unsigned ncpus;
	struct kbuffer *page;
	uint8_t *bytes; /* of a page */
};

static struct tracefs_source *of(const struct ip_record_source *source)
{
	return (struct tracefs_source *)source;
}

static int make(struct ip_record_source *source, enum ip_record_part part, size_t size)
{
	static const char *const names[] = {
		[IP_RECORD_ALL] = IP_KERNEL_ALL, [IP_RECORD_TARGET] = IP_KERNEL_TARGET};
	struct tracefs_source *s = of(source);

	s->cpus[part] = calloc(s->ncpus, sizeof(**s->cpus));
	if (!s->cpus[part])
		return ip_error("out of memory");
	for (unsigned i = 0; i < s->ncpus; i++)
		s->cpus[part][i].fd = -1;
	s->instances[part] = ip_instance_create(names[part], size);
	if (!s->instances[part])
		return -1;
	for (unsigned i = 0; i < s->ncpus; i++) {
		s->cpus[part][i].fd = ip_instance_open_cpu(s->instances[part], i);
		if (s->cpus[part][i].fd < 0)
			return -1;
	}
	return 0;
}

static int enable(struct ip_record_source *source, enum ip_record_part part,
		  const struct ip_tracepoint *tracepoint)
{
	return ip_instance_enable(of(source)->instances[part], tracepoint->system,
				  tracepoint->name);
}

static int limit(struct ip_record_source *source, pid_t pid)
{
	return ip_instance_limit(of(source)->instances[IP_RECORD_TARGET], pid);
}

static int enable_probes(struct ip_record_source *source, const struct ip_kernel_probes *probes)
{
	return ip_kernel_probes_enable(probes, of(source)->instances[IP_RECORD_TARGET]);
}

static int list(const struct ip_record_source *source, int (*each)(void *context, pid_t tid),
		void *context)
{
	_cleanup_free_ char *text = tracefs_instance_file_read(
		of(source)->instances[IP_RECORD_TARGET], "set_event_pid", NULL);

	for (char *at = text, *end; at; at = end) {
		const long tid = strtol(at, &end, 10);

		if (end == at)
			return 0;
		if (each(context, tid) < 0)
			return -1;
	}
	return 1;
}

static int switch_on(struct ip_record_source *source, enum ip_record_part part)
{
	return ip_instance_switch(of(source)->instances[part], true);
}

static int switch_off(struct ip_record_source *source)
{
	const struct tracefs_source *s = of(source);

	for (unsigned i = 0; i < IP_RECORD_PARTS; i++)
		if (s->instances[i] && ip_instance_switch(s->instances[i], false) < 0)
			return -1;
	return 0;
}

static int poll_fd(const struct ip_record_source *source, enum ip_record_part part, unsigned cpu)
{
	const struct cpu *c = &of(source)->cpus[part][cpu];

	return c->absent ? -1 : c->fd;
}

static uint64_t lost(const struct ip_record_source *source, enum ip_record_part part, unsigned cpu)
{
	return ip_instance_lost(of(source)->instances[part], cpu);
}

/* Passes on the records of a page. What was lost before it may be counted with a loss behind it
 * already. */
static int take_page(struct tracefs_source *s, enum ip_record_part part, unsigned cpu,
		     const struct ip_record_sink *taker)
{
	unsigned long long tsc;
	void *record;

	if (kbuffer_load_subbuffer(s->page, s->bytes) < 0)
		return ip_error("cannot read a page of the kernel's events of CPU %u", cpu);
	if (kbuffer_missed_events(s->page) &&
	    taker->lost(taker->context, lost(&s->source, part, cpu)) < 0)
		return -1;
	for (record = kbuffer_read_event(s->page, &tsc); record;
	     record = kbuffer_next_event(s->page, &tsc))
		if (taker->record(taker->context, record, kbuffer_event_size(s->page), tsc) < 0)
			return -1;
	return 0;
}

static int drain(struct ip_record_source *source, enum ip_record_part part, unsigned cpu,
		 const struct ip_record_sink *taker)
{
	struct tracefs_source *s = of(source);
	struct cpu *c = &s->cpus[part][cpu];

	for (unsigned i = 0; i < PAGES_MOST; i++) {
		ssize_t n = read(c->fd, s->bytes, PAGE_MOST);

		if (n < 0 && errno == ENODEV) {
			c->absent = true;
			return 0;
		}
		if (n <= 0)
			return n < 0 && errno != EAGAIN && errno != EINTR
				       ? ip_error_errno("cannot read the kernel's events of CPU %u",
							cpu)
				       : 0;
		c->absent = false;
		memset(s->bytes + n, 0, PAGE_END);
		if (take_page(s, part, cpu, taker) < 0)
			return -1;
	}
	return 1;
}

static void close_cpus(const struct tracefs_source *s)
{
	for (unsigned part = 0; part < IP_RECORD_PARTS; part++)
		for (unsigned i = 0; s->cpus[part] && i < s->ncpus; i++)
			if (s->cpus[part][i].fd >= 0)
				close(s->cpus[part][i].fd);
}

static void leave(const struct ip_record_source *source)
{
	close_cpus(of(source));
}

static void destroy(struct ip_record_source *source)
{
	struct tracefs_source *s = of(source);

	close_cpus(s);
	for (unsigned i = 0; i < IP_RECORD_PARTS; i++) {
		ip_instance_remove(s->instances[i]);
		free(s->cpus[i]);
	}
	if (s->page)
		kbuffer_free(s->page);
	free(s->bytes);
	free(s);
}

/* (A probe that is on in an instance cannot be removed.) */
void ip_tracefs_source_remove_left(void)
{
	ip_instance_remove_left();
	ip_kernel_probes_remove_left();
}

struct ip_record_source *ip_tracefs_source_create(const struct ip_tracefs *tracefs)
{
	static const struct ip_record_source_ops ops = {.name = "tracefs",
							.make = make,
							.enable = enable,
							.enable_probes = enable_probes,
							.limit = limit,
							.list = list,
							.switch_on = switch_on,
							.switch_off = switch_off,
							.poll_fd = poll_fd,
							.drain = drain,
							.lost = lost,
							.leave = leave,
							.destroy = destroy};
	struct tracefs_source *s;

	if (ip_tracefs_check(tracefs) < 0)
		return NULL;
	ip_tracefs_source_remove_left();
	s = calloc(1, sizeof(*s));
	if (s) {
		s->source.ops = &ops;
		s->ncpus = ip_record_cpus();
		s->bytes = malloc(PAGE_MOST + PAGE_END);
		s->page = kbuffer_alloc(KBUFFER_LSIZE_SAME_AS_HOST, KBUFFER_ENDIAN_SAME_AS_HOST);
	}
	if (s && s->bytes && s->page)
		return &s->source;
	if (s)
		destroy(&s->source);
	ip_error("out of memory");
	return NULL;
}
