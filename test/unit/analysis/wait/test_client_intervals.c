/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For whom threads worked, from system calls that the tests write: one rule of client_intervals.h
 * after the other.
 */
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "analysis/wait/clients/client_intervals.h"
#include "analysis/wait/clients/client_sums.h"
#include "common/error.h"
#include "test/unit/analysis/wait/kernel_writer.h"
#include "test/unit/test.h"

#define LISTENING "1\t7\t3\tsocket\ttcp 0.0.0.0:80\n"
#define FIRST	  "1\t7\t4\tsocket\ttcp 10.0.0.1:80 - 10.0.0.9:4711\n"
#define SECOND	  "1\t7\t5\tsocket\ttcp 10.0.0.1:80 - 10.0.0.9:4712\n"
#define PIPE	  "1\t7\t6\tpipe\tpipe:[12]\n"
#define BACKEND	  "1\t7\t8\tsocket\ttcp 10.0.0.1:3333 - 10.0.0.2:5432\n"
#define OTHER_END "1\t9\t8\tsocket\ttcp 10.0.0.2:5432 - 10.0.0.1:3333\n"

struct work {
	struct ip_descriptors descriptors;
	struct ip_states *states;
	struct ip_client_connections connections;
	struct ip_client_intervals intervals;
	char text[1024];
};

/* Threads 70 to 79 are of process 7, 90 to 99 of process 9. Its first thread is 9. */
static uint32_t process_of(const void *context, int32_t tid, uint64_t tsc)
{
	return tid >= 70 && tid < 80 ? 7 : tid == 9 || (tid >= 90 && tid < 100) ? 9 : 0;
}

static void read_work(struct writer *w, const char *descriptors, struct work *ret)
{
	struct ip_kernel_reader *reader;

	memset(ret, 0, sizeof(*ret));
	snprintf(ret->text, sizeof(ret->text), "%s", descriptors);
	assert_int_equal(ip_descriptors_parse(ret->text, &ret->descriptors), 0);
	ret->states = states_of(w);
	assert_int_equal(ip_kernel_reader_open(w->path, &reader), 1);
	ip_client_connections_init(&ret->connections, &ret->descriptors, process_of, NULL);
	assert_int_equal(
		ip_client_intervals_read(reader, ret->states, &ret->connections, &ret->intervals),
		0);
	ip_kernel_reader_close(reader);
}

static void clear_work(struct work *x)
{
	ip_client_intervals_clear(&x->intervals);
	ip_client_connections_clear(&x->connections);
	ip_states_destroy(x->states);
	ip_descriptors_clear(&x->descriptors);
}

/* The i-th interval is that one. client: NULL: one whose name is not known. */
static void is(const struct work *x, size_t i, int32_t tid, uint64_t from, uint64_t to,
	       const char *client, uint32_t begins, bool asks)
{
	const struct ip_client_interval *interval = &x->intervals.items[i];
	const char *name;

	assert_true(i < x->intervals.n);
	name = x->connections.clients[interval->client];
	assert_int_equal(interval->tid, tid);
	assert_int_equal(interval->from, from);
	assert_int_equal(interval->to, to);
	if (client) {
		assert_non_null(name);
		assert_string_equal(name, client);
	} else {
		assert_null(name);
	}
	assert_int_equal(interval->begins, begins);
	assert_int_equal(interval->asks, asks);
}

#define FIRST_NAME  "tcp 10.0.0.1:80 - 10.0.0.9:4711"
#define SECOND_NAME "tcp 10.0.0.1:80 - 10.0.0.9:4712"

static void test_from_a_request_to_the_next_poll(void **state)
{
	struct writer *w = *state;
	struct work x;

	switch_to(w, 100, 0, 0, 70);
	call(w, 110, 70, SYS_epoll_wait, 2);
	ret(w, 120, 70, SYS_epoll_wait, 1);
	call(w, 121, 70, SYS_read, 4);
	ret(w, 125, 70, SYS_read, 100);
	call(w, 150, 70, SYS_write, 4);
	ret(w, 155, 70, SYS_write, 9);
	/* there is no more: the work goes on */
	call(w, 160, 70, SYS_read, 4);
	ret(w, 161, 70, SYS_read, -11);
	call(w, 170, 70, SYS_epoll_wait, 2);
	ret(w, 190, 70, SYS_epoll_wait, 1);
	call(w, 191, 70, SYS_read, 5);
	ret(w, 192, 70, SYS_read, 3);
	flush(w, "all", 0);
	read_work(w, LISTENING FIRST SECOND, &x);
	assert_int_equal(x.intervals.n, 5);
	is(&x, 0, 70, 121, 125, FIRST_NAME, true, true);
	is(&x, 1, 70, 125, 160, FIRST_NAME, false, false);
	is(&x, 2, 70, 160, 161, FIRST_NAME, false, true);
	is(&x, 3, 70, 161, 170, FIRST_NAME, false, false);
	is(&x, 4, 70, 191, 192, SECOND_NAME, true, true);
	clear_work(&x);
}

