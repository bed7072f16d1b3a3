/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Putting back: what is found live, what of it is ours to change, and what is left alone beside it.
 */
#include <stdlib.h>
#include <unistd.h>

#include "hotpatcher/patch/patch_in_place.h"
#include "hotpatcher/patch/restore.h"
#include "hotpatcher/patch/restore_changes.h"
#include "test/unit/fake_target.h"
#include "test/unit/test.h"

#define BIAS	0x400000ull
#define SECOND	0x500000ull
#define POOL	0x600000ull
#define TRAP	0xcc
#define CROSSES 0x1ffd /* three bytes on the first page */
#define SITE	0x1000
#define INSIDE	0x1040

static const struct fake_probe probes[] = {
	{"f", .offset = SITE, .kind = IP_PROBE_ENTRY, .regs = IP_REGS_ENTRY},
	{"f", .offset = 0x1020, .kind = IP_PROBE_EXIT, .regs = IP_REGS_RETURN},
	{"f", .offset = INSIDE, .kind = IP_PROBE_ENTRY, .form = IP_FORM_JUMP, .regs = IP_REGS_ALL,
	 .flags = IP_PROBE_INLINED},
	{"g", .offset = 0x1060, .kind = IP_PROBE_TAIL_EXIT, .form = IP_FORM_RETURN, .length = 6},
	{"g", .offset = CROSSES, .kind = IP_PROBE_ENTRY, .regs = IP_REGS_ENTRY},
};

static const struct fake_recipe recipe = {
	.build_id = "restore", .probes = probes, .nprobes = N_ELEMENTS(probes), .text_pages = 2};

static struct ip_target *target;
static struct fake_module file;
static struct ip_modules modules;
static struct ip_restore_changes changes;
/* steps of one site's way, see __wrap_ip_target_write() */
static const struct ip_change *watched;
static unsigned writes;

static int begin(void **state)
{
	(void)state;
	target = fake_target_open();
	fake_target_set_runtime(target, 0x700000, POOL, 0x10000);
	file = fake_module_make(&recipe);
	fake_target_load(target, &file, BIAS);
	target->pid = getpid(); /* whose root files are looked up in */
	assert_int_equal(ip_modules_load(target, &modules), 0);
	assert_int_equal(modules.n, 1);
	target->pid = FAKE_NO_PID;
	return 0;
}

static int end(void **state)
{
	(void)state;
	watched = NULL;
	ip_restore_changes_clear(&changes);
	ip_modules_clear(&modules);
	fake_module_remove(&file);
	ip_target_close(target);
	return 0;
}

static void set(uint64_t site, const void *bytes, size_t size)
{
	assert_int_equal(ip_target_write(target, BIAS + site, bytes, size), 0);
}

static const struct fake_probe *probe_at(uint64_t site)
{
	for (size_t i = 0; i < N_ELEMENTS(probes); i++)
		if (probes[i].offset == site)
			return &probes[i];
	fail();
	return NULL;
}

static unsigned length_of(const struct fake_probe *p)
{
	return p->length ? p->length : 5;
}

static void make_live(uint64_t site)
{
	const struct fake_probe *p = probe_at(site);
	uint8_t bytes[IP_SITE_MAX];

	assert_int_equal(target->arch->live(p->form, length_of(p), BIAS + site, POOL, bytes), 0);
	set(site, bytes, length_of(p));
}

static void make_all_live(void)
{
	for (size_t i = 0; i < N_ELEMENTS(probes); i++)
		make_live(probes[i].offset);
}

static void find(void)
{
	ip_restore_changes_clear(&changes);
	assert_int_equal(ip_restore_changes_find(target, &modules, &changes), 0);
}

static const struct ip_change *change(const struct ip_change_list *list, uint64_t site)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->items[i].address == BIAS + site)
			return &list->items[i];
	return NULL;
}

/* Where something is foreign it asks for the maps again, in vain: they are gone then. */
static struct ip_module_state inspect(void)
{
	struct ip_module_state s;

	assert_int_equal(ip_module_inspect(target, &modules.items[0], &s), 0);
	if (!target->maps.n)
		fake_target_map_module(target, &file, BIAS);
	return s;
}

static void carry_out(const struct ip_change_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		assert_int_equal(ip_patch_in_place_write(target, &list->items[i]), 0);
}

static void test_nothing_is_live(void **state)
{
	uint64_t address;
	uint8_t bytes[IP_SITE_MAX];
	struct ip_module_state s = inspect();

	(void)state;
	find();
	assert_int_equal(changes.whole.n + changes.tails.n, 0);
	assert_int_equal(s.patched + s.foreign + s.probed, 0);
	assert_true(s.text_matches_file);
	assert_int_equal(ip_module_find_live(target, &modules.items[0], &address, bytes), 0);
}

