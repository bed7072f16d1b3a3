/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is written of events that come by a socket. The reader at its other end is the test's.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "analysis/read/kernel_reader.h"
#include "common/clock.h"
#include "common/trace/kernel_format.h"
#include "common/trace/trace_format.h"
#include "kernel_trace/segments/recorded_segments.h"
#include "kernel_trace/users/event_protocol.h"
#include "kernel_trace/users/worker_recorder.h"
#include "test/unit/test.h"

static char dir[] = "/tmp/iprobe-worker-XXXXXX";
static int trace, kernel;
static pthread_t thread;
static int ends[2];
static struct ip_recorded_segments segments;
static struct ip_worker_recorder *recorder;

/* An event that comes before the next answer but that to a process that joins. */
static struct {
	struct ip_event_message message;
	uint8_t event[256];
	size_t size; /* 0: there is none */
} next;

static void put_next(uint16_t id, uint32_t cpu, const void *fields)
{
	const struct ip_kernel_event_header header = {
		.id = id, .tsc = ip_clock_now(), .tid = getpid()};
	const int size = ip_kernel_fields_size(id);

	assert_in_range(size, 1, sizeof(next.event) - sizeof(header));
	next.message = (struct ip_event_message){.word = IP_EVENT_EVENTS, .cpu = cpu};
	memcpy(next.event, &header, sizeof(header));
	memcpy(next.event + sizeof(header), fields, size);
	next.size = sizeof(header) + size;
}

static void tell(uint32_t word, uint64_t size)
{
	const struct ip_event_message m = {.word = word, .size = size};

	(void)!send(ends[1], &m, sizeof(m), MSG_NOSIGNAL);
}

static void *read_for_it(void *context)
{
	struct ip_event_message m;

	while (recv(ends[1], &m, sizeof(m), 0) == sizeof(m)) {
		if (m.word != IP_EVENT_ADD && next.size) {
			(void)!send(ends[1], &next, offsetof(__typeof__(next), event) + next.size,
				    MSG_NOSIGNAL);
			next.size = 0;
		}
		if (m.word == IP_EVENT_FLUSH)
			tell(IP_EVENT_UNTIL, ip_clock_now());
		tell(IP_EVENT_DONE, 0);
	}
	return NULL;
}

static int set_up(void **state)
{
	static const uint8_t uuid[16];
	struct ip_kernel_options options = {.groups = 1 << IP_KERNEL_GROUP_SYSCALLS,
					    .buffer = 64u << 10};
	char path[64];

	memcpy(dir + sizeof(dir) - 7, "XXXXXX", 6);
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/iprobe", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/" IP_KERNEL_SUBDIR, dir);
	assert_int_equal(mkdir(path, 0700), 0);
	trace = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	kernel = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(trace >= 0 && kernel >= 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(pthread_create(&thread, NULL, read_for_it, NULL), 0);
	options.reader = ends[0];
	assert_int_equal(ip_recorded_segments_init(&segments, &options), 0);
	assert_int_equal(
		ip_worker_recorder_create(&options, trace, kernel, uuid, &segments, &recorder), 0);
	assert_int_equal(ip_worker_recorder_start(recorder), 0);
	return 0;
}

static int tear_down(void **state)
{
	char command[64];

	ip_worker_recorder_destroy(recorder);
	ip_recorded_segments_clear(&segments);
	close(ends[0]);
	pthread_join(thread, NULL);
	close(ends[1]);
	close(trace);
	close(kernel);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command);
}

/* What the reader has read when the process joined comes when this process has read it, too. */
static void test_states_that_come_late(void **state)
{
	struct {
		int32_t tid, pid, ppid;
		char name[16];
		int32_t type, mode, submode, status;
	} __attribute__((packed)) fields = {.tid = getpid(), .pid = getpid(), .name = "told"};
	struct ip_kernel_reader *reader;
	struct ip_kernel_record record;
	unsigned told = 0, own = 0;

	put_next(IP_KERNEL_PROCESS_STATE, IP_KERNEL_CPUS_MAX, &fields);
	assert_int_equal(ip_worker_recorder_add(recorder, getpid()), 0);
	assert_int_equal(ip_worker_recorder_stop(recorder), 0);

	assert_int_equal(ip_kernel_reader_open(dir, &reader), 1);
	while (ip_kernel_reader_next(reader, &record) == 1)
		if (record.id == IP_KERNEL_PROCESS_STATE) {
			const bool is_told = !memcmp(record.fields + 12, "told", 5);

			assert_true(!is_told || !own); /* in the order of time */
			told += is_told;
			own += !is_told;
		}
	assert_null(*ip_kernel_reader_damage(reader));
	ip_kernel_reader_close(reader);
	assert_int_equal(told, 1);
	assert_true(own > 0);
}

static bool has_descriptor(int fd, const char *name)
{
	char path[64], line[512], number[32];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "%s/" IP_TRACE_DESCRIPTORS, dir);
	snprintf(number, sizeof(number), "\t%d\t%d\t", getpid(), fd);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		found |= strstr(line, number) && strstr(line, name);
	fclose(file);
	return found;
}

/* What a thread has opened before is named when all has been written up to now. */
static void test_the_name_of_what_was_just_opened(void **state)
{
	int64_t result;

	assert_int_equal(ip_worker_recorder_add(recorder, getpid()), 0);
	result = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	assert_true(result >= 0);
	put_next(IP_KERNEL_SYSCALL_EXIT + SYS_openat, 0, &result);
	assert_false(has_descriptor(result, "status"));
	assert_int_equal(ip_worker_recorder_write_out(recorder), 0);
	assert_true(has_descriptor(result, "status"));
	close(result);
	assert_int_equal(ip_worker_recorder_stop(recorder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_states_that_come_late, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_the_name_of_what_was_just_opened, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
