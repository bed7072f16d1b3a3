/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a receiver gives up: ids, capabilities, new files and processes, and every system call
 * except those of its loop.
 */
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/error.h"
#include "iprobed/call_filter.h"
#include "iprobed/receiver.h"

#define NOBODY 65534

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
/* A sanitizer's runtime makes system calls of its own. In such a build forbidden calls fail
 * instead. */
#ifdef SANITIZED
#define OTHERWISE (SECCOMP_RET_ERRNO | EPERM)
#else
#define OTHERWISE SECCOMP_RET_KILL_PROCESS
#endif

/* System calls of the loop, and those that malloc, poll() and exit need. mmap has a rule of its
 * own. prctl and getppid are for the last steps of the start. */
static const unsigned short allowed[] = {
	SYS_poll,	    SYS_ppoll,	    SYS_recvmsg,       SYS_sendmsg,
	SYS_sendto,	    SYS_close,	    SYS_read,	       SYS_write,
	SYS_exit,	    SYS_exit_group, SYS_brk,	       SYS_munmap,
	SYS_mremap,	    SYS_madvise,    SYS_clock_gettime, SYS_futex,
	SYS_getppid,	    SYS_prctl,	    SYS_rt_sigreturn,  SYS_restart_syscall,
	SYS_rt_sigprocmask, SYS_getrandom,
};

#define NALLOWED (sizeof(allowed) / sizeof(*allowed))

static int filter_calls(void)
{
	static const struct sock_filter mappings[] = {
		/* memory, but none that is executable */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct ip_call_filter filter;

	ip_call_filter_begin(&filter);
	ip_call_filter_list(&filter, allowed, NALLOWED, SECCOMP_RET_ALLOW);
	for (size_t i = 0; i < sizeof(mappings) / sizeof(*mappings); i++)
		ip_call_filter_put(&filter, mappings[i]);
	return ip_call_filter_end(&filter, OTHERWISE, "the socket's process");
}

static int drop_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

	return syscall(SYS_capset, &header, none) < 0
		       ? ip_error_errno("cannot give up capabilities")
		       : 0;
}

int ip_receiver_confine(void)
{
	const struct rlimit none = {0, 0};

	if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
			       setresuid(NOBODY, NOBODY, NOBODY) < 0))
		return ip_error_errno("cannot become nobody");
	if (drop_capabilities() < 0)
		return -1;
	setrlimit(RLIMIT_FSIZE, &none);
	setrlimit(RLIMIT_NPROC, &none);
	setrlimit(RLIMIT_CORE, &none);
	if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return ip_error_errno("prctl");
	return filter_calls();
}
