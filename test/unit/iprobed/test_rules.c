/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules of probes.d: what is taken, where what is refused is wrong, which processes they are for,
 * and the arithmetic of their conditions.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/condition.h"
#include "config/probes_d.h"
#include "config/rule_search.h"
#include "config/rule_text.h"
#include "hotpatcher/ptrace/stop.h"
#include "iprobed/rules/cmdline_reader.h"
#include "iprobed/rules/job.h"
#include "iprobed/rules/match.h"
#include "iprobed/rules/members.h"
#include "iprobed/rules/rate_limit.h"
#include "iprobed/rules/rules.h"
#include "iprobed/rules/service.h"
#include "test/unit/probes_d_text.h"
#include "test/unit/test.h"

#define SECOND 1000000000ull

static void test_what_is_taken(void **state)
{
	struct ip_probes_d p = {0};
	const struct ip_rules_rule *r;

	(void)state;
	if (add(&p, "selections: {some: x}\n"
		    "profiles: {faults: {}}\n"
		    "rules:\n"
		    "  slow:\n"
		    "    description: what it is for\n"
		    "    match: {exe: [server, '/opt/*'], user: 1000, cmdline: '*-x*', cgroup: "
		    "'/a/*', unit: "
		    "b.service}\n"
		    "    when:\n"
		    "      latency: {functions: ['@some', f], p99: '> 10ms', over: 2s}\n"
		    "      cpu: '> 90% for 5s'\n"
		    "    do: {trace: {functions: '*', args: true, memory: 16M}}\n"
		    "    for: 200ms\n"
		    "    every: 10m\n"
		    "    at_most: 3 per 2h\n"
		    "    overhead: 1.5%\n"
		    "    disk: 100M\n"
		    "    processes: 4\n"
		    "    record: service\n"
		    "  short: {match: {exe: x}, when: start, do: trace}\n"
		    "  asked: {match: {exe: x}, when: request, do: {fperf: faults}, enabled: no}\n"
		    "  flight:\n"
		    "    match: {exe: x}\n"
		    "    when: {every: 10m, signal: SIGUSR2, pressure: {memory: '> 10%', io_full: "
		    "'>1% for "
		    "1m'}, memory: '>2G'}\n"
		    "    do: {snapshot: '@some'}\n"
		    "  request:\n"
		    "    match: {exe: x}\n"
		    "    when: start\n"
		    "    do: {trace: {args: ['f(r->uri, n=a[1])', 'g(b)'], retval: 'f(retval)', "
		    "when: 'f: n > 1'}}\n") < 0)
		fail_msg("%s", ip_error_message());
	assert_int_equal(ip_probes_d_check(&p), 0);
	assert_int_equal(p.nrules, 5);
	r = ip_probes_d_rule(&p, "request");
	assert_true(!r->args && !r->retval && r->args_of.n == 2 && r->retval_of.n == 1 &&
		    r->when.n == 1);
	assert_string_equal(r->args_of.items[0], "f(r->uri, n=a[1])");
	assert_string_equal(r->when.items[0], "f: n > 1");
	r = ip_probes_d_rule(&p, "slow");
	assert_true(r->enabled && r->args && !r->retval && r->action == IP_RULES_TRACE);
	assert_int_equal(r->exe.n, 2);
	assert_string_equal(r->exe.items[1], "/opt/*");
	assert_string_equal(r->until, "p99>10ms/2s:@some,f");
	assert_string_equal(r->latency, "@some,f");
	assert_true(r->cpu.set && r->cpu.limit == 90 && r->cpu.for_ns == 5 * SECOND);
	assert_string_equal(r->functions, "*");
	assert_int_equal(r->ring, 16 << 20);
	assert_int_equal(r->for_ns, SECOND / 5);
	assert_true(r->at_most == 3 && r->per_ns == 7200 * SECOND);
	assert_true(r->cooldown_ns == 600 * SECOND && !r->every_ns);
	assert_true(r->overhead_percent == 1.5 && r->disk == 100 << 20 && r->processes == 4);
	assert_true(r->service);
	assert_int_equal(r->line, 4);
	assert_true(ip_rules_watches(r));
	r = ip_probes_d_rule(&p, "short");
	assert_true(r->start && !r->service && !r->functions && r->for_ns == IP_RULES_FOR &&
		    r->disk == IP_RULES_DISK);
	assert_true(r->at_most == 10 &&
		    r->per_ns == 3600 * SECOND); /* a condition that may come again and again */
	assert_false(ip_rules_watches(r));
	r = ip_probes_d_rule(&p, "asked");
	assert_true(r->request && !r->enabled && !r->at_most && r->action == IP_RULES_FPERF);
	assert_string_equal(r->profile, "faults");
	r = ip_probes_d_rule(&p, "flight");
	assert_true(r->every_ns == 600 * SECOND && !r->cooldown_ns && r->signal == SIGUSR2 &&
		    r->memory.limit == 2.0 * (1u << 30));
	assert_true(r->pressure[IP_RULES_PRESSURE_MEMORY].set &&
		    !r->pressure[IP_RULES_PRESSURE_IO].set);
	assert_true(r->pressure[IP_RULES_PRESSURE_IO_FULL].for_ns == 60 * SECOND);
	assert_true(r->action == IP_RULES_SNAPSHOT && ip_rules_watches(r));
	assert_int_equal(add(&p, "rules: {slow: {}}"), -1);
	assert_error("f.yaml:1:9: there is a rule 'slow' already, at f.yaml:4");
	ip_probes_d_clear(&p);
}

static const struct ip_rules_rule *search_rule(struct ip_probes_d *p, const char *rest)
{
	char text[512];

	snprintf(text, sizeof(text), "rules: {a: {match: {exe: x}, %s}}", rest);
	if (add(p, text) < 0)
		fail_msg("%s: %s", text, ip_error_message());
	return &p->rules[0];
}