/* Every form comes back byte for byte, instance by instance. */
static void test_all_is_live(void **state)
{
	struct ip_module_state s;
	uint64_t address = 0;
	uint8_t bytes[IP_SITE_MAX];

	(void)state;
	make_all_live();
	s = inspect();
	assert_int_equal(s.patched, N_ELEMENTS(probes));
	assert_int_equal(s.foreign, 0);
	assert_false(s.text_matches_file);
	assert_int_equal(ip_module_find_live(target, &modules.items[0], &address, bytes), 5);
	assert_int_equal(address, BIAS + SITE);
	assert_int_equal(bytes[0], 0xe8);
	find();
	assert_int_equal(changes.whole.n, N_ELEMENTS(probes));
	assert_int_equal(changes.tails.n, 0);
	assert_int_equal(change(&changes.whole, SITE)->group,
			 change(&changes.whole, 0x1020)->group);
	assert_int_not_equal(change(&changes.whole, SITE)->group,
			     change(&changes.whole, INSIDE)->group);
	assert_int_not_equal(change(&changes.whole, INSIDE)->group,
			     change(&changes.whole, CROSSES)->group);
	carry_out(&changes.whole);
	s = inspect();
	assert_int_equal(s.patched + s.foreign, 0);
	assert_true(s.text_matches_file);
}

/* A writer was killed while a site was half written; a uprobe came and went on another. */
static void test_leftovers(void **state)
{
	static const uint8_t jump[] = {0xeb, 0x03};
	const uint8_t idle = 0x0f;
	struct ip_module_state s;

	(void)state;
	make_live(CROSSES);
	set(CROSSES, jump, sizeof(jump));
	make_live(SITE);
	set(SITE, &idle, 1);
	s = inspect();
	assert_int_equal(s.patched, 2);
	assert_int_equal(s.foreign, 1);
	assert_int_equal(s.probed, 0);
	assert_int_equal(s.first_foreign, BIAS + SITE);
	find();
	assert_int_equal(changes.whole.n, 2);
	assert_int_equal(changes.tails.n, 0);
	carry_out(&changes.whole);
	assert_true(inspect().text_matches_file);
}

/* Below somebody's breakpoint everything but its byte becomes idle: it works on, and leaves a NOP
 * when it goes. Breakpoints on idle sites, and other tools' code, are not touched. */
static void test_beside_breakpoints(void **state)
{
	static const uint8_t theirs[] = {0x55, 0x48, 0x89, 0xe5, 0x90};
	const uint8_t trap = TRAP, nop = 0x0f;
	struct ip_change *collected;
	const struct ip_change *c;
	struct ip_module_state s;
	size_t n;

	(void)state;
	make_live(SITE);
	set(SITE, &trap, 1);
	make_live(CROSSES);
	set(CROSSES, &trap, 1);
	set(0x1020, &trap, 1);
	set(INSIDE, theirs, sizeof(theirs));
	make_live(0x1060);
	s = inspect();
	assert_int_equal(s.patched, 3);
	assert_int_equal(s.foreign, 4);
	assert_int_equal(s.probed, 1);
	find();
	assert_int_equal(changes.whole.n, 1);
	assert_non_null(change(&changes.whole, 0x1060));
	assert_int_equal(changes.tails.n, 2);
	c = change(&changes.tails, SITE);
	assert_int_equal(c->new_bytes[0], TRAP);
	assert_int_equal(c->new_bytes[1], 0x1f);
	/* without a stop such a site cannot be put back, and nothing else is then */
	assert_int_equal(ip_restore_collect(target, &modules, &collected, &n), -1);
	assert_error("there is a uprobe on 2 of its live sites, the first at 0x401000");
	assert_null(collected);
	carry_out(&changes.tails);
	carry_out(&changes.whole);
	assert_int_equal(fake_target_byte(target, BIAS + SITE), TRAP);
	assert_int_equal(fake_target_byte(target, BIAS + CROSSES), TRAP);
	assert_int_equal(fake_target_byte(target, BIAS + INSIDE), 0x55);
	s = inspect();
	assert_int_equal(s.patched, 0);
	assert_int_equal(s.probed, 3);
	/* they go */
	set(SITE, &nop, 1);
	set(CROSSES, &nop, 1);
	set(0x1020, &nop, 1);
	s = inspect();
	assert_int_equal(s.foreign, 1); /* their code in a site */
}

/* Bytes outside of all sites are compared, too. */
static void test_other_bytes(void **state)
{
	const uint8_t trap = TRAP;
	struct ip_module_state s;

	(void)state;
	set(SITE + 5, &trap, 1);
	set(0x2fff, &trap, 1);
	s = inspect();
	assert_int_equal(s.patched, 0);
	assert_int_equal(s.foreign, 2);
	assert_int_equal(s.first_foreign, BIAS + SITE + 5);
	assert_false(s.text_matches_file);
	/* what is not executable may differ */
	set(SITE + 5, "\x90", 1);
	set(0x2fff, "\x90", 1);
	set(fake_module_data(&file), &trap, 1);
	assert_true(inspect().text_matches_file);
}

