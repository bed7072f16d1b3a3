/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests for what a session has counted and measured up to now: both ends. The iprobe that has
 * the session writes the counts into the trace. The iprobe that asks reads them there.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "hotpatcher/inject/area_renew.h"
#include "hotpatcher/plan/bounds.h"
#include "hotpatcher/ptrace/stop.h"
#include "session/session_private.h"

#define TIMEOUT_NS 5000000000ull /* with a session that does not listen */

int ip_session_serve_counts(struct ip_session *s)
{
	const char *program = ip_controllers_program(s);

	if (program)
		return ip_error("pid %d: its session is that of an %s (pid %d), which keeps no "
				"histograms: end it first",
				s->target->pid, program, getpid());
	if (!s->counters)
		return ip_error(
			"pid %d: its session (of iprobe pid %d) keeps no histograms: end it, "
			"then iprobe attach --payload hist %d begins one that does",
			s->target->pid, getpid(), s->target->pid);
	if (ip_session_save_counts(s) < 0 || ip_trace_sync(s->trace) < 0) {
		s->write_failed = true;
		return -1;
	}
	return 0;
}

/* Opens the area by which the session of a target can be asked. 0; 1: there is none, since the
 * target has no runtime, or was forked and has no ring memory of its own; -1 with an error.
 * *ret_shares: the area is that of the process that the target was forked from. */
static int open_area(const struct ip_target *target, struct ip_area **ret, bool *ret_shares)
{
	*ret_shares = false;
	if (!target->has_runtime || (ip_area_renew_is_needed(target, ret_shares) && !*ret_shares))
		return 1;
	return ip_area_open(target, ret);
}

/* Whether the process has a flight recorder whose iprobe was killed: its hooks still record. */
static bool is_left_recording(const struct ip_target *target, const struct ip_area *area)
{
	const uint32_t session = __atomic_load_n(&area->header->session, __ATOMIC_RELAXED);
	struct ip_rt_private own;
	struct ip_gate gate;

	return session && !ip_area_has_session(area) && ip_bounds_read(target, &own) == 0 &&
	       own.modes & IP_MODE_OVERWRITE && !(own.modes & IP_MODE_PAYLOADS) &&
	       ip_target_read(target, target->anchor.gate, &gate, sizeof(gate)) == 0 &&
	       gate.session == session;
}

/* Asks the session of a process, that of `by` if it is not 0. 0: done; 1 with an error: no session
 * listens; -1 with an error. */
static int request_of(pid_t pid, pid_t by, struct ip_control_request request, const char *text,
		      int directory, const char *nobody, struct ip_control_reply *ret,
		      char **ret_text, size_t *ret_size)
{
	struct ip_target *target;
	struct ip_area *area = NULL;
	bool shares;
	int done;

	if (ip_target_open(pid, true, &target) < 0)
		return -1;
	done = open_area(target, &area, &shares);
	if (done == 0) {
		request.inner_pid = target->inner_pid;
		done = ip_control_ask(area, pid, by, &request, text, directory, ret, ret_text,
				      ret_size);
	}
	if (done > 0 && request.flags & IP_CONTROL_SNAPSHOT && area &&
	    is_left_recording(target, area))
		ip_error("pid %d: the iprobe of its flight recorder was killed: iprobe attach "
			 "--resume %d goes on with it, then snapshots are to be had again",
			 pid, pid);
	else if (done > 0)
		ip_error("pid %d has no session that could be asked: %s", pid, nobody);
	ip_area_close(area);
	ip_target_close(target);
	return done;
}

int ip_session_request(pid_t pid, pid_t by, const struct ip_control_request *request,
		       const char *text, int directory, const char *nobody,
		       struct ip_control_reply *ret, char **ret_text)
{
	struct ip_control_request whole = *request;
	size_t size;

	whole.magic = IP_CONTROL_MAGIC;
	whole.max_stop_ns = 1;
	return request_of(pid, by, whole, text, directory, nobody, ret, ret_text, &size) ? -1 : 0;
}

int ip_session_ask_change(pid_t pid, pid_t by, const char *selection, uint64_t max_stop_ns,
			  struct ip_session_summary *ret)
{
	const struct ip_control_request request = {.magic = IP_CONTROL_MAGIC,
						   .max_stop_ns = max_stop_ns};
	_cleanup_free_ char *text = NULL, *answer = NULL;
	struct ip_selection *parsed;
	struct ip_control_reply reply = {0};
	size_t size;

	*ret = (struct ip_session_summary){.pid = pid};
	if (ip_selection_parse(selection, &parsed) < 0)
		return -1;
	text = ip_selection_text(parsed);
	ip_selection_destroy(parsed);
	if (!text || request_of(pid, by, request, text, -1, "there is nothing to change", &reply,
				&answer, &size)) {
		ret->in_vain = reply.failed == IP_CONTROL_FAILED_NOW;
		return -1;
	}
	return ip_session_note_change(ret, &reply, answer, size);
}

int ip_session_ask_counts(pid_t pid, char **ret_dir)
{
	const struct ip_control_request request = {.flags = IP_CONTROL_COUNTS};
	struct ip_control_reply reply;

	return ip_session_request(pid, 0, &request, "", -1,
				  "iprobe attach --payload hist begins one", &reply, ret_dir);
}

/* A forked process may be recorded by the session of the process that it was forked from. A session
 * that makes way for others counts as none: it measures no more than its rule asks for. */
static int has_session(pid_t pid)
{
	struct ip_target *target;
	struct ip_area *area = NULL;
	bool shares;
	int found;

	if (ip_target_open(pid, true, &target) < 0)
		return -1;
	found = open_area(target, &area, &shares);
	if (found == 0)
		found = shares ? ip_session_is_followed(target, area)
			       : ip_area_has_session(area) && !ip_session_yields(area);
	else if (found > 0)
		found = 0;
	ip_area_close(area);
	ip_target_close(target);
	return found;
}

/* A session that has just begun does not listen yet; a session that is about to end does not listen
 * any more. */
int ip_session_join(pid_t pid, char **ret_dir)
{
	const struct ip_control_request request = {
		.magic = IP_CONTROL_MAGIC, .flags = IP_CONTROL_COUNTS, .max_stop_ns = 1};
	const struct timespec nap = {.tv_nsec = 10000000};
	uint64_t limit = ip_now_ns() + TIMEOUT_NS;
	struct ip_control_reply reply;
	size_t size;

	for (;;) {
		int done = has_session(pid);

		if (done <= 0)
			return done < 0 ? -1 : 1;
		done = request_of(pid, 0, request, "", -1,
				  "it is stopped, elsewhere, or of another version: end it first",
				  &reply, ret_dir, &size);
		if (done <= 0)
			return done;
		if (ip_interrupted || ip_now_ns() > limit)
			return -1;
		nanosleep(&nap, NULL);
	}
}
