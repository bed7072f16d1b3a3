/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whoever stops others is stopped in the middle of it: they go on.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "hotpatcher/ptrace/stop.h"

#define DEADLINE_NS 2000000000ull

static pid_t make_sleeper(void)
{
	pid_t child = fork();

	if (child == 0)
		for (;;)
			usleep(1000);
	return child;
}

/* A process that stops the target, sends itself the signal meanwhile, and lets the target go,
 * past its deadline if late. Exit code 0: all went well. */
static pid_t make_stopper_that(pid_t pid, int signal_number, bool late)
{
	pid_t child = fork();
	struct ip_target *target;
	struct ip_stop stop;

	if (child) {
		setpgid(child, child); /* of an orphaned group nobody stops by SIGTSTP */
		return child;
	}
	setpgid(0, 0);
	if (ip_stops_open(pid, &target) < 0 || ip_stop_begin(target, DEADLINE_NS, 0, &stop) < 0)
		_exit(1);
	raise(signal_number);
	if (ip_proc_status(pid, "TracerPid") != getpid())
		_exit(2);
	/* until SIGCONTs have come from our timer */
	for (int i = 0; late && i < 30; i++)
		usleep(10000);
	ip_stop_end(&stop);
	_exit(ip_proc_status(pid, "TracerPid") ? 3 : 0);
}

static pid_t make_stopper(pid_t pid, int signal_number)
{
	return make_stopper_that(pid, signal_number, false);
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Nobody sends it a SIGCONT. */
static void sigstop_lasts_for_a_moment(void **state)
{
	pid_t sleeper = make_sleeper(), stopper = make_stopper(sleeper, SIGSTOP);
	int status;

	assert_int_equal(waitpid(stopper, &status, WUNTRACED), stopper);
	if (WIFSTOPPED(status))
		assert_int_equal(waitpid(stopper, &status, 0), stopper);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	end(sleeper);
}

static void a_second_sigstop_too(void **state)
{
	pid_t sleeper = make_sleeper(), stopper = make_stopper(sleeper, SIGSTOP);
	int status;

	assert_int_equal(waitpid(stopper, &status, WUNTRACED), stopper);
	if (WIFSTOPPED(status)) {
		assert_int_equal(waitpid(stopper, &status, WCONTINUED | WUNTRACED), stopper);
		kill(stopper, SIGSTOP);
	}
	/* behind the end of the stop it stays, as it should */
	for (int i = 0; i < 20000 && ip_proc_status(sleeper, "TracerPid") > 0; i++)
		usleep(1000);
	assert_int_equal(ip_proc_status(sleeper, "TracerPid"), 0);
	end(stopper);
	end(sleeper);
}

/* Ctrl-Z comes behind the stop. */
static void check_ctrl_z(int signal_number, bool late)
{
	pid_t sleeper = make_sleeper(), stopper = make_stopper_that(sleeper, signal_number, late);
	int status;

	assert_int_equal(waitpid(stopper, &status, WUNTRACED), stopper);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(WSTOPSIG(status), signal_number);
	assert_int_equal(ip_proc_status(sleeper, "TracerPid"), 0);
	kill(stopper, SIGCONT);
	assert_int_equal(waitpid(stopper, &status, 0), stopper);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	end(sleeper);
}

static void sigtstp_waits(void **state)
{
	check_ctrl_z(SIGTSTP, false);
	check_ctrl_z(SIGTTOU, false);
}

/* The SIGCONTs that undo a SIGSTOP take nothing of it away. */
static void sigtstp_waits_past_the_deadline(void **state)
{
	check_ctrl_z(SIGTSTP, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sigstop_lasts_for_a_moment),
		cmocka_unit_test(a_second_sigstop_too),
		cmocka_unit_test(sigtstp_waits),
		cmocka_unit_test(sigtstp_waits_past_the_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
