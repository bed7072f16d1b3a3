/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often coarse time is refreshed: fast while a CPU idles, a bounded share of one where none
 * does, seldom while nobody looks.
 */
#include "collector/coarse_interval.h"
#include "test/unit/test.h"

#define COST 3000u /* ns of a refresh */

/* So long, with that load and stamps taken or not; what it sleeps at the end. taken_ns: what all
 * refreshes took. */
static uint64_t go_on(struct ip_coarse_interval *p, uint64_t *cpu_ns, uint64_t ns, bool taken,
		      unsigned runnable)
{
	uint64_t nap = 0;

	for (uint64_t at = 0; at < ns; at += nap + COST) {
		nap = ip_coarse_interval_nap(p);
		assert_in_range(nap, IP_COARSE_CLOCK_SHORT_NS, IP_COARSE_CLOCK_MODEST_NS);
		*cpu_ns += COST;
		if (ip_coarse_interval_is_time(p))
			ip_coarse_interval_note(p, taken, runnable, *cpu_ns);
	}
	return nap;
}

static void test_a_cpu_is_to_spare(void **state)
{
	struct ip_coarse_interval p;
	uint64_t cpu = 0;

	(void)state;
	ip_coarse_interval_begin(&p, 4);
	/* three threads of others, and we */
	assert_int_equal(go_on(&p, &cpu, 100000000, true, 4), IP_COARSE_CLOCK_SHORT_NS);
	/* a refresh that takes long: a quarter of the CPU */
	for (int i = 0; i < 100; i++) {
		ip_coarse_interval_nap(&p);
		ip_coarse_interval_note(&p, true, 4, cpu += 20000);
	}
	assert_in_range(ip_coarse_interval_nap(&p), 3 * 19000, 3 * 20000);
	ip_coarse_interval_begin(&p, 4);
	cpu = 0;
	/* how many there are is not known */
	assert_int_equal(go_on(&p, &cpu, 100000000, true, 0), IP_COARSE_CLOCK_SHORT_NS);
}

static void test_no_cpu_is_to_spare(void **state)
{
	(void)state;
	for (unsigned cpus = 1; cpus <= 256; cpus *= 2) {
		struct ip_coarse_interval p;
		uint64_t cpu = 0, before;

		ip_coarse_interval_begin(&p, cpus);
		go_on(&p, &cpu, 100000000, true, cpus + 1); /* it is learnt by then */
		before = cpu;
		go_on(&p, &cpu, 1000000000, true, cpus + 1);
		assert_in_range(cpu - before, 1000000, 1000000000 / IP_COARSE_CLOCK_SHARE);
		/* and unlearnt */
		assert_int_equal(go_on(&p, &cpu, 100000000, true, cpus), IP_COARSE_CLOCK_SHORT_NS);
	}
}

static void test_nobody_takes_stamps(void **state)
{
	struct ip_coarse_interval p;
	uint64_t cpu = 0, before;

	(void)state;
	ip_coarse_interval_begin(&p, 2);
	assert_int_equal(go_on(&p, &cpu, 20000000, false, 1), IP_COARSE_CLOCK_LONG_NS);
	before = cpu;
	go_on(&p, &cpu, 1000000000, false, 1);
	assert_in_range(cpu - before, 1, 1000 * COST);
	/* the first look after somebody has */
	assert_int_equal(go_on(&p, &cpu, 2 * IP_COARSE_CLOCK_LONG_NS + COST, true, 2),
			 IP_COARSE_CLOCK_SHORT_NS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_cpu_is_to_spare),
		cmocka_unit_test(test_no_cpu_is_to_spare),
		cmocka_unit_test(test_nobody_takes_stamps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
