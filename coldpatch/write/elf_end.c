// SPDX-License-Identifier: Apache-2.0
/*
 * Writes the tail of a file without libelf, which would lay out and write every section again. See
 * elf_end.h.
 *
 *  - If sections were dropped, the remaining ones move together, right behind what is loaded. New
 *    sections stand in front of symbols and names.
 *  - In three cases the old file stays as it is, and new or changed sections are appended: nothing
 *    was dropped; another tool has appended data that no section describes; or sections overlap.
 *    The old names and headers stay where they were, unused (a few kilobytes; strip and objcopy
 *    drop them).
 */
#include "coldpatch/write/elf_end.h"

#include "coldpatch/write/renumber.h"
#include "coldpatch/write/rewrite.h"
#include "common/cleanup.h"
#include "common/elf/elf_class.h"
#include "common/error.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAIL_MORE 8 /* sections that can be added */

/* A section that is not loaded needs no larger alignment, whatever a damaged header says. */
#define ALIGN_MAX 4096u

static uint64_t round_up(uint64_t v, uint64_t to)
{
	if (to > ALIGN_MAX)
		to = ALIGN_MAX;
	return to > 1 ? (v + to - 1) / to * to : v;
}

static int read_headers(struct cold_elf_end *t)
{
	unsigned elf_class = t->ehdr.e_ident[EI_CLASS];
	size_t size = ip_elf_shdr_size(elf_class);
	_cleanup_free_ uint8_t *bytes = malloc(t->n * size);

	if (!bytes)
		return ip_error("out of memory");
	if (pread(t->m->elf->fd, bytes, t->n * size, t->ehdr.e_shoff) != (ssize_t)(t->n * size))
		return ip_error("%s: cannot read the section headers", t->m->path);
	for (size_t i = 0; i < t->n; i++)
		ip_elf_shdr_decode(elf_class, bytes + i * size, &t->headers[i]);
	return 0;
}

static int write_headers(const struct cold_elf_end *t, struct cold_atomic_file *f)
{
	unsigned elf_class = t->ehdr.e_ident[EI_CLASS];
	size_t size = ip_elf_shdr_size(elf_class);
	_cleanup_free_ uint8_t *bytes = malloc(t->n * size);
	uint8_t header[sizeof(t->ehdr)];

	if (!bytes)
		return ip_error("out of memory");
	if (elf_class == ELFCLASS32 && t->ehdr.e_shoff + t->n * size > UINT32_MAX)
		return ip_error("%s: becomes larger than a 32-bit ELF file can be", t->m->path);
	for (size_t i = 0; i < t->n; i++)
		ip_elf_shdr_encode(elf_class, &t->headers[i], bytes + i * size);
	if (cold_atomic_file_write(f, bytes, t->n * size, t->ehdr.e_shoff))
		return -1;
	return cold_atomic_file_write(f, header, ip_elf_ehdr_encode(&t->ehdr, header), 0);
}

int cold_elf_end_open(const struct cold_module *m, struct cold_elf_end *ret)
{
	struct cold_elf_end t = {.m = m};
	struct stat st;
	Elf_Data *data;

	if (fstat(m->elf->fd, &st))
		return ip_error_errno("%s", m->path);
	t.file_size = st.st_size;
	t.ehdr = m->elf->ehdr;
	if (elf_getshdrnum(m->elf->elf, &t.n) || elf_getshdrstrndx(m->elf->elf, &t.shstrndx) ||
	    !t.shstrndx || t.shstrndx >= t.n)
		return ip_error("%s: has no section names", m->path);
	t.old_n = t.n;
	t.headers = calloc(t.n + TAIL_MORE, sizeof(*t.headers));
	t.contents = calloc(t.n + TAIL_MORE, sizeof(*t.contents));
	t.made = calloc(t.n + TAIL_MORE, sizeof(*t.made));
	if (!t.headers || !t.contents || !t.made) {
		ip_error("out of memory");
		goto fail;
	}
	if (read_headers(&t))
		goto fail;
	if (t.headers[t.shstrndx].sh_flags & (SHF_ALLOC | SHF_COMPRESSED)) {
		ip_error("%s: the section names are loaded or compressed", m->path);
		goto fail;
	}
	data = elf_rawdata(elf_getscn(m->elf->elf, t.shstrndx), NULL);
	if (!data || !data->d_buf || data->d_size != t.headers[t.shstrndx].sh_size ||
	    data->d_size > UINT32_MAX / 2) {
		ip_error("%s: cannot read the section names", m->path);
		goto fail;
	}
	t.names = malloc(data->d_size);
	if (!t.names) {
		ip_error("out of memory");
		goto fail;
	}
	memcpy(t.names, data->d_buf, data->d_size);
	t.names_size = data->d_size;
	*ret = t;
	return 0;
fail:
	cold_elf_end_close(&t);
	return -1;
}

