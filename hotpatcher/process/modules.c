/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds modules, their files and their probe lists.
 */
#include "hotpatcher/process/modules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/elf/elf_class.h"
#include "common/elf/note.h"
#include "common/error.h"
#include "hotpatcher/process/modules_needed.h"
#include "hotpatcher/process/plt.h"
#include "hotpatcher/process/probe_list_search.h"
#include "hotpatcher/process/target_files.h"

#define PAGE_MASK 4095ull

static bool same_file(const struct ip_mapping *a, const struct ip_mapping *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor && !strcmp(a->path, b->path);
}

/* Reads the build-id out of the mapped program headers and notes. */
size_t ip_modules_build_id_at(const struct ip_target *target, uint64_t start, uint64_t load_bias,
			      uint8_t *ret)
{
	uint8_t bytes[sizeof(Elf64_Ehdr)], notes[4096];
	unsigned elf_class;
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr;

	if (ip_target_read(target, start, bytes, sizeof(bytes)) < 0 ||
	    memcmp(bytes, ELFMAG, SELFMAG))
		return 0;
	ip_elf_ehdr_decode(bytes, &ehdr);
	elf_class = ehdr.e_ident[EI_CLASS];
	if (ehdr.e_phentsize != ip_elf_phdr_size(elf_class))
		return 0;
	for (unsigned i = 0; i < ehdr.e_phnum && i < 256; i++) {
		size_t size, found;

		if (ip_target_read(target, start + ehdr.e_phoff + i * ehdr.e_phentsize, bytes,
				   ehdr.e_phentsize) < 0)
			return 0;
		ip_elf_phdr_decode(elf_class, bytes, &phdr);
		if (phdr.p_type != PT_NOTE)
			continue;
		size = phdr.p_memsz < sizeof(notes) ? phdr.p_memsz : sizeof(notes);
		if (ip_target_read(target, load_bias + phdr.p_vaddr, notes, size) < 0)
			continue;
		found = ip_elf_build_id_in_notes(notes, size, ret);
		if (found)
			return found;
	}
	return 0;
}

/*
 * The end of the module whose first mapping begins at start, by its program headers; 0: they cannot
 * be read there. All segments of a small file lie in its first page: then each of its mappings
 * begins with that page.
 */
static uint64_t module_end(const struct ip_target *target, uint64_t start)
{
	uint64_t first = UINT64_MAX, end = 0;
	uint8_t bytes[sizeof(Elf64_Ehdr)], header[sizeof(Elf64_Phdr)];
	Elf64_Ehdr ehdr;
	unsigned class;

	if (ip_target_read(target, start, bytes, sizeof(bytes)) < 0 ||
	    memcmp(bytes, ELFMAG, SELFMAG))
		return 0;
	class = bytes[EI_CLASS];
	if (class != ELFCLASS32 && class != ELFCLASS64)
		return 0;
	ip_elf_ehdr_decode(bytes, &ehdr);
	if (ehdr.e_phentsize != ip_elf_phdr_size(class))
		return 0;
	for (unsigned i = 0; i < ehdr.e_phnum && i < 256; i++) {
		Elf64_Phdr phdr;

		if (ip_target_read(target, start + ehdr.e_phoff + i * ehdr.e_phentsize, header,
				   ehdr.e_phentsize) < 0)
			return 0;
		ip_elf_phdr_decode(class, header, &phdr);
		if (phdr.p_type != PT_LOAD)
			continue;
		if (first == UINT64_MAX)
			first = phdr.p_vaddr & ~PAGE_MASK;
		if (phdr.p_memsz > UINT64_MAX - phdr.p_vaddr)
			return 0;
		if (phdr.p_vaddr + phdr.p_memsz > end)
			end = phdr.p_vaddr + phdr.p_memsz;
	}
	return end > first && end - first <= UINT64_MAX - start ? start + (end - first) : 0;
}

static int problem(struct ip_module *module)
{
	free(module->problem);
	module->problem = strdup(ip_error_message());
	return -1;
}