/* What do: darc says, and what follows from the rest of the rule. */
static void test_searches(void **state)
{
	struct ip_probes_d p = {0};
	const struct ip_rules_rule *r = search_rule(
		&p, "when: {latency: {functions: f, p99: '> 10ms'}}, do: darc, kernel: true");
	char *text;

	(void)state;
	assert_true(r->action == IP_RULES_DARC && !r->functions && ip_rules_watches(r));
	assert_true(ip_rules_search_slower(r) == SECOND / 100 && r->for_ns == 60 * SECOND);
	assert_int_equal(ip_rules_search_room(r), 6 * (64ull << 20));
	assert_true(r->at_most == 10 && !r->search.html && !r->search.percentile);
	text = ip_rules_text(r);
	assert_non_null(strstr(text, ": the root causes of slow calls of f (10ms or longer), with "
				     "events of the kernel"));
	assert_non_null(strstr(text, "\nfor 1m at most, "));
	free(text);
	ip_probes_d_clear(&p);

	r = search_rule(&p,
			"when: {latency: {functions: f, calls: '> 10'}}, do: {darc: {function: "
			"g, html: true, budget: 2%, depth: 8, decision_ops: 30, start_ops: 200, "
			"max_functions: 50, maxcount_percentage: 0, memory: 8M}}, for: 5s, "
			"overhead: 1%");
	assert_string_equal(r->functions, "g");
	assert_true(!ip_rules_search_slower(r) && r->search.html && r->for_ns == 5 * SECOND);
	assert_true(r->search.budget_percent == 2 && r->search.depth == 8 &&
		    r->search.decision_ops == 30 && r->search.start_ops == 200 &&
		    r->search.max_functions == 50 && r->ring == 8u << 20);
	assert_string_equal(r->search.maxcount_percentage, "0");
	text = ip_rules_text(r);
	assert_non_null(strstr(text, "calls of g (rightmost peak), budget 2%, memory 8.0 MiB"));
	free(text);
	ip_probes_d_clear(&p);

	r = search_rule(&p, "when: {latency: {functions: f, max: '> 1s'}}, do: {darc: "
			    "{percentile: p99.9}}");
	assert_int_equal(ip_rules_search_slower(r), 0);
	assert_string_equal(r->search.percentile, "p99.9");
	ip_probes_d_clear(&p);
	r = search_rule(&p, "when: {latency: {functions: f, mean: '> 1s'}}, do: {darc: "
			    "{slower_than: 3ms}}");
	assert_int_equal(ip_rules_search_slower(r), 3000000);
	ip_probes_d_clear(&p);
	r = search_rule(&p, "when: request, do: {darc: f}");
	assert_true(!ip_rules_search_slower(r) && !ip_rules_watches(r));
	assert_string_equal(r->functions, "f");
	ip_probes_d_clear(&p);
}

#define RULE(match, when, do, more)                                                                \
	"rules: {a: {match: {" match "}, when: {" when "}, do: " do "" more "}}"

