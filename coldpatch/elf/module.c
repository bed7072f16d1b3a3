/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the module: sections, symbols, relocations, ranges. See module.h.
 */
#include "coldpatch/elf/module.h"

#include "common/arch/arch.h"
#include "common/array.h"
#include "common/error.h"

#include <string.h>

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
	return compare_u64(((const struct cold_reloc *)a)->address,
			   ((const struct cold_reloc *)b)->address);
}

static size_t leading_underscores(const char *name)
{
	return strspn(name, "_");
}

/* Orders symbols. Among symbols of one address the name that suits people best comes first:
 * functions before labels, global before weak before local, with a size before without, fewer
 * underscores, then by name. */
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
			return ip_error("%s: section %zu: %s", m->path, elf_ndxscn(scn),
					elf_errmsg(-1));
		if (!(shdr.sh_flags & SHF_ALLOC) || shdr.sh_type == SHT_NOBITS || !shdr.sh_size)
			continue;
		data = elf_rawdata(scn, NULL);
		if (!data || !data->d_buf || data->d_size != shdr.sh_size)
			return ip_error("%s: section %zu cannot be read: %s", m->path,
					elf_ndxscn(scn), elf_errmsg(-1));
		if (shdr.sh_addr + shdr.sh_size < shdr.sh_addr)
			return ip_error("%s: section %zu wraps around the address space", m->path,
					elf_ndxscn(scn));
		if (ip_array_grow(&m->sections, m->nsections, sizeof(*m->sections)))
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
			return ip_error("%s: section %zu: %s", m->path, elf_ndxscn(scn),
					elf_errmsg(-1));
		if (shdr.sh_type != section_type)
			continue;
		data = elf_getdata(scn, NULL);
		if (!data)
			return ip_error("%s: symbol table cannot be read: %s", m->path,
					elf_errmsg(-1));
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
			if (type != STT_FUNC && type != STT_GNU_IFUNC &&
			    (type != STT_NOTYPE || !sym.st_size))
				continue;
			name = elf_strptr(m->elf->elf, shdr.sh_link, sym.st_name);
			if (!name)
				return ip_error("%s: symbol %zu has no valid name", m->path, i);
			if (!*name || !in_code(m, sym.st_value))
				continue;
			if (ip_array_grow(&m->symbols, m->nsymbols, sizeof(*m->symbols)))
				return -1;
			m->symbols[m->nsymbols++] = (struct cold_symbol){
				.address = sym.st_value,
				.size = sym.st_size,
				.name = name,
				.bind = GELF_ST_BIND(sym.st_info),
				.func = type != STT_NOTYPE,
				.resolver = type == STT_GNU_IFUNC,
			};
		}
	}
	return 0;
}

/* Relocations in a table without addends have their addends in the place that they change. Only
 * those of plain data are needed. */
static int64_t addend_in_place(const struct cold_module *m, const GElf_Rel *rel)
{
	const uint8_t *bytes;
	int32_t v = 0;

	bytes = cold_module_bytes(m, rel->r_offset, sizeof(v));
	if (bytes && m->code && m->code->reloc_is_relative(GELF_R_TYPE(rel->r_info)))
		memcpy(&v, bytes, sizeof(v));
	return (uint32_t)v;
}

