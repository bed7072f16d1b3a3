/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of a stop, the division of changes between stops, and what the guard does with its
 * table.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "hotpatcher/patch/stop_batches.h"
#include "hotpatcher/ptrace/priority_guard.h"
#include "hotpatcher/ptrace/stop.h"
#include "hotpatcher/ptrace/stop_private.h"

static void running_threads_come_last(void **state)
{
	struct ip_stopped_thread t[6] = {{.tid = 1, .running = true},
					 {.tid = 2},
					 {.tid = 3, .running = true},
					 {.tid = 4},
					 {.tid = 5},
					 {.tid = 6, .running = true}};
	const pid_t wanted[6] = {2, 4, 5, 1, 3, 6};

	ip_stop_order(t, 6);
	for (int i = 0; i < 6; i++) {
		assert_int_equal(t[i].tid, wanted[i]);
		assert_int_equal(t[i].running, i >= 3);
	}
	ip_stop_order(t, 0);
}

static void fill(struct ip_change *c, uint64_t address, uint32_t group)
{
	*c = (struct ip_change){.address = address, .length = 5, .group = group};
}

/* Two sites a function, the second of every third far away (a cold part). */
static size_t make_functions(struct ip_change *changes, size_t n)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		fill(&changes[at++], 0x100000 + i * 1024, i);
		fill(&changes[at++], i % 3 ? 0x100000 + i * 1024 + 512 : 0x9000000 + i * 64, i);
	}
	return at;
}

static void groups_stay_whole(void **state)
{
	enum { N = 300 };
	struct ip_change changes[2 * N];
	size_t n = make_functions(changes, N), done = 0, parts = 0;
	unsigned part_of[N] = {0};

	assert_int_equal(ip_stop_batches_order(changes, n), 0);
	while (done < n) {
		size_t part =
			ip_stop_batches_next(changes + done, n - done, ip_patch_expect_ns(20, 0));

		assert_true(part > 0 && part <= n - done);
		parts++;
		for (size_t i = done; i < done + part; i++) {
			uint32_t g = changes[i].group;

			assert_true(!part_of[g] || part_of[g] == parts);
			part_of[g] = parts;
		}
		done += part;
	}
	assert_true(parts > 3);
	for (int g = 0; g < N; g++)
		assert_true(part_of[g]);
}

static void parts_keep_within_their_time(void **state)
{
	enum { N = 3000 };
	struct ip_change *changes = calloc(N, sizeof(*changes));
	uint64_t allowed = ip_patch_expect_ns(50, 0);
	size_t n = N, done = 0;

	assert_non_null(changes);
	for (size_t i = 0; i < n; i++)
		fill(&changes[i], 0x400000 + i * 256, i / 2); /* 16 sites a page, none crosses */
	while (done < n) {
		size_t part = ip_stop_batches_next(changes + done, n - done, allowed);
		uint64_t first = changes[done].address / 4096,
			 last = changes[done + part - 1].address / 4096;

		assert_true(last - first + 1 <= 50);
		/* and it is no smaller than it has to be */
		assert_true(done + part == n || last - first + 1 >= 49);
		done += part;
	}
	/* a time for less than one function gives one function, so that there is an end */
	assert_int_equal(ip_stop_batches_next(changes, n, 0), 2);
	free(changes);
}

static void crossing_sites_cost_more(void **state)
{
	struct ip_change crosses, lies;

	fill(&crosses, 0x1000 - 3, 0);
	fill(&lies, 0x1000 - 5, 0);
	assert_true(ip_change_crosses_page(&crosses));
	assert_false(ip_change_crosses_page(&lies));
	assert_true(ip_patch_expect_ns(10, 5) > ip_patch_expect_ns(10, 0));
	assert_true(ip_stop_batches_write_ns(50000000, 8) == 25000000);
	assert_true(ip_stop_batches_write_ns(1000000, 100000) == 0);
}