void cold_elf_end_close(struct cold_elf_end *t)
{
	for (size_t i = 0; t->made && i < t->n; i++)
		free(t->made[i]);
	free(t->headers);
	free(t->contents);
	free(t->made);
	free(t->names);
	memset(t, 0, sizeof(*t));
}

int cold_elf_end_add(struct cold_elf_end *t, const char *name, uint64_t align, const void *data,
		     size_t size)
{
	size_t length = strlen(name) + 1;
	char *names = realloc(t->names, t->names_size + length);

	if (!names)
		return ip_error("out of memory");
	t->names = names;
	if (t->n - t->old_n == TAIL_MORE)
		return ip_error("%s: too many sections to add", t->m->path);
	memcpy(names + t->names_size, name, length);
	t->headers[t->n] = (Elf64_Shdr){
		.sh_name = t->names_size,
		.sh_type = SHT_PROGBITS,
		.sh_size = size,
		.sh_addralign = align,
	};
	t->contents[t->n++] = data;
	t->names_size += length;
	return 0;
}

void cold_elf_end_replace(struct cold_elf_end *t, size_t index, void *data, size_t size)
{
	free(t->made[index]);
	t->made[index] = data;
	t->contents[index] = data;
	t->headers[index].sh_size = size;
}

void cold_elf_end_drop(struct cold_elf_end *t, size_t index)
{
	t->headers[index] = (Elf64_Shdr){.sh_type = SHT_NULL};
	t->dropped = true;
}

static bool is_named(const struct cold_elf_end *t, size_t index, const char *prefix)
{
	const Elf64_Shdr *h = &t->headers[index];
	size_t n = strlen(prefix);

	return h->sh_type == SHT_PROGBITS && !(h->sh_flags & SHF_ALLOC) &&
	       h->sh_name < t->names_size && t->names_size - h->sh_name > n &&
	       !memcmp(t->names + h->sh_name, prefix, n);
}

void cold_elf_end_drop_named(struct cold_elf_end *t, const char *prefix)
{
	for (size_t i = 1; i < t->n; i++)
		if (is_named(t, i, prefix))
			cold_elf_end_drop(t, i);
}

static bool in_tail(const Elf64_Shdr *h, uint64_t loaded)
{
	return h->sh_type != SHT_NULL && h->sh_type != SHT_NOBITS && !(h->sh_flags & SHF_ALLOC) &&
	       h->sh_offset >= loaded;
}

static void raise_to(uint64_t *end, uint64_t offset, uint64_t size)
{
	if (offset + size > *end)
		*end = offset + size;
}

/* Returns the end of the last byte that is loaded, or that a program header describes. */
static uint64_t loaded_end(const struct cold_elf_end *t)
{
	const struct cold_module *m = t->m;
	uint64_t end = ip_elf_ehdr_size(t->ehdr.e_ident[EI_CLASS]);
	size_t n = 0;

	if (elf_getphdrnum(m->elf->elf, &n))
		n = 0;
	raise_to(&end, t->ehdr.e_phoff, n * t->ehdr.e_phentsize);
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr phdr;

		if (gelf_getphdr(m->elf->elf, i, &phdr) && phdr.p_filesz)
			raise_to(&end, phdr.p_offset, phdr.p_filesz);
	}
	for (size_t i = 0; i < m->nsections; i++)
		raise_to(&end, m->sections[i].offset, m->sections[i].size);
	return end;
}

