// SPDX-License-Identifier: Apache-2.0
/* Counts and histograms of a session: what the file says, and what it must not say. */
#include <string.h>

#include "analysis/profile/counts.h"
#include "common/error.h"
#include "test/unit/test.h"

static const char session_text[] =
	"iprobe-session\t1\ntsc_hz\t1000000000\ntsc_start\t0\nmodule\t0\t/a\tab\t0\t1\tab\n"
	"function\t1\t0\tf\t\t0\t-\nfunction\t3\t0\tg\t\t0\t-\n";

static struct ip_recording *recording;

static int setup(void **state)
{
	(void)state;
	return ip_recording_parse("session", session_text, strlen(session_text), &recording);
}

static int teardown(void **state)
{
	(void)state;
	ip_recording_destroy(recording);
	return 0;
}

static struct ip_counts *parse(const char *text)
{
	struct ip_counts *counts = NULL;

	if (ip_counts_parse("counts", text, strlen(text), recording, &counts) < 0)
		return NULL;
	return counts;
}

static const struct ip_count *of(const struct ip_counts *counts, uint32_t number)
{
	return &counts->functions[ip_recording_number(recording, number).function];
}

static void test_what_it_says(void **state)
{
	struct ip_counts *c =
		parse("iprobe-counts\t1\ntime\t77\nbuckets\t3\t7\nhist\t1\t5\t2\t1000\t10\t600\t1,"
		      "2,2\nself\t1\t400\n"
		      "later\tthan\tthis\ncount\t3\t9\nend\n");

	(void)state;
	assert_non_null(c);
	assert_int_equal(c->tsc, 77);
	assert_int_equal(c->calls, 16);
	assert_int_equal(of(c, 1)->calls, 7);
	assert_int_equal(of(c, 1)->ended, 5);
	assert_int_equal(of(c, 1)->sum, 1000);
	assert_int_equal(of(c, 1)->self, 400);
	assert_true(of(c, 1)->has_self && of(c, 1)->measured && !of(c, 1)->counted);
	assert_int_equal(of(c, 3)->calls, 9);
	assert_true(of(c, 3)->counted && !of(c, 3)->has_self);
	ip_counts_destroy(c);
}

/* An older version's. */
/* Those of several processes: figures add up, the time is the latest. */
static void test_added(void **state)
{
	static const char text[] = "iprobe-counts\t1\ntime\t77\nbuckets\t3\t7\n"
				   "hist\t1\t5\t2\t1000\t10\t600\t1,2,2\nself\t1\t400\nend\n",
			  other[] = "iprobe-counts\t1\ntime\t70\nbuckets\t3\t7\n"
				    "hist\t1\t1\t0\t5\t5\t5\t1,0,0\nend\n",
			  shifted[] = "iprobe-counts\t1\ntime\t70\nbuckets\t3\t8\nend\n";
	struct ip_counts *c = ip_counts_create(recording);

	(void)state;
	assert_non_null(c);
	assert_int_equal(ip_counts_add("a", text, sizeof(text) - 1, recording, NULL, c), 0);
	assert_int_equal(ip_counts_add("b", other, sizeof(other) - 1, recording, NULL, c), 0);
	assert_int_equal(c->tsc, 77);
	assert_int_equal(of(c, 1)->calls, 8);
	assert_int_equal(of(c, 1)->sum, 1005);
	assert_int_equal(of(c, 1)->min, 5);
	assert_int_equal(of(c, 1)->max, 600);
	assert_int_equal(of(c, 1)->self, 400);
	assert_int_equal(of(c, 1)->buckets[0], 2);
	/* buckets of another width cannot be added */
	assert_int_equal(ip_counts_add("c", shifted, sizeof(shifted) - 1, recording, NULL, c), -1);
	ip_counts_destroy(c);
}

static void test_without_self(void **state)
{
	struct ip_counts *c = parse(
		"iprobe-counts\t1\nbuckets\t3\t7\nhist\t1\t5\t2\t1000\t10\t600\t1,2,2\nend\n");

	(void)state;
	assert_non_null(c);
	assert_false(of(c, 1)->has_self);
	ip_counts_destroy(c);
}

/* Sums of a target that scribbled over its own stop where they would wrap. */
static void test_nothing_wraps(void **state)
{
	struct ip_counts *c =
		parse("iprobe-"
		      "counts\t1\nbuckets\t1\t7\nself\t1\t18446744073709551615\nself\t1\t2\nend\n");

	(void)state;
	assert_non_null(c);
	assert_int_equal(of(c, 1)->self, UINT64_MAX);
	ip_counts_destroy(c);
}

/* Figures that contradict each other: bounds are in order all the same. */
static void test_percentiles_of_nonsense(void **state)
{
	struct ip_counts *c = parse(
		"iprobe-counts\t1\nbuckets\t3\t2\nhist\t1\t9\t0\t1\t100\t5\t18446744073709551615,"
		"18446744073709551615,7\n"
		"end\n");

	(void)state;
	assert_non_null(c);
	for (double share = 0; share <= 1; share += 0.125) {
		uint64_t from, below;

		ip_counts_percentile(c, recording, of(c, 1), share, &from, &below);
		assert_true(from <= below);
	}
	ip_counts_destroy(c);
}

static void test_threads(void **state)
{
	struct ip_counts *c = parse("iprobe-counts\t1\nthread\t0\t0\t0\t3\t2\n"
				    "thread\t7\t8\t99\t18446744073709551615\t5\nend\n");

	(void)state;
	assert_non_null(c);
	assert_int_equal(c->nthreads, 2);
	assert_int_equal(c->calls, 0); /* functions tell them */
	assert_int_equal(c->threads[0].calls, 3);
	assert_true(c->threads[1].pid == 7 && c->threads[1].tid == 8);
	assert_int_equal(c->threads[1].claimed, 99);
	assert_true(c->threads[1].calls == UINT64_MAX && c->threads[1].self == 5);
	ip_counts_destroy(c);
}

static void test_damaged(void **state)
{
	static const char *const texts[] = {
		"",
		"iprobe-counts\t2\nend\n",
		"iprobe-counts\t1\ncount\t3\t9\n",
		"iprobe-counts\t1\ncount\t3\nend\n",
		"iprobe-counts\t1\nself\t1\nend\n",
		"iprobe-counts\t1\nself\tx\t1\nend\n",
		"iprobe-counts\t1\nself\t1\t-1\nend\n",
		"iprobe-counts\t1\nself\t1\t99999999999999999999\nend\n",
		"iprobe-counts\t1\nhist\t1\t5\t2\t1000\t10\t600\t1,2,2\nend\n",
		"iprobe-counts\t1\nbuckets\t3\t7\nhist\t1\t5\t2\t1000\t10\t600\t1,2\nend\n",
		"iprobe-counts\t1\nbuckets\t65\t7\nend\n",
		"iprobe-counts\t1\nthread\t1\t2\t3\t4\nend\n",
		"iprobe-counts\t1\nthread\t1\t4294967296\t3\t4\t5\nend\n",
		"iprobe-counts\t1\nthread\t1\t2\t3\t4\tmc-worker\nend\n",
	};

	(void)state;
	for (unsigned i = 0; i < N_ELEMENTS(texts); i++)
		if (parse(texts[i]))
			fail_msg("'%s' was taken", texts[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_it_says),
		cmocka_unit_test(test_added),
		cmocka_unit_test(test_without_self),
		cmocka_unit_test(test_nothing_wraps),
		cmocka_unit_test(test_percentiles_of_nonsense),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_damaged),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
