/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads calls out of the files of a live process, and follows them in its memory.
 *
 * A function reaches from its address to the end that its symbol tells; without a symbol table, up
 * to the next function that has probes. Code that the compiler has moved elsewhere (.cold) is not
 * looked at.
 */
#include "hotpatcher/process/call_search.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/elf/elf_symbols.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "hotpatcher/arch/x86_64/calls.h"
#include "hotpatcher/process/plt.h"

/* the most bytes of a function: compilers make none longer, so a longer one means a mistake of
 * ours */
#define CODE_MAX (1u << 20)

static int by_address(const void *a, const void *b)
{
	const struct ip_call_place *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

const char *ip_call_place_name(const struct ip_call_place *p)
{
	return ip_probe_list_string(p->module->list, p->module->list->functions[p->function].name);
}

static int collect(struct ip_call_search *s)
{
	for (size_t m = 0; m < s->modules.n; m++) {
		const struct ip_module *module = &s->modules.items[m];
		uint32_t n = module->list ? module->list->header->nfunctions : 0;

		for (uint32_t i = 0; i < n; i++) {
			uint64_t address = module->list->functions[i].address;

			if (!address)
				continue;
			if (ip_array_grow(&s->places, s->n, sizeof(*s->places)) < 0)
				return -1;
			s->places[s->n++] =
				(struct ip_call_place){.address = address + module->load_bias,
						       .module = module,
						       .function = i};
		}
	}
	if (s->n)
		qsort(s->places, s->n, sizeof(*s->places), by_address);
	return 0;
}

int ip_call_search_open(pid_t pid, struct ip_call_search *ret)
{
	*ret = (struct ip_call_search){0};
	if (ip_target_open(pid, false, &ret->target) < 0 ||
	    ip_modules_load(ret->target, &ret->modules) < 0 || collect(ret) < 0)
		return -1;
	ret->sized = calloc(ret->modules.n + 1, sizeof(*ret->sized));
	return ret->sized ? 0 : ip_error("out of memory");
}

void ip_call_search_clear(struct ip_call_search *s)
{
	free(s->places);
	free(s->sized);
	free(s->callees);
	ip_modules_clear(&s->modules);
	if (s->target)
		ip_target_close(s->target);
	*s = (struct ip_call_search){0};
}

static struct ip_call_place *find(const struct ip_call_search *s, uint64_t address)
{
	const struct ip_call_place key = {.address = address};

	return s->n ? bsearch(&key, s->places, s->n, sizeof(*s->places), by_address) : NULL;
}

struct symbols {
	const struct ip_call_search *search;
	const struct ip_module *module;
};

/* Several places may have one address: two names of a function. */
static void take_symbol(void *context, const GElf_Sym *symbol)
{
	const struct symbols *from = context;
	const struct ip_call_search *s = from->search;
	struct ip_call_place *p;

	if (!symbol->st_size || GELF_ST_TYPE(symbol->st_info) != STT_FUNC)
		return;
	p = find(s, symbol->st_value + from->module->load_bias);
	while (p && p > s->places && p[-1].address == p->address)
		p--;
	for (uint64_t address = p ? p->address : 0;
	     p && p < s->places + s->n && p->address == address; p++)
		if (!p->size && p->module == from->module)
			p->size = symbol->st_size;
}

/* A table that cannot be read tells no sizes. */
static int read_sizes(struct ip_call_search *s, const struct ip_module *module)
{
	const struct symbols symbols = {s, module};
	bool *sized = &s->sized[module - s->modules.items];

	if (*sized)
		return 0;
	*sized = true;
	return ip_elf_each_symbol(module->elf, take_symbol, (void *)&symbols) < 0 && ip_interrupted
		       ? -1
		       : 0;
}

static uint64_t size_of(const struct ip_call_search *s, const struct ip_call_place *p)
{
	const struct ip_mapping *text = ip_maps_find(&s->target->maps, p->address);
	uint64_t size = p->size, most = text ? text->end - p->address : 0;

	for (const struct ip_call_place *next = p + 1; !size && next < s->places + s->n; next++)
		size = next->address - p->address; /* 0 if one place has two names */
	if (!size || size > most)
		size = most;
	return size < CODE_MAX ? size : CODE_MAX;
}

static bool is_code(const struct ip_call_search *s, uint64_t address)
{
	const struct ip_mapping *m = ip_maps_find(&s->target->maps, address);

	return m && m->perms[2] == 'x' && address + IP_PLT_LENGTH <= m->end;
}

/* Where the pointer at the address slot points; 0: it cannot be read. */
static uint64_t follow(const struct ip_call_search *s, uint64_t slot)
{
	uint64_t address = 0;

	if (!ip_maps_find(&s->target->maps, slot) ||
	    ip_target_read(s->target, slot, &address, sizeof(address)) < 0)
		return 0;
	return address;
}

static struct ip_call_place *callee_at(const struct ip_call_search *s, uint64_t address,
				       const uint8_t *bytes)
{
	unsigned bits = s->target->arch->bits;
	uint8_t plt[IP_PLT_LENGTH];
	enum ip_call_form form;
	struct ip_call_place *found;
	uint64_t to, slot;

	form = ip_call_at(bits, address, bytes, &to);
	if (form == IP_CALL_NONE)
		return NULL;
	if (form == IP_CALL_SLOT)
		return find(s, follow(s, to));
	found = find(s, to);
	if (found || !is_code(s, to) || ip_target_read(s->target, to, plt, sizeof(plt)) < 0)
		return found;
	/* one that is live jumps elsewhere */
	slot = ip_plt_slot_in(&s->modules, to);
	slot = slot ? slot : ip_call_plt_slot(bits, to, plt);
	return slot ? find(s, follow(s, slot)) : NULL;
}

/* Whether the bytes call or jump through a register, or a pointer that one leads to. */
static bool is_by_pointer(const uint8_t *bytes)
{
	const unsigned mod = bytes[1] >> 6, operation = bytes[1] >> 3 & 7, rm = bytes[1] & 7;

	return bytes[0] == 0xff && (operation == 2 || operation == 4) && (mod || rm != 5);
}

/* The code as the file has it: in the process, jumps may be live sites, which lead elsewhere. */
static int read_code(const struct ip_call_search *s, const struct ip_call_place *p, uint8_t *code,
		     uint64_t size)
{
	const struct ip_elf_file *elf = p->module->elf;
	const uint64_t address = p->address - p->module->load_bias;

	for (size_t i = 0; i < elf->nloads; i++) {
		const struct ip_elf_segment *load = &elf->loads[i];

		if (address >= load->vaddr && address - load->vaddr < load->filesz &&
		    size <= load->filesz - (address - load->vaddr) &&
		    pread(elf->fd, code, size, load->offset + (address - load->vaddr)) ==
			    (ssize_t)size)
			return 0;
	}
	return ip_target_read(s->target, p->address, code, size);
}

/* Whether the bytes jump, where they call or jump at all. */
static bool is_jump(const uint8_t *bytes)
{
	return bytes[0] == 0xe9 || (bytes[0] == 0xff && (bytes[1] >> 3 & 7) == 4);
}

static int check_bounds(struct ip_call_search *s, uint64_t size)
{
	if (ip_interrupted)
		return ip_error("interrupted");
	s->scanned += size;
	if (s->scanned <= IP_CALL_SEARCH_MOST)
		return 0;
	return ip_error("pid %d: the calls of this function lead through more than %u MiB of code, "
			"which is not followed",
			s->target->pid, IP_CALL_SEARCH_MOST >> 20);
}

static int add_callee(struct ip_call_search *s, struct ip_call_place *p)
{
	if (p->callee)
		return 0;
	if (ip_array_grow(&s->callees, s->ncallees, sizeof(*s->callees)) < 0)
		return -1;
	p->callee = true;
	s->callees[s->ncallees++] = p;
	return 0;
}

/* jumps: no calls, jumps alone. */
static int scan(struct ip_call_search *s, const struct ip_call_place *caller, bool jumps)
{
	_cleanup_free_ uint8_t *code = NULL;
	uint64_t size;

	if (read_sizes(s, caller->module) < 0)
		return -1;
	size = size_of(s, caller);
	if (check_bounds(s, size) < 0)
		return -1;
	code = calloc(1, size + IP_CALL_LENGTH_MAX);
	if (!code)
		return ip_error("out of memory");
	if (read_code(s, caller, code, size) < 0)
		return -1;
	for (uint64_t i = 0; i < size; i++) {
		struct ip_call_place *p;

		if (jumps && !is_jump(code + i))
			continue;
		p = callee_at(s, caller->address + i, code + i);
		if (p && p != caller && add_callee(s, p) < 0)
			return -1;
		s->pointers |= i + 1 < size && is_by_pointer(code + i);
	}
	return 0;
}

int ip_call_search_scan(struct ip_call_search *s, struct ip_call_place *caller)
{
	if (caller->scanned)
		return 0;
	caller->scanned = true;
	return scan(s, caller, false);
}

int ip_call_search_scan_around(struct ip_call_search *s, uint64_t address)
{
	struct ip_call_place *p;
	size_t low = 0, high = s->n;

	if (ip_interrupted)
		return ip_error("interrupted");
	/* the first one behind it */
	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (s->places[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	p = low ? &s->places[low - 1] : NULL;
	if (p && read_sizes(s, p->module) < 0)
		return -1;
	if (p && address - p->address < size_of(s, p))
		return ip_call_search_scan(s, p);
	s->pointers = true;
	return 0;
}

int ip_call_search_follow_jumps(struct ip_call_search *s)
{
	/* those that are found are looked at, too */
	for (size_t i = 0; i < s->ncallees; i++)
		if (scan(s, s->callees[i], true) < 0)
			return -1;
	return 0;
}
