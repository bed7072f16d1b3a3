/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From selections to sites: which ones a plan takes, under which functions, and which it leaves.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/abi/meters.h"
#include "common/trace/trace_format.h"
#include "hotpatcher/plan/payload_rules.h"
#include "hotpatcher/plan/plan.h"
#include "hotpatcher/plan/plan_conflicts.h"
#include "hotpatcher/plan/plan_diff.h"
#include "test/unit/fake_target.h"
#include "test/unit/test.h"

#define BIAS 0x400000ull
#define POOL 0x600000ull

#define ENTRY(name, at)                                                                            \
	{                                                                                          \
		.function = name, .offset = at, .kind = IP_PROBE_ENTRY, .form = IP_FORM_CALL,      \
		.regs = IP_REGS_ENTRY                                                              \
	}
#define EXIT(name, at)                                                                             \
	{                                                                                          \
		.function = name, .offset = at, .kind = IP_PROBE_EXIT, .form = IP_FORM_CALL,       \
		.regs = IP_REGS_RETURN                                                             \
	}
#define TAIL(name, at)                                                                             \
	{                                                                                          \
		.function = name, .offset = at, .kind = IP_PROBE_TAIL_EXIT, .form = IP_FORM_CALL,  \
		.regs = IP_REGS_ALL                                                                \
	}

/* work leaves by a jump to its own part, in one place, and to next in another. */
#define MAIN	  0x1000
#define WORK	  0x1040
#define TO_PART	  0x1060
#define TO_NEXT	  0x1080
#define PART	  0x10a0
#define NEXT	  0x10e0
#define SMALL	  0x1120
#define SMALL_IN  0x1160
#define SMALL_OUT 0x1180

static const struct fake_probe probes[] = {
	ENTRY("main", MAIN),
	EXIT("main", MAIN + 0x20),
	ENTRY("work", WORK),
	TAIL("work", TO_PART),
	TAIL("work", TO_NEXT),
	ENTRY("work.part.0", PART),
	EXIT("work.part.0", PART + 0x20),
	ENTRY("next", NEXT),
	EXIT("next", NEXT + 0x20),
	ENTRY("small", SMALL),
	EXIT("small", SMALL + 0x20),
	{.function = "small",
	 .offset = SMALL_IN,
	 .kind = IP_PROBE_ENTRY,
	 .form = IP_FORM_JUMP,
	 .regs = IP_REGS_ALL,
	 .flags = IP_PROBE_INLINED},
	{.function = "small",
	 .offset = SMALL_OUT,
	 .kind = IP_PROBE_EXIT,
	 .form = IP_FORM_JUMP,
	 .regs = IP_REGS_ALL,
	 .flags = IP_PROBE_INLINED},
	{.function = "counted",
	 .offset = 0x11a0,
	 .kind = IP_PROBE_ENTRY,
	 .form = IP_FORM_CALL,
	 .regs = IP_REGS_ENTRY,
	 .flags = IP_PROBE_ENTRY_ONLY},
	{.function = "main",
	 .offset = 0x11c0,
	 .kind = IP_PROBE_POINT,
	 .form = IP_FORM_CALL,
	 .regs = IP_REGS_ALL},
};

static const struct fake_recipe usual = {
	.build_id = "plan", .probes = probes, .nprobes = N_ELEMENTS(probes)};

static struct ip_target *target;
static struct fake_module file;
static struct ip_modules modules;
static struct ip_selections selections;
static struct ip_payload_rules rules;
static struct ip_plan plan;

/* A jump behind the site, to there. */
static void jump(uint64_t site, uint64_t to)
{
	int32_t rel = (int32_t)(to - (site + 10));
	uint8_t bytes[5] = {0xe9};

	memcpy(bytes + 1, &rel, sizeof(rel));
	assert_int_equal(ip_target_write(target, BIAS + site + 5, bytes, sizeof(bytes)), 0);
}

