/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of points and scopes: any bytes as section .iprobe.points of a module that is fine
 * otherwise, and as its constants. What is found are sites of that module, with names, and
 * arguments that the probe list's reader takes.
 *
 * covers: coldpatch/sites/points.c
 */
#include <elf.h>

#include "coldpatch/sites/arch.h"
#include "coldpatch/sites/find.h"
#include "coldpatch/sites/points.h"
#include "common/elf/point_args.h"
#include "fuzz.h"

#define TEXT	   0x11000ull
#define TEXT_SIZE  0x600u /* three functions, a site in each 8 bytes */
#define FUNCTION   0x200u
#define CONSTANTS  0x20000ull /* the same bytes as the records */
#define SOURCE_MAX 1023	      /* characters of arguments' text */

enum { NONE, CODE, RODATA, POINTS, SYMBOLS, NAMES, SECTION_NAMES, NSECTIONS };

static const char names[] = "\0a.c\0b.c\0local\0global\0twice\0f\0g\0h";
static const char section_names[] = "\0.text\0.iprobe.points\0.symtab\0.strtab\0.shstrtab\0.rodata";

#define SYMBOL(at, bind, type, section, address, length)                                           \
	{                                                                                          \
		.st_name = at, .st_info = ELF64_ST_INFO(bind, type), .st_shndx = section,          \
		.st_value = address, .st_size = length                                             \
	}

static const Elf64_Sym symbols[] = {
	{0},
	SYMBOL(1, STB_LOCAL, STT_FILE, SHN_ABS, 0, 0),
	SYMBOL(9, STB_LOCAL, STT_OBJECT, CODE, TEXT + 1, 4),
	SYMBOL(22, STB_LOCAL, STT_OBJECT, CODE, TEXT + 2, 4),
	SYMBOL(28, STB_LOCAL, STT_FUNC, CODE, TEXT, FUNCTION),
	SYMBOL(5, STB_LOCAL, STT_FILE, SHN_ABS, 0, 0),
	SYMBOL(22, STB_LOCAL, STT_OBJECT, CODE, TEXT + 3, 4),
	SYMBOL(15, STB_GLOBAL, STT_OBJECT, CODE, TEXT + 4, 4),
	SYMBOL(30, STB_GLOBAL, STT_FUNC, CODE, TEXT + FUNCTION, FUNCTION),
	SYMBOL(32, STB_GLOBAL, STT_FUNC, CODE, TEXT + 2 * FUNCTION, FUNCTION),
};

static size_t put(uint8_t *file, size_t *at, const void *data, size_t size)
{
	size_t place = *at;

	memcpy(file + place, data, size);
	*at = (place + size + 15) & ~(size_t)15;
	return place;
}

static Elf64_Shdr section(unsigned name, unsigned type, size_t offset, size_t size, unsigned link,
			  size_t entry)
{
	return (Elf64_Shdr){.sh_name = name,
			    .sh_type = type,
			    .sh_offset = offset,
			    .sh_size = size,
			    .sh_link = link,
			    .sh_entsize = entry,
			    .sh_addralign = 1};
}

/* The module; its size. */
static size_t make_module(uint8_t *file, const uint8_t *data, size_t size)
{
	static const uint8_t nop[8] = {0x0f, 0x1f, 0x44, 0, 0, 0x90, 0x90, 0x90};
	uint8_t text[TEXT_SIZE];
	Elf64_Shdr s[NSECTIONS] = {0};
	Elf64_Ehdr e = {.e_type = ET_DYN,
			.e_machine = EM_X86_64,
			.e_version = EV_CURRENT,
			.e_phoff = sizeof(e),
			.e_ehsize = sizeof(e),
			.e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = 1,
			.e_shentsize = sizeof(Elf64_Shdr),
			.e_shnum = NSECTIONS,
			.e_shstrndx = SECTION_NAMES};
	Elf64_Phdr load = {.p_type = PT_LOAD,
			   .p_flags = PF_R | PF_X,
			   .p_vaddr = TEXT,
			   .p_filesz = TEXT_SIZE,
			   .p_memsz = TEXT_SIZE};
	size_t at = sizeof(e) + sizeof(load);

	for (unsigned i = 0; i < TEXT_SIZE; i++)
		text[i] = nop[i % 8];
	at = (at + 15) & ~(size_t)15;
	load.p_offset = put(file, &at, text, sizeof(text));
	s[CODE] = section(1, SHT_PROGBITS, load.p_offset, TEXT_SIZE, 0, 0);
	s[CODE].sh_flags = SHF_ALLOC | SHF_EXECINSTR;
	s[CODE].sh_addr = TEXT;
	s[POINTS] = section(7, SHT_PROGBITS, put(file, &at, data, size), size, 0, 0);
	s[RODATA] = section(48, SHT_PROGBITS, s[POINTS].sh_offset, size, 0, 0);
	s[RODATA].sh_flags = SHF_ALLOC;
	s[RODATA].sh_addr = CONSTANTS;
	s[SYMBOLS] = section(22, SHT_SYMTAB, put(file, &at, symbols, sizeof(symbols)),
			     sizeof(symbols), NAMES, sizeof(Elf64_Sym));
	s[NAMES] =
		section(30, SHT_STRTAB, put(file, &at, names, sizeof(names)), sizeof(names), 0, 0);
	s[SECTION_NAMES] =
		section(38, SHT_STRTAB, put(file, &at, section_names, sizeof(section_names)),
			sizeof(section_names), 0, 0);
	e.e_shoff = put(file, &at, s, sizeof(s));
	memcpy(e.e_ident, ELFMAG, SELFMAG);
	e.e_ident[EI_CLASS] = ELFCLASS64;
	e.e_ident[EI_DATA] = ELFDATA2LSB;
	e.e_ident[EI_VERSION] = EV_CURRENT;
	memcpy(file, &e, sizeof(e));
	memcpy(file + sizeof(e), &load, sizeof(load));
	return at;
}

static void check(const struct cold_module *m, const struct cold_found *found)
{
	struct ip_point_arg args[IP_POINT_ARGS_MAX];

	for (size_t i = 0; i < found->sites.n; i++) {
		const struct cold_site *site = &found->sites.sites[i];

		fuzz_assert(cold_module_bytes(m, site->address, site->length));
		fuzz_assert(site->name && *site->name);
		fuzz_assert(!site->args || ip_point_args_parse(site->args, args) >= 0);
		fuzz_assert(!site->arg_text || strlen(site->arg_text) <= SOURCE_MAX);
		fuzz_assert(!site->args || !strpbrk(site->args, "; \n") || strchr(site->args, ' '));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cold_found found = {0};
	struct cold_module module;
	char path[64];
	uint8_t *file;
	size_t length;

	if (size > 1 << 16)
		return 0;
	file = calloc(1, size + 0x4000);
	fuzz_assert(file);
	length = make_module(file, data, size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fuzz_file(file, length));
	free(file);
	fuzz_assert(cold_module_open(path, cold_arch_module_code, &module) == 0);
	if (cold_points_find(&module, &found))
		fuzz_check_error();
	else
		check(&module, &found);
	cold_found_destroy(&found);
	cold_module_destroy(&module);
	return 0;
}
