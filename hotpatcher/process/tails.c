/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows tail jumps. See tails.h.
 */
#include "hotpatcher/process/tails.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "hotpatcher/arch/x86_64/calls.h"
#include "hotpatcher/process/plt.h"
#include "hotpatcher/process/tail_symbols.h"

#define WINDOW (64u << 10) /* bytes of text read at once: sites come in order of address */
/* bytes that are looked at: the NOPs that fill a site up, and a jump; or a linker's stub */
#define JUMP_MAX 32u

_Static_assert(JUMP_MAX >= IP_PLT_LENGTH, "a stub");

/* A function to which a jump can be followed; address 0: none. */
struct place {
	uint64_t address;
	uint32_t module, function;
};

struct ip_tails {
	const struct ip_target *target;
	const struct ip_modules *modules;
	struct place *places; /* by hash of the address, half full at most; NULL: not needed yet */
	size_t size;	      /* a power of two */
	struct ip_tail_symbols *symbols; /* NULL: not needed yet */
	uint64_t window;
	size_t window_size;
	uint8_t bytes[WINDOW];
};

static size_t slot_of(const struct ip_tails *t, uint64_t address)
{
	return (address * 0x9e3779b97f4a7c15ull >> 20) & (t->size - 1);
}

static const struct place *find(const struct ip_tails *t, uint64_t address)
{
	for (size_t i = slot_of(t, address); t->places[i].address; i = (i + 1) & (t->size - 1))
		if (t->places[i].address == address)
			return &t->places[i];
	return NULL;
}

static void add(struct ip_tails *t, uint64_t address, uint32_t module, uint32_t function)
{
	size_t i = slot_of(t, address);

	while (t->places[i].address && t->places[i].address != address)
		i = (i + 1) & (t->size - 1);
	if (!t->places[i].address)
		t->places[i] = (struct place){address, module, function};
}

/* Whether a jump to the function of this entry site can be followed. In other placements the entry
 * site lies behind the prologue, where the stack pointer is another than at the jump. */
static bool is_followable(const struct ip_pl_probe *p)
{
	return p->kind == IP_PROBE_ENTRY && p->regs == IP_REGS_ENTRY && p->form == IP_FORM_CALL &&
	       !(p->flags & (IP_PROBE_INLINED | IP_PROBE_ENTRY_ONLY));
}

/* Adds the functions of module m. A function begins where its symbol says, or at the site. There
 * may be an endbr64 in front of the site. */
static void add_module(struct ip_tails *t, uint32_t m)
{
	const struct ip_module *module = &t->modules->items[m];
	const struct ip_probe_list *list = module->list;

	for (uint32_t i = 0; i < list->header->nprobes; i++) {
		const struct ip_pl_probe *p = &list->probes[i];
		uint64_t start = list->functions[p->function].address;

		if (!is_followable(p))
			continue;
		if (!start)
			start = p->offset;
		if (p->offset >= start && p->offset - start <= 4)
			add(t, module->load_bias + start, m, p->function);
	}
}

static bool have_places(struct ip_tails *t)
{
	const struct ip_modules *modules = t->modules;
	size_t n = 0;

	if (t->places)
		return true;
	for (size_t m = 0; m < modules->n; m++)
		for (uint32_t i = 0;
		     modules->items[m].list && i < modules->items[m].list->header->nprobes; i++)
			n += modules->items[m].list->probes[i].kind == IP_PROBE_ENTRY;
	for (t->size = 64; t->size < 2 * n;)
		t->size *= 2;
	t->places = calloc(t->size, sizeof(*t->places));
	for (size_t m = 0; t->places && m < modules->n; m++)
		if (modules->items[m].list)
			add_module(t, m);
	return t->places;
}

struct ip_tails *ip_tails_create(const struct ip_target *target, const struct ip_modules *modules)
{
	struct ip_tails *t = calloc(1, sizeof(*t));

	if (!t) {
		ip_error("out of memory");
		return NULL;
	}
	t->target = target;
	t->modules = modules;
	return t;
}

void ip_tails_destroy(struct ip_tails *t)
{
	if (!t)
		return;
	ip_tail_symbols_destroy(t->symbols);
	free(t->places);
	free(t);
}

/* Reads JUMP_MAX bytes of code. At the end of a mapping there may be less: then zeros follow. */
static bool read_code(struct ip_tails *t, uint64_t address, uint8_t *ret)
{
	const struct ip_mapping *m = ip_maps_find(&t->target->maps, address);
	size_t size;

	if (!m || m->perms[2] != 'x')
		return false;
	size = m->end - address < JUMP_MAX ? m->end - address : JUMP_MAX;
	if (address < t->window || address - t->window + size > t->window_size) {
		uint64_t start = address & ~4095ull;
		uint64_t most = m->end - start < WINDOW ? m->end - start : WINDOW;

		start = start < m->start ? m->start : start;
		t->window = start;
		t->window_size = most;
		if (ip_target_read(t->target, start, t->bytes, most) < 0) {
			t->window_size = 0;
			return false;
		}
	}
	memset(ret, 0, JUMP_MAX);
	memcpy(ret, t->bytes + (address - t->window), size);
	return true;
}

/* Whether the pointer in a linker's table is still unbound. It leads into the module that has the
 * table then, to where the dynamic linker finds the function. */
static bool is_unbound(const struct ip_tails *t, uint64_t slot, uint64_t to)
{
	const struct ip_module *owner = NULL;

	for (size_t i = 0; i < t->modules->n && !owner; i++)
		if (slot >= t->modules->items[i].start && slot < t->modules->items[i].end)
			owner = &t->modules->items[i];
	/* before the relocations are done, the pointer is the link-time address, or 0 */
	return owner &&
	       ((to >= owner->start && to < owner->end) ||
		(to + owner->load_bias >= owner->start && to + owner->load_bias < owner->end) ||
		!to);
}

