/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading ELF files with libelf: identity, segments, build-id, sections. Nothing here trusts the
 * file. An error names the path and what is wrong.
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
	int fd; /* owned by the caller of ip_elf_open_fd(), else by this structure */
	bool own_fd;
	bool debug; /* separate debug information */
	char *path; /* for messages */
	Elf *elf;
	GElf_Ehdr ehdr; /* in the 64-bit form for both classes: see elf_class.h */
	uint8_t build_id[32];
	size_t build_id_size;	      /* 0: none */
	struct ip_elf_segment *loads; /* PT_LOAD, in file order */
	size_t nloads;
};

/* Opens an ELF file that iprobe can work on: x86-64 or i386, little-endian, ET_EXEC or ET_DYN. Any
 * other file is an error that names it, for example "PATH: not an ELF file", "PATH: ELF for machine
 * 183, this iprobe knows x86-64 and i386", "PATH: truncated ELF ...". Every PT_LOAD and the section
 * table lie within the file. */
int ip_elf_open(const char *path, struct ip_elf_file **ret);
int ip_elf_open_fd(int fd, const char *path, struct ip_elf_file **ret);
/* The same for separate debug information of such a file (objcopy --only-keep-debug, eu-strip -f).
 * Its segments describe what another file holds: loads is empty. */
int ip_elf_open_debug_fd(int fd, const char *path, struct ip_elf_file **ret);
void ip_elf_close(struct ip_elf_file *file);

/* Finds a section by name: its header and contents (owned by the Elf). Returns 1: found; 0: not
 * there; -1: error. */
int ip_elf_section(struct ip_elf_file *file, const char *name, GElf_Shdr *ret_shdr,
		   const void **ret_data, size_t *ret_size, size_t *ret_index);

/* The same without its contents, for a section that the caller reads by itself; *ret_size: bytes in
 * the file, all of which lay within it when it was opened. */
int ip_elf_find_section(struct ip_elf_file *file, const char *name, GElf_Shdr *ret_shdr,
			size_t *ret_size);

/* Value of a defined symbol of .dynsym, or else of .symtab. Returns 1: found; 0: not there; -1:
 * error. */
int ip_elf_symbol(struct ip_elf_file *file, const char *name, uint64_t *ret);

/* Finds the GNU build-id in the bytes of a PT_NOTE. Returns its size, 0: there is none. ret holds
 * 32 bytes. */
size_t ip_elf_build_id_in_notes(const void *notes, size_t size, uint8_t *ret);

/* Finds what iprobe's own note of that type (common/elf/note.h) names: link-time address and size,
 * within one loaded segment that is not code. Returns 1: found; 0: not there, or not valid; -1:
 * error. */
int ip_elf_note_place(struct ip_elf_file *file, uint32_t type, uint64_t *ret_address,
		      uint64_t *ret_size);

/* Writes id as "0a1b..."; buffer must hold 2*size+1 bytes. */
char *ip_build_id_format(const uint8_t *id, size_t size, char *buffer);

#endif
