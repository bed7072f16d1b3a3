/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads debug information once into three tables: functions by address, functions by name, and
 * address ranges by compilation unit, since not every compiler writes .debug_aranges. See debug.h.
 */
#include "coldpatch/elf/debug.h"

#include "coldpatch/elf/hook_name.h"
#include "coldpatch/elf/scopes.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <string.h>

#define MAX_NESTING 32 /* of namespaces and classes */

struct unit_range {
	Dwarf_Addr start, end;
	Dwarf_Die unit;
};

/* A function inside of a namespace or class that has no linker name, because it is local to its
 * file. */
struct qualified {
	Dwarf_Off die;
	char *name;
};

struct cold_debug {
	Dwarf *dwarf;
	struct cold_debug_function *by_address, *by_name;
	size_t nfunctions;
	struct unit_range *units;
	size_t nunits;
	/* whether the unit that is being read has a file table: without one dwarf_decl_file()
	 * aborts the program */
	bool unit_has_files;
	struct cold_scopes scopes;
	struct qualified *qualified; /* ascending */
	size_t nqualified;
};

static const char *linker_name(Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	const char *name = NULL;

	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attr) ||
	    dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attr))
		name = dwarf_formstring(&attr);
	return name ? name : dwarf_diename(die);
}

static int add_function(struct cold_debug *d, Dwarf_Die *die)
{
	struct cold_debug_function f = {0};
	Dwarf_Addr address;
	int line = 0;

	if (dwarf_hasattr(die, DW_AT_declaration))
		return 0;
	f.name = linker_name(die);
	if (!f.name || !*f.name)
		return 0;
	if (!dwarf_entrypc(die, &address))
		f.address = address;
	f.file = d->unit_has_files ? dwarf_decl_file(die) : NULL;
	if (f.file && !dwarf_decl_line(die, &line) && line > 0)
		f.line = line;
	if (ip_array_grow(&d->by_address, d->nfunctions, sizeof(f)))
		return -1;
	d->by_address[d->nfunctions++] = f;
	return 0;
}

static int compare_qualified(const void *pa, const void *pb)
{
	const struct qualified *a = pa, *b = pb;

	return a->die < b->die ? -1 : a->die > b->die;
}

static int add_qualified(struct cold_debug *d, Dwarf_Die *die, const char *prefix)
{
	const char *name = dwarf_diename(die);
	struct qualified q = {.die = dwarf_dieoffset(die)};
	Dwarf_Attribute attr;

	/* in a split file of its own, offsets mean nothing here */
	if (!prefix || !*prefix || !name || dwarf_attr_integrate(die, DW_AT_linkage_name, &attr))
		return 0;
	if (ip_array_grow(&d->qualified, d->nqualified, sizeof(q)))
		return -1;
	if (asprintf(&q.name, "%s%s", prefix, name) < 0)
		return ip_error("out of memory");
	d->qualified[d->nqualified++] = q;
	return 0;
}

/* Returns the name that such a function has in its namespace; NULL if it is not such a function. */
static const char *qualified_name(const struct cold_debug *d, Dwarf_Die *die)
{
	static const unsigned ways[] = {DW_AT_abstract_origin, DW_AT_specification};
	Dwarf_Die at = *die;

	for (size_t i = 0; i <= sizeof(ways) / sizeof(ways[0]); i++) {
		struct qualified key = {.die = dwarf_dieoffset(&at)}, *found = NULL;
		Dwarf_Attribute attr;

		if (d->nqualified)
			found = bsearch(&key, d->qualified, d->nqualified, sizeof(key),
					compare_qualified);
		if (found)
			return found->name;
		if (i < sizeof(ways) / sizeof(ways[0]) && dwarf_attr(&at, ways[i], &attr) &&
		    !dwarf_formref_die(&attr, &at))
			return NULL;
	}
	return NULL;
}

