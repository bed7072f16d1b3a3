/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobed's decisions, and its log.
 */
#include <fcntl.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "iprobed/daemon_private.h"

/* Writes one line. The client chooses some of its text. It can neither begin a line of its own nor
 * send control characters to a terminal (C0, or C1 by their bytes). */
static void put_plain(const char *line, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	char plain[4 * 4096 + 1];
	size_t m = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = line[i];

		if (c >= 0x20 && c < 0x7f) {
			plain[m++] = c;
			continue;
		}
		plain[m++] = '\\';
		plain[m++] = 'x';
		plain[m++] = digits[c >> 4];
		plain[m++] = digits[c & 15];
	}
	plain[m++] = '\n';
	(void)!write(STDERR_FILENO, plain, m);
}

void ip_iprobed_log(const struct ip_iprobed_session *s, const char *format, ...)
{
	char line[4096], when[64] = "";
	size_t n = 0;
	va_list args;
	time_t now = time(NULL);
	struct tm tm;

	/* the journal adds the time itself */
	if (!getenv("JOURNAL_STREAM") && localtime_r(&now, &tm))
		strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S%z ", &tm);
	n += snprintf(line + n, sizeof(line) - n, "%siprobed: ", when);
	if (s && s->who.pid)
		n += snprintf(line + n, sizeof(line) - n,
			      "session %u: uid %u gid %u pid %d: %s pid %d: ", s->number,
			      s->who.facts.ids.ruid, s->who.facts.ids.rgid, s->who.pid,
			      ip_request_name(s->request.what), s->request.pid);
	va_start(args, format);
	n += vsnprintf(line + n, sizeof(line) - n, format, args);
	va_end(args);
	if (n > sizeof(line) - 2)
		n = sizeof(line) - 2;
	put_plain(line, n);
}

void ip_iprobed_clear_entry(struct ip_policy_entry *entry)
{
	for (size_t i = 0; i < entry->nprograms; i++)
		free(entry->programs[i]);
	free(entry->programs);
	free(entry->users);
	*entry = (struct ip_policy_entry){0};
}

static int copy_entry(const struct ip_policy_entry *from, struct ip_policy_entry *ret)
{
	*ret = (struct ip_policy_entry){0};
	for (size_t i = 0; i < from->nusers; i++) {
		if (ip_array_grow(&ret->users, ret->nusers, sizeof(*ret->users)) < 0)
			return -1;
		ret->users[ret->nusers++] = from->users[i];
	}
	for (size_t i = 0; i < from->nprograms; i++) {
		if (ip_array_grow(&ret->programs, ret->nprograms, sizeof(*ret->programs)) < 0)
			return -1;
		ret->programs[ret->nprograms] = strdup(from->programs[i]);
		if (!ret->programs[ret->nprograms])
			return ip_error("out of memory");
		ret->nprograms++;
	}
	return 0;
}

static bool is_member(const struct ip_iprobed *d, const struct ip_peer *who)
{
	bool member = who->facts.ids.rgid == d->options->group;

	for (size_t i = 0; i < who->ngroups; i++)
		member |= who->groups[i] == d->options->group;
	return d->options->group != (gid_t)-1 && member;
}

/* Decides whether a member of the group may do it, in addition to what each user may do. */
static int decide_for_member(const struct ip_iprobed *d, const struct ip_target_credentials *target,
			     struct ip_iprobed_session *s)
{
	_cleanup_free_ char *program = ip_policy_program(s->request.pid);
	const struct ip_policy_entry *entry;
	struct ip_policy policy;
	int done;

	if (!program || ip_policy_load(d->options->policy, &policy) < 0)
		return -1;
	entry = ip_policy_find(&policy, target, program);
	done = !entry ? -1 : copy_entry(entry, &s->entry);
	ip_policy_clear(&policy);
	if (done < 0)
		return -1;
	s->member = true;
	/* what was read is about this process */
	return ip_pidfd_lives(s->target) ? 0 : ip_error("it has ended");
}

int ip_iprobed_decide(const struct ip_iprobed *d, struct ip_iprobed_session *s)
{
	_cleanup_free_ char *reason = NULL;
	struct ip_target_credentials target;
	const char *why;
	pid_t pid = s->request.pid;

	if (!ip_pidfd_lives(s->who.pidfd))
		return ip_error("the client (pid %d) has ended", s->who.pid);
	s->target = ip_pidfd_open(pid);
	if (s->target < 0 ||
	    ip_credentials_of_target(pid, s->target, s->who.facts.ids.euid, &target) < 0)
		return -1;
	s->in_group = is_member(d, &s->who);
	why = ip_ptrace_access_refusal(&s->who.facts, &target);
	if (!why)
		return 0;
	if (!s->in_group)
		return ip_error("pid %d %s: iprobed lets you trace what you may trace yourself, "
				"and nothing else",
				pid, why);
	if (decide_for_member(d, &target, s) == 0)
		return 0;
	reason = strdup(ip_error_message());
	return ip_error("pid %d %s; for a member of the group: %s", pid, why,
			reason ? reason : "out of memory");
}

/* Whether the policy gives events of the kernel; -1 with an error. */
static int gives_kernel(const struct ip_iprobed *d, const struct ip_peer *who)
{
	struct ip_policy policy;
	bool gives;

	if (ip_policy_load(d->options->policy, &policy) < 0)
		return -1;
	gives = ip_policy_gives_kernel(&policy, who->facts.ids.ruid, who->facts.ids.rgid,
				       who->groups, who->ngroups);
	ip_policy_clear(&policy);
	return gives;
}

int ip_iprobed_decide_kernel(const struct ip_iprobed *d, struct ip_iprobed_session *s)
{
	const uid_t uid = s->who.facts.ids.ruid;
	uint64_t buffer;
	bool optional;
	int gives;

	s->kernel_buffer = 0;
	s->no_events[0] = '\0';
	if (!ip_request_kernel(&s->request, &buffer, &optional))
		return 0;
	gives = gives_kernel(d, &s->who);
	if (gives > 0) {
		s->kernel_buffer = buffer ? buffer : 1;
		return 0;
	}
	if (!optional && !gives && s->request.what == IP_REQUEST_KERNEL)
		return ip_error("the policy gives uid %u no events of the kernel (root allows "
				"them: kernel in %s)",
				uid, d->options->policy);
	if (!optional)
		return gives < 0 ? -1
				 : ip_error("--kernel: the policy gives uid %u no events of the "
					    "kernel: leave it out, or have root allow them (kernel "
					    "in %s)",
					    uid, d->options->policy);
	if (!gives)
		ip_error("the policy gives uid %u none (root allows them: kernel in %s)", uid,
			 d->options->policy);
	snprintf(s->no_events, sizeof(s->no_events), "%s", ip_error_message());
	return 0;
}
