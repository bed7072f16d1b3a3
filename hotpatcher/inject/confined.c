/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges the system calls of a confined thread. confined.h describes the steps; the comments here
 * name them.
 */
#include "hotpatcher/inject/confined.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/memfd.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <unistd.h>

#include "common/abi/area.h"
#include "common/arch/x86_64/audit.h"
#include "common/cleanup.h"
#include "hotpatcher/arch/x86_64/borrow.h"

#ifndef PTRACE_O_SUSPEND_SECCOMP
#define PTRACE_O_SUSPEND_SECCOMP (1 << 21)
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

#define PAGE 4096ull
/* a wake makes about 35 calls and one for each room for stubs, an injection 4 */
#define CALLS_MAX    (128u + IP_INJECTION_ROOMS)
#define OWN_MAX	     (64ull << 20) /* the most memory that is not shared, bytes */
#define OWNER_ALONE  0600
#define FD_FLOOR_MAX 1024u
#define SIGNALS_SIZE 8u

#define READ_WRITE (PROT_READ | PROT_WRITE)
#define READ_EXEC  (PROT_READ | PROT_EXEC)

static int set_options(pid_t tid, bool suspended)
{
	return ptrace(PTRACE_SETOPTIONS, tid, 0,
		      PTRACE_O_TRACESYSGOOD | (suspended ? PTRACE_O_SUSPEND_SECCOMP : 0));
}

static int info_of(pid_t tid, struct __ptrace_syscall_info *ret)
{
	long got = ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(*ret), ret);

	return got >= (long)offsetof(struct __ptrace_syscall_info, entry) ? 0 : -1;
}

bool ip_confined_may(pid_t tid)
{
	struct __ptrace_syscall_info info;

	return info_of(tid, &info) == 0 && set_options(tid, true) == 0 &&
	       set_options(tid, false) == 0;
}

static bool knows_fd(const struct ip_confined *c, uint64_t fd)
{
	for (unsigned i = 0; i < IP_CONFINED_FDS; i++)
		if (c->fds[i] && (uint32_t)fd == (uint32_t)c->fds[i] - 1)
			return true;
	return false;
}

/* Whether the address is the hint that the runtime gives for the area. mmap() with a hint replaces
 * no mapping. */
static bool is_place(uint64_t address)
{
	return !address ||
	       (address >= IP_AREA_PLACE && address < IP_AREA_PLACE + IP_AREA_PLACE_RANGE);
}

/* Whether a call of mmap() is ours. It may map: anonymous memory that holds nothing and cannot be
 * written, for code; anonymous memory that the thread may write; the area; or a page in the place
 * of a page of the area. */
static bool may_map(const struct ip_confined *c, const uint64_t *a)
{
	const uint64_t flags = a[3], own = MAP_PRIVATE | MAP_ANONYMOUS;

	if (a[5])
		return false;
	if ((int)a[4] >= 0)
		return !c->size && !c->area && is_place(a[0]) && a[2] == READ_WRITE &&
		       flags == (MAP_SHARED | MAP_NORESERVE) && knows_fd(c, a[4]);
	if (c->size)
		return !a[0] && a[1] == c->size && a[2] == READ_EXEC &&
		       flags == (own | MAP_NORESERVE);
	if (flags == (own | MAP_FIXED | MAP_GROWSDOWN))
		return c->area && a[0] > c->area && a[0] < c->area + c->area_size && a[1] == PAGE &&
		       a[2] == READ_WRITE;
	if (a[1] > OWN_MAX)
		return false;
	if (a[2] == READ_EXEC)
		return flags == (own | MAP_NORESERVE | MAP_FIXED_NOREPLACE);
	return !a[0] && a[2] == READ_WRITE && flags == own;
}

static bool may_advise(uint64_t advice)
{
	return advice == MADV_DONTDUMP || advice == MADV_WIPEONFORK || advice == MADV_DONTFORK;
}

enum verdict { STRANGE, DENIED, GRANTED, OURS };

/* Step 2. */
static enum verdict judge(const struct ip_confined *c, uint64_t number, const uint64_t *a)
{
	bool injection = c->size;

