/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stubs: where they go, what they say, and that a second session finds them as the first left them.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/trace/trace_format.h"
#include "hotpatcher/plan/plan.h"
#include "hotpatcher/plan/stub_layout.h"
#include "test/unit/fake_target.h"
#include "test/unit/test.h"

#define BIAS	  0x100000000ull
#define ELSEWHERE 0x100080000ull
#define POOL	  0x100200000ull
#define POOL_SIZE 0x10000ull
#define NEAR	  0x100300000ull /* hooks within a jump's reach of the pool */
#define FAR	  0x7f0000000000ull

/* a call's entry and exit, an inlined instance that jumps, an exit that is the return itself */
#define F_IN   0x1000
#define F_OUT  0x1020
#define G_IN   0x1040
#define INSIDE 0x1060
#define G_OUT  0x1080

static const struct fake_probe probes[] = {
	{.function = "f", .offset = F_IN, .kind = IP_PROBE_ENTRY, .regs = IP_REGS_ENTRY},
	{.function = "f", .offset = F_OUT, .kind = IP_PROBE_EXIT, .regs = IP_REGS_RETURN},
	{.function = "g", .offset = G_IN, .kind = IP_PROBE_ENTRY, .regs = IP_REGS_ENTRY},
	{.function = "g",
	 .offset = INSIDE,
	 .kind = IP_PROBE_ENTRY,
	 .form = IP_FORM_JUMP,
	 .regs = IP_REGS_ALL,
	 .flags = IP_PROBE_INLINED},
	{.function = "g",
	 .offset = G_OUT,
	 .kind = IP_PROBE_EXIT,
	 .form = IP_FORM_RETURN,
	 .regs = IP_REGS_RETURN},
};

static const struct fake_recipe usual = {
	.build_id = "stub", .probes = probes, .nprobes = N_ELEMENTS(probes), .room_pages = 1};
static const struct fake_recipe without_room = {
	.build_id = "stub", .probes = probes, .nprobes = N_ELEMENTS(probes)};
static const struct fake_recipe other = {
	.build_id = "else", .probes = probes, .nprobes = N_ELEMENTS(probes)};

static struct ip_target *target;
static struct ip_area *area;
static struct fake_module file;
static struct ip_modules modules;
static struct ip_selections all;
static struct ip_plan plan;

static void load(const struct fake_recipe *recipe, uint64_t bias)
{
	if (!file.bytes)
		file = fake_module_make(recipe);
	fake_target_load(target, &file, bias);
	assert_int_equal(ip_modules_load(target, &modules), 0);
	assert_int_equal(modules.n, 1);
	assert_null(modules.items[0].problem);
}

static int begin(void **state)
{
	(void)state;
	target = fake_target_open();
	target->pid = getpid();
	fake_target_set_runtime(target, NEAR, POOL, POOL_SIZE);
	assert_int_equal(ip_area_create(1 << 20, &area), 0);
	assert_int_equal(ip_selections_add(&all, NULL), 0);
	return 0;
}

static void forget_modules(void)
{
	ip_plan_clear(&plan);
	ip_modules_clear(&modules);
}

static int end(void **state)
{
	(void)state;
	forget_modules();
	ip_selections_clear(&all);
	if (file.bytes)
		fake_module_remove(&file);
	ip_area_close(area);
	ip_target_close(target);
	return 0;
}

static int bind(void)
{
	ip_plan_clear(&plan);
	assert_int_equal(ip_plan_select(target, &modules, &all, &plan), 0);
	return ip_plan_bind(&plan, target, area);
}

static void bound(void)
{
	if (bind() < 0)
		fail_msg("%s", ip_error_message());
}

/* Where the site leads when it is live. */
static uint64_t stub_of(uint64_t site)
{
	for (size_t i = 0; i < plan.nchanges; i++) {
		const struct ip_change *c = &plan.changes[i];
		uint64_t stub;

		if (c->address != modules.items[0].load_bias + site)
			continue;
		assert_true(target->arch->live_target(c->form, c->length, c->address, c->new_bytes,
						      &stub));
		return stub;
	}
	fail();
	return 0;
}

