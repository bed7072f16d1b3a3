/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comes under seccomp when it is told to.
 *
 *   confining kill|errno|ids   what its filter does to clock_gettime; all else is allowed. ids:
 *                              kills for gettid and getpid as well
 *
 * For each line on stdin: "call" calls step() a thousand times and says "called", "threads" has
 * four new threads do the same, "confine" puts the process under the filter and says "confined".
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

__attribute__((noinline)) static void step(int i)
{
	__asm__ volatile("" : : "r"(i) : "memory");
}

static int confine(const char *how)
{
	unsigned action = strcmp(how, "errno") ? SECCOMP_RET_KILL_PROCESS
					       : SECCOMP_RET_ERRNO | EPERM,
		 ids = strcmp(how, "ids") ? SECCOMP_RET_ALLOW : SECCOMP_RET_KILL_PROCESS;
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_gettid, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, ids),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

__attribute__((no_instrument_function)) static void *work(void *unused)
{
	for (int i = 0; i < 1000; i++)
		step(i);
	return unused;
}

__attribute__((no_instrument_function)) static int run_threads(void)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		if (pthread_create(&threads[i], NULL, work, NULL))
			return -1;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

int main(int argc, char **argv)
{
	char line[64];

	if (argc != 2)
		return 3;
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "call\n")) {
			for (int i = 0; i < 1000; i++)
				step(i);
			puts("called");
		} else if (!strcmp(line, "threads\n")) {
			if (run_threads())
				return 5;
			puts("called");
		} else if (!strcmp(line, "confine\n")) {
			if (confine(argv[1]))
				return 4;
			puts("confined");
		}
	}
	return 0;
}
