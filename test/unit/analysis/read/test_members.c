/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several recordings as one: numbers and signatures lead to the same functions and types as in the
 * recording of their process, functions of one module are one, removals hold in their process only;
 * times that cannot be compared are told.
 */
#include <stdio.h>
#include <stdlib.h>

#include "analysis/read/members.h"
#include "test/unit/test.h"

#define HEAD(start, rest)                                                                          \
	"iprobe-session\t1\nhost\ta\nkernel\tk\ntsc_hz\t1000000000\ntsc_start\t" start             \
	"\nstart_realtime\t" rest "\n"
#define APP   "module\t0\t/bin/app\t0a\t0x1000\t1\tfentry\n"
#define APP_2 "module\t0\t/bin/app\t0a\t0x9000\t1\tfentry\n"
#define LIB   "module\t1\t/lib/x.so\t0b\t0x5000\t10\tfentry\n"

static struct ip_recording *parse(const char *text)
{
	struct ip_recording *s = NULL;

	if (ip_recording_parse("session", text, strlen(text), &s) < 0)
		fail_msg("%s", ip_error_message());
	return s;
}

static struct ip_recording *join(const char *const *texts)
{
	struct ip_recording_members *members = calloc(1, sizeof(*members));
	struct ip_recording *s = NULL;

	assert_non_null(members);
	while (texts[members->n])
		members->n++;
	members->items = calloc(members->n, sizeof(*members->items));
	assert_non_null(members->items);
	for (size_t i = 0; i < members->n; i++)
		members->items[i] = (struct ip_recording_member){
			.own = parse(texts[i]), .name = strdup("m-1"), .pid = 100 + i};
	if (ip_recording_join(members, &s) < 0)
		fail_msg("%s", ip_error_message());
	return s;
}

/* The name of what a member's number stands for. */
static const char *name(const struct ip_recording *s, uint32_t member, uint32_t number)
{
	uint32_t shifted = ip_member_number(&s->members->items[member], number);

	return s->functions[ip_recording_number(s, shifted).function].linker_name;
}

static void test_numbers(void **state)
{
	struct ip_recording *s = join((const char *const[]){
		HEAD("1000", "5000") APP LIB "function\t1\t0\tmain\ta.c\t1\t-\n"
					     "function\t2\t0\tserve\ta.c\t2\ti\n"
					     "function\t10\t1\thelp\t-\t0\t-\n",
		HEAD("900", "4900") APP_2 "function\t1\t0\tserve\ta.c\t2\te\n"
					  "function\t7\t0\tmain.isra.0\ta.c\t1\t-\n"
					  "function\t8\t0\tonly\ta.c\t9\t-\n",
		NULL});
	const struct ip_recording_member *one = &s->members->items[0], *two = &s->members->items[1];

	assert_int_equal(s->nfunctions, 5);
	for (uint32_t i = 0; i < one->own->nnumbers; i++)
		assert_string_equal(
			name(s, 0, i),
			one->own->functions[ip_recording_number(one->own, i).function].linker_name);
	for (uint32_t i = 0; i < two->own->nnumbers; i++)
		assert_string_equal(
			name(s, 1, i),
			two->own->functions[ip_recording_number(two->own, i).function].linker_name);
	assert_string_equal(name(s, 1, 8), "only");
	/* the same function, whatever the numbers; other properties are those of the number */
	assert_ptr_equal(name(s, 0, 2), name(s, 1, 1));
	assert_ptr_equal(name(s, 0, 1), name(s, 1, 7));
	assert_true(ip_recording_number(s, ip_member_number(two, 1)).entry_only);
	assert_false(ip_recording_number(s, ip_member_number(one, 2)).entry_only);
	assert_int_equal(ip_recording_number(s, ip_member_number(one, 2)).room, 0);
	/* a number that its process does not have does not reach into another one's */
	for (uint32_t n = 11; n < 5000; n++) {
		assert_string_equal(name(s, 0, n), "[unknown]");
		assert_string_equal(name(s, 1, n), "[unknown]");
	}
	assert_string_equal(name(s, 0, IP_NUMBER_MAX), "[unknown]");
	assert_string_equal(name(s, 1, IP_NUMBER_MAX), "[unknown]");
	/* one module, loaded twice */
	assert_int_equal(s->nmodules, 3);
	assert_int_equal(s->modules[two->modules[0]].same_as, one->modules[0]);
	assert_int_equal(s->modules[two->modules[0]].load_bias, 0x9000);
	assert_int_equal(s->tsc_start, 900);
	assert_int_equal(s->start_realtime, 4900);
	ip_recording_destroy(s);
}