/* Every site must lie in executable bytes of the file. */
static int check_sites(const struct ip_module *module)
{
	const struct ip_probe_list *list = module->list;
	size_t segment = 0;

	for (uint32_t i = 0; i < list->header->nprobes; i++) {
		const struct ip_pl_probe *probe = &list->probes[i];
		const struct ip_elf_segment *s = &module->elf->loads[segment];

		if (probe->offset < s->vaddr ||
		    probe->offset + probe->length > s->vaddr + s->filesz || !(s->flags & PF_X)) {
			for (segment = 0; segment < module->elf->nloads; segment++) {
				s = &module->elf->loads[segment];
				if ((s->flags & PF_X) && probe->offset >= s->vaddr &&
				    probe->offset + probe->length <= s->vaddr + s->filesz)
					break;
			}
			if (segment == module->elf->nloads)
				return ip_error("%s: its probe list has a site at %#lx, which is "
						"no code: run coldpatch on it again",
						module->path, probe->offset);
		}
	}
	return 0;
}

static int load_list(const struct ip_target *target, struct ip_module *module)
{
	const struct ip_pl_header *header;
	int found = ip_probe_list_from_elf(module->elf->fd, module->path, &module->list);

	if (found > 0)
		ip_probe_list_search_not_needed(module->elf);
	if (found == 0)
		found = ip_probe_list_search_find(target->pid, module->path, module->elf,
						  &module->list);
	if (found < 0)
		return -1;
	if (!module->list)
		return 0;
	header = module->list->header;
	if (header->machine != module->elf->ehdr.e_machine)
		return ip_error("%s: its probe list is for machine %u", module->path,
				header->machine);
	if (header->build_id_size != module->elf->build_id_size ||
	    memcmp(header->build_id, module->elf->build_id, header->build_id_size))
		return ip_error("%s: its probe list belongs to another build (build-id differs): "
				"run coldpatch on it again",
				module->path);
	if ((target->plt || (target->has_runtime && ip_plt_is_changed(target, module))) &&
	    ip_plt_add(module) < 0)
		return -1;
	return check_sites(module);
}

/* Whether the list names memory of the module, behind what its file holds. Whatever the list says,
 * memory that is not the module's must not be taken. */
static bool is_room(const struct ip_elf_file *elf, uint64_t offset, uint64_t size)
{
	for (size_t i = 0; i < elf->nloads; i++) {
		const struct ip_elf_segment *s = &elf->loads[i];

		if (offset >= s->vaddr && offset - s->vaddr >= s->filesz &&
		    offset - s->vaddr <= s->memsz && size <= s->memsz - (offset - s->vaddr))
			return true;
	}
	return false;
}

bool ip_module_room(const struct ip_module *module, struct ip_stub_room *ret)
{
	const struct ip_pl_header *h = module->list ? module->list->header : NULL;

	if (!h || !h->stub_area_size ||
	    (module->load_bias + h->stub_area_offset) % (PAGE_MASK + 1) ||
	    !is_room(module->elf, h->stub_area_offset, h->stub_area_size))
		return false;
	*ret = (struct ip_stub_room){module->load_bias + h->stub_area_offset, h->stub_area_size};
	return true;
}

/* Takes the room for stubs that the module brings along, if all of it is executable, and private
 * memory only. */
static int take_room(struct ip_target *target, struct ip_module *module)
{
	struct ip_stub_room room;
	uint64_t start, end;

	if (!ip_module_room(module, &room))
		return 0;
	start = room.address;
	end = start + room.size;
	for (uint64_t at = start; at < end;) {
		const struct ip_mapping *m = ip_maps_find(&target->maps, at);

		if (!m || m->inode || memcmp(m->perms, "r-xp", 4))
			return 0;
		at = m->end;
	}
	if (ip_array_grow(&target->rooms, target->nrooms, sizeof(*target->rooms)) < 0)
		return -1;
	target->rooms[target->nrooms++] = (struct ip_stub_room){start, end - start};
	module->room = start;
	module->room_size = end - start;
	return 0;
}

int ip_modules_find_rooms(struct ip_target *target, struct ip_modules *modules)
{
	target->nrooms = 0;
	for (size_t i = 0; i < modules->n; i++) {
		modules->items[i].room = modules->items[i].room_size = 0;
		if (modules->items[i].list && take_room(target, &modules->items[i]) < 0)
			return -1;
	}
	return 0;
}

