// SPDX-License-Identifier: Apache-2.0
/*
 * A delegation for several targets: these as long as they live, what they fork, and nothing else.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "access/credentials.h"
#include "access/delegation.h"
#include "access/worker_client.h"
#include "test/unit/test.h"

#define FIRST_FD 100 /* of the pidfds */

/* Starts a process: of this program, or of another one. */
static pid_t begin(bool other)
{
	int ready[2];
	pid_t pid;
	char byte;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* the pipe is closed by the exec, or here */
		if (other)
			execl("/bin/sleep", "sleep", "1000", NULL);
		close(ready[0]);
		close(ready[1]);
		pause();
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 0);
	close(ready[0]);
	return pid;
}

static void finish(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void hold(pid_t pid, int i)
{
	int fd = ip_pidfd_open(pid);

	assert_int_equal(dup2(fd, FIRST_FD + i), FIRST_FD + i);
	close(fd);
}

/* The delegation is for ever, so each is taken in a process of its own, which gives the results as
 * bits: whether it was taken, and which of the n processes may be touched. */
static unsigned take(const char *text, const pid_t *asked, size_t n)
{
	unsigned bits = 0;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		setenv(IP_DELEGATION_VARIABLE, text, 1);
		if (ip_delegation_take() == 0)
			bits |= 1;
		for (size_t i = 0; i < n && bits; i++)
			bits |= (ip_delegation_check(asked[i]) == 0) << (i + 1);
		_exit(bits);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_several(void **state)
{
	const pid_t one = begin(false), two = begin(false), child = begin(false),
		    other = begin(true);
	const pid_t targets[] = {one, two}, asked[] = {one, two, child, other, 0x7fffffff};
	const pid_t with_other[] = {one, other};
	char *text = ip_delegation_text_of_many(FIRST_FD, targets, 2), expected[64];

	(void)state;
	snprintf(expected, sizeof(expected), "any:%d:%d,%d", FIRST_FD, one, two);
	assert_string_equal(text, expected);
	hold(one, 0);
	hold(two, 1);
	/* another program is none of theirs, nor is what does not exist */
	assert_int_equal(take(text, asked, N_ELEMENTS(asked)), 1 | 2 | 4 | 8);
	/* one alone is held as before */
	assert_int_equal(take("any:100", asked, 4), 1 | 2 | 4 | 8 | 16);
	/* of two programs */
	hold(other, 1);
	free(text);
	text = ip_delegation_text_of_many(FIRST_FD, with_other, 2);
	assert_int_equal(take(text, asked, 4), 1 | 2 | 4 | 8 | 16);
	free(text);
	/* one that has ended: its number may be another's, and nothing is known of its program */
	hold(two, 1);
	finish(two);
	text = ip_delegation_text_of_many(FIRST_FD, targets, 2);
	assert_int_equal(take(text, asked, 4), 1 | 2 | 8);
	finish(one);
	assert_int_equal(take(text, asked, 4), 1);
	free(text);
	finish(child);
	finish(other);
}

static void test_what_is_refused(void **state)
{
	const pid_t pid = begin(false), asked[] = {pid};
	static const char *const wrong[] = {"any:100:",	  "any:100:0",		"any:100:-1",
					    "any:100:x",  "any:100:1",		"any:100:1,",
					    "any:100:,1", "any:100:4294967296", "own:100:1"};
	char text[32];

	(void)state;
	hold(pid, 0);
	for (size_t i = 0; i < N_ELEMENTS(wrong); i++)
		assert_int_equal(take(wrong[i], asked, 1), 0);
	/* no pidfd holds the second */
	close(FIRST_FD + 1);
	snprintf(text, sizeof(text), "any:100:%d,%d", pid, getpid());
	assert_int_equal(take(text, asked, 1), 0);
	finish(pid);
}

/* The descriptors of a worker that lets go of its client are for no program that it executes. */
static void test_what_a_client_reads(void **state)
{
	int status;
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		char text[32];
		int report = open("/dev/null", O_RDWR), log = dup(report), events = dup(report);

		hold(getpid(), 0);
		setenv(IP_DELEGATION_VARIABLE, "any:100", 1);
		snprintf(text, sizeof(text), "%d,%d,%d,0,", report, log, events);
		setenv(IP_WORKER_CLIENT_VARIABLE, text, 1);
		if (ip_delegation_take() < 0 || ip_worker_client_take() < 0)
			_exit(1);
		_exit(ip_worker_client_leaves() && fcntl(report, F_GETFD) == FD_CLOEXEC &&
				      fcntl(log, F_GETFD) == FD_CLOEXEC &&
				      fcntl(events, F_GETFD) == FD_CLOEXEC &&
				      ip_worker_client_events() == events
			      ? 0
			      : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_several),
					   cmocka_unit_test(test_what_is_refused),
					   cmocka_unit_test(test_what_a_client_reads)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