/* A library that has been unloaded meanwhile: what is there now is another's. */
static void test_a_module_that_has_gone(void **state)
{
	const struct fake_recipe small = {.build_id = "small"};
	struct fake_module other = fake_module_make(&small);
	struct ip_module_state s;

	(void)state;
	make_all_live();
	fake_target_unload(target, &file, BIAS);
	find();
	assert_int_equal(changes.whole.n, 0);
	/* its place is another's, whose bytes look like live sites */
	fake_target_load(target, &other, BIAS);
	make_live(SITE);
	find();
	assert_int_equal(changes.whole.n, 0);
	/* seen only when the maps are looked at: the kernel's for ourselves, where no module is */
	target->pid = getpid();
	s = inspect();
	assert_int_equal(s.patched + s.foreign, 0);
	assert_true(s.text_matches_file);
	fake_module_remove(&other);
}

/* Two modules with one list: no group is of both. */
static void test_groups_of_modules(void **state)
{
	(void)state;
	ip_modules_clear(&modules);
	fake_target_load(target, &file, SECOND);
	target->pid = getpid();
	assert_int_equal(ip_modules_load(target, &modules), 0);
	assert_int_equal(modules.n, 2);
	make_all_live();
	for (size_t i = 0; i < N_ELEMENTS(probes); i++) {
		uint8_t bytes[IP_SITE_MAX];
		unsigned length = length_of(&probes[i]);

		assert_int_equal(target->arch->live(probes[i].form, length,
						    SECOND + probes[i].offset, POOL, bytes),
				 0);
		assert_int_equal(ip_target_write(target, SECOND + probes[i].offset, bytes, length),
				 0);
	}
	find();
	assert_int_equal(changes.whole.n, 2 * N_ELEMENTS(probes));
	for (size_t i = 0; i < N_ELEMENTS(probes); i++)
		for (size_t k = N_ELEMENTS(probes); k < changes.whole.n; k++)
			assert_int_not_equal(changes.whole.items[i].group,
					     changes.whole.items[k].group);
}

static void test_memory_that_is_gone(void **state)
{
	struct ip_module_state s;

	(void)state;
	make_all_live();
	fake_target_lose_memory(target);
	assert_int_equal(ip_restore_changes_find(target, &modules, &changes), -1);
	assert_error("has ended");
	assert_int_equal(ip_module_inspect(target, &modules.items[0], &s), -1);
}

int __real_ip_target_write(const struct ip_target *t, uint64_t address, const void *buffer,
			   size_t size);
int __wrap_ip_target_write(const struct ip_target *t, uint64_t address, const void *buffer,
			   size_t size);

/* Before each write of the watched site: a thread could go on here, if the writer were killed. */
int __wrap_ip_target_write(const struct ip_target *t, uint64_t address, const void *buffer,
			   size_t size)
{
	if (watched) {
		enum ip_site_state s;
		uint8_t bytes[IP_SITE_MAX];

		assert_int_equal(ip_target_read(t, watched->address, bytes, watched->length), 0);
		s = ip_site_state_of_form(t, watched->form, watched->length, watched->transit_regs,
					  watched->jump, watched->address, bytes);
		assert_int_not_equal(s, IP_SITE_FOREIGN);
		assert_int_not_equal(s, IP_SITE_ORPHAN);
		assert_int_equal(address / FAKE_PAGE, (address + size - 1) / FAKE_PAGE);
		writes++;
	}
	return __real_ip_target_write(t, address, buffer, size);
}

/* Wherever a site crosses a page, each write lies within one, and leaves code that can be run. */
static void test_steps_of_a_site_that_crosses(void **state)
{
	(void)state;
	for (unsigned form = IP_FORM_CALL; form <= IP_FORM_JUMP; form++)
		for (unsigned length = 5; length <= 6; length++)
			for (unsigned split = 1; split < length; split++) {
				struct ip_change c = {.address = BIAS + 0x2000 - split,
						      .length = length,
						      .form = form,
						      .transit_regs = IP_REGS_CALL};
				uint8_t now[IP_SITE_MAX];

				target->arch->idle(form, length, 0, c.new_bytes);
				target->arch->live(form, length, c.address, POOL, c.old_bytes);
				set(0x2000 - split, c.old_bytes, length);
				watched = &c;
				writes = 0;
				if (form == IP_FORM_JUMP && length == 6 && split == 1) {
					assert_int_equal(ip_patch_in_place_write(target, &c), -1);
					assert_error("cannot be written safely");
					assert_int_equal(writes, 0);
					watched = NULL;
					continue;
				}
				assert_int_equal(ip_patch_in_place_write(target, &c), 0);
				watched = NULL;
				assert_in_range(writes, 1, 3);
				assert_int_equal(ip_target_read(target, c.address, now, length), 0);
				assert_memory_equal(now, c.new_bytes, length);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nothing_is_live, begin, end),
		cmocka_unit_test_setup_teardown(test_all_is_live, begin, end),
		cmocka_unit_test_setup_teardown(test_leftovers, begin, end),
		cmocka_unit_test_setup_teardown(test_beside_breakpoints, begin, end),
		cmocka_unit_test_setup_teardown(test_other_bytes, begin, end),
		cmocka_unit_test_setup_teardown(test_a_module_that_has_gone, begin, end),
		cmocka_unit_test_setup_teardown(test_groups_of_modules, begin, end),
		cmocka_unit_test_setup_teardown(test_memory_that_is_gone, begin, end),
		cmocka_unit_test_setup_teardown(test_steps_of_a_site_that_crosses, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
