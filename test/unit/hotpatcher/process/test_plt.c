// SPDX-License-Identifier: Apache-2.0
/* The PLT of this program itself, held against what it has in memory. */
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hotpatcher/process/plt.h"
#include "test/unit/test.h"

#define OWN "own_function"

static struct ip_module module = {.path = "this program"};

static int take_bias(struct dl_phdr_info *info, size_t size, void *data)
{
	*(uint64_t *)data = info->dlpi_addr; /* the program comes first */
	return 1;
}

/* A list with one probe, at this address of the file. */
static struct ip_probe_list *make_list(uint64_t offset)
{
	struct ip_pl_probe probe = {.offset = offset, .kind = IP_PROBE_ENTRY, .length = 5};
	struct ip_probe_list_builder *b;
	struct ip_probe_list *list;
	size_t size;
	void *data;

	assert_int_equal(ip_probe_list_builder_create(EM_X86_64, IP_PLACEMENT_FENTRY,
						      module.elf->build_id,
						      module.elf->build_id_size, &b),
			 0);
	probe.function = ip_probe_list_builder_function(b, OWN, 0, "a.c", 1);
	assert_int_equal(ip_probe_list_builder_probe(b, &probe, NULL, NULL), 0);
	assert_int_equal(ip_probe_list_builder_finish(b, &data, &size), 0);
	ip_probe_list_builder_destroy(b);
	assert_int_equal(ip_probe_list_parse(data, size, &list), 0);
	free(data);
	return list;
}

static int setup(void **state)
{
	(void)state;
	dl_iterate_phdr(take_bias, &module.load_bias);
	assert_int_equal(ip_elf_open("/proc/self/exe", &module.elf), 0);
	return 0;
}

static const struct ip_plt_entry *entry(const struct ip_plt *plt, const char *symbol)
{
	for (size_t i = 0; i < plt->n; i++)
		if (!strcmp(plt->items[i].symbol, symbol))
			return &plt->items[i];
	fail_msg("no PLT entry of %s", symbol);
	return NULL;
}

static void test_entries(void **state)
{
	const struct ip_plt_entry *e;
	struct ip_plt plt;
	uint64_t before = 0;

	(void)state;
	assert_non_null(getenv("PATH")); /* its slot is bound */
	assert_int_equal(ip_plt_find(module.elf, &plt), 0);
	assert_in_range(plt.n, 3, 1000);
	for (size_t i = 0; i < plt.n; i++) {
		const uint8_t *code = (void *)(module.load_bias + plt.items[i].site);
		int32_t distance;

		assert_in_range(plt.items[i].site, before + 8, UINT64_MAX);
		before = plt.items[i].site;
		assert_int_equal(code[0], 0xff);
		assert_int_equal(code[1], 0x25);
		memcpy(&distance, code + 2, sizeof(distance));
		assert_int_equal(plt.items[i].slot, plt.items[i].site + 6 + (int64_t)distance);
		/* no site is on two pages, so it needs no transit form */
		assert_in_range(plt.items[i].site % 4096, 0, 4096 - 6);
	}
	e = entry(&plt, "getenv");
	assert_int_equal(*(uint64_t *)(module.load_bias + e->slot),
			 (uintptr_t)dlsym(RTLD_DEFAULT, "getenv"));
	ip_plt_clear(&plt);
}

/* The functions stand behind those of the list, each once, and sites remain in order. */
static void check_extended(const struct ip_probe_list *own, size_t nentries)
{
	const struct ip_probe_list *list = module.list;
	size_t nplt = 0;

	assert_true(module.plt);
	assert_string_equal(ip_probe_list_string(list, list->functions[0].name), OWN);
	assert_string_equal(ip_probe_list_string(list, list->functions[0].file), "a.c");
	assert_memory_equal(list->header->build_id, own->header->build_id, IP_BUILD_ID_MAX);
	assert_int_equal(list->header->nprobes, 1 + nentries);
	assert_in_range(list->header->nfunctions, 2, 1 + nentries);
	for (uint32_t i = 0; i < list->header->nprobes; i++) {
		const struct ip_pl_probe *p = &list->probes[i];
		const char *name = ip_probe_list_string(list, list->functions[p->function].name);

		assert_true(i == 0 || p->offset > list->probes[i - 1].offset);
		if (!p->function)
			continue;
		nplt++;
		assert_int_equal(p->form, IP_FORM_PLT);
		assert_int_equal(ip_probe_frame(p), 8);
		assert_string_equal(name + strlen(name) - 4, "@plt");
	}
	assert_int_equal(nplt, nentries);
	for (uint32_t i = 1; i < list->header->nfunctions; i++)
		for (uint32_t k = 1; k < i; k++)
			assert_string_not_equal(
				ip_probe_list_string(list, list->functions[i].name),
				ip_probe_list_string(list, list->functions[k].name));
}

static void test_extended_list(void **state)
{
	uint64_t offsets[3];
	struct ip_plt plt;

	(void)state;
	assert_int_equal(ip_plt_find(module.elf, &plt), 0);
	offsets[0] = 0x10;			     /* in front of all of them */
	offsets[1] = plt.items[1].site + 10;	     /* between two */
	offsets[2] = plt.items[plt.n - 1].site + 64; /* behind them */
	for (int i = 0; i < 3; i++) {
		struct ip_probe_list *own = make_list(offsets[i]);

		module.list = make_list(offsets[i]);
		module.plt = false;
		for (size_t k = 0; k < plt.n; k++)
			assert_int_equal(ip_plt_slot(&module, module.load_bias + plt.items[k].site),
					 0);
		assert_int_equal(ip_plt_add(&module), 0);
		check_extended(own, plt.n);
		for (size_t k = 0; k < plt.n; k++) {
			const uint64_t site = module.load_bias + plt.items[k].site;

			assert_int_equal(ip_plt_slot(&module, site),
					 module.load_bias + plt.items[k].slot);
			assert_int_equal(ip_plt_slot(&module, site & ~7ull),
					 module.load_bias + plt.items[k].slot);
			assert_int_not_equal(ip_plt_slot(&module, site + 1),
					     module.load_bias + plt.items[k].slot);
		}
		ip_probe_list_destroy(own);
		ip_probe_list_destroy(module.list);
		module.list = NULL;
	}
	ip_plt_clear(&plt);
}

/* A list that claims bytes of the PLT describes other code: it stays as it was. */
static void test_overlap(void **state)
{
	struct ip_plt plt;
	struct ip_probe_list *own;

	(void)state;
	assert_int_equal(ip_plt_find(module.elf, &plt), 0);
	own = module.list = make_list(plt.items[0].site + 2);
	module.plt = false;
	assert_int_equal(ip_plt_add(&module), -1);
	assert_error("this program: its PLT: ");
	assert_ptr_equal(module.list, own);
	assert_false(module.plt);
	ip_probe_list_destroy(own);
	module.list = NULL;
	ip_plt_clear(&plt);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_entries),
		cmocka_unit_test(test_extended_list),
		cmocka_unit_test(test_overlap),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