static void load(const struct fake_recipe *recipe)
{
	target = fake_target_open();
	target->pid = getpid(); /* whose root its files are looked up in */
	file = fake_module_make(recipe);
	fake_target_load(target, &file, BIAS);
	fake_target_set_runtime(target, 0x700000, POOL, 0x10000);
	assert_int_equal(ip_modules_load(target, &modules), 0);
	assert_int_equal(modules.n, 1);
	assert_null(modules.items[0].problem);
}

static int begin(void **state)
{
	(void)state;
	load(&usual);
	jump(TO_PART, PART);
	jump(TO_NEXT, NEXT);
	return 0;
}

static int end(void **state)
{
	(void)state;
	ip_plan_clear(&plan);
	ip_selections_clear(&selections);
	ip_payload_rules_clear(&rules);
	ip_modules_clear(&modules);
	fake_module_remove(&file);
	ip_target_close(target);
	return 0;
}

static void again(const struct fake_recipe *recipe)
{
	end(NULL);
	load(recipe);
}

static void select_functions(const char *text)
{
	ip_plan_clear(&plan);
	ip_selections_clear(&selections);
	assert_int_equal(ip_selections_add(&selections, text), 0);
	if (rules.n)
		selections.rules = &rules;
}

static void make(const char *text)
{
	select_functions(text);
	if (ip_plan_select(target, &modules, &selections, &plan) < 0)
		fail_msg("%s", ip_error_message());
}

static const char *name_of(const struct ip_plan_function *f)
{
	return ip_probe_list_string(f->module->list, f->module->list->functions[f->function].name);
}

/* The plan's entry for the function; second: its inlined instance, or its jumps. NULL: none. */
static const struct ip_plan_function *function(const char *name, bool second)
{
	for (size_t i = 0; i < plan.nfunctions; i++)
		if (!strcmp(name_of(&plan.functions[i]), name) &&
		    plan.functions[i].inlined == second)
			return &plan.functions[i];
	return NULL;
}

/* The change of the site; NULL: it stays idle. */
static const struct ip_change *change(uint64_t site)
{
	for (size_t i = 0; i < plan.nchanges; i++)
		if (plan.changes[i].address == BIAS + site)
			return &plan.changes[i];
	return NULL;
}

static void test_nothing_matches(void **state)
{
	(void)state;
	select_functions("wrok");
	assert_int_equal(ip_plan_select(target, &modules, &selections, &plan), -1);
	assert_error("matches none of its 15 probes; nearest: work");
	assert_int_equal(plan.nchanges, 0);
	assert_null(plan.changes);
	select_functions("zzzzzzzzzzzzzzzz");
	assert_int_equal(ip_plan_select(target, &modules, &selections, &plan), -1);
	assert_error("iprobe list");
	/* a change of a session may well take the last function away */
	assert_int_equal(ip_plan_match(target, &modules, &selections, &plan), 0);
	assert_int_equal(plan.nchanges + plan.nfunctions + plan.ndistinct, 0);
	assert_int_equal(ip_plan_check_last(target, &modules, &selections), -1);
	select_functions("work");
	assert_int_equal(ip_plan_check_last(target, &modules, &selections), 0);
	/* what takes away has to be there as well */
	assert_int_equal(ip_selections_add(&selections, "!wrok"), 0);
	assert_int_equal(ip_plan_check_last(target, &modules, &selections), -1);
	assert_error("nearest: work");
}

static void test_no_probes_at_all(void **state)
{
	const struct fake_recipe none = {.build_id = "plan"};

	(void)state;
	again(&none);
	select_functions("*");
	assert_int_equal(ip_plan_select(target, &modules, &selections, &plan), -1);
	assert_error("was not built with iprobe-cc");
	assert_int_equal(ip_plan_check_last(target, &modules, &selections), -1);
	assert_error("was not built with iprobe-cc");
}

