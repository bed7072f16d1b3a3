/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each twentieth call of serve() is slow, since read_page() sleeps: behind jumps at the end of
 * functions, one of them through a pointer.
 *
 * usage: slow_tails
 */
#include <time.h>

#define FUNC __attribute__((noinline))

static volatile unsigned long sink;

FUNC void work(int n)
{
	for (int i = 0; i < n; i++)
		sink += i;
}

FUNC void read_page(int slow)
{
	if (slow)
		nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
	work(100);
}

FUNC void look_up(int slow)
{
	work(100);
	read_page(slow);
}

FUNC void look_twice(int slow)
{
	work(200);
	look_up(slow);
}

static void (*volatile ways[])(int) = {look_up, look_twice};

FUNC void query(int i)
{
	work(50);
	ways[i & 1](i % 20 == 0);
}

FUNC void serve(int i)
{
	query(i);
	work(1000);
}

int main(void)
{
	for (int i = 0;; i++) {
		serve(i);
		if (i % 10 == 0) /* leave the CPU to others */
			nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
	}
}
