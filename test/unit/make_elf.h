/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small ELF files for tests, made on the spot so that the tree holds no binaries.
 *
 *   struct made_elf elf = make_elf(&(struct elf_recipe){ .build_id = "...", ... });
 *   ... change elf.bytes to what the test wants ...
 *   int fd = made_elf_fd(&elf);
 *   free(elf.bytes);
 */
#ifndef TEST_MAKE_ELF_H
#define TEST_MAKE_ELF_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

struct elf_recipe {
	const char *build_id; /* text, its bytes are the id; NULL: none */
	const void *list;     /* contents of .iprobe.probes; NULL: no such section */
	size_t list_size;
	unsigned type;	  /* 0: ET_DYN */
	unsigned machine; /* 0: EM_X86_64 */
};

struct made_elf {
	uint8_t *bytes; /* malloc'ed */
	size_t size;
	Elf64_Ehdr *ehdr;  /* into bytes, as the following */
	Elf64_Phdr *phdrs; /* 0: PT_LOAD r-x, 1: PT_LOAD rw-, 2: PT_NOTE */
	Elf64_Shdr *shdrs; /* by enum */
};

enum {
	MADE_NULL,
	MADE_TEXT,
	MADE_NOTE,
	MADE_DYNSYM,
	MADE_DYNSTR,
	MADE_BSS,
	MADE_LIST,
	MADE_SHSTRTAB,
	MADE_SECTIONS,
};

#define MADE_SYMBOL	  "answer"
#define MADE_SYMBOL_VALUE 0x1234u

struct made_elf make_elf(const struct elf_recipe *recipe);

/* A file that holds bytes and has no name. The caller closes it. */
int made_fd(const void *bytes, size_t size);

#endif
