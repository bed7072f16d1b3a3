/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the loader's list. All of it is the target's memory: nothing in it is believed except that
 * it has changed.
 */
#include "hotpatcher/process/link_map.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "access/delegation.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/elf/elf_class.h"
#include "common/error.h"

#define WORDS	   6	/* words of r_debug; of a link_map 5 are read */
#define LINKS_MAX  8192 /* a longer list, or one that has no end, counts as none */
#define NAMESPACES 16
#define BATCH	   512 /* places that one system call reads */

/* A place that is watched. */
struct place {
	uint64_t address;
	uint8_t size; /* bytes */
	bool old;     /* a site that was not found live when the others were noted */
	uint8_t bytes[8 * WORDS];
};

struct ip_link_map {
	struct place *links, *sites;
	size_t nlinks, nsites;
	uint64_t debug; /* address of r_debug; 0: not known */
	bool none;	/* the target has no list */
};

struct ip_link_map *ip_link_map_create(void)
{
	struct ip_link_map *l = calloc(1, sizeof(*l));

	if (!l)
		ip_error("out of memory");
	return l;
}

static struct place *copy_places(const struct place *places, size_t n)
{
	size_t capacity = 1; /* as ip_array_grow() has it: the next power of two */
	struct place *copy;

	while (capacity < n)
		capacity *= 2;
	copy = calloc(capacity, sizeof(*copy));
	if (copy && n)
		memcpy(copy, places, n * sizeof(*copy));
	return copy;
}

struct ip_link_map *ip_link_map_copy(const struct ip_link_map *l)
{
	struct ip_link_map *copy = ip_link_map_create();

	if (!copy)
		return NULL;
	*copy = *l;
	copy->links = copy_places(l->links, l->nlinks);
	copy->sites = copy_places(l->sites, l->nsites);
	if (!copy->links || !copy->sites) {
		ip_link_map_destroy(copy);
		ip_error("out of memory");
		return NULL;
	}
	return copy;
}

void ip_link_map_destroy(struct ip_link_map *l)
{
	if (!l)
		return;
	free(l->links);
	free(l->sites);
	free(l);
}

/* Word i of an array of words of the target's size. */
static uint64_t word(const struct ip_target *target, const uint8_t *bytes, unsigned i)
{
	uint64_t wide;
	uint32_t narrow;

	if (target->arch->bits == 64) {
		memcpy(&wide, bytes + 8 * i, 8);
		return wide;
	}
	memcpy(&narrow, bytes + 4 * i, 4);
	return narrow;
}

static int read_words(const struct ip_target *target, uint64_t address, unsigned n, uint8_t *ret)
{
	return ip_target_read(target, address, ret, n * target->arch->bits / 8);
}

/* Finds the address of r_debug. 1; 0: the loader has not written it yet; -1: there is none. */
static int find_debug(const struct ip_target *target, uint64_t *ret)
{
	unsigned size = target->arch->bits / 8;
	uint64_t headers = 0, n = 0, bias = 0, dynamic = 0;
	bool placed = false;
	uint8_t bytes[sizeof(Elf64_Phdr)], auxv[2048];
	_cleanup_fclose_ FILE *file = NULL;
	char name[64];
	size_t got;

	snprintf(name, sizeof(name), "/proc/%d/auxv", target->pid);
	file = ip_delegation_fopen(name);
	got = file ? fread(auxv, 1, sizeof(auxv), file) : 0;
	for (size_t i = 0; (i + 1) * 2 * size <= got; i++) {
		uint64_t type = word(target, auxv + 2 * i * size, 0),
			 value = word(target, auxv + 2 * i * size, 1);

		if (type == AT_PHDR)
			headers = value;
		if (type == AT_PHNUM)
			n = value;
	}
	for (uint64_t i = 0; headers && i < n && i < 256; i++) {
		unsigned class = size == 8 ? ELFCLASS64 : ELFCLASS32;
		Elf64_Phdr phdr;

		if (ip_target_read(target, headers + i * ip_elf_phdr_size(class), bytes,
				   ip_elf_phdr_size(class)) < 0)
			return -1;
		ip_elf_phdr_decode(class, bytes, &phdr);
		if (phdr.p_type == PT_PHDR) {
			bias = headers - phdr.p_vaddr;
			placed = true;
		}
		if (phdr.p_type == PT_DYNAMIC)
			dynamic = phdr.p_vaddr;
	}
	for (unsigned i = 0; placed && dynamic && i < 512; i++) {
		if (read_words(target, bias + dynamic + 2 * i * size, 2, bytes) < 0 ||
		    word(target, bytes, 0) == DT_NULL)
			return -1;
		if (word(target, bytes, 0) == DT_DEBUG) {
			*ret = word(target, bytes, 1);
			return *ret != 0;
		}
	}
	return -1;
}

static int add(struct place **places, size_t *n, uint64_t address, unsigned size,
	       const uint8_t *bytes)
{
	struct place *p;

	if (ip_array_grow(places, *n, sizeof(**places)) < 0)
		return -1;
	p = &(*places)[(*n)++];
	p->address = address;
	p->size = size;
	p->old = false;
	memcpy(p->bytes, bytes, size);
	return 0;
}

