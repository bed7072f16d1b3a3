// SPDX-License-Identifier: Apache-2.0
/*
 * The ELF reader: what it finds in a good file, how it refuses the others, and that no damage done
 * to a file makes it read out of bounds.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/elf/elf_file.h"
#include "common/elf/note.h"
#include "test/unit/make_elf.h"
#include "test/unit/test.h"

static const struct elf_recipe good = {.build_id = "ABCDEFGH", .list = "list", .list_size = 4};

static int open_bytes(const void *bytes, size_t size, struct ip_elf_file **ret)
{
	int fd = made_fd(bytes, size);
	int r;

	ip_error("none");
	*ret = NULL;
	r = ip_elf_open_fd(fd, "made", ret);
	if (r < 0) {
		assert_null(*ret);
		close(fd);
	}
	return r;
}

static volatile unsigned sum; /* so that what is read is not left out */

/* Everything that can be asked of a file. */
static void ask_all(struct ip_elf_file *file)
{
	static const char *const names[] = {
		".text", ".bss", ".iprobe.probes", ".shstrtab", ".none", ".dynsym", ""};
	GElf_Shdr shdr;
	const void *data;
	size_t size, index;
	uint64_t value;

	for (size_t i = 0; i < N_ELEMENTS(names); i++)
		if (ip_elf_section(file, names[i], &shdr, &data, &size, &index) > 0)
			for (size_t k = 0; k < size; k++)
				sum += ((const uint8_t *)data)[k];
	ip_elf_symbol(file, MADE_SYMBOL, &value);
	ip_elf_symbol(file, "none", &value);
	assert_true(file->nloads > 0);
	assert_true(file->build_id_size <= sizeof(file->build_id));
}

static void close_made(struct ip_elf_file *file)
{
	int fd = file->fd;

	assert_false(file->own_fd);
	ip_elf_close(file);
	assert_int_equal(close(fd), 0); /* it was ours and is still open */
}

static void test_good(void **state)
{
	struct made_elf elf = make_elf(&good);
	struct ip_elf_file *file;
	GElf_Shdr shdr;
	const void *data;
	size_t size, index;
	uint64_t value;
	char text[65];

	(void)state;
	assert_int_equal(open_bytes(elf.bytes, elf.size, &file), 0);
	assert_int_equal(file->nloads, 2);
	assert_int_equal(file->loads[0].flags, PF_R | PF_X);
	assert_int_equal(file->loads[1].vaddr, elf.phdrs[1].p_vaddr);
	assert_int_equal(file->loads[1].offset, elf.phdrs[1].p_offset);
	assert_int_equal(file->loads[1].memsz, 0x1000);
	assert_int_equal(file->build_id_size, 8);
	assert_string_equal(ip_build_id_format(file->build_id, file->build_id_size, text),
			    "4142434445464748");

	assert_int_equal(ip_elf_section(file, ".iprobe.probes", &shdr, &data, &size, &index), 1);
	assert_int_equal(index, MADE_LIST);
	assert_int_equal(size, 4);
	assert_memory_equal(data, "list", 4);
	assert_int_equal(shdr.sh_offset, elf.shdrs[MADE_LIST].sh_offset);
	assert_int_equal(ip_elf_section(file, ".bss", &shdr, &data, &size, NULL), 1);
	assert_null(data);
	assert_int_equal(size, 0);
	assert_int_equal(shdr.sh_size, 1ull << 40);
	assert_int_equal(ip_elf_section(file, ".none", &shdr, &data, &size, NULL), 0);

	assert_int_equal(ip_elf_symbol(file, MADE_SYMBOL, &value), 1);
	assert_int_equal(value, MADE_SYMBOL_VALUE);
	assert_int_equal(ip_elf_symbol(file, "undefined", &value), 0);
	assert_int_equal(ip_elf_symbol(file, "none", &value), 0);
	close_made(file);
	free(elf.bytes);
	ip_elf_close(NULL);
}

static void test_no_sections(void **state)
{
	struct made_elf elf = make_elf(&good);
	struct ip_elf_file *file;
	GElf_Shdr shdr;
	const void *data;
	size_t size;
	uint64_t value;

	(void)state;
	elf.ehdr->e_shoff = 0;
	elf.ehdr->e_shnum = 0;
	elf.ehdr->e_shstrndx = 0;
	assert_int_equal(open_bytes(elf.bytes, elf.size, &file), 0);
	assert_int_equal(file->build_id_size, 8); /* by the segment */
	assert_int_equal(ip_elf_section(file, ".text", &shdr, &data, &size, NULL), 0);
	assert_int_equal(ip_elf_symbol(file, MADE_SYMBOL, &value), 0);
	close_made(file);
	free(elf.bytes);
}

