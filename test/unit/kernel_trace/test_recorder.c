/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of a child, from each source that this machine has: all of them come, each at its time,
 * and none of others.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/arch/x86_64/tsc.h"
#include "common/clock.h"
#include "common/trace/kernel_format.h"
#include "kernel_trace/kernel_check.h"
#include "kernel_trace/kernel_stream.h"
#include "kernel_trace/recorder.h"
#include "test/unit/test.h"

#define THREADS 4u /* one after the other, and a process that the child forks */
#define CALLS	400u
#define BUFFER	(4u << 20)
#define NEAR	230u /* ticks, about 100 ns, by which perf's clock may be wrong */

struct bracket {
	int32_t tid;
	uint64_t before, after;
};

/* What the child has done. */
struct done {
	unsigned n;
	struct bracket calls[(THREADS + 2) * CALLS];
};

struct seen {
	uint64_t told, lost, last[64];
	unsigned early, n; /* n: calls and returns */
	struct {
		uint64_t tsc;
		int32_t tid;
		bool exit;
	} events[2 * (THREADS + 2) * CALLS + 1];
};

static void call(struct done *done)
{
	for (unsigned i = 0; i < CALLS; i++) {
		struct bracket *b = &done->calls[done->n];

		b->tid = syscall(SYS_gettid);
		b->before = ip_tsc();
		syscall(SYS_getppid);
		b->after = ip_tsc();
		done->n++;
	}
}

static void *run_thread(void *context)
{
	call(context);
	return NULL;
}

/* The child: its own calls, those of threads, and of its child. */
static void play(struct done *done, int from)
{
	pthread_t thread;
	char byte;
	pid_t pid;

	(void)!read(from, &byte, 1);
	call(done);
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_create(&thread, NULL, run_thread, done);
		pthread_join(thread, NULL);
	}
	pid = fork();
	if (!pid) {
		call(done);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	(void)!read(from, &byte, 1);
	_exit(0);
}

static const struct bracket *find(const struct done *done, int32_t tid, uint64_t tsc)
{
	for (unsigned i = 0; i < done->n; i++)
		if (done->calls[i].tid == tid && tsc + NEAR >= done->calls[i].before &&
		    tsc <= done->calls[i].after + NEAR)
			return &done->calls[i];
	return NULL;
}

static int on_event(void *context, uint32_t cpu, const uint8_t *event, size_t size)
{
	struct seen *seen = context;
	struct ip_kernel_event_header h;

	memcpy(&h, event, sizeof(h));
	assert_int_equal(size, sizeof(h) + ip_kernel_fields_size(h.id));
	if (cpu >= 64) /* of the beginning */
		return 0;
	seen->early += h.tsc < seen->last[cpu] || h.tsc < seen->told;
	seen->last[cpu] = h.tsc;
	if (h.id != IP_KERNEL_SYSCALL_ENTRY + SYS_getppid &&
	    h.id != IP_KERNEL_SYSCALL_EXIT + SYS_getppid)
		return 0;
	if (seen->n == N_ELEMENTS(seen->events))
		return 0;
	seen->events[seen->n].tsc = h.tsc;
	seen->events[seen->n].tid = h.tid;
	seen->events[seen->n++].exit = h.id == IP_KERNEL_SYSCALL_EXIT + SYS_getppid;
	return 0;
}

/* When all is done: an event may be read before the thread has noted its call. */
static void check_events(const struct seen *seen, const struct done *done)
{
	unsigned exits = 0, outside = 0, strange = 0;

	for (unsigned i = 0; i < seen->n; i++) {
		bool ours = false;

		for (unsigned k = 0; k < done->n && !ours; k++)
			ours = done->calls[k].tid == seen->events[i].tid;
		strange += !ours;
		exits += seen->events[i].exit;
		outside += !find(done, seen->events[i].tid, seen->events[i].tsc);
	}
	print_message("%u events, %u exits, %u outside, %u strange, %u early, %lu lost\n", seen->n,
		      exits, outside, strange, seen->early, seen->lost);
	assert_int_equal(seen->lost, 0);
	assert_int_equal(seen->n, 2 * (THREADS + 2) * CALLS);
	assert_int_equal(exits, (THREADS + 2) * CALLS);
	assert_int_equal(strange, 0);
	assert_int_equal(seen->early, 0);
	assert_int_equal(outside, 0);
}

static int on_lost(void *context, bool all, uint32_t cpu, uint64_t n)
{
	struct seen *seen = context;

	(void)cpu;
	seen->lost += n;
	return 0;
}

static int on_until(void *context, uint64_t tsc)
{
	struct seen *seen = context;

	seen->told = tsc;
	return 0;
}

/* Somebody else makes the same call all the time. */
static pid_t start_other(void)
{
	pid_t pid = fork();

	if (!pid)
		for (;;)
			syscall(SYS_getppid);
	assert_true(pid > 0);
	return pid;
}

static void check_source(enum ip_kernel_source source)
{
	struct done *done = mmap(NULL, sizeof(*done), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	static struct seen seen;
	const struct ip_kernel_sink sink = {
		.event = on_event, .lost = on_lost, .until = on_until, .context = &seen};
	const struct ip_kernel_options options = {
		.groups = 1 << IP_KERNEL_GROUP_SCHED | 1 << IP_KERNEL_GROUP_SYSCALLS |
			  1 << IP_KERNEL_GROUP_IRQ | 1 << IP_KERNEL_GROUP_FAULTS,
		.buffer = BUFFER,
		.source = source,
		.sink = &sink};
	struct ip_kernel_recorder *recorder = NULL;
	struct ip_kernel_stats stats;
	pid_t child, other;
	int to[2];

	assert_true(done != MAP_FAILED);
	seen = (struct seen){0};
	assert_int_equal(pipe(to), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		close(to[1]);
		play(done, to[0]);
	}
	other = start_other();
	assert_int_equal(ip_kernel_recorder_create(&options, -1, &recorder), 0);
	assert_int_equal(ip_kernel_recorder_start(recorder), 0);
	assert_int_equal(ip_kernel_recorder_add(recorder, child), 0);
	assert_int_equal(write(to[1], "x", 1), 1);
	while (__atomic_load_n(&done->n, __ATOMIC_ACQUIRE) < (THREADS + 2) * CALLS)
		usleep(10000);
	assert_int_equal(ip_kernel_recorder_stop(recorder), 0);
	assert_int_equal(ip_kernel_recorder_stats(recorder, &stats), 0);
	assert_string_equal(stats.source, source == IP_KERNEL_SOURCE_PERF ? "perf" : "tracefs");
	ip_kernel_recorder_destroy(recorder);
	kill(other, SIGKILL);
	close(to[1]);
	waitpid(other, NULL, 0);
	waitpid(child, NULL, 0);
	check_events(&seen, done);
	munmap(done, sizeof(*done));
	close(to[0]);
}

static void test_sources(void **state)
{
	struct ip_kernel_check can;
	const char *why;

	(void)state;
	if (ip_clock_select(IP_CLOCK_AUTO, &why) != IP_CLOCK_TSC || ip_kernel_check(~0u, &can) < 0)
		skip();
	if (!can.no_tracefs)
		check_source(IP_KERNEL_SOURCE_TRACEFS);
	if (!can.no_perf)
		check_source(IP_KERNEL_SOURCE_PERF);
	ip_kernel_check_clear(&can);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_sources)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
