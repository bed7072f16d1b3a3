/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobed's log: what workers say comes into it as lines of iprobed's own, whatever is in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iprobed/daemon_private.h"
#include "test/unit/test.h"

/* Has a worker say the text, and returns the log, which is freed by the next call. */
static const char *log_of(const char *text, size_t size, bool at_once)
{
	static char *log;
	struct ip_iprobed_session s = {.who.pid = 1,
				       .request = {.what = IP_REQUEST_DETACH, .pid = 7}};
	int file = memfd_create("log", 0), before = dup(STDERR_FILENO), out;
	off_t length;

	assert_return_code(file, errno);
	assert_return_code(dup2(file, STDERR_FILENO), errno);
	s.words = ip_worker_log_new(IP_WORKER_LOG_LINES, &out);
	assert_non_null(s.words);
	for (size_t i = 0; i < size; i += at_once ? size : 1) {
		assert_return_code(write(out, text + i, at_once ? size : 1), errno);
		ip_worker_log_read(&s);
	}
	close(out);
	ip_worker_log_read(&s);
	assert_int_equal(ip_worker_log_fd(s.words), -1);
	ip_worker_log_free(s.words);
	assert_return_code(dup2(before, STDERR_FILENO), errno);
	close(before);
	length = lseek(file, 0, SEEK_END);
	free(log);
	log = calloc(1, length + 1);
	assert_non_null(log);
	assert_int_equal(pread(file, log, length, 0), length);
	close(file);
	return log;
}

static size_t count(const char *log, const char *what)
{
	size_t n = 0;

	for (; (log = strstr(log, what)); log += strlen(what))
		n++;
	return n;
}

static void put(const char *dir, const char *name, const char *text)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	for (char *slash = path + strlen(dir) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
		*slash = '\0';
		mkdir(path, 0700);
	}
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

/* The least of what the groups, those above them and the machine have. */
static void test_memory_that_is_there(void **state)
{
	static const struct {
		const char *groups;
		uint64_t bytes;
	} cases[] = {
		{"0::/\n", 4ull << 30},
		{"0::/unit/inner\n", 1ull << 30},
		{"0::/unit\n", 1ull << 30},
		{"0::/no-such\n", 4ull << 30},
		{"5:cpu:/small\n0::/\n", 4ull << 30},
		{"5:cpu,memory:/small\n0::/unit\n", 4096},
		{"", 4ull << 30},
		{"damaged\n:\n0::/unit\n", 1ull << 30},
	};
	char dir[] = "/tmp/iprobe-memory-XXXXXX", groups[64], info[64], top[64], command[128];

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(groups, sizeof(groups), "%s/groups", dir);
	snprintf(info, sizeof(info), "%s/info", dir);
	snprintf(top, sizeof(top), "%s/top", dir);
	put(dir, "info", "MemFree: 1 kB\nMemTotal:       4194304 kB\n");
	put(dir, "top/unit/memory.max", "1073741824\n");
	put(dir, "top/unit/inner/memory.max", "max\n");
	put(dir, "top/memory/small/memory.limit_in_bytes", "4096\n");
	put(dir, "top/memory/memory.limit_in_bytes", "9223372036854771712\n");
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		put(dir, "groups", cases[i].groups);
		assert_int_equal(ip_iprobed_memory_there(groups, top, info), cases[i].bytes);
	}
	assert_int_equal(ip_iprobed_memory_there("/no", "/no", "/no"), UINT64_MAX);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	assert_int_equal(system(command), 0);
}

static void test_characters(void **state)
{
	static const char text[] = "a\033[31m\rb\tc\177\0\302\233d\nno newline";

	(void)state;
	for (int at_once = 0; at_once < 2; at_once++) {
		const char *log = log_of(text, sizeof(text) - 1, at_once);

		assert_non_null(strstr(log, "session 0: uid 0 gid 0 pid 1: detach pid 7: says: "
					    "a\\x1b[31m\\x0db\\x09c\\x7f?\\xc2\\x9bd\n"));
		assert_non_null(strstr(log, "says: no newline\n"));
		assert_int_equal(count(log, "\n"), 2);
		for (const char *p = log; *p; p++)
			assert_true(*p == '\n' || (*p >= ' ' && *p < 0x7f));
	}
}

/* A line that looks like one of ours stands behind whose it is; an empty one is none. */
static void test_lines(void **state)
{
	static const char text[] = "\n\niprobed: serves\n\n";
	const char *log = log_of(text, sizeof(text) - 1, true);

	(void)state;
	assert_int_equal(count(log, "\n"), 1);
	assert_int_equal(count(log, "pid 7: says: iprobed: serves\n"), 1);
}

static void test_without_end(void **state)
{
	char text[60000];
	const char *log;

	(void)state;
	memset(text, 'x', sizeof(text));
	log = log_of(text, sizeof(text), true);
	assert_int_equal(count(log, "\n"), 32);
	assert_int_equal(count(log, "left out"), 1);
	assert_true(strlen(log) < 32 * 800);
	memset(text, '\n', sizeof(text));
	for (size_t i = 0; i < sizeof(text); i += 2)
		text[i] = 'y';
	log = log_of(text, sizeof(text), true);
	assert_int_equal(count(log, "says: y\n"), 31);
	assert_int_equal(count(log, "\n"), 32);
}

/* One call reads no more than a pipe holds as a rule: a worker may write on meanwhile. */
static void test_one_call_comes_back(void **state)
{
	static char text[1 << 20];
	struct ip_iprobed_session s = {.who.pid = 1,
				       .request = {.what = IP_REQUEST_DETACH, .pid = 7}};
	int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC), before = dup(STDERR_FILENO), out, left;

	(void)state;
	assert_return_code(dup2(quiet, STDERR_FILENO), errno);
	s.words = ip_worker_log_new(IP_WORKER_LOG_LINES, &out);
	assert_non_null(s.words);
	assert_return_code(fcntl(out, F_SETPIPE_SZ, sizeof(text)), errno);
	assert_int_equal(write(out, text, sizeof(text)), sizeof(text));
	ip_worker_log_read(&s);
	assert_return_code(ioctl(ip_worker_log_fd(s.words), FIONREAD, &left), errno);
	assert_true(left > 0 && left < (int)sizeof(text));
	close(out);
	for (int i = 0; i < 20; i++)
		ip_worker_log_read(&s);
	assert_int_equal(ip_worker_log_fd(s.words), -1);
	ip_worker_log_free(s.words);
	assert_return_code(dup2(before, STDERR_FILENO), errno);
	close(before);
	close(quiet);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory_that_is_there),
		cmocka_unit_test(test_characters),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_without_end),
		cmocka_unit_test(test_one_call_comes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
