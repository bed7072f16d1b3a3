/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The module that ColdPatch works on. It is read once: its sections with contents, the symbols of
 * its functions, its relocations, and the ranges of code that together form one function. Nothing
 * here changes the file.
 *
 * Ownership: struct cold_module owns everything until cold_module_destroy(). Names point into the
 * string tables that libelf holds.
 */
#ifndef COLD_MODULE_H
#define COLD_MODULE_H

#include "common/elf/elf_file.h"

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
	bool plt; /* stubs made by the linker; no function of the program */
	bool got; /* a global offset table: its contents do not change after relocation */
};

struct cold_symbol {
	uint64_t address, size;
	const char *name;
	uint8_t bind;
	bool func;     /* STT_FUNC or STT_GNU_IFUNC */
	bool resolver; /* STT_GNU_IFUNC: the loader calls it to get the function's address */
};

struct cold_reloc {
	uint64_t address;
	int64_t addend;
	const char *symbol; /* NULL: none */
	uint64_t value;	    /* the symbol's value */
	uint32_t type;
	bool defined; /* the symbol is defined in this module */
};

/* A stretch of code that a symbol or an unwind entry covers. Ranges are disjoint and ascending. */
struct cold_range {
	uint64_t start, end;
	uint64_t lsda;	 /* address of its exception table; 0: none */
	uint32_t symbol; /* index of the symbol that starts here; COLD_NONE: no symbol */
	/* joins ranges that jump into each other (a function and its cold part) into one set */
	uint32_t parent;
	/* it has neither a symbol nor an unwind entry: it lies between other ranges, or the module
	 * is stripped of everything */
	bool gap;
	uint32_t jumper; /* without a symbol: a range that jumps to its start; COLD_NONE */
	bool called;	 /* without a symbol: it is called, or several ranges jump to it */
	bool cold;	 /* no symbol; the way it is reached shows that it is part of a function */
	bool clean;	 /* it decodes from start to end without a doubt */
	/* it has a way out: a return, a tail call, a jump of unknown target. For the root: any
	 * member has */
	bool returns;
	bool sites; /* for the root: at least one member has a site */
};

struct cold_module {
	const char *path;
	struct ip_elf_file *elf;
	const struct cold_module_code *code; /* code for its machine; NULL: unknown machine */
	unsigned bits;			     /* of an address */
	/* the address that code which is not position-dependent uses as the start of the offset
	 * table (i386); 0: unknown */
	uint64_t got;

	struct cold_section *sections; /* allocated sections with contents, ascending by address */
	size_t nsections;
	/* symbols of functions; ascending by address, the best name of each address first */
	struct cold_symbol *symbols;
	size_t nsymbols;
	struct cold_reloc *relocs; /* dynamic relocations, ascending by address */
	size_t nrelocs;
	struct cold_range *ranges;
	size_t nranges;
	/* addresses of data that the code refers to; ascending after the sweep */
	uint64_t *marks;
	size_t nmarks;
};

/* The machine's functions that reading a module needs. */
struct cold_module_code {
	/* Whether a dynamic relocation of that type writes base + addend. */
	bool (*reloc_is_relative)(uint32_t type);
	/* The address by which position-independent code refers to the offset table. 0: it is not
	 * known for certain, or there is no table. The pointer is NULL if the machine's code does
	 * not need it. */
	uint64_t (*offset_table)(const struct cold_module *module);
};

/* Reads the file path. code_for_machine returns the functions for a machine, NULL for an unknown
 * one. path is borrowed. Returns 0, or -1 with an error. */
int cold_module_open(const char *path,
		     const struct cold_module_code *(*code_for_machine)(uint32_t machine),
		     struct cold_module *ret);
void cold_module_destroy(struct cold_module *module);

/* Fills in the ranges; cold_module_open() calls it. Returns 0, or -1 with an error. */
int cold_ranges_make(struct cold_module *module);

/* Returns the section that holds size bytes at address; NULL if none does. */
const struct cold_section *cold_module_section(const struct cold_module *module, uint64_t address,
					       uint64_t size);
/* Returns the bytes at address in an allocated section; NULL if the section does not hold all of
 * them. */
const uint8_t *cold_module_bytes(const struct cold_module *module, uint64_t address, uint64_t size);
/* Returns the function symbol with the best name at exactly address; NULL if there is none. */
const struct cold_symbol *cold_module_symbol(const struct cold_module *module, uint64_t address);
/* Returns the dynamic relocation at exactly address; NULL if there is none. */
const struct cold_reloc *cold_module_reloc(const struct cold_module *module, uint64_t address);
/* Returns the index of the range that holds address; COLD_NONE if there is none. */
uint32_t cold_module_range(const struct cold_module *module, uint64_t address);

/* Notes that the code refers to address, if data lies there. Returns 0, or -1: out of memory. */
int cold_module_mark(struct cold_module *module, uint64_t address);
void cold_module_sort_marks(struct cold_module *module);
/* Returns the first marked address behind address. A table that starts at address ends there at the
 * latest. */
uint64_t cold_module_next_mark(const struct cold_module *module, uint64_t address);

/* The ranges that belong to one function have the same root. */
uint32_t cold_range_root(const struct cold_module *module, uint32_t range);
void cold_range_join(struct cold_module *module, uint32_t a, uint32_t b);
/* Whether a range is a cold part: its name says so ("f.cold"), or only jumps reach it. */
bool cold_range_is_cold(const struct cold_module *module, uint32_t range);
/* Returns the name of a range's symbol; NULL if it has no symbol. */
const char *cold_range_name(const struct cold_module *module, uint32_t range);

#endif
