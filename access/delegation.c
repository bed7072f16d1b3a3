/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The delegation of this process. See delegation.h.
 */
#include "access/delegation.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "access/credentials.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/proc.h"

#define NOBODY 65534

static struct {
	enum ip_delegation_kind kind;
	int pidfd;
	pid_t pid; /* the process that pidfd holds */
	bool restore_only;
	struct ip_policy_entry entry; /* for IP_DELEGATION_MEMBER */
	/* step 7: the targets, whose pidfds are pidfd and those after it; 0: one alone */
	struct target {
		pid_t pid;
		dev_t device; /* of its program; the inode is 0 where that is not known */
		ino_t inode;
		long user; /* real */
	} * targets;
	size_t ntargets;
} delegation;

static const char *const kinds[] = {[IP_DELEGATION_OWN] = "own",
				    [IP_DELEGATION_MEMBER] = "member",
				    [IP_DELEGATION_ANY] = "any"};

char *ip_delegation_text(enum ip_delegation_kind kind, uid_t uid, int pidfd,
			 const struct ip_policy_entry *entry)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out) {
		ip_error("out of memory");
		return NULL;
	}
	fputs(kinds[kind], out);
	if (uid != IP_DELEGATION_STAYS)
		fprintf(out, "@%u", uid);
	fprintf(out, ":%d", pidfd);
	for (size_t i = 0; entry && i < entry->nusers; i++)
		fprintf(out, "%c%u", i ? ',' : ':', entry->users[i]);
	for (size_t i = 0; entry && i < entry->nprograms; i++)
		fprintf(out, "\n%s", entry->programs[i]);
	if (fclose(out) != 0) {
		free(text);
		ip_error("out of memory");
		return NULL;
	}
	return text;
}

char *ip_delegation_text_of_many(int pidfd, const pid_t *pids, size_t n)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out) {
		ip_error("out of memory");
		return NULL;
	}
	fprintf(out, "%s:%d", kinds[IP_DELEGATION_ANY], pidfd);
	for (size_t i = 0; i < n; i++)
		fprintf(out, "%c%d", i ? ',' : ':', pids[i]);
	if (fclose(out) != 0) {
		free(text);
		ip_error("out of memory");
		return NULL;
	}
	return text;
}

static pid_t held_pid(int pidfd)
{
	_cleanup_fclose_ FILE *file = NULL;
	char name[64], line[128];
	int pid = -1;

	snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", pidfd);
	file = fopen(name, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Pid: %d", &pid) == 1)
			break;
	return pid;
}

/* Reads ":UID,UID\nGLOB\nGLOB". */
static int take_entry(const char *text, struct ip_policy_entry *ret)
{
	while (*text == ':' || *text == ',') {
		char *end;
		unsigned long user = strtoul(text + 1, &end, 10);

		if (end == text + 1 ||
		    ip_array_grow(&ret->users, ret->nusers, sizeof(*ret->users)) < 0)
			return -1;
		ret->users[ret->nusers++] = user;
		text = end;
	}
	while (*text == '\n') {
		size_t n = strcspn(text + 1, "\n");

		if (ip_array_grow(&ret->programs, ret->nprograms, sizeof(*ret->programs)) < 0)
			return -1;
		ret->programs[ret->nprograms] = strndup(text + 1, n);
		if (!ret->programs[ret->nprograms])
			return -1;
		ret->nprograms++;
		text += 1 + n;
	}
	return *text ? -1 : 0;
}

/* Looks which program a process runs, and for whom. */
static bool find_program(pid_t pid, struct target *ret)
{
	char name[64];
	struct stat st;

	snprintf(name, sizeof(name), "/proc/%d/exe", pid);
	if (stat(name, &st) < 0 || (ret->user = ip_proc_status(pid, "Uid")) < 0)
		return false;
	ret->device = st.st_dev;
	ret->inode = st.st_ino;
	return true;
}

/* Step 7. Reads ":PID,PID". A target may have ended: then its pidfd holds no number any more. */
static int take_targets(const char *text)
{
	for (; *text == ':' || *text == ','; delegation.ntargets++) {
		const int pidfd = delegation.pidfd + (int)delegation.ntargets;
		struct target *t;
		char *end;
		long pid = strtol(text + 1, &end, 10);
		pid_t held;

		if (end == text + 1 || pid <= 0 || pid > INT_MAX ||
		    delegation.ntargets == IP_DELEGATION_TARGETS ||
		    ip_array_grow(&delegation.targets, delegation.ntargets,
				  sizeof(*delegation.targets)) < 0)
			return -1;
		held = held_pid(pidfd);
		if (held != pid && (fcntl(pidfd, F_GETFD) < 0 || ip_pidfd_lives(pidfd)))
			return -1;
		t = &delegation.targets[delegation.ntargets];
		*t = (struct target){.pid = pid};
		/* the pidfd tells afterwards that this was still the target's program */
		if (!find_program(pid, t) || !ip_pidfd_lives(pidfd))
			t->inode = 0;
		text = end;
	}
	return *text ? -1 : 0;
}

enum strength {
	NOTHING,
	USUAL, /* all but CAP_DAC_OVERRIDE */
	EVERYTHING,
};

static int set_effective(enum strength strength)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, data) < 0)
		return -1;
	for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		data[i].effective = strength == NOTHING ? 0 : data[i].permitted;
	if (strength != EVERYTHING)
		data[0].effective &= ~(1u << CAP_DAC_OVERRIDE);
	return syscall(SYS_capset, &header, data);
}

