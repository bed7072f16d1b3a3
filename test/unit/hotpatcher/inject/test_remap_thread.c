/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of the block of a target that an iprobe which died has left: it is forgotten only
 * when it is certain what it tells of.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hotpatcher/inject/borrow_search.h"
#include "hotpatcher/inject/remap_thread.h"
#include "hotpatcher/ptrace/stops.h"
#include "test/unit/fake_target.h"
#include "test/unit/test.h"

#define BLOCK 0x600000ull
#define MS    1000000ull

static struct ip_target *target; /* its memory is a file, its thread is a real one */
static pid_t child;
static struct ip_stops stops;

static void keep(struct ip_target_state *state)
{
}

static int setup(void **state)
{
	child = fork();
	assert_true(child >= 0);
	if (!child) { /* in a call that a search for waiting threads does not break off */
		struct epoll_event e;
		int fd = epoll_create1(0);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			epoll_wait(fd, &e, 1, 60000);
	}
	target = fake_target_open();
	target->pid = target->inner_pid = child;
	stops = (struct ip_stops){.base.destroy = keep};
	target->state = &stops.base;
	target->anchor.remap = 0x1000;
	target->anchor.remap_block = BLOCK;
	target->anchor.remap_end = 0x2000;
	return 0;
}

static int teardown(void **state)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	ip_target_close(target);
	return 0;
}

/* One entry, of nothing that is mapped; thread: who was borrowed last. */
static void leave(pid_t thread)
{
	struct ip_remap block = {.back.tid = thread, .npieces = 1};

	block.pieces[0] = (struct ip_remap_piece){
		.at = 0x10000, .size = 0x1000, .staged = 0x20000, .what = IP_REMAP_SWITCH};
	assert_int_equal(ip_target_write(target, BLOCK, &block, sizeof(block)), 0);
}

static uint32_t left(void)
{
	struct ip_remap block;

	assert_int_equal(ip_target_read(target, BLOCK, &block, sizeof(block)), 0);
	return block.npieces;
}

static void what_is_unmapped_is_forgotten(void **state)
{
	struct ip_remap_hold held;

	leave(0);
	assert_int_equal(ip_remap_thread_clean(target, MS, &held), 0);
	assert_int_equal(left(), 0);
}

/* The entries of a thread that is at work yet are not read: it changes them. */
static void a_thread_in_the_code_is_waited_for(void **state)
{
	struct ip_remap_hold held;

	target->anchor.remap = 0; /* wherever it is */
	target->anchor.remap_end = UINT64_MAX;
	leave(child);
	assert_int_equal(ip_remap_thread_clean(target, MS, &held), -1);
	assert_error("has not come back yet");
	assert_int_equal(left(), 1);
}

static enum ip_borrow_which waiting(uint64_t ns)
{
	return IP_BORROW_WAITING;
}

/* Whatever a thread is borrowed for but text: what is left comes first. The page of a counter is
 * no text, though it is dropped like a copy of text. */
static void counters_come_after_what_is_left(void **state)
{
	struct ip_remap_piece counter[] = {{.what = IP_REMAP_DROP, .staged = 0x30000, .size = 4096},
					   {.what = IP_REMAP_CLOSE, .at = 7, .size = 1}};
	struct ip_remap_piece text[] = {{.what = IP_REMAP_NOTHING},
					{.what = IP_REMAP_DROP, .at = 0x10000, .staged = 0x20000}};
	struct ip_remap_hold held;

	leave(0);
	assert_int_equal(ip_remap_thread_run(target, waiting, MS, text, 2, &held), -1);
	assert_int_equal(left(), 1); /* it may be what the entry tells of */
	assert_int_equal(ip_remap_thread_run(target, waiting, MS, counter, 2, &held), -1);
	assert_error("none of its threads waits");
	assert_int_equal(left(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_unmapped_is_forgotten, setup, teardown),
		cmocka_unit_test_setup_teardown(a_thread_in_the_code_is_waited_for, setup,
						teardown),
		cmocka_unit_test_setup_teardown(counters_come_after_what_is_left, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
