/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of arguments. Values are those of the headers that this program is built with.
 */
#include "analysis/syscalls/syscall_flags.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <linux/memfd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "analysis/syscalls/syscall_set.h"

#define F(constant)                                                                                \
	{                                                                                          \
#constant, (uint64_t)(constant)                                                    \
	}
#define LIST(name, ...) static const struct ip_syscall_flag name[] = {__VA_ARGS__, {NULL, 0}}
#define ANY		UINT16_MAX
#define ALL		UINT64_MAX /* no bits: one value */
#define TYPE_MASK	0xfu	   /* of sockets: SOCK_TYPE_MASK of the kernel */

/* Errors by which the kernel has a call begin anew: no header for programs has them. */
#define RESTARTSYS	     512u
#define RESTARTNOINTR	     513u
#define RESTARTNOHAND	     514u
#define RESTART_RESTARTBLOCK 516u

LIST(open_flags, F(O_RDONLY), F(O_WRONLY), F(O_RDWR), F(O_CREAT), F(O_EXCL), F(O_NOCTTY),
     F(O_TRUNC), F(O_APPEND), F(O_NONBLOCK), F(O_SYNC), F(O_DSYNC), F(O_ASYNC), F(O_DIRECT),
     F(O_TMPFILE), F(O_DIRECTORY), F(O_NOFOLLOW), F(O_NOATIME), F(O_CLOEXEC), F(O_PATH));
LIST(protections, F(PROT_NONE), F(PROT_READ), F(PROT_WRITE), F(PROT_EXEC), F(PROT_GROWSDOWN));
LIST(map_flags, F(MAP_SHARED), F(MAP_PRIVATE), F(MAP_SHARED_VALIDATE), F(MAP_FIXED),
     F(MAP_ANONYMOUS), F(MAP_GROWSDOWN), F(MAP_DENYWRITE), F(MAP_LOCKED), F(MAP_NORESERVE),
     F(MAP_POPULATE), F(MAP_NONBLOCK), F(MAP_STACK), F(MAP_HUGETLB), F(MAP_FIXED_NOREPLACE));
LIST(remap_flags, F(MREMAP_MAYMOVE), F(MREMAP_FIXED));
LIST(advices, F(MADV_NORMAL), F(MADV_RANDOM), F(MADV_SEQUENTIAL), F(MADV_WILLNEED),
     F(MADV_DONTNEED), F(MADV_FREE), F(MADV_REMOVE), F(MADV_DONTFORK), F(MADV_DOFORK),
     F(MADV_MERGEABLE), F(MADV_HUGEPAGE), F(MADV_NOHUGEPAGE), F(MADV_DONTDUMP));
LIST(file_advices, F(POSIX_FADV_NORMAL), F(POSIX_FADV_RANDOM), F(POSIX_FADV_SEQUENTIAL),
     F(POSIX_FADV_WILLNEED), F(POSIX_FADV_DONTNEED), F(POSIX_FADV_NOREUSE));
LIST(sync_flags, F(MS_ASYNC), F(MS_SYNC), F(MS_INVALIDATE));
LIST(futex_operations, F(FUTEX_WAIT), F(FUTEX_WAKE), F(FUTEX_REQUEUE), F(FUTEX_CMP_REQUEUE),
     F(FUTEX_WAKE_OP), F(FUTEX_LOCK_PI), F(FUTEX_UNLOCK_PI), F(FUTEX_TRYLOCK_PI),
     F(FUTEX_WAIT_BITSET), F(FUTEX_WAKE_BITSET), F(FUTEX_WAIT_REQUEUE_PI), F(FUTEX_CMP_REQUEUE_PI),
     F(FUTEX_LOCK_PI2), F(FUTEX_PRIVATE_FLAG), F(FUTEX_CLOCK_REALTIME));
LIST(signals, F(SIGHUP), F(SIGINT), F(SIGQUIT), F(SIGILL), F(SIGTRAP), F(SIGABRT), F(SIGBUS),
     F(SIGFPE), F(SIGKILL), F(SIGUSR1), F(SIGSEGV), F(SIGUSR2), F(SIGPIPE), F(SIGALRM), F(SIGTERM),
     F(SIGSTKFLT), F(SIGCHLD), F(SIGCONT), F(SIGSTOP), F(SIGTSTP), F(SIGTTIN), F(SIGTTOU),
     F(SIGURG), F(SIGXCPU), F(SIGXFSZ), F(SIGVTALRM), F(SIGPROF), F(SIGWINCH), F(SIGIO), F(SIGPWR),
     F(SIGSYS));