static const struct ip_tail_symbols *symbols_of(struct ip_tails *t)
{
	if (!t->symbols)
		t->symbols = ip_tail_symbols_create(t->modules);
	return t->symbols;
}

/* The function that a pointer in a linker's table leads to. *ret_lasting: it will always lead
 * there. */
static const struct place *through_slot(struct ip_tails *t, uint64_t slot, bool *ret_lasting)
{
	const struct place *found;
	uint64_t to = 0;

	*ret_lasting = false;
	if (!ip_maps_find(&t->target->maps, slot) ||
	    ip_target_read(t->target, slot, &to, t->target->arch->bits / 8) < 0)
		return NULL;
	found = to ? find(t, to) : NULL;
	*ret_lasting = found || !is_unbound(t, slot, to);
	if (*ret_lasting)
		return found;
	to = symbols_of(t) ? ip_tail_symbols_find(t->symbols, slot) : 0;
	return to ? find(t, to) : NULL;
}

/* Bytes of the NOP at b, if it is one of those that compilers and assemblers fill with; 0: it is
 * none. NOP_MAX bytes must be readable at b. */
#define NOP_MAX 8u
static unsigned nop_length(const uint8_t *b)
{
	unsigned n = 0, mod, rm;

	while (n < 3 && (b[n] == 0x66 || b[n] == 0x2e)) /* data16, cs */
		n++;
	if (b[n] == 0x90)
		return n + 1;
	if (b[n] != 0x0f || b[n + 1] != 0x1f)
		return 0;
	mod = b[n + 2] >> 6;
	rm = b[n + 2] & 7;
	return n + 3 + (mod != 3 && rm == 4) + (mod == 1 ? 1 : mod == 2 ? 4 : 0);
}

/* The slot of the PLT entry at this address, which may be live; 0: there is none. */
static uint64_t slot_of_plt(struct ip_tails *t, uint64_t address)
{
	const uint64_t slot = ip_plt_slot_in(t->modules, address);
	uint8_t bytes[JUMP_MAX];

	if (slot)
		return slot;
	return read_code(t, address, bytes)
		       ? ip_call_plt_slot(t->target->arch->bits, address, bytes)
		       : 0;
}

/* The function that a direct jump to this address enters, also through a linker's stub; NULL: none.
 * *ret_lasting becomes false if that may change. */
static const struct place *enters(struct ip_tails *t, uint64_t to, bool *ret_lasting)
{
	const struct place *found = find(t, to);
	uint64_t slot = found ? 0 : slot_of_plt(t, to);

	return slot ? through_slot(t, slot, ret_lasting) : found;
}

/* The function that the jump of the site, or behind it, enters; NULL: none. *ret_lasting: the
 * answer holds as long as the modules are the same. */
static const struct place *follow(struct ip_tails *t, const struct ip_module *module,
				  const struct ip_pl_probe *probe, bool *ret_lasting)
{
	uint64_t address = module->load_bias + probe->offset + probe->length, to;
	unsigned bits = t->target->arch->bits;
	const struct place *found = NULL;
	uint8_t bytes[2 * JUMP_MAX + NOP_MAX] = {0};
	const uint8_t *b = bytes;
	enum ip_call_form form;

	if (probe->form == IP_FORM_TAIL) { /* the site is the jump */
		*ret_lasting = true;
		return enters(t, address + (uint64_t)(int64_t)probe->jump, ret_lasting);
	}
	*ret_lasting = false;
	if (!read_code(t, address, bytes))
		return NULL;
	*ret_lasting = true;
	for (unsigned n; b < bytes + JUMP_MAX - NOP_MAX && (n = nop_length(b));)
		b += n;
	while ((*b == 0xf2 || *b == 0x3e) && b < bytes + JUMP_MAX) /* bnd, notrack */
		b++;
	address += b - bytes;
	form = *b == 0xe8 ? IP_CALL_NONE : ip_call_at(bits, address, b, &to);
	if (*b == 0xeb) {
		form = IP_CALL_DIRECT;
		to = address + 2 + (uint64_t)(int64_t)(int8_t)b[1];
	}
	if (form == IP_CALL_DIRECT) {
		found = enters(t, to, ret_lasting);
	} else if (form == IP_CALL_SLOT && b[1] == 0x25 && symbols_of(t) &&
		   ip_tail_symbols_is_slot(t->symbols, to)) {
		/* -fno-plt; a pointer variable of the program's looks the same, and may change */
		found = through_slot(t, to, ret_lasting);
	}
	return found;
}

bool ip_tails_follow(struct ip_tails *t, const struct ip_module *module,
		     const struct ip_pl_probe *probe, uint32_t *ret_module, uint32_t *ret_function)
{
	struct ip_jump *known = &module->jumps[probe - module->list->probes];
	const struct place *found;
	bool lasting;

	if (!ip_probe_jumps(probe))
		return false;
	if (known->state == IP_JUMP_UNKNOWN) {
		found = have_places(t) ? follow(t, module, probe, &lasting) : NULL;
		if (found)
			*known = (struct ip_jump){IP_JUMP_FOUND, found->module, found->function};
		else if (t->places && lasting)
			known->state = IP_JUMP_NOWHERE;
	}
	*ret_module = known->module;
	*ret_function = known->function;
	return known->state == IP_JUMP_FOUND;
}