static void test_sites_of_a_function(void **state)
{
	static const uint8_t idle[] = {0x0f, 0x1f, 0x44, 0x00, 0x00};

	(void)state;
	make("main");
	assert_int_equal(plan.nchanges, 3);
	assert_int_equal(plan.nfunctions, 1);
	assert_int_equal(plan.ndistinct, 1);
	assert_int_equal(plan.nmodules_patched, 1);
	for (size_t i = 0; i < plan.nchanges; i++) {
		const struct ip_change *c = &plan.changes[i];
		const struct ip_pl_probe *p = &modules.items[0].list->probes[plan.probe_of[i]];

		assert_int_equal(c->address, BIAS + p->offset);
		assert_memory_equal(c->old_bytes, idle, sizeof(idle));
		assert_int_equal(c->kind, p->kind);
		assert_int_equal(c->group, 0);
		assert_int_equal(plan.function_of[i], 0);
	}
	assert_false(function("main", false)->entry_only);
	make("counted");
	assert_true(function("counted", false)->entry_only);
	/* a selection of everything takes every site but those of jumps twice */
	make("*");
	assert_int_equal(plan.nchanges, N_ELEMENTS(probes));
	assert_int_equal(plan.ndistinct, 6);
}

/* An inlined instance is a function of the trace by itself, and none for people. */
static void test_inlined_instances(void **state)
{
	bool marks[4] = {false};

	(void)state;
	make("small");
	assert_int_equal(plan.nchanges, 4);
	assert_int_equal(plan.nfunctions, 2);
	assert_int_equal(plan.ndistinct, 1);
	assert_non_null(function("small", false));
	assert_non_null(function("small", true));
	assert_int_equal(change(SMALL)->group, change(SMALL + 0x20)->group);
	assert_int_equal(change(SMALL_IN)->group, change(SMALL_OUT)->group);
	assert_int_not_equal(change(SMALL)->group, change(SMALL_IN)->group);
	/* each is balanced by itself: the other stays where one goes */
	marks[plan.function_of[0]] = true;
	assert_int_equal(ip_plan_mark_whole(&plan, marks), 0);
	assert_int_equal(marks[0] + marks[1], 1);
}

/* A part goes with the function that it was split off. */
static void test_parts(void **state)
{
	(void)state;
	make("work");
	assert_non_null(function("work.part.0", false));
	assert_false(function("work.part.0", false)->silent);
	assert_non_null(change(PART));
	/* work, its part and its jumps; next goes live, and nobody has asked for it */
	assert_int_equal(plan.ndistinct, 2);
	assert_true(function("next", false)->silent);
	assert_int_equal(plan.nfunctions, 4);
}

/* Calls go on in where a function jumps to, but not, where events are logged, in its own part: that
 * is the same call, and the analysis knows it. */
static void test_jumps(void **state)
{
	const struct ip_plan_function *jumps;
	bool marks[8] = {false};

	(void)state;
	make("work");
	assert_int_equal(plan.njumps, 1);
	assert_int_equal(plan.jumps[0].module_index, 0);
	assert_string_equal(
		name_of(&(struct ip_plan_function){.module = plan.jumps[0].to,
						   .function = plan.jumps[0].to_function}),
		"next");
	jumps = function("work", true);
	assert_non_null(jumps);
	assert_true(jumps->jumps);
	assert_int_equal(jumps->duty, IP_DUTY_LOG);
	/* the jump to the part is not followed, and says so */
	assert_true(function("work", false)->tails);
	assert_true(function("work", false)->tail_exits);
	for (size_t i = 0; i < plan.nchanges; i++)
		if (&plan.functions[plan.function_of[i]] == jumps)
			assert_int_equal(plan.changes[i].address, BIAS + TO_NEXT);
	/* both are one function: they go live and idle together */
	assert_int_equal(change(TO_NEXT)->group, change(WORK)->group);
	marks[jumps - plan.functions] = true;
	assert_int_equal(ip_plan_mark_whole(&plan, marks), 0);
	assert_true(marks[function("work", false) - plan.functions]);
	assert_false(marks[function("next", false) - plan.functions]);
}