	switch (number) {
	case SYS_mmap:
		return may_map(c, a) ? GRANTED : DENIED;
	case SYS_mprotect:
		return injection && c->memory && a[0] == c->memory + c->data &&
				       a[1] == c->data_size && a[2] == READ_WRITE
			       ? GRANTED
			       : DENIED;
	case SYS_prctl:
		if (!injection)
			return a[0] == PR_GET_TSC ? GRANTED : DENIED;
		return a[0] == PR_SET_VMA && !a[1] && a[2] == c->memory && a[3] == c->size ? GRANTED
											   : DENIED;
	case SYS_rt_sigtimedwait:
		return !a[1] && a[3] == SIGNALS_SIZE ? GRANTED : DENIED;
	}
	if (injection)
		return STRANGE;
	switch (number) {
	case SYS_rt_sigprocmask:
		return a[0] == SIG_SETMASK && !a[2] && a[3] == SIGNALS_SIZE ? GRANTED : DENIED;
	case SYS_prlimit64:
		return !a[0] && a[1] == RLIMIT_FSIZE && !a[2] ? GRANTED : DENIED;
	case SYS_memfd_create:
		return a[1] == (MFD_CLOEXEC | MFD_NOEXEC_SEAL) ||
				       a[1] == (MFD_CLOEXEC | MFD_ALLOW_SEALING)
			       ? GRANTED
			       : DENIED;
	case SYS_fcntl:
		return knows_fd(c, a[0]) && a[1] == F_DUPFD_CLOEXEC && a[2] <= FD_FLOOR_MAX
			       ? GRANTED
			       : DENIED;
	case SYS_close:
		return knows_fd(c, a[0]) ? GRANTED : DENIED;
	case SYS_fchmod:
		return knows_fd(c, a[0]) && a[1] == OWNER_ALONE ? OURS : DENIED;
	case SYS_ftruncate:
		return knows_fd(c, a[0]) && a[1] == IP_AREA_DATA_OFFSET ? OURS : DENIED;
	case SYS_madvise:
		return may_advise(a[2]) ? GRANTED : DENIED;
	case SYS_getpid:
	case SYS_gettid:
	case SYS_mincore:
	case SYS_getresuid:
	case SYS_getresgid:
	case SYS_capget:
		return GRANTED;
	case SYS_munmap:
	/* openat(): the process could choose the name. iprobe reaches the area without that
	 * descriptor */
	case SYS_openat:
		return DENIED;
	}
	return STRANGE;
}

/* Step 3: sets the size or the mode of the area. 0, or a negative errno. */
static int prepare_memfd(int pidfd, uint64_t number, const uint64_t *a)
{
	_cleanup_close_ int fd = syscall(SYS_pidfd_getfd, pidfd, (int)a[0], 0);
	struct stat st;

	if (fd < 0)
		return -errno;
	/* it must be a memfd, and one that nobody uses yet */
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink || st.st_size ||
	    fcntl(fd, F_GET_SEALS) < 0)
		return -EPERM;
	return (number == SYS_fchmod ? fchmod(fd, a[1]) : ftruncate(fd, a[1])) < 0 ? -errno : 0;
}

static int skip(pid_t tid, long result)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, tid, 0, &regs) < 0)
		return -1;
	regs.orig_rax = -1;
	regs.rax = result;
	return ptrace(PTRACE_SETREGS, tid, 0, &regs) < 0 ? -1 : 0;
}

static int at_entry(struct ip_confined *c, pid_t tid, const struct __ptrace_syscall_info *info)
{
	const uint64_t *a = (const uint64_t *)info->entry.args;
	enum verdict verdict = c->calls++ < CALLS_MAX && info->arch == IP_ARCH_AUDIT
				       ? judge(c, info->entry.nr, a)
				       : STRANGE;
	long result = -EPERM;

	c->number = info->entry.nr;
	c->first = a[0];
	c->second = a[1];
	c->maps_fd = c->number == SYS_mmap && (int)a[4] >= 0;
	c->granted = verdict == GRANTED;
	c->strayed |= verdict == STRANGE;
	if (verdict == OURS)
		result = prepare_memfd(c->pidfd, c->number, a);
	/* In this order: if the registers cannot be set, the filters judge the call. */
	if (verdict != GRANTED && skip(tid, result) < 0)
		return -1;
	return set_options(tid, true);
}

static void remember_fd(struct ip_confined *c, int fd)
{
	for (unsigned i = 0; i < IP_CONFINED_FDS && !knows_fd(c, fd); i++)
		if (!c->fds[i])
			c->fds[i] = fd + 1;
}

/* Step 4. */
static int at_exit(struct ip_confined *c, pid_t tid, const struct __ptrace_syscall_info *info)
{
	int64_t result = info->exit.rval;
	int ret = set_options(tid, false);

	if (ret == 0 && c->granted && result >= 0 && info->op == PTRACE_SYSCALL_INFO_EXIT) {
		if (c->number == SYS_mmap && c->size && !c->memory)
			c->memory = result;
		if (c->number == SYS_mmap && c->maps_fd) {
			c->area = result;
			c->area_size = c->second;
		}
		if (c->number == SYS_memfd_create || c->number == SYS_fcntl)
			remember_fd(c, result);
		if (c->number == SYS_close)
			for (unsigned i = 0; i < IP_CONFINED_FDS; i++)
				if ((uint32_t)c->fds[i] - 1 == (uint32_t)c->first)
					c->fds[i] = 0;
	}
	c->granted = false;
	return ret;
}

int ip_confined_judge(struct ip_confined *c, pid_t tid)
{
	struct __ptrace_syscall_info info;

	if (info_of(tid, &info) < 0) {
		set_options(tid, false);
		return -1;
	}
	return info.op == PTRACE_SYSCALL_INFO_ENTRY ? at_entry(c, tid, &info)
						    : at_exit(c, tid, &info);
}
