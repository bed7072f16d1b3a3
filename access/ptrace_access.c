/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's rule. The comments name the kernel's functions (kernel/ptrace.c,
 * security/commoncap.c).
 */
#include "access/ptrace_access.h"

#include <linux/capability.h>
#include <stddef.h>

static bool has_ptrace(uint64_t set)
{
	return set >> CAP_SYS_PTRACE & 1;
}

/* ptrace_has_cap() and ns_capable() for the target's user namespace. A capability holds in a
 * process's own namespace and in those below it. The user who has made a namespace has all
 * capabilities in it (cap_capable()). */
static bool can_ptrace_in(const struct ip_tracer_credentials *caller,
			  const struct ip_target_credentials *target)
{
	switch (target->userns) {
	case IP_USERNS_SAME:
		return has_ptrace(caller->effective);
	case IP_USERNS_BELOW:
		return has_ptrace(caller->effective) || target->owner;
	default:
		return false;
	}
}

static bool same_user(const struct ip_ids *caller, const struct ip_ids *target)
{
	return caller->ruid == target->ruid && caller->ruid == target->euid &&
	       caller->ruid == target->suid;
}

static bool same_group(const struct ip_ids *caller, const struct ip_ids *target)
{
	return caller->rgid == target->rgid && caller->rgid == target->egid &&
	       caller->rgid == target->sgid;
}

const char *ip_ptrace_access_refusal(const struct ip_tracer_credentials *caller,
				     const struct ip_target_credentials *target)
{
	bool able = can_ptrace_in(caller, target);

	/* __ptrace_may_access(): compares the caller's real ids with all three of the target's */
	if (!able && !same_user(&caller->ids, &target->ids))
		return target->ids.ruid == target->ids.euid && target->ids.ruid == target->ids.suid
			       ? "belongs to another user"
			       : "runs with the ids of two users (setuid)";
	if (!able && !same_group(&caller->ids, &target->ids))
		return target->ids.rgid == target->ids.egid && target->ids.rgid == target->ids.sgid
			       ? "belongs to another group"
			       : "runs with the ids of two groups (setgid)";
	/* get_dumpable() */
	if (!able && !target->dumpable)
		return "has made itself undumpable (prctl), or has changed its ids, or cannot be "
		       "read (setuid, file capabilities)";
	/* cap_ptrace_access_check() */
	if (target->userns == IP_USERNS_SAME && !(target->permitted & ~caller->permitted))
		return NULL;
	if (able)
		return NULL;
	return target->userns == IP_USERNS_SAME ? "has capabilities that who asks lacks"
						: "lives in another user namespace";
}

const char *ip_ptrace_access_not_plain(const struct ip_target_credentials *target)
{
	const struct ip_ids *ids = &target->ids;

	if (ids->ruid != ids->euid || ids->ruid != ids->suid)
		return "runs with the ids of two users (setuid)";
	if (ids->rgid != ids->egid || ids->rgid != ids->sgid)
		return "runs with the ids of two groups (setgid)";
	if (target->mixed)
		return "has threads with other users or groups";
	if (!ids->ruid)
		return "runs as root";
	if (!target->dumpable)
		return "has made itself undumpable (prctl), or has changed its ids, or cannot be "
		       "read (setuid, file capabilities)";
	if (target->permitted)
		return "has capabilities";
	if (target->userns != IP_USERNS_SAME)
		return "lives in another user namespace";
	return NULL;
}
