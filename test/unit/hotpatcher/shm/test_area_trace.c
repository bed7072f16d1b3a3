/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a trace lies, as the area tells it. A worker of iprobed notes what its caller could find.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "access/delegation.h"
#include "hotpatcher/shm/area_trace.h"
#include "test/unit/test.h"

#define NOBODY 65534

static char above[] = "/tmp/iprobe-area-trace-XXXXXX", dir[sizeof(above) + 16];
static struct ip_area *area;

static int begin(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(above)); /* its mode is 0700 */
	snprintf(dir, sizeof(dir), "%s/trace", above);
	assert_int_equal(mkdir(dir, 0755), 0);
	assert_int_equal(ip_area_create(1 << 20, &area), 0);
	area->header->session = 3;
	return 0;
}

static int end(void **state)
{
	(void)state;
	ip_area_close(area);
	rmdir(dir);
	return rmdir(above);
}

static void test_noted(void **state)
{
	char real[PATH_MAX], found[IP_AREA_TRACE_MAX], way[sizeof(dir) + 16];

	(void)state;
	assert_non_null(realpath(dir, real));
	snprintf(way, sizeof(way), "%s/../trace", dir);
	ip_area_set_trace(area, way);
	assert_true(ip_area_get_trace(area, 3, found));
	assert_string_equal(found, real);
	assert_false(ip_area_get_trace(area, 2, found));
	ip_area_set_trace(area, "/nothing/here");
	assert_false(ip_area_get_trace(area, 3, found));
}

/* Returns whether the caller's worker, which has more rights than the caller, has noted it. */
static int note_for_nobody(void)
{
	const int pidfd = syscall(SYS_pidfd_open, getpid(), 0);
	char *text = ip_delegation_text(IP_DELEGATION_ANY, NOBODY, pidfd, NULL),
	     found[IP_AREA_TRACE_MAX], real[PATH_MAX];

	if (!text || setenv(IP_DELEGATION_VARIABLE, text, 1) < 0 || ip_delegation_take() < 0)
		return 2;
	/* it could find it */
	if (access(above, F_OK) < 0 || !realpath(dir, real))
		return 3;
	ip_area_set_trace(area, dir);
	if (ip_area_get_trace(area, 3, found))
		return 1;
	/* and has its rights again */
	return realpath(dir, real) ? 0 : 4;
}

static void test_what_the_caller_cannot_find(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	if (geteuid())
		skip();
	pid = fork();
	if (!pid)
		_exit(note_for_nobody());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_noted),
		cmocka_unit_test(test_what_the_caller_cannot_find),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
