/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a target and reads what /proc tells of it.
 */
#include "hotpatcher/process/target.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "access/capability.h"
#include "access/delegation.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/process/anchor.h"
#include "hotpatcher/process/image.h"

/* how long the mapping of a program may take if it hardly gets a CPU */
#define START_NS      5000000000ull
#define START_LOOK_NS 1000000ull

/* Reads the stat of the thread, not of the process: the kernel adds up the times of all threads for
 * the latter. */
bool ip_proc_is_zombie(pid_t pid)
{
	char name[64], line[512];
	_cleanup_close_ int fd = -1;
	const char *state;
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/%d/task/%d/stat", pid, pid);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
	if (n <= 0)
		return false;
	line[n] = '\0';
	state = strrchr(line, ')'); /* the name may hold a ')', too */
	return state && (!strncmp(state, ") Z", 3) || !strncmp(state, ") X", 3));
}

/* The inner id is the last field of NSpid. */
pid_t ip_proc_inner_pid(pid_t pid)
{
	_cleanup_fclose_ FILE *file = NULL;
	char name[64], line[512];

	snprintf(name, sizeof(name), "/proc/%d/status", pid);
	file = fopen(name, "re");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "NSpid:", 6) && strrchr(line, '\t'))
			return atoi(strrchr(line, '\t') + 1);
	return pid;
}

/* Opens the memory of the process. The leader may have ended while other threads live on: the
 * leader's mem is dead then, those of the other threads are not. */
int ip_proc_open_mem(pid_t pid, int flags)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	char name[300], byte;
	int fd;

	snprintf(name, sizeof(name), "/proc/%d/mem", pid);
	fd = ip_delegation_open(name, flags);
	if (fd < 0)
		return -1;
	/* Usually nothing is mapped at address 0: a read there fails with EIO if the memory lives,
	 * and returns 0 bytes if it is dead. */
	if (pread(fd, &byte, 1, 0) != 0)
		return fd;
	close(fd);
	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	dir = opendir(name);
	while (dir && (entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		snprintf(name, sizeof(name), "/proc/%d/task/%s/mem", pid, entry->d_name);
		fd = ip_delegation_open(name, flags);
		if (fd >= 0 && pread(fd, &byte, 1, 0) != 0)
			return fd;
		if (fd >= 0)
			close(fd);
	}
	errno = ESRCH;
	return -1;
}

/* Waits until the process has no tracer. The stop of another iprobe is over in a moment; a debugger
 * stays attached. Returns the tracer that is left; 0: none. */
static long wait_for_tracer(pid_t pid)
{
	const struct timespec nap = {.tv_nsec = 10000000};
	long tracer = 0;

	for (int i = 0; i < 30 && (tracer = ip_proc_status(pid, "TracerPid")) > 0; i++)
		nanosleep(&nap, NULL);
	return tracer;
}

static int check_process(pid_t pid, bool write)
{
	_cleanup_fclose_ FILE *file = NULL;
	char name[64], line[512], state = '?';
	long tgid = -1, tracer = 0;
	bool has_memory = false;

	if (pid == getpid())
		return ip_error("pid %d is this iprobe itself: name another process", pid);
	snprintf(name, sizeof(name), "/proc/%d/status", pid);
	file = fopen(name, "re");
	if (!file)
		return errno == ENOENT ? ip_error("pid %d: no such process (ps and pgrep show what "
						  "there is)",
						  pid)
				       : ip_error_errno("pid %d: cannot open %s", pid, name);
	while (fgets(line, sizeof(line), file)) {
		sscanf(line, "State: %c", &state);
		sscanf(line, "Tgid: %ld", &tgid);
		sscanf(line, "TracerPid: %ld", &tracer);
		has_memory |= !strncmp(line, "VmSize:", 7);
	}
	if (tgid >= 0 && tgid != pid)
		return ip_error("pid %d is a thread of process %ld: name the process", pid, tgid);
	/* reading the memory does not need the process to be untraced */
	if (write && tracer > 0 && (tracer = wait_for_tracer(pid)) > 0)
		return ip_error("pid %d is already traced by pid %ld (gdb, strace, another "
				"iprobe?): end that first",
				pid, tracer);
	if (!has_memory && (state == 'Z' || state == 'X')) {
		/* a leader that has ended while other threads go on has no VmSize either */
		if (ip_proc_status(pid, "Threads") <= 1)
			return ip_error("pid %d has ended already (zombie)", pid);
	} else if (!has_memory) {
		return ip_error("pid %d is a kernel thread: it has no code of ours", pid);
	}
	return 0;
}