/* Where durations are measured the call goes on in the part, too. */
static void test_measured_jumps(void **state)
{
	(void)state;
	assert_int_equal(ip_payload_rules_add(&rules, "hist:work"), 0);
	make("work");
	assert_int_equal(plan.njumps, 2);
	assert_int_equal(function("work", false)->duty, IP_DUTY_HIST);
	assert_int_equal(function("work", true)->duty, IP_DUTY_JUMP);
	assert_int_equal(function("next", false)->duty, IP_DUTY_JOIN);
	assert_int_equal(function("work.part.0", false)->duty, IP_DUTY_HIST);
	assert_false(function("work", false)->tails);
	assert_int_equal(plan.nhists, 2);
	/* a call cannot go on where calls are only counted */
	assert_int_equal(ip_payload_rules_add(&rules, "count:next"), 0);
	make("work,next");
	assert_int_equal(function("next", false)->duty, IP_DUTY_COUNT);
	assert_true(function("work", false)->tails);
	assert_int_equal(plan.njumps, 1);
	assert_int_equal(plan.ncounts, 1);
}

/* The jump leads to where nobody knows: a function without probes, or through a register. */
static void test_jumps_to_nowhere(void **state)
{
	static const uint8_t through_rax[] = {0xff, 0xe0, 0x90, 0x90, 0x90};

	(void)state;
	jump(TO_PART, NEXT + 1);
	assert_int_equal(ip_target_write(target, BIAS + TO_NEXT + 5, through_rax, 5), 0);
	make("work");
	assert_int_equal(plan.njumps, 0);
	assert_null(function("next", false));
	assert_null(function("work", true));
	assert_true(function("work", false)->tails);
	assert_non_null(change(TO_NEXT));
}

/* A call that goes on in a function which ends nobody knows where ends there, too. */
static void test_chains_of_jumps(void **state)
{
	const struct fake_probe chain[] = {ENTRY("first", 0x1000),  TAIL("first", 0x1020),
					   ENTRY("second", 0x1040), TAIL("second", 0x1060),
					   ENTRY("third", 0x1080),  TAIL("third", 0x10a0)};
	const struct fake_recipe recipe = {
		.build_id = "chain", .probes = chain, .nprobes = N_ELEMENTS(chain)};

	(void)state;
	again(&recipe);
	jump(0x1020, 0x1040);
	jump(0x1060, 0x1080);
	make("first");
	assert_int_equal(plan.njumps, 2);
	assert_true(function("second", false)->silent);
	assert_true(function("third", false)->silent);
	assert_true(function("first", false)->tails);
	assert_true(function("second", false)->tails);
	/* in a ring nothing is lost */
	again(&recipe);
	jump(0x1020, 0x1040);
	jump(0x1060, 0x1080);
	jump(0x10a0, 0x1000);
	make("second");
	assert_int_equal(plan.njumps, 3);
	assert_false(function("first", false)->tails);
	assert_false(function("first", false)->silent && function("second", false)->silent);
}

/* Counting takes no exits, and what has no end cannot be measured. */
static void test_payloads(void **state)
{
	(void)state;
	assert_int_equal(ip_payload_rules_add(&rules, "count:main,next"), 0);
	assert_int_equal(ip_payload_rules_add(&rules, "hist"), 0);
	make("main,next,counted");
	assert_non_null(change(MAIN));
	assert_null(change(MAIN + 0x20));
	assert_non_null(change(NEXT));
	assert_null(change(NEXT + 0x20));
	assert_int_equal(function("counted", false)->duty, IP_DUTY_COUNT);
	assert_int_equal(plan.ncounts, 3);
	assert_int_equal(plan.nhists, 0);
	assert_false(ip_plan_records(&plan));
	assert_int_equal(ip_payload_rules_add(&rules, "log:small"), 0);
	make("main,small");
	assert_true(ip_plan_records(&plan));
}