/* A child that waits to be killed. */
static pid_t make_child(void)
{
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	assert_true(pid > 0);
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static struct ip_priority_guard_table *new_table(void)
{
	struct ip_priority_guard_table *table = calloc(1, sizeof(*table));

	assert_non_null(table);
	return table;
}

/* Raises the child, or skips the test where that is not ours to do. */
static uint32_t raise_or_skip(struct ip_priority_guard_table *table, pid_t child)
{
	uint32_t entry = ip_priority_guard_table_raise(table, child);

	if (!entry) {
		end_child(child);
		free(table);
		skip();
	}
	return entry;
}

static void a_raised_thread_gets_its_own_back(void **state)
{
	struct ip_priority_guard_table *table = new_table();
	pid_t child = make_child();
	uint32_t entry;

	assert_int_equal(setpriority(PRIO_PROCESS, child, 7), 0);
	entry = raise_or_skip(table, child);
	assert_int_equal(sched_getscheduler(child) & ~SCHED_RESET_ON_FORK, SCHED_FIFO);
	assert_int_equal(table->entries[entry - 1].tid, child);
	assert_true(ip_priority_guard_table_restore(table, entry));
	assert_int_equal(sched_getscheduler(child), SCHED_OTHER);
	assert_int_equal(getpriority(PRIO_PROCESS, child), 7);
	assert_int_equal(table->entries[entry - 1].tid, 0);
	assert_int_equal(ip_priority_guard_restore_all(table), 0);
	end_child(child);
	free(table);
}

static void the_flag_of_a_thread_stays(void **state)
{
	const struct sched_param none = {0};
	struct ip_priority_guard_table *table = new_table();
	pid_t child = make_child();

	assert_int_equal(sched_setscheduler(child, SCHED_OTHER | SCHED_RESET_ON_FORK, &none), 0);
	raise_or_skip(table, child);
	assert_int_equal(ip_priority_guard_restore_all(table), 1);
	assert_int_equal(sched_getscheduler(child), SCHED_OTHER | SCHED_RESET_ON_FORK);
	end_child(child);
	free(table);
}

static void other_policies_are_left_alone(void **state)
{
	const struct sched_param none = {0}, rt = {.sched_priority = 3};
	struct ip_priority_guard_table *table = new_table();
	pid_t child = make_child();

	assert_int_equal(sched_setscheduler(child, SCHED_BATCH, &none), 0);
	assert_int_equal(ip_priority_guard_table_raise(table, child), 0);
	assert_int_equal(sched_getscheduler(child), SCHED_BATCH);
	if (sched_setscheduler(child, SCHED_RR, &rt) == 0) {
		assert_int_equal(ip_priority_guard_table_raise(table, child), 0);
		assert_int_equal(sched_getscheduler(child), SCHED_RR);
		assert_int_equal(sched_setscheduler(child, SCHED_OTHER, &none), 0);
		assert_int_equal(setpriority(PRIO_PROCESS, child, -1), 0);
		assert_int_equal(ip_priority_guard_table_raise(table, child), 0);
		assert_int_equal(sched_getscheduler(child), SCHED_OTHER);
	}
	assert_int_equal(table->n, 0);
	end_child(child);
	free(table);
}

/* Somebody else gives the thread another policy while it is raised: theirs counts. */
static void a_change_by_others_counts(void **state)
{
	const struct sched_param rt = {.sched_priority = 3};
	struct ip_priority_guard_table *table = new_table();
	pid_t child = make_child();
	uint32_t entry = raise_or_skip(table, child);

	assert_int_equal(sched_setscheduler(child, SCHED_RR, &rt), 0);
	assert_false(ip_priority_guard_table_restore(table, entry));
	assert_int_equal(sched_getscheduler(child), SCHED_RR);
	end_child(child);
	free(table);
}

/* The number of a thread that has ended may be somebody else's by then, who may even have the same
 * policy. */
static void a_younger_thread_is_not_ours(void **state)
{
	struct ip_priority_guard_table *table = new_table();
	pid_t child = make_child();

	raise_or_skip(table, child);
	table->used_ticks = 1; /* as if it had been used before the child was born */
	assert_int_equal(ip_priority_guard_restore_all(table), 0);
	assert_int_equal(sched_getscheduler(child) & ~SCHED_RESET_ON_FORK, SCHED_FIFO);
	end_child(child);
	free(table);
}

static void damaged_tables_do_no_harm(void **state)
{
	struct ip_priority_guard_table *table = new_table();

	table->n = UINT32_MAX;
	table->used_ticks = UINT64_MAX;
	table->entries[0] =
		(struct ip_priority_guard_entry){.tid = INT32_MAX, .policy = SCHED_FIFO};
	table->entries[1] =
		(struct ip_priority_guard_entry){.tid = getpid(), .policy = SCHED_BATCH};
	assert_int_equal(ip_priority_guard_restore_all(table), 0);
	assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
	free(table);
}

/* A process with a guard is killed while a thread is raised. */
static void the_guard_outlives_who_is_killed(void **state)
{
	pid_t child = make_child(), killed;
	int status;

	killed = fork();
	if (killed == 0) {
		ip_priority_guard_start();
		if (!ip_priority_guard_begin() || !ip_priority_guard_raise(child))
			_exit(77);
		raise(SIGKILL);
	}
	assert_int_equal(waitpid(killed, &status, 0), killed);
	if (WIFEXITED(status)) {
		end_child(child);
		skip();
	}
	for (int i = 0; i < 2000 && sched_getscheduler(child) != SCHED_OTHER; i++)
		usleep(1000);
	assert_int_equal(sched_getscheduler(child), SCHED_OTHER);
	end_child(child);
}

static void the_guard_ends_with_us(void **state)
{
	ip_priority_guard_start();
	ip_priority_guard_start();
	ip_priority_guard_stop();
	ip_priority_guard_stop();
	errno = 0;
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

/* A process in uninterruptible sleep until its end of the pipe is closed. */
static pid_t start_sleeper(int *ret_pipe)
{
	int fds[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		close(fds[1]);
		if (vfork() == 0) {
			if (read(fds[0], &c, 1) < 0)
				_exit(1);
			_exit(0);
		}
		for (;;)
			pause();
	}
	assert_true(pid > 0);
	close(fds[0]);
	*ret_pipe = fds[1];
	for (int i = 0; i < 5000 && !ip_stop_is_asleep(pid, pid); i++)
		usleep(1000);
	assert_true(ip_stop_is_asleep(pid, pid));
	return pid;
}

/* Beside a sleeping thread the target runs for 19 times as long as it stood, or until that is
 * awake. */
static void the_rest_for_a_sleeper_ends_when_it_wakes_up(void **state)
{
	enum { MS = 1000000 };
	const struct ip_stop_record record = {.ns = 40 * MS, .failed = true};
	struct ip_stops stops = {.max_stop_ns = 50 * MS};
	struct ip_target target = {.state = &stops.base};
	uint64_t before = ip_now_ns();
	struct ip_stop stop;
	int fd;

	target.pid = stops.asleep = start_sleeper(&fd);
	ip_stop_was_in_vain(&target, &record);
	stops.asleep = 0; /* as the next try does */
	assert_true(ip_now_ns() + ip_stop_rest_ns(&target) >= before + 760ull * MS);
	assert_true(ip_stop_begin(&target, 50 * MS, 0, &stop) < 0 && stop.late && !stop.began_ns);
	stops.sleeper_rest_until_ns = ip_now_ns() + 3600000ull * MS;
	stops.rest_until_ns = ip_now_ns() + 100 * MS;
	close(fd);
	before = ip_now_ns();
	assert_int_equal(ip_stop_rest(&target, 0, NULL), 0);
	/* what is due for what has been, all the same */
	assert_true(ip_now_ns() >= before + 99 * MS);
	assert_int_equal(ip_stop_rest_ns(&target), 0);
	assert_int_equal(kill(target.pid, SIGKILL), 0);
	assert_int_equal(waitpid(target.pid, NULL, 0), target.pid);
}

static void *run_on(void *unused)
{
	for (volatile unsigned i = 0;; i++)
		;
	return unused;
}

/* A process with one thread in vfork() and others that want a CPU, more than there are. */
static pid_t start_sleeper_beside_busy_ones(int *ret_pipe)
{
	int fds[2];
	pthread_t thread;
	pid_t pid;
	char c;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		close(fds[1]);
		for (long n = sysconf(_SC_NPROCESSORS_ONLN) + 1; n >= 0; n--)
			pthread_create(&thread, NULL, run_on, NULL);
		if (vfork() == 0) {
			if (read(fds[0], &c, 1) < 0)
				_exit(1);
			_exit(0);
		}
		_exit(0);
	}
	assert_true(pid > 0);
	close(fds[0]);
	*ret_pipe = fds[1];
	for (int i = 0; i < 5000 && !ip_stop_is_asleep(pid, pid); i++)
		usleep(1000);
	assert_true(ip_stop_is_asleep(pid, pid));
	return pid;
}

/* Threads get priority because one may wait for a lock of theirs; but one that waits for a child
 * costs others no more than 0.2 s, however long it waits. */
static void little_is_lent_because_of_one_sleep(void **state)
{
	struct ip_stops stops = {0};
	struct ip_target target = {.state = &stops.base};
	struct ip_stop stop = {.target = &target, .max_ns = 100000000};
	int fd;

	if (!ip_priority_guard_may_lend())
		skip();
	target.pid = start_sleeper_beside_busy_ones(&fd);
	ip_priority_guard_start();
	/* where others want the CPUs, too, it may take some looks until one of its threads does */
	for (int i = 0; i < 60 && (i < 6 || !stops.lent_ns); i++)
		assert_int_equal(ip_stop_await_asleep(&stop), -1);
	ip_priority_guard_stop();
	assert_int_equal(stops.lent_for, target.pid);
	assert_in_range(stops.lent_ns, 1, 200000000);
	assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
	assert_int_equal(kill(target.pid, SIGKILL), 0);
	close(fd);
	assert_int_equal(waitpid(target.pid, NULL, 0), target.pid);
}

static void a_rest_ends_when_it_is_told_to(void **state)
{
	static const volatile int end = 1;
	struct ip_stops stops = {.rest_until_ns = ip_now_ns() + 3600000000000ull};
	struct ip_target target = {.pid = getpid(), .state = &stops.base};

	assert_int_equal(ip_stop_rest(&target, 0, &end), -1);
}

/* A try that was refused because the target is to run on says nothing of the next one: tries go on
 * as long as they do where threads got no CPU. */
static void tries_go_on_after_a_rest(void **state)
{
	const uint64_t second = 1000000000, began = ip_now_ns() - 6 * second;
	struct ip_stops stops = {.rest_until_ns = ip_now_ns() + second};
	struct ip_target target = {.pid = getpid(), .state = &stops.base};
	bool said = true;

	assert_true(ip_stop_go_on(&target, began, &said));
	assert_false(ip_stop_go_on(&target, ip_now_ns() - 61 * second, &said));
	stops.rest_until_ns = 0;
	assert_false(ip_stop_go_on(&target, began, &said));
}

/* After stops in vain the target runs: three times as long as it stood, and stands for five
 * times what is allowed a second at most. Until then nobody is stopped. */
static void a_stop_in_vain_is_followed_by_a_rest(void **state)
{
	enum { MS = 1000000 };
	static const struct {
		uint64_t stood_ms, rest_ms;
	} cases[] = {{50, 150}, {10, 30}, {100, 300}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct ip_stops stops = {.max_stop_ns = 50 * MS};
		struct ip_target target = {.pid = getpid(), .state = &stops.base};
		const struct ip_stop_record record = {.ns = cases[i].stood_ms * MS, .failed = true};
		struct ip_stop stop;
		uint64_t before, until;

		assert_int_equal(ip_stop_rest_ns(&target), 0);
		before = ip_now_ns();
		ip_stop_was_in_vain(&target, &record);
		until = stops.rest_until_ns;
		assert_true(until >= before + cases[i].rest_ms * MS);
		assert_true(until <= ip_now_ns() + cases[i].rest_ms * MS);
		assert_true(ip_stop_rest_ns(&target) <= cases[i].rest_ms * MS);
		/* the next one has its rest behind this one's, or behind now if that is over */
		ip_stop_was_in_vain(&target, &record);
		assert_true(stops.rest_until_ns >= until + cases[i].rest_ms * MS);
		assert_int_equal(stops.log.n, 2);
		stops.rest_until_ns = ip_now_ns() + 3600000ull * MS;
		assert_true(ip_stop_begin(&target, 50 * MS, 0, &stop) < 0 && stop.late &&
			    !stop.began_ns);
	}
	/* a limit that is shorter than what it takes: five times the limit a second all the same */
	struct ip_stops stops = {.max_stop_ns = MS}, none = {0};
	struct ip_target target = {.pid = getpid(), .state = &stops.base};
	const struct ip_stop_record record = {.ns = 10 * MS, .failed = true};
	const uint64_t began = ip_now_ns();

	ip_stop_was_in_vain(&target, &record);
	assert_true(stops.rest_until_ns + record.ns >= began + 2000ull * MS);
	/* no stop has had a limit yet: a thread that was looked at to be borrowed stopped late */
	struct ip_target early = {.pid = getpid(), .state = &none.base};

	ip_stop_was_in_vain(&early, &record);
	assert_true(none.rest_until_ns && ip_stop_rest_ns(&early) <= 30 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(running_threads_come_last),
		cmocka_unit_test(groups_stay_whole),
		cmocka_unit_test(parts_keep_within_their_time),
		cmocka_unit_test(crossing_sites_cost_more),
		cmocka_unit_test(a_raised_thread_gets_its_own_back),
		cmocka_unit_test(the_flag_of_a_thread_stays),
		cmocka_unit_test(other_policies_are_left_alone),
		cmocka_unit_test(a_change_by_others_counts),
		cmocka_unit_test(a_younger_thread_is_not_ours),
		cmocka_unit_test(damaged_tables_do_no_harm),
		cmocka_unit_test(the_guard_outlives_who_is_killed),
		cmocka_unit_test(the_guard_ends_with_us),
		cmocka_unit_test(a_stop_in_vain_is_followed_by_a_rest),
		cmocka_unit_test(the_rest_for_a_sleeper_ends_when_it_wakes_up),
		cmocka_unit_test(little_is_lent_because_of_one_sleep),
		cmocka_unit_test(a_rest_ends_when_it_is_told_to),
		cmocka_unit_test(tries_go_on_after_a_rest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