static void test_build_id(void **state)
{
	struct made_elf elf = make_elf(&good);
	struct ip_elf_file *file;

	(void)state;
	elf.phdrs[2].p_type = PT_NULL; /* found by the section then */
	assert_int_equal(open_bytes(elf.bytes, elf.size, &file), 0);
	assert_int_equal(file->build_id_size, 8);
	close_made(file);
	elf.shdrs[MADE_NOTE].sh_type = SHT_PROGBITS;
	assert_int_equal(open_bytes(elf.bytes, elf.size, &file), 0);
	assert_int_equal(file->build_id_size, 0);
	close_made(file);
	free(elf.bytes);
}

static void test_notes(void **state)
{
	static const struct {
		uint32_t words[8];
		size_t size, id_size;
	} cases[] = {
		{{4, 4, 3, 0x554e47, 0x11223344}, 20, 4},
		{{4, 4, 3, 0x554e47, 0x11223344}, 19, 0},  /* cut */
		{{4, 0, 3, 0x554e47}, 16, 0},		   /* empty */
		{{4, 4, 1, 0x554e47, 0x11223344}, 20, 0},  /* another type */
		{{4, 4, 3, 0x554e48, 0x11223344}, 20, 0},  /* another name */
		{{4, 4, 3, 0x554e47}, 16, 0},		   /* nothing behind the name */
		{{4, 33, 3, 0x554e47, 1, 2, 3, 4}, 32, 0}, /* runs out */
		{{0xffffffff, 0xffffffff, 3, 0}, 32, 0},   /* sizes that would wrap 32 bits */
		{{4, 0xfffffffc, 1, 0, 4, 4, 3, 0}, 32, 0},
		{{0, 0, 7, 4, 4, 3, 0x554e47, 0x11}, 32, 4}, /* behind another note */
		{{0}, 11, 0},
		{{0}, 0, 0},
	};
	uint8_t id[32];

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		uint8_t *copy = malloc(cases[i].size + 1);

		assert_non_null(copy);
		memcpy(copy, cases[i].words, cases[i].size);
		assert_int_equal(ip_elf_build_id_in_notes(copy, cases[i].size, id),
				 cases[i].id_size);
		free(copy);
	}
}

/* A note of ours in the place of the build-id, which is as long. */
static void test_note_place(void **state)
{
	static const struct {
		uint32_t namesz, descsz, type;
		char owner[8];
		int64_t from_data; /* place, from the start of the data segment */
		uint64_t size;
		int found;
	} cases[] = {
		{7, 16, IP_NOTE_ROOM, IP_NOTE_OWNER, 0, 8, 1},
		{7, 16, IP_NOTE_ROOM, IP_NOTE_OWNER, 1, 1, 1},
		{7, 16, IP_NOTE_ROOM, IP_NOTE_OWNER, 0, 0, 0},		/* nothing there */
		{7, 16, IP_NOTE_ROOM, IP_NOTE_OWNER, 0, 1ull << 40, 0}, /* leaves the segment */
		{7, 16, IP_NOTE_ROOM, IP_NOTE_OWNER, 8, UINT64_MAX, 0}, /* wraps */
		{7, 16, IP_NOTE_ROOM, IP_NOTE_OWNER, -1, 1, 0},		/* code, or nothing */
		{7, 16, IP_NOTE_ANCHOR, IP_NOTE_OWNER, 0, 8, 0},	/* another type */
		{7, 16, IP_NOTE_ROOM, "iprobf", 0, 8, 0},		/* another owner */
		{7, 20, IP_NOTE_ROOM, IP_NOTE_OWNER, 0, 8, 0},		/* runs out */
		{6, 16, IP_NOTE_ROOM, IP_NOTE_OWNER, 0, 8, 0},
		{0xffffffff, 16, IP_NOTE_ROOM, IP_NOTE_OWNER, 0, 8, 0},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct made_elf elf =
			make_elf(&(struct elf_recipe){.build_id = "twenty bytes of them"});
		uint64_t desc = elf.phdrs[2].p_vaddr + 20, data = elf.phdrs[1].p_vaddr, address,
			 size;
		struct ip_note_place place = {data + cases[i].from_data - desc, cases[i].size};
		uint8_t *note = elf.bytes + elf.phdrs[2].p_offset;
		struct ip_elf_file *file;

		memcpy(note, &cases[i], 20);
		memcpy(note + 20, &place, sizeof(place));
		assert_int_equal(open_bytes(elf.bytes, elf.size, &file), 0);
		assert_int_equal(ip_elf_note_place(file, IP_NOTE_ROOM, &address, &size),
				 cases[i].found);
		assert_int_equal(address, cases[i].found ? data + cases[i].from_data : 0);
		assert_int_equal(size, cases[i].found ? cases[i].size : 0);
		ip_elf_close(file);
		free(elf.bytes);
	}
}

