/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the module's new file: the old file with its sites idle, and the probe list as one more
 * section. No other loaded byte changes, except section numbers in the symbol table (renumber.h).
 * No loaded byte gets another offset.
 */
#ifndef COLD_REWRITE_H
#define COLD_REWRITE_H

#include "coldpatch/elf/module.h"
#include "coldpatch/sites/sites.h"
#include "coldpatch/write/atomic_file.h"

struct cold_rewrite_how {
	bool keep_relocs; /* else the relocations that the linker's -q left are not copied */
	bool drop_debug;  /* debug information is not copied */
	bool strip;	  /* symbols are not copied */
	bool drop_list;	  /* if the module is stripped: its old probe list is not copied */
};

/* Fills file, which is empty. list: the block of the probe list to add; NULL: none. Returns 0, or
 * -1 with an error. */
int cold_rewrite(const struct cold_module *module, const struct cold_sites *sites, const void *list,
		 size_t size, const struct cold_rewrite_how *how, struct cold_atomic_file *file);

/* Fills file with the unchanged module. */
int cold_rewrite_copy_all(const struct cold_module *module, struct cold_atomic_file *file);

/* Copies size bytes at offset from of the module to offset to in file. */
int cold_rewrite_copy(const struct cold_module *module, uint64_t from, uint64_t size,
		      struct cold_atomic_file *file, uint64_t to);

#endif