/* Whether events may come with a library that is loaded later. */
static void test_rules_that_never_log(void **state)
{
	(void)state;
	assert_false(ip_payload_rules_never_log(NULL, NULL));
	assert_false(ip_payload_rules_never_log(&rules, NULL));
	assert_int_equal(ip_payload_rules_add(&rules, "hist:main"), 0);
	assert_true(ip_payload_rules_never_log(&rules, NULL));
	assert_false(ip_payload_rules_never_log(&rules, "main,lib*"));
	assert_int_equal(ip_payload_rules_add(&rules, "count"), 0);
	assert_true(ip_payload_rules_never_log(&rules, "main,lib*"));
	assert_true(ip_payload_rules_never_log(&rules, NULL));
	ip_payload_rules_log_too(&rules);
	assert_false(ip_payload_rules_never_log(&rules, NULL));
	ip_payload_rules_clear(&rules);
	assert_int_equal(ip_payload_rules_add(&rules, "hist:main"), 0);
	assert_int_equal(ip_payload_rules_add(&rules, "log:small"), 0);
	assert_false(ip_payload_rules_never_log(&rules, NULL));
}

static void test_rules_that_cannot_be(void **state)
{
	(void)state;
	assert_int_equal(ip_payload_rules_add(&rules, "count:main"), 0);
	assert_int_equal(ip_payload_rules_add(&rules, "hist:ma*"), 0);
	select_functions("main");
	assert_int_equal(ip_plan_select(target, &modules, &selections, &plan), -1);
	assert_error("both name main");
	assert_int_equal(plan.nchanges, 0);
	ip_payload_rules_clear(&rules);
	assert_int_equal(ip_payload_rules_add(&rules, "count:nexd"), 0);
	select_functions("main");
	assert_int_equal(ip_plan_select(target, &modules, &selections, &plan), -1);
	assert_error("is for none of the selected functions; nearest: next");
}

/* A site on two pages is taken only if there is an instruction between its two forms. */
static void test_sites_that_cross_pages(void **state)
{
	const struct fake_probe crossing[] = {
		{"a", .offset = 0x1ffc, .kind = 1, .form = IP_FORM_CALL, .regs = IP_REGS_ALL},
		{"b", .offset = 0x2fff, .kind = 1, .form = IP_FORM_CALL, .regs = IP_REGS_ENTRY},
		{"c", .offset = 0x3fff, .kind = 1, .form = IP_FORM_CALL, .regs = IP_REGS_ALL},
		{"d", .offset = 0x4fff, .kind = 1, .form = IP_FORM_CALL, .regs = IP_REGS_ALL,
		 .flags = IP_PROBE_FLAGS_DEAD},
		{"e", .offset = 0x5fff, .kind = 1, .form = IP_FORM_JUMP, .regs = IP_REGS_ALL,
		 .length = 6},
		{"f", .offset = 0x6ffb, .kind = 1, .form = IP_FORM_CALL, .regs = IP_REGS_ALL},
		/* flags live at one of two sites of a function: the other stays in the plan */
		{"c", .offset = 0x7000, .kind = 1, .form = IP_FORM_CALL, .regs = IP_REGS_ALL},
	};
	const struct fake_recipe recipe = {.build_id = "cross",
					   .probes = crossing,
					   .nprobes = N_ELEMENTS(crossing),
					   .text_pages = 7};

	(void)state;
	again(&recipe);
	make("*");
	assert_non_null(change(0x1ffc));
	assert_non_null(change(0x2fff));
	assert_null(change(0x3fff));
	assert_non_null(change(0x4fff));
	assert_null(change(0x5fff));
	assert_non_null(change(0x6ffb));
	assert_non_null(change(0x7000));
	assert_int_equal(plan.left_out, 2);
	assert_true(ip_change_crosses_page(change(0x1ffc)));
	assert_false(ip_change_crosses_page(change(0x6ffb)));
}

