/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a session goes live without a stop although nobody has asked for that (nostop.c tells
 * how). It does where a stop would see nothing more, so that nothing is lost:
 *
 *   - No calls are recorded that were open at the start: only a stop can copy the stacks.
 *   - The C library has registered all threads: so each has a thread area of its own
 *     (thread_areas.h), which is else seen in the stop.
 *   - No other process shares the memory of the target, and no forked children are recorded: a
 *     stop gathers the former, and a child that is forked between two pieces has some sites live.
 *   - The process is the caller's own business: a worker of iprobed must look at the rights of
 *     each thread while all stand (delegation.h).
 *   - The program has 64 bits, and the kernel can move text (Linux 5.13).
 *   - All sites can be switched, in a few pieces, and a thread can be borrowed at once.
 *
 * In all other cases the session stops the process, and its summary tells the reason.
 */
#include "access/delegation.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/inject/runtime_wake.h"
#include "hotpatcher/inject/thread_areas.h"
#include "hotpatcher/patch/remap.h"
#include "hotpatcher/patch/remap_limits.h"
#include "hotpatcher/patch/restore.h"
#include "hotpatcher/process/shared_mm.h"
#include "hotpatcher/ptrace/stops.h"
#include "session/follow/follow_dlopen.h"
#include "session/session_private.h"

/* More would take longer in all than a stop does. */
#define PIECES_MAX 64
/* A stop is better than a long search for a thread. */
#define FIND_NS 1000000ull

static bool shares_memory(const struct ip_target *target)
{
	_cleanup_free_ pid_t *others = NULL;
	size_t n;

	return ip_shared_mm_find(target->pid, target->pid, &others, &n) < 0 || n;
}

const char *ip_session_why_stop(const struct ip_session *s, const struct ip_modules *modules,
				const struct ip_plan *plan, struct ip_remap_plan **ret)
{
	struct ip_remap_plan *remap;
	const char *why = NULL;

	*ret = NULL;
	if (ip_session_tells_open_calls(s, plan))
		return "calls that are open are recorded";
	if (ip_delegation_is_lent())
		return "iprobed looks at each thread";
	if (s->options->follow_fork)
		return "forked children are recorded";
	if (s->target->arch->bits != 64)
		return "it is a 32-bit program";
	if (!ip_remap_limits_kernel_can())
		return "this kernel cannot move text";
	if (!ip_thread_areas_are_registered(s->target))
		return "the C library has not registered each thread";
	if (shares_memory(s->target))
		return "another process shares its memory";
	if (ip_remap_prepare(s->target, modules, plan->changes, plan->nchanges, 0, &remap) < 0)
		return "not all of its pages can be switched";
	if (ip_remap_pieces(remap) > PIECES_MAX)
		why = "its text is too large to be switched";
	else if (s->target->has_runtime && !ip_is_asleep(s->target) && ip_remap_check(remap) < 0)
		why = "it can lend no thread, or memory is short";
	if (why)
		ip_remap_destroy(remap);
	else
		*ret = remap;
	return why;
}

void ip_session_tell_why(struct ip_session *s, const char *why)
{
	if (s->options->may_switch && !s->summary->stopped_why)
		s->summary->stopped_why = why;
}

/* Some pieces may be live: they are put back, so that the stop finds what was planned. */
static int put_back(struct ip_session *s)
{
	struct ip_patch_result result = {0};
	int ret = ip_restore(s->target, &s->modules, s->options->max_stop_ns, &result);

	ip_session_note_stop(s, "attach", &result);
	free(result.inside);
	return ret;
}

int ip_session_try_switch(struct ip_session *s, const struct ip_plan *plan,
			  struct ip_patch_result *result)
{
	struct ip_remap_result remapped = {0};
	struct ip_remap_plan *remap = NULL;
	struct ip_patch_result live = {0};
	const char *why;
	int done;

	s->switched = false;
	/* of another image, or tried before */
	if (s->live || s->summary->recorded || ip_target_refresh(s->target) < 0)
		return 0;
	why = ip_session_why_stop(s, &s->modules, plan, &remap);
	if (!remap) { /* a reason also for what was put back before */
		s->summary->stopped_why = why;
		return 0;
	}
	s->live = true; /* from here on: even after a failure the sites must be put back */
	done = ip_remap_apply(remap, s->area->header->session, FIND_NS, &remapped);
	ip_remap_destroy(remap);
	ip_session_note_holds(s, "attach", &remapped, &live);
	s->switched = done == 0;
	if (done == 0) {
		*result = live;
		return 1;
	}
	s->summary->stopped_why = remapped.why;
	s->all_idle = false;
	/* the search for a thread was short: its pages may be staged yet */
	ip_session_unmap_copies(s, "attach");
	return remapped.begun ? put_back(s) : 0;
}

bool ip_session_switch_idle(struct ip_session *s, struct ip_patch_result *result)
{
	if (!s->switched)
		ip_session_tell_why(s, "its recording had begun"); /* if no other reason was told */
	if (!s->switched || ip_follow_dlopen_refresh(s) < 0)
		return false;
	if (ip_session_remap_idle(s, &s->modules, "detach", FIND_NS, result) == 0)
		return true;
	if (ip_target_alive(s->target))
		ip_session_tell_why(s, "pages could not be switched back");
	return false;
}
