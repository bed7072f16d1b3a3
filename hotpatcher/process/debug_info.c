/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks through compilation units. Units whose address ranges hold none of the wanted addresses are
 * skipped. An index of addresses (.debug_aranges) is not relied on: clang writes none.
 */
#include "hotpatcher/process/debug_info.h"

#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/elf/debug_file.h"
#include "common/error.h"
#include "hotpatcher/process/probe_list_search.h"
#include "hotpatcher/process/target_files.h"

#define DEPTH_MAX  64u /* scopes within scopes */
#define BEHIND_MAX 16u /* bytes from a function's start to its entry site */

struct symbol {
	uint64_t address;
	const char *name;
};

struct ip_debug_info {
	Dwfl *dwfl;
	Dwfl_Module *module;
	Dwarf *dwarf;
	uint64_t bias;		/* link-time address = address in the debug information + bias */
	struct symbol *symbols; /* of functions, by address */
	size_t nsymbols;
	struct symbol *named; /* those that are not local, by name */
	size_t nnamed;
	struct ip_debug_file_search search;
	bool may_split; /* libdw may open files that units name */
};

static int by_address(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static int by_name(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* Reads the symbols of functions into a sorted table: libdwfl's own search goes over all symbols
 * each time. */
static int read_symbols(struct ip_debug_info *info)
{
	int n = dwfl_module_getsymtab(info->module);

	for (int i = 1; i < n; i++) {
		GElf_Addr address;
		GElf_Sym sym;
		const char *name =
			dwfl_module_getsym_info(info->module, i, &sym, &address, NULL, NULL, NULL);

		if (!name || !*name || GELF_ST_TYPE(sym.st_info) != STT_FUNC ||
		    sym.st_shndx == SHN_UNDEF)
			continue;
		if (ip_array_grow(&info->symbols, info->nsymbols, sizeof(*info->symbols)) < 0)
			return -1;
		info->symbols[info->nsymbols++] = (struct symbol){address, name};
		if (GELF_ST_BIND(sym.st_info) == STB_LOCAL)
			continue;
		if (ip_array_grow(&info->named, info->nnamed, sizeof(*info->named)) < 0)
			return -1;
		info->named[info->nnamed++] = (struct symbol){address, name};
	}
	if (info->nnamed)
		qsort(info->named, info->nnamed, sizeof(*info->named), by_name);
	if (info->nsymbols)
		qsort(info->symbols, info->nsymbols, sizeof(*info->symbols), by_address);
	return 0;
}

/* Name of the symbol at an address; NULL: there is none. If there are several, the one to which the
 * compiler has added something. */
static const char *symbol_at(const struct ip_debug_info *info, uint64_t address)
{
	size_t low = 0, high = info->nsymbols;
	const char *name = NULL;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (info->symbols[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < info->nsymbols && info->symbols[low].address == address; low++)
		if (!name || strchr(info->symbols[low].name, '.'))
			name = info->symbols[low].name;
	return name;
}

int ip_debug_info_open(const struct ip_module *module, pid_t pid, struct ip_debug_info **ret,
		       char **ret_lacks)
{
	struct ip_debug_info *info = calloc(1, sizeof(*info));
	int fd = fcntl(module->elf->fd, F_DUPFD_CLOEXEC, 0);
	Dwfl_Module *m = NULL;
	Dwarf_Addr bias = 0;
	const char *lacks;

	*ret = NULL;
	if (ret_lacks)
		*ret_lacks = NULL;
	if (!info || fd < 0) {
		free(info);
		if (fd >= 0)
			close(fd);
		return ip_error("out of memory");
	}
	info->search.root = ip_target_root(pid);
	info->search.named = ip_probe_list_search_debug_path;
	info->may_split = ip_target_files_are_ours(pid);
	info->dwfl = info->search.root < 0 ? NULL : dwfl_begin(&ip_debug_file_callbacks);
	if (info->dwfl) {
		/* the descriptor is libdwfl's from here on, unless it fails */
		m = dwfl_report_elf(info->dwfl, module->path, ip_target_path(pid, module->path), fd,
				    0, true);
		if (m)
			ip_debug_file_set_search(m, &info->search);
		else
			close(fd);
		dwfl_report_end(info->dwfl, NULL, NULL);
	} else {
		close(fd);
	}
	info->dwarf = m ? dwfl_module_getdwarf(m, &bias) : NULL;
	lacks = info->dwarf ? ip_debug_file_lacks_shared(info->dwarf, &info->search) : NULL;
	if (lacks) {
		info->dwarf = NULL;
		if (ret_lacks)
			*ret_lacks = strdup(lacks);
	}
	info->bias = bias;
	info->module = m;
	if (!info->dwarf) {
		ip_debug_info_close(info);
		return 0;
	}
	if (read_symbols(info) < 0) {
		ip_debug_info_close(info);
		return -1;
	}
	*ret = info;
	return 1;
}

void ip_debug_info_close(struct ip_debug_info *info)
{
	if (!info)
		return;
	if (info->dwfl)
		dwfl_end(info->dwfl);
	if (info->search.root >= 0)
		close(info->search.root);
	free(info->symbols);
	free(info->named);
	free(info);
}

struct search {
	struct ip_debug_info *info;
	const uint64_t *addresses;
	size_t n;
	void (*found)(void *context, size_t index, struct ip_debug_function *function);
	void *context;
	bool *seen;   /* of each address: found() was called; NULL: it does not matter */
	bool by_name; /* those that were not seen are looked for by their names */
};

/* Index of the first wanted address that is not below address. */
static size_t first_from(const struct search *s, uint64_t address)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->addresses[middle] < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_wanted(const struct search *s, uint64_t start, uint64_t end)
{
	size_t i = first_from(s, start);

	return i < s->n && s->addresses[i] < end;
}

/* Whether a unit may hold a wanted function. A unit that does not say where its code lies may. */
static bool may_hold(const struct search *s, Dwarf_Die *unit)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t offset = 0;
	bool any = false;

	while ((offset = dwarf_ranges(unit, offset, &base, &start, &end)) > 0) {
		any = true;
		if (is_wanted(s, start + s->info->bias, end + s->info->bias))
			return true;
	}
	return !any;
}

/* Where gcc finds two functions to be alike it makes one of them anew, as one that calls the other
 * (-fipa-icf), and does not tell where its code lies. The symbol of that name does. */
static void look_by_name(const struct search *s, Dwarf_Die *die)
{
	static const unsigned others[] = {DW_AT_declaration, DW_AT_low_pc, DW_AT_ranges,
					  DW_AT_abstract_origin};
	Dwarf_Attribute attribute;
	struct symbol key = {0};
	const struct symbol *symbol;
	size_t i;

	for (size_t k = 0; k < sizeof(others) / sizeof(*others); k++)
		if (dwarf_hasattr(die, others[k]))
			return;
	if (!dwarf_hasattr_integrate(die, DW_AT_external))
		return;
	key.name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute));
	if (!key.name)
		key.name = dwarf_diename(die);
	symbol = key.name && s->info->nnamed
			 ? bsearch(&key, s->info->named, s->info->nnamed, sizeof(key), by_name)
			 : NULL;
	if (!symbol)
		return;
	i = first_from(s, symbol->address);
	if (i < s->n && s->addresses[i] - symbol->address <= BEHIND_MAX && !s->seen[i])
		s->found(s->context, i,
			 &(struct ip_debug_function){.die = *die,
						     .entry = symbol->address - s->info->bias,
						     .symbol = symbol->name});
}