/* Finds the architecture of the executable. */
static int read_arch(struct ip_target *target)
{
	_cleanup_close_ int fd = -1;
	pid_t pid = target->pid;
	Elf32_Ehdr ehdr; /* its first fields are those of the 64-bit one */
	const struct ip_arch *arch;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/exe", pid);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (!target->arch)
		target->arch = ip_arch_for_machine(EM_X86_64);
	if (fd < 0 || read(fd, &ehdr, sizeof(ehdr)) != sizeof(ehdr) ||
	    memcmp(ehdr.e_ident, ELFMAG, SELFMAG))
		return 0; /* the leader has ended: the modules will tell */
	arch = ip_arch_for_machine(ehdr.e_machine);
	if (!arch)
		return ip_error(
			"pid %d is a process for machine %u, which this iprobe does not know", pid,
			ehdr.e_machine);
	if (ehdr.e_ident[EI_CLASS] != (arch->bits == 64 ? ELFCLASS64 : ELFCLASS32))
		return ip_error(
			"pid %d is an x32 process: this iprobe works on x86-64 and i386 ones", pid);
	target->arch = arch;
	return 0;
}

static uint64_t permitted_capabilities(pid_t pid)
{
	_cleanup_fclose_ FILE *file = NULL;
	char name[64], line[512];
	uint64_t set = 0;

	snprintf(name, sizeof(name), "/proc/%d/status", pid);
	file = fopen(name, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "CapPrm: %lx", &set) == 1)
			break;
	return set;
}

/* Sets the error: why the kernel does not let us look at the process (ptrace(2), "Ptrace access
 * mode checking"). */
static void explain_refusal(pid_t pid)
{
	long uid = ip_proc_status(pid, "Uid");
	uint64_t more = permitted_capabilities(pid) & ~permitted_capabilities(getpid());
	_cleanup_free_ char *names = ip_capability_names(more);
	char program[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);

	program[n > 0 ? n : 0] = '\0';
	if (uid != geteuid())
		ip_error("pid %d belongs to uid %ld and we are uid %d: tracing it needs that user, "
			 "or root (CAP_SYS_PTRACE): run this by sudo",
			 pid, uid, (int)geteuid());
	else if (more)
		ip_error("pid %d has capabilities that we lack (%s): tracing it needs "
			 "CAP_SYS_PTRACE: run this by sudo, or give it to the program for all "
			 "its users (sudo setcap cap_sys_ptrace,cap_checkpoint_restore+ep %s)",
			 pid, names ? names : "?", n > 0 ? program : "iprobe");
	else
		ip_error("pid %d may not be traced by us though it is ours: Yama forbids it "
			 "(kernel.yama.ptrace_scope; iprobed would help), it has made itself "
			 "undumpable (prctl, setuid), or lives in another user namespace: tracing "
			 "it needs CAP_SYS_PTRACE: run this by sudo",
			 pid);
}

/* Waits until the image of the process is mapped. In the middle of execve(2) a process has its new
 * memory already, and its mappings come one by one: the kernel writes the auxiliary vector when all
 * are there. Waits for that, at most as long as it may take if the process hardly gets a CPU. A
 * process without memory has no vector. */
static void await_image(pid_t pid)
{
	const struct timespec nap = {.tv_nsec = START_LOOK_NS};
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/auxv", pid);
	for (unsigned i = 0; i < START_NS / START_LOOK_NS; i++) {
		/* opened anew each time: the file is bound to one memory */
		_cleanup_close_ int fd = ip_delegation_open(name, O_RDONLY);
		uint32_t first;

		if (fd < 0 || read(fd, &first, sizeof(first)) != sizeof(first) || first != AT_NULL)
			return;
		nanosleep(&nap, NULL);
	}
}

int ip_target_open(pid_t pid, bool write, struct ip_target **ret)
{
	struct ip_target *target;
	bool allowed;

	if (check_process(pid, write) < 0)
		return -1;
	target = calloc(1, sizeof(*target));
	if (!target)
		return ip_error("out of memory");
	target->pid = pid;
	target->inner_pid = ip_proc_inner_pid(pid);
	target->exit_status = -1;
	target->pidfd = syscall(SYS_pidfd_open, pid, 0);
	/* Checked before and after: the memory that was opened of a child of vfork may be its
	 * parent's, and the exec may come in between. */
	allowed = ip_delegation_check(pid) == 0;
	target->mem = ip_proc_open_mem(pid, write ? O_RDWR : O_RDONLY);
	if (target->mem < 0) {
		if (errno == EACCES || errno == EPERM)
			explain_refusal(pid);
		else if (errno == ENOENT || errno == ESRCH)
			ip_error("pid %d has ended", pid);
		else
			ip_error_errno("pid %d: cannot open its memory", pid);
		ip_target_close(target);
		return -1;
	}
	if (allowed)
		await_image(pid);
	if (!allowed || ip_delegation_check(pid) < 0 || ip_target_refresh(target) < 0) {
		ip_target_close(target);
		return -1;
	}
	*ret = target;
	return 0;
}

