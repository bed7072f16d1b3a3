/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits in calls with a time limit on a stack that has no room: what lies below its pointer, from
 * the very next byte on, is other data (a coroutine's neighbour).
 *
 *   below SECONDS
 *
 * Prints "ready"; then, after so many seconds, "untouched", or what was wrong.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HIDDEN __attribute__((no_instrument_function))

static volatile unsigned ticks;

__attribute__((noinline)) void tick(void)
{
	ticks++;
}

HIDDEN static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

HIDDEN static void *ticker(void *arg)
{
	for (;;) {
		tick();
		usleep(500);
	}
	return arg;
}

/* A struct timespec as epoll_pwait2() has it, also of a 32-bit program. */
struct limit {
	long long seconds, nanoseconds;
};

/* The result of the call; 1000: a byte below the stack pointer has changed meanwhile. */
#ifdef __i386__
HIDDEN static long wait_with(long number, int fd, void *events, long limit)
{
	long result = number;

	__asm__ volatile(
		"leal -4096(%%esp), %%edi\n"
		"1:	movb $0x5a, (%%edi)\n	incl %%edi\n	cmpl %%esp, %%edi\n	jne 1b\n"
		"	xorl %%edi, %%edi\n"
		"	int $0x80\n"
		"	leal -4096(%%esp), %%edi\n"
		"1:	cmpb $0x5a, (%%edi)\n	jne 2f\n	incl %%edi\n	cmpl %%esp, "
		"%%edi\n	jne 1b\n"
		"	jmp 3f\n"
		"2:	movl $1000, %%eax\n"
		"3:\n"
		: "+a"(result)
		: "b"(fd), "c"(events), "d"(1l), "S"(limit)
		: "edi", "memory", "cc");
	return result;
}
#else
HIDDEN static long wait_with(long number, int fd, void *events, long limit)
{
	register long r10 __asm__("r10") = limit;
	register long r8 __asm__("r8") = 0;
	register long r9 __asm__("r9") = 8;
	long result = number;

	__asm__ volatile(
		"leaq -4096(%%rsp), %%rcx\n"
		"1:	movb $0x5a, (%%rcx)\n	incq %%rcx\n	cmpq %%rsp, %%rcx\n	jne 1b\n"
		"	syscall\n"
		"	leaq -4096(%%rsp), %%rcx\n"
		"1:	cmpb $0x5a, (%%rcx)\n	jne 2f\n	incq %%rcx\n	cmpq %%rsp, "
		"%%rcx\n	jne 1b\n"
		"	jmp 3f\n"
		"2:	movl $1000, %%eax\n"
		"3:\n"
		: "+a"(result)
		: "D"((long)fd), "S"(events), "d"(1l), "r"(r10), "r"(r8), "r"(r9)
		: "rcx", "r11", "memory", "cc");
	return result;
}
#endif

struct waiter {
	long number;
	struct limit limit;
	double until;
	long wrong;
};

HIDDEN static void *waits(void *arg)
{
	struct waiter *w = arg;
	const int fd = epoll_create1(0);
	struct epoll_event e;
	long result = 0;

	while (!result && now() < w->until)
		result = wait_with(w->number, fd, &e,
				   w->number == SYS_epoll_wait ? 300 : (long)&w->limit);
	w->wrong = result;
	return NULL;
}

HIDDEN int main(int argc, char **argv)
{
	static struct waiter waiters[] = {{.number = SYS_epoll_wait},
					  {.number = 441, .limit = {0, 300000000}}};
	const double until = now() + atof(argv[argc > 1]);
	pthread_t threads[2], thread;
	long wrong = 0;

	for (int i = 0; i < 2; i++) {
		waiters[i].until = until;
		pthread_create(&threads[i], NULL, waits, &waiters[i]);
	}
	pthread_create(&thread, NULL, ticker, NULL);
	puts("ready");
	fflush(stdout);
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
		wrong = waiters[i].wrong ? waiters[i].wrong : wrong;
	}
	if (wrong)
		printf("%s: %ld\n", wrong == 1000 ? "a byte below the stack" : "a call returned",
		       wrong);
	else
		puts("untouched");
	return 0;
}
