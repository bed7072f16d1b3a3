/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules by their mappings: which there are, whose files and lists they have, and what stays when
 * they are looked at again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hotpatcher/process/modules.h"
#include "test/unit/fake_target.h"
#include "test/unit/test.h"

#define FIRST  0x400000ull
#define SECOND 0x500000ull
#define THIRD  0x600000ull

static const struct fake_probe probes[] = {
	{"f", .offset = 0x1000, .kind = IP_PROBE_ENTRY, .regs = IP_REGS_ENTRY},
	{"f", .offset = 0x1020, .kind = IP_PROBE_EXIT, .regs = IP_REGS_RETURN},
};

static const struct fake_recipe with_probes = {
	.build_id = "one", .probes = probes, .nprobes = N_ELEMENTS(probes), .room_pages = 2};
static const struct fake_recipe newer = {
	.build_id = "two", .probes = probes, .nprobes = N_ELEMENTS(probes), .room_pages = 2};
static const struct fake_recipe plain = {.build_id = "none"};

static struct ip_target *target;
static struct fake_module file, library;
static struct ip_modules modules, now;

static int begin(void **state)
{
	(void)state;
	target = fake_target_open();
	target->pid = getpid(); /* whose root files are looked up in */
	file = fake_module_make(&with_probes);
	library = fake_module_make(&plain);
	return 0;
}

static int end(void **state)
{
	(void)state;
	ip_modules_clear(&modules);
	ip_modules_clear(&now);
	fake_module_remove(&file);
	fake_module_remove(&library);
	ip_target_close(target);
	return 0;
}

static void load(size_t n)
{
	ip_modules_clear(&modules);
	assert_int_equal(ip_modules_load(target, &modules), 0);
	assert_int_equal(modules.n, n);
}

static void reload(size_t n)
{
	ip_modules_clear(&now);
	assert_int_equal(ip_modules_reload(target, &modules, &now), 0);
	assert_int_equal(now.n, n);
}

static void test_what_is_mapped(void **state)
{
	const struct ip_module *m;

	(void)state;
	fake_target_load(target, &file, SECOND);
	fake_target_load(target, &library, FIRST);
	/* none of these is a module: data that is mapped, and what has no file */
	fake_target_map(target, THIRD, 0x1000, "r--p", "/usr/share/locale", 7, 0);
	fake_target_map(target, THIRD + 0x1000, 0x1000, "r-xp", "", 0, 0);
	fake_target_map(target, THIRD + 0x2000, 0x1000, "r-xp", "/memfd:jit", 8, 0);
	fake_target_map(target, THIRD + 0x3000, 0x1000, "r-xp", "[vdso]", 0, 0);
	load(2);
	m = &modules.items[0];
	assert_int_equal(m->start, FIRST);
	assert_int_equal(m->end, FIRST + fake_module_room(&library));
	assert_string_equal(m->path, library.path);
	assert_null(m->list);
	assert_null(m->problem);
	assert_true(m->fresh);
	m = &modules.items[1];
	assert_int_equal(m->start, SECOND);
	assert_int_equal(m->load_bias, SECOND);
	assert_int_equal(m->list->header->nprobes, N_ELEMENTS(probes));
	assert_true(m->may_go);
	assert_true(ip_module_is_mapped(target, m));
	fake_target_unload(target, &file, SECOND);
	assert_false(ip_module_is_mapped(target, m));
	/* another file's text at its place */
	fake_target_load(target, &library, SECOND);
	assert_false(ip_module_is_mapped(target, m));
}

/* One file at two places is two modules, however close they are. */
static void test_one_file_twice(void **state)
{
	uint64_t size = fake_module_room(&file) + file.room_size;

	(void)state;
	fake_target_load(target, &file, FIRST);
	fake_target_load(target, &file, FIRST + size);
	load(2);
	assert_int_equal(modules.items[0].start, FIRST);
	assert_int_equal(modules.items[1].start, FIRST + size);
	assert_int_equal(modules.items[1].load_bias, FIRST + size);
	assert_non_null(modules.items[0].list);
	assert_non_null(modules.items[1].list);
	assert_int_equal(modules.items[1].room, FIRST + size + fake_module_room(&file));
}