LIST(masks, F(SIG_BLOCK), F(SIG_UNBLOCK), F(SIG_SETMASK));
LIST(whences, F(SEEK_SET), F(SEEK_CUR), F(SEEK_END), F(SEEK_DATA), F(SEEK_HOLE));
LIST(families, F(AF_UNSPEC), F(AF_UNIX), F(AF_INET), F(AF_INET6), F(AF_NETLINK), F(AF_PACKET),
     F(AF_ALG), F(AF_VSOCK), F(AF_BLUETOOTH), F(AF_CAN));
LIST(types, F(SOCK_STREAM), F(SOCK_DGRAM), F(SOCK_RAW), F(SOCK_RDM), F(SOCK_SEQPACKET),
     F(SOCK_NONBLOCK), F(SOCK_CLOEXEC));
LIST(accept_flags, F(SOCK_NONBLOCK), F(SOCK_CLOEXEC));
LIST(message_flags, F(MSG_OOB), F(MSG_PEEK), F(MSG_DONTROUTE), F(MSG_CTRUNC), F(MSG_TRUNC),
     F(MSG_DONTWAIT), F(MSG_EOR), F(MSG_WAITALL), F(MSG_NOSIGNAL), F(MSG_MORE), F(MSG_WAITFORONE),
     F(MSG_ERRQUEUE), F(MSG_FASTOPEN), F(MSG_ZEROCOPY), F(MSG_CMSG_CLOEXEC));
LIST(shutdowns, F(SHUT_RD), F(SHUT_WR), F(SHUT_RDWR));
LIST(levels, F(SOL_SOCKET), F(SOL_IP), F(SOL_TCP), F(SOL_UDP), F(SOL_IPV6));
LIST(file_commands, F(F_DUPFD), F(F_GETFD), F(F_SETFD), F(F_GETFL), F(F_SETFL), F(F_GETLK),
     F(F_SETLK), F(F_SETLKW), F(F_SETOWN), F(F_GETOWN), F(F_SETSIG), F(F_GETSIG), F(F_OFD_GETLK),
     F(F_OFD_SETLK), F(F_OFD_SETLKW), F(F_SETLEASE), F(F_GETLEASE), F(F_NOTIFY), F(F_DUPFD_CLOEXEC),
     F(F_SETPIPE_SZ), F(F_GETPIPE_SZ), F(F_ADD_SEALS), F(F_GET_SEALS));
LIST(epoll_operations, F(EPOLL_CTL_ADD), F(EPOLL_CTL_DEL), F(EPOLL_CTL_MOD));
LIST(epoll_flags, F(EPOLL_CLOEXEC));
LIST(event_flags, F(EFD_CLOEXEC), F(EFD_NONBLOCK), F(EFD_SEMAPHORE));
LIST(timer_flags, F(TFD_CLOEXEC), F(TFD_NONBLOCK));
LIST(timer_times, F(TFD_TIMER_ABSTIME), F(TFD_TIMER_CANCEL_ON_SET));
LIST(locks, F(LOCK_SH), F(LOCK_EX), F(LOCK_UN), F(LOCK_NB));
LIST(accesses, F(F_OK), F(R_OK), F(W_OK), F(X_OK));
LIST(at_flags, F(AT_SYMLINK_NOFOLLOW), F(AT_SYMLINK_FOLLOW), F(AT_NO_AUTOMOUNT), F(AT_EMPTY_PATH),
     F(AT_STATX_FORCE_SYNC), F(AT_STATX_DONT_SYNC));
LIST(unlink_flags, F(AT_REMOVEDIR));
LIST(access_flags, F(AT_EACCESS), F(AT_SYMLINK_NOFOLLOW));
LIST(clocks, F(CLOCK_REALTIME), F(CLOCK_MONOTONIC), F(CLOCK_PROCESS_CPUTIME_ID),
     F(CLOCK_THREAD_CPUTIME_ID), F(CLOCK_MONOTONIC_RAW), F(CLOCK_REALTIME_COARSE),
     F(CLOCK_MONOTONIC_COARSE), F(CLOCK_BOOTTIME), F(CLOCK_REALTIME_ALARM), F(CLOCK_BOOTTIME_ALARM),
     F(CLOCK_TAI));
LIST(clock_flags, F(TIMER_ABSTIME));
LIST(wait_options, F(WNOHANG), F(WUNTRACED), F(WCONTINUED), F(WEXITED), F(WNOWAIT), F(__WALL),
     F(__WCLONE), F(__WNOTHREAD));
