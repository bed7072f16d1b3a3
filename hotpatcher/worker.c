/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting a worker. See worker.h.
 */
#include "hotpatcher/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/permit.h"

#define TARGET_FD    3
#define PROGRAM_FD   4
#define DIRECTORY_FD 5
#define PLACES	     6
#define BIT(cap)     (1ull << (cap))

static int get_caps(uint64_t *ret_permitted)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, data) < 0)
		return -1;
	*ret_permitted = data[0].permitted | (uint64_t)data[1].permitted << 32;
	return 0;
}

static int set_caps(uint64_t all)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		data[i].effective = data[i].permitted = data[i].inheritable = all >> 32 * i;
	return syscall(SYS_capset, &header, data);
}

/* Becomes who asked, with what capabilities shall survive the exec: those of one who may trace other users' processes, and of one who then leaves
 * the user's ids, too (permit.h). */
static int become(const struct ip_peer *who, enum ip_permit_kind kind)
{
	const struct ip_ids *ids = &who->facts.ids;
	uint64_t ours, keep;

	if (get_caps(&ours) < 0)
		return -1;
	if (geteuid() == 0) {
		/* uid 0 shall be no more than its capabilities say: an exec would give root everything */
		if (prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_KEEP_CAPS) < 0 ||
		    setgroups(who->ngroups, who->groups) < 0 ||
		    setresgid(ids->rgid, ids->rgid, ids->rgid) < 0 ||
		    setresuid(ids->ruid, ids->ruid, ids->ruid) < 0)
			return -1;
	} else if (ids->ruid != geteuid() || ids->rgid != getegid()) {
		errno = EPERM;
		return -1;
	}
	keep = ours & (who->facts.effective | BIT(CAP_SYS_PTRACE) | BIT(CAP_SYS_NICE) |
		       (kind != IP_PERMIT_OWN ? BIT(CAP_DAC_OVERRIDE) : 0) |
		       (kind == IP_PERMIT_MEMBER ? BIT(CAP_SETUID) : 0));
	if (set_caps(keep) < 0)
		return -1;
	for (int cap = 0; cap < 64; cap++)
		if (keep >> cap & 1 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
			return -1;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* The descriptors, in their places. What they are now may lie in each other's way. */
static int arrange(const struct ip_worker *w)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int from[] = {null,
		      w->out < 0 ? STDERR_FILENO : w->out,
		      w->err < 0 ? STDERR_FILENO : w->err,
		      w->target,
		      w->program,
		      w->directory < 0 ? root : w->directory};

	for (unsigned i = 0; i < PLACES; i++) {
		from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 2 * PLACES);
		if (from[i] < 0)
			return -1;
	}
	for (unsigned i = 0; i < PLACES; i++)
		if (dup3(from[i], i, i >= PROGRAM_FD ? O_CLOEXEC : 0) < 0)
			return -1;
	return syscall(SYS_close_range, PLACES, ~0u, 0);
}

static void fail(const char *what)
{
	dprintf(STDERR_FILENO, "iprobe: iprobed cannot start a worker: %s: %s\n", what, strerror(errno));
	_exit(1);
}

/* Who has CAP_SYS_PTRACE himself may trace whatever he names. */
static enum ip_permit_kind kind_of(const struct ip_worker *w)
{
	return w->who->facts.effective & BIT(CAP_SYS_PTRACE) ? IP_PERMIT_ANY
	       : w->entry				     ? IP_PERMIT_MEMBER
							     : IP_PERMIT_OWN;
}

static void run_child(const struct ip_worker *w, char **argv, char **env, pid_t parent)
{
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(077);
	if (setsid() < 0)
		fail("setsid");
	if (arrange(w) < 0)
		fail("descriptors");
	if (become(w->who, kind_of(w)) < 0)
		fail("cannot become who asks");
	/* as him, so that he cannot be put into a directory that is closed to him */
	if (fchdir(DIRECTORY_FD) < 0)
		fail("the directory that was sent");
	/* behind the change of ids, which clears it; our parent may be gone already */
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
		fail("iprobed ended");
	fexecve(PROGRAM_FD, argv, env);
	fail("cannot execute iprobe");
}

pid_t ip_worker_start(const struct ip_worker *w)
{
	char *argv[IP_REQUEST_OPTIONS_MAX + 8], *env[5];
	_cleanup_free_ char *permit = NULL, *variable = NULL;
	const struct ip_request *r = w->request;
	char number[16];
	size_t n = 0;
	pid_t parent = getpid(), pid;

	argv[n++] = (char *)"iprobe";
	argv[n++] = (char *)(r->what == IP_REQUEST_ATTACH ? "attach" : "detach");
	for (size_t i = 0; i < r->noptions; i++)
		argv[n++] = r->options[i];
	if (r->what == IP_REQUEST_ATTACH && *r->directory) {
		argv[n++] = (char *)"-o";
		argv[n++] = (char *)r->directory;
	}
	argv[n++] = (char *)"--";
	snprintf(number, sizeof(number), "%d", r->pid);
	argv[n++] = number;
	argv[n] = NULL;
	permit = ip_permit_text(kind_of(w), TARGET_FD, w->entry);
	if (!permit || asprintf(&variable, IP_PERMIT_VARIABLE "=%s", permit) < 0)
		variable = NULL;
	if (!variable) {
		ip_error("out of memory");
		return -1;
	}
	env[0] = (char *)"PATH=/usr/bin:/bin";
	env[1] = (char *)"LC_ALL=C.UTF-8";
	env[2] = variable;
	env[3] = (char *)"IPROBE_DAEMON=never"; /* where it may not either it would ask us */
	env[4] = NULL;
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		run_child(w, argv, env, parent);
	return pid >= 0 ? pid : ip_error_errno("cannot start a worker");
}

int ip_worker_limit(void)
{
	const uint64_t needed = BIT(CAP_SYS_PTRACE) | BIT(CAP_SYS_NICE) | BIT(CAP_SETUID) | BIT(CAP_SETGID) |
				BIT(CAP_SETPCAP) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_KILL);
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	uint64_t ours;

	if (get_caps(&ours) < 0)
		return ip_error_errno("capget");
	/* What root has and lends to a worker of root's is no more than that either: others come back through no exec. */
	for (int cap = 0; cap < 64; cap++)
		if (ours & BIT(CAP_SETPCAP) && !(needed >> cap & 1) && prctl(PR_CAPBSET_READ, cap) == 1)
			prctl(PR_CAPBSET_DROP, cap);
	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		data[i].permitted = (ours & needed) >> 32 * i;
		data[i].effective = (ours & needed & ~BIT(CAP_DAC_OVERRIDE)) >> 32 * i;
		data[i].inheritable = 0;
	}
	if (syscall(SYS_capset, &header, data) < 0)
		return ip_error_errno("capset");
	return 0;
}
