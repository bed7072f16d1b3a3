/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever of it reaches a report by name: functions, points, values, threads, modules, files. The
 * test writes other bytes over the names that begin with NAME_; what comes in by argv[1] are the
 * values. Says "ready", and goes on until its standard input ends.
 */
#include <iprobe/probe.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define KEEP __attribute__((noinline))

static volatile unsigned long sum;
static const char *text;

KEEP unsigned long NAME_of_leaf_(const char *NAME_of_value_)
{
	IPROBE_POINT(NAME_of_point_, NAME_of_value_);
	sum += strlen(NAME_of_value_);
	return sum;
}

KEEP const char *NAME_of_caller(const char *with)
{
	NAME_of_leaf_(with);
	return with + (sum == 0);
}

static void *work(void *ret)
{
	prctl(PR_SET_NAME, text);
	for (;;) {
		for (int i = 0; i < 100; i++)
			NAME_of_caller(text);
		usleep(1000);
	}
	return ret;
}

int main(int argc, char **argv)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	pthread_t thread;

	text = argc > 1 ? argv[1] : "none";
	prctl(PR_SET_NAME, text);
	if (pthread_create(&thread, NULL, work, NULL) != 0)
		return 1;
	if (argc > 2) { /* so long, and then by itself */
		usleep(1000 * atoi(argv[2]));
		return 0;
	}
	puts("ready");
	fflush(stdout);
	while (poll(&p, 1, -1) != 1)
		;
	return 0;
}
