/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session file's parser: what it takes, and the line that it refuses with.
 */
#include <stdio.h>
#include <stdlib.h>

#include "analysis/read/session.h"
#include "test/unit/test.h"

#define HEAD   "iprobe-session\t1\ntsc_hz\t2000000000\ntsc_start\t1000\n"
#define MODULE "module\t0\t/usr/bin/demo\t0a0b\t0x1000\t1\tinstrument\n"

static struct ip_recording *parse(const char *text)
{
	struct ip_recording *s = NULL;

	if (ip_recording_parse("session", text, strlen(text), &s) < 0)
		fail_msg("%s", ip_error_message());
	return s;
}

static void test_fields(void **state)
{
	struct ip_recording *s =
		parse(HEAD MODULE "host\ta\\x09b\\x5cc\\x00\n"
				  "command\t./demo -p 80\n"
				  "pid\t77\n"
				  "something\tnew\n"
				  "stop\tattach\t3000\t500\t4\t5\t6\n"
				  "thread\t78\tworker\n"
				  "exec\t77\t9000\n"
				  "missing\t5\t100\t200\n"
				  "events\t10\nlost\t2\nunserved\t1\nend\tinterrupted\n");

	(void)state;
	assert_string_equal(s->host, "a\tb\\c?");
	assert_string_equal(s->command, "./demo -p 80");
	assert_null(s->kernel);
	assert_int_equal(s->pid, 77);
	assert_int_equal(s->modules[0].load_bias, 0x1000);
	assert_int_equal(s->nstops, 1);
	assert_int_equal(s->stops[0].sites, 6);
	assert_string_equal(s->threads[0].name, "worker");
	assert_int_equal(s->execs[0].tsc, 9000);
	assert_int_equal(s->nmissing, 1);
	assert_int_equal(s->missing[0].number, 5);
	assert_int_equal(s->missing[0].from, 100);
	assert_int_equal(s->missing[0].to, 200);
	assert_int_equal(s->lost, 2);
	assert_true(s->ended);
	assert_string_equal(s->end, "interrupted");
	ip_recording_destroy(s);
}

static void test_numbers_of_one_function(void **state)
{
	struct ip_recording *s =
		parse(HEAD MODULE "module\t1\t/lib/x.so\tff\t0\t100\tinstrument\n"
				  "module\t2\t/lib/x.so\tff\t4096\t200\tinstrument\n"
				  "function\t1\t0\tf\t\t0\t-\t48\n"
				  "function\t2\t0\tf\ta.c\t7\ti\n"
				  "function\t3\t0\tf.isra.0.cold\t\t0\t-\n"
				  "function\t4\t0\tf.constprop.0.part.0\t\t0\t-\n"
				  "function\t5\t0\tf.part.1\t\t0\t-\n"
				  "function\t100\t1\tf\t\t0\t-\n"
				  "function\t200\t2\tf\t\t0\t-\n");

	(void)state;
	/* all in one, and its parts in another; but a function of another module is another, and a
	 * module loaded twice is one */
	assert_int_equal(s->nfunctions, 4);
	assert_string_equal(s->functions[2].linker_name, "f.part");
	assert_int_equal(ip_recording_number(s, 4).function, 2);
	assert_int_equal(ip_recording_number(s, 5).function, 2);
	assert_int_equal(ip_recording_host(s, 2), 1);
	assert_int_equal(ip_recording_host(s, 1), 0);
	assert_int_equal(ip_recording_host(s, 0), 0);
	assert_string_equal(s->functions[1].linker_name, "f");
	assert_string_equal(s->functions[1].file, "a.c");
	assert_int_equal(s->functions[1].line, 7);
	for (uint32_t i = 1; i <= 3; i++)
		assert_int_equal(ip_recording_number(s, i).function, 1);
	assert_int_equal(ip_recording_number(s, 1).room, 48);
	assert_int_equal(ip_recording_number(s, 2).room, 0);
	assert_int_equal(ip_recording_number(s, 3).room, 8);
	assert_int_equal(ip_recording_number(s, 100).function, 3);
	assert_int_equal(ip_recording_number(s, 200).function, 3);
	assert_int_equal(ip_recording_number(s, 99).function, 0);
	assert_int_equal(ip_recording_number(s, IP_NUMBER_MAX).function, 0);
	assert_string_equal(ip_recording_module_name(s, &s->functions[3]), "x.so");
	ip_recording_destroy(s);
}