static int load_module(struct ip_target *target, const struct ip_mapping *first,
		       struct ip_module *module)
{
	uint8_t id[IP_BUILD_ID_MAX];
	char ours[2 * IP_BUILD_ID_MAX + 1], theirs[2 * IP_BUILD_ID_MAX + 1];
	bool exact;
	size_t size;
	int fd = ip_target_open_mapping(target->pid, first, &exact);

	if (fd < 0) {
		if (module->deleted)
			ip_error("%s: its file cannot be opened: it was deleted or replaced since; "
				 "root can still read it",
				 module->path);
		return problem(module);
	}
	if (ip_elf_open_fd(fd, module->path, &module->elf) < 0) {
		close(fd);
		return problem(module);
	}
	module->elf->own_fd = true;
	module->load_bias = 0;
	for (size_t i = 0; i < module->elf->nloads; i++) {
		const struct ip_elf_segment *s = &module->elf->loads[i];

		if ((s->offset & ~PAGE_MASK) == first->offset) {
			module->load_bias = first->start - (s->vaddr & ~PAGE_MASK);
			break;
		}
	}
	size = ip_modules_build_id_at(target, first->start, module->load_bias, id);
	if (size != module->elf->build_id_size || memcmp(id, module->elf->build_id, size)) {
		ip_build_id_format(id, size, ours);
		ip_build_id_format(module->elf->build_id, module->elf->build_id_size, theirs);
		ip_error("%s: the file is not the one that runs in pid %d (build-id %s in memory, "
			 "%s in the file%s): restart the program, or attach as root",
			 module->path, target->pid, size ? ours : "none",
			 module->elf->build_id_size ? theirs : "none",
			 exact ? "" : ", replaced on disk");
		ip_elf_close(module->elf);
		module->elf = NULL;
		return problem(module);
	}
	if (load_list(target, module) < 0 || (module->list && take_room(target, module) < 0)) {
		ip_probe_list_destroy(module->list);
		module->list = NULL;
		return problem(module);
	}
	return 0;
}

/* Leaves what was taken over to the old modules. */
static void disown(struct ip_modules *modules)
{
	for (size_t i = 0; i < modules->n; i++)
		if (modules->items[i].old) {
			modules->items[i].elf = NULL;
			modules->items[i].list = NULL;
		}
}

/* Takes the files of the old module over, if it is mapped as it was. */
static bool take_over(struct ip_target *target, struct ip_modules *old, struct ip_module *module)
{
	uint8_t id[IP_BUILD_ID_MAX];

	for (size_t i = 0; old && i < old->n; i++) {
		struct ip_module *o = &old->items[i];
		size_t size;

		if (!o->elf || o->start != module->start || o->end != module->end ||
		    o->inode != module->inode || o->dev_major != module->dev_major ||
		    o->dev_minor != module->dev_minor || strcmp(o->path, module->path))
			continue;
		size = ip_modules_build_id_at(target, o->start, o->load_bias, id);
		if (size != o->elf->build_id_size || memcmp(id, o->elf->build_id, size))
			continue;
		module->load_bias = o->load_bias;
		module->elf = o->elf;
		module->list = o->list;
		module->plt = o->plt;
		module->old = i + 1;
		if (module->list)
			take_room(target, module);
		return true;
	}
	return false;
}

static int have_jumps(struct ip_module *module)
{
	module->jumps = calloc(module->list->header->nprobes + 1ull, sizeof(*module->jumps));
	return module->jumps ? 0 : ip_error("out of memory");
}

