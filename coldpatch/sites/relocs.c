// SPDX-License-Identifier: Apache-2.0
/*
 * Reads kept relocations. See relocs.h.
 *
 * A large module has millions of them, and nearly all are against other symbols. So the hooks are
 * looked up in the symbol table once, and relocations are compared by the number of their symbol.
 */
#include "coldpatch/sites/relocs.h"

#include "coldpatch/sites/arch.h"
#include "common/error.h"

#include <string.h>

/* One hook has one global symbol. Only an odd symbol table has more. */
#define SYMBOLS_MAX 16

struct hook_symbols {
	size_t table; /* the symbol table that they are in; 0: none yet */
	size_t numbers[SYMBOLS_MAX];
	enum cold_hook hooks[SYMBOLS_MAX];
	size_t n;
};

static int read_hook_symbols(const struct cold_module *m, size_t table, struct hook_symbols *ret)
{
	Elf_Scn *scn = elf_getscn(m->elf->elf, table);
	Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL;
	GElf_Shdr shdr;
	size_t n;

	if (ret->table == table)
		return 0;
	if (!data || !gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_SYMTAB)
		return ip_error("%s: kept relocations name no symbol table (section %zu)", m->path,
				table);
	*ret = (struct hook_symbols){.table = table};
	n = data->d_size / gelf_fsize(m->elf->elf, ELF_T_SYM, 1, EV_CURRENT);
	for (size_t i = 1; i < n; i++) {
		enum cold_hook hook;
		const char *name;
		GElf_Sym sym;

		if (!gelf_getsym(data, i, &sym))
			return ip_error("%s: symbol %zu: %s", m->path, i, elf_errmsg(-1));
		name = elf_strptr(m->elf->elf, shdr.sh_link, sym.st_name);
		hook = name && *name == '_' ? cold_hook_named(name) : COLD_HOOK_NONE;
		if (!hook)
			continue;
		if (ret->n == SYMBOLS_MAX)
			return ip_error("%s: more than %d symbols are called like an "
					"instrumentation function",
					m->path, SYMBOLS_MAX);
		ret->numbers[ret->n] = i;
		ret->hooks[ret->n++] = hook;
	}
	return 0;
}

/* Adds the sites of one section of relocations. *count grows by one for each relocation that names
 * a hook. */
static int read_section(const struct cold_module *m, const struct cold_hooks *hooks,
			const struct cold_arch *arch, Elf_Scn *scn,
			const struct hook_symbols *symbols, size_t *count, struct cold_sites *ret)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	size_t n;

	if (!data)
		return ip_error("%s: kept relocations cannot be read: %s", m->path, elf_errmsg(-1));
	n = data->d_size / gelf_fsize(m->elf->elf, data->d_type, 1, EV_CURRENT);
	for (size_t i = 0; i < n; i++) {
		struct cold_site site = {.depth = COLD_DEPTH_UNKNOWN};
		GElf_Rela rela;
		GElf_Rel rel;

		if (data->d_type == ELF_T_REL && gelf_getrel(data, i, &rel))
			rela = (GElf_Rela){.r_offset = rel.r_offset, .r_info = rel.r_info};
		else if (!gelf_getrela(data, i, &rela))
			return ip_error("%s: kept relocation %zu: %s", m->path, i, elf_errmsg(-1));
		for (size_t j = 0; j < symbols->n; j++) {
			struct cold_kept_reloc r = {
				.address = rela.r_offset,
				.type = GELF_R_TYPE(rela.r_info),
				.hook = symbols->hooks[j],
			};

			if (GELF_R_SYM(rela.r_info) != symbols->numbers[j] || !r.type)
				continue;
			if (arch->kept_site(m, hooks, &r, &site))
				return -1;
			site.range = cold_module_range(m, site.address);
			if (cold_sites_add(ret, site))
				return -1;
			++*count;
		}
	}
	return 0;
}

int cold_relocs_find(const struct cold_module *m, const struct cold_hooks *hooks,
		     struct cold_sites *ret)
{
	const struct cold_arch *arch = cold_arch_for_machine(m->elf->ehdr.e_machine);
	struct hook_symbols symbols = {0};
	Elf_Scn *scn = NULL;
	size_t count = 0;

	while ((scn = elf_nextscn(m->elf->elf, scn))) {
		GElf_Shdr shdr, to;
		Elf_Scn *target;

		if (!gelf_getshdr(scn, &shdr))
			return ip_error("%s: section %zu: %s", m->path, elf_ndxscn(scn),
					elf_errmsg(-1));
		if ((shdr.sh_type != SHT_RELA && shdr.sh_type != SHT_REL) ||
		    (shdr.sh_flags & SHF_ALLOC))
			continue;
		/* debug information may name a hook, but that is not a reference */
		target = elf_getscn(m->elf->elf, shdr.sh_info);
		if (!target || !gelf_getshdr(target, &to) || !(to.sh_flags & SHF_ALLOC))
			continue;
		if (read_hook_symbols(m, shdr.sh_link, &symbols))
			return -1;
		if (symbols.n && read_section(m, hooks, arch, scn, &symbols, &count, ret))
			return -1;
	}
	cold_sites_sort(ret);
	for (size_t i = 1; i < ret->n; i++)
		if (ret->sites[i - 1].address + ret->sites[i - 1].length > ret->sites[i].address)
			return ip_error("%s: kept relocations name two calls that overlap at 0x%lx",
					m->path, (unsigned long)ret->sites[i].address);
	return count > 0;
}
