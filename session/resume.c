/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Continues a recording whose iprobe was killed. The sites are still live, and the hooks record
 * into the rings until the rings are full. Then the hooks count what is lost.
 *
 *   1. The trace is opened again at the point that its journal names (reopen.c). Where the user
 *      does not name it, the area tells where it is (area_trace.h). The area is mapped
 *      as it is: nothing in it begins anew.
 *   2. Sub-buffers that had been written but not freed are freed (ip_collector_resume). From here
 *      on the rings are drained as usual.
 *   3. The sites that are live now are watched as usual. The selection is that of the session.
 *      Libraries that were loaded meanwhile go live when the next library is loaded.
 *
 * A flight recorder (--overwrite) goes on, too: what its threads have written is in their rings,
 * and nothing of that is in the trace. What threads that have ended had left was in the memory of
 * the iprobe that was killed, and is lost. If that iprobe had begun to write the end, the rings are
 * no longer whole: such a session is refused.
 *
 * The target is not stopped, and nothing of it is written except stubs, which already hold the same
 * bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/dir.h"
#include "common/error.h"
#include "common/notice.h"
#include "hotpatcher/patch/site_state.h"
#include "hotpatcher/plan/bounds.h"
#include "hotpatcher/plan/plan_conflicts.h"
#include "hotpatcher/shm/area_trace.h"
#include "session/kernel_events.h"
#include "session/session_private.h"

static int take_selections(struct ip_session *s)
{
	char *const *texts;
	size_t n = ip_trace_selections(s->trace, &texts);

	ip_selections_clear(&s->selections);
	for (size_t i = 0; i < n; i++)
		if (ip_selections_add(&s->selections, *texts[i] ? texts[i] : NULL) < 0)
			return -1;
	return n ? 0 : ip_selections_add(&s->selections, NULL);
}

/* Takes out of the plan those functions of which no site is live. Notes what the sites of the other
 * functions hold. */
static int keep_live(const struct ip_session *s, struct ip_plan *plan)
{
	_cleanup_free_ bool *idle = malloc(plan->nfunctions + 1);

	if (!idle)
		return ip_error("out of memory");
	memset(idle, true, plan->nfunctions + 1);
	for (size_t i = 0; i < plan->nchanges; i++) {
		struct ip_change *c = &plan->changes[i];
		uint8_t bytes[IP_SITE_MAX];

		if (ip_target_read(s->target, c->address, bytes, c->length) < 0)
			return -1;
		if (ip_site_state_of_form(s->target, c->form, c->length, c->transit_regs, c->jump,
					  c->address, bytes) != IP_SITE_LIVE)
			continue;
		/* sites whose values are recorded call another stub than the plan would give
		 * them */
		memcpy(c->new_bytes, bytes, c->length);
		idle[plan->function_of[i]] = false;
	}
	return ip_plan_conflicts_take_out(plan, idle);
}

/* Whether the session was begun with --plt: the trace has a number of an entry that has functions
 * of a PLT. */
static bool has_plt(const struct ip_session *s)
{
	/* entries share no numbers, but the target may have written others */
	uint64_t left = IP_NUMBER_MAX;

	for (uint32_t i = 0; i < IP_AREA_MODULES; i++) {
		const struct ip_area_module *m = &s->area->modules[i];
		const uint64_t first = m->first_number;
		const uint64_t end = first + (uint64_t)IP_NUMBERS_PER_FUNCTION * m->nfunctions;

		for (uint64_t n = first; m->plt && n < end && left; n++, left--)
			if (ip_trace_knows(s->trace, n))
				return true;
	}
	return false;
}

/* Step 3. */
static int look_after(struct ip_session *s)
{
	struct ip_plan plan = {0};
	int ret = -1;

	s->target->plt = s->selections.plt = has_plt(s);
	if (ip_modules_load(s->target, &s->modules) < 0 ||
	    ip_plan_match(s->target, &s->modules, &s->selections, &plan) < 0)
		return -1;
	if (ip_area_lock_patch(s->area, s->target->pid) < 0)
		goto out;
	if (ip_plan_bind(&plan, s->target, s->area) == 0 && keep_live(s, &plan) == 0 &&
	    ip_trace_add_plan(s->trace, &plan, &s->modules, s->area) == 0 &&
	    ip_session_watch(s, &plan) == 0 &&
	    ip_plan_count_silent(&plan, &s->summary->silent_functions, &s->summary->silent_sites) ==
		    0)
		ret = ip_follow_dlopen_begin(s);
	ip_area_unlock_patch(s->area);
	s->summary->sites = plan.nchanges;
	s->summary->functions = plan.ndistinct;
out:
	ip_plan_clear(&plan);
	return ret;
}

