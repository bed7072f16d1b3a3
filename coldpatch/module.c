/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the module: sections, symbols, relocations, ranges. See module.h.
 */
#include "coldpatch/module.h"

#include "coldpatch/eh_frame.h"
#include "common/cleanup.h"
#include "common/error.h"

#include <string.h>

/* Grows *array so that one more element fits. */
static int reserve(void *array, size_t n, size_t size)
{
	void **p = array;
	void *grown;

	/* powers of two: the array is full whenever n is one of them */
	if (n & (n - 1))
		return 0;
	grown = reallocarray(*p, n ? 2 * n : 1, size);
	if (!grown)
		return ip_error("out of memory");
	*p = grown;
	return 0;
}

static int compare_u64(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int compare_sections(const void *a, const void *b)
{
	return compare_u64(((const struct cold_section *)a)->address,
			   ((const struct cold_section *)b)->address);
}

static int compare_relocs(const void *a, const void *b)
{
	return compare_u64(((const struct cold_reloc *)a)->address, ((const struct cold_reloc *)b)->address);
}

static size_t leading_underscores(const char *name)
{
	return strspn(name, "_");
}

/* Among symbols of one address the one a person would name comes first: functions before labels,
 * global before weak before local, with a size before without, fewer underscores, then by name. */
static int compare_symbols(const void *pa, const void *pb)
{
	static const uint8_t rank[16] = {[STB_GLOBAL] = 0, [STB_WEAK] = 1, [STB_LOCAL] = 2};
	const struct cold_symbol *a = pa, *b = pb;
	size_t ua, ub;
	int c;

	c = compare_u64(a->address, b->address);
	if (c)
		return c;
	if (a->func != b->func)
		return a->func ? -1 : 1;
	if (rank[a->bind & 15] != rank[b->bind & 15])
		return rank[a->bind & 15] < rank[b->bind & 15] ? -1 : 1;
	if (!a->size != !b->size)
		return a->size ? -1 : 1;
	ua = leading_underscores(a->name);
	ub = leading_underscores(b->name);
	if (ua != ub)
		return ua < ub ? -1 : 1;
	return strcmp(a->name, b->name);
}

static int read_sections(struct cold_module *m)
{
	size_t shstrndx;
	Elf_Scn *scn = NULL;

	if (elf_getshdrstrndx(m->elf->elf, &shstrndx))
		return ip_error("%s: no section names: %s", m->path, elf_errmsg(-1));
	while ((scn = elf_nextscn(m->elf->elf, scn))) {
		struct cold_section *s;
		GElf_Shdr shdr;
		Elf_Data *data;

		if (!gelf_getshdr(scn, &shdr))
			return ip_error("%s: section %zu: %s", m->path, elf_ndxscn(scn), elf_errmsg(-1));
		if (!(shdr.sh_flags & SHF_ALLOC) || shdr.sh_type == SHT_NOBITS || !shdr.sh_size)
			continue;
		data = elf_rawdata(scn, NULL);
		if (!data || !data->d_buf || data->d_size != shdr.sh_size)
			return ip_error("%s: section %zu cannot be read: %s", m->path, elf_ndxscn(scn),
					elf_errmsg(-1));
		if (shdr.sh_addr + shdr.sh_size < shdr.sh_addr)
			return ip_error("%s: section %zu wraps around the address space", m->path,
					elf_ndxscn(scn));
		if (reserve(&m->sections, m->nsections, sizeof(*m->sections)))
			return -1;
		s = &m->sections[m->nsections++];
		*s = (struct cold_section){
			.name = elf_strptr(m->elf->elf, shstrndx, shdr.sh_name),
			.address = shdr.sh_addr,
			.offset = shdr.sh_offset,
			.size = shdr.sh_size,
			.data = data->d_buf,
			.index = elf_ndxscn(scn),
			.exec = shdr.sh_flags & SHF_EXECINSTR,
		};
		if (!s->name)
			return ip_error("%s: section %zu has no name", m->path, s->index);
		s->plt = s->exec && (!strncmp(s->name, ".plt", 4) || !strncmp(s->name, ".iplt", 5));
		s->got = !strncmp(s->name, ".got", 4);
	}
	if (m->nsections)
		qsort(m->sections, m->nsections, sizeof(*m->sections), compare_sections);
	for (size_t i = 1; i < m->nsections; i++)
		if (m->sections[i - 1].address + m->sections[i - 1].size > m->sections[i].address)
			return ip_error("%s: sections %s and %s overlap at 0x%lx", m->path,
					m->sections[i - 1].name, m->sections[i].name,
					(unsigned long)m->sections[i].address);
	return 0;
}

static bool in_code(const struct cold_module *m, uint64_t address)
{
	const struct cold_section *s = cold_module_section(m, address, 1);

	return s && s->exec && !s->plt;
}

static int read_symbols(struct cold_module *m, unsigned section_type)
{
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(m->elf->elf, scn))) {
		GElf_Shdr shdr;
		Elf_Data *data;
		size_t n;

		if (!gelf_getshdr(scn, &shdr))
			return ip_error("%s: section %zu: %s", m->path, elf_ndxscn(scn), elf_errmsg(-1));
		if (shdr.sh_type != section_type)
			continue;
		data = elf_getdata(scn, NULL);
		if (!data)
			return ip_error("%s: symbol table cannot be read: %s", m->path, elf_errmsg(-1));
		n = data->d_size / gelf_fsize(m->elf->elf, ELF_T_SYM, 1, EV_CURRENT);
		for (size_t i = 0; i < n; i++) {
			const char *name;
			GElf_Sym sym;
			unsigned type;

			if (!gelf_getsym(data, i, &sym))
				return ip_error("%s: symbol %zu: %s", m->path, i, elf_errmsg(-1));
			type = GELF_ST_TYPE(sym.st_info);
			if (sym.st_shndx == SHN_UNDEF || sym.st_shndx == SHN_ABS ||
			    sym.st_shndx == SHN_COMMON)
				continue;
			if (type != STT_FUNC && type != STT_GNU_IFUNC && (type != STT_NOTYPE || !sym.st_size))
				continue;
			name = elf_strptr(m->elf->elf, shdr.sh_link, sym.st_name);
			if (!name)
				return ip_error("%s: symbol %zu has no valid name", m->path, i);
			if (!*name || !in_code(m, sym.st_value))
				continue;
			if (reserve(&m->symbols, m->nsymbols, sizeof(*m->symbols)))
				return -1;
			m->symbols[m->nsymbols++] = (struct cold_symbol){
				.address = sym.st_value,
				.size = sym.st_size,
				.name = name,
				.bind = GELF_ST_BIND(sym.st_info),
				.func = type != STT_NOTYPE,
			};
		}
	}
	return 0;
}

