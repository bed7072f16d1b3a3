/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tail of a module's file: the sections behind everything that is loaded, their names, and the
 * section headers. The tail can be written again with sections added, replaced or dropped. No
 * offset in front of it changes, and no byte changes there except the section numbers in the loaded
 * symbol table. The remaining sections are numbered without a gap (renumber.h). They stand in the
 * file in that order, as linkers write them and as other tools expect.
 */
#ifndef COLD_ELF_END_H
#define COLD_ELF_END_H

#include "coldpatch/elf/module.h"
#include "coldpatch/write/atomic_file.h"

struct cold_elf_end {
	const struct cold_module *m;
	Elf64_Ehdr ehdr;
	Elf64_Shdr *headers; /* n headers, with room for TAIL_MORE more */
	/* by section: its new contents; NULL: those of the file */
	const void **contents;
	void **made; /* by section: new contents that the tail owns and frees */
	size_t n, old_n, shstrndx;
	char *names;
	size_t names_size;
	uint64_t file_size;
	bool dropped; /* at least one section was dropped */
	/* the relocations that -q left were dropped: so the symbols that only these relocations
	 * named are dropped, too */
	bool relocs_gone;
};

/* Reads headers and names. Returns 0, or -1 with an error. */
int cold_elf_end_open(const struct cold_module *module, struct cold_elf_end *ret);
void cold_elf_end_close(struct cold_elf_end *tail);

/* Adds a section that is not allocated. data is borrowed until cold_elf_end_write(). Returns 0 or
 * -1. */
int cold_elf_end_add(struct cold_elf_end *tail, const char *name, uint64_t align, const void *data,
		     size_t size);
/* Gives a section new contents. A loaded section must keep its size. The tail owns data from now
 * on. */
void cold_elf_end_replace(struct cold_elf_end *tail, size_t index, void *data, size_t size);
/* Drops a section that is not loaded. */
void cold_elf_end_drop(struct cold_elf_end *tail, size_t index);
/* Drops all sections whose names begin with prefix. */
void cold_elf_end_drop_named(struct cold_elf_end *tail, const char *prefix);

/* Returns how many bytes of the old file cold_elf_end_write() does not write. The new file must
 * hold them before. */
uint64_t cold_elf_end_start(const struct cold_elf_end *tail);
/* Writes the tail and the ELF header. Returns 0, or -1 with an error. */
int cold_elf_end_write(struct cold_elf_end *tail, struct cold_atomic_file *file);

#endif
