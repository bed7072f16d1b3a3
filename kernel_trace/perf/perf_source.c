/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens perf events, and reads their rings.
 */
#include "kernel_trace/perf/perf_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/arch/x86_64/tsc.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/notice.h"
#include "common/trace/kernel_format.h"
#include "kernel_trace/event_layout.h"
#include "kernel_trace/perf/perf_clock.h"
#include "kernel_trace/perf/perf_event.h"
#include "kernel_trace/perf/perf_ring.h"
#include "kernel_trace/perf/thread_filter.h"

#define ONLINE		"/sys/devices/system/cpu/online"
#define IMPRECISE_TICKS 10000u /* some microseconds */

/* Places of fields in events (common/trace/kernel_events.c). */
enum { SWITCH_PREV_TID = 16, SWITCH_NEXT_TID = 48, WOKEN_TID = 16 };

struct cpu {
	int fd; /* the event whose ring all others of the CPU use; -1: the CPU is offline */
	void *map;
	struct ip_perf_ring ring;
};

/* An event of a tracepoint on one CPU. */
struct event {
	int fd;
	enum ip_record_part part;
};

struct perf_source {
	struct ip_record_source source;
	const struct ip_event_layout *layout;
	struct cpu *cpus[IP_RECORD_PARTS];
	unsigned ncpus;
	size_t page, map_size[IP_RECORD_PARTS];
	struct event *events;
	size_t nevents;
	int *watched; /* of them one for each tracepoint, borrowed */
	size_t nwatched;
	const struct ip_tracepoint **filtered; /* those that the filter records */
	size_t nfiltered;
	struct ip_thread_filter *filter; /* NULL: the target's part is not recorded */
	struct ip_perf_clock clock;
	struct ip_perf_batch *batch;
	char online[1024];
	bool told;
};

static struct perf_source *of(const struct ip_record_source *source)
{
	return (struct perf_source *)source;
}

static void read_online(char ret[1024])
{
	_cleanup_close_ int fd = open(ONLINE, O_RDONLY | O_CLOEXEC);
	const ssize_t n = fd < 0 ? 0 : read(fd, ret, 1023);

	ret[n > 0 ? n : 0] = '\0';
}

/* Makes the ring of a CPU. */
static int open_cpu(struct perf_source *s, enum ip_record_part part, unsigned number)
{
	struct cpu *cpu = &s->cpus[part][number];
	const size_t size = s->map_size[part] - s->page;

	cpu->fd = ip_perf_event_open_samples(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_BPF_OUTPUT, number,
					     size);
	if (cpu->fd < 0)
		return errno == ENODEV ? 0 : ip_perf_event_error("a CPU");
	cpu->map = mmap(NULL, s->map_size[part], PROT_READ | PROT_WRITE, MAP_SHARED, cpu->fd, 0);
	if (cpu->map == MAP_FAILED) {
		cpu->map = NULL;
		return errno == EPERM ? ip_error("perf events may not have so large a buffer, "
						 "which takes root or CAP_IPC_LOCK, or less "
						 "(kernel.perf_event_mlock_kb)")
				      : ip_error_errno("cannot map a perf ring");
	}
	ip_perf_ring_init(&cpu->ring, cpu->map, (const uint8_t *)cpu->map + s->page, size);
	if (part == IP_RECORD_TARGET && ip_thread_filter_output(s->filter, number, cpu->fd) < 0)
		return -1;
	return ioctl(cpu->fd, PERF_EVENT_IOC_ENABLE, 0) < 0
		       ? ip_error_errno("cannot switch perf events on")
		       : 0;
}

static int make(struct ip_record_source *source, enum ip_record_part part, size_t size)
{
	struct perf_source *s = of(source);
	size_t room = s->page;

	while (room < size)
		room *= 2;
	s->map_size[part] = s->page + room;
	s->cpus[part] = calloc(s->ncpus, sizeof(**s->cpus));
	if (!s->cpus[part])
		return ip_error("out of memory");
	for (unsigned i = 0; i < s->ncpus; i++)
		s->cpus[part][i].fd = -1;
	if (part == IP_RECORD_TARGET) {
		s->filter = ip_thread_filter_create(s->layout);
		if (!s->filter)
			return -1;
	}
	for (unsigned i = 0; i < s->ncpus; i++)
		if (open_cpu(s, part, i) < 0)
			return -1;
	return 0;
}

