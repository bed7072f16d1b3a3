/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens events of perf_event_open(2).
 */
#include "kernel_trace/perf/perf_event.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "kernel_trace/event_layout.h"
#include "kernel_trace/perf/thread_filter.h"

#define PARANOID      "/proc/sys/kernel/perf_event_paranoid"
#define PROGRAMS_MOST 64u /* of a tracepoint (BPF_TRACE_MAX_PROGS of the kernel) */

static int open_event(struct perf_event_attr *attr, int cpu)
{
	attr->size = sizeof(*attr);
	attr->disabled = 1;
	return syscall(SYS_perf_event_open, attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

int ip_perf_event_open_samples(unsigned type, unsigned config, unsigned cpu, size_t size)
{
	struct perf_event_attr attr = {.type = type,
				       .config = config,
				       .sample_period = 1,
				       .sample_type = PERF_SAMPLE_TIME | PERF_SAMPLE_RAW,
				       .watermark = 1,
				       .wakeup_watermark = size / 4,
				       .use_clockid = 1,
				       .clockid = CLOCK_MONOTONIC_RAW};

	return open_event(&attr, cpu);
}

int ip_perf_event_error(const char *what)
{
	const int error = errno;
	char level[16] = "";
	_cleanup_close_ int fd = -1;

	if (error == EMFILE || error == ENFILE)
		return ip_error("cannot open perf events of %s: too many open files; allow more "
				"(ulimit -n)",
				what);
	if (error != EACCES && error != EPERM) {
		errno = error;
		return ip_error_errno("cannot open perf events of %s", what);
	}
	fd = open(PARANOID, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, level, sizeof(level) - 1) > 0)
		level[strcspn(level, "\n")] = '\0';
	return ip_error("cannot open perf events of %s, which takes root or CAP_PERFMON%s%s%s",
			what, *level ? " (kernel.perf_event_paranoid is " : "", level,
			*level ? ")" : "");
}

int ip_perf_event_open_hook(const struct ip_tracepoint *tracepoint)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_TRACEPOINT, .config = tracepoint->type};
	const int cpu = sched_getcpu(), fd = open_event(&attr, cpu < 0 ? 0 : cpu);

	return fd < 0 ? ip_perf_event_error(tracepoint->name) : fd;
}

bool ip_perf_event_has_others(int event, const struct ip_thread_filter *filter)
{
	/* ids_len, prog_cnt, and the ids behind them */
	uint32_t room[sizeof(struct perf_event_query_bpf) / sizeof(uint32_t) + PROGRAMS_MOST] = {0};
	struct perf_event_query_bpf *query = (struct perf_event_query_bpf *)room;

	query->ids_len = PROGRAMS_MOST;
	if (ioctl(event, PERF_EVENT_IOC_QUERY_BPF, query) < 0)
		return errno == ENOSPC;
	for (uint32_t i = 0; i < query->prog_cnt && i < PROGRAMS_MOST; i++)
		if (!ip_thread_filter_owns(filter, query->ids[i]))
			return true;
	return false;
}