static bool only_zeros(const struct cold_elf_end *t, uint64_t from)
{
	uint8_t bytes[256];
	ssize_t n = pread(t->m->elf->fd, bytes, sizeof(bytes), from);

	if (n < 0 || from + n != t->file_size)
		return false;
	for (ssize_t i = 0; i < n; i++)
		if (bytes[i])
			return false;
	return true;
}

struct extent {
	uint64_t offset, size;
	size_t index;
};

static int compare_extents(const void *pa, const void *pb)
{
	const struct extent *a = pa, *b = pb;

	if (a->offset != b->offset)
		return a->offset < b->offset ? -1 : 1;
	return a->index < b->index ? -1 : a->index > b->index;
}

/* Whether the sections can be moved together. They cannot if they overlap, or if data was appended
 * that no section describes. */
static int is_movable(const struct cold_elf_end *t, uint64_t loaded, bool *ret)
{
	uint64_t end = t->ehdr.e_shoff + t->old_n * t->ehdr.e_shentsize, at = loaded;
	_cleanup_free_ struct extent *extents = calloc(t->old_n, sizeof(*extents));
	size_t n = 0;

	if (!extents)
		return ip_error("out of memory");
	for (size_t i = 1; i < t->old_n; i++) {
		Elf_Scn *scn = elf_getscn(t->m->elf->elf, i);
		GElf_Shdr old;

		if (!scn || !gelf_getshdr(scn, &old))
			return ip_error("%s: section %zu: %s", t->m->path, i, elf_errmsg(-1));
		if (old.sh_type != SHT_NOBITS && old.sh_type != SHT_NULL)
			raise_to(&end, old.sh_offset, old.sh_size);
		if (in_tail(&t->headers[i], loaded))
			extents[n++] = (struct extent){old.sh_offset, old.sh_size, i};
	}
	qsort(extents, n, sizeof(*extents), compare_extents);
	*ret = end <= t->file_size && (end == t->file_size || only_zeros(t, end)) &&
	       t->ehdr.e_shoff >= loaded;
	for (size_t i = 0; i < n; i++) {
		if (extents[i].offset < at)
			*ret = false;
		at = extents[i].offset + extents[i].size;
	}
	return 0;
}

/* Drops the relocations against a section that was dropped. */
static void drop_orphans(struct cold_elf_end *t)
{
	for (size_t i = 1; i < t->old_n; i++) {
		const Elf64_Shdr *h = &t->headers[i];

		if ((h->sh_type == SHT_RELA || h->sh_type == SHT_REL) &&
		    !(h->sh_flags & SHF_ALLOC) && h->sh_info && h->sh_info < t->old_n &&
		    t->headers[h->sh_info].sh_type == SHT_NULL)
			cold_elf_end_drop(t, i);
	}
}

/* Whether a section holds symbols or names: these stand last. */
static bool stands_last(const struct cold_elf_end *t, size_t index)
{
	const Elf64_Shdr *h = &t->headers[index];

	return index == t->shstrndx || h->sh_type == SHT_SYMTAB || h->sh_type == SHT_SYMTAB_SHNDX ||
	       h->sh_type == SHT_STRTAB;
}

/*
 * Gives the order of the sections in the file that is written. Those up to the last loaded one keep
 * their order. Then come those that are not loaded, the new ones, and symbols and names. If the old
 * file stays as it is: the old sections in their order, then the new ones.
 */