/* Calls found() if the function is wanted. A function may lie in several ranges (parts that are
 * hardly ever executed are apart): one of them begins with its entry. */
static void look_at(const struct search *s, Dwarf_Die *die)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t offset = 0;

	while ((offset = dwarf_ranges(die, offset, &base, &start, &end)) > 0) {
		size_t i = first_from(s, start + s->info->bias);
		struct ip_debug_function f = {.die = *die, .entry = start};

		if (i == s->n || s->addresses[i] - s->info->bias >= end ||
		    s->addresses[i] - s->info->bias - start > BEHIND_MAX)
			continue;
		f.symbol = symbol_at(s->info, start + s->info->bias);
		s->found(s->context, i, &f);
		if (s->seen)
			s->seen[i] = true;
		return;
	}
}

static void walk(const struct search *s, Dwarf_Die *scope, unsigned depth)
{
	Dwarf_Die die;

	if (depth > DEPTH_MAX || dwarf_child(scope, &die) != 0)
		return;
	do {
		switch (dwarf_tag(&die)) {
		case DW_TAG_subprogram:
			(s->by_name ? look_by_name : look_at)(s, &die);
			walk(s, &die, depth + 1);
			break;
		case DW_TAG_namespace:
		case DW_TAG_class_type:
		case DW_TAG_structure_type:
		case DW_TAG_union_type:
		case DW_TAG_lexical_block:
		case DW_TAG_module:
			walk(s, &die, depth + 1);
			break;
		}
	} while (dwarf_siblingof(&die, &die) == 0);
}

static void walk_units(const struct search *s)
{
	struct ip_debug_info *info = s->info;
	Dwarf_CU *unit = NULL;
	Dwarf_Die die, split;
	uint8_t type;

	/* libdw opens .dwo files by the names that units give it */
	while (dwarf_get_units(info->dwarf, unit, &unit, NULL, &type, &die,
			       info->may_split ? &split : NULL) == 0) {
		if (!may_hold(s, &die))
			continue;
		/* the functions of a unit that was split are in its .dwo file */
		walk(s, type == DW_UT_skeleton && info->may_split && split.addr ? &split : &die, 0);
	}
}

void ip_debug_info_find(struct ip_debug_info *info, const uint64_t *addresses, size_t n,
			void (*found)(void *context, size_t index,
				      struct ip_debug_function *function),
			void *context)
{
	_cleanup_free_ bool *seen = n ? calloc(n, sizeof(*seen)) : NULL;
	struct search s = {info, addresses, n, found, context, seen};

	walk_units(&s);
	s.by_name = seen && memchr(seen, false, n);
	if (s.by_name)
		walk_units(&s);
}
