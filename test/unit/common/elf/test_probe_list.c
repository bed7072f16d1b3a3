// SPDX-License-Identifier: Apache-2.0
/*
 * Probe lists: what the builder makes the reader takes, and nothing hostile gets through. Hostile
 * means: each byte of a good list changed to each value, a cut at every length, and a wrong value
 * in each field.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/elf/probe_list.h"
#include "test/unit/make_elf.h"
#include "test/unit/test.h"

static const uint8_t build_id[] = "0123456789abcdefghij";

struct block {
	struct ip_pl_header *header;
	struct ip_pl_function *functions;
	struct ip_pl_probe *probes;
	char *strings;
	uint8_t *bytes;
	size_t size;
};

static struct ip_probe_list_builder *new_builder(void)
{
	struct ip_probe_list_builder *b;

	assert_int_equal(
		ip_probe_list_builder_create(EM_X86_64, IP_PLACEMENT_INSTRUMENT, build_id, 20, &b),
		0);
	return b;
}

static int add_probe(struct ip_probe_list_builder *b, uint64_t offset, uint32_t function,
		     uint32_t line, unsigned kind, uint8_t length, uint8_t flags, uint32_t frame)
{
	struct ip_pl_probe probe = {
		.offset = offset,
		.function = function,
		.line = line,
		.kind = kind,
		.length = length,
		.flags = flags,
		.form = kind == IP_PROBE_TAIL_EXIT ? IP_FORM_RETURN : IP_FORM_CALL,
		.frame = frame,
	};

	return ip_probe_list_builder_probe(b, &probe, NULL, NULL);
}

/* Two functions, five probes, added out of order. */
static struct block small_block(void)
{
	struct ip_probe_list_builder *b = new_builder();
	struct block block = {0};
	void *data;

	assert_int_equal(ip_probe_list_builder_function(b, "alpha", 0x1000, "a.c", 10), 0);
	assert_int_equal(ip_probe_list_builder_function(b, "beta", 0x2000, NULL, 0), 1);
	assert_int_equal(add_probe(b, 0x2010, 1, 0, IP_PROBE_ENTRY, 6, 0, 0), 0);
	assert_int_equal(add_probe(b, 0x1005, 0, 11, IP_PROBE_ENTRY, 5, 0, 48), 0);
	assert_int_equal(add_probe(b, 0x100a, 0, 12, IP_PROBE_EXIT, 5, 0, 0), 0);
	assert_int_equal(add_probe(b, 0x2016, 1, 0, IP_PROBE_TAIL_EXIT, 5, IP_PROBE_INLINED, 0), 0);
	assert_int_equal(add_probe(b, 0x3000, 1, 0, IP_PROBE_POINT, 5, 0, 0), 0);
	assert_int_equal(ip_probe_list_builder_finish(b, &data, &block.size), 0);
	ip_probe_list_builder_destroy(b);
	block.bytes = data;
	block.header = data;
	block.functions = (void *)(block.bytes + block.header->functions_offset);
	block.probes = (void *)(block.bytes + block.header->probes_offset);
	block.strings = (char *)block.bytes + block.header->strings_offset;
	return block;
}

static void check_small(const struct ip_probe_list *list)
{
	static const uint64_t offsets[] = {0x1005, 0x100a, 0x2010, 0x2016, 0x3000};

	assert_int_equal(list->header->nfunctions, 2);
	assert_int_equal(list->header->nprobes, 5);
	assert_int_equal(list->header->placement, IP_PLACEMENT_INSTRUMENT);
	assert_int_equal(list->header->build_id_size, 20);
	assert_memory_equal(list->header->build_id, build_id, 20);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(list->probes[i].offset, offsets[i]);
	assert_int_equal(list->probes[3].kind, IP_PROBE_TAIL_EXIT);
	assert_int_equal(list->probes[3].flags, IP_PROBE_INLINED);
	assert_int_equal(list->probes[2].length, 6);
	assert_int_equal(list->probes[1].line, 12);
	assert_string_equal(ip_probe_list_string(list, list->functions[0].name), "alpha");
	assert_string_equal(ip_probe_list_string(list, list->functions[0].file), "a.c");
	assert_string_equal(ip_probe_list_string(list, list->functions[1].name), "beta");
	assert_string_equal(ip_probe_list_string(list, list->functions[1].file), "");
	assert_int_equal(list->functions[0].line, 10);
}

