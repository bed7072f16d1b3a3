/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A new trace in the place of one of several processes: that one is kept as DIR.old, once, and
 * stays where it is while one of its members is being written.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/trace/trace_format.h"
#include "common/trace/trace_members.h"
#include "test/unit/test.h"
#include "trace_writer/journal.h"
#include "trace_writer/writer.h"

static struct ip_dir_place place;
static char dir[PATH_MAX];
static int top;

static int setup(void **state)
{
	top = ip_dir_make_temporary("/tmp", "members", &place);
	snprintf(dir, sizeof(dir), "/tmp/%s/trace", place.name);
	return top < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	close(top);
	ip_dir_remove(place.parent, place.name);
	ip_dir_place_close(&place);
	return 0;
}

/* A trace with one member, whose journal is open in *ret. */
static void make_members(struct ip_journal **ret)
{
	const struct ip_journal_header head = {.session = 1, .pid = 1, .pieces = 1};
	struct ip_trace_members m = {0};
	_cleanup_close_ int fd = ip_dir_make(top, "trace"), member = ip_dir_make(fd, "a-1");

	assert_true(fd >= 0 && member >= 0);
	assert_int_equal(mkdirat(member, IP_TRACE_SUBDIR, 0700), 0);
	assert_int_equal(ip_trace_members_add(&m, "a-1", 1), 0);
	assert_int_equal(ip_trace_members_add(&m, "never-2", 2), 0);
	assert_int_equal(ip_trace_members_write(fd, dir, &m), 0);
	ip_trace_members_clear(&m);
	assert_int_equal(ip_journal_create(member, &head, ret), 0);
}

static bool is_there(const char *name)
{
	return faccessat(top, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void test_it_is_kept(void **state)
{
	const struct ip_clock_reading start = {0};
	struct ip_journal *journal;
	struct ip_trace *trace;

	make_members(&journal);
	assert_int_equal(ip_trace_create(dir, 1, "a", &start, &trace), -1);
	assert_error("is being written");
	assert_true(is_there("trace/a-1/iprobe/journal"));
	ip_journal_close(journal);

	assert_int_equal(ip_trace_create(dir, 1, "a", &start, &trace), 0);
	assert_true(is_there("trace.old/a-1/iprobe/journal"));
	assert_true(is_there("trace.old/iprobe/members"));
	assert_false(is_there("trace/iprobe/members"));
	/* a trace that is given up has changed nothing */
	ip_trace_discard(trace);
	assert_true(is_there("trace/a-1/iprobe/journal"));
	assert_false(is_there("trace.old"));
}

static void test_the_one_before_is_removed(void **state)
{
	const struct ip_clock_reading start = {0};
	struct ip_journal *journal;
	struct ip_trace *trace;

	make_members(&journal);
	ip_journal_close(journal);
	assert_int_equal(renameat(top, "trace", top, "trace.old"), 0);
	make_members(&journal);
	ip_journal_close(journal);
	assert_int_equal(mkdirat(top, "trace.old/a-1/mine", 0700), 0);
	assert_int_equal(ip_trace_create(dir, 1, "a", &start, &trace), -1);
	assert_error("move it away");
	assert_true(is_there("trace/a-1/iprobe/journal") && is_there("trace.old/a-1/mine"));

	assert_int_equal(unlinkat(top, "trace.old/a-1/mine", AT_REMOVEDIR), 0);
	assert_int_equal(ip_trace_create(dir, 1, "a", &start, &trace), 0);
	assert_true(is_there("trace.old/a-1/iprobe/journal"));
	ip_trace_close(trace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_it_is_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_one_before_is_removed, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
