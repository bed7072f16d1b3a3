/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The module that ColdPatch works on, read once: its sections with contents, the
 * symbols of its functions, its relocations, and the ranges of code that belong
 * together as one function. Nothing here changes the file.
 *
 * Ownership: everything hangs on struct cold_module and lives until
 * cold_module_destroy(). Names point into the string tables that libelf holds.
 */
#ifndef COLD_MODULE_H
#define COLD_MODULE_H

#include "common/elf_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COLD_NONE UINT32_MAX

struct cold_section {
	const char *name;
	uint64_t address, offset, size;
	const uint8_t *data;
	size_t index;
	bool exec;
	bool plt; /* made by the linker: stubs, no function of the program */
	bool got; /* a global offset table: what it holds after relocation never changes */
};

struct cold_symbol {
	uint64_t address, size;
	const char *name;
	uint8_t bind;
	bool func;     /* STT_FUNC or STT_GNU_IFUNC */
	bool resolver; /* STT_GNU_IFUNC: the loader runs it to learn where the function is */
};

struct cold_reloc {
	uint64_t address;
	int64_t addend;
	const char *symbol; /* NULL: none */
	uint64_t value;	    /* of the symbol */
	uint32_t type;
	bool defined; /* the symbol is defined in this module */
};

/* A stretch of code with one name: what a symbol or an unwind entry covers. Disjoint, ascending. */
struct cold_range {
	uint64_t start, end;
	uint64_t lsda;	 /* address of its exception table; 0: none */
	uint32_t symbol; /* index of the symbol that starts here; COLD_NONE */
	/* union of ranges that jump into each other (a function and its cold part) */
	uint32_t parent;
	/* neither symbol nor unwind entry: between the others, or a module stripped bare */
	bool gap;
	uint32_t jumper; /* where it has no symbol: a range that jumps to its start; COLD_NONE */
	bool called;	 /* where it has no symbol: is called, or jumped to from several ranges */
	bool cold;  /* has no symbol, but how it is reached shows that it is part of a function */
	bool clean; /* decodes from start to end without a doubt */
	/* has a way out: a return, a tail call, a jump of unknown target. The root: of all
	 * members */
	bool returns;
	bool sites; /* set on the root: at least one member has a site */
};

struct cold_module {
	const char *path;
	struct ip_elf_file *elf;
	const struct cold_module_code *code; /* of its machine; NULL: not known */
	unsigned bits;			     /* of an address */
	/* where code that is not position-dependent takes the offset table to begin (i386); 0:
	 * unknown */
	uint64_t got;

	struct cold_section *sections; /* allocated ones with contents, ascending by address */
	size_t nsections;
	/* functions; ascending by address, the best name of each address first */
	struct cold_symbol *symbols;
	size_t nsymbols;
	struct cold_reloc *relocs; /* dynamic, ascending by address */
	size_t nrelocs;
	struct cold_range *ranges;
	size_t nranges;
	/* addresses of data that the code names; ascending once the sweep is over */
	uint64_t *marks;
	size_t nmarks;
};

/* What reading a module asks of its machine's code. */
struct cold_module_code {
	/* Whether a dynamic relocation of that kind puts base + addend. */
	bool (*reloc_is_relative)(uint32_t type);
	/* The address by which position-independent code refers to the offset table; 0: it is
	 * not known for certain, or there is none. NULL where code has no need of it. */
	uint64_t (*offset_table)(const struct cold_module *module);
};

/* Reads path. code_for_machine returns what is known of a machine, NULL where nothing is. 0, or
 * -1 with an error. path is borrowed. */
int cold_module_open(const char *path,
		     const struct cold_module_code *(*code_for_machine)(uint32_t machine),
		     struct cold_module *ret);
void cold_module_destroy(struct cold_module *module);

/* Fills in the ranges; of cold_module_open(). 0, or -1 with an error. */
int cold_ranges_make(struct cold_module *module);

/* The section that holds size bytes at address; NULL where none does. */
const struct cold_section *cold_module_section(const struct cold_module *module, uint64_t address,
					       uint64_t size);
/* The bytes at address in an allocated section; NULL where they are not all there. */
const uint8_t *cold_module_bytes(const struct cold_module *module, uint64_t address, uint64_t size);
/* The function symbol of best name at exactly address; NULL. */
const struct cold_symbol *cold_module_symbol(const struct cold_module *module, uint64_t address);
/* The dynamic relocation at exactly address; NULL. */
const struct cold_reloc *cold_module_reloc(const struct cold_module *module, uint64_t address);
/* Index of the range that holds address; COLD_NONE. */
uint32_t cold_module_range(const struct cold_module *module, uint64_t address);

/* Notes that the code names address, where that is data. 0, or -1: out of memory. */
int cold_module_mark(struct cold_module *module, uint64_t address);
void cold_module_sort_marks(struct cold_module *module);
/* The first marked address behind address: no table that starts at address goes further. */
uint64_t cold_module_next_mark(const struct cold_module *module, uint64_t address);

/* The ranges that belong to one function share a root. */
uint32_t cold_range_root(const struct cold_module *module, uint32_t range);
void cold_range_join(struct cold_module *module, uint32_t a, uint32_t b);
/* "f.cold", or known by how it is reached: code that only jumps reach. */
bool cold_range_is_cold(const struct cold_module *module, uint32_t range);
/* Name of the symbol of a range; NULL where it has none. */
const char *cold_range_name(const struct cold_module *module, uint32_t range);

#endif
