/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes away what iprobe has mapped in a process. remove.h describes the steps; the comments here
 * name them.
 */
#include "session/remove.h"

#include "common/error.h"
#include "common/proc.h"
#include "hotpatcher/inject/area_renew.h"
#include "hotpatcher/inject/runtime_wake.h"
#include "hotpatcher/patch/restore.h"
#include "hotpatcher/plan/window/area_window.h"
#include "hotpatcher/process/modules.h"
#include "hotpatcher/ptrace/priority_guard.h"
#include "hotpatcher/ptrace/stops.h"
#include "hotpatcher/shm/area.h"

/* Step 1. */
static int take_session(struct ip_area *area, pid_t pid)
{
	int held = ip_area_try_session(area, pid);

	if (held > 0 && ip_area_await_written(area, IP_AREA_WRITTEN_NS) == 0)
		held = ip_area_try_session(area, pid);
	return held > 0 ? ip_error("pid %d: iprobe (pid %d) records it: nothing is removed", pid,
				   ip_area_owner(area))
			: held;
}

/* Step 2. */
static int check_idle(struct ip_target *target, const struct ip_modules *modules)
{
	for (size_t i = 0; i < modules->n; i++) {
		struct ip_module_state state;

		if (!modules->items[i].list)
			continue;
		if (ip_module_inspect(target, &modules->items[i], &state) < 0)
			return -1;
		if (state.patched)
			return ip_error("pid %d: %s has live sites again: nothing is removed",
					target->pid, modules->items[i].path);
	}
	return 0;
}

static int remove_from(struct ip_target *target, struct ip_area *area, bool may_stop,
		       struct ip_remove_result *ret)
{
	const long before = ip_proc_status(target->pid, "VmSize");
	struct ip_modules modules = {0};
	int done = -1;
	long after;

	/* the modules' own room for stubs is known when they are loaded (late_hooks.h) */
	if (take_session(area, target->pid) == 0 && ip_modules_load(target, &modules) == 0 &&
	    check_idle(target, &modules) == 0)
		done = ip_area_window_remove(target, area, may_stop); /* step 3 */
	after = ip_proc_status(target->pid, "VmSize");
	if (done == 0 && before > after && after > 0)
		ret->bytes = (uint64_t)(before - after) * 1024;
	ip_modules_clear(&modules);
	return done;
}

int ip_session_remove(pid_t pid, bool may_stop, struct ip_patch_result *result,
		      struct ip_remove_result *ret)
{
	struct ip_target *target;
	struct ip_area *area = NULL;
	bool shares;
	int done = 0;

	*ret = (struct ip_remove_result){0};
	ip_priority_guard_start();
	if (ip_stops_open(pid, &target) < 0) {
		ip_priority_guard_stop();
		return -1;
	}
	ret->runtime = target->has_runtime;
	ret->loaded = target->has_runtime && !target->injected;
	/* a forked process has none, or its parent's: of that it can unmap its own mapping */
	if (target->has_runtime && !ip_is_asleep(target) &&
	    (!ip_area_renew_is_needed(target, &shares) || shares)) {
		done = ip_area_open(target, &area);
		if (done == 0)
			done = remove_from(target, area, may_stop, ret);
	}
	ip_patch_result_append(result, &ip_stops_of(target)->log);
	ip_area_close(area);
	ip_target_close(target);
	ip_priority_guard_stop();
	return done;
}
