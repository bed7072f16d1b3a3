/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who had a CPU while another thread waited for it, from switches that the tests write.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/wait/cpu_users.h"
#include "common/error.h"
#include "test/unit/analysis/wait/kernel_writer.h"
#include "test/unit/test.h"

struct told {
	char text[256];
	int most; /* fails behind so many */
};

static int tell(void *context, const struct ip_thread_states *thread, uint64_t ticks)
{
	struct told *told = context;
	const size_t n = strlen(told->text);

	snprintf(told->text + n, sizeof(told->text) - n, "%d:%lu ", thread ? thread->tid : 0,
		 ticks);
	return told->most-- > 0 ? 0 : -7;
}

static void had(const struct ip_cpu_users *users, uint32_t cpu, uint64_t from, uint64_t to,
		const char *text)
{
	struct told told = {.most = 100};

	assert_int_equal(ip_cpu_users_visit(users, cpu, from, to, tell, &told), 0);
	assert_string_equal(told.text, text);
}

/* CPU 0: 70 from 100, 71 from 200, nobody from 300, 72 from 400. CPU 1: 73 from 150 to 350. */
static struct ip_states *two_cpus(struct writer *w)
{
	switch_to(w, 100, 0, 0, 70);
	switch_to(w, 200, 70, 0, 71);
	switch_to(w, 300, 71, 1, 0);
	switch_to(w, 400, 0, 0, 72);
	switch_to(w, 500, 72, 1, 0);
	flush(w, "all", 0);
	switch_to(w, 150, 0, 0, 73);
	switch_to(w, 350, 73, 1, 0);
	switch_to(w, 500, 0, 0, 74);
	flush(w, "all", 1);
	return states_of(w);
}

static void test_who_had_it(void **state)
{
	struct ip_states *states = two_cpus(*state);
	struct ip_cpu_users users;

	assert_int_equal(ip_cpu_users_make(states, &users), 0);
	had(&users, 0, 100, 200, "70:100 ");
	had(&users, 0, 120, 190, "70:70 ");
	had(&users, 0, 150, 450, "70:50 71:100 0:100 72:50 ");
	had(&users, 0, 300, 400, "0:100 ");
	had(&users, 0, 350, 350, "");
	had(&users, 1, 100, 400, "0:50 73:200 0:50 ");
	had(&users, 7, 100, 400, "0:300 ");
	ip_cpu_users_clear(&users);
	ip_states_destroy(states);
}

static int32_t most(const struct ip_cpu_users *users, uint64_t from, uint64_t to, bool *any)
{
	const struct ip_thread_states *thread = ip_cpu_users_most(users, 0, from, to, any);

	return thread ? thread->tid : 0;
}

/* That nobody had it counts as much as a thread. */
static void test_who_had_most(void **state)
{
	struct ip_states *states = two_cpus(*state);
	struct ip_cpu_users users;
	bool any;

	assert_int_equal(ip_cpu_users_make(states, &users), 0);
	assert_int_equal(most(&users, 150, 290, &any), 71);
	assert_int_equal(most(&users, 290, 400, &any), 0);
	assert_true(any);
	assert_int_equal(most(&users, 310, 390, &any), 0);
	assert_false(any);
	assert_int_equal(most(&users, 390, 450, &any), 72);
	ip_cpu_users_clear(&users);
	ip_states_destroy(states);
}

/* Where it waits is where the CPU was taken away, or where it was woken. */
static void test_where_a_thread_waits(void **state)
{
	struct writer *w = *state;
	struct ip_states *states;
	const struct ip_thread_states *t;

	switch_to(w, 100, 0, 0, 70);
	switch_to(w, 200, 70, 256, 71);
	wake(w, IP_KERNEL_SCHED_WAKING, 250, 71, 72, 0);
	wake(w, IP_KERNEL_SCHED_WAKEUP, 251, 71, 72, 0);
	flush(w, "all", 1);
	states = states_of(w);
	t = ip_states_find(states, 70, 220);
	assert_non_null(t);
	assert_int_equal(t->spans[t->nspans - 1].state, IP_THREAD_RUNNABLE);
	assert_int_equal(t->spans[t->nspans - 1].cpu, 1);
	t = ip_states_find(states, 72, 260);
	assert_non_null(t);
	assert_int_equal(t->spans[t->nspans - 1].state, IP_THREAD_RUNNABLE);
	assert_int_equal(t->spans[t->nspans - 1].cpu, 0); /* wake() says so */
	ip_states_destroy(states);
}

static void test_the_visitor_fails(void **state)
{
	struct ip_states *states = two_cpus(*state);
	struct told told = {.most = 1};
	struct ip_cpu_users users;

	assert_int_equal(ip_cpu_users_make(states, &users), 0);
	assert_int_equal(ip_cpu_users_visit(&users, 0, 150, 450, tell, &told), -7);
	assert_string_equal(told.text, "70:50 71:100 ");
	ip_cpu_users_clear(&users);
	ip_states_destroy(states);
}

static void test_nothing_is_known(void **state)
{
	struct ip_states states = {0};
	struct ip_cpu_users users;

	assert_int_equal(ip_cpu_users_make(&states, &users), 0);
	had(&users, 0, 100, 300, "0:200 ");
	ip_cpu_users_clear(&users);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_who_had_it, setup, teardown),
		cmocka_unit_test_setup_teardown(test_who_had_most, setup, teardown),
		cmocka_unit_test_setup_teardown(test_where_a_thread_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_visitor_fails, setup, teardown),
		cmocka_unit_test(test_nothing_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
