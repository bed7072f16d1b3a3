/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls from events of the kernel that the tests make: the rules of syscall_reader.h, one
 * after the other; the order of events; the sums; and what calls look like as text.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "analysis/syscalls/event_order.h"
#include "analysis/syscalls/syscall_flags.h"
#include "analysis/syscalls/syscall_reader.h"
#include "analysis/syscalls/syscall_set.h"
#include "analysis/syscalls/syscall_sums.h"
#include "analysis/syscalls/syscall_text.h"
#include "test/unit/test.h"

#define CALLS_MOST 64

struct taken {
	struct ip_syscall_reader *reader;
	struct ip_syscall_call calls[CALLS_MOST];
	size_t n;
};

static int take(void *context, const struct ip_syscall_call *call)
{
	struct taken *t = context;

	assert_true(t->n < CALLS_MOST);
	t->calls[t->n++] = *call;
	return 0;
}

static int setup(void **state)
{
	struct taken *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	t->reader = ip_syscall_reader_create(take, t);
	assert_non_null(t->reader);
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	struct taken *t = *state;

	ip_syscall_reader_destroy(t->reader);
	free(t);
	return 0;
}

static void feed(struct taken *t, unsigned id, uint64_t tsc, int32_t tid, const void *fields)
{
	const struct ip_kernel_record record = {.id = id,
						.tsc = tsc,
						.tid = tid,
						.size = ip_kernel_fields_size(id),
						.fields = fields};

	assert_int_equal(ip_syscall_reader_feed(t->reader, &record), 0);
}

static void enter(struct taken *t, uint64_t tsc, int32_t tid, unsigned number, uint64_t first)
{
	const uint64_t arguments[6] = {first};

	feed(t, IP_KERNEL_SYSCALL_ENTRY + number, tsc, tid, arguments);
}

static void leave(struct taken *t, uint64_t tsc, int32_t tid, unsigned number, int64_t result)
{
	feed(t, IP_KERNEL_SYSCALL_EXIT + number, tsc, tid, &result);
}

static void switch_to(struct taken *t, uint64_t tsc, int32_t from, int64_t state, int32_t to)
{
	struct {
		char prev_comm[16];
		int32_t prev_tid, prev_prio;
		int64_t prev_state;
		char next_comm[16];
		int32_t next_tid, next_prio;
	} __attribute__((packed))
	fields = {.prev_tid = from, .prev_state = state, .next_comm = "thread", .next_tid = to};

	feed(t, IP_KERNEL_SCHED_SWITCH, tsc, from, &fields);
}

static void wake(struct taken *t, uint64_t tsc, int32_t tid)
{
	struct {
		char comm[16];
		int32_t tid, prio, cpu;
	} __attribute__((packed)) fields = {.comm = "woken", .tid = tid};

	feed(t, IP_KERNEL_SCHED_WAKEUP, tsc, 0, &fields);
}

static void fork_child(struct taken *t, uint64_t tsc, int32_t parent, int32_t child)
{
	struct {
		char parent_comm[16];
		int32_t parent_tid;
		char child_comm[16];
		int32_t child_tid;
	} __attribute__((packed))
	fields = {.parent_tid = parent, .child_comm = "child", .child_tid = child};

	feed(t, IP_KERNEL_SCHED_FORK, tsc, parent, &fields);
}

static void end_thread(struct taken *t, uint64_t tsc, int32_t tid)
{
	struct {
		char comm[16];
		int32_t tid, prio;
	} __attribute__((packed)) fields = {.comm = "ended", .tid = tid};

	feed(t, IP_KERNEL_SCHED_EXIT, tsc, tid, &fields);
}

static void lose(struct taken *t, uint64_t since, uint64_t tsc, uint64_t n, bool all)
{
	const struct ip_kernel_record record = {
		.id = IP_KERNEL_LOST, .tsc = tsc, .lost_since = since, .lost = n, .all = all};

	assert_int_equal(ip_syscall_reader_feed(t->reader, &record), 0);
}

static void test_call(void **state)
{
	struct taken *t = *state;

	enter(t, 100, 7, SYS_read, 3);
	leave(t, 130, 7, SYS_read, -EBADF);
	assert_int_equal(t->n, 1);
	assert_int_equal(t->calls[0].number, SYS_read);
	assert_int_equal(t->calls[0].arguments[0], 3);
	assert_int_equal(t->calls[0].begin, 100);
	assert_int_equal(t->calls[0].end, 130);
	assert_int_equal(t->calls[0].result, -EBADF);
	assert_true(t->calls[0].timed && !t->calls[0].earlier);
	/* nothing tells what the thread did */
	assert_int_equal(t->calls[0].parts.unknown, 30);
	ip_syscall_reader_expect_scheduler(t->reader);
	enter(t, 200, 7, SYS_read, 3);
	leave(t, 230, 7, SYS_read, 1);
	assert_int_equal(t->calls[1].parts.cpu, 30);
}

