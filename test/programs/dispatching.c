/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that has system calls of all code but its C library's sent to itself as signals, as
 * Wine does (syscall user dispatch).
 *
 *   dispatching handled|blocked
 *
 * Two threads call step() and wait, in calls with time limits and without. handled: each SIGSYS is
 * counted. blocked: SIGSYS is blocked, so that a call from elsewhere ends the program. Says
 * "ready"; at the end of its input "strays N wrong M": signals that came, and calls that did not
 * return what they return without anybody else. Without dispatch in the kernel: exit 4.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_ON	     1
#endif

static volatile unsigned strays, wrong, steps;
static volatile int enough;
static unsigned long text, text_size;
static __thread volatile char selector;

__attribute__((noinline)) void step(void)
{
	steps++;
}

static void stray(int number)
{
	(void)number;
	__sync_fetch_and_add(&strays, 1);
}

static int find_text(struct dl_phdr_info *info, size_t size, void *symbol)
{
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		unsigned long start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;

		if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X) &&
		    (unsigned long)symbol - start < info->dlpi_phdr[i].p_memsz) {
			text = start;
			text_size = info->dlpi_phdr[i].p_memsz;
			return 1;
		}
	}
	return 0;
}

static int dispatch(void)
{
	return prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, text, text_size, &selector);
}

static void *work(void *by_poll)
{
	const struct timespec nap = {.tv_nsec = 3000000};

	if (dispatch())
		_exit(4);
	selector = 1; /* SYSCALL_DISPATCH_FILTER_BLOCK */
	while (!enough) {
		step();
		if (by_poll ? poll(NULL, 0, 3) : nanosleep(&nap, NULL))
			__sync_fetch_and_add(&wrong, 1);
	}
	selector = 0;
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[2];
	sigset_t set;
	char c;

	sigemptyset(&set);
	sigaddset(&set, SIGSYS);
	if (argc != 2 || !dl_iterate_phdr(find_text, dlsym(RTLD_DEFAULT, "nanosleep")))
		return 3;
	signal(SIGSYS, stray);
	if (!strcmp(argv[1], "blocked"))
		sigprocmask(SIG_BLOCK, &set, NULL);
	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, work, i ? &strays : NULL))
			return 3;
	puts("ready");
	fflush(stdout);
	if (dispatch())
		return 4;
	selector = 1;
	while (read(0, &c, 1) == 1)
		step();
	enough = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	selector = 0;
	printf("strays %u wrong %u\n", strays, wrong);
	return 0;
}