LIST(waits, F(P_ALL), F(P_PID), F(P_PGID), F(P_PIDFD));
LIST(clone_flags, F(CLONE_VM), F(CLONE_FS), F(CLONE_FILES), F(CLONE_SIGHAND), F(CLONE_PIDFD),
     F(CLONE_PTRACE), F(CLONE_VFORK), F(CLONE_PARENT), F(CLONE_THREAD), F(CLONE_NEWNS),
     F(CLONE_SYSVSEM), F(CLONE_SETTLS), F(CLONE_PARENT_SETTID), F(CLONE_CHILD_CLEARTID),
     F(CLONE_UNTRACED), F(CLONE_CHILD_SETTID), F(CLONE_NEWCGROUP), F(CLONE_NEWUTS), F(CLONE_NEWIPC),
     F(CLONE_NEWUSER), F(CLONE_NEWPID), F(CLONE_NEWNET), F(CLONE_IO), F(SIGCHLD));
LIST(random_flags, F(GRND_NONBLOCK), F(GRND_RANDOM));
LIST(memfd_flags, F(MFD_CLOEXEC), F(MFD_ALLOW_SEALING), F(MFD_HUGETLB));
LIST(resources, F(RLIMIT_CPU), F(RLIMIT_FSIZE), F(RLIMIT_DATA), F(RLIMIT_STACK), F(RLIMIT_CORE),
     F(RLIMIT_RSS), F(RLIMIT_NPROC), F(RLIMIT_NOFILE), F(RLIMIT_MEMLOCK), F(RLIMIT_AS),
     F(RLIMIT_LOCKS), F(RLIMIT_SIGPENDING), F(RLIMIT_MSGQUEUE), F(RLIMIT_NICE), F(RLIMIT_RTPRIO),
     F(RLIMIT_RTTIME));
LIST(usages, F(RUSAGE_SELF), F(RUSAGE_CHILDREN), F(RUSAGE_THREAD));
LIST(process_options, F(PR_SET_NAME), F(PR_GET_NAME), F(PR_SET_PDEATHSIG), F(PR_GET_PDEATHSIG),
     F(PR_SET_DUMPABLE), F(PR_GET_DUMPABLE), F(PR_SET_SECCOMP), F(PR_GET_SECCOMP),
     F(PR_CAPBSET_READ), F(PR_CAPBSET_DROP), F(PR_SET_TIMERSLACK), F(PR_GET_TIMERSLACK),
     F(PR_SET_NO_NEW_PRIVS), F(PR_GET_NO_NEW_PRIVS), F(PR_SET_CHILD_SUBREAPER), F(PR_SET_KEEPCAPS),
     F(PR_SET_MM), F(PR_SET_PTRACER), F(PR_CAP_AMBIENT), F(PR_SET_VMA));
LIST(close_flags, F(CLOSE_RANGE_UNSHARE), F(CLOSE_RANGE_CLOEXEC));
LIST(duplicate_flags, F(O_CLOEXEC));
LIST(pipe_flags, F(O_CLOEXEC), F(O_NONBLOCK), F(O_DIRECT));
LIST(splice_flags, F(SPLICE_F_MOVE), F(SPLICE_F_NONBLOCK), F(SPLICE_F_MORE), F(SPLICE_F_GIFT));
LIST(allocations, F(FALLOC_FL_KEEP_SIZE), F(FALLOC_FL_PUNCH_HOLE), F(FALLOC_FL_COLLAPSE_RANGE),
     F(FALLOC_FL_ZERO_RANGE), F(FALLOC_FL_INSERT_RANGE), F(FALLOC_FL_UNSHARE_RANGE));