static int read_relocs(struct cold_module *m)
{
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(m->elf->elf, scn))) {
		struct cold_reloc **array;
		GElf_Shdr shdr, symbols_shdr;
		Elf_Data *data, *symbols = NULL;
		size_t n, *count;
		bool kept;

		if (!gelf_getshdr(scn, &shdr))
			return ip_error("%s: section %zu: %s", m->path, elf_ndxscn(scn), elf_errmsg(-1));
		if (shdr.sh_type != SHT_RELA)
			continue;
		kept = !(shdr.sh_flags & SHF_ALLOC);
		if (kept) {
			/* kept relocations of debug sections say nothing about code or data */
			GElf_Shdr to;
			Elf_Scn *target = elf_getscn(m->elf->elf, shdr.sh_info);

			if (!target || !gelf_getshdr(target, &to) || !(to.sh_flags & SHF_ALLOC))
				continue;
		}
		array = kept ? &m->kept : &m->relocs;
		count = kept ? &m->nkept : &m->nrelocs;
		data = elf_getdata(scn, NULL);
		if (!data)
			return ip_error("%s: relocations cannot be read: %s", m->path, elf_errmsg(-1));
		memset(&symbols_shdr, 0, sizeof(symbols_shdr));
		if (shdr.sh_link) {
			Elf_Scn *s = elf_getscn(m->elf->elf, shdr.sh_link);

			if (!s || !gelf_getshdr(s, &symbols_shdr) || !(symbols = elf_getdata(s, NULL)))
				return ip_error("%s: relocation section %zu names no symbol table", m->path,
						elf_ndxscn(scn));
		}
		n = data->d_size / gelf_fsize(m->elf->elf, ELF_T_RELA, 1, EV_CURRENT);
		for (size_t i = 0; i < n; i++) {
			struct cold_reloc r = {0};
			GElf_Rela rela;
			GElf_Sym sym;

			if (!gelf_getrela(data, i, &rela))
				return ip_error("%s: relocation %zu: %s", m->path, i, elf_errmsg(-1));
			r.address = rela.r_offset;
			r.addend = rela.r_addend;
			r.type = GELF_R_TYPE(rela.r_info);
			if (GELF_R_SYM(rela.r_info)) {
				if (!symbols || !gelf_getsym(symbols, GELF_R_SYM(rela.r_info), &sym))
					return ip_error("%s: relocation at 0x%lx names symbol %lu, which is "
							"not there",
							m->path, (unsigned long)r.address,
							(unsigned long)GELF_R_SYM(rela.r_info));
				r.symbol = elf_strptr(m->elf->elf, symbols_shdr.sh_link, sym.st_name);
				if (!r.symbol)
					return ip_error(
						"%s: relocation at 0x%lx: symbol without a valid name",
						m->path, (unsigned long)r.address);
				r.value = sym.st_value;
				r.defined = sym.st_shndx != SHN_UNDEF;
			}
			if (reserve(array, *count, sizeof(**array)))
				return -1;
			(*array)[(*count)++] = r;
		}
	}
	if (m->nrelocs)
		qsort(m->relocs, m->nrelocs, sizeof(*m->relocs), compare_relocs);
	if (m->nkept)
		qsort(m->kept, m->nkept, sizeof(*m->kept), compare_relocs);
	return 0;
}

