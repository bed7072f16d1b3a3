/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that the C library did not make.
 *
 *   areas shared|none|own|tiny [now]
 *   areas forked
 *
 * For a line on stdin, or at once (now), a thread is made by clone() that calls step() for ever.
 * Its thread area is its maker's (shared), there is none (none), it is a copy of the maker's with
 * its own address and id in it, as the C library would make it (own), or memory of its own that
 * ends behind its first bytes (tiny). Says "ready", then for each line "made" and the number of
 * calls so far; ends with stdin. forked: it does so in a child that the system call made, and calls
 * step() itself.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "own_area.h"

#define QUIET __attribute__((no_instrument_function))
#define STACK 262144

static volatile uint64_t calls[2];

__attribute__((noinline)) void step(int who)
{
	__asm__ volatile("" : : "r"(who) : "memory");
}

QUIET static int other(void *unused)
{
	for (;;) {
		step(1);
		calls[1]++;
	}
	return unused != NULL;
}

/* The end of the memory that ends at the mapping's. */
QUIET static char *map(size_t size)
{
	char *at =
		mmap(NULL, size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED || mprotect(at + size, 4096, PROT_NONE))
		exit(4);
	return at + size;
}

QUIET static int make(const char *how)
{
	int flags =
		CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
	char *stack = map(STACK), *area = NULL;

	if (strcmp(how, "shared"))
		flags |= CLONE_SETTLS;
	if (!strcmp(how, "tiny"))
		area = map(4096) - 16;
	if (!strcmp(how, "own")) {
		area = own_area_make();
		flags |= CLONE_PARENT_SETTID;
	}
	return clone(other, stack - 64, flags, NULL, area ? area + OWN_AREA_TID : NULL, area) < 0;
}

int main(int argc, char **argv)
{
	char line[64];

	int forked = argc == 2 && !strcmp(argv[1], "forked");
	pid_t child = forked ? syscall(SYS_fork) : 0;

	if (child)
		return waitpid(child, NULL, 0) != child;
	if (argc < 2 || (argc > 2 && make(argv[1])))
		return 3;
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		if (forked)
			step(0);
		else if (argc == 2 && make(argv[1]))
			return 3;
		printf("made %lu\n", calls[0] + calls[1]);
	}
	_exit(0);
}
