/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a session goes live and idle without a stop. The holds of a borrowed thread count as stops of
 * that thread.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/notice.h"
#include "hotpatcher/patch/remap.h"
#include "hotpatcher/patch/restore.h"
#include "hotpatcher/plan/plan_conflicts.h"
#include "hotpatcher/ptrace/kernel_worker.h"
#include "session/session_private.h"
#include "session/update.h"

#define TRIES 5
/* For a session that changes itself often: a stop is better than a long search for a thread, or
 * than switching very many pieces one after the other. */
#define CHANGE_FIND_NS	   1000000ull
#define CHANGE_PIECES	   64
#define CHANGE_WAIT_NS	   100000000ull
#define CHANGE_WAIT_MAX_NS 6400000000ull

void ip_session_note_holds(struct ip_session *s, const char *kind,
			   const struct ip_remap_result *remapped, struct ip_patch_result *result)
{
	struct ip_stop_record stop = {.kind = kind,
				      .threads = 1,
				      .pages = remapped->pages,
				      .sites = remapped->sites,
				      .held = true};

	for (size_t i = 0; i < remapped->nholds; i++) {
		stop.ns = remapped->holds[i].ns;
		stop.tsc = remapped->holds[i].tsc;
		ip_session_add_stop(s, &stop);
	}
	result->pages = remapped->pages;
	result->threads = ip_user_threads(s->target->pid);
}

/* Prepares and carries out the changes. A failure that may be over a moment later is tried
 * again. */
static int remap(struct ip_session *s, const struct ip_modules *modules,
		 const struct ip_change *changes, size_t n, int64_t gate, const char *kind,
		 uint64_t find_ns, struct ip_patch_result *result)
{
	for (int i = find_ns < IP_REMAP_FIND_NS ? TRIES : 0;; i++) {
		struct ip_remap_result remapped = {0};
		struct ip_remap_plan *plan;
		int ret;

		if (ip_target_refresh(s->target) < 0 ||
		    ip_remap_prepare(s->target, modules, changes, n, 0, &plan) < 0)
			return -1;
		ret = ip_remap_check(plan);
		if (ret == 0) {
			/* from here on: even after a failure the sites must be put back */
			s->live |= gate != 0;
			ret = ip_remap_apply(plan, gate, find_ns, &remapped);
		}
		ip_session_note_holds(s, kind, &remapped, result);
		ip_remap_destroy(plan);
		/* If some pieces of what was to go live are live, the text is not what was prepared
		 * any more: that is not tried again. */
		if (ret == 0 || !remapped.transient || i == TRIES)
			return ret;
		ip_session_nap(IP_SESSION_TRY_NS);
	}
}

/* Takes those functions out of the plan of which a site cannot be remapped: entries and exits of a
 * function go together. */
static int leave_out(struct ip_session *s, struct ip_plan *plan)
{
	for (;;) {
		_cleanup_free_ bool *gone = calloc(plan->nfunctions + 1, sizeof(*gone));
		struct ip_remap_plan *remap;
		bool any = false;
		int ret = 0;

		if (!gone)
			return ip_error("out of memory");
		if (ip_remap_prepare(s->target, &s->modules, plan->changes, plan->nchanges,
				     IP_REMAP_PARTIAL, &remap) < 0)
			return -1;
		for (size_t i = 0; i < plan->nchanges; i++)
			if (ip_remap_is_left_out(remap, plan->changes[i].address))
				any = gone[plan->function_of[i]] = true;
		if (any) {
			snprintf(s->summary->unswitched_why, sizeof(s->summary->unswitched_why),
				 "%s", ip_remap_reason(remap));
			ret = ip_plan_conflicts_take_out(plan, gone);
		}
		ip_remap_destroy(remap);
		if (ret < 0 || !any)
			return ret;
		if (!plan->nchanges)
			return ip_error("%s: no function can be switched without a stop: leave out "
					"--no-stop",
					s->summary->unswitched_why);
	}
}