static void test_what_is_wrong_and_where(void **state)
{
	static const struct refused cases[] = {
		{"rules: [a]", "f.yaml:1:8: rules are written by name"},
		{"rules: {a: b}", "f.yaml:1:12: a rule is written as lines of"},
		{"rules:\n  'a b': {}", "f.yaml:2:3: 'a b' is no name for a rule"},
		{"rules:\n  a:\n    wen: start\n", "f.yaml:3:5: unknown key 'wen'; a rule has "
						   "description, enabled, match, when, do, for"},
		{"rules: {a: {when: start, do: trace}}", "f.yaml:1:9: the rule 'a' has no match"},
		{"rules: {a: {match: {exe: x}, do: trace}}", "the rule 'a' has no when"},
		{"rules: {a: {match: {exe: x}, when: start}}", "the rule 'a' has no do"},
		{"rules: {a: {match: {}, when: start, do: trace}}",
		 "f.yaml:1:20: match names no process"},
		{RULE("exe: []", "start: true", "trace", ""), "f.yaml:1:26: exe is empty"},
		{RULE("pid: 1", "start: true", "trace", ""),
		 "f.yaml:1:21: unknown key 'pid'; match has exe, cmdline, user"},
		{RULE("exe: x", "", "trace", ""), "f.yaml:1:36: when is never"},
		{"rules: {a: {match: {exe: x}, when: now, do: trace}}",
		 "f.yaml:1:36: when is written as"},
		{RULE("exe: x", "start: maybe", "trace", ""),
		 "f.yaml:1:44: start is true or false"},
		{RULE("exe: x", "every: 10ms", "trace", ""),
		 "f.yaml:1:44: every second at the most"},
		{RULE("exe: x", "cpu: 90%", "trace", ""),
		 "f.yaml:1:42: cpu: a level is written as '> 90%'"},
		{RULE("exe: x", "cpu: '> 90'", "trace", ""), "f.yaml:1:42: cpu: '90' is no share"},
		{RULE("exe: x", "cpu: '> nan%'", "trace", ""), "is no share"},
		{RULE("exe: x", "cpu: '> 0%'", "trace", ""), "is no share"},
		{RULE("exe: x", "cpu: '> 90% since 5s'", "trace", ""),
		 "cpu: 'since 5s' is not understood"},
		{RULE("exe: x", "cpu: '> 90% for'", "trace", ""), "'for' is not understood"},
		{RULE("exe: x", "cpu: '> 90% for 5y'", "trace", ""), "f.yaml:1:42: cpu: "},
		{RULE("exe: x", "memory: '> 90%'", "trace", ""), "f.yaml:1:45: memory: "},
		{RULE("exe: x", "memory: '> 0'", "trace", ""),
		 "will never be passed, or always is"},
		{RULE("exe: x", "pressure: {}", "trace", ""), "f.yaml:1:47: pressure of what?"},
		{RULE("exe: x", "pressure: {disk: '> 1%'}", "trace", ""),
		 "unknown key 'disk'; pressure has cpu, memory, io, memory_full, io_full"},
		{RULE("exe: x", "pressure: {io: '> 101%'}", "trace", ""), "will never be passed"},
		{RULE("exe: x", "latency: {p99: '> 10ms'}", "trace", ""),
		 "f.yaml:1:46: latency of which functions?"},
		{RULE("exe: x", "latency: {functions: f}", "trace", ""), "latency has no limit"},
		{RULE("exe: x", "latency: {functions: f, p99: '> 1ms', p50: '> 1ms'}", "trace", ""),
		 "p50 and p99: one of them"},
		{RULE("exe: x", "latency: {functions: f, p99: 10ms}", "trace", ""),
		 "p99 is written as '> 10ms'"},
		{RULE("exe: x", "latency: {functions: f, p99: '> x'}", "trace", ""),
		 "f.yaml:1:66: p99: "},
		{RULE("exe: x", "latency: {functions: f, p99: '> 0s'}", "trace", ""),
		 "a limit of 0"},
		{RULE("exe: x", "latency: {functions: f, p99: '> 1ms/2s'}", "trace", ""),
		 "a number and its unit"},
		{RULE("exe: x", "latency: {functions: f, p99: '> 1ms', over: 1ms}", "trace", ""),
		 "f.yaml:1:81: over: latency is judged over 100ms to 60s"},
		{RULE("exe: x", "latency: {functions: f, p99: '> 1ms', over: x}", "trace", ""),
		 "f.yaml:1:81: over: 'x' is no duration"},
		{RULE("exe: x", "latency: {functions: f, calls: '> 1ms'}", "trace", ""),
		 "is no number of calls"},
		{RULE("exe: x", "latency: {functions: 'x,,y', p99: '> 1ms'}", "trace", ""),
		 "f.yaml:1:58: selection: empty item"},
		{RULE("exe: x", "signal: KILL", "trace", ""),
		 "f.yaml:1:45: signal is USR1 or USR2"},
		{RULE("exe: x", "start: true", "dance", ""),
		 "f.yaml:1:55: do is one of trace, hist, fperf, snapshot and darc"},
		{RULE("exe: x", "start: true", "{trace: x, hist: y}", ""), "do is one of"},
		{RULE("exe: x", "start: true", "{trace: {function: x}}", ""),
		 "unknown key 'function'; trace has functions, args, retval, when, memory"},
		{RULE("exe: x", "start: true", "{trace: {args: [\"f(r->)\"]}}", ""),
		 "args: --args f(r->): 'r->': a name is missing"},
		{RULE("exe: x", "start: true", "{trace: {args: maybe}}", ""), "args"},
		{RULE("exe: x", "start: true", "{trace: {when: [a, a, a, a, a, a, a, a, a]}}", ""),
		 "when has more than 8 items"},
		{RULE("exe: x", "start: true", "{hist: {when: a}}", ""), "unknown key 'when'"},
		{RULE("exe: x", "start: true", "{hist: 'x,,y'}", ""), "selection: empty item"},
		{RULE("exe: x", "start: true", "fperf", ""), "fperf by which profile?"},
		{RULE("exe: x", "start: true", "{snapshot: {memory: 1k}}", ""),
		 "memory: 1.0 MiB at least"},
		{RULE("exe: x", "start: true", "{snapshot: {when: 'f: n > 1'}}", ""),
		 "a flight recorder (iprobe attach --overwrite) takes no filters"},
		{RULE("exe: x", "start: true", "{snapshot: {args: [\"f(r->)\"]}}", ""),
		 "args: --args f(r->): 'r->': a name is missing"},
		{RULE("exe: x", "start: true", "{snapshot: {profile: x}}", ""),
		 "unknown key 'profile'; snapshot has functions, args, retval, memory"},
		{RULE("exe: x", "start: true", "{snapshot: {memory: 16M}}", ", disk: 20M"),
		 "memory is more than half of disk"},
		{RULE("exe: x", "start: true", "snapshot", ", overhead: 1%"),
		 "a flight recorder records all the time"},
		{RULE("exe: x", "latency: {functions: f, p99: '> 1ms'}", "snapshot",
		      ", overhead: 1%"),
		 "a flight recorder records all the time"},
		{RULE("exe: x", "start: true", "darc", ""), "f.yaml:1:55: darc of which function?"},
		{RULE("exe: x", "start: true", "{darc: {functions: f}}", ""),
		 "f.yaml:1:63: unknown key 'functions'; darc has function, slower_than"},
		{RULE("exe: x", "start: true", "{darc: 'x,,y'}", ""), "selection: empty item"},
		{RULE("exe: x", "start: true", "{darc: {function: f, slower_than: 0s}}", ""),
		 "slower_than is nothing"},
		{RULE("exe: x", "start: true", "{darc: {function: f, slower_than: x}}", ""),
		 "slower_than: 'x' is no duration"},
		{RULE("exe: x", "start: true",
		      "{darc: {function: f, percentile: p99, slower_than: 1ms}}", ""),
		 "slower_than and percentile: one of them"},
		{RULE("exe: x", "start: true", "{darc: {function: f, peak: 1, percentile: p99}}",
		      ""),
		 "percentile and peak: one of them"},
		{RULE("exe: x", "start: true", "{darc: {function: f, percentile: p100}}", ""),
		 "percentile is p50, p99, p99.9 and the like, not 'p100'"},
		{RULE("exe: x", "start: true", "{darc: {function: f, percentile: p0x1}}", ""),
		 "percentile is p50"},
		{RULE("exe: x", "start: true", "{darc: {function: f, peak: 0}}", ""),
		 "peak is a number from 1 to 1000000000, not '0'"},
		{RULE("exe: x", "start: true", "{darc: {function: f, decision_ops: -1}}", ""),
		 "decision_ops is a number from 1"},
		{RULE("exe: x", "start: true", "{darc: {function: f, start_ops: [1]}}", ""),
		 "start_ops is a single value"},
		{RULE("exe: x", "start: true", "{darc: {function: f, depth: 1001}}", ""),
		 "depth is a number from 1 to 1000, not '1001'"},
		{RULE("exe: x", "start: true", "{darc: {function: f, max_functions: 1.5}}", ""),
		 "max_functions is a number from 1"},
		{RULE("exe: x", "start: true", "{darc: {function: f, maxcount_percentage: 101}}",
		      ""),
		 "maxcount_percentage is a number from 0 to 100, not '101'"},
		{RULE("exe: x", "start: true", "{darc: {function: f, budget: 0.001%}}", ""),
		 "budget is a share of run time from 0.01% to 100%, such as 2%, not '0.001%'"},
		{RULE("exe: x", "start: true", "{darc: {function: f, budget: 500/s}}", ""),
		 "budget is a share of run time"},
		{RULE("exe: x", "start: true", "{darc: {function: f, html: maybe}}", ""),
		 "html is true or false"},
		{RULE("exe: x", "start: true", "{darc: {function: f, memory: 1k}}", ""),
		 "memory: 1.0 MiB at least"},
		{RULE("exe: x", "start: true", "{darc: f}", ", record: service"),
		 "darc searches one process"},
		{RULE("exe: x", "start: true", "{darc: f}", ", overhead: 0.001%"),
		 "the budget of darc is 0.01% at least"},
		{RULE("exe: x", "start: true", "{darc: f}", ", disk: 100M"),
		 "the recordings of a search take up to 192.0 MiB while it goes on, which is more"},
		{RULE("exe: x", "start: true", "{darc: {function: f, memory: 100M}}",
		      ", kernel: true"),
		 "take up to 600.0 MiB"},
		{RULE("exe: x", "start: true", "hist", ", kernel: true"),
		 "kernel goes with do: trace, or do: darc"},
		{RULE("exe: x", "start: true", "trace", ", for: 0s"), "for is nothing"},
		{RULE("exe: x", "start: true", "trace", ", for: 2h"), "for is an hour at most"},
		{RULE("exe: x", "start: true", "trace", ", at_most: 3"),
		 "at_most: how often is written as '3 per 1h'"},
		{RULE("exe: x", "start: true", "trace", ", every: often"), "every"},
		{RULE("exe: x", "start: true", "trace", ", at_most: 0 per 1h"),
		 "at_most: how often"},
		{RULE("exe: x", "start: true", "trace", ", at_most: 3 per 0s"),
		 "at_most: how often"},
		{RULE("exe: x", "start: true", "trace", ", overhead: 0%"), "overhead is a share"},
		{RULE("exe: x", "start: true", "{fperf: x}", ", overhead: 0.001%"),
		 "f.yaml:1:77: fperf's budget is 0.01% at least"},
		{RULE("exe: x", "start: true", "trace", ", disk: 1k"), "disk: 1.0 MiB at least"},
		{RULE("exe: x", "start: true", "trace", ", processes: 0"),
		 "processes is a number from 1 to 1000"},
		{RULE("exe: x", "start: true", "trace", ", processes: 1.5"),
		 "processes is a number from 1 to 1000"},
		{RULE("exe: x", "start: true", "trace", ", record: all"),
		 "record is process or service, not 'all'"},
		{RULE("exe: x", "start: true", "trace", ", record: [service]"), "record"},
		{RULE("exe: x", "latency: {functions: f, calls: '> 1'}", "snapshot",
		      ", record: service"),
		 "writes its own process's trace"},
		{RULE("exe: x", "start: false, request: false", "trace", ""),
		 "f.yaml:1:36: when is never"},
	};

	(void)state;
	assert_refused(cases, N_ELEMENTS(cases));
}

