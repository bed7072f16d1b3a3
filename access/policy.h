/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy: which processes members of the group iprobe may trace besides their own, and which
 * users may have events of the kernel. It is read
 * from /etc/iprobe/policy.yaml (docs/man/iprobed.8.rst).
 */
#ifndef IP_POLICY_H
#define IP_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "access/ptrace_access.h"

struct ip_policy_entry {
	uid_t *users; /* whose processes may be traced */
	size_t nusers;
	char **programs; /* globs of the path of the executable; none: any path */
	size_t nprograms;
};

/* Who may have events of the kernel, of what they may trace. */
struct ip_policy_kernel {
	bool all;
	uid_t *users;
	size_t nusers;
	gid_t *groups;
	size_t ngroups;
};

struct ip_policy {
	struct ip_policy_entry *entries;
	size_t n;
	struct ip_policy_kernel kernel;
};

/* Reads the policy file. Nobody but root may be able to write the file. A file that does not exist
 * allows nothing. Returns 0, or -1 with an error that gives FILE:LINE:COLUMN. */
int ip_policy_load(const char *path, struct ip_policy *ret);
int ip_policy_parse(const char *text, size_t size, const char *path, struct ip_policy *ret);
void ip_policy_clear(struct ip_policy *policy);

/* Finds the entry that lets members trace the process. program: the path of the process's
 * executable. Returns NULL with an error if there is none. */
const struct ip_policy_entry *ip_policy_find(const struct ip_policy *policy,
					     const struct ip_target_credentials *target,
					     const char *program);
bool ip_policy_entry_allows(const struct ip_policy_entry *entry, uid_t user, const char *program);

/* Whether the policy gives a user of these groups events of the kernel. Root has them without. */
bool ip_policy_gives_kernel(const struct ip_policy *policy, uid_t user, gid_t group,
			    const gid_t *groups, size_t ngroups);

/* Returns the path of a process's executable, malloc'ed. NULL with an error. */
char *ip_policy_program(pid_t pid);

#endif
