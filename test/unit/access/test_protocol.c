/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to iprobed: what is understood, what is refused; and its policy.
 */
#include <stdio.h>
#include <stdlib.h>

#include "access/policy.h"
#include "access/protocol.h"
#include "test/unit/test.h"

static int parse(const char *text, struct ip_request *ret)
{
	return ip_request_parse(text, strlen(text), ret);
}

static void test_what_is_understood(void **state)
{
	struct ip_request r, again;
	char *text;

	(void)state;
	assert_int_equal(
		parse("iprobe 1\nattach 17\nleave\nmember\nshown x/a b\ndirectory a b\noption "
		      "--duration=10s\noption --json\n"
		      "option --drop-hot\noption --drop-hot=30\noption "
		      "--functions=a,!b,f(int, char)\noption --args\noption "
		      "--args=f(r->a, b)\noption --when=f: a > 1\n",
		      &r),
		0);
	assert_int_equal(r.what, IP_REQUEST_ATTACH);
	assert_int_equal(r.pid, 17);
	assert_true(r.leave && r.member);
	assert_string_equal(r.shown, "x/a b");
	assert_string_equal(r.directory, "a b");
	assert_int_equal(r.noptions, 8);
	assert_string_equal(r.options[0], "--duration=10s");
	assert_string_equal(r.options[4], "--functions=a,!b,f(int, char)");
	assert_string_equal(r.options[6], "--args=f(r->a, b)");
	text = ip_request_format(&r);
	assert_non_null(text);
	assert_int_equal(parse(text, &again), 0);
	assert_int_equal(again.noptions, 8);
	assert_string_equal(again.directory, r.directory);
	assert_true(again.leave && again.member);
	assert_string_equal(again.shown, "x/a b");
	free(text);
	ip_request_clear(&again);
	/* a part of a name must not become a line */
	strcpy(r.shown, "x\nb");
	text = ip_request_format(&r);
	assert_non_null(text);
	assert_int_equal(parse(text, &again), 0);
	assert_null(again.shown);
	free(text);
	ip_request_clear(&again);
	ip_request_clear(&r);
	/* without the last newline */
	assert_int_equal(parse("iprobe 1\ndetach 5\noption --no-stop", &r), 0);
	assert_int_equal(r.what, IP_REQUEST_DETACH);
	ip_request_clear(&r);
}

static void test_commands(void **state)
{
	static const struct {
		const char *text, *name;
		enum ip_request_what what;
		unsigned fds;
		bool changes;
	} cases[] = {
		{"attach 7", "attach", IP_REQUEST_ATTACH, 3, true},
		{"detach 7\noption --json", "detach", IP_REQUEST_DETACH, 2, true},
		{"status 7\noption --json", "status", IP_REQUEST_STATUS, 2, false},
		{"snapshot 7\ndirectory a", "snapshot", IP_REQUEST_SNAPSHOT, 3, false},
		{"top 7\noption --sort=calls\noption --limit=3\noption --batch", "top",
		 IP_REQUEST_TOP, 2, true},
		{"fperf 7\noption --events=a,b\noption --limit=3\noption --quiet", "fperf",
		 IP_REQUEST_FPERF, 2, true},
		/* the same word means another thing to each */
		{"attach 7\noption --stop", "attach", IP_REQUEST_ATTACH, 3, true},
		{"fperf 7\noption --stop", "fperf", IP_REQUEST_FPERF, 2, true},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		char text[128];
		struct ip_request r;
		char *again;

		snprintf(text, sizeof(text), "iprobe 1\n%s\n", cases[i].text);
		assert_int_equal(parse(text, &r), 0);
		assert_int_equal(r.what, cases[i].what);
		assert_int_equal(r.pid, 7);
		assert_string_equal(ip_request_name(r.what), cases[i].name);
		assert_int_equal(ip_request_fds(r.what), cases[i].fds);
		assert_int_equal(ip_request_changes(r.what), cases[i].changes);
		again = ip_request_format(&r);
		assert_string_equal(again, text);
		free(again);
		ip_request_clear(&r);
	}
}

