/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where stubs lie: none over another, each aligned, shared by whom it may be, and the same every
 * time.
 */
#include <elf.h>
#include <stdlib.h>

#include "common/elf/probe_list.h"
#include "hotpatcher/plan/stub_layout.h"
#include "test/unit/test.h"

static const struct ip_arch *const arch = &ip_arch_x86_64;

static const struct {
	const char *function;
	uint8_t kind, form, regs, flags;
	const char *args;
} probes[] = {
	{"f", IP_PROBE_ENTRY, IP_FORM_CALL, IP_REGS_ENTRY, 0, NULL},
	{"f", IP_PROBE_EXIT, IP_FORM_CALL, IP_REGS_RETURN, 0, NULL},
	{"f", IP_PROBE_EXIT, IP_FORM_CALL, IP_REGS_RETURN, 0,
	 NULL}, /* another return of it: the same stubs */
	{"f", IP_PROBE_TAIL_EXIT, IP_FORM_CALL, IP_REGS_ALL, 0, NULL},
	{"g", IP_PROBE_ENTRY, IP_FORM_CALL, IP_REGS_CALL, 0, NULL}, /* instrument: no values */
	{"g", IP_PROBE_TAIL_EXIT, IP_FORM_RETURN, IP_REGS_CALL, 0, NULL},
	{"g", IP_PROBE_ENTRY, IP_FORM_JUMP, IP_REGS_ALL, IP_PROBE_INLINED, NULL},
	{"p", IP_PROBE_POINT, IP_FORM_JUMP, IP_REGS_ALL, 0, "4@%edi"},
	{"p", IP_PROBE_POINT, IP_FORM_JUMP, IP_REGS_ALL, 0,
	 "4@%esi"}, /* the arguments lie elsewhere: a stub of its own */
	{"p", IP_PROBE_POINT, IP_FORM_CALL, IP_REGS_ALL, 0, "4@%eax"},
	{"p", IP_PROBE_POINT, IP_FORM_CALL, IP_REGS_ALL, 0, "8@%rax"},
	{"p", IP_PROBE_POINT, IP_FORM_CALL, IP_REGS_ALL, 0, NULL},
	/* returns of f that are sites themselves: other stubs than those that are called */
	{"f", IP_PROBE_EXIT, IP_FORM_RETURN, IP_REGS_RETURN, 0, NULL},
	{"f", IP_PROBE_EXIT, IP_FORM_RETURN, IP_REGS_RETURN, 0, NULL},
};

#define N (sizeof(probes) / sizeof(probes[0]))

static struct ip_probe_list *make_list(void)
{
	const uint8_t id[] = {1, 2, 3, 4};
	struct ip_probe_list_builder *b;
	struct ip_probe_list *list;
	size_t size;
	void *data;

	assert_int_equal(
		ip_probe_list_builder_create(EM_X86_64, IP_PLACEMENT_FENTRY, id, sizeof(id), &b),
		0);
	for (size_t i = 0; i < N; i++) {
		const struct ip_pl_probe p = {.offset = 0x1000 + 16 * i,
					      .function = ip_probe_list_builder_function(
						      b, probes[i].function, 0, NULL, 0),
					      .kind = probes[i].kind,
					      .length = 5,
					      .form = probes[i].form,
					      .regs = probes[i].regs,
					      .flags = probes[i].flags};

		assert_int_equal(ip_probe_list_builder_probe(b, &p, probes[i].args, NULL), 0);
	}
	assert_int_equal(ip_probe_list_builder_finish(b, &data, &size), 0);
	ip_probe_list_builder_destroy(b);
	if (ip_probe_list_parse(data, size, &list) < 0)
		fail_msg("%s", ip_error_message());
	free(data);
	return list;
}

static size_t size_of(size_t probe)
{
	return probes[probe].form == IP_FORM_JUMP ? arch->jump_stub_size : arch->stub_size;
}

static void test_places(void **state)
{
	struct ip_probe_list *list = make_list();
	struct ip_stub_layout map, again;
	uint8_t *used;

	(void)state;
	assert_int_equal(ip_stub_layout_make(list, arch, &map), 0);
	assert_int_equal(ip_stub_layout_make(list, arch, &again), 0);
	assert_int_equal(map.size, again.size);
	assert_memory_equal(map.offsets, again.offsets, N * sizeof(*map.offsets));
	assert_memory_equal(map.payload_offsets, again.payload_offsets,
			    N * sizeof(*map.payload_offsets));
	assert_memory_equal(map.payloads, again.payloads, N * sizeof(*map.payloads));

	/* the two returns of f share both stubs; nothing else overlaps */
	assert_int_equal(map.offsets[1], map.offsets[2]);
	assert_int_equal(map.payload_offsets[1], map.payload_offsets[2]);
	assert_int_equal(map.payloads[1], map.payloads[2]);
	/* points of one kind and set of registers share the plain stub */
	assert_int_equal(map.offsets[9], map.offsets[11]);
	assert_int_equal(map.offsets[12], map.offsets[13]);
	assert_int_equal(map.payload_offsets[12], map.payload_offsets[13]);
	used = calloc(1, map.size);
	for (size_t i = 0; i < N; i++) {
		bool values = i < 3 || (i >= 7 && i <= 10) || i >= 12;
		bool shared = i == 2 || i == 10 || i == 11 || i == 13;

		assert_int_equal(ip_probe_has_values(&list->probes[i]), values);
		assert_int_equal(map.payload_offsets[i] != 0, values);
		assert_int_equal(map.offsets[i] % size_of(i), 0);
		assert_int_equal(map.payload_offsets[i] % size_of(i), 0);
		for (size_t k = 0; !shared && k < size_of(i); k++)
			assert_int_equal(used[map.offsets[i] + k]++, 0);
		for (size_t k = 0; values && i != 2 && i != 13 && k < size_of(i); k++)
			assert_int_equal(used[map.payload_offsets[i] + k]++, 0);
	}
	assert_int_equal(map.npayloads, 7);
	for (size_t i = 0; i < N; i++) {
		assert_true(map.payloads[i] < map.npayloads);
		for (size_t k = 0; k < i; k++)
			if (map.payload_offsets[i] && map.payload_offsets[k])
				assert_int_equal(map.payloads[i] == map.payloads[k],
						 (i == 2 && k == 1) || (i == 13 && k == 12));
	}
	free(used);
	ip_stub_layout_clear(&map);
	ip_stub_layout_clear(&again);
	ip_probe_list_destroy(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
