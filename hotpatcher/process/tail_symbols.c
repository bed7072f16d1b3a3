/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks names of functions up. See tail_symbols.h. The files are input from outside: libelf checks
 * offsets and sizes, and a name that lies outside of its table does not count.
 */
#include "hotpatcher/process/tail_symbols.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/error.h"
#include "hotpatcher/process/linker_slots.h"

#define TABLES_MOST IP_LINKER_TABLES_MOST /* of all modules together */

/* One name. address 0: it is defined more than once, or its address cannot be foreseen. */
struct definition {
	const char *name;
	uint64_t address;
};

/* A pointer that is bound by name. */
struct slot {
	uint64_t address;
	const char *name;
};

struct ip_tail_symbols {
	struct definition *definitions; /* by hash of the name, half full at most */
	size_t size;			/* a power of two */
	struct slot *slots;		/* by address */
	size_t nslots;
	bool blind;	/* a module cannot be read: it may define any name */
	bool *readable; /* of each module */
};

static uint64_t hash(const char *name)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 0x100000001b3ull;
	return h ^ h >> 29;
}

static struct definition *definition_of(const struct ip_tail_symbols *s, const char *name)
{
	size_t i = hash(name) & (s->size - 1);

	while (s->definitions[i].name && strcmp(s->definitions[i].name, name))
		i = (i + 1) & (s->size - 1);
	return &s->definitions[i];
}

static bool is_definition(const GElf_Sym *symbol)
{
	unsigned bind = GELF_ST_BIND(symbol->st_info);

	return symbol->st_shndx != SHN_UNDEF &&
	       (bind == STB_GLOBAL || bind == STB_WEAK || bind == STB_GNU_UNIQUE);
}

/* Calls visit for each dynamic symbol that a module defines. */
static void each_symbol(const struct ip_module *m,
			void (*visit)(struct ip_tail_symbols *s, const struct ip_module *m,
				      const char *name, const GElf_Sym *symbol),
			struct ip_tail_symbols *s)
{
	for (Elf_Scn *section = NULL; (section = elf_nextscn(m->elf->elf, section));) {
		GElf_Shdr header;
		Elf_Data *data;
		GElf_Sym symbol;

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_DYNSYM)
			continue;
		data = elf_getdata(section, NULL);
		for (int i = 0; data && gelf_getsym(data, i, &symbol); i++) {
			const char *name =
				is_definition(&symbol)
					? elf_strptr(m->elf->elf, header.sh_link, symbol.st_name)
					: NULL;

			if (name && *name)
				visit(s, m, name, &symbol);
		}
	}
}

static void count(struct ip_tail_symbols *s, const struct ip_module *m, const char *name,
		  const GElf_Sym *symbol)
{
	s->size++;
}

static void define(struct ip_tail_symbols *s, const struct ip_module *m, const char *name,
		   const GElf_Sym *symbol)
{
	struct definition *d = definition_of(s, name);
	uint64_t address = m->load_bias + symbol->st_value;

	if (d->name && d->address != address)
		d->address = 0;
	else if (!d->name)
		*d = (struct definition){name,
					 GELF_ST_TYPE(symbol->st_info) == STT_FUNC ? address : 0};
}

struct slots_of {
	struct ip_tail_symbols *symbols;
	uint64_t load_bias;
};

static int add_slot(void *context, uint64_t slot, const char *name)
{
	const struct slots_of *of = context;
	struct ip_tail_symbols *s = of->symbols;

	if (ip_array_grow(&s->slots, s->nslots, sizeof(*s->slots)) < 0)
		return -1;
	s->slots[s->nslots++] = (struct slot){of->load_bias + slot, name};
	return 0;
}

static int add_slots(struct ip_tail_symbols *s, const struct ip_module *m)
{
	struct slots_of of = {s, m->load_bias};

	return ip_linker_slots_each(m->elf, add_slot, &of);
}

static int by_address(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static int choose_modules(struct ip_tail_symbols *s, const struct ip_modules *modules)
{
	uint64_t left = TABLES_MOST;

	s->readable = calloc(modules->n + 1, sizeof(*s->readable));
	for (size_t i = 0; s->readable && i < modules->n; i++) {
		const uint64_t size =
			modules->items[i].elf ? ip_linker_tables_size(modules->items[i].elf) : 0;

		s->readable[i] = modules->items[i].elf && size <= left;
		s->blind |= !s->readable[i];
		left -= s->readable[i] ? size : 0;
	}
	return s->readable ? 0 : -1;
}

struct ip_tail_symbols *ip_tail_symbols_create(const struct ip_modules *modules)
{
	struct ip_tail_symbols *s = calloc(1, sizeof(*s));
	size_t size;

	if (s && choose_modules(s, modules) < 0) {
		free(s);
		s = NULL;
	}
	for (size_t i = 0; s && i < modules->n; i++)
		if (s->readable[i])
			each_symbol(&modules->items[i], count, s);
	for (size = 64; s && size < 2 * s->size;)
		size *= 2;
	if (s) {
		s->size = size;
		s->definitions = calloc(size, sizeof(*s->definitions));
	}
	if (!s || !s->definitions) {
		ip_tail_symbols_destroy(s);
		ip_error("out of memory");
		return NULL;
	}
	for (size_t i = 0; i < modules->n; i++) {
		if (!s->readable[i])
			continue;
		each_symbol(&modules->items[i], define, s);
		if (modules->items[i].list && add_slots(s, &modules->items[i]) < 0) {
			ip_tail_symbols_destroy(s);
			return NULL;
		}
	}
	if (s->nslots)
		qsort(s->slots, s->nslots, sizeof(*s->slots), by_address);
	return s;
}

void ip_tail_symbols_destroy(struct ip_tail_symbols *s)
{
	if (!s)
		return;
	free(s->definitions);
	free(s->slots);
	free(s->readable);
	free(s);
}

static const struct slot *find_slot(const struct ip_tail_symbols *s, uint64_t address)
{
	const struct slot key = {.address = address};

	return s->nslots ? bsearch(&key, s->slots, s->nslots, sizeof(*s->slots), by_address) : NULL;
}

bool ip_tail_symbols_is_slot(const struct ip_tail_symbols *s, uint64_t slot)
{
	return find_slot(s, slot) != NULL;
}

uint64_t ip_tail_symbols_find(const struct ip_tail_symbols *s, uint64_t slot)
{
	const struct slot *found = s->blind ? NULL : find_slot(s, slot);

	return found ? definition_of(s, found->name)->address : 0;
}
