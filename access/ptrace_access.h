/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a caller may trace a target. This is the kernel's rule for ptrace (ptrace(2),
 * "Ptrace access mode checking", PTRACE_MODE_ATTACH_REALCREDS without Yama and other security
 * modules), as a function of facts that were gathered before (credentials.h). Nothing is looked up
 * here.
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

/* The position of the target's user namespace, as the caller's namespace sees it. */
enum ip_user_namespace {
	IP_USERNS_SAME,
	IP_USERNS_BELOW, /* the caller's namespace is its parent, or further up */
	IP_USERNS_OTHER,
};

struct ip_tracer_credentials {
	struct ip_ids ids;
	uint64_t permitted, effective; /* capabilities */
};

struct ip_target_credentials {
	struct ip_ids ids;
	uint64_t permitted;
	bool dumpable;
	enum ip_user_namespace userns;
	/* For IP_USERNS_BELOW: among the target's namespace and its parents there is one just below
	 * the caller's, and the caller's user owns that one. */
	bool owner;
	bool mixed; /* not all threads of the target have these ids */
};

/* Returns NULL if the kernel would let the caller trace the target. Else returns the reason why
 * not, as the end of a sentence that begins with "it". */
const char *ip_ptrace_access_refusal(const struct ip_tracer_credentials *caller,
				     const struct ip_target_credentials *target);

/* Returns NULL if the target runs as one plain user, so that a policy could name that user. Else
 * returns the reason why not, as the end of a sentence that begins with "it". */
const char *ip_ptrace_access_not_plain(const struct ip_target_credentials *target);

#endif
