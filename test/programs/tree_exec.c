/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Becomes another prepared program: tree_exec PROGRAM ARGS... With "-t" in front the exec is made
 * by a thread that is not the first.
 */
#include "tree_log.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

static volatile int sink;

KEEP static int before(int n)
{
	ENTER("before");
	int r = n ? before(n - 1) + 1 : 0;

	LEAVE("before");
	return r;
}

KEEP static void become(char **argv)
{
	ENTER("become");
	sink = before(3);
	execv(argv[0], argv);
	LEAVE("become");
}

KEEP static void *become_from_thread(void *argv)
{
	ENTER("become_from_thread");
	become(argv);
	LEAVE("become_from_thread");
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	ENTER("main");
	sink = before(10);
	if (argc > 2 && !strcmp(argv[1], "-t")) {
		pthread_create(&thread, NULL, become_from_thread, argv + 2);
		pthread_join(thread, NULL);
	} else if (argc > 1) {
		become(argv + 1);
	}
	LEAVE("main");
	return 1;
}