static void test_many_functions(void **state)
{
	enum { N = 20000 };
	struct ip_recording *s;
	char *text, *p;

	(void)state;
	text = malloc(N * 64 + 256);
	assert_non_null(text);
	p = text + sprintf(text, HEAD MODULE);
	for (unsigned i = 1; i <= N; i++)
		p += sprintf(p, "function\t%u\t0\tname_%u\t\t0\t-\n", i, i % (N / 2));
	s = parse(text);
	assert_int_equal(s->nfunctions, N / 2 + 1);
	for (unsigned i = 1; i <= N; i++) {
		char name[32];

		sprintf(name, "name_%u", i % (N / 2));
		assert_string_equal(s->functions[ip_recording_number(s, i).function].linker_name,
				    name);
	}
	ip_recording_destroy(s);
	free(text);
}

static void test_cut_off(void **state)
{
	struct ip_recording *s = parse(HEAD MODULE "function\t1\t0\tf\t\t0\t-\nfunction\t2");

	(void)state;
	assert_false(s->ended);
	assert_int_equal(s->nfunctions, 2);
	ip_recording_destroy(s);
}

static void test_times(void **state)
{
	struct ip_recording *s = parse(HEAD);

	(void)state;
	assert_int_equal(ip_recording_ns(s, 2000000000), 1000000000);
	assert_int_equal(ip_recording_ns(s, 1), 1); /* a half is rounded up */
	assert_int_equal(ip_recording_ns(s, UINT64_MAX), UINT64_MAX / 2 + 1);
	assert_int_equal(ip_recording_since_start(s, 3000), 1000);
	assert_int_equal(ip_recording_since_start(s, 1), 0);
	ip_recording_destroy(s);
}

static void test_thread_names(void **state)
{
	static const char text[] = HEAD "thread\t7\tlast\t300\n"
					"thread\t9\told trace\n"
					"thread\t7\tfirst\t100\n"
					"thread\t7\t\t200\n"
					"thread\t8\t\t150\n"
					"thread\t7\tafter a resume\t300\n";
	struct ip_recording *s;

	(void)state;
	assert_int_equal(ip_recording_parse("session", text, strlen(text), &s), 0);
	/* before its name was read the thread had it, too */
	assert_string_equal(ip_recording_thread_name_at(s, 0, 7, 99), "first");
	assert_string_equal(ip_recording_thread_name_at(s, 0, 7, 100), "first");
	assert_string_equal(ip_recording_thread_name_at(s, 0, 7, 199), "first");
	/* another thread with this number, whose name is not known */
	assert_null(ip_recording_thread_name_at(s, 0, 7, 200));
	assert_string_equal(ip_recording_thread_name_at(s, 0, 7, 300), "after a resume");
	assert_string_equal(ip_recording_thread_name_at(s, 0, 7, UINT64_MAX), "after a resume");
	assert_string_equal(ip_recording_thread_name(s, 0, 7), "after a resume");
	assert_null(ip_recording_thread_name(s, 0, 8));
	assert_null(ip_recording_thread_name_at(s, 0, 8, 1000));
	assert_string_equal(ip_recording_thread_name_at(s, 0, 9, 1), "old trace");
	assert_null(ip_recording_thread_name_at(s, 0, 10, 1));
	assert_null(ip_recording_thread_name_at(s, 0, 6, 1));
	ip_recording_destroy(s);
}

static void test_stacks(void **state)
{
	struct ip_recording *s = parse(HEAD "stack\t7\t9\t50\t1:800,2:700\n"
					    "stack\t7\t8\t60\t3:18446744073709551608\n"
					    "stack\t7\t8\t50\t\n");
	const struct ip_recording_stack *stack;

	(void)state;
	assert_int_equal(ip_recording_find_stack(s, 7, 8), 1); /* the earlier one of two */
	assert_int_equal(s->stacks[0].n, 0);
	assert_int_equal(ip_recording_find_stack(s, 7, 7), 0);
	assert_int_equal(ip_recording_find_stack(s, 8, 8), 0);
	assert_int_equal(ip_recording_find_stack(s, 7, 9), 3);
	stack = &s->stacks[2];
	assert_int_equal(stack->n, 2);
	assert_int_equal(stack->tsc, 50);
	assert_int_equal(s->stack_frames[stack->first + 1].number, 2);
	assert_int_equal(s->stack_frames[stack->first + 1].sp, 700);
	ip_recording_destroy(s);
}

