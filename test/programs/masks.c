/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits once in a call that has a signal mask of its own: SIGUSR1 is blocked before and behind it,
 * SIGUSR2 while it lasts.
 *
 *   masks sigsuspend|ppoll|pselect|epoll_pwait
 *
 * Says "ready" first; the last line is what the call returned, how often each signal was handled,
 * and which of the two are blocked behind it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>

static volatile sig_atomic_t first, second;

static void on_signal(int number)
{
	if (number == SIGUSR1)
		first++;
	else
		second++;
}

__attribute__((noinline)) static int wait_under(const char *how, const sigset_t *mask)
{
	struct epoll_event event;

	if (!strcmp(how, "sigsuspend"))
		return sigsuspend(mask);
	if (!strcmp(how, "ppoll"))
		return ppoll(NULL, 0, NULL, mask);
	if (!strcmp(how, "pselect"))
		return pselect(0, NULL, NULL, NULL, NULL, mask);
	return epoll_pwait(epoll_create1(0), &event, 1, -1, mask);
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_signal};
	sigset_t before, during, behind;
	int ret, error;

	if (argc != 2)
		return 2;
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGUSR2, &action, NULL);
	sigemptyset(&before);
	sigaddset(&before, SIGUSR1);
	sigprocmask(SIG_SETMASK, &before, NULL);
	sigemptyset(&during);
	sigaddset(&during, SIGUSR2);
	puts("ready");
	fflush(stdout);
	ret = wait_under(argv[1], &during);
	error = errno;
	sigprocmask(SIG_SETMASK, NULL, &behind);
	printf("%d %s, %d %d, %d %d\n", ret, error == EINTR ? "EINTR" : "another error", first,
	       second, sigismember(&behind, SIGUSR1), sigismember(&behind, SIGUSR2));
	return 0;
}