/* elapsed = on a CPU + waiting for one + blocked */
static void test_parts(void **state)
{
	struct taken *t = *state;
	const struct ip_syscall_parts *parts = &t->calls[0].parts;

	switch_to(t, 50, 1, 0, 7);
	enter(t, 100, 7, SYS_futex, 0);
	switch_to(t, 110, 7, 1, 0); /* 10 on a CPU */
	wake(t, 310, 7);	    /* 200 blocked */
	switch_to(t, 350, 0, 0, 7); /* 40 waiting for a CPU */
	switch_to(t, 355, 7, 0x100, 9);
	switch_to(t, 375, 9, 1, 7); /* 20 more: it was preempted */
	leave(t, 381, 7, SYS_futex, 0);
	assert_int_equal(t->n, 1);
	assert_int_equal(parts->cpu, 10 + 5 + 6);
	assert_int_equal(parts->runqueue, 40 + 20);
	assert_int_equal(parts->blocked, 200);
	assert_int_equal(parts->unknown, 0);
	assert_string_equal(ip_syscall_reader_thread(t->reader, 7), "thread");
	assert_string_equal(ip_syscall_reader_thread(t->reader, 8), "");
}

static void test_return_without_entry(void **state)
{
	struct taken *t = *state;

	leave(t, 100, 7, SYS_poll, 1);
	assert_int_equal(t->n, 1);
	assert_false(t->calls[0].timed);
	assert_int_equal(t->calls[0].outcome, IP_SYSCALL_RETURNED);
	assert_int_equal(t->calls[0].result, 1);
	assert_int_equal(t->calls[0].begin, t->calls[0].end);
}

static void test_entry_without_return(void **state)
{
	struct taken *t = *state;

	enter(t, 100, 7, SYS_rt_sigreturn, 0);
	enter(t, 200, 7, SYS_read, 0);
	leave(t, 210, 7, SYS_write, 5); /* its entry, and read's return, were lost */
	assert_int_equal(t->n, 3);
	assert_int_equal(t->calls[0].number, SYS_rt_sigreturn);
	assert_int_equal(t->calls[0].outcome, IP_SYSCALL_LOST);
	assert_int_equal(t->calls[1].number, SYS_read);
	assert_int_equal(t->calls[1].outcome, IP_SYSCALL_LOST);
	assert_int_equal(t->calls[2].number, SYS_write);
	assert_int_equal(t->calls[2].outcome, IP_SYSCALL_RETURNED);
	assert_false(t->calls[2].timed);
}

static void test_child(void **state)
{
	struct taken *t = *state;

	enter(t, 100, 7, SYS_clone, 0);
	fork_child(t, 105, 7, 8);
	leave(t, 110, 7, SYS_clone, 8);
	leave(t, 120, 8, SYS_clone, 0); /* of the child: it is no call of its own */
	enter(t, 130, 8, SYS_exit, 0);
	end_thread(t, 140, 8);
	leave(t, 150, 9, SYS_clone3, 0); /* without the event of its fork */
	assert_int_equal(t->n, 2);
	assert_int_equal(t->calls[0].tid, 7);
	assert_int_equal(t->calls[1].tid, 8);
	assert_int_equal(t->calls[1].number, SYS_exit);
	assert_int_equal(t->calls[1].outcome, IP_SYSCALL_OPEN);
	assert_int_equal(t->calls[1].end, 140);
	assert_string_equal(ip_syscall_reader_thread(t->reader, 8), "ended");
	/* the tid again */
	fork_child(t, 200, 7, 8);
	assert_string_equal(ip_syscall_reader_thread(t->reader, 8), "child");
}

static void note_thread(struct taken *t, uint64_t tsc, int32_t tid, int32_t pid)
{
	struct {
		int32_t tid, pid, ppid;
		char name[16];
		int32_t rest[4];
	} __attribute__((packed)) fields = {.tid = tid, .pid = pid, .name = "noted"};

	feed(t, IP_KERNEL_PROCESS_STATE, tsc, tid, &fields);
}