static void test_what_is_refused(void **state)
{
	static const struct {
		const char *text, *error;
	} cases[] = {
		{"", "asks for nothing"},
		{"iprobe 2\nattach 1\n", "does not begin"},
		{"iprobe 1\n", "asks for nothing"},
		{"iprobe 1\nleave\nattach 1\n", "before what is asked for"},
		{"iprobe 1\nattach\n", "one process"},
		{"iprobe 1\nattach 0\n", "one process"},
		{"iprobe 1\nattach -1\n", "one process"},
		{"iprobe 1\nattach 1 2\n", "one process"},
		{"iprobe 1\nattach 1\ndetach 1\n", "one process"},
		{"iprobe 1\ndetach 1\nleave\n", "not understood"},
		{"iprobe 1\nstatus 1\nmember\n", "not understood"},
		{"iprobe 1\nsnapshot 1\nshown x\n", "not understood"},
		{"iprobe 1\nattach 1\nshown \n", "no path"},
		{"iprobe 1\nattach 1\nshown a\nshown b\n", "not understood"},
		{"iprobe 1\ndetach 1\ndirectory x\n", "not understood"},
		{"iprobe 1\nattach 1\ndirectory\n", "not understood"},
		{"iprobe 1\nattach 1\ndirectory \n", "no name of one directory"},
		{"iprobe 1\nattach 1\ndirectory a/b\n", "no name of one directory"},
		{"iprobe 1\nattach 1\ndirectory ..\n", "no name of one directory"},
		{"iprobe 1\nattach 1\ndirectory a\ndirectory b\n", "not understood"},
		{"iprobe 1\nattach 1\noption -f\n", "is no option"},
		{"iprobe 1\nattach 1\noption 17\n", "is no option"},
		{"iprobe 1\nattach 1\noption --\n", "not taken"},
		{"iprobe 1\nattach 1\noption --list=/x\n", "not taken"},
		{"iprobe 1\nattach 1\noption --output=/x\n", "not taken"},
		{"iprobe 1\nattach 1\noption --func=x\n", "not taken"},
		{"iprobe 1\nattach 1\noption --resume\n", "not taken"},
		{"iprobe 1\ndetach 1\noption --duration=1s\n", "not taken"},
		{"iprobe 1\nattach 1\noption --json=1\n", "takes no value"},
		{"iprobe 1\nattach 1\noption --duration\n", "lacks its value"},
		{"iprobe 1\nattach 1\noption --functions=@/etc/shadow\n", "read a file"},
		{"iprobe 1\nattach 1\noption --sample=5:@/etc/shadow\n", "read a file"},
		{"iprobe 1\nattach 1\noption --payload=hist:@/etc/shadow\n", "read a file"},
		{"iprobe 1\nattach 1\noption --payload=user:/x.so\n", "load a file"},
		{"iprobe 1\nattach 1\noption --memory=2G\n", "more than iprobed gives"},
		{"iprobe 1\nattach 1\noption --sort=calls\n", "not taken"},
		{"iprobe 1\nstatus 1\nleave\n", "not understood"},
		{"iprobe 1\nstatus 1\noption --output=/x\n", "not taken"},
		{"iprobe 1\nsnapshot 1\noption --output=x\n", "not taken"},
		{"iprobe 1\nsnapshot 1\noption --output=/x\n", "not taken"},
		{"iprobe 1\nsnapshot 1\ndirectory /x\n", "no name of one directory"},
		{"iprobe 1\nsnapshot 1\ndirectory x\ndirectory y\n", "not understood"},
		{"iprobe 1\nsnapshot 1\nleave\n", "not understood"},
		{"iprobe 1\nstatus 1\ndirectory x\n", "not understood"},
		{"iprobe 1\ntop 1\noption --functions=@/x\n", "read a file"},
		{"iprobe 1\nfperf 1\noption --memory=2G\n", "more than iprobed gives"},
		{"iprobe 1\nfperf 1\noption --output=/x\n", "not taken"},
		{"iprobe 1\nrun 1\n", "before what is asked for"},
		{"iprobe 1\nattach 1\n\n", "not understood"},
		{"iprobe 1\nattach 1\nmore\n", "not understood"},
	};
	struct ip_request r;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		ip_error("none");
		if (parse(cases[i].text, &r) != -1)
			fail_msg("taken: %s", cases[i].text);
		assert_error("request");
		assert_error(cases[i].error);
	}
	assert_int_equal(ip_request_parse("iprobe 1\nattach 1\n\0", 19, &r), -1);
	assert_error("zero byte");
}

