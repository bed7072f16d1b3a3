/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session has counted and measured up to now: both ends. Its iprobe writes the counts into the trace; who asks reads them there.
 */
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/session_internal.h"

int ip_session_serve_counts(struct ip_session *s)
{
	if (!s->counters)
		return ip_error("pid %d: its session keeps no histograms: iprobe attach --payload hist "
				"begins one that does",
				s->target->pid);
	if (ip_session_save_counts(s) < 0 || ip_trace_sync(s->trace) < 0) {
		s->write_failed = true;
		return -1;
	}
	return 0;
}

int ip_session_request(pid_t pid, uint32_t flags, const char *text, const char *nobody,
		       struct ip_control_reply *ret, char **ret_text)
{
	struct ip_control_request request = {.magic = IP_CONTROL_MAGIC, .flags = flags, .max_stop_ns = 1};
	struct ip_target *target;
	struct ip_area *area = NULL;
	size_t size;
	int done = -1;

	if (ip_target_open(pid, true, &target) < 0)
		return -1;
	if (!target->has_runtime || ip_area_open(target, &area) == 0) {
		if (area)
			request.inner_pid = target->inner_pid;
		done = area ? ip_control_ask(area, pid, ip_proc_status(pid, "Uid"), &request, text, ret,
					     ret_text, &size)
			    : 1;
		if (done > 0)
			done = ip_error("pid %d has no session that could be asked: %s", pid, nobody);
	}
	ip_area_close(area);
	ip_target_close(target);
	return done;
}

int ip_session_ask_counts(pid_t pid, char **ret_dir)
{
	struct ip_control_reply reply;

	return ip_session_request(pid, IP_CONTROL_COUNTS, "", "iprobe attach --payload hist begins one",
				  &reply, ret_dir);
}