static void test_other_kinds(void **state)
{
	static const struct {
		const char *bytes;
		size_t size;
		const char *error;
	} starts[] = {
		{"", 0, "made: not an ELF file: it is empty"},
		{"#!/bin/sh\n", 10, "made: not an ELF file"},
		{"\177EL", 3, "made: not an ELF file"},
		{"\177ELF", 4, "made: truncated ELF file"},
		{"\177ELF\1\1\1\0\0\0\0\0\0\0\0\0\2\0\3\0", 20,
		 "made: truncated ELF file: its header ends at byte 20"},
		{"\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\2\0\3\0", 20,
		 "made: corrupt ELF file: i386 of class 2"},
		{"\177ELF\1\1\1\0\0\0\0\0\0\0\0\0\2\0\76\0", 20, "made: ELF for x32"},
		{"\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\2\0\267\0", 20,
		 "made: ELF for aarch64 (machine 183)"},
		{"\177ELF\2\2\1\0\0\0\0\0\0\0\0\0\0\2\0\25", 20,
		 "made: ELF for powerpc64 (machine 21)"},
		{"\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\2\0\71\60", 20, "made: ELF for machine 12345"},
		{"\177ELF\2\2\1\0\0\0\0\0\0\0\0\0\0\2\0\76", 20, "byte order 2"},
		{"\177ELF\3\1\1\0\0\0\0\0\0\0\0\0\2\0\76\0", 20, "class 3"},
		{"\177ELF\2\1\2\0\0\0\0\0\0\0\0\0\2\0\76\0", 20, "unknown version 2"},
		{"\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\1\0\76\0", 20, "not linked yet"},
		{"\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\4\0\76\0", 20, "core dump"},
		{"\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\0\0\76\0", 20, "type 0"},
		{"\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\2\0\76\0", 20,
		 "truncated ELF file: its header ends at byte 20"},
	};
	struct ip_elf_file *file;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(starts); i++) {
		assert_int_equal(open_bytes(starts[i].bytes, starts[i].size, &file), -1);
		assert_error(starts[i].error);
	}
}

/* One wrong field at a time. */
static void test_wrong_fields(void **state)
{
	struct made_elf elf = make_elf(&good);
	struct ip_elf_file *file;
	const struct {
		void *field;
		size_t size;
		uint64_t value;
		const char *error;
	} cases[] = {
		{&elf.ehdr->e_phnum, 2, 0, "without program headers"},
		{&elf.ehdr->e_phnum, 2, 60000, "truncated ELF file: the program headers"},
		{&elf.ehdr->e_phoff, 8, elf.size - 8, "truncated ELF file: the program headers"},
		{&elf.ehdr->e_phoff, 8, UINT64_MAX - 8, "truncated ELF file: the program headers"},
		{&elf.ehdr->e_phentsize, 2, 32, "program headers of 32 bytes"},
		{&elf.ehdr->e_shoff, 8, elf.size, "truncated ELF file: the section headers"},
		{&elf.ehdr->e_shoff, 8, elf.size - 64, "truncated ELF file: the section headers"},
		{&elf.ehdr->e_shoff, 8, UINT64_MAX - 15, "truncated ELF file: the section headers"},
		{&elf.ehdr->e_shoff, 8, 0, "section headers that lie nowhere"},
		{&elf.ehdr->e_shnum, 2, 200, "truncated ELF file: the section headers"},
		{&elf.ehdr->e_shentsize, 2, 40, "section headers of 40 bytes"},
		{&elf.phdrs[1].p_offset, 8, elf.size, "truncated ELF file: segment 1"},
		{&elf.phdrs[1].p_offset, 8, UINT64_MAX, "truncated ELF file: segment 1"},
		{&elf.phdrs[1].p_filesz, 8, UINT64_MAX, "truncated ELF file: segment 1"},
		{&elf.phdrs[1].p_memsz, 8, 1, "segment 1 has an impossible size"},
		{&elf.phdrs[1].p_memsz, 8, UINT64_MAX, "segment 1 has an impossible size"},
		{&elf.shdrs[MADE_TEXT].sh_size, 8, elf.size, "truncated ELF file: section 1"},
		{&elf.shdrs[MADE_TEXT].sh_offset, 8, UINT64_MAX, "truncated ELF file: section 1"},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		uint8_t was[8];

		memcpy(was, cases[i].field, cases[i].size);
		memcpy(cases[i].field, &cases[i].value, cases[i].size);
		assert_int_equal(open_bytes(elf.bytes, elf.size, &file), -1);
		assert_error(cases[i].error);
		memcpy(cases[i].field, was, cases[i].size);
	}
	elf.phdrs[0].p_type = elf.phdrs[1].p_type = PT_NOTE;
	assert_int_equal(open_bytes(elf.bytes, elf.size, &file), -1);
	assert_error("without a segment to load");
	free(elf.bytes);
}