static void test_round_trip(void **state)
{
	struct block block = small_block();
	struct ip_probe_list *list;

	(void)state;
	assert_int_equal(ip_probe_list_parse(block.bytes, block.size, &list), 0);
	/* It is a copy. */
	memset(block.bytes, 0, block.size);
	free(block.bytes);
	check_small(list);
	ip_probe_list_destroy(list);
	ip_probe_list_destroy(NULL);
}

static void test_empty_list(void **state)
{
	struct ip_probe_list_builder *b = new_builder();
	struct ip_probe_list *list;
	void *data;
	size_t size;

	(void)state;
	assert_int_equal(ip_probe_list_builder_finish(b, &data, &size), 0);
	assert_int_equal(ip_probe_list_parse(data, size, &list), 0);
	assert_int_equal(list->header->nprobes, 0);
	ip_probe_list_destroy(list);
	ip_probe_list_builder_destroy(b);
	free(data);
}

static void test_large(void **state)
{
	struct ip_probe_list_builder *b = new_builder();
	struct ip_probe_list *list;
	void *data;
	size_t size;
	char name[32];
	const unsigned n = 20000;

	(void)state;
	for (unsigned i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "function_%u", i);
		assert_int_equal(
			ip_probe_list_builder_function(b, name, i, i % 2 ? "odd.c" : "even.c", i),
			i);
		/* descending, so that sorting has work to do */
		assert_int_equal(add_probe(b, (n - i) * 16, i, 0, IP_PROBE_ENTRY, 5, 0, 0), 0);
	}
	for (unsigned i = 0; i < n; i += 7) {
		snprintf(name, sizeof(name), "function_%u", i);
		assert_int_equal(ip_probe_list_builder_function(b, name, i, "other.c", 0), i);
		assert_int_equal(ip_probe_list_builder_function(b, name, n + i, NULL, 0),
				 n + i / 7);
	}
	assert_int_equal(ip_probe_list_builder_finish(b, &data, &size), 0);
	assert_int_equal(ip_probe_list_parse(data, size, &list), 0);
	assert_int_equal(list->header->nprobes, n);
	for (unsigned i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "function_%u", i);
		assert_string_equal(ip_probe_list_string(list, list->functions[i].name), name);
		assert_string_equal(ip_probe_list_string(list, list->functions[i].file),
				    i % 2 ? "odd.c" : "even.c");
		assert_int_equal(list->probes[i].offset, (i + 1) * 16);
		assert_int_equal(list->probes[i].function, n - 1 - i);
	}
	/* Strings are shared: names, four file names, the empty one. */
	assert_true(list->header->strings_size < n * 15 + 64);
	ip_probe_list_destroy(list);
	ip_probe_list_builder_destroy(b);
	free(data);
}

