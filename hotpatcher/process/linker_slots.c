// SPDX-License-Identifier: Apache-2.0
/*
 * Reads relocations. See linker_slots.h.
 */
#include "hotpatcher/process/linker_slots.h"

#include <stdbool.h>

/* The i-th relocation of a section; false: there are no more. */
static bool read_relocation(Elf_Data *data, uint32_t type, int i, GElf_Rela *ret)
{
	GElf_Rel rel;

	if (type == SHT_RELA)
		return gelf_getrela(data, i, ret);
	if (!gelf_getrel(data, i, &rel))
		return false;
	*ret = (GElf_Rela){.r_offset = rel.r_offset, .r_info = rel.r_info};
	return true;
}

static int each_of(const struct ip_elf_file *elf, Elf_Scn *section, const GElf_Shdr *header,
		   int (*visit)(void *context, uint64_t slot, const char *name), void *context)
{
	Elf_Scn *symbols = elf_getscn(elf->elf, header->sh_link);
	Elf_Data *data, *symbol_data;
	GElf_Shdr symbols_header;
	GElf_Rela rela;

	/* before it is read: others are not in ip_linker_tables_size() */
	if (!symbols || !gelf_getshdr(symbols, &symbols_header) ||
	    symbols_header.sh_type != SHT_DYNSYM)
		return 0;
	data = elf_getdata(section, NULL);
	symbol_data = elf_getdata(symbols, NULL);
	if (!data || !symbol_data)
		return 0;
	for (int i = 0; read_relocation(data, header->sh_type, i, &rela); i++) {
		uint64_t type = GELF_R_TYPE(rela.r_info); /* the same numbers on both machines */
		const char *name;
		GElf_Sym symbol;

		if ((type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) || rela.r_addend ||
		    !gelf_getsym(symbol_data, GELF_R_SYM(rela.r_info), &symbol))
			continue;
		name = elf_strptr(elf->elf, symbols_header.sh_link, symbol.st_name);
		if (name && *name && visit(context, rela.r_offset, name) < 0)
			return -1;
	}
	return 0;
}

int ip_linker_slots_each(const struct ip_elf_file *elf,
			 int (*visit)(void *context, uint64_t slot, const char *name),
			 void *context)
{
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf->elf, section));) {
		GElf_Shdr header;

		if (!gelf_getshdr(section, &header) || !(header.sh_flags & SHF_ALLOC) ||
		    (header.sh_type != SHT_RELA && header.sh_type != SHT_REL))
			continue;
		if (each_of(elf, section, &header, visit, context) < 0)
			return -1;
	}
	return 0;
}

/* A section that is not in the file may have any size. */
static uint64_t add(uint64_t size, uint64_t more)
{
	return more > UINT64_MAX - size ? UINT64_MAX : size + more;
}

uint64_t ip_linker_tables_size(const struct ip_elf_file *elf)
{
	uint64_t size = 0;

	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf->elf, section));) {
		GElf_Shdr header, names;
		Elf_Scn *link;

		if (!gelf_getshdr(section, &header))
			continue;
		if (header.sh_type == SHT_DYNSYM || header.sh_type == SHT_RELA ||
		    header.sh_type == SHT_REL)
			size = add(size, header.sh_size);
		link = header.sh_type == SHT_DYNSYM ? elf_getscn(elf->elf, header.sh_link) : NULL;
		if (link && gelf_getshdr(link, &names))
			size = add(size, names.sh_size);
		if (size > IP_LINKER_TABLES_MOST)
			break;
	}
	return size;
}
