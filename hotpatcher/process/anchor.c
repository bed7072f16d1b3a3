/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the runtime's anchor. See anchor.h.
 */
#include "hotpatcher/process/anchor.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/elf/note.h"
#include "common/error.h"
#include "hotpatcher/process/target_files.h"

/* Opens the runtime's own file (its path as the target sees it) and finds the anchor's address in
 * it. */
static int anchor_offset(pid_t pid, const struct ip_mapping *m, uint64_t *ret_vaddr)
{
	_cleanup_close_ int fd = -1;
	struct ip_elf_file *elf;
	bool exact;
	int found;

	fd = ip_target_open_mapping(pid, m, &exact);
	if (fd < 0 || ip_elf_open_fd(fd, m->path, &elf) < 0)
		return -1;
	found = ip_elf_symbol(elf, IP_ANCHOR_SYMBOL, ret_vaddr);
	ip_elf_close(elf);
	return found;
}

int ip_elf_linked_runtime(struct ip_elf_file *file, uint64_t *ret_address)
{
	uint64_t size;
	size_t n;

	if (elf_getphdrnum(file->elf, &n) < 0)
		return 0;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr phdr;

		if (gelf_getphdr(file->elf, i, &phdr) && phdr.p_type == PT_INTERP)
			return 0;
	}
	return ip_elf_note_place(file, IP_NOTE_ANCHOR, ret_address, &size);
}

/* Finds the anchor of a runtime in the executable itself, if it is static. 1: found; 0: there is
 * none. */
static int find_linked_anchor(const struct ip_target *target, uint64_t *ret_address)
{
	struct ip_elf_file *elf;
	struct stat st;
	char name[64];
	int found;

	snprintf(name, sizeof(name), "/proc/%d/exe", target->pid);
	if (ip_elf_open(name, &elf) < 0)
		return 0;
	found = ip_elf_linked_runtime(elf, ret_address) > 0 && elf->nloads &&
		fstat(elf->fd, &st) == 0;
	for (size_t i = 0; found && i < target->maps.n; i++) {
		const struct ip_mapping *m = &target->maps.items[i];
		const struct ip_elf_segment *first = &elf->loads[0];

		if (m->inode != st.st_ino || m->offset != (first->offset & ~4095ull))
			continue;
		*ret_address += m->start - (first->vaddr & ~4095ull);
		ip_elf_close(elf);
		return 1;
	}
	ip_elf_close(elf);
	return 0;
}

/* Whether mapping i begins with the anchor of a runtime that iprobe has put there. The anchor
 * begins the writable part of the runtime's image, right behind its code. Every part is private
 * memory without a file. The magic number is written last. */
static bool is_injected_at(const struct ip_target *target, size_t i)
{
	const struct ip_mapping *code = &target->maps.items[i - 1], *data = &target->maps.items[i];
	uint64_t magic;

	return code->end == data->start && !code->inode && !data->inode &&
	       !memcmp(code->perms, "r-xp", 4) && !memcmp(data->perms, "rw-p", 4) &&
	       data->path[0] != '/' &&
	       pread(target->mem, &magic, sizeof(magic), data->start) == sizeof(magic) &&
	       magic == IP_RT_MAGIC;
}

/* Finds the anchor of an injected runtime. 1: found; 0: there is none. */
static int find_injected_anchor(const struct ip_target *target, uint64_t *ret_address)
{
	for (size_t i = 1; i < target->maps.n; i++) {
		if (!is_injected_at(target, i))
			continue;
		*ret_address = target->maps.items[i].start;
		return 1;
	}
	return 0;
}

bool ip_proc_has_runtime(pid_t pid)
{
	struct ip_target target = {.pid = pid};
	bool found = false, link_map = false;
	uint64_t address;

	if (ip_maps_read(pid, &target.maps) < 0) {
		ip_maps_clear(&target.maps);
		return false;
	}
	for (size_t i = 0; i < target.maps.n && !found; i++) {
		found = strstr(target.maps.items[i].path, "/" IP_RT_SONAME) != NULL;
		link_map |= strstr(target.maps.items[i].path, "/ld-") != NULL;
	}
	if (!found && !link_map)
		found = find_linked_anchor(&target, &address);
	target.mem = found ? -1 : ip_proc_open_mem(pid, O_RDONLY);
	if (target.mem >= 0) {
		found = find_injected_anchor(&target, &address);
		close(target.mem);
	}
	ip_maps_clear(&target.maps);
	return found;
}

/* Whether the anchor is still where it was. Its file may have been replaced on disk since: what is
 * loaded counts. */
static bool anchor_stands(struct ip_target *target)
{
	const struct ip_mapping *m = ip_maps_find(&target->maps, target->anchor_address);
	const char *base = m ? strrchr(m->path, '/') : NULL;
	bool there = target->injected
			     ? m && m > target->maps.items && m->start == target->anchor_address &&
				       is_injected_at(target, m - target->maps.items)
			     : base && !strncmp(base + 1, IP_RT_SONAME, strlen(IP_RT_SONAME));

	return target->has_runtime && there &&
	       ip_target_read(target, target->anchor_address, &target->anchor,
			      sizeof(target->anchor)) == 0 &&
	       target->anchor.magic == IP_RT_MAGIC && target->anchor.abi == IP_RT_ABI;
}

int ip_anchor_find(struct ip_target *target)
{
	if (anchor_stands(target))
		return 0;
	target->has_runtime = target->linked_in = target->injected = false;
	for (size_t i = 0; i < target->maps.n; i++) {
		const struct ip_mapping *m = &target->maps.items[i];
		const char *base = strrchr(m->path, '/');
		uint64_t vaddr;

		if (!base || strncmp(base + 1, IP_RT_SONAME, strlen(IP_RT_SONAME)) || m->offset)
			continue;
		if (anchor_offset(target->pid, m, &vaddr) <= 0)
			return ip_error("pid %d: %s cannot be read or is not iprobe's runtime",
					target->pid, m->path);
		/* the runtime's first segment has link-time address 0 */
		target->anchor_address = m->start + vaddr;
		if (ip_target_read(target, target->anchor_address, &target->anchor,
				   sizeof(target->anchor)) < 0)
			return -1;
		if (target->anchor.magic != IP_RT_MAGIC || target->anchor.abi != IP_RT_ABI)
			return ip_error("pid %d: %s speaks ABI %u, this iprobe %u: use the iprobe "
					"that came with it",
					target->pid, m->path, target->anchor.abi, IP_RT_ABI);
		target->has_runtime = true;
		return 0;
	}
	if (find_injected_anchor(target, &target->anchor_address)) {
		if (ip_target_read(target, target->anchor_address, &target->anchor,
				   sizeof(target->anchor)) < 0)
			return -1;
		if (target->anchor.abi != IP_RT_ABI)
			return ip_error("pid %d: the runtime that an iprobe has put into it speaks "
					"ABI %u, this iprobe %u: use the iprobe that did",
					target->pid, target->anchor.abi, IP_RT_ABI);
		target->has_runtime = target->injected = true;
		return 0;
	}
	if (find_linked_anchor(target, &target->anchor_address)) {
		if (ip_target_read(target, target->anchor_address, &target->anchor,
				   sizeof(target->anchor)) < 0)
			return -1;
		if (target->anchor.magic != IP_RT_MAGIC || target->anchor.abi != IP_RT_ABI)
			return ip_error("pid %d: the runtime that is linked into it speaks ABI %u, "
					"this iprobe %u: use the iprobe that came with it",
					target->pid, target->anchor.abi, IP_RT_ABI);
		target->has_runtime = target->linked_in = true;
	}
	return 0;
}