static int add_range(struct cold_range **ranges, size_t *n, struct cold_range range)
{
	if (reserve(ranges, *n, sizeof(**ranges)))
		return -1;
	range.parent = *n;
	range.jumper = COLD_NONE;
	(*ranges)[(*n)++] = range;
	return 0;
}

/* Code between the ranges becomes a range of its own, so that no byte is overlooked. */
static int fill_gaps(struct cold_module *m)
{
	_cleanup_free_ struct cold_range *all = NULL;
	size_t n = 0, next = 0;

	for (size_t i = 0; i < m->nsections; i++) {
		const struct cold_section *s = &m->sections[i];
		uint64_t at = s->address, end = s->address + s->size;

		if (!s->exec || s->plt)
			continue;
		while (at < end) {
			uint64_t stop = end;

			while (next < m->nranges && m->ranges[next].end <= at)
				next++;
			if (next < m->nranges && m->ranges[next].start <= at) {
				if (add_range(&all, &n, m->ranges[next]))
					return -1;
				at = m->ranges[next].end;
				continue;
			}
			if (next < m->nranges && m->ranges[next].start < end)
				stop = m->ranges[next].start;
			if (add_range(&all, &n,
				      (struct cold_range){
					      .start = at, .end = stop, .symbol = COLD_NONE, .gap = true}))
				return -1;
			at = stop;
		}
	}
	free(m->ranges);
	m->ranges = ip_steal_ptr(all);
	m->nranges = n;
	return 0;
}

struct range_seed {
	uint64_t start, end, lsda;
	uint32_t symbol;
};

