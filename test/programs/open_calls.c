/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that stand in nested calls until a line comes on stdin, and then return from all of them.
 * It prints "NAME TID" for each, then "ready".
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __clang__
#define PROBED __attribute__((noinline))
#else
#define PROBED __attribute__((noinline, noipa))
#endif
#ifdef __cplusplus
#define PLAIN_NAME extern "C"
#else
#define PLAIN_NAME
#endif

static volatile int go;
static volatile long sink;

PROBED void leaf(void)
{
	sink++;
}

PLAIN_NAME PROBED int spin(void)
{
	while (!go) {
		leaf();
		usleep(500);
	}
	return 1;
}

PLAIN_NAME PROBED int deep(int n)
{
	int r = n ? deep(n - 1) : spin();

	sink += r;
	return r + 1;
}

PROBED int large(int n)
{
	volatile char room[4096];
	int r;

	memset((char *)room, n, sizeof(room));
	r = n ? large(n - 1) : spin();
	return r + room[n];
}

PROBED int last(int n)
{
	return spin() + n;
}

PROBED int jumps(int n)
{
	sink += n;
	return last(n + 1);
}

PROBED int outer(int n)
{
	int r = jumps(n);

	sink += r;
	return r;
}

PROBED void handler(int number)
{
	sink += spin();
}

PROBED void raises(int number)
{
	pthread_kill(pthread_self(), number);
	sink++;
}

/* Runs spin() on memory where each word claims to be a frame that leads to itself. */
PROBED void broken(void)
{
	static uint64_t words[8192];
	uint64_t *top = &words[8192 - 64];

	for (size_t i = 0; i < 8192; i++)
		words[i] = i % 3 ? (uint64_t)&words[i & ~7ull] : (uint64_t)deep;
	__asm__ volatile("movq %%rsp, %%r12\n\t"
			 "movq %0, %%rsp\n\t"
			 "movq %0, %%rbp\n\t"
			 "call spin\n\t"
			 "movq %%r12, %%rsp"
			 :
			 : "r"(top)
			 : "r12", "rbx", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10",
			   "r11", "memory", "cc"
#ifndef WITH_FRAME_POINTER
			   ,
			   "rbp"
#endif
	);
}

static void *run(void *argument)
{
	const char *name = (const char *)argument;
	stack_t other = {};

	other.ss_size = 65536;
	other.ss_sp = malloc(other.ss_size);
	printf("%s %ld\n", name, syscall(SYS_gettid));
	sigaltstack(&other, NULL);
	if (!strcmp(name, "deep"))
		deep(30);
	if (!strcmp(name, "very_deep"))
		deep(3000);
	if (!strcmp(name, "large"))
		large(40);
	if (!strcmp(name, "jumps"))
		outer(1);
	if (!strcmp(name, "handler"))
		raises(SIGUSR1);
	if (!strcmp(name, "other_stack"))
		raises(SIGUSR2);
	if (!strcmp(name, "broken"))
		broken();
	return NULL;
}

int main(int argc, char **argv)
{
	struct sigaction action = {};
	pthread_t threads[16];

	signal(SIGUSR1, handler);
	action.sa_handler = handler;
	action.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR2, &action, NULL);
	for (int i = 1; i < argc; i++)
		pthread_create(&threads[i], NULL, run, argv[i]);
	usleep(200000);
	puts("ready");
	fflush(stdout);
	getchar();
	go = 1;
	for (int i = 1; i < argc; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