void ip_target_close(struct ip_target *target)
{
	if (!target)
		return;
	if (target->pidfd >= 0)
		close(target->pidfd);
	if (target->mem >= 0)
		close(target->mem);
	ip_maps_clear(&target->maps);
	free(target->rooms);
	if (target->state)
		target->state->destroy(target->state);
	free(target);
}

int ip_target_refresh(struct ip_target *target)
{
	char byte;

	/* after an exec the open mem file belongs to the old image */
	if (pread(target->mem, &byte, 1, 0) == 0) {
		int flags = fcntl(target->mem, F_GETFL) & O_ACCMODE;
		bool allowed = ip_delegation_check(target->pid) == 0; /* as in ip_target_open() */
		int fd = target->one_image ? -1 : ip_proc_open_mem(target->pid, flags);

		if (fd < 0 && !target->one_image && (errno == EACCES || errno == EPERM))
			target->closed = true;
		if (fd < 0)
			return ip_error(
				target->one_image
					? "pid %d has ended, or executes another program now"
					: "pid %d has ended",
				target->pid);
		if (!allowed || ip_delegation_check(target->pid) < 0) {
			close(fd);
			target->closed = true;
			return -1;
		}
		close(target->mem);
		target->mem = fd;
		target->images++;
		target->random_at = 0;
	}
	if (ip_maps_read(target->pid, &target->maps) < 0)
		return -1;
	if (!target->maps.n)
		return ip_error("pid %d has ended", target->pid);
	if (read_arch(target) < 0)
		return -1;
	if (!target->random_at)
		ip_image_remember(target);
	return ip_anchor_find(target);
}

bool ip_target_is_stub(const struct ip_target *target, uint64_t address)
{
	if (!target->has_runtime)
		return false;
	for (unsigned p = 0; p < IP_POOLS; p++)
		if (address - target->anchor.pools[p].address < target->anchor.pools[p].size)
			return true;
	for (size_t i = 0; i < target->nrooms; i++)
		if (address - target->rooms[i].address < target->rooms[i].size)
			return true;
	return false;
}

bool ip_target_image_is_gone(const struct ip_target *target)
{
	char byte;

	return pread(target->mem, &byte, 1, 0) == 0;
}

bool ip_target_alive(const struct ip_target *target)
{
	struct pollfd p = {.fd = target->pidfd, .events = POLLIN};

	if (target->exited || target->closed)
		return false;
	if (target->pidfd >= 0)
		return poll(&p, 1, 0) == 0;
	return kill(target->pid, 0) == 0 || errno == EPERM;
}

int ip_target_read(const struct ip_target *target, uint64_t address, void *buffer, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = pread(target->mem, (char *)buffer + done, size - done, address + done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? ip_error_errno("pid %d: cannot read %#lx", target->pid,
						  address + done)
				 : ip_error("pid %d has ended", target->pid);
		done += n;
	}
	return 0;
}

static const char unwritable[4096] __attribute__((aligned(4096))) = {'a'};

bool ip_target_may_write_text(void)
{
	_cleanup_close_ int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	char byte = 'b';

	return fd >= 0 && pwrite(fd, &byte, 1, (off_t)(uintptr_t)unwritable) == 1 &&
	       *(const volatile char *)unwritable == 'b';
}

static int refuse_write(const struct ip_target *target, uint64_t address)
{
	int error = errno;

	if ((error == EIO || error == EFAULT || error == EACCES || error == EPERM) &&
	    !ip_target_may_write_text())
		return ip_error(
			"pid %d: cannot write %#lx: this kernel lets nobody write to read-only "
			"pages through /proc/PID/mem; boot it with proc_mem.force_override=always",
			target->pid, address);
	errno = error;
	return ip_error_errno("pid %d: cannot write %#lx", target->pid, address);
}

int ip_target_write(const struct ip_target *target, uint64_t address, const void *buffer,
		    size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = pwrite(target->mem, (const char *)buffer + done, size - done,
				   address + done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? refuse_write(target, address + done)
				 : ip_error("pid %d has ended", target->pid);
		done += n;
	}
	return 0;
}
