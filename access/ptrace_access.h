/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may trace whom: the kernel's rule for ptrace (ptrace(2), "Ptrace access mode checking",
 * PTRACE_MODE_ATTACH_REALCREDS without Yama and other security modules), as a function of facts
 * that were gathered before. Nothing is looked up here.
 */
#ifndef IP_PTRACE_ACCESS_H
#define IP_PTRACE_ACCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ip_ids {
	uid_t ruid, euid, suid;
	gid_t rgid, egid, sgid;
};

/* Where the target's user namespace is, seen from the caller's. */
enum ip_user_namespace {
	IP_USERNS_SAME,
	IP_USERNS_BELOW, /* the caller's is its parent, or further up */
	IP_USERNS_OTHER,
};

struct ip_caller_credentials {
	struct ip_ids ids;
	uint64_t permitted, effective; /* capabilities */
};

struct ip_target_credentials {
	struct ip_ids ids;
	uint64_t permitted;
	bool dumpable;
	enum ip_user_namespace userns;
	/* of IP_USERNS_BELOW: on the way up from it lies a namespace just below the caller's that
	 * the caller's user owns */
	bool owner;
	bool mixed; /* not all of its threads have these ids */
};

/* NULL: the kernel would let the caller trace the target; else why not, for "it ...". */
const char *ip_ptrace_access_refusal(const struct ip_caller_credentials *caller,
				     const struct ip_target_credentials *target);

/* NULL: a process that runs as one plain user, who could be named in a policy; else why not, for
 * "it ...". */
const char *ip_ptrace_access_not_plain(const struct ip_target_credentials *target);

#endif