static void test_builder_refuses(void **state)
{
	struct ip_probe_list_builder *b;
	void *data;
	size_t size;

	(void)state;
	assert_int_equal(
		ip_probe_list_builder_create(183, IP_PLACEMENT_INSTRUMENT, build_id, 20, &b), -1);
	assert_error("machine 183");
	assert_int_equal(
		ip_probe_list_builder_create(EM_X86_64, IP_PLACEMENT_INSTRUMENT, build_id, 0, &b),
		-1);
	assert_error("build-id");
	assert_int_equal(
		ip_probe_list_builder_create(EM_X86_64, IP_PLACEMENT_INSTRUMENT, build_id, 33, &b),
		-1);

	b = new_builder();
	assert_int_equal(ip_probe_list_builder_function(b, "", 0x10, NULL, 0), -1);
	assert_error("without a name");
	assert_int_equal(add_probe(b, 0, 0, 0, IP_PROBE_ENTRY, 5, 0, 0), -1);
	assert_error("of function 0");
	assert_int_equal(ip_probe_list_builder_function(b, "f", 0x10, NULL, 0), 0);
	assert_int_equal(add_probe(b, 0x77, 0, 0, IP_PROBE_ENTRY, 4, 0, 0), -1);
	assert_error("0x77");
	assert_int_equal(add_probe(b, 0x100, 0, 0, IP_PROBE_ENTRY, 6, 0, 0), 0);
	assert_int_equal(add_probe(b, 0x105, 0, 0, IP_PROBE_EXIT, 5, 0, 0), 0);
	assert_int_equal(ip_probe_list_builder_finish(b, &data, &size), -1);
	assert_error("overlap: 0x100 (f) and 0x105 (f)");
	ip_probe_list_builder_destroy(b);

	b = new_builder();
	assert_int_equal(ip_probe_list_builder_function(b, "f", 0, NULL, 0), 0);
	assert_int_equal(add_probe(b, UINT64_MAX - 2, 0, 0, IP_PROBE_ENTRY, 5, 0, 0), 0);
	assert_int_equal(ip_probe_list_builder_finish(b, &data, &size), -1);
	assert_error("wraps around");
	ip_probe_list_builder_destroy(b);
	ip_probe_list_builder_destroy(NULL);
}

/* Touches all that the accessors reach: the sanitizers see what goes out of bounds. */
static void walk(const struct ip_probe_list *list)
{
	uint64_t end = 0;

	for (uint32_t i = 0; i < list->header->nfunctions; i++) {
		const struct ip_pl_function *f = &list->functions[i];

		assert_true(strlen(ip_probe_list_string(list, f->name)) > 0);
		assert_true(strlen(ip_probe_list_string(list, f->file)) <
			    list->header->strings_size);
	}
	for (uint32_t i = 0; i < list->header->nprobes; i++) {
		const struct ip_pl_probe *p = &list->probes[i];

		assert_true(p->function < list->header->nfunctions);
		assert_true(p->offset >= end && p->length >= 5 && p->length <= 6);
		assert_in_range(p->kind, IP_PROBE_ENTRY, IP_PROBE_POINT);
		end = p->offset + p->length;
	}
}

static void try_block(const uint8_t *bytes, size_t size)
{
	struct ip_probe_list *list = NULL;
	/* A copy of its exact size, so that reading behind it is seen. */
	uint8_t *copy = malloc(size ? size : 1);

	assert_non_null(copy);
	memcpy(copy, bytes, size);
	ip_error("none");
	if (ip_probe_list_parse(copy, size, &list) == 0) {
		walk(list);
		ip_probe_list_destroy(list);
	} else {
		assert_null(list);
		assert_error("probe list");
	}
	free(copy);
}

static void test_every_byte_changed(void **state)
{
	struct block block = small_block();

	(void)state;
	for (size_t i = 0; i < block.size; i++) {
		uint8_t was = block.bytes[i];

		for (unsigned value = 0; value < 256; value++) {
			block.bytes[i] = (uint8_t)value;
			try_block(block.bytes, block.size);
		}
		block.bytes[i] = was;
	}
	free(block.bytes);
}

static void test_cut_everywhere(void **state)
{
	struct block block = small_block();
	struct ip_probe_list *list;

	(void)state;
	for (size_t size = 0; size < block.size; size++) {
		assert_int_equal(ip_probe_list_parse(block.bytes, size, &list), -1);
		assert_error("probe list");
		try_block(block.bytes, size);
	}
	free(block.bytes);
}

