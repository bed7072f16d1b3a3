/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that may not read the processor's clock: SIGSEGV ends a process that does.
 *
 *   no_tsc set|strict|later|exec PROGRAM
 *
 * set: all of them (PR_SET_TSC). strict: a second one, which has put itself under strict seccomp.
 * later: all of them, when the line "forbid" comes. Says "ready"; for each line on stdin all call
 * step(), and the first says "called". exec: executes PROGRAM later.
 */
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int way[2], back[2];

__attribute__((noinline)) void step(int i)
{
	__asm__ volatile("" : : "r"(i) : "memory");
}

__attribute__((no_instrument_function)) static void *work(void *strict)
{
	char c = 's';

	if (strict)
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	do {
		if (c == 's')
			step(1);
		if (write(back[1], &c, 1) != 1)
			break;
		if (read(way[0], &c, 1) != 1)
			break;
	} while (c == 's' || prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0);
	syscall(SYS_exit, 0);
	return NULL;
}

__attribute__((no_instrument_function)) int main(int argc, char **argv)
{
	int strict = argc == 2 && !strcmp(argv[1], "strict");
	char line[64], c;
	pthread_t thread;

	if (argc == 3 && !strcmp(argv[1], "exec") && prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0)
		execl(argv[2], argv[2], "later", NULL);
	if (argc != 2 || pipe(way) || pipe(back) ||
	    (!strcmp(argv[1], "set") && prctl(PR_SET_TSC, PR_TSC_SIGSEGV)))
		return 3;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (pthread_create(&thread, NULL, work, strict ? &strict : NULL) ||
	    read(back[0], &c, 1) != 1)
		return 4;
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		c = strcmp(line, "forbid\n") ? 's' : 'f';
		if (c == 'f' && prctl(PR_SET_TSC, PR_TSC_SIGSEGV))
			return 6;
		if (c == 's')
			step(0);
		if (write(way[1], &c, 1) != 1 || read(back[0], &c, 1) != 1)
			return 5;
		puts("called");
	}
	_exit(0);
}
