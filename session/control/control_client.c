/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the iprobe that has the session of a target.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "access/delegation.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "common/notice.h"
#include "hotpatcher/ptrace/stop.h"
#include "session/session_private.h"
#include "session/update.h"

#define TIMEOUT_NS 5000000000ull  /* with a session that does not listen */
#define YIELD_NS   70000000000ull /* longer than a session tries to put its sites back */

/* Whether the iprobe that has the session is in another network namespace, as far as we can see
 * that. */
static bool is_elsewhere(const struct ip_session *s)
{
	char name[64], ours[64] = "", theirs[64] = "";

	snprintf(name, sizeof(name), "/proc/%d/ns/net", ip_area_owner(s->area));
	return readlink("/proc/self/ns/net", ours, sizeof(ours) - 1) > 0 &&
	       readlink(name, theirs, sizeof(theirs) - 1) > 0 && strcmp(ours, theirs);
}

/* Sets the error that explains why no iprobe listens, although the session is taken. */
static int no_answer(const struct ip_session *s)
{
	pid_t owner = ip_area_owner(s->area);

	if (!owner)
		return ip_error("pid %d (or a process it was forked from): its ring memory is "
				"locked, by a process that is not the iprobe which it names: the "
				"process itself, or its user, keeps others from recording it",
				s->target->pid);
	if (is_elsewhere(s))
		return ip_error("pid %d has a session already, by iprobe pid %d, which lives in "
				"another network namespace: ask it from there (nsenter -n -t %d)",
				s->target->pid, owner, owner);
	return ip_error("pid %d (or a process it was forked from) has a session already, by iprobe "
			"pid %d, which does not answer: it is about to end, stopped, in another "
			"network namespace, or of another version; end that first",
			s->target->pid, owner);
}

int ip_session_note_change(struct ip_session_summary *sum, const struct ip_control_reply *reply,
			   const char *text, size_t size)
{
	sum->threads = reply->threads;
	sum->pages = reply->pages;
	sum->functions = reply->functions;
	sum->sites = reply->sites;
	sum->left_out = reply->left_out;
	sum->foreign = reply->foreign;
	ip_stop_log_clear(&sum->stops);
	for (size_t i = 0; i < reply->nstops; i++) {
		const struct ip_stop_record stop = {.ns = reply->stop_ns[i],
						    .failed = reply->failed_stops >> i & 1};

		ip_stop_log_add(&sum->stops, &stop);
	}
	sum->stops.more = reply->more_stops;
	sum->stops.more_ns = reply->more_ns;
	sum->change = (struct ip_session_change){.done = true,
						 .functions_added = reply->functions_added,
						 .functions_removed = reply->functions_removed,
						 .sites_added = reply->sites_added,
						 .sites_removed = reply->sites_removed,
						 .dir = strdup(text)};
	if (strlen(text) + 1 < size)
		sum->change.unused = strdup(text + strlen(text) + 1);
	return sum->change.dir ? 0 : ip_error("out of memory");
}

/* Asks once. */
static int ask(struct ip_session *s, bool dry_run)
{
	const struct ip_session_options *o = s->options;
	struct ip_control_request request = {.magic = IP_CONTROL_MAGIC,
					     .inner_pid = s->target->inner_pid,
					     .string_limit = o->values.string_limit,
					     .max_stop_ns = o->max_stop_ns,
					     .flags = (o->values.args ? IP_CONTROL_ARGS : 0) |
						      (o->values.retval ? IP_CONTROL_RETVAL : 0) |
						      (dry_run ? IP_CONTROL_DRY_RUN : 0)};
	_cleanup_free_ char *selection = ip_selection_text(s->selections.items[0].selection),
			    *text = NULL;
	struct ip_control_reply reply;
	size_t size;
	int done;

	if (!selection)
		return -1;
	done = ip_control_ask(s->area, s->target->pid, 0, &request, selection, -1, &reply, &text,
			      &size);
	if (done)
		return done;
	return ip_session_note_change(s->summary, &reply, text, size);
}

uint32_t ip_session_yields(const struct ip_area *area)
{
	const uint32_t yields = __atomic_load_n(&area->header->yields, __ATOMIC_ACQUIRE);

	return yields == __atomic_load_n(&area->header->session, __ATOMIC_RELAXED) ? yields : 0;
}

int ip_session_take_over(struct ip_session *s, uint32_t number)
{
	const struct timespec nap = {.tv_nsec = 10000000};
	const uint64_t limit = ip_now_ns() + YIELD_NS;
	struct ip_area_header *h = s->area->header;
	const pid_t owner = ip_area_owner(s->area);
	uint32_t yields = number;

	/* another has had it end meanwhile, or it has ended by itself: a session that came after
	 * it may be a recording */
	if (!__atomic_compare_exchange_n(&h->yields, &yields, 0, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return 0;
	ip_notice("pid %d: iprobe pid %d watches it for a rule of iprobed: the watch ends for this "
		  "recording, and begins again after it",
		  s->target->pid, owner);
	__atomic_store_n(&h->ended, number, __ATOMIC_RELEASE);
	ip_control_wake(s->area, s->target->pid);
	while (ip_area_has_session(s->area) &&
	       __atomic_load_n(&h->session, __ATOMIC_RELAXED) == number) {
		if (ip_now_ns() > limit || ip_interrupted)
			return ip_error("pid %d: iprobe pid %d watches it, and does not end: "
					"iprobe detach %d puts back what is live",
					s->target->pid, owner, s->target->pid);
		nanosleep(&nap, NULL);
	}
	return 0;
}

int ip_session_ask(struct ip_session *s, bool dry_run)
{
	const struct timespec nap = {.tv_nsec = 10000000};
	const char *program = ip_controllers_program(s);
	uint64_t limit = ip_now_ns() + TIMEOUT_NS;

	if (!ip_area_owner(s->area))
		return no_answer(s);
	if (program || s->options->own)
		s->summary->taken_by = ip_area_owner(s->area);
	/* a rule of iprobed gives options that nobody can leave out */
	if (s->options->yields || (s->options->service && ip_delegation_is_lent()))
		return ip_error("pid %d has a session already, by iprobe pid %d: iprobe detach %d "
				"ends it",
				s->target->pid, ip_area_owner(s->area), s->target->pid);
	if (program)
		return ip_error("pid %d has a session already, by iprobe pid %d: %s needs one of "
				"its own, end that first",
				s->target->pid, ip_area_owner(s->area), program);
	if (s->options->own) {
		return ip_error(
			"pid %d has a session already, by iprobe pid %d: %s is for a new "
			"one; leave it out to change that session, or end it first (iprobe detach "
			"%d)",
			s->target->pid, s->area->header->owner_pid, s->options->own,
			s->target->pid);
	}
	for (;;) {
		int ret = ask(s, dry_run);

		if (ret <= 0)
			return ret;
		/* the session may not listen yet, or not any more */
		if (!ip_area_has_session(s->area))
			return 1;
		if (is_elsewhere(s) || ip_now_ns() > limit || ip_interrupted)
			return no_answer(s);
		nanosleep(&nap, NULL);
	}
}
