/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of probes.d: what is taken, and where what is refused is wrong.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/selection/selection.h"
#include "config/probes_d.h"
#include "test/unit/probes_d_text.h"
#include "test/unit/test.h"

static void test_what_is_taken(void **state)
{
	struct ip_probes_d p = {0};

	(void)state;
	if (add(&p, "# a comment\n"
		    "selections:\n"
		    "  one: foo*\n"
		    "  many: [a, '!b', 'f(int, char)']\n"
		    "  told:\n"
		    "    description: what it is for\n"
		    "    functions:\n"
		    "      - '@one'\n"
		    "      - lib:libc.so\n"
		    "profiles:\n"
		    "  misses:\n"
		    "    events: [PAPI_TOT_INS, 'perf::PAGE-FAULTS:u=1']\n"
		    "    functions: '@told'\n"
		    "    budget: 2.5%\n"
		    "    interval: 200ms\n"
		    "    duration: 2m\n"
		    "  few: {budget: 500/s, events: 'A,B'}\n"
		    "  plain: {}\n") < 0)
		fail_msg("%s", ip_error_message());
	assert_int_equal(ip_probes_d_check(&p), 0);
	assert_int_equal(p.nselections, 3);
	assert_string_equal(ip_probes_d_selection(&p, "one")->functions, "foo*");
	assert_string_equal(ip_probes_d_selection(&p, "many")->functions, "a,!b,f(int, char)");
	assert_string_equal(ip_probes_d_selection(&p, "told")->functions, "@one,lib:libc.so");
	assert_string_equal(ip_probes_d_selection(&p, "told")->description, "what it is for");
	assert_int_equal(ip_probes_d_selection(&p, "told")->place.line, 5);
	assert_null(ip_probes_d_selection(&p, "none"));
	assert_int_equal(p.nprofiles, 3);
	assert_string_equal(ip_probes_d_profile(&p, "misses")->events,
			    "PAPI_TOT_INS,perf::PAGE-FAULTS:u=1");
	assert_string_equal(ip_probes_d_profile(&p, "misses")->functions, "@told");
	assert_true(ip_probes_d_profile(&p, "misses")->budget_percent == 2.5);
	assert_int_equal(ip_probes_d_profile(&p, "misses")->interval_ns, 200000000);
	assert_int_equal(ip_probes_d_profile(&p, "misses")->duration_ns, 120000000000);
	assert_int_equal(ip_probes_d_profile(&p, "few")->budget_samples, 500);
	assert_string_equal(ip_probes_d_profile(&p, "few")->events, "A,B");
	assert_null(ip_probes_d_profile(&p, "plain")->events);

	/* a second file: its names and those before it */
	assert_int_equal(add(&p, "selections: {more: ['@one', '!@many2'], many2: x}"), 0);
	assert_int_equal(ip_probes_d_check(&p), 0);
	assert_int_equal(add(&p, "selections: {one: x}"), -1);
	assert_error("f.yaml:1:14: there is a selection 'one' already, at f.yaml:3");
	assert_int_equal(add(&p, ""), 0);
	assert_int_equal(add(&p, "---\n"), 0);
	ip_probes_d_clear(&p);
}

