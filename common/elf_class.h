/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both classes of ELF in one form: headers are held as those of the 64-bit class, and turned from
 * and to the bytes of the file, which may be of the 32-bit one (i386). Little-endian, as all
 * machines that we know.
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

/* bytes holds what the sizes above say; an ELF header's class stands in itself. */
void ip_elf_ehdr_decode(const void *bytes, Elf64_Ehdr *ret);
void ip_elf_phdr_decode(unsigned elf_class, const void *bytes, Elf64_Phdr *ret);
void ip_elf_shdr_decode(unsigned elf_class, const void *bytes, Elf64_Shdr *ret);

/* The bytes written. A value that the 32-bit class cannot hold is cut: who changes one checks
 * it. */
size_t ip_elf_ehdr_encode(const Elf64_Ehdr *ehdr, void *ret);
size_t ip_elf_shdr_encode(unsigned elf_class, const Elf64_Shdr *shdr, void *ret);

#endif