static size_t make_order(const struct cold_elf_end *t, bool movable, uint32_t *ret)
{
	size_t loaded = 1, n = 0;

	for (size_t i = 1; i < t->old_n; i++)
		if (t->headers[i].sh_flags & SHF_ALLOC)
			loaded = i + 1;
	for (size_t i = 0; i < loaded; i++)
		if (!i || t->headers[i].sh_type != SHT_NULL)
			ret[n++] = i;
	for (unsigned last = 0; last < 2; last++)
		for (size_t i = loaded; i < t->n; i++)
			if (t->headers[i].sh_type != SHT_NULL &&
			    last == (movable && stands_last(t, i)))
				ret[n++] = i;
	return n;
}

/*
 * Gives the order in which the sections are written to the file. It is the order of the headers,
 * except for relocations that -q keeps. Their headers stand beside the headers of the sections that
 * they are for, which may be loaded. Linkers put their contents behind the symbols' names, and dwz
 * expects that.
 */
static size_t list_written(const struct cold_elf_end *t, bool movable, uint64_t loaded,
			   uint32_t *ret)
{
	size_t n = 0;

	for (unsigned relocs = 0; relocs < 2; relocs++)
		for (size_t i = 1; i < t->n; i++) {
			const Elf64_Shdr *h = &t->headers[i];

			if ((h->sh_flags & SHF_ALLOC) ||
			    relocs != (h->sh_type == SHT_RELA || h->sh_type == SHT_REL))
				continue;
			if (t->contents[i] || (movable && in_tail(h, loaded)))
				ret[n++] = i;
		}
	return n;
}

/* Writes the sections at their places. *at is the end of what has been written. */
static int write_sections(struct cold_elf_end *t, const uint32_t *written, size_t n,
			  struct cold_atomic_file *f, uint64_t *at)
{
	for (size_t i = 1; i < t->n; i++)
		if (t->contents[i] && (t->headers[i].sh_flags & SHF_ALLOC) &&
		    cold_atomic_file_write(f, t->contents[i], t->headers[i].sh_size,
					   t->headers[i].sh_offset))
			return -1;
	for (size_t i = 0; i < n; i++) {
		Elf64_Shdr *h = &t->headers[written[i]];
		const void *contents = t->contents[written[i]];
		uint64_t from = h->sh_offset;

		h->sh_offset = round_up(*at, h->sh_addralign);
		if (contents ? cold_atomic_file_write(f, contents, h->sh_size, h->sh_offset)
			     : cold_rewrite_copy(t->m, from, h->sh_size, f, h->sh_offset))
			return -1;
		*at = h->sh_offset + h->sh_size;
	}
	return 0;
}

/* Counts that do not fit into the ELF header are stored in the first section header. */
static void set_counts(struct cold_elf_end *t)
{
	bool many = t->n >= SHN_LORESERVE, far = t->shstrndx >= SHN_LORESERVE;

	t->ehdr.e_shnum = many ? 0 : t->n;
	t->headers[0].sh_size = many ? t->n : 0;
	t->ehdr.e_shstrndx = far ? SHN_XINDEX : t->shstrndx;
	t->headers[0].sh_link = far ? t->shstrndx : 0;
}

uint64_t cold_elf_end_start(const struct cold_elf_end *t)
{
	return loaded_end(t);
}

int cold_elf_end_write(struct cold_elf_end *t, struct cold_atomic_file *f)
{
	_cleanup_free_ uint32_t *order = calloc(t->n, sizeof(*order));
	uint64_t loaded = loaded_end(t), at = loaded;
	bool movable = false;

	if (!order)
		return ip_error("out of memory");
	drop_orphans(t);
	if (t->dropped && is_movable(t, loaded, &movable))
		return -1;
	if (!movable) {
		if (cold_rewrite_copy(t->m, loaded, t->file_size - loaded, f, loaded))
			return -1;
		at = t->file_size;
	}
	/* the names of sections, with the new ones */
	t->contents[t->shstrndx] = t->names;
	t->headers[t->shstrndx].sh_size = t->names_size;
	if (cold_renumber(t, order, make_order(t, movable, order)) ||
	    write_sections(t, order, list_written(t, movable, loaded, order), f, &at))
		return -1;
	t->ehdr.e_shoff = round_up(at, 8);
	set_counts(t);
	return write_headers(t, f);
}