int ip_link_map_note(struct ip_link_map *l, const struct ip_target *target)
{
	unsigned size = target->arch->bits / 8;
	uint8_t debug[8 * WORDS], link[8 * WORDS];
	uint64_t at;

	if (!l->debug && !l->none) {
		int found = find_debug(target, &l->debug);

		if (found == 0)
			return 0;
		l->none = found < 0;
	}
	if (l->none)
		return -1;
	l->nlinks = 0;
	at = l->debug;
	for (unsigned space = 0; at && space < NAMESPACES; space++) {
		uint64_t map;

		if (read_words(target, at, WORDS, debug) < 0)
			return 0;
		if (*(int *)(debug + 3 * size)) /* r_state: adding or deleting */
			return 0;
		if (add(&l->links, &l->nlinks, at, WORDS * size, debug) < 0)
			return 0;
		for (map = word(target, debug, 1); map && l->nlinks < LINKS_MAX;
		     map = word(target, link, 3))
			if (read_words(target, map, 5, link) < 0 ||
			    add(&l->links, &l->nlinks, map, 5 * size, link) < 0)
				return 0;
		l->none |= map != 0;
		/* from r_version 2 on there is r_next */
		at = *(int *)debug >= 2 ? word(target, debug, 5) : 0;
	}
	l->none |= at != 0;
	return l->none ? -1 : 1;
}

int ip_link_map_expect(struct ip_link_map *l, uint64_t address, const uint8_t *bytes, unsigned size)
{
	return add(&l->sites, &l->nsites, address, size, bytes);
}

/* For a module none of whose sites is live: keeps the site that was noted before, unless it was
 * already kept so the last time. */
static int keep_old(struct ip_link_map *l, const struct ip_module *module,
		    const struct place *before, size_t n)
{
	for (size_t i = n; i-- > 0;) {
		const struct place *p = &before[i];

		if (p->address < module->start || p->address >= module->end)
			continue;
		if (p->old)
			return 0;
		if (add(&l->sites, &l->nsites, p->address, p->size, p->bytes) < 0)
			return -1;
		l->sites[l->nsites - 1].old = true;
		return 0;
	}
	return 0;
}

int ip_link_map_note_sites(struct ip_link_map *l, const struct ip_target *target,
			   const struct ip_modules *modules, ip_link_map_find_t find)
{
	_cleanup_free_ struct place *before = l->sites;
	size_t nbefore = l->nsites;
	uint8_t bytes[IP_SITE_MAX];
	uint64_t address;
	unsigned size;

	l->sites = NULL;
	l->nsites = 0;
	for (size_t i = 0; i < modules->n; i++) {
		const struct ip_module *m = &modules->items[i];
		size_t n = l->nsites;

		if (!m->may_go || !m->list)
			continue;
		size = ip_module_is_mapped(target, m) ? find(target, m, &address, bytes) : 0;
		if (size)
			add(&l->sites, &l->nsites, address, size, bytes);
		if (l->nsites == n && keep_old(l, m, before, nbefore) < 0)
			return -1;
	}
	return 0;
}

static bool differ_by_mem(const struct place *places, size_t n, const struct ip_target *target)
{
	uint8_t now[8 * WORDS];

	for (size_t i = 0; i < n; i++)
		if (ip_target_read(target, places[i].address, now, places[i].size) < 0 ||
		    memcmp(now, places[i].bytes, places[i].size))
			return true;
	return false;
}

static bool differ(const struct place *places, size_t n, const struct ip_target *target)
{
	for (size_t done = 0; done < n;) {
		static uint8_t now[BATCH * 8 * WORDS];
		struct iovec remote[BATCH], local = {now, 0};
		size_t count = n - done < BATCH ? n - done : BATCH;
		const uint8_t *at = now;

		for (size_t i = 0; i < count; i++) {
			remote[i] = (struct iovec){(void *)(uintptr_t)places[done + i].address,
						   places[done + i].size};
			local.iov_len += places[done + i].size;
		}
		/* a leader that has ended has no memory any more, but its other threads have */
		if (process_vm_readv(target->pid, &local, 1, remote, count, 0) !=
		    (ssize_t)local.iov_len)
			return differ_by_mem(places + done, n - done, target);
		for (size_t i = 0; i < count; at += places[done + i++].size)
			if (memcmp(at, places[done + i].bytes, places[done + i].size))
				return true;
		done += count;
	}
	return false;
}

bool ip_link_map_changed(struct ip_link_map *l, const struct ip_target *target)
{
	return differ(l->links, l->nlinks, target) || differ(l->sites, l->nsites, target);
}

bool ip_link_map_site_stands(const struct ip_link_map *l, const struct ip_target *target,
			     const struct ip_module *module)
{
	for (size_t i = 0; i < l->nsites; i++)
		if (l->sites[i].address >= module->start && l->sites[i].address < module->end)
			return !differ(&l->sites[i], 1, target);
	return true;
}