/* A function of which a site cannot be written is jumped to, and the call ends there. */
static void test_jump_to_a_broken_function(void **state)
{
	const struct fake_probe crossing[] = {ENTRY("from", 0x1000),
					      TAIL("from", 0x1020),
					      ENTRY("to", 0x1040),
					      {"to", .offset = 0x1fff, .kind = IP_PROBE_EXIT,
					       .form = IP_FORM_CALL, .regs = IP_REGS_ALL}};
	struct fake_recipe recipe = {.build_id = "broken",
				     .probes = crossing,
				     .nprobes = N_ELEMENTS(crossing),
				     .text_pages = 2};

	(void)state;
	again(&recipe);
	jump(0x1020, 0x1040);
	make("from");
	assert_int_equal(plan.njumps, 0);
	assert_null(function("to", false));
	assert_true(function("from", false)->tails);
}

static enum ip_verdict judge(const void *data, const struct ip_module *module, uint32_t f)
{
	const char *name = ip_probe_list_string(module->list, module->list->functions[f].name);
	const enum ip_verdict *verdict = data;

	return strcmp(name, "next") ? IP_VERDICT_TAKEN : *verdict;
}

/* Who looks at the session may leave a function out, let it rest, or have it counted. */
static void test_verdicts(void **state)
{
	enum ip_verdict verdict = IP_VERDICT_LEFT_OUT;
	struct ip_chooser chooser = {.data = &verdict, .judge = judge};

	(void)state;
	select_functions("work,next");
	selections.chooser = &chooser;
	assert_int_equal(ip_plan_select(target, &modules, &selections, &plan), 0);
	assert_null(function("next", false));
	assert_int_equal(plan.njumps, 0);
	assert_true(function("work", false)->tails);
	ip_plan_clear(&plan);
	verdict = IP_VERDICT_RESTS;
	assert_int_equal(ip_plan_select(target, &modules, &selections, &plan), 0);
	assert_null(change(NEXT));
	assert_int_equal(plan.ndistinct, 2);
	ip_plan_clear(&plan);
	verdict = IP_VERDICT_COUNTED;
	assert_int_equal(ip_plan_select(target, &modules, &selections, &plan), 0);
	assert_int_equal(function("next", false)->duty, IP_DUTY_COUNT);
	assert_null(change(NEXT + 0x20));
	assert_int_equal(plan.njumps, 0);
	ip_plan_clear(&plan);
	/* points are not everybody's */
	chooser.calls_only = true;
	select_functions("main");
	selections.chooser = &chooser;
	assert_int_equal(ip_plan_select(target, &modules, &selections, &plan), 0);
	assert_int_equal(plan.nchanges, 2);
	/* the chooser is the test's own */
	selections.chooser = NULL;
}

static void set(uint64_t site, const void *bytes, size_t size)
{
	assert_int_equal(ip_target_write(target, BIAS + site, bytes, size), 0);
}

/* One changed site takes its whole function out, jumps included, and leaves all others. */
static void test_conflicts(void **state)
{
	const uint8_t trap = 0xcc;
	struct ip_plan_conflicts sum = {0};

	(void)state;
	make("work,small,main");
	set(TO_NEXT, &trap, 1);
	set(SMALL_IN, &trap, 1);
	assert_int_equal(ip_plan_conflicts_leave_out(&plan, target, &sum), 0);
	assert_int_equal(sum.sites, 2);
	assert_int_equal(sum.left_out, 5);
	assert_int_equal(sum.functions, 1);
	assert_int_equal(sum.address, BIAS + TO_NEXT);
	assert_int_equal(sum.state, IP_SITE_TRAPPED_IDLE);
	assert_string_equal(sum.function, "work");
	assert_null(change(WORK));
	assert_null(change(TO_PART));
	assert_null(change(SMALL_IN));
	assert_non_null(change(SMALL));
	assert_non_null(change(PART));
	assert_non_null(change(MAIN));
	assert_null(function("work", false));
	assert_null(function("work", true));
	/* next, to which work has jumped, is still silent */
	assert_int_equal(plan.ndistinct, 3);
	for (size_t i = 0; i < plan.nchanges; i++)
		assert_int_equal(plan.functions[plan.function_of[i]].function,
				 modules.items[0].list->probes[plan.probe_of[i]].function);
	ip_plan_conflicts_clear(&sum);
	/* nothing of it is left */
	make("work.part.0");
	set(PART, &trap, 1);
	assert_int_equal(ip_plan_conflicts_leave_out(&plan, target, &sum), -1);
	assert_error("somebody else has changed a site of each selected function");
	ip_plan_conflicts_clear(&sum);
}

