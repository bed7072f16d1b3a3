/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges processes whose events of the kernel a client wants. event_judge.h says by what.
 */
#include "iprobed/event_judge.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"

static bool is_gone(pid_t pid, int pidfd)
{
	char name[32];

	if (pidfd >= 0)
		return !ip_pidfd_lives(pidfd);
	snprintf(name, sizeof(name), "/proc/%d", pid);
	return ip_access(name, F_OK) < 0 && errno == ENOENT;
}

/* Of several processes some may be the client's own, and others what the policy lists. */
static const char *refusal_of_several(const struct ip_event_judge *j, pid_t pid,
				      const struct ip_target_credentials *target)
{
	const struct ip_iprobed_session *s = j->session;
	const bool any = s->who.facts.effective >> CAP_SYS_PTRACE & 1;
	const char *why = ip_ptrace_access_refusal(&s->who.facts, target);
	_cleanup_free_ char *program = NULL;

	if (!why)
		return any || !target->mixed ? NULL : "has threads with other users or groups";
	if (!s->in_group || ip_ptrace_access_not_plain(target))
		return why;
	program = ip_policy_program(pid);
	return program && ip_policy_find(&j->policy, target, program) ? NULL : why;
}

/* Step 3. */
static const char *refusal(const struct ip_iprobed_session *s, pid_t pid,
			   const struct ip_target_credentials *target)
{
	const bool any = s->who.facts.effective >> CAP_SYS_PTRACE & 1;
	_cleanup_free_ char *program = NULL;
	const char *why;

	if (!s->member) {
		why = ip_ptrace_access_refusal(&s->who.facts, target);
		return why || any || !target->mixed ? why
						    : "has threads with other users or groups";
	}
	why = ip_ptrace_access_not_plain(target);
	if (why)
		return why;
	program = ip_policy_program(pid);
	return program && ip_policy_entry_allows(&s->entry, target->ids.ruid, program)
		       ? NULL
		       : "is not what the policy lists";
}

/* NULL: it was not named. */
static struct ip_event_held *find_held(struct ip_event_judge *j, pid_t pid)
{
	for (size_t i = __atomic_load_n(&j->nheld, __ATOMIC_ACQUIRE); i > 0; i--)
		if (j->held[i - 1].pid == pid)
			return &j->held[i - 1];
	return NULL;
}

/* The descriptor of a process that was named; -1: it was not. */
static int find_descriptor(struct ip_event_judge *j, pid_t pid)
{
	const struct ip_event_held *held = j->several ? find_held(j, pid) : NULL;

	if (!j->several)
		return pid == j->session->request.pid ? j->target : -1;
	return held ? held->fd : -1;
}

/* The first decision is told, before the process is looked at by its number. */
static void tell(struct ip_event_judge *j, pid_t pid, const char *why)
{
	struct ip_event_held *held = j->several ? find_held(j, pid) : NULL;

	if (!held || held->told)
		return;
	held->told = true;
	dprintf(j->log, "pid %d: %s%s\n", pid, why ? "refused: it " : "allowed", why ? why : "");
}

enum ip_event_access ip_event_judge_access(void *context, pid_t pid)
{
	struct ip_event_judge *j = context;
	const struct ip_iprobed_session *s = j->session;
	const int named = find_descriptor(j, pid);
	_cleanup_close_ int other = named >= 0 ? -1 : ip_pidfd_open(pid);
	const int held = named >= 0 ? named : other;
	struct ip_target_credentials target;
	const char *why = "cannot be looked at";

	if (held >= 0 && ip_credentials_of_target(pid, held, s->who.facts.ids.euid, &target) == 0)
		why = j->several ? refusal_of_several(j, pid, &target) : refusal(s, pid, &target);
	if (is_gone(pid, held))
		return IP_EVENT_GONE;
	tell(j, pid, why);
	if (!why)
		return IP_EVENT_ALLOWED;
	ip_error("pid %d %s: events of the kernel are not given of it any more", pid, why);
	return IP_EVENT_FORBIDDEN;
}

bool ip_event_judge_lives(void *context, pid_t pid)
{
	const int fd = find_descriptor(context, pid);

	return fd >= 0 && ip_pidfd_lives(fd);
}

static void look_at_policy(const char *path, struct stat *ret)
{
	*ret = (struct stat){0};
	if (stat(path, ret) < 0)
		*ret = (struct stat){0};
}

/* Root needs no policy. */
static int check_policy(const struct ip_event_judge *j, pid_t pid)
{
	const struct stat *then = &j->policy_file;
	struct stat now;

	if (!j->session->who.facts.ids.ruid)
		return 0;
	look_at_policy(j->policy_path, &now);
	if (now.st_dev == then->st_dev && now.st_ino == then->st_ino &&
	    now.st_size == then->st_size && now.st_ctim.tv_sec == then->st_ctim.tv_sec &&
	    now.st_ctim.tv_nsec == then->st_ctim.tv_nsec)
		return 0;
	return ip_error("pid %d: events of the kernel are not given of it: the policy has changed "
			"since the recording began, and another recording is asked for anew",
			pid);
}

/* Descriptors of processes that have ended stay: those of numbers that were given again. */
int ip_event_judge_hold(void *context, pid_t pid)
{
	struct ip_event_judge *j = context;
	const int fd = check_policy(j, pid) < 0 ? -1
		       : j->nheld < IP_EVENT_TARGETS_MOST
			       ? ip_pidfd_open(pid)
			       : ip_error("pid %d is one process too many", pid);

	if (fd < 0)
		return -1;
	j->held[j->nheld] = (struct ip_event_held){.pid = pid, .fd = fd};
	__atomic_store_n(&j->nheld, j->nheld + 1, __ATOMIC_RELEASE);
	return 0;
}

/* What iprobed has just decided is decided once more, by the policy that is kept. */
int ip_event_judge_read_policy(struct ip_event_judge *j, const struct ip_iprobed *d)
{
	const struct ip_peer *who = &j->session->who;

	j->policy_path = d->options->policy;
	look_at_policy(j->policy_path, &j->policy_file);
	return ip_policy_load(j->policy_path, &j->policy) == 0 &&
			       ip_policy_gives_kernel(&j->policy, who->facts.ids.ruid,
						      who->facts.ids.rgid, who->groups,
						      who->ngroups)
		       ? 0
		       : -1;
}
