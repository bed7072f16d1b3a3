/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting a worker. See worker.h.
 */
#include "iprobed/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "access/delegation.h"
#include "access/fd_passing.h"
#include "access/worker_client.h"
#include "common/cleanup.h"
#include "common/error.h"

#define TARGET_FD    3
#define PROGRAM_FD   4
#define DIRECTORY_FD 5
#define CHANNEL_FD   5 /* before DIRECTORY_FD is in its place */
#define REPORT_FD    6
#define LOG_FD	     7 /* of a worker that the client leaves; others lack it */
#define EVENTS_FD    8 /* of a worker that records events of the kernel; others lack it */
#define PLACES	     9
#define BIT(cap)     (1ull << (cap))
#define CHANNEL_MS   10000

#define ADDRESS_SPACE_MAX (16ull << 30)
#define DATA_MAX	  (2ull << 30)

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

/* Takes the ids of the requesting user, except for the real and the saved user id. Keeps the
 * capabilities that must survive the exec: more of them if the worker may trace other users'
 * processes, and CAP_SETUID if it gives up root's ids after the exec (delegation.h). */
static int become(const struct ip_peer *who, enum ip_delegation_kind kind)
{
	const struct ip_ids *ids = &who->facts.ids;
	uint64_t ours, keep;

	if (get_caps(&ours) < 0)
		return -1;
	if (geteuid() == 0) {
		/* Uid 0 by itself must give the worker nothing: otherwise an exec would give it all
		 * capabilities. */
		if (prctl(PR_SET_SECUREBITS,
			  SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_KEEP_CAPS) < 0 ||
		    setgroups(who->ngroups, who->groups) < 0 ||
		    setresgid(ids->rgid, ids->rgid, ids->rgid) < 0 ||
		    setresuid(-1, ids->ruid, -1) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
			return -1;
	} else if (ids->ruid != geteuid() || ids->rgid != getegid()) {
		errno = EPERM;
		return -1;
	}
	keep = ours &
	       (who->facts.effective | BIT(CAP_SYS_PTRACE) | BIT(CAP_SYS_NICE) |
		(kind != IP_DELEGATION_OWN ? BIT(CAP_DAC_OVERRIDE) | BIT(CAP_CHECKPOINT_RESTORE)
					   : 0) |
		(getuid() == 0 ? BIT(CAP_SETUID) : 0));
	if (set_caps(keep) < 0)
		return -1;
	for (int cap = 0; cap < 64; cap++)
		if (keep >> cap & 1 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
			return -1;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static int report_fd; /* where it is at the moment */

/* In the child. iprobed reads it when the child has ended, for the log and for the client. */
static void fail(const char *what)
{
	char text[256];
	int n = snprintf(text, sizeof(text), "%s: %s", what, strerror(errno));

	(void)!write(report_fd, text, n < (int)sizeof(text) ? n : (int)sizeof(text) - 1);
	_exit(1);
}

/* Puts the descriptors that are kept in their places, and closes all others (iprobed's socket,
 * connections...). The present numbers may overlap with the places. The place of a -1 stays empty.
 * Where it fails, report_fd is a copy that nothing has replaced. */
static int put_in_place(const int *from, unsigned first, unsigned n)
{
	int high[PLACES];

	for (unsigned i = 0; i < n; i++) {
		high[i] = from[i] < 0 ? -1 : fcntl(from[i], F_DUPFD_CLOEXEC, 3 * PLACES);
		if (high[i] < 0 && from[i] >= 0)
			return -1;
	}
	for (unsigned i = 0; i < n; i++)
		if (from[i] == report_fd) {
			report_fd = high[i];
			break;
		}
	for (unsigned i = 0; i < n; i++)
		if (high[i] < 0)
			close(first + i);
		else if (dup3(high[i], first + i, first + i != TARGET_FD ? O_CLOEXEC : 0) < 0)
			return -1;
	return syscall(SYS_close_range, first + n, ~0u, 0);
}

/* Receives the client's descriptors. The receiver of the connection sends them when iprobed has
 * told it. ret: directory, out, err. */
static void receive(const struct ip_worker *w, int ret[3])
{
	size_t expected = ip_request_fds(w->request->what), n = 0;
	struct pollfd p = {.fd = CHANNEL_FD, .events = POLLIN};
	char byte;
	int flags = 0, fds[IP_REQUEST_FDS];

	if (poll(&p, 1, CHANNEL_MS) != 1 ||
	    ip_receive_with_fds(CHANNEL_FD, &byte, 1, fds, IP_REQUEST_FDS, &n, &flags,
				MSG_DONTWAIT) != 1 ||
	    n != expected) {
		errno = ECONNRESET;
		fail("the client has sent nothing, or has gone");
	}
	for (size_t i = 0; i < n; i++)
		ret[3 - n + i] = fds[i];
}

/* Puts standard input, output and error in their places, and the directory in the place of the
 * channel. */
static int arrange(const int theirs[3], int target, int program, int log, int events)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), root;

	if (null < 0)
		fail("/dev/null");
	root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		fail("/");

	const int all[] = {null,
			   theirs[1] < 0 ? STDERR_FILENO : theirs[1],
			   theirs[2] < 0 ? STDERR_FILENO : theirs[2],
			   target,
			   program,
			   theirs[0] < 0 ? root : theirs[0],
			   report_fd,
			   log,
			   events};

	if (put_in_place(all, 0, PLACES) < 0)
		return -1;
	report_fd = REPORT_FD;
	for (int i = 0; i <= STDERR_FILENO; i++)
		if (fcntl(i, F_SETFD, 0) < 0)
			return -1;
	return 0;
}

static int set_limit(int what, uint64_t his, uint64_t ours)
{
	struct rlimit limit;
	rlim_t value = his < ours ? his : ours;

	if (getrlimit(what, &limit) < 0)
		return -1;
	if (value > limit.rlim_max)
		value = limit.rlim_max;
	limit.rlim_cur = limit.rlim_max = value; /* UINT64_MAX is RLIM_INFINITY */
	return setrlimit(what, &limit);
}

/* The limits are those that the user would have without iprobed. In addition memory is limited:
 * programs and their symbols are large, but not without end. */
int ip_worker_set_limits(const struct ip_peer_limits *his)
{
	return set_limit(RLIMIT_FSIZE, his->file_size, UINT64_MAX) < 0 ||
			       set_limit(RLIMIT_NPROC, his->processes, UINT64_MAX) < 0 ||
			       set_limit(RLIMIT_AS, his->address_space, ADDRESS_SPACE_MAX) < 0 ||
			       set_limit(RLIMIT_DATA, his->data, DATA_MAX) < 0 ||
			       set_limit(RLIMIT_CORE, 0, 0) < 0
		       ? -1
		       : 0;
}

/* A user who has CAP_SYS_PTRACE himself may trace any process that he names. */
static enum ip_delegation_kind kind_of(const struct ip_worker *w)
{
	return w->who->facts.effective & BIT(CAP_SYS_PTRACE) ? IP_DELEGATION_ANY
	       : w->entry				     ? IP_DELEGATION_MEMBER
							     : IP_DELEGATION_OWN;
}

static void run_child(const struct ip_worker *w, char **argv, char **env, pid_t parent)
{
	const int ours[] = {w->target, w->program, w->channel, w->report, w->log, w->events};
	int theirs[] = {w->directory, w->out, w->err};
	sigset_t none;

	report_fd = w->report;
	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(077);
	if (setsid() < 0)
		fail("setsid");
	if (w->channel >= 0) {
		if (put_in_place(ours, TARGET_FD, sizeof(ours) / sizeof(*ours)) < 0)
			fail("descriptors");
		report_fd = REPORT_FD;
	}
	if (ip_worker_set_limits(&w->who->limits) < 0)
		fail("limits");
	if (become(w->who, kind_of(w)) < 0)
		fail("cannot become the client's user");
	/* After the change of ids, which clears it. The parent may be gone already. */
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
		fail("iprobed ended");
	if (w->channel >= 0)
		receive(w, theirs);
	if ((w->channel >= 0 ? arrange(theirs, TARGET_FD, PROGRAM_FD, w->log < 0 ? -1 : LOG_FD,
				       w->events < 0 ? -1 : EVENTS_FD)
			     : arrange(theirs, w->target, w->program, w->log, w->events)) < 0 ||
	    (w->log >= 0 && (fcntl(REPORT_FD, F_SETFD, 0) < 0 || fcntl(LOG_FD, F_SETFD, 0) < 0)) ||
	    (w->events >= 0 && fcntl(EVENTS_FD, F_SETFD, 0) < 0))
		fail("descriptors");
	/* With the user's ids, so that he cannot enter a directory that he may not enter
	 * himself. */
	if (fchdir(DIRECTORY_FD) < 0)
		fail("the directory that was sent");
	/* The new image stays root's until it is not dumpable any more. Otherwise its files in
	 * /proc would be the user's for a moment. */
	if (getuid() == 0 && setresuid(0, 0, 0) < 0)
		fail("ids");
	fexecve(PROGRAM_FD, argv, env);
	fail("cannot execute iprobe");
}

pid_t ip_worker_start(const struct ip_worker *w)
{
	char *argv[IP_REQUEST_OPTIONS_MAX + 8];
	_cleanup_free_ char *delegation = NULL, *variable = NULL, *client = NULL,
			    *client_variable = NULL;
	const struct ip_request *r = w->request;
	char number[16];
	size_t n = 0;
	pid_t parent = getpid(), pid;

	if (r->what != IP_REQUEST_FPERF)
		argv[n++] = (char *)"iprobe";
	argv[n++] = (char *)ip_request_name(r->what);
	for (size_t i = 0; i < r->noptions; i++)
		argv[n++] = r->options[i];
	if (*r->directory) {
		argv[n++] = (char *)"-o";
		argv[n++] = (char *)r->directory;
	}
	argv[n++] = (char *)(r->what == IP_REQUEST_FPERF ? "-p" : "--");
	snprintf(number, sizeof(number), "%d", r->pid);
	argv[n++] = number;
	argv[n] = NULL;
	delegation = ip_delegation_text(
		kind_of(w), getuid() == 0 ? w->who->facts.ids.ruid : IP_DELEGATION_STAYS, TARGET_FD,
		w->entry);
	client = ip_worker_client_text(w->log < 0 ? -1 : REPORT_FD, w->log < 0 ? -1 : LOG_FD,
				       w->events < 0 ? -1 : EVENTS_FD, r->member,
				       r->shown ? r->shown : "", w->no_events ? w->no_events : "");
	if (!delegation || asprintf(&variable, IP_DELEGATION_VARIABLE "=%s", delegation) < 0)
		variable = NULL;
	if (!client || asprintf(&client_variable, IP_WORKER_CLIENT_VARIABLE "=%s", client) < 0)
		client_variable = NULL;
	if (!variable || !client_variable) {
		ip_error("out of memory");
		return -1;
	}
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		run_child(w, argv,
			  (char *[]){IP_WORKER_ENVIRONMENT, variable, client_variable, NULL},
			  parent);
	return pid >= 0 ? pid : ip_error_errno("cannot start a worker");
}

int ip_worker_limit(void)
{
	const uint64_t needed = BIT(CAP_SYS_PTRACE) | BIT(CAP_SYS_NICE) | BIT(CAP_SETUID) |
				BIT(CAP_SETGID) | BIT(CAP_SETPCAP) | BIT(CAP_DAC_OVERRIDE) |
				BIT(CAP_KILL) | BIT(CAP_CHECKPOINT_RESTORE);
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	uint64_t ours;

	if (get_caps(&ours) < 0)
		return ip_error_errno("capget");
	/* A worker for root gets no more than these capabilities either. The others are dropped
	 * from the bounding set, too: no exec brings them back. */
	for (int cap = 0; cap < 64; cap++)
		if (ours & BIT(CAP_SETPCAP) && !(needed >> cap & 1) &&
		    prctl(PR_CAPBSET_READ, cap) == 1)
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
