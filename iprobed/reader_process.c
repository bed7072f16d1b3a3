/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that reads events of the kernel for a session (kernel_trace/users/event_reader.h),
 * between the kernel's tracefs and a worker that has the user's rights.
 *
 *   1. It is forked from iprobed for one session, when the policy has been asked, and has nothing
 *      but its end of a socket, the pidfd of the session's process, and the log.
 *   2. It keeps root's user id, which tracefs takes, and of the capabilities CAP_SYS_PTRACE alone,
 *      to see in /proc who processes are. It cannot write to regular files (a limit), and system
 *      calls fail that trace, execute, reach the network, load code into the kernel, remove or
 *      rename files. Files of /proc/sys that root's user id may open remain: Landlock, which could
 *      forbid them, would also keep it from seeing who processes are. No user can send it a signal,
 *      or look into it.
 *   3. Each process of which it would hand over events is judged as iprobed has judged that of the
 *      request (authorize.c), again and again. Where the request is for events alone, its client
 *      names some, one after the other: each is judged as iprobed would judge a request for it, by
 *      the policy that was read before step 2, and logged by a pipe to iprobed (event_judge.h).
 *   4. It ends when its worker has ended, which is told to where iprobed ends. Where there is no
 *      worker it ends with iprobed itself: nobody else would count what it takes. If it is killed,
 *      another process removes what it has left in tracefs: at once, or where iprobed was killed,
 *      too, when the next one starts.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "iprobed/call_filter.h"
#include "iprobed/daemon_private.h"
#include "iprobed/event_judge.h"
#include "kernel_trace/kernel_check.h"
#include "kernel_trace/recorder.h"
#include "kernel_trace/users/event_reader.h"

#define SOCKET_FD 3
#define TARGET_FD 4
#define LOG_FD	  5 /* where the client names processes: for lines about them */
#define PLACES	  3
#define LOG_LINES 256u

/* What it never needs. */
static const unsigned short forbidden[] = {
	SYS_ptrace,
	SYS_process_vm_readv,
	SYS_process_vm_writev,
	SYS_pidfd_getfd,
	SYS_execve,
	SYS_execveat,
	SYS_fork,
	SYS_vfork,
	SYS_socket,
	SYS_socketpair,
	SYS_connect,
	SYS_bind,
	SYS_listen,
	SYS_bpf,
	SYS_perf_event_open,
	SYS_init_module,
	SYS_finit_module,
	SYS_delete_module,
	SYS_kexec_load,
	SYS_kexec_file_load,
	SYS_reboot,
	SYS_mount,
	SYS_umount2,
	SYS_move_mount,
	SYS_open_tree,
	SYS_fsopen,
	SYS_chroot,
	SYS_pivot_root,
	SYS_unshare,
	SYS_setns,
	SYS_unlink,
	SYS_rename,
	SYS_renameat,
	SYS_renameat2,
	SYS_link,
	SYS_linkat,
	SYS_symlink,
	SYS_symlinkat,
	SYS_mknod,
	SYS_mknodat,
	SYS_chmod,
	SYS_fchmod,
	SYS_fchmodat,
	SYS_chown,
	SYS_fchown,
	SYS_lchown,
	SYS_fchownat,
	SYS_truncate,
	SYS_ftruncate,
	SYS_setxattr,
	SYS_lsetxattr,
	SYS_fsetxattr,
	SYS_setuid,
	SYS_setreuid,
	SYS_setresuid,
	SYS_setgid,
	SYS_setregid,
	SYS_setresgid,
	SYS_kill,
	SYS_tkill,
	SYS_rt_sigqueueinfo,
	SYS_pidfd_send_signal,
	SYS_keyctl,
	SYS_add_key,
	SYS_request_key,
	SYS_userfaultfd,
	SYS_io_uring_setup,
	SYS_open_by_handle_at,
	SYS_swapon,
	SYS_swapoff,
};

#define NFORBIDDEN (sizeof(forbidden) / sizeof(*forbidden))

static int forbid_calls(void)
{
	struct ip_call_filter filter;

	ip_call_filter_begin(&filter);
	ip_call_filter_list(&filter, forbidden, NFORBIDDEN, SECCOMP_RET_ERRNO | EPERM);
	return ip_call_filter_end(&filter, SECCOMP_RET_ALLOW, "the reader of kernel events");
}

/* Step 2. */
static int give_up(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
	const struct rlimit none = {0, 0};
	const uint32_t keep = 1u << CAP_SYS_PTRACE;

	if (geteuid() == 0 && setgroups(0, NULL) < 0 && errno != EPERM)
		return ip_error_errno("setgroups");
	if (syscall(SYS_capget, &header, data) < 0)
		return ip_error_errno("capget");
	data[0].permitted &= keep;
	data[0].effective = data[0].permitted;
	data[0].inheritable = 0;
	memset(&data[1], 0, sizeof(data[1]));
	if (syscall(SYS_capset, &header, data) < 0)
		return ip_error_errno("capset");
	setrlimit(RLIMIT_FSIZE, &none);
	setrlimit(RLIMIT_CORE, &none);
	if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return ip_error_errno("prctl");
	return forbid_calls();
}