/* The first rule that fits is taken. */
static const struct {
	uint16_t call; /* ANY: of all calls */
	const char *argument;
	struct ip_syscall_argument how;
} rules[] = {
#define NAMED(call, argument, flags, mask)                                                         \
	{                                                                                          \
		call, argument,                                                                    \
		{                                                                                  \
			IP_SYSCALL_NAMES, flags, mask                                              \
		}                                                                                  \
	}
#define PLAIN(call, argument, format)                                                              \
	{                                                                                          \
		call, argument,                                                                    \
		{                                                                                  \
			format, NULL, 0                                                            \
		}                                                                                  \
	}
	NAMED(SYS_open, "flags", open_flags, O_ACCMODE),
	NAMED(SYS_openat, "flags", open_flags, O_ACCMODE),
	NAMED(SYS_mmap, "flags", map_flags, MAP_TYPE),
	NAMED(SYS_mremap, "flags", remap_flags, 0),
	NAMED(ANY, "prot", protections, 0),
	NAMED(SYS_madvise, "behavior", advices, ALL),
	NAMED(SYS_fadvise64, "advice", file_advices, ALL),
	NAMED(SYS_msync, "flags", sync_flags, 0),
	NAMED(SYS_futex, "op", futex_operations, FUTEX_CMD_MASK),
	PLAIN(SYS_futex, "val", IP_SYSCALL_INT),
	PLAIN(SYS_pselect6, "sig", IP_SYSCALL_HEX),
	PLAIN(SYS_rseq, "sig", IP_SYSCALL_HEX),
	NAMED(ANY, "sig", signals, ALL),
	NAMED(SYS_rt_sigprocmask, "how", masks, ALL),
	NAMED(SYS_shutdown, "how", shutdowns, ALL),
	NAMED(SYS_lseek, "whence", whences, ALL),
	NAMED(SYS_socket, "family", families, ALL),
	NAMED(SYS_socketpair, "family", families, ALL),
	NAMED(SYS_socket, "type", types, TYPE_MASK),
	NAMED(SYS_socketpair, "type", types, TYPE_MASK),
	NAMED(SYS_accept4, "flags", accept_flags, 0),
	NAMED(SYS_sendto, "flags", message_flags, 0),
	NAMED(SYS_recvfrom, "flags", message_flags, 0),
	NAMED(SYS_sendmsg, "flags", message_flags, 0),
	NAMED(SYS_recvmsg, "flags", message_flags, 0),
	NAMED(SYS_sendmmsg, "flags", message_flags, 0),
	NAMED(SYS_recvmmsg, "flags", message_flags, 0),
	NAMED(SYS_setsockopt, "level", levels, ALL),
	NAMED(SYS_getsockopt, "level", levels, ALL),
	NAMED(SYS_fcntl, "cmd", file_commands, ALL),
	NAMED(SYS_flock, "cmd", locks, 0),
	NAMED(SYS_epoll_ctl, "op", epoll_operations, ALL),
	NAMED(SYS_epoll_create1, "flags", epoll_flags, 0),
	NAMED(SYS_eventfd2, "flags", event_flags, 0),
	NAMED(SYS_timerfd_create, "flags", timer_flags, 0),
	NAMED(SYS_timerfd_settime, "flags", timer_times, 0),
	NAMED(SYS_access, "mode", accesses, 0),
	NAMED(SYS_faccessat, "mode", accesses, 0),
	NAMED(SYS_faccessat2, "mode", accesses, 0),
	NAMED(SYS_faccessat2, "flags", access_flags, 0),
	NAMED(SYS_unlinkat, "flag", unlink_flags, 0),
	NAMED(SYS_newfstatat, "flag", at_flags, 0),
	NAMED(SYS_statx, "flags", at_flags, 0),
	NAMED(SYS_fchownat, "flag", at_flags, 0),
	NAMED(SYS_linkat, "flags", at_flags, 0),
	NAMED(SYS_utimensat, "flags", at_flags, 0),
	NAMED(SYS_execveat, "flags", at_flags, 0),
	NAMED(ANY, "which_clock", clocks, ALL),
	NAMED(ANY, "clockid", clocks, ALL),
	NAMED(SYS_clock_nanosleep, "flags", clock_flags, 0),
	NAMED(SYS_wait4, "options", wait_options, 0),
	NAMED(SYS_waitid, "options", wait_options, 0),
	NAMED(SYS_waitid, "which", waits, ALL),
	NAMED(SYS_clone, "clone_flags", clone_flags, 0xff),
	NAMED(SYS_unshare, "unshare_flags", clone_flags, 0),
	NAMED(SYS_getrandom, "flags", random_flags, 0),
	NAMED(SYS_memfd_create, "flags", memfd_flags, 0),
	NAMED(ANY, "resource", resources, ALL),
	NAMED(SYS_getrusage, "who", usages, ALL),
	NAMED(SYS_prctl, "option", process_options, ALL),
	NAMED(SYS_close_range, "flags", close_flags, 0),
	NAMED(SYS_dup3, "flags", duplicate_flags, 0),
	NAMED(SYS_pipe2, "flags", pipe_flags, 0),
	NAMED(SYS_splice, "flags", splice_flags, 0),
	NAMED(SYS_tee, "flags", splice_flags, 0),
	NAMED(SYS_vmsplice, "flags", splice_flags, 0),
	NAMED(SYS_fallocate, "mode", allocations, 0),
	PLAIN(SYS_mbind, "mode", IP_SYSCALL_HEX),
	PLAIN(SYS_set_mempolicy, "mode", IP_SYSCALL_HEX),
	PLAIN(ANY, "mode", IP_SYSCALL_OCTAL),
	PLAIN(SYS_umask, "mask", IP_SYSCALL_OCTAL),
	PLAIN(SYS_dup, "fildes", IP_SYSCALL_DESCRIPTOR),
	PLAIN(SYS_sendfile, "offset", IP_SYSCALL_HEX), /* a pointer */
};

