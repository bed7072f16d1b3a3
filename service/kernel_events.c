/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel events of a service.
 */
#include "service/kernel_events.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/notice.h"
#include "common/proc.h"
#include "common/trace/trace_segments.h"
#include "trace_writer/rotate.h"
#include "trace_writer/writer.h"

#define RATE_NS 10000000ull /* between two readings of the clock, at least, for its rate */

struct ip_service_kernel {
	struct ip_kernel_recorder *recorder;
	struct ip_member_dirs *dirs;
	uint64_t *written;
	unsigned groups;
	struct ip_clock_reading start;
	struct ip_kernel_stats stats; /* what was counted so far */
	bool failed;
	bool keeps;			      /* in memory */
	struct ip_service_kernel_quota quota; /* segments 0: there are none */
	/* bytes when a segment began, by number mod their number */
	uint64_t begins[IP_TRACE_SEGMENTS_ROOM];
	uint32_t first, newest;
};

static int describe(struct ip_service_kernel *k)
{
	struct ip_clock_reading now;
	struct utsname u = {0};
	struct ip_ctf_metadata m;

	ip_clock_read(&now);
	uname(&u);
	m = (struct ip_ctf_metadata){.tsc_hz = ip_clock_hz(&k->start, &now, RATE_NS),
				     .tsc_start = k->start.tsc,
				     .start_realtime_ns = k->start.realtime_ns,
				     .host = u.nodename};
	return ip_kernel_recorder_describe(k->recorder, &m);
}

static int set_quota(struct ip_service_kernel *k, const struct ip_service_kernel_quota *quota)
{
	bool tenth;

	k->quota = *quota;
	if (!k->quota.most)
		k->quota.most = ip_trace_usual_max_size(ip_member_dirs_fd(k->dirs), &tenth);
	if (!k->quota.segments || k->quota.most / k->quota.segments >= IP_TRACE_PIECE_LEAST)
		return 0;
	return ip_error("events of the kernel have %lu bytes in %u pieces: a piece must hold 256 "
			"KiB (give more --max-size, or fewer pieces)",
			k->quota.most, k->quota.segments);
}

static int create(struct ip_service_kernel *k, const struct ip_kernel_options *options)
{
	if (ip_clock_selected() != IP_CLOCK_TSC)
		return ip_error("kernel events have the times of the TSC, which cannot be trusted "
				"here: leave --kernel out, or take --clock tsc all the same");
	ip_clock_read(&k->start);
	return ip_kernel_recorder_create(options, ip_member_dirs_fd(k->dirs), &k->recorder);
}

static int begin(struct ip_service_kernel *k)
{
	if (describe(k) < 0 || ip_kernel_recorder_start(k->recorder) < 0)
		return -1;
	return ip_member_dirs_set_kernel(k->dirs, k->groups, 0, 0, NULL);
}

int ip_service_kernel_begin(const struct ip_kernel_options *options,
			    const struct ip_service_kernel_quota *quota,
			    struct ip_member_dirs *dirs, uint64_t *written,
			    struct ip_kernel_stats *stats, struct ip_service_kernel **ret)
{
	struct ip_service_kernel *k = calloc(1, sizeof(*k));
	int created;

	if (!k)
		return ip_error("out of memory");
	k->dirs = dirs;
	k->written = written;
	k->groups = options->groups;
	k->keeps = options->keep;
	if (set_quota(k, quota) < 0) {
		free(k);
		return -1;
	}
	created = create(k, options);
	if (created == 0 && begin(k) == 0) {
		if (k->keeps)
			ip_notice("events of the kernel of several processes are in the trace at "
				  "the end, and not in what iprobe snapshot writes before");
		*ret = k;
		return 0;
	}
	ip_kernel_recorder_destroy(k->recorder);
	free(k);
	return created < 0 && options->optional ? ip_kernel_go_without(stats) : -1;
}

int ip_service_kernel_add(struct ip_service_kernel *k, const struct ip_service_process *process)
{
	if (!k || k->failed || ip_kernel_recorder_add(k->recorder, process->pid) == 0)
		return 0;
	return ip_proc_started_at(process->pid) == process->started ? -1 : 0;
}

/* The next segment begins when the newest one has its share. The oldest ones are removed so that a
 * whole one has room. */
static void rotate(struct ip_service_kernel *k)
{
	const struct ip_service_kernel_quota *quota = &k->quota;
	const uint64_t share = quota->segments ? quota->most / quota->segments : 0;
	const uint64_t bytes = k->stats.bytes;

	if (!share || bytes - k->begins[k->newest % IP_TRACE_SEGMENTS_ROOM] < share)
		return;
	k->begins[++k->newest % IP_TRACE_SEGMENTS_ROOM] = bytes;
	while (k->first < k->newest &&
	       (k->newest - k->first >= quota->segments ||
		bytes - k->begins[k->first % IP_TRACE_SEGMENTS_ROOM] > quota->most - share))
		k->first++;
	ip_kernel_recorder_keep(k->recorder, k->first, k->newest);
}

int ip_service_kernel_step(struct ip_service_kernel *k)
{
	const uint64_t before = k ? k->stats.bytes : 0;

	if (!k || k->failed)
		return 0;
	k->failed = ip_kernel_recorder_stats(k->recorder, &k->stats) < 0;
	__atomic_fetch_add(k->written, k->stats.bytes - before, __ATOMIC_RELAXED);
	rotate(k);
	return k->failed ? -1 : 0;
}

bool ip_service_kernel_no_space(const struct ip_service_kernel *k)
{
	return k->stats.no_space;
}

void ip_service_kernel_leave(const struct ip_service_kernel *k)
{
	if (k)
		ip_kernel_recorder_leave(k->recorder);
}

static void set_room(struct ip_service_kernel *k)
{
	const uint64_t written = __atomic_load_n(k->written, __ATOMIC_RELAXED);

	ip_kernel_recorder_set_room(k->recorder,
				    k->quota.most > written ? k->quota.most - written : 0);
}

int ip_service_kernel_end(struct ip_service_kernel *k, struct ip_kernel_stats *ret)
{
	_cleanup_free_ char *why = NULL;
	int done, failed;

	if (!k)
		return 0;
	failed = k->failed;
	if (k->keeps)
		set_room(k);
	done = ip_kernel_recorder_stop(k->recorder);
	if (done < 0)
		why = strdup(ip_error_message());
	/* what was recorded until it failed is counted, and can be read */
	k->failed = false;
	if (ip_service_kernel_step(k) < 0)
		done = -1;
	if (describe(k) < 0)
		done = -1;
	if (ip_member_dirs_set_kernel(k->dirs, k->groups, k->stats.events, k->stats.lost,
				      k->stats.source) < 0)
		done = -1;
	if (why)
		ip_error("%s", why);
	*ret = k->stats;
	ip_kernel_recorder_destroy(k->recorder);
	free(k);
	return failed ? 0 : done;
}
