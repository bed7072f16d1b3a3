/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tail of a module's file: the sections behind everything that is loaded, their names, and the
 * section headers. It can be written again with sections added, replaced or dropped, while no
 * offset in front of it changes, and no byte but the numbers of sections in the loaded symbol
 * table. The sections that are left are numbered without a gap (renumber.h) and stand in the file
 * in that order, as linkers write them and other tools expect them.
 */
#ifndef COLD_ELF_TAIL_H
#define COLD_ELF_TAIL_H

#include "coldpatch/elf/module.h"
#include "coldpatch/write/atomic_file.h"

struct cold_elf_tail {
	const struct cold_module *m;
	Elf64_Ehdr ehdr;
	Elf64_Shdr *headers; /* n, with room for TAIL_MORE */
	/* by section: what it holds instead of what the file has; NULL: nothing new */
	const void **contents;
	void **made; /* by section: of the contents, those that are freed with the tail */
	size_t n, old_n, shstrndx;
	char *names;
	size_t names_size;
	uint64_t file_size;
	bool dropped;	  /* at least one */
	bool relocs_gone; /* what -q left was dropped: so go the symbols that only it has named */
};

/* Reads headers and names. 0, or -1 with an error. */
int cold_elf_tail_open(const struct cold_module *module, struct cold_elf_tail *ret);
void cold_elf_tail_close(struct cold_elf_tail *tail);

/* Adds a section that is not allocated. data is borrowed until cold_elf_tail_write(). 0 or -1. */
int cold_elf_tail_add(struct cold_elf_tail *tail, const char *name, uint64_t align,
		      const void *data, size_t size);
/* Gives a section other contents; one that is loaded keeps its size. data is the tail's from now
 * on. */
void cold_elf_tail_replace(struct cold_elf_tail *tail, size_t index, void *data, size_t size);
/* Takes a section that is not loaded away. */
void cold_elf_tail_drop(struct cold_elf_tail *tail, size_t index);
/* The same of all sections whose names begin so. */
void cold_elf_tail_drop_named(struct cold_elf_tail *tail, const char *prefix);

/* How many bytes of the old file cold_elf_tail_write() leaves alone: they must be in the new one
 * before. */
uint64_t cold_elf_tail_start(const struct cold_elf_tail *tail);
/* Writes it all, the ELF header included. 0, or -1 with an error. */
int cold_elf_tail_write(struct cold_elf_tail *tail, struct cold_atomic_file *file);

#endif