/* Records a tracepoint of all threads. */
static int open_tracepoint(struct perf_source *s, enum ip_record_part part,
			   const struct ip_tracepoint *tracepoint)
{
	bool watched = false;

	for (unsigned i = 0; i < s->ncpus; i++) {
		const struct cpu *cpu = &s->cpus[part][i];
		int fd;

		if (cpu->fd < 0)
			continue;
		if (ip_array_grow(&s->events, s->nevents, sizeof(*s->events)) < 0 ||
		    ip_array_grow(&s->watched, s->nwatched, sizeof(*s->watched)) < 0)
			return -1;
		fd = ip_perf_event_open_samples(PERF_TYPE_TRACEPOINT, tracepoint->type, i,
						s->map_size[part] - s->page);
		if (fd < 0)
			return ip_perf_event_error(tracepoint->name);
		s->events[s->nevents++] = (struct event){.fd = fd, .part = part};
		if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, cpu->fd) < 0)
			return ip_error_errno("cannot send perf events of %s to the ring of CPU %u",
					      tracepoint->name, i);
		if (!watched)
			s->watched[s->nwatched++] = fd;
		watched = true;
	}
	return 0;
}

static int enable(struct ip_record_source *source, enum ip_record_part part,
		  const struct ip_tracepoint *tracepoint)
{
	struct perf_source *s = of(source);

	if (part == IP_RECORD_TARGET && (tracepoint->group == IP_KERNEL_GROUP_SYSCALLS ||
					 tracepoint->group == IP_KERNEL_GROUP_FAULTS)) {
		if (ip_array_grow(&s->filtered, s->nfiltered, sizeof(*s->filtered)) < 0)
			return -1;
		s->filtered[s->nfiltered++] = tracepoint;
		return 0;
	}
	if (open_tracepoint(s, part, tracepoint) < 0)
		return -1;
	if (s->nwatched && ip_perf_event_has_others(s->watched[s->nwatched - 1], s->filter))
		return ip_error("a BPF program of another tool stands at %s:%s, and may keep its "
				"events from perf: end that tool (bpftool perf show)",
				tracepoint->system, tracepoint->name);
	return 0;
}

static int limit(struct ip_record_source *source, pid_t pid)
{
	return ip_thread_filter_add(of(source)->filter, pid);
}

static int list(const struct ip_record_source *source, int (*each)(void *context, pid_t tid),
		void *context)
{
	return ip_thread_filter_list(of(source)->filter, each, context);
}

static struct ip_thread_filter *threads(const struct ip_record_source *source)
{
	return of(source)->filter;
}

/* Events go on and off one after the other, which takes long where BPF programs are among them: a
 * part has all that is of one time, or nothing. */
