// SPDX-License-Identifier: Apache-2.0
/*
 * Whether a process is dumpable is told by a thread that has memory: a leader that has ended, while
 * other threads go on, says nothing.
 */
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "access/credentials.h"
#include "test/unit/test.h"

#define USER 4711

static void *stay(void *context)
{
	for (;;)
		pause();
	return context;
}

static bool is_zombie(pid_t pid)
{
	char name[64], line[256];
	bool found = false;
	FILE *file;

	snprintf(name, sizeof(name), "/proc/%d/status", pid);
	file = fopen(name, "re");
	while (file && fgets(line, sizeof(line), file))
		found |= !strncmp(line, "State:\tZ", 8);
	if (file)
		fclose(file);
	return found;
}

/* A process of a user's. Its leader has ended when it is returned; others: whether another thread
 * goes on. */
static pid_t start(bool dumpable, bool others)
{
	pthread_t thread;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(60);
		if (!geteuid() && (setgroups(0, NULL) < 0 || setresgid(USER, USER, USER) < 0 ||
				   setresuid(USER, USER, USER) < 0))
			_exit(1);
		/* the change of ids has cleared it */
		if (prctl(PR_SET_DUMPABLE, dumpable) < 0)
			_exit(1);
		if (!others)
			_exit(0);
		if (pthread_create(&thread, NULL, stay, NULL))
			_exit(1);
		pthread_exit(NULL);
	}
	for (int i = 0; i < 3000 && !is_zombie(pid); i++)
		usleep(10000);
	assert_true(is_zombie(pid));
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_a_leader_that_has_ended(void **state)
{
	struct ip_target_credentials c;
	int pidfd;
	pid_t pid;

	(void)state;
	for (int dumpable = 0; dumpable < 2; dumpable++) {
		pid = start(dumpable, true);
		pidfd = ip_pidfd_open(pid);
		assert_true(pidfd >= 0);
		assert_int_equal(ip_credentials_of_target(pid, pidfd, USER, &c), 0);
		assert_int_equal(c.ids.ruid, geteuid() ? geteuid() : USER);
		assert_int_equal(c.dumpable, dumpable);
		close(pidfd);
		end(pid);
	}
}

/* Its pidfd may say that it lives until it is waited for. */
static void test_no_thread_is_left(void **state)
{
	struct ip_target_credentials c;
	const pid_t pid = start(true, false);
	const int pidfd = ip_pidfd_open(pid);

	(void)state;
	assert_true(pidfd >= 0);
	if (ip_credentials_of_target(pid, pidfd, USER, &c) == 0)
		assert_false(c.dumpable);
	close(pidfd);
	end(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_leader_that_has_ended),
		cmocka_unit_test(test_no_thread_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
