// SPDX-License-Identifier: Apache-2.0
/*
 * Rewrites section and symbol numbers. See renumber.h.
 *
 *  1. The order gives the new numbers of the sections.
 *  2. Each symbol table that is not loaded: symbols of dropped sections are removed, and so are
 *     symbols that only dropped relocations have named. The others name their section by its new
 *     number.
 *  3. Everything that names symbols by number: relocations that stay, groups.
 *  4. The loaded symbol table names sections, too. Its symbols keep their numbers.
 *  5. The links between headers, and the headers themselves.
 *
 * Bytes are read and written as they are in the file: little-endian, in either class.
 */
#include "coldpatch/write/renumber.h"

#include "common/cleanup.h"
#include "common/error.h"

#include <string.h>

#define GONE UINT32_MAX

struct numbers {
	struct cold_elf_end *t;
	uint32_t *sections; /* new number by old number; GONE */
	uint32_t *symbols;  /* of the table that is being written: new number by old number; GONE */
	size_t nsymbols;
};

/* The fields of a symbol, for either class. */
struct symbol {
	uint32_t name;
	uint8_t info;
	uint16_t section;
};

static size_t symbol_size(const struct cold_elf_end *t)
{
	return t->m->bits == 32 ? sizeof(Elf32_Sym) : sizeof(Elf64_Sym);
}

static size_t section_at(const struct cold_elf_end *t)
{
	return t->m->bits == 32 ? offsetof(Elf32_Sym, st_shndx) : offsetof(Elf64_Sym, st_shndx);
}

static struct symbol read_symbol(const struct cold_elf_end *t, const uint8_t *at)
{
	struct symbol s;

	memcpy(&s.name, at, sizeof(s.name));
	s.info = at[t->m->bits == 32 ? offsetof(Elf32_Sym, st_info) : offsetof(Elf64_Sym, st_info)];
	memcpy(&s.section, at + section_at(t), sizeof(s.section));
	return s;
}

/* Returns the present contents of a section; NULL if they cannot be read. */
static const uint8_t *bytes_of(const struct cold_elf_end *t, size_t index, size_t *ret_size)
{
	Elf_Data *data;

	*ret_size = t->headers[index].sh_size;
	if (t->contents[index])
		return t->contents[index];
	if (index >= t->old_n || (t->headers[index].sh_flags & SHF_COMPRESSED))
		return NULL;
	data = elf_rawdata(elf_getscn(t->m->elf->elf, index), NULL);
	return data && data->d_buf && data->d_size == *ret_size ? data->d_buf : NULL;
}

/* Returns the section of that type that is linked to a symbol table and is not loaded. 0: none. */
static size_t companion(const struct cold_elf_end *t, size_t table, uint32_t type)
{
	for (size_t i = 1; i < t->n; i++)
		if (t->headers[i].sh_type == type && t->headers[i].sh_link == table &&
		    !(t->headers[i].sh_flags & SHF_ALLOC))
			return i;
	return 0;
}

/* Whether relocations that stay, or groups, name the symbols of a table. */
static bool is_counted(const struct cold_elf_end *t, size_t table)
{
	return companion(t, table, SHT_RELA) || companion(t, table, SHT_REL) ||
	       companion(t, table, SHT_GROUP);
}

/* Whether a linker keeps the symbol only for -q: a symbol of a section, or a label of the
 * compiler's. */
static bool is_for_relocs(const struct symbol *s, const char *names, size_t names_size)
{
	if (ELF64_ST_BIND(s->info) != STB_LOCAL)
		return false;
	if (ELF64_ST_TYPE(s->info) == STT_SECTION)
		return true;
	return names && s->name < names_size && names_size - s->name > 2 &&
	       !memcmp(names + s->name, ".L", 2);
}

/* Returns the new number of the section that a symbol names. Reserved numbers do not change. */
static uint32_t new_section(const struct numbers *r, uint16_t section, uint32_t large,
			    bool *ret_reserved)
{
	uint32_t old = section == SHN_XINDEX ? large : section;

	*ret_reserved = section >= SHN_LORESERVE && section != SHN_XINDEX;
	if (*ret_reserved || old == SHN_UNDEF || old >= r->t->n)
		return old;
	return r->sections[old];
}