static void test_references(void **state)
{
	static const struct refused bad[] = {
		{RULE("exe: x", "start: true", "{fperf: none}", ""),
		 "f.yaml:1:9: no profile 'none'"},
		{RULE("exe: x", "start: true", "{trace: '@none'}", ""),
		 "f.yaml:1:9: selection: '@none': no selection of that name"},
		{RULE("exe: x", "latency: {functions: '@none', p99: '> 1ms'}", "trace", ""),
		 "'@none': no selection of that name"},
	};

	(void)state;
	assert_unresolved(bad, N_ELEMENTS(bad));
}

static bool matches(const char *match, const struct ip_rules_process *process)
{
	struct ip_probes_d p = {0};
	char text[512];
	bool is;

	snprintf(text, sizeof(text), "rules: {a: {match: {%s}, when: start, do: trace}}", match);
	if (add(&p, text) < 0)
		fail_msg("%s: %s", text, ip_error_message());
	is = ip_rules_match(&p.rules[0], process);
	ip_probes_d_clear(&p);
	return is;
}

static void test_matching(void **state)
{
	const struct ip_rules_process p = {
		.pid = 1,
		.uid = 0,
		.exe = (char *)"/usr/sbin/nginx",
		.cmdline = (char *)"nginx: worker process",
		.cgroup = (char *)"2:cpu:/old\n0::/system.slice/nginx.service/part\n"};
	static const char *const good[] = {"exe: nginx",
					   "exe: '/usr/*'",
					   "exe: [a, 'ngin?']",
					   "cmdline: '*worker*'",
					   "user: 0",
					   "user: root",
					   "user: [x-none, root]",
					   "cgroup: '/system.slice/*'",
					   "cgroup: /old",
					   "unit: nginx.service",
					   "unit: 'part'",
					   "exe: nginx, user: root, unit: 'nginx*'"};
	static const char *const bad[] = {
		"exe: ngin",	      "exe: usr",    "exe: /usr/sbin",
		"cmdline: worker",    "user: 1",     "user: x-none",
		"cgroup: nginx*",     "unit: nginx", "unit: system.slice/nginx.service",
		"exe: nginx, user: 1"};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(good); i++)
		if (!matches(good[i], &p))
			fail_msg("does not match: %s", good[i]);
	for (size_t i = 0; i < N_ELEMENTS(bad); i++)
		if (matches(bad[i], &p))
			fail_msg("matches: %s", bad[i]);
}

static void test_processes(void **state)
{
	struct ip_rules_reader reader = {0};
	struct ip_rules_process p;
	struct ip_rules_stat stat;

	(void)state;
	assert_int_equal(ip_rules_stat_parse("1 (a b) S) R 2 3 4 5 6 7 8 9 10 11 200 100 14 15 16 "
					     "17 18 19 4711 20 300 21 22\n",
					     &stat),
			 0);
	assert_int_equal(stat.state, 'R');
	assert_int_equal(stat.parent, 2);
	assert_int_equal(stat.start, 4711);
	assert_int_equal(stat.cpu_ns, 300 * (SECOND / sysconf(_SC_CLK_TCK)));
	assert_int_equal(stat.resident, 300 * sysconf(_SC_PAGESIZE));
	assert_int_equal(ip_rules_stat_parse("1 (a", &stat), -1);
	assert_int_equal(ip_rules_stat_parse("1 (a) S 1 2", &stat), -1);
	assert_int_equal(ip_rules_process_read(getpid(), &p), 0);
	assert_null(p.cmdline);
	assert_int_equal(ip_rules_cmdline_read(&reader, &p), 0);
	assert_true(p.start && p.uid == getuid() && strstr(p.exe, "iprobed_test_rules") &&
		    strstr(p.cmdline, "iprobed_test_rules"));
	ip_rules_process_clear(&p);
	assert_int_equal(ip_rules_process_read(0x7fffffff, &p), -1);
	ip_rules_reader_close(&reader);
}

/* One child for all of them; where it is stopped it is given up, where it has gone it is replaced,
 * and nothing is left of it. */
static void test_command_lines(void **state)
{
	struct ip_rules_reader reader = {0};
	struct ip_rules_process p[4] = {
		{.pid = getpid()}, {.pid = getpid()}, {.pid = getpid()}, {.pid = 0x7fffffff}};
	pid_t first;

	(void)state;
	assert_int_equal(ip_rules_cmdline_read(&reader, &p[0]), 0);
	first = reader.pid;
	assert_int_equal(ip_rules_cmdline_read(&reader, &p[3]), 0);
	assert_string_equal(p[3].cmdline, "");
	assert_int_equal(reader.pid, first);
	kill(first, SIGSTOP);
	assert_int_equal(ip_rules_cmdline_read(&reader, &p[1]), -1);
	assert_error("its command line cannot be read in time");
	assert_true(!reader.pid && !p[1].cmdline);
	assert_int_equal(ip_rules_cmdline_read(&reader, &p[1]), 0);
	assert_string_equal(p[1].cmdline, p[0].cmdline);
	kill(reader.pid, SIGKILL);
	assert_int_equal(ip_rules_cmdline_read(&reader, &p[2]), 0);
	assert_string_equal(p[2].cmdline, p[0].cmdline);
	ip_rules_reader_close(&reader);
	while (waitpid(-1, NULL, 0) > 0)
		;
	for (size_t i = 0; i < N_ELEMENTS(p); i++)
		ip_rules_process_clear(&p[i]);
}