static uint32_t number_of(uint64_t site)
{
	for (size_t i = 0; i < plan.nchanges; i++)
		if (plan.changes[i].address == modules.items[0].load_bias + site)
			return plan.functions[plan.function_of[i]].number;
	fail();
	return 0;
}

static uint32_t word_at(uint64_t address)
{
	uint32_t word;

	assert_int_equal(ip_target_read(target, address, &word, sizeof(word)), 0);
	return word;
}

static uint64_t long_at(uint64_t address)
{
	uint64_t value;

	assert_int_equal(ip_target_read(target, address, &value, sizeof(value)), 0);
	return value;
}

/* The stub of a call: its number, and where it jumps to. *ret_direct: by a direct jump. */
static uint64_t decode(uint64_t stub, uint32_t number, bool *ret_direct)
{
	uint64_t jump;

	/* movl $number,-8(%rsp) */
	assert_int_equal(word_at(stub), 0xf82444c7);
	assert_int_equal(word_at(stub + 4), number);
	jump = stub + 8;
	*ret_direct = fake_target_byte(target, jump) == 0xe9;
	if (*ret_direct)
		return jump + 5 + (uint64_t)(int64_t)(int32_t)word_at(jump + 1);
	assert_int_equal(word_at(jump) & 0xffff, 0x25ff);
	return long_at(jump + 6 + (uint64_t)(int64_t)(int32_t)word_at(jump + 2));
}

static void test_what_stubs_say(void **state)
{
	const struct ip_rt_anchor *a = &target->anchor;
	bool direct;

	(void)state;
	load(&without_room, BIAS);
	bound();
	assert_int_equal(number_of(F_IN), 1);
	assert_int_equal(number_of(F_OUT), 1);
	assert_int_equal(number_of(G_IN), 3);
	assert_int_equal(number_of(INSIDE), 4); /* the instance has a number of its own */
	assert_int_equal(decode(stub_of(F_IN), 1, &direct), a->hooks[0][IP_REGS_ENTRY]);
	assert_true(direct);
	assert_int_equal(decode(stub_of(F_OUT), 1, &direct), a->hooks[1][IP_REGS_RETURN]);
	assert_int_equal(decode(stub_of(G_IN), 3, &direct), a->hooks[0][IP_REGS_ENTRY]);
	assert_int_equal(decode(stub_of(G_OUT), 3, &direct), a->return_hooks[0]);
	assert_true(direct);
	/* a jump stub steps over the red zone, calls, and goes back behind its site */
	assert_int_equal(word_at(stub_of(INSIDE) + 6), 4);
	assert_int_equal(fake_target_byte(target, stub_of(INSIDE) + 24), 0xe9);
	assert_int_equal(stub_of(INSIDE) + 29 +
				 (uint64_t)(int64_t)(int32_t)word_at(stub_of(INSIDE) + 25),
			 BIAS + INSIDE + 5);
	for (size_t i = 0; i < plan.nchanges; i++) {
		uint64_t stub = stub_of(plan.changes[i].address - BIAS);

		assert_true(ip_target_is_stub(target, stub));
		assert_in_range(stub, POOL + IP_POOL_HEAD, POOL + area->header->stubs_used[0] - 1);
	}
	assert_true(ip_area_has_stubs(area, BIAS));
	assert_false(ip_area_has_stubs(area, ELSEWHERE));
	assert_int_equal(ip_plan_first_number(area, &modules.items[0]), 1);
}