static int switch_on(struct ip_record_source *source, enum ip_record_part part)
{
	struct perf_source *s = of(source);

	for (size_t i = 0; i < s->nevents; i++)
		if (s->events[i].part == part &&
		    ioctl(s->events[i].fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
			return ip_error_errno("cannot switch perf events on");
	for (size_t i = 0; part == IP_RECORD_TARGET && i < s->nfiltered; i++)
		if (ip_thread_filter_record(s->filter, s->filtered[i]) < 0)
			return -1;
	for (unsigned i = 0; i < s->ncpus; i++)
		s->cpus[part][i].ring.from = ip_tsc();
	return 0;
}

static int switch_off(struct ip_record_source *source)
{
	struct perf_source *s = of(source);
	const uint64_t now = ip_tsc();

	for (unsigned part = 0; part < IP_RECORD_PARTS; part++)
		for (unsigned i = 0; s->cpus[part] && i < s->ncpus; i++)
			s->cpus[part][i].ring.until = now;
	for (size_t i = 0; i < s->nevents; i++)
		if (ioctl(s->events[i].fd, PERF_EVENT_IOC_DISABLE, 0) < 0)
			return ip_error_errno("cannot switch perf events off");
	if (s->filter)
		ip_thread_filter_stop(s->filter);
	return 0;
}

static int poll_fd(const struct ip_record_source *source, enum ip_record_part part, unsigned cpu)
{
	return of(source)->cpus[part][cpu].fd;
}

static int drain(struct ip_record_source *source, enum ip_record_part part, unsigned number,
		 const struct ip_record_sink *taker)
{
	struct perf_source *s = of(source);
	struct cpu *cpu = &s->cpus[part][number];

	return cpu->map ? ip_perf_ring_read(&cpu->ring, s->batch, &s->clock, taker) : 0;
}

static int32_t field(const uint8_t *event, size_t at)
{
	int32_t value;

	memcpy(&value, event + sizeof(struct ip_kernel_event_header) + at, sizeof(value));
	return value;
}

static bool wants(const struct ip_record_source *source, const uint8_t *event, size_t size)
{
	const struct ip_thread_filter *filter = of(source)->filter;
	struct ip_kernel_event_header h;

	memcpy(&h, event, sizeof(h));
	if (ip_thread_filter_has(filter, h.tid))
		return true;
	if (size != sizeof(h) + ip_kernel_fields_size(h.id))
		return false;
	switch (h.id) {
	case IP_KERNEL_SCHED_SWITCH:
		return ip_thread_filter_has(filter, field(event, SWITCH_PREV_TID)) ||
		       ip_thread_filter_has(filter, field(event, SWITCH_NEXT_TID));
	case IP_KERNEL_SCHED_WAKING:
	case IP_KERNEL_SCHED_WAKEUP:
	case IP_KERNEL_SCHED_WAKEUP_NEW:
		return ip_thread_filter_has(filter, field(event, WOKEN_TID));
	default:
		return false;
	}
}

static bool misses(struct ip_record_source *source)
{
	struct perf_source *s = of(source);
	const char *why = NULL;
	char online[1024];

	for (size_t i = 0; i < s->nwatched && !why; i++)
		if (ip_perf_event_has_others(s->watched[i], s->filter))
			why = "a BPF program of another tool may keep the kernel's events from "
			      "perf";
	read_online(online);
	if (!why && strcmp(online, s->online))
		why = "CPUs have come or gone, which perf events do not follow";
	if (why && !s->told)
		ip_notice("%s: what they tell is unknown for that time", why);
	s->told |= why != NULL;
	return why;
}

static uint64_t lost(const struct ip_record_source *source, enum ip_record_part part, unsigned cpu)
{
	return ip_perf_ring_lost(&of(source)->cpus[part][cpu].ring);
}

/* (The kernel does not give the maps of rings to forked processes.) */
static void leave(const struct ip_record_source *source)
{
	const struct perf_source *s = of(source);

	for (size_t i = 0; i < s->nevents; i++)
		close(s->events[i].fd);
	for (unsigned part = 0; part < IP_RECORD_PARTS; part++)
		for (unsigned i = 0; s->cpus[part] && i < s->ncpus; i++)
			if (s->cpus[part][i].fd >= 0)
				close(s->cpus[part][i].fd);
	if (s->filter)
		ip_thread_filter_leave(s->filter);
}

static void destroy(struct ip_record_source *source)
{
	struct perf_source *s = of(source);

	for (unsigned part = 0; part < IP_RECORD_PARTS; part++)
		for (unsigned i = 0; s->cpus[part] && i < s->ncpus; i++)
			if (s->cpus[part][i].map)
				munmap(s->cpus[part][i].map, s->map_size[part]);
	for (size_t i = 0; i < s->nevents; i++)
		close(s->events[i].fd);
	for (unsigned part = 0; part < IP_RECORD_PARTS; part++) {
		for (unsigned i = 0; s->cpus[part] && i < s->ncpus; i++)
			if (s->cpus[part][i].fd >= 0)
				close(s->cpus[part][i].fd);
		free(s->cpus[part]);
	}
	ip_thread_filter_destroy(s->filter);
	free(s->events);
	free(s->watched);
	free(s->filtered);
	free(s->batch);
	free(s);
}

struct ip_record_source *ip_perf_source_create(const struct ip_event_layout *layout)
{
	static const struct ip_record_source_ops ops = {.name = "perf",
							.imprecision = IMPRECISE_TICKS,
							.make = make,
							.enable = enable,
							.limit = limit,
							.list = list,
							.threads = threads,
							.switch_on = switch_on,
							.switch_off = switch_off,
							.poll_fd = poll_fd,
							.drain = drain,
							.wants = wants,
							.misses = misses,
							.lost = lost,
							.leave = leave,
							.destroy = destroy};
	struct perf_source *s = calloc(1, sizeof(*s));

	if (s)
		s->batch = malloc(sizeof(*s->batch));
	if (!s || !s->batch) {
		free(s);
		ip_error("out of memory");
		return NULL;
	}
	s->source.ops = &ops;
	s->layout = layout;
	s->ncpus = ip_record_cpus();
	s->page = sysconf(_SC_PAGESIZE);
	read_online(s->online);
	if (ip_perf_clock_begin(&s->clock) == 0)
		return &s->source;
	destroy(&s->source);
	return NULL;
}

int ip_perf_source_check(const struct ip_event_layout *layout)
{
	const struct ip_tracepoint *tracepoint =
		ip_event_layout_tracepoint(layout, IP_KERNEL_SCHED_SWITCH);
	struct ip_thread_filter *filter;
	struct ip_perf_clock clock = {0};
	_cleanup_close_ int fd = -1;

	if (!tracepoint)
		return ip_error("this kernel has no tracepoint sched:sched_switch");
	fd = ip_perf_event_open_hook(tracepoint);
	filter = fd < 0 ? NULL : ip_thread_filter_create(layout);
	if (!filter || ip_perf_clock_begin(&clock) < 0) {
		ip_thread_filter_destroy(filter);
		return -1;
	}
	ip_thread_filter_destroy(filter);
	return 0;
}