int ip_session_remap_live(struct ip_session *s, struct ip_plan *plan,
			  struct ip_patch_result *result)
{
	size_t before = plan->nchanges;

	if (leave_out(s, plan) < 0 ||
	    remap(s, &s->modules, plan->changes, plan->nchanges, s->area->header->session, "attach",
		  IP_REMAP_FIND_NS, result) < 0)
		return -1;
	s->summary->unswitched += before - plan->nchanges;
	return 0;
}

static void note_change(struct ip_session *s, const struct ip_remap_result *remapped)
{
	struct ip_session_summary *sum = s->summary;

	sum->remapped.changing_ns += remapped->changing_ns;
	for (size_t i = 0; i < remapped->nholds; i++)
		if (remapped->holds[i].ns > sum->remapped.hold_ns)
			sum->remapped.hold_ns = remapped->holds[i].ns;
	if (remapped->bare_ns > sum->remapped.gap_ns)
		sum->remapped.gap_ns = remapped->bare_ns;
}

/* Postpones the next change without a stop: each time for longer. */
static void wait_longer(struct ip_session *s)
{
	uint64_t ns = s->remap_wait_ns ? 2 * s->remap_wait_ns : CHANGE_WAIT_NS;

	s->remap_wait_ns = ns < CHANGE_WAIT_MAX_NS ? ns : CHANGE_WAIT_MAX_NS;
	s->remap_after_ns = ip_now_ns() + s->remap_wait_ns;
}

int ip_session_remap_change(struct ip_session *s, const struct ip_change *changes, size_t n,
			    int64_t gate, const struct ip_plan *idle,
			    const struct ip_change_gap *gap, struct ip_remap_result *ret)
{
	struct ip_remap_plan *plan;
	int done;

	*ret = (struct ip_remap_result){0};
	if (ip_now_ns() < s->remap_after_ns)
		return 0;
	if (ip_remap_prepare(s->target, &s->modules, changes, n, IP_REMAP_KEEPING, &plan) < 0) {
		wait_longer(s);
		return 0;
	}
	if (ip_remap_pieces(plan) > CHANGE_PIECES) {
		ip_remap_destroy(plan);
		return 0;
	}
	for (size_t i = 0; gap && i < idle->nfunctions; i++)
		gap->begins(gap->context, idle->functions[i].module, idle->functions[i].function);
	if (gap)
		ip_remap_each_interrupted(plan, gap->begins, gap->context);
	done = ip_remap_apply(plan, gate, CHANGE_FIND_NS, ret);
	ip_remap_destroy(plan);
	note_change(s, ret);
	if (gap)
		gap->ended(gap->context, ret->bare_ns);
	if (done < 0) {
		wait_longer(s);
		return ret->begun ? -1 : 0;
	}
	s->remap_wait_ns = 0;
	s->summary->remapped.changes++;
	return 1;
}

void ip_session_unmap_copies(struct ip_session *s, const char *kind)
{
	struct ip_stop_record stop = {.kind = kind, .threads = 1, .held = true};
	struct ip_remap_hold held;
	int done = ip_remap_clean(s->target, &held);

	stop.ns = held.ns;
	stop.tsc = held.tsc;
	if (held.ns)
		ip_session_add_stop(s, &stop);
	if (done < 0 && ip_target_alive(s->target) && !ip_target_image_is_gone(s->target))
		ip_notice("%s; a copy of text stays mapped, which nobody uses", ip_error_message());
}

int ip_session_remap_idle(struct ip_session *s, const struct ip_modules *modules, const char *kind,
			  uint64_t find_ns, struct ip_patch_result *result)
{
	_cleanup_free_ struct ip_change *changes = NULL;
	size_t n;

	if (ip_restore_collect(s->target, modules, &changes, &n) < 0)
		return -1;
	if (!n)
		return 0;
	if (remap(s, modules, changes, n, 0, kind, find_ns, result) < 0)
		return -1;
	result->sites = n;
	return 0;
}