/* A call is told to be its thread's process'. */
static void call_of(struct taken *t, uint64_t tsc, int32_t tid, int32_t pid)
{
	enter(t, tsc, tid, SYS_getppid, 0);
	leave(t, tsc + 1, tid, SYS_getppid, 1);
	assert_int_equal(t->calls[t->n - 1].tid, tid);
	assert_int_equal(t->calls[t->n - 1].pid, pid);
}

static int32_t process_of(void *context, int32_t tid)
{
	return tid == 14 ? 100 : 0; /* all others are gone */
}

static void test_processes(void **state)
{
	struct taken *t = *state;

	note_thread(t, 10, 7, 7);
	note_thread(t, 11, 8, 7);
	call_of(t, 20, 7, 7);
	call_of(t, 30, 8, 7);
	enter(t, 40, 8, SYS_clone, CLONE_THREAD | CLONE_VM);
	fork_child(t, 41, 8, 9);
	leave(t, 42, 8, SYS_clone, 9);
	call_of(t, 50, 9, 7);
	enter(t, 60, 9, SYS_clone, SIGCHLD);
	fork_child(t, 61, 9, 10);
	leave(t, 62, 9, SYS_clone, 10);
	call_of(t, 70, 10, 10);
	/* the flags of clone3(2) are not known: a thread, unless it executes a program */
	enter(t, 80, 10, SYS_clone3, 0);
	fork_child(t, 81, 10, 11);
	leave(t, 82, 10, SYS_clone3, 11);
	call_of(t, 90, 11, 10);
	enter(t, 100, 11, SYS_execve, 0);
	leave(t, 101, 11, SYS_execve, 0);
	call_of(t, 110, 11, 11);
	call_of(t, 120, 12, 0); /* of which nothing is known */
	/* somebody can be asked */
	ip_syscall_reader_ask_process(t->reader, process_of);
	enter(t, 130, 7, SYS_clone3, 0);
	fork_child(t, 131, 7, 13);
	fork_child(t, 132, 7, 14);
	leave(t, 133, 7, SYS_clone3, 13);
	call_of(t, 140, 13, 7);
	call_of(t, 150, 14, 100);
	call_of(t, 160, 15, 0);
}

/* The mark is that of the entry. */
static void test_own(void **state)
{
	const uint64_t arguments[6] = {7};
	const struct ip_kernel_record own = {.id = IP_KERNEL_SYSCALL_ENTRY + SYS_process_vm_readv,
					     .tsc = 10,
					     .tid = 7,
					     .context = IP_KERNEL_OWN_CALL,
					     .size = sizeof(arguments),
					     .fields = (const uint8_t *)arguments};
	struct taken *t = *state;

	assert_int_equal(ip_syscall_reader_feed(t->reader, &own), 0);
	leave(t, 20, 7, SYS_process_vm_readv, 8);
	enter(t, 30, 7, SYS_process_vm_readv, 7);
	leave(t, 40, 7, SYS_process_vm_readv, 8);
	assert_int_equal(t->n, 2);
	assert_true(t->calls[0].own && !t->calls[1].own);
}

/* Also where the thread was in the call when the recording began. */
static void test_own_begun(void **state)
{
	struct {
		int32_t tid, number;
		uint64_t arguments[6];
	} __attribute__((packed)) fields = {.tid = 7, .number = SYS_futex};
	const struct ip_kernel_record own = {.id = IP_KERNEL_SYSCALL_STATE,
					     .tsc = 10,
					     .tid = 7,
					     .context = IP_KERNEL_OWN_CALL,
					     .fields = (const uint8_t *)&fields};
	struct taken *t = *state;

	assert_int_equal(ip_syscall_reader_feed(t->reader, &own), 0);
	leave(t, 20, 7, SYS_futex, 0);
	fields.tid = 8;
	feed(t, IP_KERNEL_SYSCALL_STATE, 30, 8, &fields);
	leave(t, 40, 8, SYS_futex, 0);
	assert_int_equal(t->n, 2);
	assert_true(t->calls[0].own && !t->calls[1].own);
}

/* A process that joins later has waited for longer than it was recorded. */
static void test_joining(void **state)
{
	struct {
		int32_t tid, number;
		uint64_t arguments[6];
	} fields = {.tid = 7, .number = SYS_accept};
	struct taken *t = *state;

	ip_syscall_reader_expect_scheduler(t->reader);
	lose(t, 100, 100, 0, true); /* an event, by which the recording begins */
	note_thread(t, 110, 7, 7);
	feed(t, IP_KERNEL_SYSCALL_STATE, 111, 7, &fields);
	note_thread(t, 500, 9, 9);
	fields.tid = 9;
	feed(t, IP_KERNEL_SYSCALL_STATE, 501, 9, &fields);
	leave(t, 600, 7, SYS_accept, 1);
	leave(t, 610, 9, SYS_accept, 1);
	assert_int_equal(t->calls[0].begin, 100);
	assert_int_equal(t->calls[1].begin, 500);
	assert_int_equal(t->calls[1].parts.blocked, 110);
	assert_true(t->calls[1].earlier);
}

