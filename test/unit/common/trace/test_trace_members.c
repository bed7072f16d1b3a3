/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of the members of a trace: what is written is read; a name that leads elsewhere is
 * refused; the directory is known as a trace, and removed only if nothing else is in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/trace/trace_dir.h"
#include "common/trace/trace_format.h"
#include "common/trace/trace_members.h"
#include "test/unit/test.h"

static struct ip_dir_place place;
static int dir;

static int setup(void **state)
{
	dir = ip_dir_make_temporary("/tmp", "members", &place);
	return dir < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	close(dir);
	ip_dir_remove(place.parent, place.name);
	ip_dir_place_close(&place);
	return 0;
}

static void put_at(int at, const char *name, const char *text)
{
	int fd = openat(at, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

/* A member's directory with the files of a trace in it. */
static void make_trace(const char *name)
{
	int fd;

	assert_int_equal(mkdirat(dir, name, 0700), 0);
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	put_at(fd, "metadata", "m");
	put_at(fd, "stream-0", "s");
	put_at(fd, "stream-1.zst", "s");
	assert_int_equal(mkdirat(fd, IP_TRACE_SUBDIR, 0700), 0);
	put_at(fd, IP_TRACE_SESSION, "iprobe-session\t1\n");
	put_at(fd, IP_TRACE_SUBDIR "/00ff.probes", "p");
	close(fd);
}

static void write_members(const char *const *names)
{
	struct ip_trace_members m = {.service = strdup("--name w")};
	pid_t pid = 100;

	assert_non_null(m.service);
	for (; *names; names++)
		assert_int_equal(ip_trace_members_add(&m, *names, pid++), 0);
	assert_int_equal(ip_trace_members_write(dir, "DIR", &m), 0);
	ip_trace_members_clear(&m);
}

static bool is_there(const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void test_what_is_written_is_read(void **state)
{
	struct ip_trace_members m = {0}, read;

	assert_int_equal(ip_trace_members_read(dir, "DIR", &read), 1);
	m.service = strdup("--name 'a\tb\n\\x41' \xc3\xa4");
	assert_int_equal(ip_trace_members_write(dir, "DIR", &m), 0);
	assert_int_equal(ip_trace_members_read(dir, "DIR", &read), 0);
	assert_int_equal(read.n, 0);
	assert_string_equal(read.service, m.service);
	ip_trace_members_clear(&read);
	for (unsigned i = 1; i <= 300; i++) {
		char name[IP_TRACE_MEMBER_NAME];

		assert_int_equal(ip_trace_member_name((pid_t)i, "nginx", name, sizeof(name)), 0);
		assert_int_equal(ip_trace_members_add(&m, name, (pid_t)i), 0);
	}
	assert_int_equal(ip_trace_members_write(dir, "DIR", &m), 0);
	assert_int_equal(ip_trace_members_read(dir, "DIR", &read), 0);
	assert_int_equal(read.n, 300);
	for (size_t i = 0; i < read.n; i++) {
		assert_string_equal(read.items[i].name, m.items[i].name);
		assert_int_equal(read.items[i].pid, m.items[i].pid);
	}
	assert_string_equal(read.items[299].name, "nginx-300");
	assert_null(read.kernel_groups);
	assert_false(is_there(IP_TRACE_SUBDIR "/members.new"));
	ip_trace_members_clear(&read);
	m.kernel_groups = strdup("sched,irq");
	m.kernel_events = UINT64_MAX;
	m.kernel_lost = 7;
	assert_int_equal(ip_trace_members_write(dir, "DIR", &m), 0);
	assert_int_equal(ip_trace_members_read(dir, "DIR", &read), 0);
	assert_string_equal(read.kernel_groups, "sched,irq");
	assert_int_equal(read.kernel_events, UINT64_MAX);
	assert_int_equal(read.kernel_lost, 7);
	ip_trace_members_clear(&read);
	ip_trace_members_clear(&m);
}

/* A writer that was killed leaves a part of a new list: the old list holds, and the next writer is
 * not in its way. A link in the place of the new list is not followed. */
static void test_a_writer_that_was_killed(void **state)
{
	struct ip_trace_members read;

	write_members((const char *const[]){"a-100", NULL});
	put_at(dir, IP_TRACE_SUBDIR "/members.new", "iprobe-mem");
	assert_int_equal(ip_trace_members_read(dir, "DIR", &read), 0);
	assert_int_equal(read.n, 1);
	ip_trace_members_clear(&read);
	assert_int_equal(unlinkat(dir, IP_TRACE_SUBDIR "/members.new", 0), 0);
	put_at(dir, "victim", "kept");
	assert_int_equal(symlinkat("../victim", dir, IP_TRACE_SUBDIR "/members.new"), 0);
	write_members((const char *const[]){"a-100", "b-101", NULL});
	assert_int_equal(ip_trace_members_read(dir, "DIR", &read), 0);
	assert_int_equal(read.n, 2);
	ip_trace_members_clear(&read);
	assert_true(is_there("victim"));
}

static void test_names(void **state)
{
	static const struct {
		const char *comm, *name;
	} comms[] = {
		{"nginx", "nginx-7"},
		{"a b/c\n\x1b[31m", "a_b_c___31m-7"},
		{"..", "_.-7"},
		{"-rf", "_rf-7"},
		{"", "_-7"},
		{"stream", "stream_-7"},
		{"\xc3\xa4", "__-7"},
		{"kworker/u4:0-events_unbound_and_much_more", "kworker_u4_0-events_unbound_and_-7"},
	};
	static const char *const bad[] = {
		"",
		".",
		".hidden",
		"..",
		"../x",
		"a/b",
		"/etc",
		"-x",
		"a b",
		"a\nb",
		"a\x7f",
		"metadata",
		"iprobe",
		"stream-0",
		"stream-3-2.zst",
		"\xc3\xa4",
		"0123456789012345678901234567890123456789012345678901234567890123"};
	char name[IP_TRACE_MEMBER_NAME];
	struct ip_trace_members m = {0};

	for (size_t i = 0; i < N_ELEMENTS(comms); i++) {
		assert_int_equal(ip_trace_member_name(7, comms[i].comm, name, sizeof(name)), 0);
		assert_string_equal(name, comms[i].name);
		assert_true(ip_trace_member_is_name(name));
	}
	assert_int_equal(ip_trace_member_name(INT_MAX, "kworker/u4:0-events_unbound_and_much_more",
					      name, sizeof(name)),
			 0);
	assert_int_equal(ip_trace_member_name(12345, "nginx", name, sizeof("nginx-1234")), -1);
	for (size_t i = 0; i < N_ELEMENTS(bad); i++) {
		assert_false(ip_trace_member_is_name(bad[i]));
		assert_int_equal(ip_trace_members_add(&m, bad[i], 7), -1);
	}
	assert_int_equal(ip_trace_members_add(&m, "a-7", 7), 0);
	assert_int_equal(ip_trace_members_add(&m, "a-7", 8), -1);
	assert_error("already");
	assert_int_equal(ip_trace_members_add(&m, "a-0", 0), -1);
	ip_trace_members_clear(&m);
}

static int parse(const char *text)
{
	struct ip_trace_members m;
	int ret = ip_trace_members_parse("LIST", text, strlen(text), &m);

	if (ret < 0)
		return -1;
	ret = (int)m.n;
	ip_trace_members_clear(&m);
	return ret;
}

static void test_lists(void **state)
{
#define FIRST "iprobe-members\t1\n"
	static const char *const bad[] = {
		"",
		"iprobe-session\t1\n",
		"iprobe-members\t2\n",
		"iprobe-members\t11\n",
		"iprobe-members",
		FIRST "member\t1\t../etc\n",
		FIRST "member\t1\ta/b\n",
		FIRST "member\t1\t..\n",
		FIRST "member\t1\t\n",
		FIRST "member\t1\n",
		FIRST "member\tx\ta-1\n",
		FIRST "member\t0\ta-1\n",
		FIRST "member\t-1\ta-1\n",
		FIRST "member\t2147483648\ta-1\n",
		FIRST "member\t99999999999999999999\ta-1\n",
		FIRST "member\t1\ta-1\nmember\t2\ta-1\n",
		FIRST "member\t1\ta-1 \n",
		FIRST "member\t1\ta\\x2fb\n",
		FIRST "kernel_events\t1\t0\n",
		FIRST "kernel_events\t1\t0\tsched,nothing\n",
		FIRST "kernel_events\t-1\t0\tsched\n",
		FIRST "kernel_events\t1\tx\tsched\n",
		FIRST "kernel_events\t1\t0\t\x1b[2J\n",
	};

	for (size_t i = 0; i < N_ELEMENTS(bad); i++) {
		assert_int_equal(parse(bad[i]), -1);
		assert_error("LIST");
	}
	assert_int_equal(parse(FIRST), 0);
	assert_int_equal(parse(FIRST "member\t1\ta-1\nmember\t1\tb-1"), 2);
	assert_int_equal(parse(FIRST "of a newer one\t1\n\nmember\t2147483647\ta-1\n"), 1);
}

static void test_too_many(void **state)
{
	struct ip_trace_members m = {0};
	char name[IP_TRACE_MEMBER_NAME];

	for (unsigned i = 1; i <= IP_TRACE_MEMBERS_MAX + 1; i++) {
		assert_int_equal(ip_trace_member_name((pid_t)i, "0123456789abcdef0123456789abcdef",
						      name, sizeof(name)),
				 0);
		assert_int_equal(ip_trace_members_add(&m, name, (pid_t)i),
				 i <= IP_TRACE_MEMBERS_MAX ? 0 : -1);
	}
	assert_error("more than");
	assert_int_equal(ip_trace_members_write(dir, "DIR", &m), 0);
	ip_trace_members_clear(&m);
	/* the largest list that is written is one that is read */
	assert_int_equal(ip_trace_members_read(dir, "DIR", &m), 0);
	assert_int_equal(m.n, IP_TRACE_MEMBERS_MAX);
	ip_trace_members_clear(&m);
}

/* Links and other files in the place of the list are no list, and are not opened. */
static void test_what_is_no_file(void **state)
{
	struct ip_trace_members m;

	write_members((const char *const[]){NULL});
	assert_int_equal(unlinkat(dir, IP_TRACE_MEMBERS, 0), 0);
	assert_int_equal(mkfifoat(dir, IP_TRACE_MEMBERS, 0600), 0);
	assert_int_equal(ip_trace_members_read(dir, "DIR", &m), -1);
	assert_error("DIR/iprobe/members");
	assert_int_equal(unlinkat(dir, IP_TRACE_MEMBERS, 0), 0);
	put_at(dir, "elsewhere", FIRST);
	assert_int_equal(symlinkat("../elsewhere", dir, IP_TRACE_MEMBERS), 0);
	assert_int_equal(ip_trace_members_read(dir, "DIR", &m), -1);
	assert_int_equal(symlinkat("/tmp", dir, "a-1"), 0);
	assert_int_equal(ip_trace_member_open(dir, "a-1"), -1);
	assert_true(errno == ELOOP || errno == ENOTDIR);
}

static void test_it_is_a_trace(void **state)
{
	assert_true(ip_trace_dir_is_one(dir)); /* empty */
	put_at(dir, "other", "x");
	assert_false(ip_trace_dir_is_one(dir));
	write_members((const char *const[]){NULL});
	assert_true(ip_trace_dir_is_one(dir));
	/* but not one that may be removed */
	assert_int_equal(ip_trace_dir_check(dir, "DIR"), -1);
	assert_error("other");
}

static void test_it_is_removed(void **state)
{
	make_trace("a-100");
	make_trace("b-101");
	write_members((const char *const[]){"a-100", "b-101", "never-102", NULL});
	put_at(dir, IP_TRACE_SUBDIR "/members.new", "iprobe-mem");
	assert_int_equal(ip_trace_dir_check(dir, "DIR"), 0);
	assert_int_equal(ip_trace_dir_remove(place.parent, place.name, dir, "DIR"), 0);
	assert_int_equal(faccessat(place.parent, place.name, F_OK, 0), -1);
	assert_int_equal(errno, ENOENT);
}

/* Whatever is no part of the trace stays, and all the rest with it. */
static void test_what_is_not_removed(void **state)
{
	static const char *const paths[] = {"c-103/x", "a-100/notes", "a-100/iprobe/notes",
					    "b-101/iprobe/members/x", "iprobe/notes"};

	make_trace("a-100");
	make_trace("b-101");
	write_members((const char *const[]){"a-100", "b-101", NULL});
	for (size_t i = 0; i < N_ELEMENTS(paths); i++) {
		_cleanup_free_ char *parent = strdup(paths[i]);
		bool made;

		assert_non_null(parent);
		*strrchr(parent, '/') = '\0';
		made = mkdirat(dir, parent, 0700) == 0;
		put_at(dir, paths[i], "mine");
		assert_int_equal(ip_trace_dir_check(dir, "DIR"), -1);
		assert_error("move it away");
		assert_true(is_there(paths[i]));
		assert_int_equal(unlinkat(dir, paths[i], 0), 0);
		assert_true(!made || unlinkat(dir, parent, AT_REMOVEDIR) == 0);
		assert_int_equal(ip_trace_dir_check(dir, "DIR"), 0);
	}
	assert_int_equal(symlinkat("a-100", dir, "c-103"), 0);
	write_members((const char *const[]){"a-100", "b-101", "c-103", NULL});
	assert_int_equal(ip_trace_dir_check(dir, "DIR"), -1);
	assert_error("no directory of yours");
	assert_int_equal(ip_trace_dir_remove(place.parent, place.name, dir, "DIR"), -1);
	assert_true(is_there("c-103"));
	/* a list that cannot be read names nothing that could be removed */
	put_at(dir, IP_TRACE_MEMBERS, FIRST "member\t1\t..\n");
	assert_int_equal(ip_trace_dir_check(dir, "DIR"), -1);
	assert_int_equal(ip_trace_dir_remove(place.parent, place.name, dir, "DIR"), -1);
	assert_true(is_there(IP_TRACE_MEMBERS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_is_written_is_read, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_writer_that_was_killed, setup, teardown),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_lists),
		cmocka_unit_test_setup_teardown(test_too_many, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_is_no_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_it_is_a_trace, setup, teardown),
		cmocka_unit_test_setup_teardown(test_it_is_removed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_is_not_removed, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
