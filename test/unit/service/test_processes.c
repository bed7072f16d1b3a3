/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choosing processes: by pid, name, unit, control group, and with all that they fork.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "service/processes.h"
#include "test.h"

static bool in_group(const char *kind, const char *name, const char *line)
{
	const char *const names[] = {name};
	struct ip_service_choice choice = {0};
	char copy[256];

	if (!strcmp(kind, "unit")) {
		choice.units = names;
		choice.nunits = 1;
	} else {
		choice.cgroups = names;
		choice.ncgroups = 1;
	}
	snprintf(copy, sizeof(copy), "%s", line);
	return ip_service_choice_has_group(&choice, copy);
}

static void test_units(void **state)
{
	assert_true(in_group("unit", "nginx", "0::/system.slice/nginx.service\n"));
	assert_true(in_group("unit", "nginx.service", "0::/system.slice/nginx.service\n"));
	assert_true(in_group("unit", "nginx", "0::/system.slice/nginx.service/worker\n"));
	assert_true(
		in_group("unit", "a@b", "1:name=systemd:/system.slice/system-a.slice/a@b.service"));
	assert_true(in_group("unit", "system.slice", "0::/system.slice/nginx.service\n"));
	assert_false(in_group("unit", "nginx", "0::/system.slice/nginx.service.d\n"));
	assert_false(in_group("unit", "nginx", "0::/system.slice/my-nginx.service\n"));
	assert_false(in_group("unit", "nginx", "0::/nginx\n"));
	assert_false(in_group("unit", "nginx", "no line of the kernel's"));
	assert_false(in_group("unit", "nginx", "0:broken"));
}

static void test_groups(void **state)
{
	assert_true(in_group("cgroup", "/a/b", "0::/a/b\n"));
	assert_true(in_group("cgroup", "/a/b/", "0::/a/b/c\n"));
	assert_true(in_group("cgroup", "a/b", "0::/a/b/c\n"));
	assert_true(in_group("cgroup", "/sys/fs/cgroup/a/b", "0::/a/b\n"));
	assert_true(in_group("cgroup", "/sys/fs/cgroup/cpu,cpuacct/a", "3:cpu,cpuacct:/a\n"));
	assert_true(in_group("cgroup", "/sys/fs/cgroup/systemd/a", "1:name=systemd:/a\n"));
	assert_true(in_group("cgroup", "/", "0::/a\n"));
	assert_false(in_group("cgroup", "/a/b", "0::/a/bc\n"));
	assert_false(in_group("cgroup", "/a/b", "0::/a\n"));
	assert_false(in_group("cgroup", "b", "0::/a/b\n"));
	assert_false(in_group("cgroup", "/sys/fs/cgroup/memory/a", "3:cpu,cpuacct:/a\n"));
}

/* A child that has a child; both wait for the other end of the pipe to be closed. */
static pid_t start(const char *name, int go[2], pid_t *ret_grandchild)
{
	int tell[2];
	pid_t child, grandchild = 0;

	assert_int_equal(pipe2(tell, O_CLOEXEC), 0);
	child = fork();
	if (!child) {
		char byte;

		prctl(PR_SET_NAME, name);
		grandchild = fork();
		if (grandchild && write(tell[1], &grandchild, sizeof(grandchild)) < 0)
			_exit(1);
		close(go[1]);
		_exit(read(go[0], &byte, 1) == 0 && grandchild ? waitpid(grandchild, NULL, 0) < 0
							       : 0);
	}
	assert_int_equal(read(tell[0], &grandchild, sizeof(grandchild)), sizeof(grandchild));
	*ret_grandchild = grandchild;
	close(tell[0]);
	close(tell[1]);
	return child;
}

static size_t found(const struct ip_service_choice *choice, pid_t a, pid_t b)
{
	struct ip_service_processes all;
	size_t n = 0;

	assert_int_equal(ip_service_processes_find(choice, &all), 0);
	for (size_t i = 0; i < all.n; i++) {
		assert_true(i == 0 || all.items[i].pid > all.items[i - 1].pid);
		assert_int_not_equal(all.items[i].started, 0);
	}
	n += a && ip_service_processes_get(&all, a) != NULL;
	n += b && ip_service_processes_get(&all, b) != NULL;
	assert_true(all.n >= n);
	ip_service_processes_clear(&all);
	return n;
}

/* This process and what it has started are never found: they are iprobe and its workers. So the
 * looking is done by a sibling. */