/* Memory without a file between two mappings of one file is in the module. */
static void test_a_page_of_its_own(void **state)
{
	(void)state;
	fake_target_load(target, &file, FIRST);
	/* the text's page, as it is after a change without a stop */
	target->maps.items[1].inode = 0;
	target->maps.items[1].path[0] = '\0';
	load(0); /* no text of a file */
	target->maps.items[2].perms[2] = 'x';
	load(1);
	assert_int_equal(modules.items[0].end, FIRST + fake_module_room(&file));
}

/* The file at the path is not what is mapped. */
static void test_files_that_were_replaced(void **state)
{
	(void)state;
	fake_target_load(target, &file, FIRST);
	fake_module_replace(&file, &newer);
	load(1);
	assert_null(modules.items[0].list);
	assert_null(modules.items[0].elf);
	assert_non_null(strstr(modules.items[0].problem, "is not the one that runs"));
	assert_non_null(strstr(modules.items[0].problem, "build-id 6f6e65 in memory"));
	assert_int_equal(ip_modules_no_probes(target, &modules), -1);
	assert_error("is not the one that runs");
	/* the same build in another file does: some file systems show other inodes */
	fake_module_replace(&file, &with_probes);
	load(1);
	assert_null(modules.items[0].problem);
	assert_non_null(modules.items[0].list);
	/* none is there any more */
	assert_int_equal(unlink(file.path), 0);
	load(1);
	assert_non_null(modules.items[0].problem);
	assert_null(modules.items[0].elf);
}

/* What the list says is not believed. */
static void test_lists_that_do_not_fit(void **state)
{
	struct fake_recipe recipe = with_probes;
	struct fake_probe in_data = probes[0];

	(void)state;
	recipe.list_id = "two";
	fake_module_replace(&file, &recipe);
	fake_target_load(target, &file, FIRST);
	load(1);
	assert_null(modules.items[0].list);
	assert_non_null(strstr(modules.items[0].problem, "belongs to another build"));
	assert_int_equal(target->nrooms, 0);
	/* a site that begins in the text's last byte, and one in the data */
	for (int i = 0; i < 2; i++) {
		fake_target_unload(target, &file, FIRST);
		in_data.offset = i ? FAKE_TEXT + FAKE_PAGE : FAKE_TEXT + FAKE_PAGE - 1;
		recipe = (struct fake_recipe){.build_id = "one", .probes = &in_data, .nprobes = 1};
		fake_module_replace(&file, &recipe);
		fake_target_load(target, &file, FIRST);
		load(1);
		assert_null(modules.items[0].list);
		assert_non_null(strstr(modules.items[0].problem, "which is no code"));
	}
	in_data.offset = FAKE_TEXT + FAKE_PAGE - 5;
	fake_target_unload(target, &file, FIRST);
	fake_module_replace(&file, &recipe);
	fake_target_load(target, &file, FIRST);
	load(1);
	assert_non_null(modules.items[0].list);
}

static void test_no_probes(void **state)
{
	(void)state;
	load(0);
	assert_int_equal(ip_modules_no_probes(target, &modules), -1);
	assert_error("it was not built with iprobe-cc");
	fake_target_load(target, &library, FIRST);
	load(1);
	assert_int_equal(ip_modules_no_probes(target, &modules), -1);
	assert_error(library.path);
}

/* Room for stubs is taken only where all of it is private executable memory. */
static void test_room(void **state)
{
	struct ip_mapping *room;

	(void)state;
	fake_target_load(target, &file, FIRST);
	load(1);
	assert_int_equal(target->nrooms, 1);
	assert_int_equal(modules.items[0].room, FIRST + fake_module_room(&file));
	assert_int_equal(modules.items[0].room_size, file.room_size);
	room = &target->maps.items[3];
	assert_int_equal(room->start, FIRST + fake_module_room(&file));
	/* not executable, shared, a file's, shorter */
	for (int i = 0; i < 4; i++) {
		memcpy(room->perms, i == 0 ? "rw-p" : i == 1 ? "r-xs" : "r-xp", 5);
		room->inode = i == 2 ? 99 : 0;
		room->end -= i == 3 ? FAKE_PAGE : 0;
		assert_int_equal(ip_modules_find_rooms(target, &modules), 0);
		assert_int_equal(target->nrooms, 0);
		assert_int_equal(modules.items[0].room, 0);
		assert_int_equal(modules.items[0].room_size, 0);
	}
	/* it may lie in two mappings */
	fake_target_map(target, room->end, FAKE_PAGE, "r-xp", "", 0, 0);
	assert_int_equal(ip_modules_find_rooms(target, &modules), 0);
	assert_int_equal(target->nrooms, 1);
	assert_int_equal(modules.items[0].room_size, file.room_size);
}