static int walk(struct cold_debug *d, Dwarf_Die *parent, unsigned nesting, const char *prefix)
{
	_cleanup_free_ char *inner = NULL;
	const char *name;
	Dwarf_Die die;

	if (nesting > MAX_NESTING || dwarf_child(parent, &die))
		return 0;
	do {
		switch (dwarf_tag(&die)) {
		case DW_TAG_subprogram:
			if (add_function(d, &die) || add_qualified(d, &die, prefix))
				return -1;
			break;
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_class_type:
		case DW_TAG_structure_type:
			name = dwarf_diename(&die);
			free(inner);
			inner = NULL;
			if (prefix && asprintf(&inner, "%s%s::", prefix,
					       name ? name : "(anonymous namespace)") < 0) {
				inner = NULL;
				return ip_error("out of memory");
			}
			if (walk(d, &die, nesting + 1, inner))
				return -1;
			break;
		default:
			break;
		}
	} while (dwarf_siblingof(&die, &die) == 0);
	return 0;
}

static int add_unit(struct cold_debug *d, Dwarf_Die *unit)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t offset = 0;

	while ((offset = dwarf_ranges(unit, offset, &base, &start, &end)) > 0) {
		if (start >= end)
			continue;
		if (ip_array_grow(&d->units, d->nunits, sizeof(*d->units)))
			return -1;
		d->units[d->nunits++] =
			(struct unit_range){.start = start, .end = end, .unit = *unit};
	}
	return 0;
}

static int compare_units(const void *pa, const void *pb)
{
	const struct unit_range *a = pa, *b = pb;

	return a->start < b->start ? -1 : a->start > b->start;
}

/* Functions with a file come first, so that the first of equal ones is the best. */
static int compare_known(const struct cold_debug_function *a, const struct cold_debug_function *b)
{
	if (!a->file != !b->file)
		return a->file ? -1 : 1;
	return a->line < b->line ? -1 : a->line > b->line;
}

static int compare_addresses(const void *pa, const void *pb)
{
	const struct cold_debug_function *a = pa, *b = pb;

	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return compare_known(a, b);
}

static int compare_names(const void *pa, const void *pb)
{
	const struct cold_debug_function *a = pa, *b = pb;
	int c = strcmp(a->name, b->name);

	if (c)
		return c;
	/* a function that has code comes first: its address is needed, too */
	if (!a->address != !b->address)
		return a->address ? -1 : 1;
	return compare_known(a, b);
}

int cold_debug_open(const struct cold_module *m, struct cold_debug **ret)
{
	struct cold_debug *d;
	Dwarf_CU *cu = NULL;
	Dwarf_Die die, split;
	Dwarf_Files *files;
	Dwarf_Half version;
	size_t nfiles;
	uint8_t type;

	*ret = NULL;
	d = calloc(1, sizeof(*d));
	if (!d)
		return ip_error("out of memory");
	d->dwarf = dwarf_begin_elf(m->elf->elf, DWARF_C_READ, NULL);
	if (!d->dwarf) {
		free(d);
		return 0;
	}
	while (dwarf_get_units(d->dwarf, cu, &cu, &version, &type, &die, &split) == 0) {
		Dwarf_Die *unit = &die;

		if (type == DW_UT_type || type == DW_UT_split_type)
			continue;
		if (type == DW_UT_skeleton && dwarf_tag(&split) == DW_TAG_compile_unit)
			unit = &split;
		d->unit_has_files = !dwarf_getsrcfiles(unit, &files, &nfiles);
		if (walk(d, unit, 0, unit == &die ? "" : NULL) || add_unit(d, &die) ||
		    cold_scopes_add(&d->scopes, unit)) {
			cold_debug_close(d);
			return -1;
		}
	}
	if (d->nfunctions) {
		d->by_name = reallocarray(NULL, d->nfunctions, sizeof(*d->by_name));
		if (!d->by_name) {
			cold_debug_close(d);
			return ip_error("out of memory");
		}
		memcpy(d->by_name, d->by_address, d->nfunctions * sizeof(*d->by_name));
		qsort(d->by_name, d->nfunctions, sizeof(*d->by_name), compare_names);
		qsort(d->by_address, d->nfunctions, sizeof(*d->by_address), compare_addresses);
	}
	if (d->nunits)
		qsort(d->units, d->nunits, sizeof(*d->units), compare_units);
	if (d->nqualified)
		qsort(d->qualified, d->nqualified, sizeof(*d->qualified), compare_qualified);
	cold_scopes_sort(&d->scopes);
	*ret = d;
	return 0;
}

