/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peaks of histograms, as a person sees them.
 */
#include "analysis/darc/latency_peaks.h"
#include "test/unit/test.h"

/* n durations that lie around one, from 0.7 to 1.3 of it. */
static void add(struct ip_peak_bins *b, uint64_t ns, unsigned n)
{
	uint64_t random = 88172645463325252ull + ns;

	for (unsigned i = 0; i < n; i++) {
		double sum = 0;

		/* the sum of six is about a normal distribution */
		for (int k = 0; k < 6; k++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			sum += (double)(random >> 11) / (1ull << 53);
		}
		ip_peak_bins_add(b, ns * (0.7 + 0.6 * sum / 6));
	}
}

static void test_bins(void **state)
{
	(void)state;
	for (unsigned bin = 1; bin < IP_PEAK_BINS; bin++) {
		struct ip_peak_bins b = {0};
		const uint64_t from = ip_peak_bin_from(bin), to = ip_peak_bin_from(bin + 1);

		assert_true(from >= ip_peak_bin_from(bin - 1));
		if (from == to || from < 2)
			continue; /* whole nanoseconds: it can have none */
		ip_peak_bins_add(&b, from);
		ip_peak_bins_add(&b, to - 1);
		assert_int_equal(b.calls[bin], 2);
		assert_int_equal(b.min, from);
		assert_int_equal(b.max, to - 1);
		assert_int_equal(b.count, 2);
	}
}

static void test_none(void **state)
{
	struct ip_peak_bins b = {0};
	struct ip_peaks p;

	(void)state;
	ip_peaks_find(&b, &p);
	assert_int_equal(p.n, 0);
	assert_null(ip_peaks_number(&p, 1));
}

/* What lies far from the top of a peak is not of its core. */
static void test_core(void **state)
{
	struct ip_peak_bins b = {0};
	const struct ip_peak *last;
	struct ip_peaks p;

	(void)state;
	add(&b, 100000, 2000);
	for (unsigned i = 0; i < 100; i++) {
		ip_peak_bins_add(&b, 20000000 + i);
		if (i < 4)
			ip_peak_bins_add(&b, 9000000 + i);
	}
	ip_peak_bins_add(&b, 140000000);
	ip_peaks_find(&b, &p);
	assert_int_equal(ip_peaks_count(&p), 2);
	last = ip_peaks_number(&p, 2);
	assert_true(last->from_ns <= 9000000 && last->to_ns > 140000000);
	assert_int_equal(last->count, 105);
	assert_true(last->core_from_ns > 9000100 && last->core_from_ns <= 20000000);
	assert_true(last->core_to_ns > 40000000 && last->core_to_ns < 140000000);
	assert_int_equal(last->core_count, 100);
}

static void test_one(void **state)
{
	(void)state;
	/* wherever it lies between bounds, and however many calls it has */
	for (uint64_t ns = 1000; ns < 5000000; ns = ns * 11 / 10)
		for (unsigned n = 30; n < 30000; n *= 5) {
			struct ip_peak_bins b = {0};
			struct ip_peaks p;

			add(&b, ns, n);
			ip_peaks_find(&b, &p);
			if (ip_peaks_count(&p) != 1)
				fail_msg("%u calls of %llu ns: %zu peaks", n,
					 (unsigned long long)ns, ip_peaks_count(&p));
			assert_int_equal(ip_peaks_number(&p, 1)->count, n);
			assert_null(ip_peaks_number(&p, 2));
		}
}

static void test_two(void **state)
{
	static const unsigned shares[] = {2, 10, 100, 1000};

	(void)state;
	/* as far apart as a person tells them, in shares from a half to a thousandth */
	for (unsigned s = 0; s < N_ELEMENTS(shares); s++)
		for (double apart = 3; apart < 300; apart *= 1.7) {
			struct ip_peak_bins b = {0};
			struct ip_peaks p;

			add(&b, 20000, 40 * shares[s]);
			add(&b, 20000 * apart, 40);
			ip_peaks_find(&b, &p);
			if (ip_peaks_count(&p) != 2)
				fail_msg("1 of %u, %f apart: %zu peaks", shares[s], apart,
					 ip_peaks_count(&p));
			assert_int_equal(ip_peaks_number(&p, 2)->count, 40);
			assert_true(ip_peaks_number(&p, 1)->to_ns ==
				    ip_peaks_number(&p, 2)->from_ns);
		}
}

/* Too few calls are no peak, however clear the valley is. */
static void test_few(void **state)
{
	struct ip_peak_bins b = {0};
	struct ip_peaks p;

	(void)state;
	add(&b, 20000, 4000);
	add(&b, 5000000, IP_PEAK_SAMPLES - 1);
	ip_peaks_find(&b, &p);
	assert_int_equal(ip_peaks_count(&p), 1);
	assert_int_equal(p.n, 2);
	assert_true(p.items[1].refused && !p.items[0].refused);
	assert_int_equal(p.items[1].count, IP_PEAK_SAMPLES - 1);
	add(&b, 5000000, 1);
	ip_peaks_find(&b, &p);
	assert_int_equal(ip_peaks_count(&p), 2);
}

/* Neighbouring powers of two hide a valley that quarters show. */
static void test_finer(void **state)
{
	struct ip_peak_bins b = {0};
	struct ip_peaks p;

	(void)state;
	add(&b, 90000, 3000);
	add(&b, 200000, 3000);
	ip_peaks_find(&b, &p);
	assert_int_equal(ip_peaks_count(&p), 2);
	assert_true(p.steps > 1);
}

/* A tail that falls slowly is none. */
static void test_tail(void **state)
{
	struct ip_peak_bins b = {0};
	struct ip_peaks p;

	(void)state;
	for (unsigned i = 0; i < 20; i++)
		for (unsigned n = 0; n < 100000u >> i; n++)
			ip_peak_bins_add(&b, (1000ull << i) + (1000ull << i) * n / (100000u >> i));
	ip_peaks_find(&b, &p);
	assert_int_equal(ip_peaks_count(&p), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bins),  cmocka_unit_test(test_none),
		cmocka_unit_test(test_core),  cmocka_unit_test(test_one),
		cmocka_unit_test(test_two),   cmocka_unit_test(test_few),
		cmocka_unit_test(test_finer), cmocka_unit_test(test_tail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
