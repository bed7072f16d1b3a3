/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the wait in an open(2) was for: what it has opened, a FIFO by whom it was woken, else a
 * file.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "analysis/wait/descriptors/descriptors.h"
#include "analysis/wait/thread_states.h"
#include "analysis/wait/wait_object.h"
#include "common/trace/kernel_format.h"
#include "test/unit/test.h"

static struct ip_descriptors descriptors;

static int setup(void **state)
{
	/* TSC, pid, descriptor, kind, text */
	*state = strdup("100\t7\t3\tpipe\t/run/ends\n200\t7\t4\tfile\t/data/x\n");
	return ip_descriptors_parse(*state, &descriptors);
}

static int teardown(void **state)
{
	ip_descriptors_clear(&descriptors);
	free(*state);
	return 0;
}

static struct ip_wait_object object_of(struct ip_thread_wait wait)
{
	struct ip_wait_object o;

	wait.kind = 'S';
	wait.next_fd = -1;
	ip_wait_object_of(&wait, &descriptors, 7, 0, &o);
	return o;
}

static struct ip_thread_wait opening(uint64_t end, int64_t result)
{
	return (struct ip_thread_wait){.call = {.begin = 10, .number = SYS_openat},
				       .returned = end,
				       .end = end,
				       .result = result};
}

static void test_named(void **state)
{
	struct ip_wait_object o = object_of(opening(100, 3));

	assert_int_equal(o.kind, IP_WAIT_PIPE);
	assert_string_equal(o.text, "/run/ends");
	o = object_of(opening(200, 4));
	assert_int_equal(o.kind, IP_WAIT_FILE);
	assert_string_equal(o.text, "/data/x");
	/* the number was another file's before */
	o = object_of(opening(50, 4));
	assert_int_equal(o.kind, IP_WAIT_FILE);
	assert_null(o.text);
	assert_int_equal(o.fd, -1);
}

static void test_unnamed(void **state)
{
	struct ip_thread_wait wait = opening(100, 9);

	assert_int_equal(object_of(wait).kind, IP_WAIT_FILE);
	/* the other end */
	wait.waking.tsc = 90;
	wait.waking.waker = 8;
	wait.waking.opens = true;
	assert_int_equal(object_of(wait).kind, IP_WAIT_PIPE);
	/* a server of FUSE that has answered, a disk */
	wait.waking.opens = false;
	assert_int_equal(object_of(wait).kind, IP_WAIT_FILE);
	wait.waking.opens = true;
	wait.waking.context = IP_KERNEL_IN_HARDIRQ;
	assert_int_equal(object_of(wait).kind, IP_WAIT_FILE);
	assert_int_equal(object_of(opening(0, 0)).kind, IP_WAIT_FILE);
	assert_int_equal(object_of(opening(100, -EINTR)).kind, IP_WAIT_FILE);
}

static uint32_t pid_of(const void *context, int32_t tid, uint64_t tsc)
{
	return 7;
}

/* What has no descriptor is named by its path. */
static void test_paths(void **state)
{
	const struct ip_thread_owners owners = {.pid_of = pid_of};
	char text[] = "95\t8\t87\tpath\t0 10 /slow/x\n"
		      "195\t8\t257\tpath\t1 20 /slow/none\n";
	struct ip_thread_wait wait = {
		.call = {.begin = 10, .number = SYS_unlink, .arguments = {0x10}},
		.kind = 'D',
		.next_fd = -1,
		.returned = true,
		.end = 100};
	struct ip_descriptors told = {0};
	struct ip_wait_object o;

	assert_int_equal(ip_descriptors_parse(text, &told), 0);
	ip_wait_object_of_thread(&wait, &told, &owners, 8, 20, &o);
	assert_int_equal(o.kind, IP_WAIT_FILE);
	assert_string_equal(o.text, "/slow/x");
	ip_wait_object_of(&wait, &told, 7, 8, &o);
	assert_string_equal(o.text, "/slow/x");
	ip_wait_object_of(&wait, &told, 7, 9, &o);
	assert_null(o.text);
	ip_wait_object_of(&wait, &told, 7, 0, &o);
	assert_null(o.text);
	wait.call.arguments[0] = 0x11;
	ip_wait_object_of_thread(&wait, &told, &owners, 8, 20, &o);
	assert_null(o.text);
	wait.call = (struct ip_thread_call){
		.begin = 110, .number = SYS_openat, .arguments = {-100, 0x20}};
	wait.end = 200;
	wait.result = -ENOENT;
	ip_wait_object_of_thread(&wait, &told, &owners, 8, 120, &o);
	assert_string_equal(o.text, "/slow/none");
	/* one that succeeds has none: this is the next one's */
	wait.result = 5;
	ip_wait_object_of_thread(&wait, &told, &owners, 8, 120, &o);
	assert_null(o.text);
	wait.result = -ENOENT;
	wait.returned = false;
	ip_wait_object_of_thread(&wait, &told, &owners, 8, 120, &o);
	assert_null(o.text);
	ip_descriptors_clear(&told);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_named, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unnamed, setup, teardown),
		cmocka_unit_test(test_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