static void count_open(void *context, const struct ip_syscall_call *call)
{
	struct taken *t = context;

	take(t, call);
}

static void test_begin_and_end(void **state)
{
	struct taken *t = *state;
	struct {
		int32_t tid, number;
		uint64_t arguments[6];
	} __attribute__((packed)) fields = {.tid = 7, .number = SYS_accept, .arguments = {4}};
	struct taken seen = {0};

	lose(t, 100, 100, 0, true); /* an event, by which the recording begins */
	feed(t, IP_KERNEL_SYSCALL_STATE, 120, 7, &fields);
	feed(t, IP_KERNEL_SYSCALL_STATE, 121, 7, &fields); /* told twice: it is one call */
	fields.tid = 8;
	feed(t, IP_KERNEL_SYSCALL_STATE, 122, 8, &fields);
	fields.number = -1;
	fields.tid = 9;
	feed(t, IP_KERNEL_SYSCALL_STATE, 122, 9, &fields); /* no call */
	leave(t, 400, 7, SYS_accept, 5);
	assert_int_equal(t->n, 1);
	assert_true(t->calls[0].earlier && t->calls[0].timed);
	assert_int_equal(t->calls[0].begin, 100);
	assert_int_equal(t->calls[0].arguments[0], 4);
	ip_syscall_reader_each_open(t->reader, 500, count_open, &seen);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.calls[0].end, 500);
	assert_int_equal(t->n, 1);
	assert_int_equal(ip_syscall_reader_end(t->reader, 600), 0);
	assert_int_equal(t->n, 2);
	assert_int_equal(t->calls[1].tid, 8);
	assert_int_equal(t->calls[1].outcome, IP_SYSCALL_OPEN);
	assert_int_equal(t->calls[1].end, 600);
	/* it is told once */
	assert_int_equal(ip_syscall_reader_end(t->reader, 700), 0);
	assert_int_equal(t->n, 2);
}

/* What was lost may be the return of a call and the entry of the next one. */
static void test_losses(void **state)
{
	struct taken *t = *state;

	switch_to(t, 50, 1, 0, 7);
	enter(t, 100, 7, SYS_read, 0);
	lose(t, 110, 200, 30, false);
	leave(t, 210, 7, SYS_read, 5);
	assert_int_equal(t->n, 1);
	assert_false(t->calls[0].timed);
	assert_int_equal(ip_syscall_reader_read(t->reader).lost, 30);
	/* of the scheduler alone: the call is known, and what it did is not */
	switch_to(t, 300, 1, 0, 7);
	enter(t, 310, 7, SYS_read, 0);
	switch_to(t, 320, 7, 1, 0);
	lose(t, 340, 400, 1, true);
	leave(t, 450, 7, SYS_read, 5);
	assert_int_equal(t->n, 2);
	assert_true(t->calls[1].timed);
	assert_int_equal(t->calls[1].parts.cpu, 10);
	assert_int_equal(t->calls[1].parts.blocked, 20);
	assert_int_equal(t->calls[1].parts.unknown, 110);
}

static void test_many_threads(void **state)
{
	struct taken *t = *state;

	for (int32_t tid = 1; tid < 2000; tid++) {
		t->n = 0;
		enter(t, 1000 * tid, tid, SYS_getpid, 0);
		leave(t, 1000 * tid + 7, tid, SYS_getpid, 1);
		assert_int_equal(t->n, 1);
		assert_int_equal(t->calls[0].end - t->calls[0].begin, 7);
		if (tid % 3)
			end_thread(t, 1000 * tid + 9, tid);
	}
}

