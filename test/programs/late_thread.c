// SPDX-License-Identifier: Apache-2.0
/*
 * One of ten calls of serve() is slow in read_page(). From SIGUSR1 on another thread is in vfork()
 * for two seconds of each two and a half: there the kernel does not let it stop.
 */
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))

static volatile sig_atomic_t forks;
static volatile unsigned sink;

QUIET static inline void rest(long ms)
{
	nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

QUIET static void on_signal(int number)
{
	(void)number;
	forks = 1;
}

QUIET static void *fork_often(void *unused)
{
	for (;; rest(500))
		if (forks && vfork() == 0) {
			rest(2000);
			_exit(0);
		}
	return unused;
}

__attribute__((noinline)) void read_page(unsigned i)
{
	rest(i % 10 == 0 ? 20 : 1);
	sink++;
}

__attribute__((noinline)) void look_up(unsigned i)
{
	read_page(i);
	sink++;
}

__attribute__((noinline)) void serve(unsigned i)
{
	look_up(i);
	sink++;
}

QUIET int main(void)
{
	pthread_t thread;

	signal(SIGUSR1, on_signal);
	signal(SIGCHLD, SIG_IGN);
	pthread_create(&thread, NULL, fork_often, NULL);
	for (unsigned i = 0;; i++)
		serve(i);
}