static void test_pressure(void **state)
{
	static const char text[] = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\n"
				   "full avg10=0.00 avg60=0.00 avg300=0.00 total=99\n";
	uint64_t us;

	(void)state;
	assert_int_equal(ip_rules_pressure_parse(text, false, &us), 0);
	assert_int_equal(us, 1234);
	assert_int_equal(ip_rules_pressure_parse(text, true, &us), 0);
	assert_int_equal(us, 99);
	assert_int_equal(ip_rules_pressure_parse("some avg10=0.00\nfull total=1\n", false, &us),
			 -1);
	assert_int_equal(ip_rules_pressure_parse("some total=1\n", true, &us), -1);
	assert_int_equal(ip_rules_pressure_parse("some total=x\n", false, &us), -1);
	assert_int_equal(ip_rules_pressure_parse("", false, &us), -1);
}

static void test_levels(void **state)
{
	const struct ip_rules_level level = {.set = true, .limit = 90, .for_ns = 5 * SECOND},
				    once = {.set = true, .limit = 90};
	struct ip_rules_above hold = {0};

	(void)state;
	/* the value is of the time between two looks, so what is above begins with the first of
	 * them */
	assert_false(ip_rules_above(&level, &hold, 95, 10 * SECOND, 11 * SECOND));
	assert_false(ip_rules_above(&level, &hold, 91, 11 * SECOND, 14 * SECOND));
	assert_true(ip_rules_above(&level, &hold, 91, 14 * SECOND, 15 * SECOND));
	assert_true(ip_rules_above(&level, &hold, 91, 15 * SECOND, 16 * SECOND));
	assert_false(ip_rules_above(&level, &hold, 90, 16 * SECOND, 17 * SECOND)); /* not above */
	assert_false(ip_rules_above(&level, &hold, 99, 17 * SECOND, 21 * SECOND));
	assert_true(ip_rules_above(&level, &hold, 99, 21 * SECOND, 22 * SECOND));
	hold = (struct ip_rules_above){0};
	assert_true(ip_rules_above(&once, &hold, 90.1, SECOND, SECOND));
}

static void assert_service(const char *exe, const char *cgroup, const char *expected)
{
	const struct ip_rules_process p = {.exe = (char *)exe, .cgroup = (char *)cgroup};
	char *name = ip_rules_service_name(&p);

	assert_string_equal(name, expected);
	assert_true(ip_rules_service_id(name));
	free(name);
}

static void test_names_of_services(void **state)
{
	(void)state;
	assert_service("/usr/sbin/nginx", "0::/system.slice/nginx.service\n",
		       "/usr/sbin/nginx in nginx.service");
	assert_service("/a",
		       "0::/user.slice/user-0.slice/user@0.service/app.slice/web.service/part\n",
		       "/a in web.service");
	assert_service("/a", "0::/system.slice/docker-0f.scope\n", "/a in docker-0f.scope");
	assert_service("/a", "1:cpu:/\n0::/b.service\n", "/a in b.service");
	/* no unit: a name must come before the suffix, and behind a slash */
	assert_service("/a", "0::/x/.service\n", "/a");
	assert_service("/a", "0::/\n", "/a");
	assert_service("/a", "", "/a");
	/* it becomes a line of why.txt */
	assert_service("/a\nb", "", "/a?b");
}

static void assert_unit(const char *cgroup, const char *expected)
{
	const struct ip_rules_process p = {.cgroup = (char *)cgroup};
	char *unit = ip_rules_service_unit(&p);

	assert_string_equal(unit, expected);
	free(unit);
}

/* The whole path: each user has a unit of that name. */
static void test_units(void **state)
{
	(void)state;
	assert_unit("0::/system.slice/nginx.service\n", "/system.slice/nginx.service");
	assert_unit("3:cpu:/x\n0::/user.slice/user@7.service/app.slice/web.service/part\n",
		    "/user.slice/user@7.service/app.slice/web.service");
	assert_unit("0::/lxc/one\n", "0::/lxc/one\n");
	assert_unit("", "");
}