/* Where no direct jump reaches the runtime stubs go through the slots at the pool's head. */
static void test_hooks_out_of_reach(void **state)
{
	bool direct;

	(void)state;
	fake_target_set_runtime(target, FAR, POOL, POOL_SIZE);
	load(&without_room, BIAS);
	bound();
	assert_int_equal(decode(stub_of(F_IN), 1, &direct), target->anchor.hooks[0][IP_REGS_ENTRY]);
	assert_false(direct);
	assert_int_equal(decode(stub_of(F_OUT), 1, &direct),
			 target->anchor.hooks[1][IP_REGS_RETURN]);
	assert_false(direct);
	assert_int_equal(decode(stub_of(G_OUT), 3, &direct), target->anchor.return_hooks[0]);
	assert_false(direct);
	assert_int_equal(word_at(stub_of(INSIDE) + 10) & 0xffff, 0x15ff);
	/* the whole head */
	for (unsigned kind = 1; kind <= IP_HOOK_KINDS; kind++) {
		for (unsigned regs = 0; regs < IP_HOOK_REGS; regs++)
			assert_int_equal(long_at(POOL + IP_POOL_SLOT(kind, regs)),
					 target->anchor.hooks[kind - 1][regs]);
		assert_int_equal(long_at(POOL + IP_POOL_JUMP_SLOT(kind)),
				 target->anchor.jump_hooks[kind - 1]);
		for (unsigned jump = 0; jump < 2; jump++)
			assert_int_equal(long_at(POOL + IP_POOL_PAYLOAD_SLOT(kind, jump)),
					 target->anchor.payload_hooks[kind - 1][jump]);
	}
	for (unsigned values = 0; values < 2; values++)
		assert_int_equal(long_at(POOL + IP_POOL_RETURN_SLOT(values)),
				 target->anchor.return_hooks[values]);
	assert_int_equal(long_at(POOL + IP_POOL_TAIL_SLOT), target->anchor.tail_hook);
	assert_int_equal(long_at(POOL + IP_POOL_PLT_SLOT), target->anchor.plt_hook);
}

/* No pool lies within a call's reach of the module: nothing is given away. */
static void test_no_pool_within_reach(void **state)
{
	(void)state;
	fake_target_set_runtime(target, NEAR, BIAS + ip_arch_x86_64.reach, POOL_SIZE);
	load(&without_room, BIAS);
	assert_int_equal(bind(), -1);
	assert_error("no room for its stubs within a call's reach");
	assert_int_equal(area->header->nmodules, 0);
	assert_int_equal(area->header->stubs_used[0], 0);
	assert_int_equal(area->modules[0].build_id_size, 0);
	/* its beginning does, and its end does not */
	target->anchor.pools[0].address -= POOL_SIZE / 2;
	assert_int_equal(bind(), -1);
	target->anchor.pools[0].address = BIAS + ip_arch_x86_64.reach - POOL_SIZE;
	assert_int_equal(bind(), -1);
	target->anchor.pools[0].address -= FAKE_PAGE;
	bound();
	/* the other pool does, and below the module the pool's beginning is what is far */
	area->header->nmodules = 0;
	area->header->stubs_used[0] = 0;
	target->anchor.pools[0].address = modules.items[0].end - ip_arch_x86_64.reach;
	target->anchor.pools[IP_POOL_LIBRARIES].address = POOL;
	target->anchor.pools[IP_POOL_LIBRARIES].size = POOL_SIZE;
	bound();
	assert_int_equal(area->modules[0].pool, IP_POOL_LIBRARIES);
	assert_in_range(stub_of(F_IN), POOL + IP_POOL_HEAD, POOL + POOL_SIZE - 1);
}

static void test_full_pools(void **state)
{
	struct ip_stub_layout layout;
	uint64_t needed;

	(void)state;
	load(&without_room, BIAS);
	assert_int_equal(ip_stub_layout_make(modules.items[0].list, target->arch, false, &layout),
			 0);
	needed = layout.size;
	ip_stub_layout_clear(&layout);
	target->anchor.pools[0].size = IP_POOL_HEAD + needed - 1;
	assert_int_equal(bind(), -1);
	assert_error("no room for its stubs");
	target->anchor.pools[0].size = IP_POOL_HEAD + needed;
	bound();
	assert_int_equal(area->header->stubs_used[0], target->anchor.pools[0].size);
	/* the target says that more is used than there is */
	forget_modules();
	fake_target_unload(target, &file, BIAS);
	fake_module_replace(&file, &other);
	area->header->stubs_used[0] = UINT64_MAX - 8;
	load(&other, BIAS);
	assert_int_equal(bind(), -1);
	assert_error("no room for its stubs");
}