/* A thread for each connection: it is blocked in the call that reads the next request. */
static void test_blocked_while_it_reads(void **state)
{
	struct writer *w = *state;
	struct work x;

	switch_to(w, 100, 0, 0, 70);
	call(w, 121, 70, SYS_recvfrom, 4);
	ret(w, 125, 70, SYS_recvfrom, 100);
	call(w, 140, 70, SYS_sendto, 4);
	ret(w, 145, 70, SYS_sendto, 4);
	call(w, 150, 70, SYS_recvfrom, 4);
	switch_to(w, 151, 70, 1, 0);
	wake(w, IP_KERNEL_SCHED_WAKING, 180, 0, 70, 2);
	wake(w, IP_KERNEL_SCHED_WAKEUP, 181, 0, 70, 2);
	switch_to(w, 182, 0, 0, 70);
	ret(w, 183, 70, SYS_recvfrom, 100);
	call(w, 190, 70, SYS_close, 4);
	ret(w, 195, 70, SYS_close, 0);
	call(w, 199, 70, SYS_getpid, 0);
	flush(w, "all", 0);
	read_work(w, LISTENING FIRST, &x);
	assert_int_equal(x.intervals.n, 4);
	is(&x, 1, 70, 125, 150, FIRST_NAME, false, false);
	is(&x, 2, 70, 150, 183, FIRST_NAME, true, true); /* another request */
	is(&x, 3, 70, 183, 195, FIRST_NAME, false, false);
	clear_work(&x);
}

/* Another thread has read the request. */
static void test_who_answers_has_worked(void **state)
{
	struct writer *w = *state;
	struct work x;

	switch_to(w, 100, 0, 0, 71);
	futex(w, 110, 71, 0x1000, FUTEX_WAIT_BITSET, 0);
	ret(w, 120, 71, SYS_futex, 0);
	futex(w, 130, 71, 0x2000, FUTEX_WAIT_BITSET, 2); /* for a lock */
	ret(w, 140, 71, SYS_futex, 0);
	call(w, 150, 71, SYS_write, 4);
	ret(w, 160, 71, SYS_write, 9);
	call(w, 162, 71, SYS_write, 4); /* the rest of the answer */
	ret(w, 165, 71, SYS_write, 9);
	call(w, 170, 71, SYS_read, 6);
	ret(w, 175, 71, SYS_read, 1);
	call(w, 180, 71, SYS_poll, 0);
	flush(w, "all", 0);
	read_work(w, LISTENING FIRST PIPE, &x);
	assert_int_equal(x.intervals.n, 2);
	is(&x, 0, 71, 120, 160, FIRST_NAME, true, false);
	is(&x, 1, 71, 160, 165, FIRST_NAME, false, false);
	clear_work(&x);
}

/* Connections that were accepted, and closed before they had a name. */
static void test_connections_without_names(void **state)
{
	struct writer *w = *state;
	struct work x;

	switch_to(w, 100, 0, 0, 70);
	call(w, 110, 70, SYS_accept4, 3);
	ret(w, 120, 70, SYS_accept4, 12);
	call(w, 121, 70, SYS_read, 12);
	ret(w, 125, 70, SYS_read, 100);
	call(w, 130, 70, SYS_close, 12);
	ret(w, 131, 70, SYS_close, 0);
	/* the number is a file's now */
	call(w, 140, 70, SYS_read, 12);
	ret(w, 145, 70, SYS_read, 100);
	flush(w, "all", 0);
	read_work(w, "", &x);
	assert_int_equal(x.intervals.n, 2);
	is(&x, 0, 70, 121, 125, NULL, true, true);
	is(&x, 1, 70, 125, 131, NULL, false, false);
	clear_work(&x);
}