/* Targets of a rule that records services, each with its parent; and one of another rule. */
static void test_members(void **state)
{
	static struct {
		const char *exe, *unit;
		pid_t pid, parent;
		unsigned long long start;
		uid_t uid;
		uid_t owner; /* expected */
	} rows[] = {{"/a", "/s", 10, 1, 5, 0, 0},    {"/a", "/s", 11, 10, 6, 33, 0},
		    {"/a", "/s", 12, 11, 7, 34, 0},  {"/a", "/s", 13, 1, 7, 33, 33},
		    {"/b", "/s", 14, 10, 7, 33, 33}, {"/a", "/t", 15, 10, 7, 33, 33},
		    {"/a", "/s", 16, 10, 4, 33, 33}}; /* there before its parent */
	const struct ip_rules_rule rule = {.service = true}, single = {0};
	struct ip_rules_state of_service = {.rule = &rule}, of_process = {.rule = &single};
	struct ip_rules_target targets[N_ELEMENTS(rows)] = {0}, *list[N_ELEMENTS(rows)];
	struct ip_rules_arm arms[N_ELEMENTS(rows)] = {0};
	struct ip_rules_options options = {.state = "/nonexistent"};
	struct ip_rules e = {.targets = list,
			     .ntargets = N_ELEMENTS(rows),
			     .unsorted = true,
			     .options = &options};
	struct ip_rules_members members;
	size_t left_out;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
		targets[i].process = (struct ip_rules_process){.pid = rows[i].pid,
							       .parent = rows[i].parent,
							       .start = rows[i].start,
							       .uid = rows[i].uid,
							       .exe = (char *)rows[i].exe};
		targets[i].unit = (char *)rows[i].unit;
		arms[i].state = &of_service;
		targets[i].arms = &arms[i];
		targets[i].narms = 1;
		list[i] = &targets[i];
	}
	ip_rules_members_sort(&e);
	assert_false(e.unsorted);
	for (size_t i = 0; i < N_ELEMENTS(rows); i++)
		assert_int_equal(targets[i].owner, rows[i].owner);
	assert_true(ip_rules_members_same(&targets[0], &targets[2], &of_service));
	assert_false(ip_rules_members_same(&targets[0], &targets[2], &of_process));
	assert_false(ip_rules_members_same(&targets[1], &targets[3], &of_service));
	assert_false(ip_rules_members_same(&targets[3], &targets[4], &of_service));
	assert_false(ip_rules_members_same(&targets[3], &targets[5], &of_service));
	assert_true(ip_rules_members_same(&targets[3], &targets[6], &of_service));
	assert_true(ip_rules_members_is_first(&e, &targets[0], &of_service));
	assert_false(ip_rules_members_is_first(&e, &targets[1], &of_service));
	/* it claims the two others; one whose watch has not ended is waited for */
	targets[1].doing = IP_RULES_WATCH;
	assert_false(ip_rules_members_claim(&e, &targets[0], &of_service));
	assert_true(targets[1].lead == &targets[0] && targets[2].lead == &targets[0]);
	assert_true(ip_rules_members_hold(&e, &targets[1]));
	/* another leader waits, and claims nobody */
	assert_false(ip_rules_members_claim(&e, &targets[1], &of_service));
	assert_null(targets[0].lead);
	targets[1].doing = IP_RULES_NOTHING;
	assert_true(ip_rules_members_claim(&e, &targets[0], &of_service));
	assert_int_equal(ip_rules_members_led(&e, &targets[0], &of_service, &members), 0);
	assert_true(members.n == 3 && members.service && members.pids[2] == 12);
	ip_rules_members_clear(&members);
	/* what is recorded for another rule is left out, and so is what has ended */
	targets[1].doing = IP_RULES_ACT;
	assert_true(ip_rules_members_claim(&e, &targets[0], &of_service));
	assert_int_equal(ip_rules_members_count(&e, &targets[0], &of_service, &left_out), 2);
	assert_true(left_out == 1 && !targets[1].lead);
	targets[2].gone = true;
	assert_true(ip_rules_members_claim(&e, &targets[0], &of_service));
	assert_null(targets[2].lead);
	ip_rules_members_release(&e, &targets[0]);
	/* fired for, by another member */
	assert_false(ip_rules_members_are_waiting(&e, &targets[0], &of_service));
	targets[1].by = &arms[1];
	assert_true(ip_rules_members_are_waiting(&e, &targets[0], &of_service));
	assert_false(ip_rules_members_are_waiting(&e, &targets[3], &of_service));
	/* one that is found while its service is recorded is joined, and free afterwards */
	targets[1].nmembers = 2;
	ip_rules_count_acting(&e);
	assert_true(e.acting == 1 && e.leading == 1);
	assert_false(ip_rules_members_hold(&e, &targets[3]));
	assert_true(ip_rules_members_hold(&e, &targets[0]));
	assert_true(targets[0].lead == &targets[1] && targets[0].doing == IP_RULES_JOINED);
	assert_false(ip_rules_target_rests(&targets[0]));
	ip_rules_members_end(&e, &targets[1], true);
	assert_true(!targets[0].lead && targets[0].doing == IP_RULES_NOTHING);
	assert_true(ip_rules_members_hold(&e, &targets[0]));
	ip_rules_members_end(&e, &targets[1], false);
	assert_int_equal(targets[0].doing, IP_RULES_CLEAN);
}

/* Two services and a cool-down of 10 s, which two episodes in 100 s may begin. */
static void test_services(void **state)
{
	struct ip_rules_rule rule = {
		.at_most = 2, .per_ns = 100 * SECOND, .cooldown_ns = 10 * SECOND};
	struct ip_rules_services s = {0};
	bool every;

	(void)state;
	assert_int_equal(ip_rules_service_wait(&s, &rule, 7, 1000 * SECOND, &every), 0);
	ip_rules_service_fired(&s, &rule, 7, 1000 * SECOND);
	assert_int_equal(ip_rules_service_wait(&s, &rule, 7, 1001 * SECOND, &every), 9 * SECOND);
	assert_true(every);
	assert_int_equal(ip_rules_service_wait(&s, &rule, 8, 1001 * SECOND, &every), 0);
	/* asked for: the same episode, which lasts for longer */
	ip_rules_service_fired(&s, &rule, 7, 1008 * SECOND);
	assert_int_equal(ip_rules_service_find(&s, 7)->history.n, 1);
	assert_int_equal(ip_rules_service_wait(&s, &rule, 7, 1017 * SECOND, &every), SECOND);
	assert_int_equal(ip_rules_service_wait(&s, &rule, 7, 1018 * SECOND, &every), 0);
	/* the second episode is the last for a while */
	ip_rules_service_fired(&s, &rule, 7, 1020 * SECOND);
	assert_int_equal(ip_rules_service_wait(&s, &rule, 7, 1031 * SECOND, &every), 69 * SECOND);
	assert_false(every);
	assert_int_equal(ip_rules_service_wait(&s, &rule, 7, 1100 * SECOND, &every), 0);
	/* nothing was recorded: no cool-down, but it has fired */
	ip_rules_service_fired(&s, &rule, 7, 1200 * SECOND);
	ip_rules_service_failed(&s, 7);
	assert_int_equal(ip_rules_service_wait(&s, &rule, 7, 1201 * SECOND, &every), 0);
	ip_rules_service_fired(&s, &rule, 7, 1201 * SECOND);
	assert_int_equal(ip_rules_service_wait(&s, &rule, 7, 1250 * SECOND, &every), 50 * SECOND);
	ip_rules_services_clear(&s);
}

/* Who makes ever more services gets no more of the rule than one of them, and a little. */
static void test_many_services(void **state)
{
	struct ip_rules_rule rule = {.at_most = 1, .per_ns = 3600 * SECOND};
	struct ip_rules_services s = {0};
	unsigned fired = 0;
	bool every;

	(void)state;
	for (uint64_t id = 1; id <= 10000; id++)
		if (!ip_rules_service_wait(&s, &rule, id, 100 * SECOND, &every)) {
			ip_rules_service_fired(&s, &rule, id, 100 * SECOND);
			fired++;
		}
	assert_int_equal(fired, IP_RULES_SERVICES + 1);
	assert_int_equal(s.n, IP_RULES_SERVICES + 1);
	/* a failure of one of those that share a limit takes nothing from the others' */
	rule.cooldown_ns = 10 * SECOND;
	ip_rules_service_failed(&s, 20000);
	assert_int_equal(ip_rules_service_wait(&s, &rule, 20001, 101 * SECOND, &every),
			 3599 * SECOND);
	assert_int_equal(ip_rules_service_find(&s, 20000)->fired_ns, 100 * SECOND);
	rule.cooldown_ns = 0;
	/* those that are known keep their own limits, and lose them when these are over */
	assert_true(ip_rules_service_wait(&s, &rule, 5, 3000 * SECOND, &every));
	assert_int_equal(ip_rules_service_wait(&s, &rule, 20000, 3700 * SECOND, &every), 0);
	ip_rules_service_fired(&s, &rule, 20000, 3700 * SECOND);
	assert_int_equal(ip_rules_service_find(&s, 20000)->id, 20000);
	assert_int_equal(s.n, IP_RULES_SERVICES + 1);
	ip_rules_services_clear(&s);
}