static void test_random_changes(void **state)
{
	struct block block = small_block();
	uint8_t *bytes = malloc(block.size);
	uint64_t seed = 1;

	(void)state;
	assert_non_null(bytes);
	for (int round = 0; round < 20000; round++) {
		memcpy(bytes, block.bytes, block.size);
		for (int i = 0; i < 3; i++) {
			seed = seed * 6364136223846793005 + 1442695040888963407;
			bytes[(seed >> 33) % block.size] = (uint8_t)(seed >> 25);
		}
		try_block(bytes, block.size);
	}
	free(bytes);
	free(block.bytes);
}

/* One wrong field at a time; each must be refused with the offset of just that field. */
static void test_wrong_fields(void **state)
{
	struct block b = small_block();
	struct ip_pl_header *h = b.header;
	const struct {
		void *field;
		size_t size;
		uint64_t value;
		const char *error;
	} cases[] = {
		{h->magic, 1, 'x', "not a probe list"},
		{&h->version, 4, 1, "version 1"},
		{&h->version, 4, 4, "version 4; this iprobe reads versions 2 to 3"},
		{&h->header_size, 4, 112, "byte 12:"},
		{&h->machine, 4, 183, "byte 16: unknown machine"},
		{&h->placement, 4, 0, "byte 20: unknown placement"},
		{&h->placement, 4, 4, "byte 20: unknown placement"},
		{&h->nfunctions, 4, UINT32_MAX, "byte 24: 4294967295 functions"},
		{&h->nfunctions, 4, 1, "byte 40: probes at"},
		{&h->nprobes, 4, UINT32_MAX, "byte 28: 4294967295 probes"},
		{&h->nprobes, 4, 4, "byte 48: strings at"},
		{&h->functions_offset, 8, UINT64_MAX - 7, "byte 32:"},
		{&h->probes_offset, 8, 0, "byte 40:"},
		{&h->strings_offset, 8, UINT64_MAX, "byte 48:"},
		{&h->strings_size, 8, UINT64_MAX, "byte 56:"},
		{&h->strings_size, 8, h->strings_size - 1, "byte 56:"},
		{&h->build_id_size, 4, 0, "byte 64:"},
		{&h->build_id_size, 4, 33, "byte 64:"},
		{&h->build_id_size, 4, 19, "byte 68:"},
		{&b.functions[0].name, 4, 0, "function 0 without a name"},
		{&b.functions[1].name, 4, h->strings_size, "function 1 without a name"},
		{&b.functions[1].name, 4, h->strings_size - 1, "function 1 without a name"},
		{&b.functions[1].file, 4, UINT32_MAX, "file name of function 1"},
		{&b.functions[1].reserved, 4, 1, "byte 172: reserved"},
		{&b.probes[0].function, 4, 2, "byte 184: probe 0 of function 2"},
		{&b.probes[0].kind, 1, 0, "byte 192: probe of unknown kind 0"},
		{&b.probes[0].kind, 1, 5, "byte 192: probe of unknown kind 5"},
		{&b.probes[0].length, 1, 7, "byte 195: site of 7 bytes"},
		{&b.probes[0].length, 1, 6, "byte 208: site at 0x100a is not behind"},
		{&b.probes[0].flags, 1, 8, "byte 194: unknown flags"},
		{&b.probes[0].form, 1, 5, "byte 195: site of unknown form"},
		{&b.probes[0].form, 1, IP_FORM_TAIL, "byte 195: probe 0 is a jump"},
		{&b.probes[3].form, 1, IP_FORM_TAIL, "probe 3 is a jump"}, /* of registers CALL */
		{&b.probes[0].form, 1, IP_FORM_RETURN, "byte 195: probe 0 is a return"},
		{&b.probes[1].form, 1, IP_FORM_RETURN, "byte 227: probe 1 is a return"},
		{&b.probes[3].regs, 1, IP_REGS_ALL, "probe 3 is a return"},
		{&b.probes[0].regs, 1, 4, "byte 196: unknown set of registers"},
		{&b.probes[0].args, 4, UINT32_MAX, "byte 200: arguments of probe 0"},
		{&h->stub_area_size, 8, UINT64_MAX, "byte 112: room for stubs"},
		{&b.probes[4].arg_text, 4, UINT32_MAX, "text of the arguments of probe 4"},
		{&b.probes[0].reserved, 1, 1, "byte 197: reserved"},
		{&b.probes[1].offset, 8, 0x1005, "byte 208: site at 0x1005 is not behind"},
		{&b.probes[1].offset, 8, 0, "byte 208: site at 0x0 is not behind"},
		{&b.probes[4].offset, 8, UINT64_MAX - 3, "wraps around"},
		{&b.strings[0], 1, 'x', "strings do not begin"},
		{&b.strings[h->strings_size - 1], 1, 'x', "strings do not begin"},
	};
	struct ip_probe_list *list;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		uint8_t was[8];

		memcpy(was, cases[i].field, cases[i].size);
		memcpy(cases[i].field, &cases[i].value, cases[i].size);
		if (ip_probe_list_parse(b.bytes, b.size, &list) == 0)
			fail_msg("case %zu: %s", i, cases[i].error);
		assert_error(cases[i].error);
		memcpy(cases[i].field, was, cases[i].size);
	}
	assert_int_equal(ip_probe_list_parse(b.bytes, b.size, &list), 0);
	ip_probe_list_destroy(list);
	free(b.bytes);
}