/* Processes of one program mostly have the same tables: they take room once. */
static void test_the_same_tables(void **state)
{
#define SAME                                                                                       \
	"function\t1\t0\tmain\ta.c\t1\tj\nfunction\t2\t0\tserve\ta.c\t2\t-\njump\t1\t2\n"          \
	"signature\t1\ti4:fd\n"
	struct ip_recording *s = join((const char *const[]){
		HEAD("1000", "5000") APP SAME, HEAD("1000", "5000") APP_2 SAME,
		HEAD("1000", "5000") APP "function\t1\t0\tserve\ta.c\t2\tj\n"
					 "function\t2\t0\tmain\ta.c\t1\t-\njump\t1\t2\n"
					 "signature\t1\ts:name\n",
		HEAD("1000", "5000") APP SAME, NULL});
	const struct ip_recording_member *m = s->members->items;

	assert_int_equal(m[0].numbers, m[1].numbers);
	assert_int_equal(m[0].numbers, m[3].numbers);
	assert_int_not_equal(m[0].numbers, m[2].numbers);
	assert_int_equal(m[0].signatures, m[3].signatures);
	assert_int_not_equal(m[0].signatures, m[2].signatures);
	assert_int_equal(s->njumps, 2);
	assert_true(
		ip_recording_leads_to(s, ip_member_number(&m[3], 1),
				      ip_recording_number(s, ip_member_number(&m[3], 2)).function));
	assert_true(
		ip_recording_leads_to(s, ip_member_number(&m[2], 1),
				      ip_recording_number(s, ip_member_number(&m[2], 2)).function));
	assert_false(
		ip_recording_leads_to(s, ip_member_number(&m[2], 1),
				      ip_recording_number(s, ip_member_number(&m[2], 1)).function));
	ip_recording_destroy(s);
}