static void look_from_outside(pid_t child, pid_t grandchild)
{
	const char *const names[] = {"a)b (c"};
	const char *const globs[] = {"a?b*"};
	const pid_t dead = 0x7ffffff0;
	struct ip_service_choice by_pid = {.pids = &child, .npids = 1},
				 by_name = {.names = names, .nnames = 1},
				 by_glob = {.names = globs, .nnames = 1},
				 none = {.pids = &dead, .npids = 1};
	struct ip_service_processes all;

	assert_int_equal(found(&by_pid, child, grandchild), 1);
	by_pid.children = true;
	assert_int_equal(found(&by_pid, child, grandchild), 2);
	assert_int_equal(found(&by_name, child, grandchild), 2); /* a child inherits the name */
	assert_int_equal(found(&by_glob, child, grandchild), 2);
	assert_int_equal(ip_service_processes_find(&none, &all), 0);
	assert_int_equal(all.n, 0);
	assert_int_equal(ip_service_processes_find(&by_pid, &all), 0);
	assert_true(ip_service_processes_get(&all, child)->named);
	assert_false(ip_service_processes_get(&all, grandchild)->named);
	assert_int_equal(ip_service_processes_get(&all, child)->identity,
			 ip_service_processes_get(&all, grandchild)->identity);
	assert_string_equal(ip_service_processes_get(&all, child)->comm, "a)b (c");
	ip_service_processes_clear(&all);
	by_pid.children = false;
	assert_true(ip_service_choice_includes_child(&by_name, grandchild));
	assert_true(ip_service_choice_includes_child(&by_glob, grandchild));
	assert_false(ip_service_choice_includes_child(&by_pid, grandchild));
	assert_false(ip_service_choice_includes_child(&by_name, dead));
	by_pid.children = true;
	assert_true(ip_service_choice_includes_child(&by_pid, grandchild));
}

static void test_processes(void **state)
{
	pid_t child, grandchild, looker;
	int go[2], status;

	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	child = start("a)b (c", go, &grandchild);
	looker = fork();
	if (!looker) {
		close(go[1]);
		look_from_outside(child, grandchild);
		_exit(0);
	}
	assert_int_equal(waitpid(looker, &status, 0), looker);
	assert_int_equal(status, 0);
	/* from here they are descendants */
	assert_int_equal(
		found(&(struct ip_service_choice){.pids = &child, .npids = 1}, child, grandchild),
		0);
	close(go[1]);
	close(go[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
}

static uint64_t identity_of(pid_t pid)
{
	const struct ip_service_choice choice = {.pids = &pid, .npids = 1};
	struct ip_service_processes all;
	uint64_t identity = 0;

	if (ip_service_processes_find(&choice, &all) == 0 && all.n == 1)
		identity = all.items[0].identity;
	ip_service_processes_clear(&all);
	return identity;
}

/* A process that executes itself is another one, although all that has a name is the same. */
static void test_exec_of_the_same_program(void **state)
{
	int go[2], status, executed[2];
	pid_t child, looker;
	char byte;

	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	assert_int_equal(pipe2(executed, O_CLOEXEC), 0);
	child = fork();
	if (!child) {
		if (dup2(go[0], STDIN_FILENO) < 0 || dup2(executed[1], STDERR_FILENO) < 0)
			_exit(1);
		if (read(STDIN_FILENO, &byte, 1) == 1)
			execl("/proc/self/exe", "test_processes", "wait", NULL);
		_exit(2);
	}
	looker = fork();
	if (!looker) {
		uint64_t before = identity_of(child);

		if (!before || write(go[1], "x", 1) != 1 || read(executed[0], &byte, 1) != 1)
			_exit(1);
		_exit(identity_of(child) == before ? 3 : 0);
	}
	assert_int_equal(waitpid(looker, &status, 0), looker);
	assert_int_equal(status, 0);
	close(go[1]);
	close(go[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void test_text(void **state)
{
	const pid_t pids[] = {1, 22};
	const char *const names[] = {"x*"};
	const struct ip_service_choice choice = {
		.pids = pids, .npids = 2, .names = names, .nnames = 1, .children = true};
	char *text = ip_service_choice_text(&choice);

	assert_string_equal(text, "PIDs 1 22 --name x* --children");
	assert_true(ip_service_choice_is_open(&choice));
	assert_false(
		ip_service_choice_is_open(&(struct ip_service_choice){.pids = pids, .npids = 2}));
	free(text);
}

int main(int argc, char **argv)
{
	char byte;

	/* test_exec_of_the_same_program(): says that it is there, and waits for its end */
	if (argc > 1)
		return write(STDERR_FILENO, "x", 1) == 1 && read(STDIN_FILENO, &byte, 1) == 0 ? 0
											      : 4;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_units),	  cmocka_unit_test(test_groups),
		cmocka_unit_test(test_processes), cmocka_unit_test(test_exec_of_the_same_program),
		cmocka_unit_test(test_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