/* Step 2. */
static int write_symbols(struct numbers *r, size_t table)
{
	struct cold_elf_end *t = r->t;
	size_t entry = symbol_size(t), size, large_size = 0, names_size = 0, kept = 0, local = 0, n;
	size_t large_index = companion(t, table, SHT_SYMTAB_SHNDX),
	       names_index = t->headers[table].sh_link;
	const uint8_t *old = bytes_of(t, table, &size), *old_large = NULL;
	bool labels_go = t->relocs_gone && !is_counted(t, table), changed = false;
	_cleanup_free_ uint8_t *symbols = NULL, *large = NULL;
	const char *names = NULL;

	if (!old)
		return ip_error("%s: its symbol table cannot be read", t->m->path);
	n = size / entry;
	if (large_index && (!(old_large = bytes_of(t, large_index, &large_size)) ||
			    large_size < n * sizeof(uint32_t)))
		return ip_error("%s: the section numbers of its symbol table cannot be read",
				t->m->path);
	if (names_index && names_index < t->n)
		names = (const char *)bytes_of(t, names_index, &names_size);
	symbols = malloc(size + 1);
	large = calloc(n + 1, sizeof(uint32_t));
	r->symbols = calloc(n + 1, sizeof(*r->symbols));
	r->nsymbols = n;
	if (!symbols || !large || !r->symbols)
		return ip_error("out of memory");
	for (size_t i = 0; i < n; i++) {
		struct symbol s = read_symbol(t, old + i * entry);
		uint32_t number = 0, section;
		uint16_t field = s.section;
		bool reserved;

		if (old_large)
			memcpy(&number, old_large + i * sizeof(number), sizeof(number));
		section = new_section(r, s.section, number, &reserved);
		if (i && ((!reserved && section == GONE) ||
			  (labels_go && is_for_relocs(&s, names, names_size)))) {
			r->symbols[i] = GONE;
			changed = true;
			continue;
		}
		number = 0;
		if (!reserved && section >= SHN_LORESERVE) {
			if (!large_index)
				return ip_error("%s: has too many sections for one more",
						t->m->path);
			field = SHN_XINDEX;
			number = section;
		} else if (!reserved) {
			field = section;
		}
		changed |= field != s.section || (s.section == SHN_XINDEX && number != section);
		memcpy(symbols + kept * entry, old + i * entry, entry);
		memcpy(symbols + kept * entry + section_at(t), &field, sizeof(field));
		memcpy(large + kept * sizeof(number), &number, sizeof(number));
		r->symbols[i] = kept++;
		if (i < t->headers[table].sh_info)
			local = kept;
	}
	if (!changed && !large_index)
		return 0;
	cold_elf_end_replace(t, table, ip_steal_ptr(symbols), kept * entry);
	t->headers[table].sh_info = local;
	if (large_index)
		cold_elf_end_replace(t, large_index, ip_steal_ptr(large), kept * sizeof(uint32_t));
	return 0;
}

static uint32_t new_symbol(const struct numbers *r, uint32_t old)
{
	if (old >= r->nsymbols)
		return old;
	return r->symbols[old] == GONE ? 0 : r->symbols[old];
}

/* Step 3, relocations: a symbol that was removed becomes no symbol. */
static int write_relocs(const struct numbers *r, size_t index)
{
	struct cold_elf_end *t = r->t;
	bool rela = t->headers[index].sh_type == SHT_RELA, wide = t->m->bits == 64;
	size_t entry = wide ? (rela ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel))
			    : (rela ? sizeof(Elf32_Rela) : sizeof(Elf32_Rel));
	size_t size, info_at = wide ? offsetof(Elf64_Rela, r_info) : offsetof(Elf32_Rela, r_info);
	const uint8_t *old = bytes_of(t, index, &size);
	uint8_t *copy;

	if (!old)
		return ip_error("%s: relocations cannot be read", t->m->path);
	copy = malloc(size + 1);
	if (!copy)
		return ip_error("out of memory");
	memcpy(copy, old, size);
	for (size_t at = 0; at + entry <= size; at += entry) {
		Elf64_Xword info64;
		Elf32_Word info32;

		if (wide) {
			memcpy(&info64, copy + at + info_at, sizeof(info64));
			info64 = ELF64_R_INFO((Elf64_Xword)new_symbol(r, ELF64_R_SYM(info64)),
					      ELF64_R_TYPE(info64));
			memcpy(copy + at + info_at, &info64, sizeof(info64));
		} else {
			memcpy(&info32, copy + at + info_at, sizeof(info32));
			info32 = ELF32_R_INFO(new_symbol(r, ELF32_R_SYM(info32)),
					      ELF32_R_TYPE(info32));
			memcpy(copy + at + info_at, &info32, sizeof(info32));
		}
	}
	cold_elf_end_replace(t, index, copy, size);
	return 0;
}

/* Step 3, a group: a word of flags and the numbers of its sections. Its header names a symbol. */
static int write_group(const struct numbers *r, size_t index)
{
	struct cold_elf_end *t = r->t;
	size_t size, kept = sizeof(uint32_t);
	const uint8_t *old = bytes_of(t, index, &size);
	uint8_t *copy;

	if (!old || size < kept)
		return ip_error("%s: a group of sections cannot be read", t->m->path);
	copy = malloc(size);
	if (!copy)
		return ip_error("out of memory");
	memcpy(copy, old, kept);
	for (size_t at = sizeof(uint32_t); at + sizeof(uint32_t) <= size; at += sizeof(uint32_t)) {
		uint32_t section;

		memcpy(&section, old + at, sizeof(section));
		if (section < t->n)
			section = r->sections[section];
		if (section == GONE)
			continue;
		memcpy(copy + kept, &section, sizeof(section));
		kept += sizeof(section);
	}
	t->headers[index].sh_info = new_symbol(r, t->headers[index].sh_info);
	cold_elf_end_replace(t, index, copy, kept);
	return 0;
}

