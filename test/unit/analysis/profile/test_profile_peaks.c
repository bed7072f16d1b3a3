/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peaks that came: those that a person sees, and none by chance, by a neighbour, or by a burst.
 */
#include "test/unit/test.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/profile/latency/profile_peaks.h"

#define SLICES 32u

struct known {
	uint64_t calls[IP_LATENCY_BUCKETS];
	uint32_t by_slice[SLICES * IP_LATENCY_BUCKETS];
};

/* Puts calls into a bin, evenly over the slices or into one of them. */
static void put(struct known *k, unsigned bin, uint64_t n, int slice)
{
	k->calls[bin] += n;
	for (uint64_t i = 0; i < n; i++)
		k->by_slice[(slice >= 0 ? (unsigned)slice : i % SLICES) * IP_LATENCY_BUCKETS +
			    bin]++;
}

/* Returns the bin of the only peak of second that is new; -1: none. */
static int new_peak(const struct known *first, const struct known *second)
{
	const struct ip_profile a = {first->calls, first->by_slice, SLICES},
				b = {second->calls, second->by_slice, SLICES};
	bool peaks[IP_LATENCY_BUCKETS];
	int found = -1;

	ip_profile_new_peaks(&a, &b, peaks);
	for (unsigned i = 0; i < IP_LATENCY_BUCKETS; i++)
		if (peaks[i]) {
			assert_int_equal(found, -1);
			found = (int)i;
		}
	return found;
}

static struct known *make(void)
{
	struct known *k = calloc(1, sizeof(*k));

	assert_non_null(k);
	return k;
}

static void test_what_came(void **unused)
{
	struct known *first = make(), *second = make();

	put(first, 7, 1000, -1);
	put(second, 7, 1000, -1);
	assert_int_equal(new_peak(first, second), -1);
	/* so few may be chance, and 19 are no peak at all */
	put(second, 17, 19, -1);
	assert_int_equal(new_peak(first, second), -1);
	put(second, 17, 13, -1);
	assert_int_equal(new_peak(first, second), 17);
	assert_int_equal(new_peak(second, first), -1); /* it has not gone, the other way round */
	/* it was there, one bin away */
	put(first, 16, 32, -1);
	assert_int_equal(new_peak(first, second), -1);
	free(first);
	free(second);
}

static void test_shares_and_not_numbers(void **unused)
{
	struct known *first = make(), *second = make();

	/* a tenth as many calls, of which the same share is slow: too few to be a peak of first */
	put(first, 7, 100, -1);
	put(first, 17, 3, -1);
	put(second, 7, 1000, -1);
	put(second, 17, 32, -1);
	assert_int_equal(new_peak(first, second), -1);
	free(first);
	free(second);
}

static void test_a_burst_is_one_event(void **unused)
{
	struct known *first = make(), *second = make();

	put(first, 7, 3200, -1);
	put(second, 7, 3100, -1);
	put(second, 17, 100, 5);
	assert_int_equal(new_peak(first, second), -1);
	/* as many all over the time */
	memset(second, 0, sizeof(*second));
	put(second, 7, 3100, -1);
	put(second, 17, 100, -1);
	assert_int_equal(new_peak(first, second), 17);
	free(first);
	free(second);
}

static void test_ends_and_few_calls(void **unused)
{
	struct known *first = make(), *second = make();

	put(first, 30, 1000, -1);
	put(second, 0, 1000, -1);
	assert_int_equal(new_peak(first, second), 0);
	memset(second, 0, sizeof(*second));
	put(second, IP_LATENCY_BUCKETS - 1, 1000, -1);
	assert_int_equal(new_peak(first, second), IP_LATENCY_BUCKETS - 1);
	memset(first, 0, sizeof(*first));
	assert_int_equal(new_peak(first, second), -1);
	put(first, 30, 19, -1);
	assert_int_equal(new_peak(first, second), -1);
	put(first, 30, 1, -1);
	assert_int_equal(new_peak(first, second), IP_LATENCY_BUCKETS - 1);
	free(first);
	free(second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_came),
		cmocka_unit_test(test_shares_and_not_numbers),
		cmocka_unit_test(test_a_burst_is_one_event),
		cmocka_unit_test(test_ends_and_few_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