/* In a child of iprobed: its signals, and no descriptor but the log and those. */
static int part(const int *fds, unsigned n)
{
	_cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;
	int high[PLACES];

	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* the log may be a file */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_NAME, "iprobed-kernel");
	for (unsigned i = 0; i < n; i++)
		if ((high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, SOCKET_FD + PLACES)) < 0)
			return -1;
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
		return -1;
	close(ip_steal_fd(&null)); /* its number may be a place */
	for (unsigned i = 0; i < n; i++)
		if (dup3(high[i], SOCKET_FD + (int)i, O_CLOEXEC) < 0)
			return -1;
	return setsid() < 0 || syscall(SYS_close_range, SOCKET_FD + n, ~0u, 0) < 0 ? -1 : give_up();
}

static int serve(struct ip_event_judge *j)
{
	const struct ip_iprobed_session *s = j->session;
	const struct ip_event_reader_options options = {.socket = SOCKET_FD,
							.pid = j->several ? 0 : s->request.pid,
							.hold = j->several ? ip_event_judge_hold
									   : NULL,
							.access = ip_event_judge_access,
							.lives = ip_event_judge_lives,
							.context = j,
							.buffer_most = s->kernel_buffer};

	return ip_event_reader_serve(&options);
}

/* In a child of iprobed. The policy is read before the rights are given up. */
static _Noreturn void run(const struct ip_iprobed *d, const struct ip_iprobed_session *s,
			  pid_t parent, int socket, int log)
{
	static struct ip_event_judge judge;

	judge.session = s;
	judge.target = TARGET_FD;
	judge.log = LOG_FD;
	judge.several = s->request.what == IP_REQUEST_KERNEL;
	if (judge.several && ip_event_judge_read_policy(&judge, d) < 0)
		_exit(0); /* the client hears that this has ended */
	if (part((const int[]){socket, s->target, log}, judge.several ? 3 : 2) < 0) {
		ip_iprobed_log(s, "the reader of kernel events cannot give up its rights: %s",
			       ip_error_message());
		_exit(0); /* it has left nothing */
	}
	/* behind the change of rights, which may clear it; the parent may be gone already */
	if (judge.several && (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent))
		_exit(0);
	_exit(serve(&judge) < 0);
}

int ip_iprobed_reader_start(struct ip_iprobed *d, struct ip_iprobed_session *s, int *ret)
{
	_cleanup_close_ int ours = -1, theirs = -1, log = -1;
	const pid_t parent = getpid();
	int pair[2];
	pid_t pid;

	if (ip_array_grow(&d->readers, d->nreaders, sizeof(*d->readers)) < 0)
		return -1;
	if (s->request.what == IP_REQUEST_KERNEL &&
	    !(s->words = ip_worker_log_new(LOG_LINES, &log)))
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return ip_error_errno("cannot make a pair of sockets");
	ours = pair[0];
	theirs = pair[1];
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		return ip_error_errno("cannot start the reader of kernel events");
	if (!pid)
		run(d, s, parent, ours, log);
	s->reader = pid;
	d->readers[d->nreaders++] = (struct ip_iprobed_reader){
		.pid = pid, .uid = s->who.facts.ids.ruid, .buffer = s->kernel_buffer};
	*ret = ip_steal_fd(&theirs);
	return 0;
}

void ip_iprobed_reader_clean(void)
{
	pid_t pid;

	if (geteuid()) /* whose tracefs is root's */
		return;
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		ip_iprobed_log(NULL, "what readers of kernel events have left in tracefs is not "
				     "removed: no process can be made");
	if (pid)
		return;
	if (part(NULL, 0) == 0)
		ip_kernel_remove_left();
	else
		ip_iprobed_log(NULL,
			       "what readers of kernel events have left in tracefs is not "
			       "removed: %s",
			       ip_error_message());
	_exit(0);
}

bool ip_iprobed_reap_reader(struct ip_iprobed *d, pid_t pid, int status)
{
	for (size_t i = 0; i < d->nreaders; i++) {
		if (d->readers[i].pid != pid)
			continue;
		d->readers[i] = d->readers[--d->nreaders];
		if (!WIFEXITED(status) || WEXITSTATUS(status)) {
			ip_iprobed_log(NULL,
				       "a reader of kernel events %s: what it has left in tracefs "
				       "is removed",
				       WIFEXITED(status) ? "has failed" : "was killed");
			ip_iprobed_reader_clean();
		}
		return true;
	}
	return false;
}
