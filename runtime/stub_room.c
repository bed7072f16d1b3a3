/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the rooms for stubs that modules bring along (arch/ARCH/stub_room.S) executable.
 *
 * The code reads the program headers and the dynamic linker's list itself: the runtime calls no
 * library. Stubs of a module without a room lie in the pools. So do stubs of a module whose room
 * cannot be made executable (a policy against it).
 */
#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <sys/syscall.h>

#include "common/elf/note.h"
#include "runtime/arch/cpu.h"
#include "runtime/rt.h"

#define PAGE	    4096ull
#define MODULES_MAX 100000 /* a longer list is taken for damaged */
#define PROT_READ   1
#define PROT_EXEC   4

static int is_ours(const char *name, uint32_t size)
{
	static const char owner[] = IP_NOTE_OWNER;

	if (size != sizeof(owner))
		return 0;
	for (size_t i = 0; i < sizeof(owner); i++)
		if (name[i] != owner[i])
			return 0;
	return 1;
}

static void open_in_notes(uint64_t notes, uint64_t size)
{
	for (uint64_t at = 0; at + sizeof(ElfW(Nhdr)) <= size;) {
		const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)(notes + at);
		uint64_t name = at + sizeof(*note);
		uint64_t desc = name + (((uint64_t)note->n_namesz + 3) & ~3ull);
		const struct ip_note_place *place = (const struct ip_note_place *)(notes + desc);

		if (desc + note->n_descsz > size)
			return;
		if (note->n_type == IP_NOTE_ROOM && note->n_descsz == sizeof(*place) &&
		    is_ours((const char *)notes + name, note->n_namesz)) {
			uint64_t room = notes + desc + place->distance;

			if (!(room % PAGE) && !(place->size % PAGE))
				cpu_syscall(SYS_mprotect, room, place->size, PROT_READ | PROT_EXEC,
					    0);
			return;
		}
		at = (desc + note->n_descsz + 3) & ~3ull;
	}
}

void rt_stub_room_open(const void *headers, size_t n, uint64_t bias)
{
	const ElfW(Phdr) *phdr = headers;

	for (size_t i = 0; i < n; i++)
		if (phdr[i].p_type == PT_NOTE)
			open_in_notes(bias + phdr[i].p_vaddr, phdr[i].p_memsz);
}

/* The ELF header of a library lies where the library is loaded, unless the library was linked to an
 * address of its own. */
static const ElfW(Ehdr) * header_of(const struct link_map *module)
{
	const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)module->l_addr;
	unsigned char resident;

	if (!module->l_addr || module->l_addr % PAGE ||
	    cpu_syscall(SYS_mincore, module->l_addr, PAGE, &resident, 0))
		return NULL;
	return header->e_ident[0] == 0x7f && header->e_ident[1] == 'E' &&
			       header->e_ident[2] == 'L' && header->e_ident[3] == 'F' &&
			       header->e_phentsize == sizeof(ElfW(Phdr))
		       ? header
		       : NULL;
}

void rt_rooms_open(const void *headers, size_t n)
{
	const ElfW(Phdr) *phdr = headers;
	const struct r_debug *debug = NULL;
	uint64_t bias = 0;

	if (!headers)
		return;
	for (size_t i = 0; i < n; i++)
		if (phdr[i].p_type == PT_PHDR)
			bias = (uint64_t)headers - phdr[i].p_vaddr;
	rt_stub_room_open(headers, n, bias);
	for (size_t i = 0; i < n; i++) {
		if (phdr[i].p_type != PT_DYNAMIC)
			continue;
		for (const ElfW(Dyn) *d = (const ElfW(Dyn) *)(bias + phdr[i].p_vaddr);
		     d->d_tag != DT_NULL; d++)
			if (d->d_tag == DT_DEBUG)
				debug = (const struct r_debug *)d->d_un.d_ptr;
	}
	if (!debug)
		return;
	/* the first entry is the executable */
	const struct link_map *module = debug->r_map ? debug->r_map->l_next : NULL;

	for (unsigned i = 0; module && i < MODULES_MAX; module = module->l_next, i++) {
		const ElfW(Ehdr) *header = header_of(module);

		if (header)
			rt_stub_room_open((const char *)header + header->e_phoff, header->e_phnum,
					  module->l_addr);
	}
}