/* A condition in one member ended the others: it is the end of the whole, whoever ended last. */
static void test_the_end(void **state)
{
#define CUT		  HEAD("1000", "5000") APP "tsc_end\t9000\n"
#define END(t, end)	  HEAD("1000", "5000") APP "tsc_end\t" t "\nend\t" end "\n"
#define MET(t, end)	  HEAD("1000", "5000") APP "until\tp99>1ms:" end "\n" END_LINES(t, end)
#define END_LINES(t, end) "tsc_end\t" t "\nend\t" end "\n"
	static const struct {
		const char *texts[4];
		const char *end, *until;
		uint32_t member;
	} cases[] = {
		{{END("5000", "interrupted"), END("7000", "target ended"),
		  END("6000", "duration over"), NULL},
		 "target ended",
		 NULL,
		 1},
		{{END("7000", "interrupted"), MET("4000", "f"), END("6000", "interrupted"), NULL},
		 "f",
		 "p99>1ms:f",
		 1},
		{{MET("4001", "f"), END("7000", "interrupted"), MET("4000", "g"), NULL},
		 "g",
		 "p99>1ms:g",
		 2},
		{{END("7000", "interrupted"), END("4000", "stopped by --stop-on"), NULL},
		 "stopped by --stop-on",
		 NULL,
		 1},
		{{MET("4000", "f"), END("5000", "no space left"), END("4500", "size limit reached"),
		  NULL},
		 "no space left",
		 NULL,
		 1},
		{{MET("4000", "f"), CUT, NULL}, NULL, NULL, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ip_recording *s = join(cases[i].texts);

		assert_int_equal(s->ended, cases[i].end != NULL);
		if (cases[i].end) {
			assert_string_equal(s->end, cases[i].end);
			assert_int_equal(s->end_member, cases[i].member);
		} else {
			assert_null(s->end);
		}
		if (cases[i].until)
			assert_string_equal(s->until, cases[i].until);
		else
			assert_null(s->until);
		ip_recording_destroy(s);
	}
}

static const char *value_name(const struct ip_recording *s, uint32_t member, uint32_t number)
{
	const struct ip_recording_member *m = &s->members->items[member];
	uint64_t payload = IP_PAYLOAD_WORD(
		1, 0,
		m->signatures + (number <= m->most_signature ? number : m->most_signature + 1));
	const struct ip_signature *signature = ip_recording_signature(s, &payload);

	return signature ? signature->values[0].name : NULL;
}

static void test_signatures(void **state)
{
	struct ip_recording *s = join((const char *const[]){
		HEAD("1000", "5000") APP "signature\t1\ti4:fd\nsignature\t3\ts:path\n",
		HEAD("1000", "5000") APP "signature\t1\tu8:count\n", HEAD("1000", "5000") APP,
		NULL});

	assert_string_equal(value_name(s, 0, 1), "fd");
	assert_null(value_name(s, 0, 2));
	assert_string_equal(value_name(s, 0, 3), "path");
	assert_null(value_name(s, 0, 4));
	assert_string_equal(value_name(s, 1, 1), "count");
	assert_null(value_name(s, 1, 2));
	assert_null(value_name(s, 1, 1000000));
	assert_null(value_name(s, 2, 1));
	ip_recording_destroy(s);
}

static bool is_off(const struct ip_recording *s, uint32_t member, uint32_t number, uint64_t ts)
{
	uint32_t f = ip_recording_number(s, ip_member_number(&s->members->items[member], number))
			     .function;

	return ip_changes_is_off(ip_recording_changes(s, member), f, ts);
}

static void test_changes(void **state)
{
#define TWO "function\t1\t0\tmain\ta.c\t1\t-\nfunction\t2\t0\tserve\ta.c\t2\t-\n"
#define OWT "function\t1\t0\tserve\ta.c\t2\t-\nfunction\t2\t0\tmain\ta.c\t1\t-\n"
	struct ip_recording *s = join((const char *const[]){
		HEAD("1000", "5000") APP TWO
		"removed\t2000\t2\nadded\t3000\t2\nremoved\t4000\t1-2\n",
		HEAD("1000", "5000") APP TWO,
		HEAD("1000", "5000") APP OWT "removed\t2500\t2\ndropped\t2500\t2\tcount\t9\t9\t9\n",
		NULL});

	assert_false(is_off(s, 0, 2, 1999));
	assert_true(is_off(s, 0, 2, 2000));
	assert_false(is_off(s, 0, 2, 3500));
	assert_false(is_off(s, 0, 1, 3999));
	assert_true(is_off(s, 0, 1, 4000));
	assert_true(is_off(s, 0, 2, 4000));
	for (uint64_t ts = 0; ts < 5000; ts += 500) {
		assert_false(is_off(s, 1, 1, ts));
		assert_false(is_off(s, 1, 2, ts));
		assert_false(is_off(s, 2, 1, ts));
	}
	assert_false(is_off(s, 2, 2, 2499));
	assert_true(is_off(s, 2, 2, 2500));
	assert_int_equal(ip_recording_changes(s, 0)->nremovals, 2);
	assert_int_equal(ip_recording_changes(s, 1)->nremovals, 0);
	assert_int_equal(ip_recording_changes(s, 2)->removals[0], 2500);
	assert_int_equal(s->ndrops, 1);
	assert_int_equal(s->drops[0].member, 2);
	assert_string_equal(s->functions[s->drops[0].function].linker_name, "main");
	ip_recording_destroy(s);
}

static void test_figures(void **state)
{
	struct ip_recording *s = join((const char *const[]){
		HEAD("1000", "5000") "command\tx a\nstop\tattach\t1500\t10\t1\t1\t1\n"
				     "stop\tdetach\t1900\t20\t1\t1\t1\nthread\t7\tone\n"
				     "missing\t5\t10\t20\nselection\tf*\nfilter\tdepth 3\n"
				     "events\t10\nlost\t2\ntsc_end\t2000\nend\tduration over\n",
		HEAD("900",
		     "4900") "command\tx b\nstop\tattach\t1200\t30\t1\t1\t1\nthread\t7\ttwo\n"
			     "selection\tf*\nselection\tg\nmore_stops\t4\nmore_stops_ns\t8\n"
			     "looks\t2\t30\t20\nlooks\t1\t18446744073709551615\t40\n"
			     "events\t5\nlost\t1\nunserved\t3\ninvalid\t1\ntsc_end\t5000\n"
			     "end\tsize limit reached\n",
		NULL});

	assert_int_equal(s->events, 15);
	assert_int_equal(s->lost, 3);
	assert_int_equal(s->unserved, 3);
	assert_int_equal(s->invalid, 1);
	assert_int_equal(s->tsc_end, 5000);
	assert_true(s->ended);
	assert_string_equal(s->end, "size limit reached");
	assert_null(s->command);
	assert_int_equal(s->nselections, 2);
	assert_int_equal(s->nfilters, 1);
	assert_int_equal(s->more_stops, 4);
	assert_int_equal(s->looks, 3);
	assert_true(s->looks_ns == UINT64_MAX);
	assert_int_equal(s->looks_longest_ns, 40);
	assert_int_equal(s->nstops, 3);
	assert_int_equal(s->stops[0].tsc, 1200);
	assert_int_equal(s->stops[0].member, 1);
	assert_int_equal(s->stops[2].member, 0);
	/* thread 7 of one namespace is not thread 7 of another one */
	assert_string_equal(ip_recording_thread_name(s, 0, 7), "one");
	assert_string_equal(ip_recording_thread_name(s, 1, 7), "two");
	assert_null(ip_recording_thread_name(s, 1, 8));
	ip_recording_destroy(s);
	/* one that goes on, or was cut off */
	s = join((const char *const[]){HEAD("1000", "5000") "tsc_end\t2000\nend\tduration over\n",
				       HEAD("1000", "5000"), NULL});
	assert_false(s->ended);
	assert_null(s->end);
	assert_int_equal(s->tsc_end, 0);
	ip_recording_destroy(s);
}

static const char *other(const char *a, const char *b)
{
	struct ip_recording *x = parse(a), *y = parse(b);
	const char *why = ip_recording_other_clock(x, y);
	static char text[200];

	if (why)
		snprintf(text, sizeof(text), "%s", why);
	ip_recording_destroy(x);
	ip_recording_destroy(y);
	return why ? text : NULL;
}

static void test_clocks(void **state)
{
#define DAY   "86400000000000"
#define FIRST HEAD("1000000000", "1700000000000000000")

	/* a day later by both clocks; the wall clock was set by some seconds; set by much */
	assert_null(other(FIRST, HEAD("86401000000000", "1700086400000000000")));
	assert_null(other(FIRST, HEAD("86401000000000", "1700086405000000000")));
	assert_non_null(other(FIRST, HEAD("86401000000000", "1700186400000000000")));
	/* the TSC has begun anew */
	assert_non_null(strstr(other(FIRST, HEAD("500", "1700086400000000000")), "boot"));
	/* but an id of the boot is certain */
	assert_null(other(FIRST "boot\tx\n", HEAD("500", "1700086400000000000") "boot\tx\n"));
	assert_non_null(strstr(other(FIRST "boot\tx\n", FIRST "boot\ty\n"), "boot"));
	assert_non_null(strstr(other(FIRST, FIRST "clock\tmonotonic\n"), "CLOCK_MONOTONIC_RAW"));
	assert_non_null(strstr(other(FIRST "clock\tmonotonic\n", FIRST), "of the TSC, the others"));
	assert_non_null(strstr(other(FIRST, FIRST "host\tb\n"), "host b, the others on a"));
	assert_non_null(strstr(other(FIRST, FIRST "kernel\tb\n"), "kernel"));
	assert_non_null(strstr(other(FIRST, FIRST "tsc_hz\t1010000000\n"), "MHz"));
	assert_null(other(FIRST, FIRST "tsc_hz\t1000000100\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),		cmocka_unit_test(test_the_end),
		cmocka_unit_test(test_the_same_tables), cmocka_unit_test(test_signatures),
		cmocka_unit_test(test_changes),		cmocka_unit_test(test_figures),
		cmocka_unit_test(test_clocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
