/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the collector sleeps: never so long that the rings could overflow meanwhile.
 */
#include "collector/poll_interval.h"
#include "common/abi/ring.h"
#include "test/unit/test.h"

#define TOTAL	2048u
#define LONG	IP_POLL_INTERVAL_MAX_NS
#define FASTEST 800ull /* bytes a microsecond that a thread may write */

static void test_idle_grows_to_the_limit(void **state)
{
	struct ip_poll_interval p = {.cpus = 2};
	uint64_t now = 1000000000, nap = 0, before = 0;

	for (int i = 0; i < 20; i++) {
		nap = ip_poll_interval_nap(&p, now, 0, TOTAL, TOTAL, 1, LONG);
		assert_true(nap >= before && nap <= LONG);
		before = nap;
		now += nap;
	}
	assert_int_equal(nap, LONG);
	/* somebody who looks after more than the rings says less */
	assert_int_equal(ip_poll_interval_nap(&p, now, 0, TOTAL, TOTAL, 1, 1000000), 1000000);
	ip_poll_interval_hurry(&p);
	assert_true(ip_poll_interval_nap(&p, now, 0, TOTAL, TOTAL, 1, LONG) <=
		    IP_POLL_INTERVAL_MIN_NS);
}

static void test_what_is_free_lasts(void **state)
{
	for (unsigned cpus = 1; cpus <= 128; cpus *= 2)
		for (unsigned writers = 0; writers < 200; writers += 13)
			for (unsigned free = 1; free <= TOTAL; free = 2 * free + 1) {
				struct ip_poll_interval p = {.cpus = cpus, .nap_ns = 1000000000};
				uint64_t nap = ip_poll_interval_nap(&p, 1000000000, 0, free, TOTAL,
								    writers, LONG);
				uint64_t threads = writers < cpus ? writers : cpus;

				assert_true(nap <= LONG);
				assert_true(nap == IP_POLL_INTERVAL_MIN_NS ||
					    nap * threads * FASTEST / 1000 <=
						    (uint64_t)free * IP_SUBBUF_SIZE / 2);
			}
}

/* The faster they fill, the shorter; while little is free, not at all. */
static void test_follows_the_rate(void **state)
{
	struct ip_poll_interval p = {.cpus = 2};
	uint64_t now = 1000000000, slow, fast;

	ip_poll_interval_nap(&p, now, 0, TOTAL, TOTAL, 1, LONG);
	slow = ip_poll_interval_nap(&p, now += 1000000, 4, TOTAL - 4, TOTAL, 1, LONG);
	fast = ip_poll_interval_nap(&p, now += 1000000, 40, TOTAL - 40, TOTAL, 1, LONG);
	assert_true(IP_POLL_INTERVAL_MIN_NS < fast && fast < slow);
	assert_int_equal(
		ip_poll_interval_nap(&p, now += 1000000, 40, TOTAL / 4 - 1, TOTAL, 1, LONG), 0);
	/* it cannot be emptied further: then spinning would not help, and looking all the time
	 * neither */
	for (unsigned i = 0; i < 100; i++)
		assert_true(ip_poll_interval_nap(&p, now += 1000000, 0, 0, TOTAL, 1, LONG) > 0);
	assert_int_equal(ip_poll_interval_nap(&p, now += 1000000, 0, 0, TOTAL, 1, LONG),
			 IP_POLL_INTERVAL_IDLE_NS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_idle_grows_to_the_limit),
		cmocka_unit_test(test_what_is_free_lasts),
		cmocka_unit_test(test_follows_the_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
