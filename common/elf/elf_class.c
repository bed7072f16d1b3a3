// SPDX-License-Identifier: Apache-2.0
/*
 * Headers of the two ELF classes. See elf_class.h.
 */
#include "common/elf/elf_class.h"

#include <string.h>

size_t ip_elf_ehdr_size(unsigned elf_class)
{
	return elf_class == ELFCLASS32 ? sizeof(Elf32_Ehdr) : sizeof(Elf64_Ehdr);
}

size_t ip_elf_phdr_size(unsigned elf_class)
{
	return elf_class == ELFCLASS32 ? sizeof(Elf32_Phdr) : sizeof(Elf64_Phdr);
}

size_t ip_elf_shdr_size(unsigned elf_class)
{
	return elf_class == ELFCLASS32 ? sizeof(Elf32_Shdr) : sizeof(Elf64_Shdr);
}

void ip_elf_ehdr_decode(const void *bytes, Elf64_Ehdr *ret)
{
	Elf32_Ehdr e;

	if (((const uint8_t *)bytes)[EI_CLASS] != ELFCLASS32) {
		memcpy(ret, bytes, sizeof(*ret));
		return;
	}
	memcpy(&e, bytes, sizeof(e));
	*ret = (Elf64_Ehdr){
		.e_type = e.e_type,
		.e_machine = e.e_machine,
		.e_version = e.e_version,
		.e_entry = e.e_entry,
		.e_phoff = e.e_phoff,
		.e_shoff = e.e_shoff,
		.e_flags = e.e_flags,
		.e_ehsize = e.e_ehsize,
		.e_phentsize = e.e_phentsize,
		.e_phnum = e.e_phnum,
		.e_shentsize = e.e_shentsize,
		.e_shnum = e.e_shnum,
		.e_shstrndx = e.e_shstrndx,
	};
	memcpy(ret->e_ident, e.e_ident, sizeof(ret->e_ident));
}

size_t ip_elf_ehdr_encode(const Elf64_Ehdr *ehdr, void *ret)
{
	Elf32_Ehdr e = {
		.e_type = ehdr->e_type,
		.e_machine = ehdr->e_machine,
		.e_version = ehdr->e_version,
		.e_entry = ehdr->e_entry,
		.e_phoff = ehdr->e_phoff,
		.e_shoff = ehdr->e_shoff,
		.e_flags = ehdr->e_flags,
		.e_ehsize = ehdr->e_ehsize,
		.e_phentsize = ehdr->e_phentsize,
		.e_phnum = ehdr->e_phnum,
		.e_shentsize = ehdr->e_shentsize,
		.e_shnum = ehdr->e_shnum,
		.e_shstrndx = ehdr->e_shstrndx,
	};

	if (ehdr->e_ident[EI_CLASS] != ELFCLASS32) {
		memcpy(ret, ehdr, sizeof(*ehdr));
		return sizeof(*ehdr);
	}
	memcpy(e.e_ident, ehdr->e_ident, sizeof(e.e_ident));
	memcpy(ret, &e, sizeof(e));
	return sizeof(e);
}

void ip_elf_phdr_decode(unsigned elf_class, const void *bytes, Elf64_Phdr *ret)
{
	Elf32_Phdr p;

	if (elf_class != ELFCLASS32) {
		memcpy(ret, bytes, sizeof(*ret));
		return;
	}
	memcpy(&p, bytes, sizeof(p));
	*ret = (Elf64_Phdr){
		.p_type = p.p_type,
		.p_flags = p.p_flags,
		.p_offset = p.p_offset,
		.p_vaddr = p.p_vaddr,
		.p_paddr = p.p_paddr,
		.p_filesz = p.p_filesz,
		.p_memsz = p.p_memsz,
		.p_align = p.p_align,
	};
}

void ip_elf_shdr_decode(unsigned elf_class, const void *bytes, Elf64_Shdr *ret)
{
	Elf32_Shdr s;

	if (elf_class != ELFCLASS32) {
		memcpy(ret, bytes, sizeof(*ret));
		return;
	}
	memcpy(&s, bytes, sizeof(s));
	*ret = (Elf64_Shdr){
		.sh_name = s.sh_name,
		.sh_type = s.sh_type,
		.sh_flags = s.sh_flags,
		.sh_addr = s.sh_addr,
		.sh_offset = s.sh_offset,
		.sh_size = s.sh_size,
		.sh_link = s.sh_link,
		.sh_info = s.sh_info,
		.sh_addralign = s.sh_addralign,
		.sh_entsize = s.sh_entsize,
	};
}

size_t ip_elf_shdr_encode(unsigned elf_class, const Elf64_Shdr *shdr, void *ret)
{
	Elf32_Shdr s = {
		.sh_name = shdr->sh_name,
		.sh_type = shdr->sh_type,
		.sh_flags = shdr->sh_flags,
		.sh_addr = shdr->sh_addr,
		.sh_offset = shdr->sh_offset,
		.sh_size = shdr->sh_size,
		.sh_link = shdr->sh_link,
		.sh_info = shdr->sh_info,
		.sh_addralign = shdr->sh_addralign,
		.sh_entsize = shdr->sh_entsize,
	};

	if (elf_class != ELFCLASS32) {
		memcpy(ret, shdr, sizeof(*shdr));
		return sizeof(*shdr);
	}
	memcpy(ret, &s, sizeof(s));
	return sizeof(s);
}