static int write_table(struct numbers *r, size_t table)
{
	struct cold_elf_end *t = r->t;
	int result = write_symbols(r, table);

	for (size_t i = 1; i < t->n && !result; i++) {
		const Elf64_Shdr *h = &t->headers[i];

		if (h->sh_link != table || (h->sh_flags & SHF_ALLOC))
			continue;
		if (h->sh_type == SHT_RELA || h->sh_type == SHT_REL)
			result = write_relocs(r, i);
		else if (h->sh_type == SHT_GROUP)
			result = write_group(r, i);
	}
	free(r->symbols);
	r->symbols = NULL;
	return result;
}

/* Step 4. A loader asks only whether a symbol has a section. The other numbers are for other
 * tools. */
static int write_loaded(const struct numbers *r, size_t table)
{
	struct cold_elf_end *t = r->t;
	size_t entry = symbol_size(t), size;
	const uint8_t *old = bytes_of(t, table, &size);
	_cleanup_free_ uint8_t *copy = NULL;
	bool changed = false;

	if (!old)
		return 0;
	copy = malloc(size + 1);
	if (!copy)
		return ip_error("out of memory");
	memcpy(copy, old, size);
	for (size_t at = 0; at + entry <= size; at += entry) {
		struct symbol s = read_symbol(t, old + at);
		uint32_t section;
		uint16_t field;
		bool reserved;

		if (s.section == SHN_XINDEX)
			continue;
		section = new_section(r, s.section, 0, &reserved);
		if (reserved || section == s.section)
			continue;
		field = section == GONE ? SHN_ABS : section;
		memcpy(copy + at + section_at(t), &field, sizeof(field));
		changed = true;
	}
	if (changed)
		cold_elf_end_replace(t, table, ip_steal_ptr(copy), size);
	return 0;
}

/* Step 5. */
static int order_headers(struct numbers *r, const uint32_t *order, size_t n)
{
	struct cold_elf_end *t = r->t;
	_cleanup_free_ Elf64_Shdr *headers = calloc(n, sizeof(*headers));
	_cleanup_free_ const void **contents = calloc(n, sizeof(*contents));
	_cleanup_free_ void **made = calloc(n, sizeof(*made));

	if (!headers || !contents || !made)
		return ip_error("out of memory");
	for (size_t i = 0; i < n; i++) {
		Elf64_Shdr *h = &headers[i];

		*h = t->headers[order[i]];
		contents[i] = t->contents[order[i]];
		made[i] = t->made[order[i]];
		t->made[order[i]] = NULL;
		if (!i)
			continue;
		if (h->sh_link < t->n)
			h->sh_link = r->sections[h->sh_link] == GONE ? 0 : r->sections[h->sh_link];
		if ((h->sh_type == SHT_REL || h->sh_type == SHT_RELA ||
		     (h->sh_flags & SHF_INFO_LINK)) &&
		    h->sh_info < t->n)
			h->sh_info = r->sections[h->sh_info] == GONE ? 0 : r->sections[h->sh_info];
	}
	for (size_t i = 0; i < t->n; i++)
		free(t->made[i]);
	memcpy(t->headers, headers, n * sizeof(*headers));
	memcpy(t->contents, contents, n * sizeof(*contents));
	memset(t->made, 0, t->n * sizeof(*made));
	memcpy(t->made, made, n * sizeof(*made));
	t->shstrndx = r->sections[t->shstrndx];
	t->n = n;
	return 0;
}

int cold_renumber(struct cold_elf_end *t, const uint32_t *order, size_t n)
{
	_cleanup_free_ uint32_t *sections = malloc(t->n * sizeof(*sections));
	struct numbers r = {.t = t, .sections = sections};

	if (!sections)
		return ip_error("out of memory");
	memset(sections, 0xff, t->n * sizeof(*sections));
	for (size_t i = 0; i < n; i++)
		sections[order[i]] = i;
	for (size_t i = 1; i < t->n; i++) {
		const Elf64_Shdr *h = &t->headers[i];

		if (h->sh_type == SHT_SYMTAB && !(h->sh_flags & SHF_ALLOC) && write_table(&r, i))
			return -1;
		if (h->sh_type == SHT_DYNSYM && write_loaded(&r, i))
			return -1;
	}
	return order_headers(&r, order, n);
}