/* A module that is mapped as it was keeps its open file and list, whatever has become of the file;
 * what the old modules keep then belongs to those that are gone. */
static void test_modules_that_stay(void **state)
{
	const struct ip_probe_list *list;

	(void)state;
	fake_target_load(target, &file, FIRST);
	load(1);
	list = modules.items[0].list;
	assert_int_equal(unlink(file.path), 0);
	fake_target_load(target, &library, SECOND);
	reload(2);
	assert_false(now.items[0].fresh);
	assert_ptr_equal(now.items[0].list, list);
	assert_null(modules.items[0].list);
	assert_null(modules.items[0].elf);
	assert_int_equal(now.items[0].room, FIRST + fake_module_room(&file));
	assert_int_equal(target->nrooms, 1);
	assert_non_null(now.items[0].jumps);
	assert_true(now.items[1].fresh);
}

/* dlclose and dlopen: the library comes back at another address. */
static void test_a_module_that_comes_back_elsewhere(void **state)
{
	const struct ip_probe_list *list;

	(void)state;
	fake_target_load(target, &file, FIRST);
	load(1);
	list = modules.items[0].list;
	fake_target_unload(target, &file, FIRST);
	fake_target_load(target, &file, THIRD);
	reload(1);
	assert_true(now.items[0].fresh);
	assert_int_equal(now.items[0].load_bias, THIRD);
	assert_ptr_not_equal(now.items[0].list, list);
	assert_non_null(now.items[0].list);
	/* the old one is told of as unloaded */
	assert_ptr_equal(modules.items[0].list, list);
	assert_non_null(modules.items[0].elf);
	assert_int_equal(target->nrooms, 1);
	assert_int_equal(target->rooms[0].address, THIRD + fake_module_room(&file));
}

/* Another version at the very same place, at the same path: by its build-id. */
static void test_a_module_that_was_exchanged(void **state)
{
	struct fake_module old;
	uint64_t inode = file.inode;

	(void)state;
	fake_target_load(target, &file, FIRST);
	load(1);
	old = file;
	file = fake_module_make(&newer);
	assert_int_equal(rename(file.path, old.path), 0);
	memcpy(file.path, old.path, sizeof(old.path));
	fake_target_unload(target, &file, FIRST);
	file.inode = inode; /* inode numbers are used anew */
	fake_target_load(target, &file, FIRST);
	reload(1);
	assert_true(now.items[0].fresh);
	assert_memory_equal(now.items[0].elf->build_id, "two", 3);
	assert_memory_equal(modules.items[0].elf->build_id, "one", 3);
	free(old.bytes);
}

/* Text that is gone while it is looked at is no reason to fail. */
static void test_memory_that_is_gone(void **state)
{
	(void)state;
	fake_target_load(target, &file, FIRST);
	load(1);
	fake_target_lose_memory(target);
	reload(1);
	assert_null(now.items[0].list);
	assert_non_null(now.items[0].problem);
	assert_non_null(modules.items[0].list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_is_mapped, begin, end),
		cmocka_unit_test_setup_teardown(test_one_file_twice, begin, end),
		cmocka_unit_test_setup_teardown(test_a_page_of_its_own, begin, end),
		cmocka_unit_test_setup_teardown(test_files_that_were_replaced, begin, end),
		cmocka_unit_test_setup_teardown(test_lists_that_do_not_fit, begin, end),
		cmocka_unit_test_setup_teardown(test_no_probes, begin, end),
		cmocka_unit_test_setup_teardown(test_room, begin, end),
		cmocka_unit_test_setup_teardown(test_modules_that_stay, begin, end),
		cmocka_unit_test_setup_teardown(test_a_module_that_comes_back_elsewhere, begin,
						end),
		cmocka_unit_test_setup_teardown(test_a_module_that_was_exchanged, begin, end),
		cmocka_unit_test_setup_teardown(test_memory_that_is_gone, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
