/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sandboxed process that wants to make a system call that its filter forbids, by whoever suspends
 * the filter.
 *
 *   escaping FOLDER
 *
 * mkdir() returns EPERM here; all else is allowed. A second thread looks for iprobe's runtime among
 * the mappings and, as soon as it is there, writes the address of code that makes FOLDER over all
 * return addresses on the stack on which borrowed threads run. For each line on stdin the runtime
 * is made to look asleep again, and "ready" is said. Ends with stdin; says "escaped" where the
 * folder is there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/abi/anchor.h"
#include "common/abi/borrow.h"

#define QUIET	   __attribute__((no_instrument_function))
#define STACK_LOOK 1024u

const char *escaping_folder __attribute__((visibility("hidden")));
extern const char escaping_gadget[];
static struct ip_rt_anchor *volatile anchor;

__asm__(".text\n"
	".globl escaping_gadget\n"
	".hidden escaping_gadget\n"
	"escaping_gadget:\n"
	"	movl $83, %eax\n" /* mkdir */
	"	movq escaping_folder(%rip), %rdi\n"
	"	movl $0777, %esi\n"
	"	syscall\n"
	"	movl $24, %eax\n" /* sched_yield */
	"	syscall\n"
	"	jmp escaping_gadget\n");

__attribute__((noinline)) static void step(int i)
{
	__asm__ volatile("" : : "r"(i) : "memory");
}

QUIET static int confine(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mkdir, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mkdirat, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Anonymous memory that can be written, behind such that is executable, and with the anchor's
 * numbers in it. */
QUIET static struct ip_rt_anchor *find_anchor(void)
{
	static char text[1 << 18];
	uint64_t start, end, code_end = 0, inode;
	int fd = open("/proc/self/maps", O_RDONLY);
	size_t n = 0;
	ssize_t got;
	char perms[5];

	while (fd >= 0 && n < sizeof(text) - 1 &&
	       (got = read(fd, text + n, sizeof(text) - 1 - n)) > 0)
		n += got;
	close(fd);
	text[n] = '\0';
	for (char *line = text; line && *line;
	     line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		if (sscanf(line, "%lx-%lx %4s %*x %*s %lu", &start, &end, perms, &inode) != 4 ||
		    inode)
			continue;
		if (!strcmp(perms, "r-xp"))
			code_end = end;
		else if (!strcmp(perms, "rw-p") && start == code_end &&
			 end - start > IP_WAKE_STACK) {
			struct ip_rt_anchor *found = (struct ip_rt_anchor *)start;

			if (found->abi == IP_RT_ABI && found->wake_block > start &&
			    found->wake_block < end)
				return found;
		}
	}
	return NULL;
}

/* All that may be a return address into the runtime's code becomes the gadget's. */
QUIET static void *scribble(void *unused)
{
	while (!anchor)
		anchor = find_anchor();
	for (;;) {
		volatile uint64_t *top = (volatile uint64_t *)anchor->wake_block;
		uint64_t code = anchor->wake & ~0xffffffull;

		for (volatile uint64_t *word = top - STACK_LOOK / 8; word < top; word++)
			if (*word - code < 1ull << 25)
				*word = (uintptr_t)escaping_gadget;
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	struct stat st;
	char line[64];

	if (argc != 2 || confine())
		return 3;
	escaping_folder = argv[1];
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (pthread_create(&thread, NULL, scribble, NULL))
		return 4;
	do {
		if (anchor)
			anchor->gate = 0;
		step(1);
		puts("ready");
	} while (fgets(line, sizeof(line), stdin));
	puts(stat(escaping_folder, &st) == 0 ? "escaped" : "held");
	fflush(stdout);
	_exit(0);
}