static int read_relocs(struct cold_module *m)
{
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(m->elf->elf, scn))) {
		GElf_Shdr shdr, symbols_shdr;
		Elf_Data *data, *symbols = NULL;
		size_t n;

		if (!gelf_getshdr(scn, &shdr))
			return ip_error("%s: section %zu: %s", m->path, elf_ndxscn(scn),
					elf_errmsg(-1));
		/* relocations that the linker only kept are read in relocs.c */
		if ((shdr.sh_type != SHT_RELA && shdr.sh_type != SHT_REL) ||
		    !(shdr.sh_flags & SHF_ALLOC))
			continue;
		data = elf_getdata(scn, NULL);
		if (!data)
			return ip_error("%s: relocations cannot be read: %s", m->path,
					elf_errmsg(-1));
		memset(&symbols_shdr, 0, sizeof(symbols_shdr));
		if (shdr.sh_link) {
			Elf_Scn *s = elf_getscn(m->elf->elf, shdr.sh_link);

			if (!s || !gelf_getshdr(s, &symbols_shdr) ||
			    !(symbols = elf_getdata(s, NULL)))
				return ip_error("%s: relocation section %zu names no symbol table",
						m->path, elf_ndxscn(scn));
		}
		n = data->d_size / gelf_fsize(m->elf->elf,
					      shdr.sh_type == SHT_RELA ? ELF_T_RELA : ELF_T_REL, 1,
					      EV_CURRENT);
		for (size_t i = 0; i < n; i++) {
			struct cold_reloc r = {0};
			GElf_Rela rela;
			GElf_Rel rel;
			GElf_Sym sym;

			if (shdr.sh_type == SHT_REL && gelf_getrel(data, i, &rel))
				rela = (GElf_Rela){rel.r_offset, rel.r_info,
						   addend_in_place(m, &rel)};
			else if (!gelf_getrela(data, i, &rela))
				return ip_error("%s: relocation %zu: %s", m->path, i,
						elf_errmsg(-1));
			r.address = rela.r_offset;
			r.addend = rela.r_addend;
			r.type = GELF_R_TYPE(rela.r_info);
			if (GELF_R_SYM(rela.r_info)) {
				if (!symbols ||
				    !gelf_getsym(symbols, GELF_R_SYM(rela.r_info), &sym))
					return ip_error("%s: relocation at 0x%lx names symbol %lu, "
							"which is not there",
							m->path, (unsigned long)r.address,
							(unsigned long)GELF_R_SYM(rela.r_info));
				r.symbol =
					elf_strptr(m->elf->elf, symbols_shdr.sh_link, sym.st_name);
				if (!r.symbol)
					return ip_error("%s: relocation at 0x%lx: symbol without a "
							"valid name",
							m->path, (unsigned long)r.address);
				r.value = sym.st_value;
				r.defined = sym.st_shndx != SHN_UNDEF;
			}
			if (ip_array_grow(&m->relocs, m->nrelocs, sizeof(*m->relocs)))
				return -1;
			m->relocs[m->nrelocs++] = r;
		}
	}
	if (m->nrelocs)
		qsort(m->relocs, m->nrelocs, sizeof(*m->relocs), compare_relocs);
	return 0;
}

int cold_module_open(const char *path,
		     const struct cold_module_code *(*code_for_machine)(uint32_t machine),
		     struct cold_module *ret)
{
	struct cold_module m = {.path = path};

	if (ip_elf_open(path, &m.elf))
		return -1;
	if (m.elf->ehdr.e_shoff == 0) {
		ip_error("%s: has no section table, so its code cannot be told from its data; run "
			 "coldpatch before the sections are stripped",
			 path);
		goto fail;
	}
	m.code = code_for_machine(m.elf->ehdr.e_machine);
	m.bits = ip_arch_for_machine(m.elf->ehdr.e_machine)->bits;
	if (read_sections(&m) || read_symbols(&m, SHT_SYMTAB))
		goto fail;
	if (read_symbols(&m, SHT_DYNSYM) || read_relocs(&m))
		goto fail;
	if (m.nsymbols)
		qsort(m.symbols, m.nsymbols, sizeof(*m.symbols), compare_symbols);
	if (m.code && m.code->offset_table)
		m.got = m.code->offset_table(&m);
	if (cold_ranges_make(&m))
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
	free(m->ranges);
	free(m->marks);
	if (m->elf)
		ip_elf_close(m->elf);
	memset(m, 0, sizeof(*m));
}

const struct cold_section *cold_module_section(const struct cold_module *m, uint64_t address,
					       uint64_t size)
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
