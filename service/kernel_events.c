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
#include "common/proc.h"

#define RATE_NS 10000000ull /* between two readings of the clock, at least, for its rate */

struct ip_service_kernel {
	struct ip_kernel_recorder *recorder;
	struct ip_member_dirs *dirs;
	uint64_t *written;
	unsigned groups;
	struct ip_clock_reading start;
	struct ip_kernel_stats stats; /* what was counted so far */
	bool failed;
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

int ip_service_kernel_begin(const struct ip_kernel_options *options, struct ip_member_dirs *dirs,
			    uint64_t *written, struct ip_kernel_stats *stats,
			    struct ip_service_kernel **ret)
{
	struct ip_service_kernel *k = calloc(1, sizeof(*k));
	int created;

	if (!k)
		return ip_error("out of memory");
	k->dirs = dirs;
	k->written = written;
	k->groups = options->groups;
	created = create(k, options);
	if (created == 0 && begin(k) == 0) {
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

int ip_service_kernel_step(struct ip_service_kernel *k)
{
	const uint64_t before = k ? k->stats.bytes : 0;

	if (!k || k->failed)
		return 0;
	k->failed = ip_kernel_recorder_stats(k->recorder, &k->stats) < 0;
	__atomic_fetch_add(k->written, k->stats.bytes - before, __ATOMIC_RELAXED);
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

int ip_service_kernel_end(struct ip_service_kernel *k, struct ip_kernel_stats *ret)
{
	_cleanup_free_ char *why = NULL;
	int done, failed;

	if (!k)
		return 0;
	failed = k->failed;
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
