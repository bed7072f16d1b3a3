/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that may not read the processor's clock: SIGSEGV ends a process that does.
 *
 *   no_tsc set|strict
 *
 * set: all of them (PR_SET_TSC). strict: a second one, which has put itself under strict seccomp. Says "ready"; for each line on stdin all
 * call step(), and the first says "called".
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
		step(1);
		if (write(back[1], &c, 1) != 1)
			break;
	} while (read(way[0], &c, 1) == 1);
	syscall(SYS_exit, 0);
	return NULL;
}

__attribute__((no_instrument_function)) int main(int argc, char **argv)
{
	int strict = argc == 2 && !strcmp(argv[1], "strict");
	char line[64], c;
	pthread_t thread;

	if (argc != 2 || pipe(way) || pipe(back) || (!strict && prctl(PR_SET_TSC, PR_TSC_SIGSEGV)))
		return 3;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (pthread_create(&thread, NULL, work, strict ? &strict : NULL) || read(back[0], &c, 1) != 1)
		return 4;
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		step(0);
		if (write(way[1], &c, 1) != 1 || read(back[0], &c, 1) != 1)
			return 5;
		puts("called");
	}
	_exit(0);
}
