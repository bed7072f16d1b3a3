// SPDX-License-Identifier: Apache-2.0
/*
 * Removing what -q left. See leftovers.h.
 */
#include "coldpatch/leftovers.h"

#include "common/error.h"

#include <stdlib.h>
#include <string.h>

static bool is_leftover(const Elf64_Shdr *h)
{
	return (h->sh_type == SHT_RELA || h->sh_type == SHT_REL) && !(h->sh_flags & SHF_ALLOC);
}

bool cold_leftovers_exist(const struct cold_module *m)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;

	while ((scn = elf_nextscn(m->elf->elf, scn)))
		if (gelf_getshdr(scn, &shdr) && is_leftover(&shdr))
			return true;
	return false;
}

/* Its symbols may be numbered anew: nothing that is left counts them. */
static bool is_free(const struct cold_tail *t, size_t table)
{
	for (size_t i = 1; i < t->n; i++)
		if (i != table && t->headers[i].sh_type != SHT_NULL && t->headers[i].sh_link == table)
			return false;
	return true;
}

static bool is_label(Elf_Data *names, uint32_t name)
{
	const char *at = names && name < names->d_size ? (const char *)names->d_buf + name : NULL;

	return at && names->d_size - name > 2 && at[0] == '.' && at[1] == 'L';
}

static int drop_symbols(const struct cold_module *m, struct cold_tail *t, size_t table, void **ret)
{
	Elf_Scn *names_scn = elf_getscn(m->elf->elf, t->headers[table].sh_link);
	Elf_Data *data = elf_getdata(elf_getscn(m->elf->elf, table), NULL); /* as in the file: both little-endian */
	Elf_Data *names = names_scn ? elf_rawdata(names_scn, NULL) : NULL;
	size_t entry = gelf_fsize(m->elf->elf, ELF_T_SYM, 1, EV_CURRENT), n, kept = 0, local = 0;
	uint8_t *symbols;

	if (!data || !data->d_buf || (t->headers[table].sh_flags & (SHF_ALLOC | SHF_COMPRESSED)))
		return 0;
	n = data->d_size / entry;
	symbols = malloc(data->d_size);
	if (!symbols)
		return ip_error("out of memory");
	for (size_t i = 0; i < n; i++) {
		GElf_Sym sym;

		if (!gelf_getsym(data, i, &sym)) {
			free(symbols);
			return ip_error("%s: symbol %zu: %s", m->path, i, elf_errmsg(-1));
		}
		if (i && GELF_ST_BIND(sym.st_info) == STB_LOCAL &&
		    (GELF_ST_TYPE(sym.st_info) == STT_SECTION || is_label(names, sym.st_name)))
			continue;
		memcpy(symbols + kept++ * entry, (const uint8_t *)data->d_buf + i * entry, entry);
		if (i < t->headers[table].sh_info)
			local = kept;
	}
	cold_tail_replace(t, table, symbols, kept * entry);
	t->headers[table].sh_info = local;
	*ret = symbols;
	return 0;
}

int cold_leftovers_drop(const struct cold_module *m, struct cold_tail *t, void **ret_symbols)
{
	*ret_symbols = NULL;
	for (size_t i = 1; i < t->n; i++)
		if (is_leftover(&t->headers[i]))
			cold_tail_drop(t, i);
	for (size_t i = 1; i < t->n && t->dropped; i++)
		if (t->headers[i].sh_type == SHT_SYMTAB && is_free(t, i))
			return drop_symbols(m, t, i, ret_symbols);
	return 0;
}
