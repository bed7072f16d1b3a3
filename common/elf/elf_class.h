/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both classes of ELF in one form. Headers are held as those of the 64-bit class, and converted
 * from and to the bytes of the file, which may be of the 32-bit class (i386). Files are
 * little-endian, as on all supported machines.
 */
#ifndef IP_ELF_CLASS_H
#define IP_ELF_CLASS_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* elf_class: ELFCLASS32 or ELFCLASS64. */
size_t ip_elf_ehdr_size(unsigned elf_class);
size_t ip_elf_phdr_size(unsigned elf_class);
size_t ip_elf_shdr_size(unsigned elf_class);

/* bytes must hold as many bytes as the functions above return. An ELF header itself says its
 * class. */
void ip_elf_ehdr_decode(const void *bytes, Elf64_Ehdr *ret);
void ip_elf_phdr_decode(unsigned elf_class, const void *bytes, Elf64_Phdr *ret);
void ip_elf_shdr_decode(unsigned elf_class, const void *bytes, Elf64_Shdr *ret);

/* Return the number of bytes written. A value that the 32-bit class cannot hold is truncated: a
 * caller that changes a value must check it. */
size_t ip_elf_ehdr_encode(const Elf64_Ehdr *ehdr, void *ret);
size_t ip_elf_shdr_encode(unsigned elf_class, const Elf64_Shdr *shdr, void *ret);

#endif