static void test_policy(void **state)
{
	static const struct {
		const char *text, *error;
	} bad[] = {
		{"member: []", "p:1:1: unknown key 'member'"},
		{"members: {}", "p:1:10: entries for members are a list"},
		{"members: [{users: 5}]", "p:1:19: users are a list"},
		{"members: [{programs: [/x]}]", "p:1:11: an entry for members needs users"},
		{"members: [{users: [root]}]", "p:1:20: root's processes are for root alone"},
		{"members: [{users: [0]}]", "p:1:20: root's processes"},
		{"members: [{users: [no-such-user-here]}]", "p:1:20: no user"},
		{"members: [{users: [5], programs: [x]}]",
		 "p:1:35: a program is a glob of whole paths"},
		{"members: [{users: [5], program: [/x]}]", "p:1:24: unknown key 'program'"},
	};
	const char *good =
		"members:\n  - users: [71, 72]\n    programs: [/usr/sbin/a*]\n  - users: [73]\n";
	struct ip_target_credentials target = {.ids = {71, 71, 71, 1, 1, 1}, .dumpable = true};
	struct ip_policy p;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(bad); i++) {
		if (ip_policy_parse(bad[i].text, strlen(bad[i].text), "p", &p) != -1)
			fail_msg("taken: %s", bad[i].text);
		assert_error(bad[i].error);
	}
	assert_int_equal(ip_policy_parse(good, strlen(good), "p", &p), 0);
	assert_ptr_equal(ip_policy_find(&p, &target, "/usr/sbin/abc"), &p.entries[0]);
	assert_null(ip_policy_find(&p, &target, "/usr/bin/abc"));
	assert_error("does not list /usr/bin/abc of uid 71");
	target.ids.suid = 0;
	assert_null(ip_policy_find(&p, &target, "/usr/sbin/abc"));
	assert_error("whatever the policy says");
	target.ids = (struct ip_ids){73, 73, 73, 1, 1, 1};
	assert_ptr_equal(ip_policy_find(&p, &target, "/anything"), &p.entries[1]);
	target.ids = (struct ip_ids){74, 74, 74, 1, 1, 1};
	assert_null(ip_policy_find(&p, &target, "/usr/sbin/abc"));
	ip_policy_clear(&p);
	assert_int_equal(ip_policy_load("/nowhere/at/all", &p), 0);
	assert_int_equal(p.n, 0);
}

static void test_kernel(void **state)
{
	static const struct {
		const char *options;
		bool asked, optional;
		uint64_t buffer;
		bool keeps;	     /* the newest alone */
		const char *command; /* NULL: attach */
	} cases[] = {
		{"", false, false, 4 << 20},
		{"option --kernel\n", true, false, 4 << 20},
		{"option --kernel=sched,optional\n", true, true, 4 << 20},
		{"option --kernel=optional\noption --kernel\n", true, false, 4 << 20},
		{"option --kernel\noption --kernel=optional\n", true, true, 4 << 20},
		{"option --kernel=optional,nothing\n", true, false, 4 << 20},
		{"option --kernel-buffer=64K\noption --kernel=irq\n", true, false, 64 << 10},
		{"option --kernel\noption --overwrite\n", true, false, 4 << 20, true},
		{"option --kernel\n", true, true, 4 << 20, true, "top"},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct ip_request r;
		char text[256];
		uint64_t buffer;
		bool optional;

		snprintf(text, sizeof(text), "iprobe 1\n%s 5\n%s",
			 cases[i].command ? cases[i].command : "attach", cases[i].options);
		assert_int_equal(ip_request_parse(text, strlen(text), &r), 0);
		assert_int_equal(ip_request_kernel(&r, &buffer, &optional), cases[i].asked);
		assert_int_equal(optional, cases[i].optional);
		assert_int_equal(buffer, cases[i].buffer);
		assert_int_equal(ip_request_keeps_newest(&r), cases[i].keeps);
		ip_request_clear(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_understood),
		cmocka_unit_test(test_commands),
		cmocka_unit_test(test_what_is_refused),
		cmocka_unit_test(test_policy),
		cmocka_unit_test(test_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
