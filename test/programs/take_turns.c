/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread "grant;er" naps in grant() and then wakes the main thread in notify(), which waits for
 * that in await_turn(). Both functions have a caller of their own: produce() and consume().
 *
 * usage: take_turns ROUNDS [NAP_US]
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FUNC __attribute__((noinline))

uint32_t turn;
static int rounds;
static long nap = 2000000;

static long futex(int op, uint32_t value)
{
	return syscall(SYS_futex, &turn, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

FUNC void await_turn(void)
{
	futex(FUTEX_WAIT, turn);
}

FUNC void notify(void)
{
	/* however busy the machine is, each turn is waited for once */
	while (futex(FUTEX_WAKE, 1) == 0)
		sched_yield();
}

FUNC void grant(void)
{
	nanosleep(&(struct timespec){.tv_nsec = nap}, NULL);
	notify();
	__asm__ volatile("");
}

FUNC void consume(void)
{
	for (int i = 0; i < rounds; i++)
		await_turn();
	__asm__ volatile("");
}

FUNC void *produce(void *unused)
{
	for (int i = 0; i < rounds; i++)
		grant();
	return unused;
}

__attribute__((no_instrument_function)) int main(int argc, char **argv)
{
	pthread_t thread;

	rounds = argc > 1 ? atoi(argv[1]) : 5;
	if (argc > 2)
		nap = atol(argv[2]) * 1000;
	if (pthread_create(&thread, NULL, produce, NULL) || pthread_setname_np(thread, "grant;er"))
		abort();
	consume();
	pthread_join(thread, NULL);
	return 0;
}
