// SPDX-License-Identifier: Apache-2.0
/*
 * Reads PLTs. See plt.h. The file is input from outside: libelf checks offsets and sizes, and sites
 * that lie in no executable segment make the whole list invalid (modules.c).
 */
#include "hotpatcher/process/plt.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/selection/selection.h"
#include "hotpatcher/arch/x86_64/calls.h"
#include "hotpatcher/process/linker_slots.h"

#define SITE_LENGTH   6u	  /* ff 25 rel32 */
#define SITE_AT_MOST  10u	  /* bytes of the entry in front of it (ip_call_plt_jump()) */
#define SECTIONS_MOST (16u << 20) /* a million entries */

struct slot {
	uint64_t address;
	const char *symbol;
};

struct slots {
	struct slot *items; /* by address */
	size_t n;
};

static int take_slot(void *context, uint64_t address, const char *symbol)
{
	struct slots *s = context;

	if (ip_array_grow(&s->items, s->n, sizeof(*s->items)) < 0)
		return -1;
	s->items[s->n++] = (struct slot){address, symbol};
	return 0;
}

static int by_address(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static int by_site(const void *a, const void *b)
{
	const struct ip_plt_entry *x = a, *y = b;

	return x->site < y->site ? -1 : x->site > y->site;
}

/* Whether the section is a part of the PLT: .plt, .plt.sec, .plt.got. *left: bytes that sections of
 * this file may still have together, whatever its headers say. */
static bool is_plt(const struct ip_elf_file *elf, Elf_Scn *section, GElf_Shdr *ret, uint64_t *left)
{
	size_t names;
	const char *name;

	if (!gelf_getshdr(section, ret) || ret->sh_type != SHT_PROGBITS ||
	    !(ret->sh_flags & SHF_ALLOC) || !(ret->sh_flags & SHF_EXECINSTR) ||
	    ret->sh_size > *left || elf_getshdrstrndx(elf->elf, &names) != 0)
		return false;
	name = elf_strptr(elf->elf, names, ret->sh_name);
	if (!name || strncmp(name, ".plt", 4) || (name[4] && name[4] != '.'))
		return false;
	*left -= ret->sh_size;
	return true;
}

/* Reads the entries of a section. An entry has 16 bytes, or 8 where it is nothing but the jump: the
 * section tells. So no jump is looked for in the middle of an instruction. */
static int read_section(const Elf_Data *data, const GElf_Shdr *header, const struct slots *slots,
			struct ip_plt *ret)
{
	const size_t size = header->sh_entsize == 8 ? 8 : 16;

	for (size_t at = 0; at + size <= data->d_size; at += size) {
		const uint64_t address = header->sh_addr + at;
		uint8_t bytes[IP_PLT_LENGTH] = {0};
		struct slot key, *slot;

		memcpy(bytes, (const char *)data->d_buf + at, size);
		key.address = ip_call_plt_slot(64, address, bytes);
		slot = key.address ? bsearch(&key, slots->items, slots->n, sizeof(key), by_address)
				   : NULL;
		if (!slot)
			continue;
		if (ip_array_grow(&ret->items, ret->n, sizeof(*ret->items)) < 0)
			return -1;
		ret->items[ret->n++] = (struct ip_plt_entry){address + ip_call_plt_jump(bytes),
							     slot->address, slot->symbol};
	}
	return 0;
}

static int read_sections(const struct ip_elf_file *elf, const struct slots *slots,
			 struct ip_plt *ret)
{
	uint64_t left = SECTIONS_MOST;

	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf->elf, section));) {
		GElf_Shdr header;
		Elf_Data *data =
			is_plt(elf, section, &header, &left) ? elf_getdata(section, NULL) : NULL;

		if (data && data->d_buf && read_section(data, &header, slots, ret) < 0)
			return -1;
	}
	if (ret->n)
		qsort(ret->items, ret->n, sizeof(*ret->items), by_site);
	return 0;
}

int ip_plt_find(const struct ip_elf_file *elf, struct ip_plt *ret)
{
	struct slots slots = {0};
	int done = 0;

	*ret = (struct ip_plt){0};
	if (elf->ehdr.e_machine != EM_X86_64 || ip_linker_tables_size(elf) > IP_LINKER_TABLES_MOST)
		return 0;
	done = ip_linker_slots_each(elf, take_slot, &slots);
	if (done == 0 && slots.n) {
		qsort(slots.items, slots.n, sizeof(*slots.items), by_address);
		done = read_sections(elf, &slots, ret);
	}
	free(slots.items);
	if (done < 0)
		ip_plt_clear(ret);
	return done;
}

void ip_plt_clear(struct ip_plt *plt)
{
	free(plt->items);
	*plt = (struct ip_plt){0};
}

/* An entry of the list's new part, sorted by its name. */
struct named {
	const char *symbol;
	size_t entry;
};