/* Where the module's stubs begin in a pool of which no use is noted. */
static uint64_t first_stub_of(bool renewed, pid_t pid)
{
	area->header->renewed = renewed;
	area->header->nmodules = 0;
	area->header->stubs_used[0] = 0;
	memset(area->modules, 0, sizeof(*area->modules));
	ip_plan_clear(&plan);
	assert_int_equal(ip_plan_select(target, &modules, &all, &plan), 0);
	target->pid = pid;
	if (ip_plan_bind(&plan, target, area) < 0)
		fail_msg("%s", ip_error_message());
	target->pid = getpid();
	return area->modules[0].stubs;
}

/* Forked processes with an area of their own: behind the last page in which their parent has left
 * something, whether the kernel says which pages they have (here: ours) or not. Pages that are
 * there and zero are free: mlockall() makes all of them present. */
static void test_pools_of_a_forked_process(void **state)
{
	const uint64_t left = POOL + 5 * FAKE_PAGE;
	uint8_t *ours =
		mmap((void *)POOL, POOL_SIZE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_POPULATE, -1, 0);
	static const char zeros[FAKE_PAGE];

	(void)state;
#ifdef __SANITIZE_ADDRESS__
	if (ours != (void *)POOL)
		skip(); /* the sanitizer's shadow lies there */
#endif
	assert_ptr_equal(ours, (void *)POOL);
	load(&without_room, BIAS);
	assert_int_equal(first_stub_of(true, getpid()), POOL + IP_POOL_HEAD);
	assert_int_equal(ip_target_write(target, POOL, zeros, sizeof(zeros)), 0);
	assert_int_equal(first_stub_of(true, FAKE_NO_PID), POOL + IP_POOL_HEAD);
	/* the last byte of a page, and the first one */
	assert_int_equal(ip_target_write(target, left - 1, "x", 1), 0);
	assert_int_equal(first_stub_of(true, getpid()), left);
	assert_int_equal(first_stub_of(true, FAKE_NO_PID), left + FAKE_PAGE);
	assert_int_equal(first_stub_of(true, getpid()), left + 2 * FAKE_PAGE);
	/* a page that the process never had is not read */
	assert_int_equal(ip_target_write(target, POOL + POOL_SIZE - 1, "x", 1), 0);
	assert_int_equal(madvise(ours + POOL_SIZE - FAKE_PAGE, FAKE_PAGE, MADV_DONTNEED), 0);
	assert_int_equal(first_stub_of(true, getpid()), left + 3 * FAKE_PAGE);
	/* no area was made anew: what is noted holds */
	assert_int_equal(first_stub_of(false, getpid()), POOL + IP_POOL_HEAD);
	/* a pool that no runtime has is the target's word */
	area->header->renewed = 1;
	area->header->nmodules = 0;
	area->header->stubs_used[0] = 0;
	target->anchor.pools[0].size = IP_POOL_SIZE_MAX + FAKE_PAGE;
	assert_int_equal(bind(), -1);
	assert_error("damaged (pools)");
	munmap(ours, POOL_SIZE);
}

/* A module that stays brings its own room; one that may go must not have stubs in memory that is
 * another's in a moment. */
