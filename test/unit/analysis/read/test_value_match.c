/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of values, and conditions on them.
 */
#include <stdlib.h>

#include "analysis/read/value_match.h"
#include "test/unit/test.h"

static const char session[] = "iprobe-session\t1\ntsc_hz\t1000\n"
			      "signature\t1\ti4:fd s:r->uri f8:share e4:mode{RED=1,BLUE=2} -:whole "
			      "c:tag p:at i4:retval p:no h8:flags\n"
			      "signature\t2\ti4\n"
			      "signature\t3\tu4:status i8:len\n"
			      "signature\t4\tu8 s\n";

static struct ip_recording *load(void)
{
	struct ip_recording *s;

	assert_int_equal(ip_recording_parse("session", session, strlen(session), &s), 0);
	return s;
}

static uint64_t entry[16], results[3];

static void set_up(void)
{
	const double half = 0.5;

	entry[0] = IP_PAYLOAD_WORD(10, 0, 1);
	entry[1] = (uint64_t)-3;
	entry[2] = 5;
	entry[3] = 0;
	memcpy(&entry[3], "/a/b?", 5);
	memcpy(&entry[4], &half, sizeof(half));
	entry[5] = 2;
	entry[6] = 'x';
	entry[7] = 0x1f;
	entry[8] = 99;
	entry[9] = entry[10] = 0;
	results[0] = IP_PAYLOAD_WORD(1, 0, 2);
	results[1] = (uint64_t)-1;
}

static bool holds(const struct ip_recording *s, const char *text, const uint64_t *payload,
		  bool at_exit)
{
	struct ip_value_matches m = {0};
	bool ret;

	if (ip_value_matches_add(&m, text) < 0 || ip_value_matches_find(&m, s, "trace") < 0)
		fail_msg("%s: %s", text, ip_error_message());
	ret = ip_value_matches_test(&m, payload, at_exit) == ip_value_matches_all(&m);
	ip_value_matches_clear(&m);
	return ret;
}

static void test_conditions(void **state)
{
	static const struct {
		const char *text;
		bool holds;
	} cases[] = {
		{"fd=-3", true},	  {"fd==-3", true},	 {"fd!=-3", false},
		{"fd<0", true},		  {"fd<=-3", true},	 {"fd<-3", false},
		{"fd>-4", true},	  {"fd>=-2", false},	 {"fd=0x3", false},
		{"fd=*", true},		  {"fd=-?", true},	 {" fd  = -3", true},
		{"r->uri=/a/*", true},	  {"r->uri=/a", false},	 {"r->uri!=/a", true},
		{"r->uri=/a/b\\?", true}, {"r->uri>1", false},	 {"share>0.4", true},
		{"share=.5", true},	  {"share<5e-1", false}, {"mode=BLUE", true},
		{"mode=B*", true},	  {"mode=2", true},	 {"mode!=RED", true},
		{"tag=x", true},	  {"tag=120", true},	 {"tag=y", false},
		{"at=0x1f", true},	  {"at>30", true},	 {"at=31", true},
		{"arg1=-3", true},	  {"arg8=99", true},	 {"at=NULL", false},
		{"no=NULL", true},	  {"no!=NULL", false},	 {"no=0", true},
		{"flags=0x0", true},	  {"flags=NULL", false}, {"flags!=0", false},
	};
	struct ip_recording *s = load();

	(void)state;
	set_up();
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		if (holds(s, cases[i].text, entry, false) != cases[i].holds)
			fail_msg("%s", cases[i].text);
	ip_recording_destroy(s);
}

static void test_results(void **state)
{
	struct ip_recording *s = load();
	const uint64_t named[] = {IP_PAYLOAD_WORD(2, 0, 3), 404, (uint64_t)-9};

	(void)state;
	set_up();
	assert_true(holds(s, "retval=-1", results, true));
	assert_false(holds(s, "retval=0", results, true));
	/* an argument of that name is no result; a result is no argument */
	assert_false(holds(s, "retval=99", entry, false));
	assert_true(holds(s, "arg1=-1", results, false));
	assert_false(holds(s, "arg1=-1", results, true));
	assert_true(holds(s, "status>=400", named, true));
	assert_true(holds(s, "len=-9", named, true));
	/* values that are not there meet nothing, not even != */
	assert_false(holds(s, "fd!=1", results, false));
	assert_false(holds(s, "fd!=1", NULL, false));
	entry[0] = IP_PAYLOAD_WORD(10, 1, 1);
	assert_false(holds(s, "fd!=1", entry, false));
	assert_true(holds(s, "share=0.5", entry, false));
	entry[0] = IP_PAYLOAD_WORD(2, 0, 1); /* the string is cut off */
	assert_false(holds(s, "r->uri!=x", entry, false));
	assert_false(holds(s, "at!=1", entry, false));
	ip_recording_destroy(s);
}

static void test_several(void **state)
{
	struct ip_value_matches m = {0};
	struct ip_recording *s = load();

	(void)state;
	set_up();
	assert_int_equal(ip_value_matches_add(&m, "fd<0"), 0);
	assert_int_equal(ip_value_matches_add(&m, "retval=-1"), 0);
	assert_int_equal(ip_value_matches_add(&m, "mode=RED"), 0);
	assert_int_equal(ip_value_matches_find(&m, s, "trace"), 0);
	assert_int_equal(ip_value_matches_test(&m, entry, false), 1);
	assert_int_equal(ip_value_matches_test(&m, results, true), 2);
	assert_int_equal(ip_value_matches_all(&m), 7);
	while (m.n < IP_VALUE_MATCHES_MAX)
		assert_int_equal(ip_value_matches_add(&m, "fd=1"), 0);
	assert_int_equal(ip_value_matches_add(&m, "fd=1"), -1);
	assert_error("more than 16 conditions");
	ip_value_matches_clear(&m);
	ip_recording_destroy(s);
}

static void test_bad_conditions(void **state)
{
	static const char *const texts[] = {"", "fd", "=3", " = 3", "r->uri", "->", "fd>x", "fd<"};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(texts); i++) {
		struct ip_value_matches m = {0};

		if (ip_value_matches_add(&m, texts[i]) == 0)
			fail_msg("taken: %s", texts[i]);
		ip_value_matches_clear(&m);
	}
}

static void check_unknown(const struct ip_recording *s, const char *text, const char *message)
{
	struct ip_value_name name;

	assert_int_equal(ip_value_name_find(s, "trace", text, &name), -1);
	ip_value_name_clear(&name);
	assert_error(message);
}

static void test_unknown_names(void **state)
{
	static const char empty[] = "iprobe-session\t1\ntsc_hz\t1000\n";
	struct ip_recording *s = load(), *none;

	(void)state;
	check_unknown(s, "r->url",
		      "trace: no function records a value 'r->url'; the nearest are: "
		      "r->uri; there are: fd, r->uri, share, mode, tag, at, retval, "
		      "no, flags, arg1, status, len");
	check_unknown(s, "whole", "'whole'"); /* a structure is not recorded */
	check_unknown(s, "arg12", "'arg12'");
	check_unknown(s, "arg5", "'arg5'");
	check_unknown(s, "arg01", "'arg01'");
	check_unknown(s, "arg99999999999999999999", "'arg9999");
	assert_int_equal(ip_recording_parse("session", empty, strlen(empty), &none), 0);
	check_unknown(none, "fd", "no values were recorded");
	ip_recording_destroy(none);
	ip_recording_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_conditions),    cmocka_unit_test(test_results),
		cmocka_unit_test(test_several),	      cmocka_unit_test(test_bad_conditions),
		cmocka_unit_test(test_unknown_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