/* Text that is no site in the file either was never one. */
static void test_list_of_another_file(void **state)
{
	static const struct fake_probe here[] = {ENTRY("f", 0x1000)};
	const struct fake_recipe recipe = {.build_id = "other", .probes = here, .nprobes = 1};
	struct ip_plan_conflicts sum = {0};
	int fd;

	(void)state;
	again(&recipe);
	fd = open(file.path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "\x55\x48\x89\xe5\x90", 5, 0x1000), 5);
	close(fd);
	set(0x1000, "\x55\x48\x89\xe5\x90", 5);
	make("f");
	assert_int_equal(ip_plan_conflicts_leave_out(&plan, target, &sum), -1);
	assert_error("the probe list is not this file's");
	assert_int_equal(sum.sites, 0);
	ip_plan_conflicts_clear(&sum);
}

static void make_live(uint64_t site)
{
	uint8_t bytes[IP_SITE_MAX];

	assert_int_equal(target->arch->live(IP_FORM_CALL, 5, BIAS + site, POOL, bytes), 0);
	set(site, bytes, 5);
}

/* What is live and selected stays, what is live and not selected goes, and what others have changed
 * keeps its function from going live. */
static void test_differences(void **state)
{
	const uint8_t trap = 0xcc;
	struct ip_area_header header = {0};
	struct ip_area_module entries[1] = {{.load_bias = BIAS,
					     .first_number = 101,
					     .nfunctions = 6,
					     .build_id_size = 4,
					     .build_id = "plan"}};
	const struct ip_area area = {.header = &header, .modules = entries};
	struct ip_plan_diff d;
	struct ip_change *changes;
	size_t n;

	(void)state;
	header.nmodules = 1;
	make_live(MAIN);
	make_live(MAIN + 0x20);
	make_live(NEXT);
	set(SMALL + 0x20, &trap, 1);
	select_functions("main,small");
	assert_int_equal(ip_plan_diff_make(target, &modules, &selections, &area, NULL, &d), 0);
	assert_int_equal(d.functions, 2);
	assert_int_equal(d.kept, 2);
	assert_int_equal(d.foreign, 1);
	assert_int_equal(d.first_foreign, BIAS + SMALL + 0x20);
	/* the point of main, and small's inlined instance */
	assert_int_equal(d.live.nchanges, 3);
	assert_int_equal(d.live.nfunctions, 2);
	assert_int_equal(d.live.ndistinct, 2);
	assert_int_equal(d.idle.nchanges, 1);
	assert_int_equal(d.idle.changes[0].address, BIAS + NEXT);
	assert_int_equal(d.idle.changes[0].new_bytes[0], 0x0f);
	assert_int_equal(d.idle.functions[0].number,
			 101 + IP_NUMBERS_PER_FUNCTION * d.idle.functions[0].function);
	changes = ip_plan_diff_changes(&d, &n);
	assert_int_equal(n, 4);
	free(changes);
	ip_plan_diff_clear(&d);
	/* a function's jumps are spoiled with it */
	set(TO_NEXT, &trap, 1);
	select_functions("work.part.0,work,next");
	assert_int_equal(ip_plan_diff_make(target, &modules, &selections, &area, NULL, &d), 0);
	assert_int_equal(d.live.nchanges, 3); /* of the part, and the exit of next */
	assert_int_equal(d.live.ndistinct, 2);
	ip_plan_diff_clear(&d);
	/* a module that is not mapped any more is left alone */
	fake_target_unload(target, &file, BIAS);
	assert_int_equal(ip_plan_diff_make(target, &modules, &selections, &area, NULL, &d), 0);
	assert_int_equal(d.live.nchanges + d.idle.nchanges + d.kept + d.foreign, 0);
	ip_plan_diff_clear(&d);
}