/* Step 5. Becomes the user. If the process works for a member, its real and saved user id become
 * nobody's. CAP_SETUID was needed for this alone, and is given up. */
static int become_user(enum ip_delegation_kind kind, uid_t uid)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	const uint32_t bit = 1u << CAP_SETUID;
	uid_t others = kind == IP_DELEGATION_MEMBER ? NOBODY : uid;
	pid_t parent = getppid();

	/* a process that did not begin as root has the user's ids already */
	if (uid == IP_DELEGATION_STAYS)
		return 0;
	if (prctl(PR_SET_KEEPCAPS, 1) < 0 || setresuid(others, uid, others) < 0)
		return -1;
	/* The kernel resets both at a change of ids: the dumpable flag becomes what the
	 * administrator has set (fs.suid_dumpable), and the signal at the parent's end is
	 * forgotten. */
	if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_KEEPCAPS, 0) < 0 ||
	    prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
		return -1;
	if (syscall(SYS_capget, &header, data) < 0)
		return -1;
	data[0].effective &= ~bit;
	data[0].permitted &= ~bit;
	data[0].inheritable &= ~bit;
	return syscall(SYS_capset, &header, data);
}

/* Reads "KIND@UID" or "KIND". Returns 0 or -1. */
static int take_kind(const char *text, size_t n, enum ip_delegation_kind *ret, uid_t *ret_uid)
{
	const char *at = memchr(text, '@', n);
	size_t length = at ? (size_t)(at - text) : n;
	char *end;

	*ret_uid = IP_DELEGATION_STAYS;
	if (at) {
		*ret_uid = strtoul(at + 1, &end, 10);
		if (end == at + 1 || end != text + n || *ret_uid == IP_DELEGATION_STAYS)
			return -1;
	}
	for (*ret = IP_DELEGATION_ANY; *ret; --*ret)
		if (strlen(kinds[*ret]) == length && !strncmp(kinds[*ret], text, length))
			return 0;
	return -1;
}

int ip_delegation_take(void)
{
	const char *text = getenv(IP_DELEGATION_VARIABLE), *rest = text ? strchr(text, ':') : NULL;
	enum ip_delegation_kind kind;
	int length = 0;
	uid_t uid;

	if (!text)
		return 0;
	/* This comes before all else. If a process is not dumpable, its files in /proc
	 * (oom_score_adj, timerslack_ns, coredump_filter) belong to root, though the process has
	 * the client's ids. */
	if (prctl(PR_SET_DUMPABLE, 0) < 0)
		return ip_error_errno("prctl");
	if (!rest || take_kind(text, rest - text, &kind, &uid) < 0 ||
	    sscanf(rest, ":%d%n", &delegation.pidfd, &length) != 1 ||
	    ((delegation.pid = held_pid(delegation.pidfd)) <= 0 &&
	     (kind != IP_DELEGATION_ANY || !rest[length])) ||
	    (kind == IP_DELEGATION_MEMBER
		     ? !rest[length] || take_entry(rest + length, &delegation.entry) < 0
	     : kind == IP_DELEGATION_ANY ? take_targets(rest + length) < 0
					 : rest[length] != '\0') ||
	    become_user(kind, uid) < 0 || set_effective(USUAL) < 0)
		return ip_error("the variable %s is set, and is not as iprobed sets it: unset it",
				IP_DELEGATION_VARIABLE);
	delegation.kind = kind;
	unsetenv(IP_DELEGATION_VARIABLE); /* our children get a variable of their own */
	return 0;
}

bool ip_delegation_is_lent(void)
{
	return delegation.kind != IP_DELEGATION_NONE;
}

bool ip_delegation_put_down(void)
{
	if (!delegation.kind)
		return false;
	if (set_effective(NOTHING) < 0) /* dropping our own capabilities cannot be forbidden */
		abort();
	return true;
}

void ip_delegation_take_up(bool put_down)
{
	if (put_down && set_effective(USUAL) < 0)
		abort();
}

int ip_delegation_open(const char *name, int flags)
{
	int fd, error;

	if (delegation.kind && set_effective(EVERYTHING) < 0)
		abort();
	fd = open(name, flags | O_CLOEXEC);
	error = errno;
	ip_delegation_take_up(delegation.kind != IP_DELEGATION_NONE);
	errno = error;
	return fd;
}