static void test_what_is_wrong_and_where(void **state)
{
	static const struct refused cases[] = {
		{"selection: {}", "f.yaml:1:1: unknown key 'selection'; a file of probes.d has "
				  "selections, profiles, rules"},
		{"selections:\n  a:\n    function: x\n",
		 "f.yaml:3:5: unknown key 'function'; a selection has description, functions"},
		{"profiles:\n  a:\n    event: x\n",
		 "f.yaml:3:5: unknown key 'event'; a profile has description, events, functions, "
		 "budget, interval, duration"},
		{"selections: [a]", "f.yaml:1:13: selections are written as"},
		{"profiles: x", "f.yaml:1:11: profiles are written"},
		{"profiles: {a: x}", "f.yaml:1:15: a profile is written as lines of 'key: value'"},
		{"- a", "f.yaml:1:1: a file of probes.d is written as"},
		{"selections:\n  a: x\n  a: y\n", "f.yaml:3:3: the key 'a' is there twice"},
		{"selections:\n  a: x\nselections:\n  b: x\n",
		 "f.yaml:3:1: the key 'selections' is there twice"},
		{"selections: {a: }", "f.yaml:1:17: the selection is empty"},
		{"selections: {a: []}", "f.yaml:1:17: the selection is empty"},
		{"selections: {a: [x, [y]]}", "f.yaml:1:21: the selection is a single value"},
		{"selections: {a: {description: x}}",
		 "f.yaml:1:14: the selection 'a' has no functions"},
		{"selections: {a: {description: [x], functions: y}}",
		 "f.yaml:1:31: description is a single value"},
		{"selections: {a: 'x,,y'}", "f.yaml:1:17: selection: empty item"},
		{"selections: {a: [x, 'nonsense:y']}", "f.yaml:1:21: selection: unknown prefix"},
		{"selections: {a: '@/etc/passwd'}",
		 "f.yaml:1:17: selection: '@/etc/passwd': @FILE must be"},
		{"selections: {a: \"x\\ny\"}", "f.yaml:1:17: a selection of several lines"},
		{"selections: {'a b': x}", "f.yaml:1:14: 'a b' is no name for a selection"},
		{"selections: {'@a': x}", "is no name for a selection"},
		{"selections: {'': x}", "'' is no name for a selection"},
		{"selections: {a: \"x\\0y\"}", "f.yaml:1:17: a text with a zero byte"},
		{"selections: {a: &b x}", "f.yaml:1:17: anchors"},
		{"selections: {a: !b x}", "f.yaml:1:17: anchors (&) and tags (!)"},
		{"selections: {a: *b}", "f.yaml:1:17: aliases (*)"},
		{"selections: {? [a] : x}", "f.yaml:1:16: a key must be a word"},
		{"selections: {a: x", "f.yaml:2:1: did not find expected ',' or '}'"},
		{"selections:\n\ta: x\n", "f.yaml:2:1: "},
		{"selections: {a: x}\n---\nselections: {b: x}\n", "f.yaml:2:1: a second document"},
		{"selections:\n  a: \xff\n", "f.yaml:2:6: "},
		{"profiles: {a: {budget: 2}}", "f.yaml:1:24: budget is a share"},
		{"profiles: {a: {budget: 0%}}", "budget is a share"},
		{"profiles: {a: {budget: 0.001%}}", "budget is a share"},
		{"profiles: {a: {budget: 101%}}", "budget is a share"},
		{"profiles: {a: {budget: -1%}}", "budget is a share"},
		{"profiles: {a: {budget: nan%}}", "budget is a share"},
		{"profiles: {a: {budget: 1.5/s}}", "budget is a share"},
		{"profiles: {a: {interval: 1y}}", "f.yaml:1:26: interval: "},
		{"profiles: {a: {duration: 0s}}", "f.yaml:1:26: duration is nothing"},
		{"profiles: {a: {events: [A, 'B C']}}",
		 "f.yaml:1:28: 'B C' is no name of an event"},
		{"profiles: {a: {events: []}}", "f.yaml:1:24: events is empty"},
		{"[[[[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]]]", "f.yaml:1:17: nested too deeply"},
	};

	(void)state;
	assert_refused(cases, N_ELEMENTS(cases));
}

static void test_references(void **state)
{
	static const struct refused bad[] = {
		{"selections: {a: '@b'}",
		 "f.yaml:1:14: selection: '@b': no selection of that name"},
		{"selections:\n  a: '@b'\n  b: ['@a']\n", "f.yaml:2:3: selection: '@"},
		{"selections: {a: '!@b', b: '!x'}", "takes something away itself"},
		{"profiles:\n  p: {functions: '@b'}\n",
		 "f.yaml:2:3: selection: '@b': no selection of that name"},
	};
	char text[4096] = "selections:\n  a: x\n";
	struct ip_probes_d p = {0};

	(void)state;
	assert_unresolved(bad, N_ELEMENTS(bad));
	/* names that name each other many times over end in an error, and soon */
	for (char c = 'b'; c < 'g'; c++) {
		sprintf(text + strlen(text), "  %c: [", c);
		for (int i = 0; i < 16; i++)
			sprintf(text + strlen(text), "'@%c', ", c - 1);
		strcat(text, "]\n");
	}
	assert_int_equal(add(&p, text), 0);
	assert_int_equal(ip_probes_d_check(&p), -1);
	assert_error("items");
	ip_probes_d_clear(&p);
}

static void test_too_much(void **state)
{
	size_t room = 2u << 20;
	char *text = malloc(room);
	struct ip_probes_d p = {0};

	(void)state;
	assert_non_null(text);
	memset(text, '#', room);
	assert_int_equal(ip_probes_d_add(&p, text, room, "f.yaml"), -1);
	assert_error("f.yaml: larger than");
	strcpy(text, "selections: {a: [");
	for (size_t i = strlen(text); i < 300000; i += 2)
		memcpy(text + i, "x,", 3);
	strcat(text, "x]}");
	assert_int_equal(ip_probes_d_add(&p, text, strlen(text), "f.yaml"), -1);
	assert_error("too much for a file");
	ip_probes_d_clear(&p);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_taken),
		cmocka_unit_test(test_what_is_wrong_and_where),
		cmocka_unit_test(test_references),
		cmocka_unit_test(test_too_much),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
