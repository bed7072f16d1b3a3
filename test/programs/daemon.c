/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Becomes a daemon: the first process ends with 3 at once, its child has closed all descriptors and
 * works on until the file named by the argument is gone. The child's pid is printed.
 */
#include <stdio.h>
#include <unistd.h>

__attribute__((noinline)) static void step(int i)
{
	__asm__ volatile("" : : "r"(i) : "memory");
}

int main(int argc, char **argv)
{
	pid_t child;

	step(0);
	fflush(stdout);
	child = fork();
	if (child) {
		printf("%d\n", child);
		usleep(200000);
		return 3;
	}
	setsid();
	for (int fd = 0; fd < 1024; fd++)
		close(fd);
	for (int i = 0; i < 60000 && access(argv[argc - 1], F_OK) == 0; i++) {
		step(i);
		usleep(1000);
	}
	return 0;
}
