/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds text padding by the program headers in the target's memory, and clears up what was left in
 * it.
 */
#include "hotpatcher/inject/text_padding.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/elf/elf_class.h"
#include "common/error.h"
#include "hotpatcher/inject/inject_code.h"

#define PAGE	    4096ull
#define ALIGN	    16ull
#define HEADERS_MAX 64u

/* Finds the mapping of the file's start that belongs to mapping i. NULL: there is none. */
static const struct ip_mapping *first_of(const struct ip_maps *maps, size_t i)
{
	const struct ip_mapping *m = &maps->items[i];

	for (size_t k = i + 1; k-- > 0 && i - k < HEADERS_MAX;) {
		const struct ip_mapping *f = &maps->items[k];

		if (f->inode == m->inode && f->dev_major == m->dev_major &&
		    f->dev_minor == m->dev_minor && !strcmp(f->path, m->path) && !f->offset)
			return f;
	}
	return NULL;
}

/* Reads the program headers of a module that load something. Returns their number; 0: they cannot
 * be read. */
static unsigned read_loads(const struct ip_target *target, uint64_t start, Elf64_Phdr *ret)
{
	uint8_t bytes[sizeof(Elf64_Ehdr)], header[sizeof(Elf64_Phdr)];
	Elf64_Ehdr ehdr;
	unsigned n = 0;

	if (pread(target->mem, bytes, sizeof(bytes), start) != sizeof(bytes) ||
	    memcmp(bytes, ELFMAG, SELFMAG) ||
	    (bytes[EI_CLASS] != ELFCLASS32 && bytes[EI_CLASS] != ELFCLASS64))
		return 0;
	ip_elf_ehdr_decode(bytes, &ehdr);
	if (ehdr.e_phentsize != ip_elf_phdr_size(bytes[EI_CLASS]))
		return 0;
	for (unsigned i = 0; i < ehdr.e_phnum && i < HEADERS_MAX; i++) {
		if (pread(target->mem, header, ehdr.e_phentsize,
			  start + ehdr.e_phoff + i * ehdr.e_phentsize) != ehdr.e_phentsize)
			return 0;
		ip_elf_phdr_decode(bytes[EI_CLASS], header, &ret[n]);
		n += ret[n].p_type == PT_LOAD;
	}
	return n;
}

/* Where the code in mapping m ends; 0: that cannot be told. */
static uint64_t end_of_code(const struct ip_target *target, const struct ip_mapping *first,
			    const struct ip_mapping *m)
{
	Elf64_Phdr loads[HEADERS_MAX + 1];
	unsigned n = read_loads(target, first->start, loads);
	uint64_t bias, end = 0;

	if (!n)
		return 0;
	bias = first->start - (loads[0].p_vaddr & ~(PAGE - 1));
	for (unsigned i = 0; i < n; i++) {
		uint64_t segment_end = bias + loads[i].p_vaddr + loads[i].p_memsz;

		if ((loads[i].p_flags & PF_X) && loads[i].p_filesz == loads[i].p_memsz &&
		    segment_end > m->start && segment_end < m->end && segment_end > end)
			end = segment_end;
	}
	/* the page must hold no bytes of another segment */
	for (unsigned i = 0; i < n && end; i++) {
		uint64_t start = bias + loads[i].p_vaddr, stop = start + loads[i].p_memsz;

		if (stop > end && start < ((end | (PAGE - 1)) + 1))
			return 0;
	}
	return end;
}

static void look_at(const struct ip_target *target, struct ip_text_padding *s)
{
	struct ip_inject_header head;
	uint8_t bytes[PAGE];
	size_t same = 0;

	if (s->size > sizeof(bytes) ||
	    pread(target->mem, bytes, s->size, s->address) != (ssize_t)s->size) {
		s->size = 0;
		return;
	}
	memcpy(&head, bytes, sizeof(head));
	if (!memcmp(head.magic, ip_inject_code, sizeof(head.magic)) && head.size >= sizeof(head) &&
	    head.size <= s->size) {
		/* the fill byte stands behind the code */
		s->left_behind = head.size;
		s->fill = head.size < s->size ? bytes[head.size] : 0;
		return;
	}
	s->fill = bytes[0];
	if (s->fill && s->fill != 0xcc)
		s->size = 0;
	while (same < s->size && bytes[same] == s->fill)
		same++;
	s->size = same;
}

int ip_text_padding_find(const struct ip_target *target, struct ip_text_padding **ret,
			 size_t *ret_n)
{
	*ret = NULL;
	*ret_n = 0;
	for (size_t i = 0; i < target->maps.n; i++) {
		const struct ip_mapping *m = &target->maps.items[i], *first;
		struct ip_text_padding s = {.path = m->path};
		uint64_t end;

		if (memcmp(m->perms, "r-xp", 4) || (!m->inode && strcmp(m->path, "[vdso]")) ||
		    !(first = first_of(&target->maps, i)))
			continue;
		end = end_of_code(target, first, m);
		if (!end || !(end % PAGE))
			continue;
		s.address = (end + ALIGN - 1) & ~(ALIGN - 1);
		s.size = (end | (PAGE - 1)) + 1 - s.address;
		if (s.size < sizeof(struct ip_inject_header))
			continue;
		look_at(target, &s);
		if (!s.size)
			continue;
		if (ip_array_grow(ret, *ret_n, sizeof(**ret)) < 0)
			return -1;
		(*ret)[(*ret_n)++] = s;
	}
	return 0;
}

bool ip_text_padding_is_ours(const struct ip_target *target, const struct ip_text_padding *padding)
{
	struct ip_inject_header head;

	return pread(target->mem, &head, sizeof(head), padding->address) == (ssize_t)sizeof(head) &&
	       !memcmp(head.magic, ip_inject_code, sizeof(head.magic));
}

int ip_text_padding_restore(const struct ip_target *target, const struct ip_text_padding *padding,
			    size_t size)
{
	uint8_t bytes[PAGE];

	if (!ip_text_padding_is_ours(target, padding))
		return -1;
	memset(bytes, padding->fill, sizeof(bytes));
	return ip_target_write(target, padding->address, bytes,
			       size < sizeof(bytes) ? size : sizeof(bytes));
}

uint64_t ip_text_padding_left_behind(const struct ip_target *target)
{
	_cleanup_free_ struct ip_text_padding *all = NULL;
	size_t n;

	if (ip_text_padding_find(target, &all, &n) < 0)
		return 0;
	for (size_t i = 0; i < n; i++)
		if (all[i].left_behind)
			return all[i].address;
	return 0;
}

unsigned ip_text_padding_tidy(struct ip_target *target)
{
	_cleanup_free_ struct ip_text_padding *all = NULL;
	unsigned tidied = 0;
	size_t n;

	if (ip_text_padding_find(target, &all, &n) < 0)
		return 0;
	for (size_t i = 0; i < n; i++)
		if (all[i].left_behind &&
		    !ip_inject_is_in_use(target, all[i].address, all[i].left_behind) &&
		    ip_text_padding_restore(target, &all[i], all[i].left_behind) == 0)
			tidied++;
	return tidied;
}
