/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling the kernel's own threads of a process from the program's. See kernel_worker.h.
 */
#include "hotpatcher/ptrace/kernel_worker.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "access/delegation.h"
#include "common/cleanup.h"

/* before 5.8 this bit was PF_VCPU; until 5.11 the workers were threads of the kernel itself */
#define PF_IO_WORKER   0x10ul
#define PF_USER_WORKER 0x4000ul /* before 6.4 this bit meant other things */

static int read_text(int task, const char *tid, const char *file, char *buffer, size_t size)
{
	char name[300];
	ssize_t n;

	snprintf(name, sizeof(name), "%s/%s", tid, file);
	_cleanup_close_ int fd = openat(task, name, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, buffer, size - 1);
	if (n <= 0)
		return -1;
	buffer[n] = '\0';
	return 0;
}

/* The flags that mark a worker in this kernel. */
static unsigned long worker_flags(void)
{
	static unsigned long flags;
	static bool known;
	struct utsname name;
	int major, minor;

	if (!known && uname(&name) == 0 && sscanf(name.release, "%d.%d", &major, &minor) == 2) {
		flags |= major > 5 || (major == 5 && minor >= 12) ? PF_IO_WORKER : 0;
		flags |= major > 6 || (major == 6 && minor >= 4) ? PF_USER_WORKER : 0;
	}
	known = true;
	return flags;
}

static bool blocks_all(int task, const char *tid)
{
	const uint64_t all = ~(1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1));
	uint64_t blocked = 0;
	char text[8192], *at;

	return read_text(task, tid, "status", text, sizeof(text)) == 0 &&
	       (at = strstr(text, "\nSigBlk:")) && sscanf(at, " SigBlk: %" SCNx64, &blocked) == 1 &&
	       blocked == all;
}

/* Whether stack pointer and program counter are 0. Of a thread that is on a CPU the kernel shows no
 * registers: then the answer is true. */
static bool has_no_registers(pid_t pid, const char *tid)
{
	uint64_t sp = 1, pc = 1;
	char name[300], text[256];

	snprintf(name, sizeof(name), "/proc/%d/task/%s/syscall", pid, tid);
	_cleanup_fclose_ FILE *file = ip_delegation_fopen(name);
	if (!file || !fgets(text, sizeof(text), file))
		return false;
	if (!strncmp(text, "running", strlen("running")))
		return true;
	return (sscanf(text, "%*d %*x %*x %*x %*x %*x %*x %" SCNx64 " %" SCNx64, &sp, &pc) == 2 ||
		sscanf(text, "-1 %" SCNx64 " %" SCNx64, &sp, &pc) == 2) &&
	       sp == 0 && pc == 0;
}

struct ip_task_look ip_task_look(int task, pid_t pid, const char *tid, bool known)
{
	struct ip_task_look look = {.state = 'X'};
	unsigned long flags = 0;
	char text[256], *p;

	if (read_text(task, tid, "stat", text, sizeof(text)) < 0)
		return look;
	p = strrchr(text, ')'); /* the name in front of it has at most 64 bytes, of any value */
	if (!p || sscanf(p + 1, " %c %*d %*d %*d %*d %*d %lu", &look.state, &flags) < 1)
		return look;
	look.kernel_worker = (flags & worker_flags()) &&
			     (known || (blocks_all(task, tid) && has_no_registers(pid, tid)));
	return look;
}

static int open_tasks(pid_t pid)
{
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	return open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

bool ip_is_kernel_worker(pid_t pid, pid_t tid)
{
	_cleanup_close_ int task = open_tasks(pid);
	char number[16];

	snprintf(number, sizeof(number), "%d", tid);
	return task >= 0 && ip_task_look(task, pid, number, false).kernel_worker;
}

long ip_user_threads(pid_t pid)
{
	int task = open_tasks(pid);
	_cleanup_closedir_ DIR *dir = task < 0 ? NULL : fdopendir(task);
	const struct dirent *entry;
	long n = 0;

	while (dir && (entry = readdir(dir)))
		n += isdigit((unsigned char)entry->d_name[0]) &&
		     !ip_task_look(dirfd(dir), pid, entry->d_name, false).kernel_worker;
	return dir ? n : -1;
}
