/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork: the children are not recorded and leave the parent's tree as it is, whether they end by
 * _exit, by exit (with the destructors that runs), by exec, or fork themselves; forks from threads
 * too.
 */
#define _GNU_SOURCE
#include "tree_log.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int sink;
static char *self;

KEEP static int work(int n)
{
	ENTER("work");
	int r = n > 1 ? work(n - 1) + work(n - 2) : n;

	LEAVE("work");
	return r;
}

KEEP static void child_only(void)
{
	ENTER("child_only");
	sink = work(15);
	LEAVE("child_only");
}

KEEP static void child(int how)
{
	ENTER("child");
	child_only();
	if (how == 1)
		exit(0);
	if (how == 2)
		execl(self, self, "child", (char *)NULL);
	if (how == 3) {
		if (!fork())
			child_only();
		else
			wait(NULL);
	}
	LEAVE("child");
	_exit(0);
}

KEEP static void fork_one(int how)
{
	ENTER("fork_one");
	pid_t pid = fork();
	int status;

	if (!pid) {
		log_silence();
		child(how);
	}
	sink = work(8);
	if (waitpid(pid, &status, 0) != pid || status)
		abort();
	sink = work(4);
	LEAVE("fork_one");
}

KEEP static void *thread_main(void *arg)
{
	ENTER("thread_main");
	for (int how = 0; how < 4; how++)
		fork_one(how);
	LEAVE("thread_main");
	return NULL;
}

__attribute__((destructor)) KEEP static void at_the_end(void)
{
	ENTER("at_the_end");
	LEAVE("at_the_end");
}

int main(int argc, char **argv)
{
	pthread_t threads[3];

	/* The child after its exec: as silent as before it. */
	if (argc > 1)
		log_silence();
	ENTER("main");
	self = argv[0];
	if (argc > 1) {
		child_only();
	} else {
		for (int how = 0; how < 4; how++)
			fork_one(how);
		for (int i = 0; i < 3; i++)
			pthread_create(&threads[i], NULL, thread_main, NULL);
		for (int i = 0; i < 3; i++)
			pthread_join(threads[i], NULL);
		if (system("exit 0"))
			abort();
		sink = work(3);
	}
	LEAVE("main");
	return 0;
}