static void test_sums(void **state)
{
	struct ip_syscall_sums sums = {0}, copy = {0};
	struct ip_syscall_call call = {
		.begin = 1000, .end = 1100, .timed = true, .number = SYS_read, .result = 5};
	const struct ip_syscall_sum *sum;

	assert_int_equal(ip_syscall_sums_add(&sums, 3, &call), 0);
	call.end = 1300;
	call.result = -EAGAIN;
	assert_int_equal(ip_syscall_sums_add(&sums, 3, &call), 0);
	call.result = -EINTR;
	assert_int_equal(ip_syscall_sums_add(&sums, 3, &call), 0);
	assert_int_equal(ip_syscall_sums_add(&sums, 3, &call), 0);
	call.outcome = IP_SYSCALL_OPEN;
	call.end = 1010;
	assert_int_equal(ip_syscall_sums_add(&sums, 3, &call), 0);
	call.outcome = IP_SYSCALL_LOST;
	call.timed = false;
	call.end = call.begin;
	assert_int_equal(ip_syscall_sums_add(&sums, 3, &call), 0);
	call.number = SYS_write;
	call.end = 9000;
	call.timed = true;
	call.earlier = true;
	assert_int_equal(ip_syscall_sums_add(&sums, 3, &call), 0);
	for (unsigned owner = 10; owner < 1000; owner++)
		assert_int_equal(ip_syscall_sums_add(&sums, owner, &call), 0);
	ip_syscall_sums_sort(&sums);
	assert_int_equal(sums.n, 992);
	assert_int_equal(ip_syscall_sums_copy(&copy, &sums), 0);
	ip_syscall_sums_sort(&copy);
	assert_int_equal(copy.n, 992);
	assert_int_equal(copy.items[991].by_error[0].count, 2);
	assert_int_equal(ip_histogram_percentile(&copy.items[991].durations, 1, 0, UINT64_MAX),
			 ip_histogram_percentile(&sums.items[991].durations, 1, 0, UINT64_MAX));
	copy.items[991].by_error[0].count = 0; /* it is one of its own */
	ip_syscall_sums_clear(&copy);
	sum = &sums.items[991];
	assert_int_equal(sum->number, SYS_read);
	assert_int_equal(sum->calls, 5);
	assert_int_equal(sum->errors, 3);
	assert_int_equal(sum->nby_error, 2);
	assert_int_equal(sum->by_error[0].number, EINTR);
	assert_int_equal(sum->by_error[0].count, 2);
	assert_int_equal(sum->timed, 4);
	assert_int_equal(sum->min, 100);
	assert_int_equal(sum->max, 300);
	assert_int_equal(ip_syscall_sum_mean(sum), 250);
	assert_int_equal(sum->open, 1);
	assert_int_equal(sum->open_ticks, 10);
	assert_int_equal(sum->ticks, 1010);
	assert_int_equal(sum->unknown, 1);
	/* one that had begun before has no length of its own */
	assert_int_equal(sums.items[0].number, SYS_write);
	assert_int_equal(sums.items[0].earlier, 1);
	assert_int_equal(sums.items[0].timed, 0);
	assert_int_equal(ip_syscall_sum_mean(&sums.items[0]), 0);
	assert_int_equal(ip_syscall_sums_add(&sums, 3, &call), 0); /* and it goes on */
	assert_int_equal(sums.n, 992);
	ip_syscall_sums_clear(&sums);
	assert_int_equal(sums.n, 0);
}

struct fed {
	uint64_t tscs[4096];
	uint64_t lost, lost_since;
	size_t n;
};

static int note(void *context, const struct ip_kernel_record *record)
{
	struct fed *fed = context;

	if (record->id == IP_KERNEL_LOST) {
		fed->lost += record->lost;
		fed->lost_since = record->lost_since;
		return 0;
	}
	assert_true(fed->n < N_ELEMENTS(fed->tscs));
	assert_int_equal(ip_kernel_u64(record, 0), 3 * record->tsc);
	fed->tscs[fed->n++] = record->tsc;
	return record->tsc == 7777 ? -1 : 0;
}

static void add(struct ip_event_order *order, uint32_t cpu, uint64_t tsc)
{
	struct {
		struct ip_kernel_event_header header;
		int64_t result;
	} __attribute__((packed))
	event = {.header = {.id = IP_KERNEL_SYSCALL_EXIT, .tsc = tsc, .tid = 7}, .result = 3 * tsc};

	assert_int_equal(
		ip_event_order_add(order, false, cpu, (const uint8_t *)&event, sizeof(event)), 0);
}