int ip_modules_reload(struct ip_target *target, struct ip_modules *old, struct ip_modules *ret)
{
	const struct ip_maps *maps = &target->maps;

	ret->items = NULL;
	ret->n = 0;
	target->nrooms = 0;
	for (size_t i = 0; i < maps->n;) {
		const struct ip_mapping *first = &maps->items[i];
		struct ip_module *module;
		bool executable = false;
		uint64_t end;
		size_t j = i;
		void *items;

		if (!first->inode || first->path[0] != '/' || first->offset ||
		    !strncmp(first->path, "/memfd:", 7)) {
			i++;
			continue;
		}
		end = module_end(target, first->start);
		/* anonymous memory (bss, a page that was changed) may lie between two mappings of a
		 * file */
		for (size_t k = i;
		     k < maps->n && (same_file(first, &maps->items[k]) || !maps->items[k].inode);
		     k++) {
			if (!maps->items[k].inode)
				continue;
			if (k > i && !maps->items[k].offset && maps->items[k].start >= end)
				break; /* the same file mapped again */
			executable |= maps->items[k].perms[2] == 'x';
			j = k;
		}
		if (executable) {
			items = realloc(ret->items, (ret->n + 1) * sizeof(*ret->items));
			if (!items) {
				disown(ret);
				ip_modules_clear(ret);
				return ip_error("out of memory");
			}
			ret->items = items;
			module = &ret->items[ret->n++];
			memset(module, 0, sizeof(*module));
			module->path = strdup(first->path);
			module->start = first->start;
			module->end = maps->items[j].end;
			module->deleted = first->deleted;
			module->inode = first->inode;
			module->dev_major = first->dev_major;
			module->dev_minor = first->dev_minor;
			module->runtime = target->has_runtime && !target->linked_in &&
					  target->anchor_address >= module->start &&
					  target->anchor_address < module->end;
			module->fresh = !take_over(target, old, module);
			if (module->fresh)
				load_module(target, first, module); /* keeps errors in problem */
		}
		i = j + 1;
	}
	ip_modules_mark_lasting(target, ret);
	for (size_t i = 0; i < ret->n; i++)
		if (ret->items[i].list && have_jumps(&ret->items[i]) < 0) {
			disown(ret);
			ip_modules_clear(ret);
			return -1;
		}
	for (size_t i = 0; i < ret->n; i++) {
		size_t from = ret->items[i].old;

		if (from) { /* the new module owns them now */
			old->items[from - 1].elf = NULL;
			old->items[from - 1].list = NULL;
			ret->items[i].old = 0;
		}
	}
	return 0;
}

int ip_modules_load(struct ip_target *target, struct ip_modules *ret)
{
	return ip_modules_reload(target, NULL, ret);
}

void ip_modules_clear(struct ip_modules *modules)
{
	for (size_t i = 0; i < modules->n; i++) {
		ip_probe_list_destroy(modules->items[i].list);
		ip_elf_close(modules->items[i].elf);
		free(modules->items[i].jumps);
		free(modules->items[i].path);
		free(modules->items[i].problem);
	}
	free(modules->items);
	modules->items = NULL;
	modules->n = 0;
}

bool ip_module_is_mapped(const struct ip_target *target, const struct ip_module *module)
{
	const struct ip_mapping *m = ip_maps_find(&target->maps, module->start);

	return m && m->start == module->start && m->inode == module->inode;
}

bool ip_module_is_to_be_made(const struct ip_module *module)
{
	return !module->runtime && module->elf && !module->list &&
	       ip_probe_list_is_to_be_made(module->elf);
}

int ip_modules_no_probes(const struct ip_target *target, const struct ip_modules *modules)
{
	uint64_t room, size;
	char what[32];

	for (size_t i = 0; i < modules->n; i++)
		if (modules->items[i].problem && !modules->items[i].runtime)
			return ip_error("pid %d: %s", target->pid, modules->items[i].problem);
	snprintf(what, sizeof(what), "pid %d", target->pid);
	if (ip_probe_list_search_check_used(what) < 0)
		return -1;
	for (size_t i = 0; i < modules->n; i++)
		if (!modules->items[i].runtime && modules->items[i].elf &&
		    !modules->items[i].list &&
		    ip_elf_note_place(modules->items[i].elf, IP_NOTE_ROOM, &room, &size) > 0)
			return ip_error(
				"pid %d: no probe list for %s, which was built with iprobe-cc: "
				"install its debug symbols (-dbgsym, -debuginfo), or name the "
				"list with --list",
				target->pid, modules->items[i].path);
	for (size_t i = 0; i < modules->n; i++)
		if (ip_module_is_to_be_made(&modules->items[i]))
			return ip_error(
				"pid %d: iprobe-cc has compiled %s, and another compiler has "
				"linked it, as libtool may: run coldpatch on it, and start it anew",
				target->pid, modules->items[i].path);
	return ip_error("pid %d has no probes: %s was not built with iprobe-cc", target->pid,
			modules->n ? modules->items[0].path : "it");
}