static void test_cut_everywhere(void **state)
{
	struct made_elf elf = make_elf(&good);
	struct ip_elf_file *file;

	(void)state;
	/* The section table is the last thing in it: every cut is one. */
	for (size_t size = 0; size < elf.size; size++) {
		assert_int_equal(open_bytes(elf.bytes, size, &file), -1);
		assert_error(size < 4 ? "not an ELF file" : "truncated ELF file");
	}
	free(elf.bytes);
}

static void try_bytes(const uint8_t *bytes, size_t size)
{
	struct ip_elf_file *file;

	if (open_bytes(bytes, size, &file) == 0) {
		ask_all(file);
		close_made(file);
	} else {
		assert_error("made: ");
	}
}

static void test_damage(void **state)
{
	static const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
	struct made_elf elf = make_elf(&good);
	uint64_t seed = 1;

	(void)state;
	for (size_t i = 0; i < elf.size; i++) {
		uint8_t was = elf.bytes[i];

		for (size_t k = 0; k < N_ELEMENTS(values); k++) {
			elf.bytes[i] = values[k];
			try_bytes(elf.bytes, elf.size);
		}
		elf.bytes[i] = was;
	}
	for (int round = 0; round < 5000; round++) {
		size_t where[3];
		uint8_t was[3];

		for (int i = 0; i < 3; i++) {
			seed = seed * 6364136223846793005 + 1442695040888963407;
			where[i] = (seed >> 33) % elf.size;
			was[i] = elf.bytes[where[i]];
			elf.bytes[where[i]] = (uint8_t)(seed >> 25);
		}
		try_bytes(elf.bytes, elf.size);
		for (int i = 2; i >= 0; i--)
			elf.bytes[where[i]] = was[i];
	}
	free(elf.bytes);
}

static void test_files(void **state)
{
	struct ip_elf_file *file;
	char fifo[64];
	uint64_t value;

	(void)state;
	assert_int_equal(ip_elf_open("/proc/self/exe", &file), 0);
	assert_true(file->own_fd);
	assert_int_equal(ip_elf_symbol(file, "main", &value), 1);
	assert_true(value > 0);
	ip_elf_close(file);

	assert_int_equal(ip_elf_open("/nowhere/at all", &file), -1);
	assert_error("/nowhere/at all: cannot open: No such file");
	assert_int_equal(ip_elf_open("/", &file), -1);
	assert_error("is a directory");
	assert_int_equal(ip_elf_open("/dev/null", &file), -1);
	assert_error("not a regular file");
	/* Must come back at once: the alarm ends the test where it does not. */
	snprintf(fifo, sizeof(fifo), "/tmp/test_common_elf.%d", getpid());
	assert_int_equal(mkfifo(fifo, 0600), 0);
	alarm(20);
	assert_int_equal(ip_elf_open(fifo, &file), -1);
	alarm(0);
	unlink(fifo);
	assert_error("not a regular file");
}

static void test_position(void **state)
{
	struct made_elf elf = make_elf(&good);
	int fd = made_fd(elf.bytes, elf.size);
	struct ip_elf_file *file;

	(void)state;
	assert_int_equal(lseek(fd, 9, SEEK_SET), 9);
	assert_int_equal(ip_elf_open_fd(fd, "made", &file), 0);
	ask_all(file);
	ip_elf_close(file);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 9);
	close(fd);
	free(elf.bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),	     cmocka_unit_test(test_no_sections),
		cmocka_unit_test(test_build_id),     cmocka_unit_test(test_notes),
		cmocka_unit_test(test_note_place),   cmocka_unit_test(test_other_kinds),
		cmocka_unit_test(test_wrong_fields), cmocka_unit_test(test_cut_everywhere),
		cmocka_unit_test(test_damage),	     cmocka_unit_test(test_files),
		cmocka_unit_test(test_position),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
