// SPDX-License-Identifier: Apache-2.0
#include "test/unit/make_elf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char section_names[] =
	"\0.text\0.note.gnu.build-id\0.dynsym\0.dynstr\0.bss\0.iprobe.probes\0.shstrtab";

static uint32_t name_of(const char *name)
{
	for (size_t at = 0; at < sizeof(section_names); at += strlen(section_names + at) + 1)
		if (!strcmp(section_names + at, name))
			return (uint32_t)at;
	abort();
}

static uint64_t put(struct made_elf *elf, const void *data, size_t size)
{
	uint64_t at = (elf->size + 7) & ~7ull;

	elf->bytes = realloc(elf->bytes, at + size);
	if (!elf->bytes)
		abort();
	memset(elf->bytes + elf->size, 0, at - elf->size);
	if (size)
		memcpy(elf->bytes + at, data, size);
	elf->size = at + size;
	return at;
}

struct made_elf make_elf(const struct elf_recipe *recipe)
{
	struct made_elf elf = {0};
	Elf64_Ehdr ehdr = {
		.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		.e_type = (Elf64_Half)(recipe->type ? recipe->type : ET_DYN),
		.e_machine = (Elf64_Half)(recipe->machine ? recipe->machine : EM_X86_64),
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(Elf64_Ehdr),
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 3,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = MADE_SECTIONS,
		.e_shstrndx = MADE_SHSTRTAB,
	};
	Elf64_Phdr phdrs[3] = {{.p_type = PT_LOAD, .p_flags = PF_R | PF_X},
			       {.p_type = PT_LOAD, .p_flags = PF_R | PF_W},
			       {.p_type = recipe->build_id ? PT_NOTE : PT_NULL, .p_flags = PF_R}};
	Elf64_Shdr shdrs[MADE_SECTIONS] = {0};
	uint8_t text[64];
	uint8_t note[12 + 4 + 64] = {4, 0, 0, 0,   0,	0,   0, 0, NT_GNU_BUILD_ID,
				     0, 0, 0, 'G', 'N', 'U', 0};
	size_t id_size = recipe->build_id ? strlen(recipe->build_id) : 0;
	const char dynstr[] = "\0undefined\0" MADE_SYMBOL;
	Elf64_Sym dynsym[3] = {{0},
			       {.st_name = 1, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC)},
			       {.st_name = 11,
				.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
				.st_shndx = MADE_TEXT,
				.st_value = MADE_SYMBOL_VALUE}};
	uint64_t at;

	put(&elf, &ehdr, sizeof(ehdr));
	put(&elf, phdrs, sizeof(phdrs));
	memset(text, 0x90, sizeof(text));
	at = put(&elf, text, sizeof(text));
	phdrs[0].p_offset = phdrs[0].p_vaddr = 0;
	phdrs[0].p_filesz = phdrs[0].p_memsz = at + sizeof(text);
	shdrs[MADE_TEXT] = (Elf64_Shdr){.sh_name = name_of(".text"),
					.sh_type = SHT_PROGBITS,
					.sh_flags = SHF_ALLOC | SHF_EXECINSTR,
					.sh_addr = at,
					.sh_offset = at,
					.sh_size = sizeof(text)};
	note[4] = (uint8_t)id_size;
	if (id_size)
		memcpy(note + 16, recipe->build_id, id_size);
	at = put(&elf, note, 16 + id_size);
	phdrs[2].p_offset = at;
	phdrs[2].p_filesz = phdrs[2].p_memsz = 16 + id_size;
	shdrs[MADE_NOTE] = (Elf64_Shdr){.sh_name = name_of(".note.gnu.build-id"),
					.sh_type = recipe->build_id ? SHT_NOTE : SHT_PROGBITS,
					.sh_offset = at,
					.sh_size = 16 + id_size};
	at = put(&elf, dynsym, sizeof(dynsym));
	shdrs[MADE_DYNSYM] = (Elf64_Shdr){.sh_name = name_of(".dynsym"),
					  .sh_type = SHT_DYNSYM,
					  .sh_offset = at,
					  .sh_size = sizeof(dynsym),
					  .sh_entsize = sizeof(Elf64_Sym),
					  .sh_link = MADE_DYNSTR,
					  .sh_addralign = 8};
	at = put(&elf, dynstr, sizeof(dynstr));
	shdrs[MADE_DYNSTR] = (Elf64_Shdr){.sh_name = name_of(".dynstr"),
					  .sh_type = SHT_STRTAB,
					  .sh_offset = at,
					  .sh_size = sizeof(dynstr)};
	phdrs[1].p_offset = at;
	phdrs[1].p_vaddr = 0x10000 + at;
	phdrs[1].p_filesz = sizeof(dynstr);
	phdrs[1].p_memsz = 0x1000;
	shdrs[MADE_BSS] = (Elf64_Shdr){.sh_name = name_of(".bss"),
				       .sh_type = SHT_NOBITS,
				       .sh_offset = at,
				       .sh_size = 1ull << 40};
	at = put(&elf, recipe->list, recipe->list ? recipe->list_size : 0);
	if (recipe->list)
		shdrs[MADE_LIST] = (Elf64_Shdr){.sh_name = name_of(".iprobe.probes"),
						.sh_type = SHT_PROGBITS,
						.sh_offset = at,
						.sh_size = recipe->list_size,
						.sh_addralign = 8};
	at = put(&elf, section_names, sizeof(section_names));
	shdrs[MADE_SHSTRTAB] = (Elf64_Shdr){.sh_name = name_of(".shstrtab"),
					    .sh_type = SHT_STRTAB,
					    .sh_offset = at,
					    .sh_size = sizeof(section_names)};
	ehdr.e_shoff = put(&elf, shdrs, sizeof(shdrs));
	memcpy(elf.bytes, &ehdr, sizeof(ehdr));
	memcpy(elf.bytes + ehdr.e_phoff, phdrs, sizeof(phdrs));
	elf.ehdr = (void *)elf.bytes;
	elf.phdrs = (void *)(elf.bytes + ehdr.e_phoff);
	elf.shdrs = (void *)(elf.bytes + ehdr.e_shoff);
	return elf;
}

int made_fd(const void *bytes, size_t size)
{
	int fd = memfd_create("made", MFD_CLOEXEC);

	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		abort();
	return fd;
}