static void test_how_often(void **state)
{
	struct ip_rules_history h = {0};
	unsigned times;
	uint64_t per;

	(void)state;
	assert_int_equal(ip_rules_rate_parse("3  per 1h", &times, &per), 0);
	assert_true(times == 3 && per == 3600 * SECOND);
	assert_int_equal(ip_rules_wait(&h, 2, 10 * SECOND, 100 * SECOND), 0);
	ip_rules_history_add(&h, 100 * SECOND);
	assert_int_equal(ip_rules_wait(&h, 2, 10 * SECOND, 101 * SECOND), 0);
	ip_rules_history_add(&h, 104 * SECOND);
	assert_int_equal(ip_rules_wait(&h, 2, 10 * SECOND, 105 * SECOND), 5 * SECOND);
	assert_int_equal(ip_rules_wait(&h, 2, 10 * SECOND, 110 * SECOND), 0);
	assert_int_equal(ip_rules_wait(&h, 0, 0, 105 * SECOND), 0); /* no limit */
	for (unsigned i = 0; i < 3 * IP_RULES_AT_MOST; i++)
		ip_rules_history_add(&h, (200 + i) * SECOND);
	assert_int_equal(h.n, IP_RULES_AT_MOST);
	/* the newest are kept */
	assert_int_equal(ip_rules_wait(&h, IP_RULES_AT_MOST, 5000 * SECOND,
				       (200 + 3 * IP_RULES_AT_MOST) * SECOND),
			 (5000 - IP_RULES_AT_MOST) * SECOND);
	ip_rules_history_clear(&h);
	assert_int_equal(ip_rules_pay_back(0.02 * SECOND, 1), 2 * SECOND);
	assert_int_equal(ip_rules_pay_back(0.02 * SECOND, 0), 0);
}

static void test_until(void **state)
{
	static const char *const bad[] = {
		"p99",	       "p99>10ms",    "p99>10ms:",     "p98>10ms:x",   ">1ms:x",
		"p99>:x",      "p99>0s:x",    "p99>1ms/1ms:x", "p99>1ms/2m:x", "p99>1ms/x:x",
		"calls>1ms:x", "calls>-1:x",  "p99>1ms:x,,y",  "x:p99>1ms",    "max>0:x",
		"p99>1 0ms:x", "p99>1ms/ :x", "p99 > : x",     "p99>1ms: "};
	struct ip_condition_durations d = {0};
	struct ip_condition c;
	struct ip_condition_figure figure;
	char buffer[512];

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(bad); i++)
		if (ip_condition_parse(bad[i], &c) != -1)
			fail_msg("taken: %s", bad[i]);
	assert_int_equal(ip_condition_parse("p99>10us:f,g:h", &c), -1); /* no such prefix */
	assert_int_equal(ip_condition_parse("p99>10us:f,lib:g", &c), 0);
	assert_true(c.measure == IP_CONDITION_SHARE && c.share == 0.99 && c.limit == 10000 &&
		    c.over_ns == SECOND);
	assert_true(ip_selection_match(c.selection, "f", NULL, NULL) &&
		    !ip_selection_match(c.selection, "p99", NULL, NULL));

	/* 99 calls below 2^10 ticks, one of 2^14 to 2^15; a tick is a nanosecond */
	d.buckets[10 - IP_HIST_SHIFT] = 99;
	d.buckets[15 - IP_HIST_SHIFT] = 1;
	d.calls = 100;
	d.sum = 99 * 1000 + 20000;
	assert_true(ip_condition_percentile(&d, 0.99) == 1024);
	assert_false(ip_condition_holds(&c, &d, c.over_ns, 1, &figure));
	assert_true(figure.value == 1024);
	d.buckets[15 - IP_HIST_SHIFT]++;
	d.calls++;
	/* of 101 the hundredth: the first of two in the bucket, in its middle */
	assert_true(ip_condition_holds(&c, &d, c.over_ns, 1, &figure));
	assert_true(figure.value == 16384 + 8192);
	figure = (struct ip_condition_figure){.value = 16.8e6, .calls = 412, .span_ns = 1002e6};
	assert_string_equal(ip_condition_say(&c, "f", &figure, buffer),
			    "p99 of f was 16.8 ms in the last 1.00 s (412 calls)");
	assert_string_equal(
		ip_condition_say_highest(&c, "f", &figure, true, buffer),
		"the highest p99 of f was 16.8 ms over 1.00 s (412 calls), the limit is "
		"10.0 us");
	assert_string_equal(ip_condition_say_highest(&c, NULL, &figure, false, buffer),
			    "p99 of f,lib:g is judged over 1.00 s, which have not passed");
	assert_string_equal(ip_condition_say_highest(&c, NULL, &figure, true, buffer),
			    "p99 of f,lib:g takes 10 calls that return within 1.00 s: there were "
			    "fewer");
	assert_false(ip_condition_holds(&c, &d, c.over_ns, 0.1, &figure)); /* of a faster clock */
	d = (struct ip_condition_durations){.calls = IP_CONDITION_CALLS - 1};
	d.buckets[IP_HIST_BUCKETS - 1] = d.calls; /* too few to tell */
	assert_false(ip_condition_holds(&c, &d, c.over_ns, 1, &figure));
	d.buckets[IP_HIST_BUCKETS - 1] = ++d.calls;
	assert_true(ip_condition_holds(&c, &d, c.over_ns, 1, &figure));
	ip_condition_clear(&c);

	/* blanks between its parts mean nothing */
	assert_int_equal(ip_condition_parse(" max > 5ms / 2s : f ", &c), 0);
	assert_true(c.measure == IP_CONDITION_MAX && c.limit == 5000000 && c.over_ns == 2 * SECOND);
	assert_string_equal(c.functions, "f");
	ip_condition_clear(&c);

	assert_int_equal(ip_condition_parse("calls>100/2s:f", &c), 0);
	d = (struct ip_condition_durations){.calls = 100};
	assert_false(ip_condition_holds(&c, &d, c.over_ns, 1, &figure));
	d.calls++;
	assert_true(ip_condition_holds(&c, &d, c.over_ns, 1, &figure));
	assert_string_equal(ip_condition_say(&c, "f", &figure, buffer),
			    "f was called 101 times in the last 2.00 s");
	assert_string_equal(ip_condition_say_highest(&c, "f", &figure, true, buffer),
			    "f was called 101 times in 2.00 s at most, the limit is 100");
	/* as many in more time are too few, in less time they are enough */
	assert_false(ip_condition_holds(&c, &d, c.over_ns * 11 / 10, 1, &figure));
	assert_true(ip_condition_holds(&c, &d, SECOND / 50, 1, &figure));
	assert_string_equal(ip_condition_say(&c, "f", &figure, buffer),
			    "f was called 101 times in the last 20.0 ms");
	ip_condition_clear(&c);

	assert_int_equal(ip_condition_parse("mean>1us:f", &c), 0);
	d = (struct ip_condition_durations){.calls = 10, .sum = 10000};
	assert_false(ip_condition_holds(&c, &d, c.over_ns, 1, &figure));
	d.sum++;
	assert_true(ip_condition_holds(&c, &d, c.over_ns, 1, &figure));
	assert_int_equal(ip_condition_interval(&c), SECOND / 4);
	ip_condition_clear(&c);

	/* one call is enough */
	assert_int_equal(ip_condition_parse("max>1us/60s:f", &c), 0);
	assert_int_equal(ip_condition_interval(&c), SECOND / 4);
	d = (struct ip_condition_durations){.calls = 1, .max = 1000};
	assert_false(ip_condition_holds(&c, &d, SECOND, 1, &figure));
	d.max++;
	assert_true(ip_condition_holds(&c, &d, SECOND, 1, &figure));
	assert_string_equal(ip_condition_say(&c, "f", &figure, buffer),
			    "max of f was 1.00 us in the last 1.00 s (1 call)");
	assert_string_equal(ip_condition_say_highest(&c, NULL, &figure, false, buffer),
			    "no call of f has returned");
	assert_false(c.bare);
	ip_condition_clear(&c);

	/* no unit: seconds */
	assert_int_equal(ip_condition_parse("p99>1.5:f", &c), 0);
	assert_true(c.bare && c.limit == 3 * SECOND / 2);
	ip_condition_clear(&c);
	assert_int_equal(ip_condition_parse("calls>15:f", &c), 0);
	assert_false(c.bare);
	ip_condition_clear(&c);
}

