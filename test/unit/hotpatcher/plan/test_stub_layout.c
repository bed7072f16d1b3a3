/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where stubs lie: none over another, each aligned, shared by whom it may be, and the same every
 * time.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/elf/probe_list.h"
#include "hotpatcher/plan/stub_layout.h"
#include "hotpatcher/process/tails.h"
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
	assert_int_equal(ip_stub_layout_make(list, arch, true, &map), 0);
	assert_int_equal(ip_stub_layout_make(list, arch, true, &again), 0);
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

/* A probe of a function whose probes lie here and there, as those of parts of a function do. */
#define MANY 3000
#define FEW  40 /* functions */
static struct ip_probe_list *make_long_list(void)
{
	static const uint8_t id[] = {5, 6, 7, 8};
	struct ip_probe_list_builder *b;
	struct ip_probe_list *list;
	unsigned seed = 1;
	char name[16];
	size_t size;
	void *data;

	assert_int_equal(
		ip_probe_list_builder_create(EM_X86_64, IP_PLACEMENT_FENTRY, id, sizeof(id), &b),
		0);
	for (unsigned i = 0; i < MANY; i++) {
		struct ip_pl_probe p = {.offset = 0x1000 + 16 * i, .length = 5};

		snprintf(name, sizeof(name), "f%d", rand_r(&seed) % FEW);
		p.function = ip_probe_list_builder_function(b, name, 0, NULL, 0);
		p.kind = 1 + rand_r(&seed) % 4;
		p.form = rand_r(&seed) % 5;
		p.regs = rand_r(&seed) % 4;
		p.flags = rand_r(&seed) % 4 ? 0 : IP_PROBE_INLINED;
		if (p.form == IP_FORM_RETURN) {
			p.kind = rand_r(&seed) % 2 ? IP_PROBE_EXIT : IP_PROBE_TAIL_EXIT;
			p.regs = p.kind == IP_PROBE_EXIT ? IP_REGS_RETURN : IP_REGS_CALL;
		} else if (p.form == IP_FORM_TAIL) {
			p.kind = IP_PROBE_TAIL_EXIT;
			p.regs = IP_REGS_ALL;
			p.flags = 0;
		} else if (p.form == IP_FORM_PLT) {
			p.kind = IP_PROBE_ENTRY;
			p.regs = IP_REGS_ALL;
			p.flags = IP_PROBE_ENTRY_ONLY;
			p.length = 6;
		}
		assert_int_equal(ip_probe_list_builder_probe(b, &p, i % 3 ? NULL : "4@%edi", NULL),
				 0);
	}
	assert_int_equal(ip_probe_list_builder_finish(b, &data, &size), 0);
	ip_probe_list_builder_destroy(b);
	if (ip_probe_list_parse(data, size, &list) < 0)
		fail_msg("%s", ip_error_message());
	free(data);
	return list;
}

/* Whether two probes with stubs of that kind share one, as stub_layout.h says. */
static bool share(const struct ip_pl_probe *a, const struct ip_pl_probe *b, bool values, bool jumps)
{
	if (a->function != b->function || ip_form_has_own_stub(a->form) ||
	    ip_form_has_own_stub(b->form))
		return false;
	if (jumps)
		return a->regs == b->regs;
	if (a->kind != b->kind || (a->flags ^ b->flags) & IP_PROBE_INLINED ||
	    ip_probe_returns(a->kind, a->form) != ip_probe_returns(b->kind, b->form))
		return false;
	return values ? a->kind != IP_PROBE_POINT : a->regs == b->regs;
}

/* Where the layout must place the stubs of one kind; *at: where they begin and end. */
static void expect(const struct ip_probe_list *list, bool values, bool jumps,
		   const uint32_t *offsets, uint64_t *at)
{
	const struct ip_pl_probe *p = list->probes;

	*at = (*at + arch->jump_stub_size - 1) / arch->jump_stub_size * arch->jump_stub_size;
	for (int own = 1; own >= 0; own--)
		for (uint32_t i = 0; i < list->header->nprobes; i++) {
			uint32_t first = 0;

			if ((values && !ip_probe_has_values(&p[i])) ||
			    (jumps && !ip_probe_jumps(&p[i]))) {
				assert_int_equal(offsets[i], 0);
				continue;
			}
			if (own != ip_form_has_own_stub(p[i].form))
				continue;
			while (first < i && !(share(&p[first], &p[i], values, jumps) &&
					      (!values || ip_probe_has_values(&p[first])) &&
					      (!jumps || ip_probe_jumps(&p[first]))))
				first++;
			assert_int_equal(offsets[i], first < i ? offsets[first] : *at);
			if (first == i)
				*at += own ? arch->jump_stub_size : arch->stub_size;
		}
}

/* Each stub has the place that follows from the list, whether or not tables for values are made: a
 * process may have stubs of another iprobe. */
static void test_same_places(void **state)
{
	struct ip_probe_list *list = make_long_list();
	struct ip_stub_layout map, without;
	uint64_t at = 0;

	(void)state;
	assert_int_equal(ip_stub_layout_make(list, arch, true, &map), 0);
	expect(list, false, false, map.offsets, &at);
	expect(list, true, false, map.payload_offsets, &at);
	expect(list, false, true, map.jump_offsets, &at);
	assert_int_equal(map.size, at);
	assert_int_equal(ip_stub_layout_make(list, arch, false, &without), 0);
	assert_int_equal(without.size, map.size);
	assert_int_equal(without.npayloads, map.npayloads);
	assert_null(without.payload_offsets);
	assert_memory_equal(without.offsets, map.offsets, MANY * sizeof(*map.offsets));
	assert_memory_equal(without.jump_offsets, map.jump_offsets,
			    MANY * sizeof(*map.jump_offsets));
	ip_stub_layout_clear(&map);
	ip_stub_layout_clear(&without);
	ip_probe_list_destroy(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_same_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