static void test_load(void **state)
{
	struct block block = small_block();
	struct ip_probe_list *list;
	char path[64], fifo[64];
	int fd = made_fd(block.bytes, block.size);

	(void)state;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_int_equal(ip_probe_list_load(path, &list), 0);
	check_small(list);
	ip_probe_list_destroy(list);
	assert_int_equal(ftruncate(fd, (off_t)block.size - 1), 0);
	assert_int_equal(ip_probe_list_load(path, &list), -1);
	assert_error(path);
	assert_int_equal(ftruncate(fd, 1ll << 40), 0);
	assert_int_equal(ip_probe_list_load(path, &list), -1);
	assert_error("more than any");
	close(fd);
	assert_int_equal(ip_probe_list_load("/nowhere/at.probes", &list), -1);
	assert_error("/nowhere/at.probes: cannot open: No such file");
	assert_int_equal(ip_probe_list_load("/", &list), -1);
	assert_error("directory");
	snprintf(fifo, sizeof(fifo), "/tmp/test_common_probe_list.%d", getpid());
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(ip_probe_list_load(fifo, &list), -1);
	unlink(fifo);
	assert_error("not a regular file");
	free(block.bytes);
}

static void test_from_elf(void **state)
{
	struct block block = small_block();
	struct elf_recipe recipe = {
		.build_id = (const char *)build_id, .list = block.bytes, .list_size = block.size};
	struct made_elf elf = make_elf(&recipe);
	struct ip_probe_list *list;
	int fd = made_fd(elf.bytes, elf.size);

	(void)state;
	assert_int_equal(lseek(fd, 7, SEEK_SET), 7);
	assert_int_equal(ip_probe_list_from_elf(fd, "made", &list), 1);
	check_small(list);
	ip_probe_list_destroy(list);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 7);
	close(fd);
	free(elf.bytes);

	/* None in it. */
	recipe.list = NULL;
	elf = make_elf(&recipe);
	fd = made_fd(elf.bytes, elf.size);
	list = (void *)&elf;
	assert_int_equal(ip_probe_list_from_elf(fd, "made", &list), 0);
	assert_null(list);
	close(fd);
	free(elf.bytes);

	/* An empty section, a cut list, another build's list. */
	recipe.list = block.bytes;
	for (int i = 0; i < 3; i++) {
		static const char *const errors[] = {
			"made: not a probe list", "made: corrupt probe list",
			"made: its probe list belongs to another build"};

		recipe.list_size = i == 0 ? 0 : block.size - (i == 1);
		recipe.build_id = i == 2 ? "another build" : (const char *)build_id;
		elf = make_elf(&recipe);
		fd = made_fd(elf.bytes, elf.size);
		assert_int_equal(ip_probe_list_from_elf(fd, "made", &list), -1);
		assert_error(errors[i]);
		assert_null(list);
		close(fd);
		free(elf.bytes);
	}

	fd = made_fd("no ELF", 6);
	assert_int_equal(ip_probe_list_from_elf(fd, "made", &list), -1);
	assert_error("made: not an ELF file");
	close(fd);
	free(block.bytes);
}