/* What a command for a rule starts with: somewhere to write where a unit has made /tmp read-only,
 * no memory without end, no core. */
static void test_jobs(void **state)
{
	char *const argv[] = {
		(char *)"/bin/sh", (char *)"-c",
		(char *)"echo $TMPDIR $MORE `ulimit -v` `ulimit -d` `ulimit -c`; pwd; exit 3",
		NULL};
	char *const more[] = {(char *)"MORE=more", (char *)"TMPDIR=.", NULL};
	const struct timespec nap = {.tv_nsec = 1000000};
	unsigned long space, data;
	struct ip_rules_job job;
	int length = 0;

	(void)state;
	assert_int_equal(ip_rules_job_start(&job, argv, "/", NULL, 0, more), 0);
	while (!ip_rules_job_step(&job, ip_now_ns()))
		nanosleep(&nap, NULL);
	assert_int_equal(WEXITSTATUS(job.status), 3);
	assert_int_equal(sscanf(job.text, ". more %lu %lu 0\n/\n%n", &space, &data, &length), 2);
	/* KiB; less where we have less */
	assert_true(length && space <= 16 << 20 && data <= 2 << 20);
	ip_rules_job_clear(&job);
}

/* Whether a job of a shell counts as one that had not begun. tell: it is to end when it is ready.
 */
static bool ends_unbegun(const char *shell, bool tell)
{
	char *const argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)shell, NULL};
	const struct timespec nap = {.tv_nsec = 1000000};
	struct ip_rules_job job;
	bool unbegun;

	assert_int_equal(ip_rules_job_start(&job, argv, "/", NULL, 0, NULL), 0);
	while (!ip_rules_job_step(&job, ip_now_ns())) {
		if (tell && ip_rules_job_figure(&job, "ready"))
			ip_rules_job_end(&job, ip_now_ns());
		nanosleep(&nap, NULL);
	}
	unbegun = ip_rules_job_ended_unbegun(&job);
	ip_rules_job_clear(&job);
	return unbegun;
}

#define READY "sleep 60 & echo '\"ready\": 1'; wait"

static void test_job_that_has_not_begun(void **state)
{
	(void)state;
	assert_true(ends_unbegun("echo '\"ready\": 1'; exec sleep 60", true));
	/* one that takes it and fails, one that is killed, one that somebody else ends */
	assert_false(ends_unbegun("trap 'kill -9 $!; exit 1' TERM; " READY, true));
	assert_false(ends_unbegun("trap 'kill -9 $! $$' TERM; " READY, true));
	assert_false(ends_unbegun("kill $$", false));
}

static void test_plain(void **state)
{
	char *text = ip_rules_plain("a\033]0;x\007\n\t\177\303\244 \233", true);

	(void)state;
	assert_string_equal(text, "a\\x1b]0;x\\x07\n\\x09\\x7f\\xc3\\xa4 \\x9b");
	free(text);
	text = ip_rules_plain("a\033\303\244\n", false);
	assert_string_equal(text, "a\\x1b\303\244\n");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_taken),
		cmocka_unit_test(test_searches),
		cmocka_unit_test(test_what_is_wrong_and_where),
		cmocka_unit_test(test_references),
		cmocka_unit_test(test_matching),
		cmocka_unit_test(test_processes),
		cmocka_unit_test(test_command_lines),
		cmocka_unit_test(test_pressure),
		cmocka_unit_test(test_levels),
		cmocka_unit_test(test_how_often),
		cmocka_unit_test(test_names_of_services),
		cmocka_unit_test(test_units),
		cmocka_unit_test(test_members),
		cmocka_unit_test(test_services),
		cmocka_unit_test(test_many_services),
		cmocka_unit_test(test_until),
		cmocka_unit_test(test_jobs),
		cmocka_unit_test(test_job_that_has_not_begun),
		cmocka_unit_test(test_plain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
