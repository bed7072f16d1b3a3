/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loader's list of libraries, as this program has it itself. What cannot be read whole counts
 * as no list: a part of it would hide what is loaded and unloaded behind that part.
 */
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/arch/arch.h"
#include "hotpatcher/process/link_map.h"
#include "hotpatcher/process/target.h"

static int setup(void **state)
{
	*state = ip_link_map_create();
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	ip_link_map_destroy(*state);
	return 0;
}

/* By hand: a program must not open itself as a target. */
static const struct ip_target *self(void)
{
	static struct ip_target target = {.arch = &ip_arch_x86_64, .mem = -1};

	if (target.mem < 0)
		target.mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	target.pid = getpid();
	return &target;
}

/* The loader's own: the program's _r_debug may be a copy of it. */
static struct r_debug *debug(void)
{
	ElfW(Dyn) *d = _DYNAMIC;

	while (d->d_tag != DT_DEBUG)
		d++;
	return (struct r_debug *)d->d_un.d_ptr;
}

static struct link_map *last(void)
{
	struct link_map *l = debug()->r_map;

	while (l->l_next)
		l = l->l_next;
	return l;
}

static void test_changes_show(void **state)
{
	struct ip_link_map *l = *state;
	struct link_map *end = last(), extra = {.l_addr = 1};
	bool longer, same;
	int noted;

	assert_int_equal(ip_link_map_note(l, self()), 1);
	assert_false(ip_link_map_changed(l, self()));
	end->l_next = &extra;
	longer = ip_link_map_changed(l, self());
	noted = ip_link_map_note(l, self());
	same = !ip_link_map_changed(l, self());
	end->l_next = NULL; /* the loader goes through the list when this program ends */
	assert_true(longer);
	assert_int_equal(noted, 1);
	assert_true(same);
	assert_true(ip_link_map_changed(l, self()));
}

static void test_a_list_that_is_being_changed(void **state)
{
	struct ip_link_map *l = *state;
	int noted;

	debug()->r_state = RT_ADD;
	noted = ip_link_map_note(l, self());
	debug()->r_state = RT_CONSISTENT;
	assert_int_equal(noted, 0);
	assert_int_equal(ip_link_map_note(l, self()), 1);
}

static void test_a_list_without_an_end(void **state)
{
	struct ip_link_map *l = *state;
	struct link_map *end = last();
	int noted;

	assert_int_equal(ip_link_map_note(l, self()), 1);
	end->l_next = debug()->r_map;
	noted = ip_link_map_note(l, self());
	end->l_next = NULL;
	assert_int_equal(noted, -1);
	/* what has shown once that it cannot be trusted is not asked again */
	assert_int_equal(ip_link_map_note(l, self()), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_changes_show, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_list_that_is_being_changed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_list_without_an_end, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