FILE *ip_delegation_fopen(const char *name)
{
	int fd = ip_delegation_open(name, O_RDONLY);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");

	if (!file && fd >= 0)
		close(fd);
	return file;
}

/* Asks whether the kernel shows us a thread's map. Returns 0 if it does; 1 if the thread does not
 * exist; -1 if the kernel refuses. */
static int ask_kernel(pid_t pid, pid_t tid)
{
	char name[64];
	bool down = ip_delegation_put_down();
	int fd, error;

	snprintf(name, sizeof(name), "/proc/%d/task/%d/maps", pid, tid);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	error = errno;
	ip_delegation_take_up(down);
	if (fd >= 0) {
		close(fd);
		return 0;
	}
	return error == ENOENT || error == ESRCH ? 1 : -1;
}

static int refuse(pid_t pid)
{
	return ip_error("pid %d is not, or not any more, a process that you may trace yourself: "
			"iprobed goes no further; nothing was changed",
			pid);
}

/* tid: a thread of the process; each thread has credentials of its own. held: a pidfd of the thread
 * or of its process. It keeps that number from meaning another one. */
static int check_member(pid_t pid, pid_t tid, int held)
{
	_cleanup_free_ char *program = NULL;
	struct ip_target_credentials facts;
	const char *why;

	if (held < 0 || ip_credentials_of_target(tid, held, (uid_t)-1, &facts) < 0)
		return -1;
	program = ip_policy_program(pid);
	if (!program)
		return -1;
	why = ip_ptrace_access_not_plain(&facts);
	if (!why && !ip_policy_entry_allows(&delegation.entry, facts.ids.ruid, program))
		why = "is not what the policy lists";
	return why ? ip_error("pid %d %s: iprobed goes no further; nothing was changed", tid, why)
		   : 0;
}

int ip_delegation_check_place(pid_t pid, pid_t tid)
{
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/task/%d", pid, tid);
	return ip_access(name, F_OK) == 0
		       ? 0
		       : ip_error("pid %d: thread %d is not one of its any more: try again", pid,
				  tid);
}

int ip_delegation_check_thread(pid_t pid, pid_t tid)
{
	int ret;

	if (!delegation.kind || delegation.kind == IP_DELEGATION_ANY)
		return 0;
	if (pid == delegation.pid && !ip_pidfd_lives(delegation.pidfd))
		return ip_error("pid %d has ended", pid);
	if (delegation.kind == IP_DELEGATION_MEMBER)
		return check_member(pid, tid, delegation.pidfd);
	ret = ask_kernel(pid, tid);
	return ret < 0 ? refuse(pid)
	       : ret ? ip_error("pid %d: thread %d is not one of its any more: try again", pid, tid)
		     : 0;
}

bool ip_delegation_restores_only(void)
{
	return delegation.restore_only;
}

void ip_delegation_restore_only(void)
{
	delegation.restore_only = true;
}

static int check_threads(pid_t pid)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	char name[64];
	bool any = false;

	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	dir = opendir(name);
	while (dir && (entry = readdir(dir))) {
		int ret = isdigit((unsigned char)entry->d_name[0])
				  ? ask_kernel(pid, atoi(entry->d_name))
				  : 1;

		if (ret < 0)
			return refuse(pid);
		any |= ret == 0;
	}
	return any ? 0 : ip_error("pid %d has ended", pid);
}

/* Step 7. */
static int check_targets(pid_t pid)
{
	struct target found;
	bool same = false;

	for (size_t i = 0; i < delegation.ntargets; i++)
		if (delegation.targets[i].pid == pid)
			return ip_pidfd_lives(delegation.pidfd + (int)i)
				       ? 0
				       : ip_error("pid %d has ended", pid);
	if (find_program(pid, &found))
		for (size_t i = 0; i < delegation.ntargets && !same; i++)
			same = delegation.targets[i].inode &&
			       delegation.targets[i].inode == found.inode &&
			       delegation.targets[i].device == found.device &&
			       delegation.targets[i].user == found.user;
	return same ? 0
		    : ip_error("pid %d runs another program, or for another user, than the "
			       "processes that the rule is for",
			       pid);
}

int ip_delegation_check(pid_t pid)
{
	if (!delegation.kind)
		return 0;
	if (delegation.ntargets)
		return check_targets(pid);
	if (pid == delegation.pid && !ip_pidfd_lives(delegation.pidfd))
		return ip_error("pid %d has ended", pid);
	if (delegation.kind == IP_DELEGATION_MEMBER) {
		_cleanup_close_ int held = ip_pidfd_open(pid);

		return check_member(pid, pid, held);
	}
	return delegation.kind == IP_DELEGATION_OWN ? check_threads(pid) : 0;
}