static int compare_seeds(const void *pa, const void *pb)
{
	const struct range_seed *a = pa, *b = pb;
	int c = compare_u64(a->start, b->start);

	if (c)
		return c;
	/* the one that has a symbol, then the longest */
	if ((a->symbol == COLD_NONE) != (b->symbol == COLD_NONE))
		return a->symbol == COLD_NONE ? 1 : -1;
	return -compare_u64(a->end, b->end);
}

static uint64_t section_end(const struct cold_module *m, uint64_t address)
{
	const struct cold_section *s = cold_module_section(m, address, 1);

	return s ? s->address + s->size : 0;
}

/* Ranges come from symbols; unwind entries add those that have none and say where exceptions land.
 * What is left between them is code without a name (stripped, or padding) or, in hand-written assembly, data.
 */
static int make_ranges(struct cold_module *m)
{
	_cleanup_free_ struct cold_unwind *unwind = NULL;
	_cleanup_free_ struct range_seed *seeds = NULL;
	size_t nunwind = 0, nseeds = 0;

	if (cold_eh_frame_read(m, &unwind, &nunwind))
		return -1;
	for (size_t i = 0; i < m->nsymbols; i++) {
		const struct cold_symbol *s = &m->symbols[i];
		const struct cold_section *section;
		uint64_t end = s->address + s->size;

		if (i && m->symbols[i - 1].address == s->address)
			continue;
		section = cold_module_section(m, s->address, 1);
		for (size_t j = i; j < m->nsymbols && m->symbols[j].address == s->address; j++)
			if (m->symbols[j].address + m->symbols[j].size > end)
				end = m->symbols[j].address + m->symbols[j].size;
		if (end > section->address + section->size)
			end = section->address + section->size;
		if (end <= s->address)
			continue; /* no size: a label of assembly, or a symbol that wraps around */
		if (reserve(&seeds, nseeds, sizeof(*seeds)))
			return -1;
		seeds[nseeds++] = (struct range_seed){.start = s->address, .end = end, .symbol = i};
	}
	for (size_t i = 0; i < nunwind; i++) {
		if (reserve(&seeds, nseeds, sizeof(*seeds)))
			return -1;
		seeds[nseeds++] = (struct range_seed){.start = unwind[i].start,
						      .end = unwind[i].end,
						      .lsda = unwind[i].lsda,
						      .symbol = COLD_NONE};
	}
	if (nseeds)
		qsort(seeds, nseeds, sizeof(*seeds), compare_seeds);
	for (size_t i = 0; i < nseeds; i++) {
		struct cold_range *last = m->nranges ? &m->ranges[m->nranges - 1] : NULL;

		if (last && seeds[i].start < last->end) {
			/* an alias, a label inside, or the unwind entry of the same function */
			if (seeds[i].lsda && !last->lsda)
				last->lsda = seeds[i].lsda;
			if (seeds[i].end > last->end && seeds[i].end <= section_end(m, last->start))
				last->end = seeds[i].end;
			continue;
		}
		if (add_range(&m->ranges, &m->nranges,
			      (struct cold_range){.start = seeds[i].start,
						  .end = seeds[i].end,
						  .lsda = seeds[i].lsda,
						  .symbol = seeds[i].symbol}))
			return -1;
	}
	return fill_gaps(m);
}

int cold_module_open(const char *path, struct cold_module *ret)
{
	struct cold_module m = {.path = path};

	if (ip_elf_open(path, &m.elf))
		return -1;
	if (m.elf->ehdr.e_shoff == 0) {
		ip_error("%s: has no section table, so its code cannot be told from its data; "
			 "run coldpatch before the sections are stripped",
			 path);
		goto fail;
	}
	if (read_sections(&m) || read_symbols(&m, SHT_SYMTAB))
		goto fail;
	if (read_symbols(&m, SHT_DYNSYM) || read_relocs(&m))
		goto fail;
	if (m.nsymbols)
		qsort(m.symbols, m.nsymbols, sizeof(*m.symbols), compare_symbols);
	if (make_ranges(&m))
		goto fail;
	*ret = m;
	return 0;
fail:
	cold_module_destroy(&m);
	return -1;
}

