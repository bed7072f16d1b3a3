/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives the places of a point's arguments, as the probe list has them: the compiler's operands with
 * addresses in place of symbols.
 *
 * The compiler names a variable as the assembler knows it. Static variables of several sources may
 * share a name. Then the variable is the one of the source that the point is in. The symbol table
 * (its entries for files, and the local function that holds the site) and debug information tell
 * that source. If neither does, the argument's place is unknown.
 */
#include "coldpatch/sites/points.h"

#include <elf.h>
#include <elfutils/libdw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/elf/point_args.h"
#include "common/error.h"

struct candidates {
	const struct ip_point_arg *arg;
	/* of any symbol with that name; of the symbol in the file that holds the site */
	uint64_t address, own;
	size_t n, nown; /* number of different addresses */
};

static bool is_symbol(const struct ip_point_arg *arg, const char *name)
{
	return strlen(name) == arg->symbol_length && !memcmp(name, arg->symbol, arg->symbol_length);
}

/* Returns the index of the file entry in front of the local function that holds site; 0: there is
 * none. */
static size_t file_of_site(Elf_Data *data, uint64_t site)
{
	size_t file = 0, n = data->d_size / sizeof(Elf64_Sym);

	for (size_t i = 0; i < n; i++) {
		GElf_Sym sym;

		if (!gelf_getsym(data, (int)i, &sym) || GELF_ST_BIND(sym.st_info) != STB_LOCAL)
			continue;
		if (GELF_ST_TYPE(sym.st_info) == STT_FILE)
			file = i;
		else if (GELF_ST_TYPE(sym.st_info) == STT_FUNC && site >= sym.st_value &&
			 site - sym.st_value < sym.st_size)
			return file;
	}
	return 0;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Returns the name, without folder, of the source of the compilation unit that holds site; NULL
 * without debug information. */
static const char *unit_of_site(Dwarf *debug, uint64_t site)
{
	Dwarf_Die unit;
	const char *name = debug && dwarf_addrdie(debug, site, &unit) ? dwarf_diename(&unit) : NULL;

	return name ? base_name(name) : NULL;
}

/* Adds the candidates of one symbol table. own_file: index of the entry of the file that the site
 * is in, 0: unknown. If it is unknown, unit is the name of that file, NULL: unknown. */
static void look_at(struct candidates *c, Elf *elf, size_t strings, Elf_Data *data, size_t own_file,
		    const char *unit)
{
	size_t file = 0, n = data->d_size / sizeof(Elf64_Sym);
	bool in_unit = false;

	for (size_t i = 0; i < n; i++) {
		GElf_Sym sym;
		const char *name;
		unsigned type;

		if (!gelf_getsym(data, (int)i, &sym))
			continue;
		type = GELF_ST_TYPE(sym.st_info);
		name = elf_strptr(elf, strings, sym.st_name);
		if (type == STT_FILE) {
			file = i;
			in_unit = unit && name && !strcmp(base_name(name), unit);
		}
		if (type == STT_FILE || type == STT_TLS || type == STT_SECTION ||
		    sym.st_shndx == SHN_UNDEF || sym.st_shndx == SHN_ABS)
			continue;
		if (!name || !is_symbol(c->arg, name))
			continue;
		c->n += !c->n || sym.st_value != c->address;
		c->address = sym.st_value;
		if (GELF_ST_BIND(sym.st_info) == STB_LOCAL &&
		    (own_file ? file == own_file : in_unit)) {
			c->nown += !c->nown || sym.st_value != c->own;
			c->own = sym.st_value;
		}
	}
}

/* Finds the address of the symbol. Returns false if it cannot be told. */
static bool resolve(const struct cold_module *m, const struct ip_point_arg *arg, uint64_t site,
		    uint64_t *ret)
{
	struct candidates c = {.arg = arg};
	Dwarf *debug = NULL;
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	Elf_Data *data;

	while ((scn = elf_nextscn(m->elf->elf, scn)))
		if (gelf_getshdr(scn, &shdr) && shdr.sh_type == SHT_SYMTAB &&
		    (data = elf_getdata(scn, NULL)))
			look_at(&c, m->elf->elf, shdr.sh_link, data, file_of_site(data, site),
				NULL);
	if (c.n > 1 && !c.nown && (debug = dwarf_begin_elf(m->elf->elf, DWARF_C_READ, NULL))) {
		const char *unit = unit_of_site(debug, site);

		while ((scn = elf_nextscn(m->elf->elf, scn)))
			if (gelf_getshdr(scn, &shdr) && shdr.sh_type == SHT_SYMTAB &&
			    (data = elf_getdata(scn, NULL)))
				look_at(&c, m->elf->elf, shdr.sh_link, data, 0, unit);
	}
	dwarf_end(debug);
	*ret = c.nown ? c.own : c.address;
	return c.nown == 1 || (!c.nown && c.n == 1);
}

/* Writes the place of argument i, which text holds as the compiler printed it. */
static int place(const struct cold_module *m, const struct cold_point *p, const char *text,
		 size_t length, unsigned i, FILE *out)
{
	struct ip_point_arg arg;
	char buffer[128];
	uint64_t address;

	/* unknown operands: those of thread-local variables, and Intel syntax */
	if (ip_point_arg_parse(text, length, &arg) == 0 && arg.operand == IP_OPERAND_SYMBOL) {
		if (resolve(m, &arg, p->address, &address)) {
			arg.operand = IP_OPERAND_MEMORY;
			arg.value += (int64_t)address;
			arg.symbol = NULL;
			arg.symbol_length = 0;
		} else {
			arg.operand = IP_OPERAND_UNKNOWN;
		}
	}
	if (arg.size == 8 && !arg.is_signed) {
		arg.is_string = p->strings >> i & 1;
		arg.is_pointer = !arg.is_string && p->pointers >> i & 1;
		arg.is_hex = p->hexes >> i & 1;
	}
	ip_point_arg_format(&arg, buffer, sizeof(buffer));
	return fputs(buffer, out);
}

char *cold_point_places(const struct cold_module *m, const struct cold_point *p)
{
	const char *text = p->args;
	char *result = NULL;
	size_t size;
	FILE *out = open_memstream(&result, &size);

	if (!out) {
		ip_error("out of memory");
		return NULL;
	}
	for (unsigned i = 0; *text && i < IP_POINT_ARGS_MAX; i++) {
		size_t length = strcspn(text, ";");

		if (i)
			fputc(' ', out);
		place(m, p, text, length, i, out);
		text += length + (text[length] != '\0');
	}
	if (fclose(out) || !result) {
		free(result);
		ip_error("out of memory");
		return NULL;
	}
	return result;
}
