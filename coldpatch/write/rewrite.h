/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The module's new file: the old one with its sites idle and the probe list as
 * one more section. No other byte that is loaded changes but the numbers of sections in the symbol
 * table (renumber.h), and no offset of one.
 */
#ifndef COLD_REWRITE_H
#define COLD_REWRITE_H

#include "coldpatch/elf/module.h"
#include "coldpatch/sites/sites.h"
#include "coldpatch/write/atomic_file.h"

struct cold_rewrite_how {
	bool keep_relocs; /* else what the linker's -q left is not copied */
	bool drop_debug;  /* debug information is not copied */
	bool strip;	  /* neither are symbols */
	bool drop_list;	  /* nor, of a module that is stripped, the probe list that it has */
};

/* Fills file, which is empty. list is the block of the probe list that is added; NULL: none. */
int cold_rewrite(const struct cold_module *module, const struct cold_sites *sites, const void *list,
		 size_t size, const struct cold_rewrite_how *how, struct cold_atomic_file *file);

/* Fills file with the module as it is. */
int cold_rewrite_copy_all(const struct cold_module *module, struct cold_atomic_file *file);

/* Copies size bytes at from of the module to where to in file. */
int cold_rewrite_copy(const struct cold_module *module, uint64_t from, uint64_t size,
		      struct cold_atomic_file *file, uint64_t to);

#endif
