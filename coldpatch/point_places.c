/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the arguments of points are, as the probe list says it: the compiler's operands with addresses in the place of
 * symbols.
 *
 * The compiler names a variable as the assembler knows it. Static variables of several sources may share a name; then it is the
 * one of the source that the point is in, as far as the symbol table (its entries for files) and the function that holds the
 * site tell. If that does not tell either, the argument's place is unknown.
 */
#include "coldpatch/points.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/point_args.h"

struct candidates {
	const struct ip_point_arg *arg;
	uint64_t site;
	uint64_t address; /* of the symbol found */
	size_t n;	  /* different addresses */
	size_t file;	  /* of the address, by the number of its entry; 0: global */
	uint64_t own;	  /* address of the symbol of the file that holds the site; valid where has_own */
	bool has_own;
};

static bool is_symbol(const struct ip_point_arg *arg, const char *name)
{
	return strlen(name) == arg->symbol_length && !memcmp(name, arg->symbol, arg->symbol_length);
}

/* Index of the file entry in front of the local function that holds site; 0: there is none. */
static size_t file_of_site(const struct cold_module *m, Elf_Data *data, size_t n, uint64_t site)
{
	size_t file = 0;

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

static void look_at(struct candidates *c, Elf_Data *data, size_t n, const char *(*name_of)(void *, size_t),
		    void *context, size_t own_file)
{
	size_t file = 0;

	for (size_t i = 0; i < n; i++) {
		GElf_Sym sym;
		const char *name;
		unsigned type;

		if (!gelf_getsym(data, (int)i, &sym))
			continue;
		type = GELF_ST_TYPE(sym.st_info);
		if (type == STT_FILE)
			file = i;
		if (type == STT_FILE || type == STT_TLS || type == STT_SECTION || sym.st_shndx == SHN_UNDEF ||
		    sym.st_shndx == SHN_ABS)
			continue;
		name = name_of(context, sym.st_name);
		if (!name || !is_symbol(c->arg, name))
			continue;
		c->n += !c->n || sym.st_value != c->address;
		c->address = sym.st_value;
		if (own_file && file == own_file && GELF_ST_BIND(sym.st_info) == STB_LOCAL) {
			c->own = sym.st_value;
			c->has_own = true;
		}
	}
}

struct strings {
	Elf *elf;
	size_t section;
};

static const char *string_at(void *context, size_t offset)
{
	const struct strings *s = context;

	return elf_strptr(s->elf, s->section, offset);
}

/* The address of the symbol; false where it cannot be told. */
static bool resolve(const struct cold_module *m, const struct ip_point_arg *arg, uint64_t site, uint64_t *ret)
{
	struct candidates c = {.arg = arg, .site = site};
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(m->elf->elf, scn))) {
		struct strings strings = {.elf = m->elf->elf};
		GElf_Shdr shdr;
		Elf_Data *data;
		size_t n;

		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_SYMTAB ||
		    !(data = elf_getdata(scn, NULL)))
			continue;
		n = data->d_size / sizeof(Elf64_Sym);
		strings.section = shdr.sh_link;
		look_at(&c, data, n, string_at, &strings, file_of_site(m, data, n, site));
	}
	if (!c.has_own && c.n != 1)
		return false;
	*ret = c.has_own ? c.own : c.address;
	return true;
}

/* One argument, as the compiler printed it. */
static int place(const struct cold_module *m, const struct cold_point *p, const char *text, size_t length,
		 bool string, FILE *out)
{
	struct ip_point_arg arg;
	char buffer[128];
	uint64_t address;

	/* operands that we do not know: of thread-local variables, in Intel's syntax */
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
	arg.is_string = string && arg.size == 8 && !arg.is_signed;
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
		place(m, p, text, length, p->strings >> i & 1, out);
		text += length + (text[length] != '\0');
	}
	if (fclose(out) || !result) {
		free(result);
		ip_error("out of memory");
		return NULL;
	}
	return result;
}