static void test_no_events(void **state)
{
	static const char text[] = HEAD "no_events\tslept\tthe process slept\n";
	struct ip_recording *s;

	(void)state;
	assert_int_equal(ip_recording_parse("session", text, strlen(text), &s), 0);
	assert_int_equal(s->nno_events, 1);
	assert_string_equal(s->no_events[0].code, "slept");
	assert_string_equal(s->no_events[0].text, "the process slept");
	ip_recording_destroy(s);
}

static void test_refusals(void **state)
{
	static const struct {
		const char *text, *error;
	} cases[] = {
		{"", "not a session"},
		{"\n", "not a session"},
		{"iprobe-session\t1", "not a session"},
		{"something\t1\n", "not a session"},
		{"iprobe-session\t2\n", "another version"},
		{"iprobe-session\n", "line 1: a number is missing"},
		{"iprobe-session\t1\n", "tsc_hz"},
		{"iprobe-session\t1\ntsc_hz\t0\n", "tsc_hz"},
		{HEAD "tsc_end\t999\n", "tsc_end"},
		{HEAD "pid\t-1\n", "line 4: a number is missing"},
		{HEAD "pid\t1x\n", "line 4: not a number"},
		{HEAD "pid\t18446744073709551616\n", "line 4: a number is out of range"},
		{HEAD "module\t0\ta\tb\t0\t1\n", "line 4: a module needs"},
		{HEAD "module\t8192\ta\tb\t0\t1\tc\n", "line 4: a number is out of range"},
		{HEAD MODULE MODULE, "line 5: a module that is there already"},
		{HEAD MODULE "function\t1\t0\tf\t\t0\n", "line 5: a function needs"},
		{HEAD MODULE "function\t0\t0\tf\t\t0\t-\n", "line 5: a function without"},
		{HEAD MODULE "function\t1\t0\t\t\t0\t-\n", "line 5: a function without"},
		{HEAD MODULE "function\t1\t1\tf\t\t0\t-\n", "line 5: a function of a module"},
		{HEAD MODULE "function\t2097152\t0\tf\t\t0\t-\n",
		 "line 5: a number is out of range"},
		{HEAD MODULE "function\t1\t0\tf\t\t0\t-\tx\n", "line 5: a number is missing"},
		{HEAD "stop\tattach\t1\t2\t3\n", "line 4: a number is missing"},
		{HEAD "thread\t4294967296\tx\n", "line 4: a number is out of range"},
		{HEAD "thread\t1\tx\t-1\n", "line 4: a number is missing"},
		{HEAD "no_events\tslept\n", "line 4: a reason needs"},
		{HEAD "exec\t1\n", "line 4: a number is missing"},
		{HEAD "stack\t1\t2\n", "line 4: a number is missing"},
		{HEAD "stack\t1\t2\t3\t4\n", "line 4: not a list of frames"},
		{HEAD "stack\t1\t2\t3\t4:5,-6:7\n", "line 4: not a list of frames"},
		{HEAD "stack\t1\t2\t3\t4:5;6:7\n", "line 4: not a list of frames"},
		{HEAD "stack\t1\t2\t3\t4:5:6\n", "line 4: not a list of frames"},
		{HEAD "stack\t1\t2\t3\t9999999:5\n", "line 4: not a list of frames"},
		{HEAD "missing\t1\t2\n", "line 4: a number is missing"},
	};
	struct ip_recording *s;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		assert_int_equal(
			ip_recording_parse("session", cases[i].text, strlen(cases[i].text), &s),
			-1);
		assert_error(cases[i].error);
		assert_error("session: ");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_numbers_of_one_function),
		cmocka_unit_test(test_many_functions),
		cmocka_unit_test(test_cut_off),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_thread_names),
		cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_no_events),
		cmocka_unit_test(test_refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