void cold_debug_close(struct cold_debug *d)
{
	if (!d)
		return;
	dwarf_end(d->dwarf);
	free(d->by_address);
	free(d->by_name);
	free(d->units);
	cold_scopes_destroy(&d->scopes);
	for (size_t i = 0; i < d->nqualified; i++)
		free(d->qualified[i].name);
	free(d->qualified);
	free(d);
}

const struct cold_debug_function *cold_debug_by_address(const struct cold_debug *d,
							uint64_t address)
{
	size_t lo = 0, hi = d ? d->nfunctions : 0;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (d->by_address[mid].address < address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return d && address && lo < d->nfunctions && d->by_address[lo].address == address
		       ? &d->by_address[lo]
		       : NULL;
}

const struct cold_debug_function *cold_debug_by_name(const struct cold_debug *d, const char *name)
{
	size_t lo = 0, hi = d ? d->nfunctions : 0;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (strcmp(d->by_name[mid].name, name) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return d && lo < d->nfunctions && !strcmp(d->by_name[lo].name, name) ? &d->by_name[lo]
									     : NULL;
}

static Dwarf_Die *unit_at(struct cold_debug *d, uint64_t address)
{
	size_t lo = 0, hi = d ? d->nunits : 0;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (address < d->units[mid].start)
			hi = mid;
		else if (address >= d->units[mid].end)
			lo = mid + 1;
		else
			return &d->units[mid].unit;
	}
	return NULL;
}

const char *cold_debug_scope(struct cold_debug *d, uint64_t address, bool *ret_inlined)
{
	struct cold_scope *scope = d ? cold_scopes_at(&d->scopes, address) : NULL;

	while (scope) {
		const char *name = linker_name(&scope->die);

		if (!scope->inlined || !name || !cold_hook_named(name)) {
			const char *qualified = qualified_name(d, &scope->die);

			*ret_inlined = scope->inlined;
			return qualified ? qualified : name;
		}
		scope = scope->parent == COLD_SCOPE_NONE ? NULL : &d->scopes.scopes[scope->parent];
	}
	return NULL;
}

int cold_debug_line(struct cold_debug *d, uint64_t address, const char **ret_file,
		    uint32_t *ret_line)
{
	Dwarf_Die *unit = unit_at(d, address);
	Dwarf_Line *row;
	int line;

	if (!unit)
		return 0;
	row = dwarf_getsrc_die(unit, address);
	if (!row || dwarf_lineno(row, &line) || line <= 0)
		return 0;
	*ret_file = dwarf_linesrc(row, NULL, NULL);
	*ret_line = line;
	return *ret_file != NULL;
}

/* Whether a unit's producer names -g1 as its only option for debug information, beside our other
 * options. */
static bool is_ours(const char *producer)
{
	/* Code that the link generated repeats the options of all its parts, and each part has a
	 * unit as well. */
	bool added = false, hooks = false,
	     repeats = producer && !strncmp(producer, "GNU GIMPLE", 10);

	while (producer && *producer) {
		size_t n = strcspn(producer, " ");

		if (n == 3 && !memcmp(producer, "-g1", 3)) {
			if (added && !repeats)
				return false;
			added = true;
		} else if (!repeats && n >= 2 && !memcmp(producer, "-g", 2) &&
			   memcmp(producer, "-gno-", 5)) {
			return false;
		}
		hooks |= n == strlen("-finstrument-functions") &&
			 !memcmp(producer, "-finstrument-functions", n);
		producer += n;
		producer += strspn(producer, " ");
	}
	return added && hooks;
}

bool cold_debug_is_ours(const struct cold_module *m)
{
	Dwarf *dwarf = dwarf_begin_elf(m->elf->elf, DWARF_C_READ, NULL);
	bool ours = dwarf;
	Dwarf_CU *cu = NULL;
	Dwarf_Die die, split;
	Dwarf_Half version;
	uint8_t type;

	while (ours && dwarf_get_units(dwarf, cu, &cu, &version, &type, &die, &split) == 0) {
		Dwarf_Attribute producer;

		if (type != DW_UT_compile && type != DW_UT_partial)
			ours = false;
		else if (type == DW_UT_compile)
			ours = dwarf_attr(&die, DW_AT_producer, &producer) &&
			       is_ours(dwarf_formstring(&producer));
	}
	if (dwarf)
		dwarf_end(dwarf);
	return ours;
}