/* The CPUs' events come one CPU after the other, and are fed in order of time. */
static void test_order(void **state)
{
	struct fed fed = {0};
	struct ip_event_order *order = ip_event_order_create(note, &fed);

	assert_non_null(order);
	add(order, 8192, 5);
	for (uint64_t round = 0; round < 10; round++) {
		const uint64_t from = 10 + 300 * round;

		for (uint32_t cpu = 0; cpu < 3; cpu++)
			for (uint64_t i = 0; i < 100; i++)
				add(order, cpu, from + 3 * i + cpu);
		/* what comes behind that time is kept */
		assert_int_equal(ip_event_order_until(order, from + 150), 0);
		assert_int_equal(fed.n, 1 + from + 150 - 10);
	}
	assert_int_equal(ip_event_order_until(order, UINT64_MAX), 0);
	assert_int_equal(fed.n, 3001);
	for (size_t i = 1; i < fed.n; i++)
		assert_int_equal(fed.tscs[i], 9 + i);
	/* losses stand where they happened: between two events, or behind the last one */
	assert_int_equal(ip_event_order_lose(order, false, 1, 4), 0);
	add(order, 1, 5000);
	assert_int_equal(ip_event_order_until(order, 5000), 0);
	assert_int_equal(fed.lost, 0);
	assert_int_equal(ip_event_order_until(order, 5001), 0);
	assert_int_equal(fed.lost, 4);
	assert_int_equal(fed.lost_since, 3008);
	assert_int_equal(ip_event_order_lose(order, false, 2, 5), 0);
	assert_int_equal(ip_event_order_until(order, 6000), 0);
	assert_int_equal(fed.lost, 9);
	assert_int_equal(ip_event_order_until(order, 6001), 0);
	assert_int_equal(fed.lost, 9);
	/* whoever is fed may end it */
	add(order, 7, 7777);
	assert_int_equal(ip_event_order_until(order, 8000), -1);
	ip_event_order_destroy(order);
}

/* Before the call, which may close it, and when it has returned. */
static const char *find(void *context, int32_t tid, int32_t fd, uint64_t tsc)
{
	return tid == 7 && fd == 3 && (tsc == 99 || tsc == 101) ? "/etc/passwd" : NULL;
}

static void expect(const struct ip_syscall_call *call, const char *text, const char *result)
{
	const struct ip_syscall_descriptors descriptors = {find, NULL};
	char got[512];

	assert_string_equal(ip_syscall_text(call, &descriptors, got, sizeof(got)), text);
	assert_string_equal(ip_syscall_result_text(call, &descriptors, got, sizeof(got)), result);
	/* however little memory there is */
	for (size_t size = 1; size < 16; size++) {
		ip_syscall_text(call, &descriptors, got, size);
		assert_int_equal(strncmp(got, text, strlen(got)), 0);
		assert_true(strlen(got) < size);
		ip_syscall_result_text(call, &descriptors, got, size);
		assert_true(strlen(got) < size);
	}
}

#define CALL(n, r, ...)                                                                            \
	(&(struct ip_syscall_call){.tid = 7,                                                       \
				   .begin = 100,                                                   \
				   .end = 101,                                                     \
				   .timed = true,                                                  \
				   .number = (n),                                                  \
				   .result = (r),                                                  \
				   .arguments = {__VA_ARGS__}})

/* What a process executes has another name; what it called before was another program. */
static void test_programs(void **state)
{
	struct taken *t = *state;
	const struct ip_syscall_reader *r = t->reader;

	note_thread(t, 10, 7, 7);
	enter(t, 20, 7, SYS_clone, SIGCHLD);
	fork_child(t, 21, 7, 8);
	leave(t, 22, 7, SYS_clone, 8);
	enter(t, 30, 8, SYS_dup2, 1);
	leave(t, 31, 8, SYS_dup2, 1);
	enter(t, 40, 8, SYS_execve, 0);
	leave(t, 41, 8, SYS_execve, -ENOENT); /* it stays what it is */
	enter(t, 50, 8, SYS_execve, 0);
	switch_to(t, 51, 7, 1, 8); /* it has its new name, and the call has not returned */
	leave(t, 52, 8, SYS_execve, 0);
	for (size_t i = 1; i < 4; i++) {
		assert_int_equal(t->calls[i].program, 0);
		assert_string_equal(ip_syscall_reader_caller(r, &t->calls[i]), "child");
	}
	enter(t, 60, 8, SYS_brk, 0);
	leave(t, 61, 8, SYS_brk, 0);
	assert_int_equal(t->calls[4].program, 1);
	assert_string_equal(ip_syscall_reader_process(r, 8, 1), "thread");
	note_thread(t, 63, 10, 8);
	enter(t, 64, 10, SYS_brk, 0); /* a thread of the program */
	leave(t, 65, 10, SYS_brk, 0);
	assert_int_equal(t->calls[5].pid, 8);
	assert_int_equal(t->calls[5].program, 1);
	assert_string_equal(ip_syscall_reader_caller(r, &t->calls[5]), "noted");
	/* the next program: nothing has told its name when it is made, and its end does */
	enter(t, 70, 8, SYS_execveat, 0);
	leave(t, 71, 8, SYS_execveat, 0);
	assert_string_equal(ip_syscall_reader_process(r, 8, 2), "");
	enter(t, 72, 8, SYS_exit_group, 0);
	end_thread(t, 73, 8);
	assert_int_equal(t->calls[7].program, 2);
	assert_string_equal(ip_syscall_reader_process(r, 8, 0), "child");
	assert_string_equal(ip_syscall_reader_process(r, 8, 1), "thread");
	assert_string_equal(ip_syscall_reader_process(r, 8, 2), "ended");
	assert_string_equal(ip_syscall_reader_process(r, 8, 3), "");
	assert_string_equal(ip_syscall_reader_process(r, 7, 0), "noted");
}

