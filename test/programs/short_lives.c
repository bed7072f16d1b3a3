/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forks children, one after the other, that make a call and end.
 *
 * usage: short_lives CHILDREN
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int sink;

__attribute__((noinline)) void in_a_child(void)
{
	sink++;
}

__attribute__((noinline)) void make_child(void)
{
	/* memory that takes a moment to give back */
	char *memory = malloc(32 << 20);
	const pid_t pid = fork();

	if (pid == 0) {
		in_a_child();
		for (int i = 0; i < 32 << 20; i += 4096)
			memory[i] = 1;
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	free(memory);
}

int main(int argc, char **argv)
{
	for (int i = argc > 1 ? atoi(argv[1]) : 0; i > 0; i--)
		make_child();
	return 0;
}
