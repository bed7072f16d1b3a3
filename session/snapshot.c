/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots: both ends. The session writes a snapshot, since it knows what the numbers in the rings
 * mean. The threads go on meanwhile.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "access/delegation.h"
#include "common/cleanup.h"
#include "common/dir.h"
#include "common/error.h"
#include "session/kernel_events.h"
#include "session/session_private.h"

static int write_snapshot(struct ip_session *s, struct ip_trace *trace, uint64_t since,
			  struct ip_flight_recorder_counts *counts)
{
	if (ip_collector_snapshot(s->collector, trace, since, counts) < 0)
		return -1;
	ip_trace_add_overwritten(trace, counts->overwritten);
	ip_session_add_names(s, trace);
	if (ip_session_kernel_snapshot(s, trace) < 0)
		return -1;
	return ip_trace_finish(trace, counts->events, counts->lost, s->area->header->unserved,
			       counts->invalid, "snapshot");
}

int ip_session_snapshot(struct ip_session *s, int directory, const char *name,
			const struct ip_control_request *request, struct ip_control_reply *reply)
{
	const uint64_t since = ip_clock_selected() == IP_CLOCK_MONOTONIC ? request->since_raw_ns
									 : request->since_tsc;
	const char *program = ip_controllers_program(s);
	struct ip_dir_place place;
	struct ip_flight_recorder_counts counts;
	struct ip_trace *trace;
	bool down;
	int made;

	if (program)
		return ip_error("pid %d: its session is that of an %s (pid %d), which records no "
				"events: end it first",
				s->target->pid, program, getpid());
	if (!s->options->overwrite)
		return ip_error("pid %d: its session keeps everything, in %s: only one with "
				"--overwrite has snapshots",
				s->target->pid, s->options->dir);
	if (!s->collector || !s->summary->recorded)
		return ip_error("pid %d: its session does not record yet: try again",
				s->target->pid);
	if (directory < 0 || !ip_dir_is_name(name))
		return ip_error("the request is damaged");
	/* the request's descriptor is closed together with the request */
	place.parent = fcntl(directory, F_DUPFD_CLOEXEC, 0);
	if (place.parent < 0)
		return ip_error_errno("cannot hold the directory of %s", name);
	strcpy(place.name, name);
	down = ip_delegation_put_down();
	made = ip_trace_clone(s->trace, &place, &trace);
	ip_delegation_take_up(down);
	if (made < 0)
		return -1;
	if (write_snapshot(s, trace, since, &counts) < 0) {
		_cleanup_free_ char *why = strdup(ip_error_message());

		ip_trace_discard(trace);
		return ip_error("%s", why ? why : "out of memory");
	}
	ip_trace_close(trace);
	reply->events = counts.events;
	reply->lost = counts.lost;
	reply->invalid = counts.invalid;
	reply->overwritten = counts.overwritten;
	reply->torn = counts.torn;
	return 0;
}

int ip_session_ask_snapshot(pid_t pid, pid_t by, const char *dir,
			    const struct ip_clock_reading *since, struct ip_session_snapshot *ret)
{
	const struct ip_control_request request = {.flags = IP_CONTROL_SNAPSHOT,
						   .since_tsc = since ? since->tsc : 0,
						   .since_raw_ns = since ? since->raw_ns : 0};
	_cleanup_free_ char *text = NULL, *nobody = NULL;
	struct ip_control_reply reply;
	struct ip_dir_place place;
	int done;

	if (asprintf(&nobody, "iprobe attach --overwrite %d begins one", pid) < 0) {
		nobody = NULL;
		return ip_error("out of memory");
	}
	if (ip_dir_locate(dir, &place) < 0)
		return -1;
	done = ip_session_request(pid, by, &request, place.name, place.parent, nobody, &reply,
				  &text);
	ip_dir_place_close(&place);
	if (done < 0)
		return -1;
	*ret = (struct ip_session_snapshot){reply.events, reply.lost, reply.invalid,
					    reply.overwritten, reply.torn};
	return 0;
}