/* Separate debug information: segments that lie elsewhere, and what is no list is none. */
static void test_from_debug_file(void **state)
{
	struct block block = small_block();
	struct elf_recipe recipe = {
		.build_id = (const char *)build_id, .list = block.bytes, .list_size = block.size};
	struct made_elf elf = make_elf(&recipe);
	struct ip_probe_list *list;
	int fd;

	(void)state;
	elf.phdrs[0].p_offset = elf.phdrs[1].p_offset = 1u << 30;
	fd = made_fd(elf.bytes, elf.size);
	assert_int_equal(ip_probe_list_from_elf(fd, "made", &list), -1);
	assert_error("segment 0 lies behind its end");
	assert_int_equal(ip_probe_list_from_debug_file(fd, "made", &list), 1);
	check_small(list);
	ip_probe_list_destroy(list);
	close(fd);

	/* The module has kept the section: its header alone is here. */
	elf.shdrs[MADE_LIST].sh_type = SHT_NOBITS;
	fd = made_fd(elf.bytes, elf.size);
	assert_int_equal(ip_probe_list_from_debug_file(fd, "made", &list), 0);
	assert_null(list);
	close(fd);

	/* What it says is checked as in the module. */
	elf.shdrs[MADE_LIST].sh_type = SHT_PROGBITS;
	elf.shdrs[MADE_LIST].sh_size--;
	fd = made_fd(elf.bytes, elf.size);
	assert_int_equal(ip_probe_list_from_debug_file(fd, "made", &list), -1);
	assert_error("made: corrupt probe list");
	assert_null(list);
	close(fd);

	/* Nothing behind the end of the file is read. */
	elf.shdrs[MADE_LIST].sh_size = 1u << 30;
	fd = made_fd(elf.bytes, elf.size);
	assert_int_equal(ip_probe_list_from_debug_file(fd, "made", &list), 0);
	assert_null(list);
	close(fd);
	free(elf.bytes);

	fd = made_fd("no ELF", 6);
	assert_int_equal(ip_probe_list_from_debug_file(fd, "made", &list), 0);
	assert_null(list);
	close(fd);
	free(block.bytes);
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(ip_placement_name(IP_PLACEMENT_INSTRUMENT), "instrument");
	assert_string_equal(ip_placement_name(IP_PLACEMENT_FENTRY), "fentry");
	assert_string_equal(ip_placement_name(IP_PLACEMENT_INLINE), "inline");
	assert_string_equal(ip_placement_name(0), "?");
	assert_string_equal(ip_probe_kind_name(IP_PROBE_ENTRY), "entry");
	assert_string_equal(ip_probe_kind_name(IP_PROBE_EXIT), "exit");
	assert_string_equal(ip_probe_kind_name(IP_PROBE_TAIL_EXIT), "tail-exit");
	assert_string_equal(ip_probe_kind_name(IP_PROBE_POINT), "point");
	assert_string_equal(ip_probe_kind_name(99), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_empty_list),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_builder_refuses),
		cmocka_unit_test(test_every_byte_changed),
		cmocka_unit_test(test_cut_everywhere),
		cmocka_unit_test(test_random_changes),
		cmocka_unit_test(test_wrong_fields),
		cmocka_unit_test(test_load),
		cmocka_unit_test(test_from_elf),
		cmocka_unit_test(test_from_debug_file),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
