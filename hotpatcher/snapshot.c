/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots: both ends. The session writes them, since it knows what the numbers in the rings mean; while it does the threads go on.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/permit.h"
#include "hotpatcher/session_internal.h"

/* Whether both are the same directory: that of the session must stay its own. */
static bool is_same(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int write_snapshot(struct ip_session *s, struct ip_trace *trace, struct ip_window_counts *counts)
{
	if (ip_collector_snapshot(s->collector, trace, counts) < 0)
		return -1;
	ip_trace_add_overwritten(trace, counts->overwritten);
	ip_session_add_names(s, trace);
	return ip_trace_finish(trace, counts->events, counts->lost, s->area->header->unserved, "snapshot");
}

int ip_session_snapshot(struct ip_session *s, const char *dir, struct ip_control_reply *reply)
{
	_cleanup_free_ char *old = NULL;
	struct ip_window_counts counts;
	struct ip_trace *trace;
	bool down;
	int made;

	if (s->options->fperf)
		return ip_error("pid %d: its session is that of an fperf (pid %d), which records no events: "
				"end it first",
				s->target->pid, getpid());
	if (!s->options->overwrite)
		return ip_error("pid %d: its session keeps everything, in %s: only one with --overwrite has "
				"snapshots",
				s->target->pid, s->options->dir);
	if (!s->collector || !s->summary->recorded)
		return ip_error("pid %d: its session does not record yet: try again", s->target->pid);
	if (*dir != '/' || asprintf(&old, "%s.old", dir) < 0)
		return ip_error("the request is damaged");
	/* what is at DIR.old would be removed */
	if (is_same(dir, s->options->dir) || is_same(old, s->options->dir))
		return ip_error("pid %d: its session itself writes to %s: name another directory with -o",
				s->target->pid, s->options->dir);
	down = ip_permit_put_down();
	made = ip_trace_clone(s->trace, dir, &trace);
	ip_permit_take_up(down);
	if (made < 0)
		return -1;
	if (write_snapshot(s, trace, &counts) < 0) {
		_cleanup_free_ char *why = strdup(ip_error_message());

		ip_trace_discard(trace);
		return ip_error("%s", why ? why : "out of memory");
	}
	ip_trace_close(trace);
	reply->events = counts.events;
	reply->lost = counts.lost;
	reply->overwritten = counts.overwritten;
	reply->torn = counts.torn;
	return 0;
}

int ip_session_ask_snapshot(pid_t pid, const char *dir, struct ip_session_snapshot *ret)
{
	_cleanup_free_ char *text = NULL, *nobody = NULL;
	struct ip_control_reply reply;

	if (asprintf(&nobody, "iprobe attach --overwrite %d begins one", pid) < 0) {
		nobody = NULL;
		return ip_error("out of memory");
	}
	if (ip_session_request(pid, IP_CONTROL_SNAPSHOT, dir, nobody, &reply, &text) < 0)
		return -1;
	*ret = (struct ip_session_snapshot){reply.events, reply.lost, reply.overwritten, reply.torn};
	return 0;
}