static void test_room_of_the_module(void **state)
{
	uint64_t room;

	(void)state;
	load(&usual, BIAS);
	room = BIAS + fake_module_room(&file);
	assert_int_equal(modules.items[0].room, room);
	modules.items[0].may_go = false;
	bound();
	assert_int_equal(area->modules[0].pool, IP_POOL_OWN);
	assert_int_equal(area->header->stubs_used[0], 0);
	assert_in_range(stub_of(F_IN), room + IP_POOL_HEAD, room + FAKE_PAGE - 1);
	assert_true(ip_target_is_stub(target, stub_of(F_IN)));
	assert_int_equal(long_at(room + IP_POOL_SLOT(IP_PROBE_ENTRY, IP_REGS_ENTRY)),
			 target->anchor.hooks[0][IP_REGS_ENTRY]);
	/* in another target */
	area->header->nmodules = 0;
	area->modules[0].build_id_size = 0;
	modules.items[0].may_go = true;
	bound();
	assert_int_equal(area->modules[0].pool, IP_POOL_EXECUTABLE);
	assert_in_range(stub_of(F_IN), POOL + IP_POOL_HEAD, POOL + POOL_SIZE - 1);
}

/* Sessions with the functions of the PLT and without them: both keep their own numbers and stubs,
 * so that a thread in a stub of the other one notices nothing. */
static void test_lists_with_and_without_plt(void **state)
{
	const struct fake_recipe *recipes[] = {&usual, &without_room};

	(void)state;
	for (int i = 0; i < 2; i++) {
		uint64_t stubs[2], start = POOL, size = POOL_SIZE;
		uint32_t numbers[2];
		uint8_t before[POOL_SIZE], after[POOL_SIZE];

		load(recipes[i], BIAS);
		modules.items[0].may_go = false;
		if (i == 0) {
			start = modules.items[0].room;
			size = FAKE_PAGE;
		}
		bound();
		stubs[0] = stub_of(F_IN);
		numbers[0] = number_of(F_IN);
		assert_int_equal(ip_target_read(target, start, before, size), 0);
		modules.items[0].plt = true;
		bound();
		assert_int_equal(area->header->nmodules, 2);
		stubs[1] = stub_of(F_IN);
		numbers[1] = number_of(F_IN);
		assert_int_not_equal(stubs[0], stubs[1]);
		assert_int_not_equal(numbers[0], numbers[1]);
		assert_in_range(stubs[1], start + IP_POOL_HEAD, start + size - 1);
		assert_int_equal(ip_target_read(target, start, after, size), 0);
		for (size_t k = 0; k < size; k++)
			assert_true(!before[k] || before[k] == after[k]);
		for (int plt = 0; plt < 2; plt++) {
			modules.items[0].plt = plt;
			bound();
			assert_int_equal(area->header->nmodules, 2);
			assert_int_equal(stub_of(F_IN), stubs[plt]);
			assert_int_equal(number_of(F_IN), numbers[plt]);
		}
		end(NULL);
		begin(NULL);
	}
}

/* Half of a room must hold the stubs: the other half is that of the other list. */
static void test_room_for_one_list(void **state)
{
	(void)state;
	load(&usual, BIAS);
	modules.items[0].may_go = false;
	modules.items[0].room_size = 2 * IP_POOL_HEAD + 64;
	modules.items[0].plt = true;
	bound();
	assert_int_equal(area->modules[0].pool, IP_POOL_EXECUTABLE);
}

/* A thread may still be on its way through a stub of the session before. */
static void test_a_second_session(void **state)
{
	uint8_t first[POOL_SIZE], second[POOL_SIZE];
	uint64_t used, stub;
	uint32_t number;

	(void)state;
	load(&without_room, BIAS);
	bound();
	used = area->header->stubs_used[0];
	stub = stub_of(F_IN);
	number = number_of(G_IN);
	assert_int_equal(ip_target_read(target, POOL, first, sizeof(first)), 0);
	/* one function of two, in any order */
	ip_selections_clear(&all);
	assert_int_equal(ip_selections_add(&all, "g"), 0);
	bound();
	assert_int_equal(number_of(G_IN), number);
	ip_selections_clear(&all);
	assert_int_equal(ip_selections_add(&all, "*"), 0);
	bound();
	assert_int_equal(stub_of(F_IN), stub);
	assert_int_equal(area->header->stubs_used[0], used);
	assert_int_equal(area->header->nmodules, 1);
	assert_int_equal(ip_target_read(target, POOL, second, sizeof(second)), 0);
	assert_memory_equal(first, second, sizeof(first));
}

