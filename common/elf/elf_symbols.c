/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads symbol tables in pieces. ip_elf_open() has checked that they lie in the file.
 */
#include "common/elf/elf_symbols.h"

#include <string.h>

#include "common/error.h"
#include "common/file.h"
#include "common/interrupted.h"

#define PIECE 2048u /* symbols */

static void decode(unsigned elf_class, const void *bytes, GElf_Sym *ret)
{
	Elf32_Sym s;

	if (elf_class != ELFCLASS32) {
		memcpy(ret, bytes, sizeof(*ret));
		return;
	}
	memcpy(&s, bytes, sizeof(s));
	*ret = (GElf_Sym){
		.st_name = s.st_name,
		.st_info = s.st_info,
		.st_other = s.st_other,
		.st_shndx = s.st_shndx,
		.st_value = s.st_value,
		.st_size = s.st_size,
	};
}

static int read_table(const struct ip_elf_file *file, const GElf_Shdr *header,
		      void (*visit)(void *context, const GElf_Sym *symbol), void *context)
{
	const unsigned elf_class = file->ehdr.e_ident[EI_CLASS];
	const size_t size = elf_class == ELFCLASS32 ? sizeof(Elf32_Sym) : sizeof(Elf64_Sym);
	uint8_t piece[PIECE * sizeof(Elf64_Sym)];

	for (uint64_t at = 0, n; at + size <= header->sh_size; at += n * size) {
		if (ip_interrupted)
			return ip_error("%s: interrupted", file->path);
		n = (header->sh_size - at) / size;
		n = n < PIECE ? n : PIECE;
		if (ip_read_at(file->fd, file->path, header->sh_offset + at, piece, n * size) < 0)
			return -1;
		for (size_t i = 0; i < n; i++) {
			GElf_Sym symbol;

			decode(elf_class, piece + i * size, &symbol);
			visit(context, &symbol);
		}
	}
	return 0;
}

int ip_elf_each_symbol(const struct ip_elf_file *file,
		       void (*visit)(void *context, const GElf_Sym *symbol), void *context)
{
	bool seen[2] = {false, false};

	for (Elf_Scn *section = NULL; (section = elf_nextscn(file->elf, section));) {
		GElf_Shdr header;
		bool *before;

		if (!gelf_getshdr(section, &header) ||
		    (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM))
			continue;
		before = &seen[header.sh_type == SHT_DYNSYM];
		if (!*before && read_table(file, &header, visit, context) < 0)
			return -1;
		*before = true;
	}
	return 0;
}
