/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaching: a pid that is another process by now.
 */
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/error.h"
#include "common/proc.h"
#include "session/session.h"
#include "test.h"

static void test_another_process(void **state)
{
	struct ip_session_options options = {.functions = "no_such_function", .dir = "none"};
	struct ip_session_summary summary;
	const pid_t pid = fork();

	(void)state;
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	assert_true(pid > 0);
	options.started = ip_proc_started_at(pid);
	assert_int_not_equal(options.started, 0);
	/* the one that was chosen: what fails comes later */
	assert_int_equal(ip_session_attach(pid, &options, &summary), -1);
	assert_null(strstr(ip_error_message(), "another process"));
	options.started--;
	assert_int_equal(ip_session_attach(pid, &options, &summary), -1);
	assert_non_null(strstr(ip_error_message(), "another process"));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_another_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