static void reload(uint64_t bias)
{
	forget_modules();
	load(&without_room, bias);
}

static bool elsewhere(void *data, const struct ip_target *except,
		      const struct ip_area_module *entry)
{
	(void)except;
	assert_int_equal(entry->load_bias, BIAS);
	return *(const bool *)data;
}

/* A library that comes back at another address takes its numbers and places over; not so while
 * another copy of it is there, here or in a forked child. */
static void test_a_library_that_comes_back(void **state)
{
	bool is_there = true;
	uint64_t stub;

	(void)state;
	load(&without_room, BIAS);
	bound();
	stub = stub_of(F_IN);
	fake_target_unload(target, &file, BIAS);
	/* a child has it still */
	area->elsewhere = elsewhere;
	area->elsewhere_data = &is_there;
	reload(ELSEWHERE);
	bound();
	assert_int_equal(area->header->nmodules, 2);
	assert_int_equal(number_of(F_IN), 5);
	assert_int_not_equal(stub_of(F_IN), stub);
	/* it has it no longer */
	area->header->nmodules = 1;
	is_there = false;
	bound();
	assert_int_equal(area->header->nmodules, 1);
	assert_int_equal(area->modules[0].load_bias, ELSEWHERE);
	assert_int_equal(number_of(F_IN), 1);
	assert_int_equal(stub_of(F_IN), stub);
	/* jump stubs lead back to where the library is now */
	assert_int_equal(stub_of(INSIDE) + 29 +
				 (uint64_t)(int64_t)(int32_t)word_at(stub_of(INSIDE) + 25),
			 ELSEWHERE + INSIDE + 5);
}

static void test_two_copies(void **state)
{
	(void)state;
	load(&without_room, ELSEWHERE);
	bound();
	fake_target_load(target, &file, BIAS);
	forget_modules();
	assert_int_equal(ip_modules_load(target, &modules), 0);
	assert_int_equal(modules.n, 2);
	bound();
	assert_int_equal(area->header->nmodules, 2);
	assert_int_equal(area->modules[0].load_bias, ELSEWHERE);
	assert_int_equal(area->modules[1].load_bias, BIAS);
	assert_int_equal(area->modules[1].first_number, 5);
	assert_int_equal(plan.nchanges, 2 * N_ELEMENTS(probes));
}

/* The target can scribble on what we remember of it: then nothing is written where it says. */
static void test_damaged_entries(void **state)
{
	struct ip_area_module good;

	(void)state;
	load(&without_room, BIAS);
	bound();
	good = area->modules[0];
	for (unsigned i = 0; i < 8; i++) {
		struct ip_area_module *m = &area->modules[0];

		*m = good;
		switch (i) {
		case 0:
			m->stubs = BIAS + 0x1000;
			break;
		case 1:
			m->stubs += 8;
			break;
		case 2:
			m->stubs = POOL + POOL_SIZE - 32;
			break;
		case 3:
			m->stubs = POOL;
			break;
		case 4:
			m->pool = 9;
			break;
		case 5:
			m->first_number = 0;
			break;
		case 6:
			m->first_number = IP_NUMBER_MAX - 2;
			break;
		default:
			m->nfunctions++;
		}
		if (bind() == 0)
			fail_msg("damage %u was not seen", i);
		assert_error("memory is damaged");
		assert_int_equal(fake_target_byte(target, BIAS + 0x1000), 0x0f);
		/* numbers that could not be are none */
		if (i == 6)
			assert_int_equal(ip_plan_first_number(area, &modules.items[0]), 0);
	}
	area->modules[0] = good;
	bound();
}