static void test_text(void **state)
{
	struct ip_syscall_call *call;

	expect(CALL(SYS_close, 0, 3), "close(3</etc/passwd>)", "0");
	expect(CALL(SYS_read, 512, 3, 0x7f00, 4096), "read(3</etc/passwd>, 0x7f00, 4096)", "512");
	expect(CALL(SYS_read, -EBADF, 4, 0, 1), "read(4, 0, 1)", "-1 EBADF (Bad file descriptor)");
	expect(CALL(SYS_openat, 3, (uint32_t)AT_FDCWD, 0x5000, O_RDWR | O_CREAT | O_CLOEXEC, 0644),
	       "openat(AT_FDCWD, 0x5000, O_RDWR|O_CREAT|O_CLOEXEC, 0644)", "3</etc/passwd>");
	/* a mode is no argument where no file is made */
	expect(CALL(SYS_openat, -ENOENT, (uint32_t)AT_FDCWD, 0x5000, O_RDONLY, 0644),
	       "openat(AT_FDCWD, 0x5000, O_RDONLY)", "-1 ENOENT (No such file or directory)");
	expect(CALL(SYS_open, 9, 0x5000, O_WRONLY | O_DIRECTORY | 0x40000000, 0),
	       "open(0x5000, O_WRONLY|O_DIRECTORY|0x40000000)", "9");
	expect(CALL(SYS_mmap, 0x7f0000001000, 0, 4096, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, (uint32_t)-1, 0),
	       "mmap(0, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0)",
	       "0x7f0000001000");
	expect(CALL(SYS_mprotect, 0, 0x1000, 4096, PROT_NONE), "mprotect(0x1000, 4096, PROT_NONE)",
	       "0");
	expect(CALL(SYS_futex, -ETIMEDOUT, 0x10, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 2),
	       "futex(0x10, FUTEX_WAIT_BITSET|FUTEX_PRIVATE_FLAG, 2, 0, 0, 0)",
	       "-1 ETIMEDOUT (Connection timed out)");
	expect(CALL(SYS_kill, 0, (uint32_t)-12, SIGTERM), "kill(-12, SIGTERM)", "0");
	expect(CALL(SYS_kill, 0, 12, 64), "kill(12, 0x40)", "0");
	expect(CALL(SYS_access, 0, 0x1000, F_OK), "access(0x1000, F_OK)", "0");
	expect(CALL(SYS_lseek, 0, 3, (uint64_t)-10, SEEK_END),
	       "lseek(3</etc/passwd>, -10, SEEK_END)", "0");
	expect(CALL(SYS_dup, 3, 3), "dup(3</etc/passwd>)", "3</etc/passwd>");
	expect(CALL(SYS_getpid, 4711, 0), "getpid()", "4711");
	expect(CALL(SYS_futex, -516, 0x10, FUTEX_WAIT), "futex(0x10, FUTEX_WAIT, 0, 0, 0, 0)",
	       "-1 ERESTART_RESTARTBLOCK");
	expect(CALL(1000, -4000, 1, 2), "syscall_1000(0x1, 0x2)", "-1 errno 4000");
	call = CALL(SYS_read, 0, 3);
	call->timed = false;
	expect(call, "read(...)", "0");
	call = CALL(SYS_close, 0, 5);
	call->outcome = IP_SYSCALL_OPEN;
	expect(call, "close(5 <unfinished ...>", "?");
}

static const char *path_of(void *context, const struct ip_syscall_call *call, unsigned argument)
{
	(*(unsigned *)context)++;
	return argument ? "/else" : "/x \"y\"";
}