void cold_module_destroy(struct cold_module *m)
{
	free(m->sections);
	free(m->symbols);
	free(m->relocs);
	free(m->kept);
	free(m->ranges);
	free(m->marks);
	if (m->elf)
		ip_elf_close(m->elf);
	memset(m, 0, sizeof(*m));
}

const struct cold_section *cold_module_section(const struct cold_module *m, uint64_t address, uint64_t size)
{
	size_t lo = 0, hi = m->nsections;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct cold_section *s = &m->sections[mid];

		if (address < s->address)
			hi = mid;
		else if (address - s->address >= s->size)
			lo = mid + 1;
		else
			return size <= s->size - (address - s->address) ? s : NULL;
	}
	return NULL;
}

const uint8_t *cold_module_bytes(const struct cold_module *m, uint64_t address, uint64_t size)
{
	const struct cold_section *s = cold_module_section(m, address, size);

	return s ? s->data + (address - s->address) : NULL;
}

const struct cold_symbol *cold_module_symbol(const struct cold_module *m, uint64_t address)
{
	size_t lo = 0, hi = m->nsymbols;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (m->symbols[mid].address < address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < m->nsymbols && m->symbols[lo].address == address ? &m->symbols[lo] : NULL;
}

const struct cold_reloc *cold_module_reloc(const struct cold_module *m, uint64_t address)
{
	size_t lo = 0, hi = m->nrelocs;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (m->relocs[mid].address < address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < m->nrelocs && m->relocs[lo].address == address ? &m->relocs[lo] : NULL;
}

uint32_t cold_module_range(const struct cold_module *m, uint64_t address)
{
	size_t lo = 0, hi = m->nranges;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (address < m->ranges[mid].start)
			hi = mid;
		else if (address >= m->ranges[mid].end)
			lo = mid + 1;
		else
			return mid;
	}
	return COLD_NONE;
}

int cold_module_mark(struct cold_module *m, uint64_t address)
{
	const struct cold_section *section = cold_module_section(m, address, 1);

	if (!section || section->exec)
		return 0;
	if (reserve(&m->marks, m->nmarks, sizeof(*m->marks)))
		return -1;
	m->marks[m->nmarks++] = address;
	return 0;
}

static int compare_marks(const void *a, const void *b)
{
	return compare_u64(*(const uint64_t *)a, *(const uint64_t *)b);
}

void cold_module_sort_marks(struct cold_module *m)
{
	if (m->nmarks)
		qsort(m->marks, m->nmarks, sizeof(*m->marks), compare_marks);
}

uint64_t cold_module_next_mark(const struct cold_module *m, uint64_t address)
{
	size_t lo = 0, hi = m->nmarks;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (m->marks[mid] <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < m->nmarks ? m->marks[lo] : UINT64_MAX;
}

uint32_t cold_range_root(const struct cold_module *m, uint32_t range)
{
	while (m->ranges[range].parent != range)
		range = m->ranges[range].parent = m->ranges[m->ranges[range].parent].parent;
	return range;
}

void cold_range_join(struct cold_module *m, uint32_t a, uint32_t b)
{
	a = cold_range_root(m, a);
	b = cold_range_root(m, b);
	if (a < b)
		m->ranges[b].parent = a;
	else
		m->ranges[a].parent = b;
}

const char *cold_range_name(const struct cold_module *m, uint32_t range)
{
	uint32_t symbol = m->ranges[range].symbol;

	return symbol == COLD_NONE ? NULL : m->symbols[symbol].name;
}

bool cold_range_is_cold(const struct cold_module *m, uint32_t range)
{
	const char *name = cold_range_name(m, range);

	return m->ranges[range].cold || (name && strstr(name, ".cold"));
}