/* Step 1. Without -o, the area tells where the trace lies. The target could have written that: a
 * directory is taken only where no other user could have made it or its journal. Else the user has
 * to name it, and then it is taken as before. */
static int reopen(struct ip_session *s, uint32_t session, uint64_t *ret_max_size)
{
	const char *dir = s->options->dir;
	char path[IP_AREA_TRACE_MAX];
	bool told = !s->options->dir_given && ip_area_get_trace(s->area, session, path);

	if (told && ip_dir_check_way(path, 0) == 0 &&
	    ip_trace_reopen(path, s->target->pid, session, &s->trace, ret_max_size) == 0) {
		s->summary->dir = strdup(path);
		return s->summary->dir ? 0 : ip_error("out of memory");
	}
	if (ip_trace_reopen(dir, s->target->pid, session, &s->trace, ret_max_size) == 0)
		return 0;
	return told ? ip_error_prefix("pid %d: the process says that its trace is %s: name it with "
				      "-o %s if that is true",
				      s->target->pid, path, path)
		    : -1;
}

int ip_session_resume(struct ip_session *s, struct ip_session_options *options)
{
	uint32_t session = __atomic_load_n(&s->area->header->session, __ATOMIC_RELAXED);
	struct ip_rt_private own;
	struct ip_gate gate;
	uint64_t max_size;

	if (ip_bounds_read(s->target, &own) < 0)
		return -1;
	if ((own.modes & IP_MODE_PAYLOADS) && (own.modes & IP_MODE_OVERWRITE))
		return ip_error("pid %d: its flight recorder measures calls (--until), and such a "
				"one cannot be gone on with: what it kept is lost, and iprobe "
				"detach %d puts the sites back",
				s->target->pid, s->target->pid);
	/* what had been added up was lost with the killed iprobe */
	if (own.modes & IP_MODE_PAYLOADS)
		return ip_error("pid %d: its session counts calls (--payload), and such a one "
				"cannot be gone on with: iprobe report shows what was saved, "
				"iprobe detach %d puts the sites back",
				s->target->pid, s->target->pid);
	/* what was left out was chosen and counted in that iprobe, too */
	if (own.modes & IP_MODE_CAREFUL)
		return ip_error("pid %d: its session leaves calls out (filters), and such a one "
				"cannot be gone on with: iprobe detach %d puts the sites back, or "
				"attach anew without --resume",
				s->target->pid, s->target->pid);
	ip_clock_select(own.modes & IP_MODE_MONOTONIC ? IP_CLOCK_MONOTONIC : IP_CLOCK_TSC, NULL);
	if (ip_target_read(s->target, s->target->anchor.gate, &gate, sizeof(gate)) < 0 ||
	    reopen(s, session, &max_size) < 0)
		return -1;
	if ((own.modes & IP_MODE_OVERWRITE) && ip_trace_bytes(s->trace))
		return ip_error("pid %d: its iprobe was killed while it wrote at the end what its "
				"flight recorder kept: what was written by then is in %s, the rest "
				"is lost, and iprobe detach %d puts back what may be live",
				s->target->pid, s->summary->dir ? s->summary->dir : s->options->dir,
				s->target->pid);
	*options = *s->options;
	options->overwrite = own.modes & IP_MODE_OVERWRITE;
	if (s->summary->dir)
		options->dir = s->summary->dir;
	options->follow_fork = own.follow == session;
	s->options = options;
	s->start = *ip_trace_start(s->trace);
	s->is_others = true;
	if (ip_trace_rotates(s->trace) && s->options->max_size &&
	    ip_trace_set_max_size(s->trace, s->options->max_size) < 0)
		return -1;
	s->area->modes = own.modes;
	s->area->may_read = own.may_read;
	if (ip_area_resume(s->area, s->target->pid, session) < 0 || take_selections(s) < 0 ||
	    ip_session_begin_collector(s, s->options->max_size ? s->options->max_size : max_size) <
		    0 ||
	    ip_session_kernel_begin(s) < 0)
		return -1;
	ip_collector_resume(s->collector);
	if (options->overwrite)
		ip_notice("pid %d: its flight recorder goes on; what threads that have ended had "
			  "left was lost with its iprobe",
			  s->target->pid);
	s->summary->recorded = true;
	s->live = true;
	s->is_others = false;
	ip_collector_priority(true);
	if (look_after(s) < 0) {
		_cleanup_free_ char *why = strdup(ip_error_message());

		/* what was recorded is kept, and the sites are put back */
		ip_session_go_idle(s);
		ip_session_finish(s, IP_END_NOT_RESUMED);
		return ip_error("%s", why ? why : "out of memory");
	}
	return gate.session != session;
}