/* What is no path is not looked for among paths. */
static void test_path(void **state)
{
	unsigned asked = 0;
	const struct ip_syscall_descriptors descriptors = {.path = path_of, .context = &asked};
	char got[512];

	ip_syscall_text(CALL(SYS_mkdir, 0, 0x1000, 0700), &descriptors, got, sizeof(got));
	assert_string_equal(got, "mkdir(\"/x \\\"y\\\"\", 0700)");
	assert_int_equal(asked, 1);
	ip_syscall_text(CALL(SYS_renameat, 0, 1, 0x1000, 2, 0x2000), &descriptors, got,
			sizeof(got));
	assert_string_equal(got, "renameat(1, \"/else\", 2, \"/else\")");
	assert_int_equal(asked, 3);
	ip_syscall_text(CALL(SYS_read, 0, 3, 0x1000, 1), &descriptors, got, sizeof(got));
	assert_string_equal(got, "read(3, 0x1000, 1)");
	assert_int_equal(asked, 3);
}

static void test_descriptor(void **state)
{
	bool made;

	assert_int_equal(ip_syscall_descriptor(CALL(SYS_read, 1, 3), &made), 3);
	assert_false(made);
	assert_int_equal(ip_syscall_descriptor(CALL(SYS_openat, 5, (uint32_t)AT_FDCWD), &made), 5);
	assert_true(made);
	assert_int_equal(ip_syscall_descriptor(CALL(SYS_openat, -2, (uint32_t)AT_FDCWD), &made),
			 -1);
	assert_int_equal(ip_syscall_descriptor(CALL(SYS_getpid, 5), &made), -1);
	assert_int_equal(ip_syscall_descriptor(CALL(SYS_mmap, 5, 0, 1, 1, 1, (uint32_t)-1), &made),
			 -1);
	assert_int_equal(ip_syscall_descriptor(CALL(SYS_fcntl, 9, 3, F_DUPFD_CLOEXEC), &made), 9);
	assert_true(made);
	assert_int_equal(ip_syscall_descriptor(CALL(SYS_fcntl, 9, 3, F_GETFL), &made), 3);
}

static bool has(const char *text, unsigned number)
{
	struct ip_syscall_set set;

	assert_int_equal(ip_syscall_set_parse(text, &set), 0);
	return ip_syscall_set_has(&set, number);
}

static void test_set(void **state)
{
	static const struct {
		const char *text, *error;
	} wrong[] = {{"", "names of system calls"},
		     {"!", "names of system calls"},
		     {"opennat", "nearest is openat"},
		     {"%nothing", "no such class"},
		     {"read,,write", "empty name"},
		     {",read", "empty name"},
		     {"read,", "empty"},
		     {"1024", "no such system call"},
		     {"%", "no such class"}};
	struct ip_syscall_set set;

	assert_true(has("openat,read", SYS_read));
	assert_false(has("openat,read", SYS_write));
	assert_true(has("trace=!read", SYS_write));
	assert_false(has("trace=!read,%network", SYS_sendto));
	assert_true(has("%file", SYS_openat) && has("%file", SYS_rename));
	assert_false(has("%file", SYS_read));
	assert_true(has("%desc", SYS_read) && has("%desc", SYS_epoll_wait));
	assert_false(has("%desc", SYS_getpid));
	assert_true(has("%net", SYS_connect) && has("%network", SYS_accept4));
	assert_true(has("%process", SYS_execve) && has("%memory", SYS_brk));
	assert_true(has("%signal", SYS_kill) && has("%ipc", SYS_semop));
	assert_true(has("0", SYS_read) && has("999", 999));
	for (size_t i = 0; i < N_ELEMENTS(wrong); i++) {
		assert_int_equal(ip_syscall_set_parse(wrong[i].text, &set), -1);
		assert_error(wrong[i].error);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_call, setup, teardown),
		cmocka_unit_test_setup_teardown(test_parts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_return_without_entry, setup, teardown),
		cmocka_unit_test_setup_teardown(test_entry_without_return, setup, teardown),
		cmocka_unit_test_setup_teardown(test_child, setup, teardown),
		cmocka_unit_test_setup_teardown(test_processes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_own, setup, teardown),
		cmocka_unit_test_setup_teardown(test_own_begun, setup, teardown),
		cmocka_unit_test_setup_teardown(test_joining, setup, teardown),
		cmocka_unit_test_setup_teardown(test_begin_and_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_losses, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_threads, setup, teardown),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_sums),
		cmocka_unit_test_setup_teardown(test_programs, setup, teardown),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_path),
		cmocka_unit_test(test_descriptor),
		cmocka_unit_test(test_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