static int by_symbol(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	int order = strcmp(x->symbol, y->symbol);

	return order ? order : x->entry < y->entry ? -1 : x->entry > y->entry;
}

/* Makes the names of the functions, each once: a function may have an entry in .plt and another one
 * in .plt.got. Sets the functions of the probes. Returns how many there are; -1 with an error. */
static ssize_t make_names(const struct ip_plt *plt, struct ip_pl_probe *probes, char **names)
{
	_cleanup_free_ struct named *named = calloc(plt->n, sizeof(*named));
	size_t n = 0;

	if (!named)
		return ip_error("out of memory");
	for (size_t i = 0; i < plt->n; i++)
		named[i] = (struct named){plt->items[i].symbol, i};
	qsort(named, plt->n, sizeof(*named), by_symbol);
	for (size_t i = 0; i < plt->n; i++) {
		if (i == 0 || strcmp(named[i].symbol, named[i - 1].symbol) != 0) {
			if (asprintf(&names[n], "%s%s", named[i].symbol, IP_PLT_SUFFIX) < 0) {
				names[n] = NULL;
				return ip_error("out of memory");
			}
			n++;
		}
		probes[named[i].entry].function = n - 1;
	}
	return (ssize_t)n;
}

static int extend(struct ip_module *module, const struct ip_plt *plt)
{
	_cleanup_free_ struct ip_pl_probe *probes = calloc(plt->n, sizeof(*probes));
	char **names = calloc(plt->n, sizeof(*names));
	struct ip_probe_list *longer;
	int done = -1;
	ssize_t n;

	if (!probes || !names) {
		free(names);
		return ip_error("out of memory");
	}
	for (size_t i = 0; i < plt->n; i++) {
		const struct ip_plt_entry *e = &plt->items[i];

		probes[i] =
			(struct ip_pl_probe){.offset = e->site,
					     .kind = IP_PROBE_ENTRY,
					     .length = SITE_LENGTH,
					     .flags = IP_PROBE_ENTRY_ONLY,
					     .form = IP_FORM_PLT,
					     .regs = IP_REGS_ALL,
					     .jump = (int32_t)(e->slot - e->site - SITE_LENGTH)};
	}
	n = make_names(plt, probes, names);
	if (n >= 0)
		done = ip_probe_list_extend(module->list, (const char *const *)names, n, probes,
					    plt->n, &longer);
	for (size_t i = 0; i < plt->n; i++)
		free(names[i]);
	free(names);
	if (done < 0)
		return ip_error_prefix("%s: its PLT", module->path);
	ip_probe_list_destroy(module->list);
	module->list = longer;
	module->plt = true;
	return 0;
}

int ip_plt_add(struct ip_module *module)
{
	struct ip_plt plt;
	int done = ip_plt_find(module->elf, &plt);

	if (done == 0 && plt.n)
		done = extend(module, &plt);
	ip_plt_clear(&plt);
	return done;
}

bool ip_plt_is_changed(const struct ip_target *target, const struct ip_module *module)
{
	const struct ip_elf_file *elf = module->elf;
	uint64_t left = SECTIONS_MOST;
	bool changed = false;

	if (elf->ehdr.e_machine != EM_X86_64)
		return false;
	for (Elf_Scn *section = NULL; !changed && (section = elf_nextscn(elf->elf, section));) {
		GElf_Shdr header;
		Elf_Data *data =
			is_plt(elf, section, &header, &left) ? elf_getdata(section, NULL) : NULL;
		_cleanup_free_ void *memory = data && data->d_buf ? malloc(data->d_size + 1) : NULL;

		/* what cannot be read is not live; the error is nobody's */
		changed = memory &&
			  ip_target_read(target, module->load_bias + header.sh_addr, memory,
					 data->d_size) == 0 &&
			  memcmp(memory, data->d_buf, data->d_size) != 0;
	}
	return changed;
}

uint64_t ip_plt_slot(const struct ip_module *module, uint64_t address)
{
	const struct ip_probe_list *list = module->plt ? module->list : NULL;
	const uint64_t offset = address - module->load_bias;
	uint32_t low = 0, high = list ? list->header->nprobes : 0;

	while (low < high) { /* the first probe at or behind the entry's start */
		uint32_t middle = low + (high - low) / 2;

		if (list->probes[middle].offset < offset)
			low = middle + 1;
		else
			high = middle;
	}
	if (!list || low == list->header->nprobes || list->probes[low].form != IP_FORM_PLT ||
	    list->probes[low].offset - offset > SITE_AT_MOST)
		return 0;
	return module->load_bias + list->probes[low].offset + SITE_LENGTH +
	       (uint64_t)(int64_t)list->probes[low].jump;
}

uint64_t ip_plt_slot_in(const struct ip_modules *modules, uint64_t address)
{
	for (size_t i = 0; i < modules->n; i++) {
		const struct ip_module *m = &modules->items[i];

		if (address >= m->start && address < m->end)
			return ip_plt_slot(m, address);
	}
	return 0;
}