static void test_all_that_there_is_is_given_away(void **state)
{
	(void)state;
	load(&without_room, BIAS);
	area->header->nmodules = IP_AREA_MODULES;
	assert_int_equal(bind(), -1);
	assert_error("modules have been patched");
	area->header->nmodules = 1;
	area->modules[0] =
		(struct ip_area_module){.first_number = 1, .nfunctions = IP_NUMBER_MAX / 2 - 1};
	assert_int_equal(bind(), -1);
	assert_error("too many functions");
	/* the last ones there are */
	area->modules[0].nfunctions--;
	bound();
	assert_in_range(number_of(INSIDE), IP_NUMBER_MAX - 2, IP_NUMBER_MAX);
}

#define MANY	  3000 /* functions: more sites than one thread writes the stubs of */
#define MANY_POOL 0x80000ull

/* Of a large program another thread writes the stubs; they say the same. */
static void test_many(void **state)
{
	static struct fake_probe many[2 * MANY];
	static char names[MANY][8];
	const struct fake_recipe large = {
		.build_id = "many", .probes = many, .nprobes = 2 * MANY, .text_pages = 32};
	const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY},
			    head_only = {POOL + IP_POOL_HEAD, RLIM_INFINITY};
	struct ip_stub_writer *writer;
	bool direct;

	(void)state;
	for (unsigned i = 0; i < 2 * MANY; i++) {
		sprintf(names[i / 2], "f%u", i / 2);
		many[i] = (struct fake_probe){.function = names[i / 2],
					      .offset = FAKE_TEXT + 16 * i,
					      .kind = i % 2 ? IP_PROBE_EXIT : IP_PROBE_ENTRY,
					      .regs = i % 2 ? IP_REGS_RETURN : IP_REGS_ENTRY};
	}
	fake_target_set_runtime(target, NEAR, POOL, MANY_POOL);
	load(&large, BIAS);
	assert_int_equal(ip_plan_select(target, &modules, &all, &plan), 0);
	assert_int_equal(plan.nchanges, 2 * MANY);
	/* what fails there is told here */
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &head_only), 0);
	assert_int_equal(ip_plan_bind_begin(&plan, target, area, &writer), 0);
	ip_error("another error");
	assert_int_equal(ip_plan_bind_end(writer), -1);
	assert_error("cannot write 0x");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);

	assert_int_equal(ip_plan_bind_begin(&plan, target, area, &writer), 0);
	/* numbers are there at once */
	for (size_t i = 0; i < plan.nfunctions; i++)
		assert_int_equal(plan.functions[i].number,
				 1 + IP_NUMBERS_PER_FUNCTION * plan.functions[i].function);
	assert_int_equal(ip_plan_bind_end(writer), 0);
	for (size_t i = 0; i < plan.nchanges; i++) {
		const struct ip_change *c = &plan.changes[i];
		const uint32_t number = plan.functions[plan.function_of[i]].number;
		uint64_t stub;

		assert_true(target->arch->live_target(c->form, c->length, c->address, c->new_bytes,
						      &stub));
		assert_int_equal(decode(stub, number, &direct),
				 target->anchor.hooks[c->kind - 1][c->regs]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_stubs_say, begin, end),
		cmocka_unit_test_setup_teardown(test_hooks_out_of_reach, begin, end),
		cmocka_unit_test_setup_teardown(test_no_pool_within_reach, begin, end),
		cmocka_unit_test_setup_teardown(test_full_pools, begin, end),
		cmocka_unit_test_setup_teardown(test_pools_of_a_forked_process, begin, end),
		cmocka_unit_test_setup_teardown(test_room_of_the_module, begin, end),
		cmocka_unit_test_setup_teardown(test_lists_with_and_without_plt, begin, end),
		cmocka_unit_test_setup_teardown(test_room_for_one_list, begin, end),
		cmocka_unit_test_setup_teardown(test_a_second_session, begin, end),
		cmocka_unit_test_setup_teardown(test_a_library_that_comes_back, begin, end),
		cmocka_unit_test_setup_teardown(test_two_copies, begin, end),
		cmocka_unit_test_setup_teardown(test_damaged_entries, begin, end),
		cmocka_unit_test_setup_teardown(test_all_that_there_is_is_given_away, begin, end),
		cmocka_unit_test_setup_teardown(test_many, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
