/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that gets the number of one that has ended:
 *
 *   at_pid PID   makes a child of this id (clone3(2), set_tid), which calls getppid(2) until its
 *                parent is gone; says "made PID", and ends when its input does
 */
#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void child(pid_t parent)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (syscall(SYS_getppid) == parent)
		nanosleep(&nap, NULL);
	_exit(0);
}

int main(int argc, char **argv)
{
	pid_t wanted = argc > 1 ? atoi(argv[1]) : 0, own = getpid();
	struct clone_args args = {
		.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&wanted, .set_tid_size = 1};
	long made = syscall(SYS_clone3, &args, sizeof(args));

	if (made == 0)
		child(own);
	if (made < 0) {
		printf("%s\n", strerror(errno));
		return 1;
	}
	printf("made %ld\n", made);
	fflush(stdout);
	(void)!getchar();
	kill(made, SIGKILL);
	waitpid(made, NULL, 0);
	return 0;
}