/* Names that mean a number in all calls. */
static const struct {
	enum ip_syscall_format format;
	const char *arguments; /* between commas */
} numbers[] = {
	{IP_SYSCALL_INT,
	 ",pid,upid,tgid,user,group,uid,gid,ruid,euid,suid,rgid,egid,sgid,backlog,timeout,"
	 "timeout_msecs,maxevents,optname,protocol,error_code,which,who,policy,niceval,seconds,"
	 "semid,semnum,shmid,msqid,wd,cpu,timer_id,addrlen,addr_len,optlen,priority,pgid,fsuid,"},
	{IP_SYSCALL_SIZE,
	 ",count,len,size,length,nbytes,vlen,liovcnt,riovcnt,nr_segs,nfds,n,bufsiz,sigsetsize,"
	 "len_in,old_len,new_len,nsops,msgsz,rseq_len,msg_len,nr,min_nr,gidsetsize,usize,"},
	{IP_SYSCALL_OFFSET, ",offset,off,pos,pos_l,pgoff,"},
};

struct ip_syscall_argument ip_syscall_argument_of(unsigned number, const char *argument)
{
	char wanted[40];

	for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
		if ((rules[i].call == number || rules[i].call == ANY) &&
		    !strcmp(rules[i].argument, argument))
			return rules[i].how;
	if (ip_syscall_names_descriptor(argument))
		return (struct ip_syscall_argument){IP_SYSCALL_DESCRIPTOR, NULL, 0};
	snprintf(wanted, sizeof(wanted), ",%s,", argument);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (strstr(numbers[i].arguments, wanted))
			return (struct ip_syscall_argument){numbers[i].format, NULL, 0};
	return (struct ip_syscall_argument){IP_SYSCALL_HEX, NULL, 0};
}

static void append(char *out, size_t size, size_t *at, const char *name)
{
	int n = snprintf(out + *at, size - *at, "%s%s", *at ? "|" : "", name);

	*at = n > 0 && (size_t)n < size - *at ? *at + n : size - 1;
}

size_t ip_syscall_flags_write(char *out, size_t size, const struct ip_syscall_argument *argument,
			      uint64_t value)
{
	const uint64_t mask = argument->mask;
	uint64_t left = argument->mask == ALL ? value : (uint32_t)value;
	size_t at = 0;
	char hex[32];
	bool named = !mask;

	*out = '\0';
	if (mask == ALL) /* they are 32 bits wide, and may have a sign */
		left = (uint32_t)value;
	for (const struct ip_syscall_flag *f = argument->flags; !named && f->name; f++)
		if ((f->value & mask & UINT32_MAX) == (left & mask) &&
		    !(f->value & ~mask & UINT32_MAX)) {
			append(out, size, &at, f->name);
			left &= ~mask;
			named = true;
		}
	for (const struct ip_syscall_flag *f = argument->flags; mask != ALL && f->name; f++)
		if (f->value && !(f->value & mask) && (left & f->value) == f->value) {
			append(out, size, &at, f->name);
			left &= ~f->value;
		}
	/* a value of no bit may have a name: PROT_NONE, F_OK */
	for (const struct ip_syscall_flag *f = argument->flags; !value && !at && f->name; f++)
		if (!f->value && !mask)
			append(out, size, &at, f->name);
	if (left || !at) {
		snprintf(hex, sizeof(hex), left ? "0x%lx" : "%lu", left);
		append(out, size, &at, hex);
	}
	return at;
}

bool ip_syscall_error_restarts(unsigned number)
{
	return number == RESTARTSYS || number == RESTARTNOINTR || number == RESTARTNOHAND ||
	       number == RESTART_RESTARTBLOCK;
}

const char *ip_syscall_error_name(unsigned number, char buffer[24])
{
	const char *name = strerrorname_np(number);

	switch (number) {
	case RESTARTSYS:
		return "ERESTARTSYS";
	case RESTARTNOINTR:
		return "ERESTARTNOINTR";
	case RESTARTNOHAND:
		return "ERESTARTNOHAND";
	case RESTART_RESTARTBLOCK:
		return "ERESTART_RESTARTBLOCK";
	default:
		break;
	}
	if (name)
		return name;
	snprintf(buffer, 24, "errno %u", number);
	return buffer;
}