/* What was silent, and is selected now, is live already: it is told, each function once, with its
 * sites. */
static void test_silent_ones_that_are_selected(void **state)
{
	static uint8_t silent[IP_NUMBER_MAX / 8 + 1];
	struct ip_area_header header = {0};
	struct ip_area_module entries[1] = {{.load_bias = BIAS,
					     .first_number = 101,
					     .nfunctions = 6,
					     .build_id_size = 4,
					     .build_id = "plan"}};
	const struct ip_area area = {.header = &header, .modules = entries};
	struct ip_plan_diff d;
	uint32_t number;

	(void)state;
	header.nmodules = 1;
	memset(silent, 0xff, sizeof(silent));
	make_live(MAIN);
	make_live(MAIN + 0x20);
	select_functions("main,small");
	assert_int_equal(ip_plan_diff_make(target, &modules, &selections, &area, silent, &d), 0);
	assert_int_equal(d.shown.nfunctions, 1);
	assert_int_equal(d.shown.ndistinct, 1);
	assert_int_equal(d.shown_sites, 2);
	assert_int_equal(d.shown.nchanges, 0);
	assert_string_equal(ip_plan_function_name(&d.shown.functions[0]), "main");
	number = d.shown.functions[0].number;
	assert_int_equal(number, 101 + IP_NUMBERS_PER_FUNCTION * d.shown.functions[0].function);
	ip_plan_diff_clear(&d);
	/* one that was not silent, and what is not selected */
	silent[number / 8] &= ~(1 << number % 8);
	assert_int_equal(ip_plan_diff_make(target, &modules, &selections, &area, silent, &d), 0);
	assert_int_equal(d.shown.nfunctions + d.shown_sites, 0);
	ip_plan_diff_clear(&d);
	silent[number / 8] |= 1 << number % 8;
	select_functions("small");
	assert_int_equal(ip_plan_diff_make(target, &modules, &selections, &area, silent, &d), 0);
	assert_int_equal(d.shown.nfunctions + d.shown_sites, 0);
	ip_plan_diff_clear(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nothing_matches, begin, end),
		cmocka_unit_test_setup_teardown(test_no_probes_at_all, begin, end),
		cmocka_unit_test_setup_teardown(test_sites_of_a_function, begin, end),
		cmocka_unit_test_setup_teardown(test_inlined_instances, begin, end),
		cmocka_unit_test_setup_teardown(test_parts, begin, end),
		cmocka_unit_test_setup_teardown(test_jumps, begin, end),
		cmocka_unit_test_setup_teardown(test_measured_jumps, begin, end),
		cmocka_unit_test_setup_teardown(test_jumps_to_nowhere, begin, end),
		cmocka_unit_test_setup_teardown(test_chains_of_jumps, begin, end),
		cmocka_unit_test_setup_teardown(test_payloads, begin, end),
		cmocka_unit_test_setup_teardown(test_rules_that_never_log, begin, end),
		cmocka_unit_test_setup_teardown(test_rules_that_cannot_be, begin, end),
		cmocka_unit_test_setup_teardown(test_sites_that_cross_pages, begin, end),
		cmocka_unit_test_setup_teardown(test_jump_to_a_broken_function, begin, end),
		cmocka_unit_test_setup_teardown(test_verdicts, begin, end),
		cmocka_unit_test_setup_teardown(test_conflicts, begin, end),
		cmocka_unit_test_setup_teardown(test_list_of_another_file, begin, end),
		cmocka_unit_test_setup_teardown(test_differences, begin, end),
		cmocka_unit_test_setup_teardown(test_silent_ones_that_are_selected, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