/* A request goes on to another process, which waits for connections itself. */
static void test_from_process_to_process(void **state)
{
	struct writer *w = *state;
	struct work x;

	switch_to(w, 100, 0, 0, 70);
	call(w, 121, 70, SYS_read, 4);
	ret(w, 125, 70, SYS_read, 100);
	call(w, 130, 70, SYS_sendto, 8);
	ret(w, 131, 70, SYS_sendto, 10);
	call(w, 140, 90, SYS_read, 8);
	ret(w, 145, 90, SYS_read, 100);
	call(w, 150, 90, SYS_poll, 0);
	ret(w, 155, 90, SYS_poll, 1);
	call(w, 160, 70, SYS_poll, 0);
	ret(w, 165, 70, SYS_poll, 1);
	/* for nobody */
	call(w, 170, 70, SYS_sendto, 8);
	ret(w, 171, 70, SYS_sendto, 10);
	call(w, 180, 90, SYS_read, 8);
	ret(w, 185, 90, SYS_read, 100);
	call(w, 190, 90, SYS_poll, 0);
	flush(w, "all", 0);
	read_work(w, LISTENING FIRST BACKEND OTHER_END "1\t9\t9\tsocket\ttcp 10.0.0.2:5432\n", &x);
	assert_int_equal(x.intervals.n, 6);
	is(&x, 1, 70, 125, 160, FIRST_NAME, false, false);
	is(&x, 2, 90, 140, 145, FIRST_NAME, false, true); /* the same request */
	is(&x, 3, 90, 145, 150, FIRST_NAME, false, false);
	is(&x, 4, 90, 180, 185, "tcp 10.0.0.2:5432 - 10.0.0.1:3333", true, true);
	clear_work(&x);
}

/* After a loss nobody is known to work for anybody. */
static void test_lost_calls(void **state)
{
	struct writer *w = *state;
	struct work x;

	call(w, 121, 70, SYS_read, 4);
	ret(w, 125, 70, SYS_read, 100);
	flush(w, "target", 0);
	w->lost = 4;
	call(w, 200, 70, SYS_getpid, 0);
	ret(w, 201, 70, SYS_getpid, 7);
	flush(w, "target", 0);
	w->packets[0] = w->lost = 0;
	switch_to(w, 99, 0, 0, 70);
	switch_to(w, 300, 70, 1, 0);
	flush(w, "all", 0);
	read_work(w, LISTENING FIRST, &x);
	assert_int_equal(x.intervals.n, 1);
	is(&x, 0, 70, 121, 125, FIRST_NAME, true, true);
	clear_work(&x);
}

static void test_names_of_clients(void **state)
{
	static const struct {
		const char *connection, *host, *port;
	} names[] = {
		{FIRST_NAME, "10.0.0.9", "10.0.0.9:4711"},
		{"tcp [::1]:80 - [fe80::1]:99", "[fe80::1]", "[fe80::1]:99"},
		{"socket:[17]", "socket:[17]", "socket:[17]"},
		{"tcp a - ", "tcp a - ", "tcp a - "},
		{" - :", " - :", ":"},
	};
	char name[64], tiny[4];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		ip_client_name(names[i].connection, false, name, sizeof(name));
		assert_string_equal(name, names[i].host);
		ip_client_name(names[i].connection, true, name, sizeof(name));
		assert_string_equal(name, names[i].port);
	}
	ip_client_name(FIRST_NAME, true, tiny, sizeof(tiny));
	assert_string_equal(tiny, "10.");
}

static void fork_child(struct writer *w, uint64_t tsc, int32_t parent, int32_t child)
{
	const struct {
		char parent[16];
		int32_t parent_tid;
		char child[16];
		int32_t child_tid;
	} fields = {"server", parent, "server", child};

	put(w, IP_KERNEL_SCHED_FORK, tsc, parent, 0, &fields, sizeof(fields));
}

/* What a forked child has is what its parent has accepted, and not what that has closed before. No
 * connection has a name: each of them is one still. */
