/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Percentiles of the histogram against sorted values.
 */
#include "analysis/profile/histogram.h"
#include "test/unit/test.h"

#define N 20000

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void assert_near(uint64_t got, uint64_t wanted)
{
	uint64_t off = got > wanted ? got - wanted : wanted - got;

	if (off > wanted / 125 + (wanted < 128 ? 0 : 1))
		fail_msg("%llu is too far from %llu", (unsigned long long)got,
			 (unsigned long long)wanted);
}

static void test_percentiles(void **state)
{
	static uint64_t values[N];
	static const double shares[] = {0, 0.0001, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1};

	(void)state;
	for (unsigned bits = 1; bits <= 64; bits++) {
		struct ip_histogram h = {0};
		uint64_t random = 88172645463325252ull + bits;

		for (size_t i = 0; i < N; i++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			/* sizes of all magnitudes up to bits */
			values[i] = random >> (64 - 1 - (random >> 7) % bits);
			ip_histogram_add(&h, values[i]);
		}
		qsort(values, N, sizeof(*values), by_value);
		assert_int_equal(h.count, N);
		assert_int_equal(h.dropped, 0);
		for (size_t i = 0; i < N_ELEMENTS(shares); i++) {
			size_t rank = shares[i] * N > 1 ? (size_t)(shares[i] * N + 0.999999) : 1;

			assert_near(ip_histogram_percentile(&h, shares[i], 0, UINT64_MAX),
				    values[rank - 1]);
		}
		ip_histogram_deinit(&h);
	}
}

static void test_each_magnitude(void **state)
{
	(void)state;
	for (unsigned bit = 0; bit < 64; bit++)
		for (int delta = -1; delta <= 1; delta++) {
			struct ip_histogram h = {0};
			uint64_t value = (1ull << bit) + (uint64_t)(int64_t)delta;

			ip_histogram_add(&h, value);
			assert_near(ip_histogram_percentile(&h, 0.5, 0, UINT64_MAX), value);
			ip_histogram_deinit(&h);
		}
}

/* The middle of a step may lie beyond all values that are in it. */
static void test_kept_within_what_is_known(void **state)
{
	struct ip_histogram h = {0};

	(void)state;
	for (int i = 0; i < 3; i++)
		ip_histogram_add(&h, 1 << 20);
	assert_true(ip_histogram_percentile(&h, 0.5, 0, UINT64_MAX) > 1 << 20);
	assert_int_equal(ip_histogram_percentile(&h, 0.5, 0, 1 << 20), 1 << 20);
	ip_histogram_add(&h, (1 << 21) - 1);
	assert_int_equal(ip_histogram_percentile(&h, 1, (1 << 21) - 1, UINT64_MAX), (1 << 21) - 1);
	ip_histogram_deinit(&h);
}

static void test_empty(void **state)
{
	struct ip_histogram h = {0};

	(void)state;
	assert_int_equal(ip_histogram_percentile(&h, 0.5, 7, UINT64_MAX), 0);
	ip_histogram_deinit(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_percentiles),
		cmocka_unit_test(test_each_magnitude),
		cmocka_unit_test(test_kept_within_what_is_known),
		cmocka_unit_test(test_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
