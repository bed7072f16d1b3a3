/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading ELF files, by libelf: identity, segments, build-id, sections.
 * Nothing here trusts the file; an error names path and what is wrong.
 */
#ifndef IP_ELF_FILE_H
#define IP_ELF_FILE_H

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ip_elf_segment {
	uint64_t offset, vaddr, filesz, memsz;
	uint32_t flags; /* PF_X ... */
};

struct ip_elf_file {
	int fd; /* borrowed from the caller of ip_elf_open_fd, else owned */
	bool own_fd;
	char *path; /* for messages */
	Elf *elf;
	GElf_Ehdr ehdr; /* of either class: see elf_class.h */
	uint8_t build_id[32];
	size_t build_id_size;	      /* 0: none */
	struct ip_elf_segment *loads; /* PT_LOAD, in file order */
	size_t nloads;
};

/* Opens an ELF that we can work on: x86-64 or i386, little-endian, ET_EXEC or ET_DYN (any other:
 * an error that names it; e.g. "PATH: not an ELF file", "PATH: ELF for machine 183, this iprobe
 * knows x86-64 and i386", "PATH: truncated ELF ..."). Every PT_LOAD and the section table lie
 * within the file. */
int ip_elf_open(const char *path, struct ip_elf_file **ret);
int ip_elf_open_fd(int fd, const char *path, struct ip_elf_file **ret);
void ip_elf_close(struct ip_elf_file *file);

/* Section by name: its header and contents (owned by the Elf). 1 found, 0 not there, -1 error. */
int ip_elf_section(struct ip_elf_file *file, const char *name, GElf_Shdr *ret_shdr,
		   const void **ret_data, size_t *ret_size, size_t *ret_index);

/* Value of a defined symbol of .dynsym (then .symtab). 1 found, 0 not there, -1 error. */
int ip_elf_symbol(struct ip_elf_file *file, const char *name, uint64_t *ret);

/* GNU build-id out of a PT_NOTE blob; 0 where none. buffer holds 32 bytes. */
size_t ip_elf_build_id_in_notes(const void *notes, size_t size, uint8_t *ret);

/* What iprobe's own note of that type (common/note.h) names: link-time address and size, inside
 * of one loaded segment that is not code. 1 found, 0 not there (or nonsense), -1 error. */
int ip_elf_note_place(struct ip_elf_file *file, uint32_t type, uint64_t *ret_address,
		      uint64_t *ret_size);

/* "0a1b..." of id; buffer must hold 2*size+1. */
char *ip_build_id_format(const uint8_t *id, size_t size, char *buffer);

#endif
