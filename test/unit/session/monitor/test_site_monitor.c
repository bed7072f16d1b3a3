/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sites that are watched: the same ones, whether they are copied from a plan or its memory is
 * taken.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "session/monitor/site_monitor_private.h"
#include "test/unit/fake_target.h"
#include "test/unit/test.h"

#define FIRST  0x100000000ull
#define SECOND 0x100100000ull
#define POOL   0x100200000ull
#define NEAR   0x100300000ull

static const struct fake_probe probes[] = {
	{.function = "f", .offset = 0x1000, .kind = IP_PROBE_ENTRY, .regs = IP_REGS_ENTRY},
	{.function = "f", .offset = 0x1020, .kind = IP_PROBE_EXIT, .regs = IP_REGS_RETURN},
	{.function = "longer_name", .offset = 0x1040, .kind = IP_PROBE_ENTRY, .form = IP_FORM_JUMP},
	{.function = "longer_name",
	 .offset = 0x1080,
	 .kind = IP_PROBE_EXIT,
	 .form = IP_FORM_RETURN,
	 .regs = IP_REGS_RETURN},
};
static const struct fake_recipe recipes[] = {
	{.build_id = "high", .probes = probes, .nprobes = 4},
	{.build_id = "low!", .probes = probes, .nprobes = 3},
};

static struct ip_target *target;
static struct ip_area *area;
static struct fake_module files[2];
static struct ip_modules modules;
static struct ip_selections all;

static int begin(void **state)
{
	(void)state;
	target = fake_target_open();
	target->pid = getpid();
	fake_target_set_runtime(target, NEAR, POOL, 0x10000);
	assert_int_equal(ip_area_create(1 << 20, &area), 0);
	assert_int_equal(ip_selections_add(&all, NULL), 0);
	for (size_t i = 0; i < 2; i++) {
		files[i] = fake_module_make(&recipes[i]);
		fake_target_load(target, &files[i], i ? FIRST : SECOND);
	}
	assert_int_equal(ip_modules_load(target, &modules), 0);
	assert_int_equal(modules.n, 2);
	return 0;
}

static int end(void **state)
{
	(void)state;
	ip_modules_clear(&modules);
	ip_selections_clear(&all);
	fake_module_remove(&files[0]);
	fake_module_remove(&files[1]);
	ip_area_close(area);
	ip_target_close(target);
	return 0;
}

static void make_plan(struct ip_plan *plan)
{
	*plan = (struct ip_plan){0};
	assert_int_equal(ip_plan_select(target, &modules, &all, plan), 0);
	assert_int_equal(ip_plan_bind(plan, target, area), 0);
	assert_int_equal(plan->nchanges, 7);
	/* as of libraries that may be unloaded, and of others */
	for (size_t i = 0; i < plan->nchanges; i++)
		plan->changes[i].may_go = i % 2;
}

static void assert_same(const struct ip_site_monitor *a, const struct ip_site_monitor *b)
{
	assert_int_equal(a->nsites, b->nsites);
	assert_memory_equal(a->sites, b->sites, a->nsites * sizeof(*a->sites));
	assert_int_equal(a->nfunctions, b->nfunctions);
	assert_int_equal(a->names_size, b->names_size);
	assert_memory_equal(a->names, b->names, a->names_size);
	for (size_t i = 0; i < a->nfunctions; i++) {
		assert_int_equal(a->functions[i].name, b->functions[i].name);
		assert_int_equal(a->functions[i].number, b->functions[i].number);
	}
	assert_int_equal(a->npieces, b->npieces);
	for (size_t i = 0; i < a->npieces; i++) {
		assert_int_equal(a->pieces[i].first, b->pieces[i].first);
		assert_int_equal(a->pieces[i].end, b->pieces[i].end);
	}
}

static void test_what_is_taken(void **state)
{
	struct ip_site_monitor *copied, *taken;
	struct ip_plan plan;

	(void)state;
	assert_int_equal(ip_site_monitor_create(target, area, 0, &copied), 0);
	assert_int_equal(ip_site_monitor_create(target, area, 0, &taken), 0);
	make_plan(&plan);
	assert_int_equal(ip_site_monitor_add(copied, &plan), 0);
	assert_int_equal(plan.nchanges, 7);
	assert_int_equal(copied->nsites, 7);
	for (size_t i = 0; i < copied->nsites; i++) {
		const struct ip_monitor_site *s = &copied->sites[i];
		const struct ip_change *c = plan.changes;
		const struct ip_plan_function *f;

		assert_true(!i || s[-1].address < s->address);
		while (c->address != s->address)
			c++;
		f = &plan.functions[plan.function_of[c - plan.changes]];
		assert_memory_equal(s->live, c->new_bytes, c->length);
		assert_int_equal(s->length, c->length);
		assert_int_equal(s->form, c->form);
		assert_int_equal(ip_monitor_library(s), c->may_go ? f->module->start : 0);
		assert_int_equal(copied->functions[s->function].number, f->number);
	}
	assert_string_equal(copied->names + copied->functions[copied->sites[0].function].name, "f");
	assert_string_equal(copied->names + copied->functions[copied->sites[2].function].name,
			    "longer_name");
	assert_int_equal(ip_site_monitor_take(taken, &plan), 0);
	assert_int_equal(plan.nchanges, 0);
	assert_null(plan.changes);
	assert_same(copied, taken);
	ip_plan_clear(&plan);

	/* where sites are watched already, the same ones are replaced, and nothing is taken */
	make_plan(&plan);
	assert_int_equal(ip_site_monitor_take(taken, &plan), 0);
	assert_int_equal(plan.nchanges, 7);
	assert_int_equal(taken->nsites, 7);
	assert_memory_equal(copied->sites[0].live, taken->sites[0].live, IP_SITE_MAX);
	ip_plan_clear(&plan);
	ip_site_monitor_destroy(copied);
	ip_site_monitor_destroy(taken);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_is_taken, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