static void test_forked_children(void **state)
{
	struct writer *w = *state;
	struct work x;

	switch_to(w, 100, 0, 0, 70);
	call(w, 105, 70, SYS_accept4, 3);
	ret(w, 106, 70, SYS_accept4, 4);
	call(w, 107, 70, SYS_accept4, 3);
	ret(w, 108, 70, SYS_accept4, 5);
	call(w, 109, 70, SYS_close, 5);
	fork_child(w, 110, 70, 9);
	call(w, 111, 70, SYS_close, 4);
	ret(w, 112, 70, SYS_close, 0);
	call(w, 113, 70, SYS_read, 4); /* it is no client's any more */
	ret(w, 114, 70, SYS_read, 8);
	switch_to(w, 115, 70, 0, 9);
	call(w, 120, 9, SYS_read, 4);
	ret(w, 125, 9, SYS_read, 8);
	call(w, 130, 9, SYS_read, 5);
	ret(w, 131, 9, SYS_read, 8);
	call(w, 140, 9, SYS_close, 4);
	ret(w, 145, 9, SYS_close, 0);
	call(w, 150, 9, SYS_getpid, 0);
	/* a thread is no process: it has no connections of its own to inherit */
	fork_child(w, 151, 9, 90);
	call(w, 160, 70, SYS_accept4, 3);
	ret(w, 161, 70, SYS_accept4, 4);
	fork_child(w, 162, 70, 9); /* the pid again */
	call(w, 170, 9, SYS_read, 4);
	ret(w, 175, 9, SYS_read, 8);
	call(w, 199, 9, SYS_getpid, 0);
	flush(w, "all", 0);
	read_work(w, "1\t7\t9\tfile\t/x\n", &x);
	assert_int_equal(x.intervals.n, 4);
	is(&x, 0, 9, 120, 125, NULL, 1, true);
	is(&x, 1, 9, 125, 145, NULL, 0, false);
	is(&x, 2, 9, 170, 175, NULL, 1, true);
	assert_int_not_equal(x.intervals.items[0].client, x.intervals.items[2].client);
	clear_work(&x);
}

#define SERVICE "1\t7\t4\tsocket\tudp 0.0.0.0:53\n"
#define ASKING	"1\t7\t5\tsocket\tudp 0.0.0.0:40000\n"

/* A socket that receives first is a client, one that sends first asks others; each datagram is a
 * request. */
static void test_datagrams(void **state)
{
	struct writer *w = *state;
	struct work x;

	switch_to(w, 100, 0, 0, 70);
	call(w, 110, 70, SYS_poll, 0);
	ret(w, 111, 70, SYS_poll, 1);
	call(w, 112, 70, SYS_recvmsg, 4);
	ret(w, 113, 70, SYS_recvmsg, 30);
	call(w, 115, 70, SYS_sendto, 5);
	ret(w, 116, 70, SYS_sendto, 30);
	call(w, 120, 70, SYS_poll, 0);
	ret(w, 130, 70, SYS_poll, 1);
	call(w, 131, 70, SYS_recvfrom, 5); /* the answer of the other server */
	ret(w, 132, 70, SYS_recvfrom, 60);
	call(w, 140, 70, SYS_sendto, 4); /* is passed on */
	ret(w, 141, 70, SYS_sendto, 60);
	call(w, 142, 70, SYS_poll, 0);
	ret(w, 150, 70, SYS_poll, 1);
	call(w, 151, 70, SYS_recvmmsg, 4);
	ret(w, 152, 70, SYS_recvmmsg, 3);
	call(w, 160, 70, SYS_recvmsg, 4); /* there is no more */
	ret(w, 161, 70, SYS_recvmsg, -11);
	call(w, 170, 70, SYS_poll, 0);
	flush(w, "all", 0);
	read_work(w, SERVICE ASKING, &x);
	assert_int_equal(x.connections.nclients, 1);
	assert_int_equal(x.intervals.n, 7);
	is(&x, 0, 70, 112, 113, "udp 0.0.0.0:53", 1, true);
	is(&x, 1, 70, 113, 120, "udp 0.0.0.0:53", 0, false);
	is(&x, 2, 70, 130, 141, "udp 0.0.0.0:53", 0, false);
	is(&x, 3, 70, 151, 152, "udp 0.0.0.0:53", 3, true);
	is(&x, 4, 70, 152, 160, "udp 0.0.0.0:53", 0, false);
	is(&x, 6, 70, 161, 170, "udp 0.0.0.0:53", 0, false);
	clear_work(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_from_a_request_to_the_next_poll, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_blocked_while_it_reads, setup, teardown),
		cmocka_unit_test_setup_teardown(test_who_answers_has_worked, setup, teardown),
		cmocka_unit_test_setup_teardown(test_connections_without_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_from_process_to_process, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lost_calls, setup, teardown),
		cmocka_unit_test_setup_teardown(test_forked_children, setup, teardown),
		cmocka_unit_test_setup_teardown(test_datagrams, setup, teardown),
		cmocka_unit_test(test_names_of_clients),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
