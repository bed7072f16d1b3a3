/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lays out the stubs of a module. See stub_layout.h.
 *
 * Jump stubs come first, since they are the larger ones. So each stub is aligned to its size.
 */
#include "hotpatcher/plan/stub_layout.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/process/tails.h"

#define RETURNS 5u /* behind enum ip_probe_kind */

/* An exit that is a return has another hook than an exit that calls its stub. */
static unsigned kind_of(const struct ip_pl_probe *p)
{
	return ip_probe_returns(p->kind, p->form) ? RETURNS : p->kind;
}

bool ip_probe_has_values(const struct ip_pl_probe *p)
{
	return (p->kind == IP_PROBE_ENTRY && p->regs == IP_REGS_ENTRY) ||
	       (p->kind == IP_PROBE_EXIT && p->regs == IP_REGS_RETURN) ||
	       (p->kind == IP_PROBE_POINT && p->args);
}

/* The probes that have the stubs which others share. A function has a chain of them: one for each
 * key, of which there are 40 at most. Most functions have two probes, one behind the
 * other, while a table of all keys of all functions would take more memory than the list. */
struct sharers {
	const struct ip_probe_list *list;
	uint32_t *newest; /* by function: 1 + the probe that came last; 0: none */
	uint32_t *next;	  /* by probe: 1 + the one before it in the chain; 0: none */
};

/* What stubs of one function have in common with each other, or not. */
enum key {
	PLAIN,	     /* instance, kind and registers */
	WITH_VALUES, /* instance and kind */
	OF_JUMPS,    /* registers */
};

static bool shares(const struct ip_pl_probe *a, const struct ip_pl_probe *b, enum key key)
{
	if (key != WITH_VALUES && a->regs != b->regs)
		return false;
	return key == OF_JUMPS ||
	       (kind_of(a) == kind_of(b) && !((a->flags ^ b->flags) & IP_PROBE_INLINED));
}

/* Returns the probe whose stub probe i shares; i itself: it gets a new one. */
static uint32_t first_of(struct sharers *s, uint32_t i, enum key key)
{
	const struct ip_pl_probe *probes = s->list->probes;
	uint32_t *newest = &s->newest[probes[i].function];

	for (uint32_t at = *newest; at; at = s->next[at - 1])
		if (shares(&probes[at - 1], &probes[i], key))
			return at - 1;
	s->next[i] = *newest;
	*newest = i + 1;
	return i;
}

static void forget(struct sharers *s)
{
	memset(s->newest, 0, s->list->header->nfunctions * sizeof(*s->newest));
}

/* Places the payload stubs, from *size on. */
static void place_payloads(const struct ip_arch *arch, struct sharers *sharers, bool any_own,
			   struct ip_stub_layout *map, uint64_t *size)
{
	const struct ip_probe_list *list = sharers->list;
	uint64_t align = arch->jump_stub_size;

	*size = (*size + align - 1) / align * align;
	for (int own = any_own; own >= 0; own--) {
		for (uint32_t i = 0; i < list->header->nprobes; i++) {
			const struct ip_pl_probe *p = &list->probes[i];
			uint32_t first = i;

			if (!ip_probe_has_values(p) || own != ip_form_has_own_stub(p->form))
				continue;
			if (!own && p->kind != IP_PROBE_POINT)
				first = first_of(sharers, i, WITH_VALUES);
			if (map->payload_offsets) {
				map->payload_offsets[i] =
					first == i ? *size : map->payload_offsets[first];
				map->payloads[i] =
					first == i ? map->npayloads : map->payloads[first];
			}
			if (first != i)
				continue;
			map->npayloads++;
			*size += own ? arch->jump_stub_size : arch->stub_size;
			if (*size > UINT32_MAX / 2)
				return;
		}
	}
}

/* Places the stubs with second numbers, from *size on. */
static void place_jumps(const struct ip_arch *arch, struct sharers *sharers, bool any_own,
			struct ip_stub_layout *map, uint64_t *size)
{
	const struct ip_probe_list *list = sharers->list;

	for (int own = any_own; own >= 0; own--) {
		for (uint32_t i = 0; i < list->header->nprobes; i++) {
			const struct ip_pl_probe *p = &list->probes[i];
			uint32_t first;

			if (!ip_probe_jumps(p) || own != ip_form_has_own_stub(p->form))
				continue;
			first = own ? i : first_of(sharers, i, OF_JUMPS);
			map->jump_offsets[i] = first == i ? *size : map->jump_offsets[first];
			if (first != i)
				continue;
			*size += own ? arch->jump_stub_size : arch->stub_size;
			if (*size > UINT32_MAX / 2)
				return;
		}
	}
}

/* Places the stubs of all probes, but for the payload stubs and those with second numbers. */
static void place_plain(const struct ip_arch *arch, struct sharers *sharers, bool any_own,
			struct ip_stub_layout *map, uint64_t *size)
{
	const struct ip_probe_list *list = sharers->list;

	for (int own = any_own; own >= 0; own--) {
		for (uint32_t i = 0; i < list->header->nprobes; i++) {
			uint32_t first = i;

			if (own != ip_form_has_own_stub(list->probes[i].form))
				continue;
			if (!own)
				first = first_of(sharers, i, PLAIN);
			map->offsets[i] = first == i ? *size : map->offsets[first];
			if (first != i)
				continue;
			*size += own ? arch->jump_stub_size : arch->stub_size;
			if (*size > UINT32_MAX / 2)
				return;
		}
	}
}

/* Returns the size of all stubs; of too many it is any size above the limit. */
static uint64_t place(const struct ip_arch *arch, struct sharers *sharers,
		      struct ip_stub_layout *map)
{
	const struct ip_probe_list *list = sharers->list;
	bool any_own = false, any_jumps = false;
	uint64_t size = 0, align = arch->jump_stub_size;

	for (uint32_t i = 0; i < list->header->nprobes; i++) {
		any_own |= ip_form_has_own_stub(list->probes[i].form);
		any_jumps |= ip_probe_jumps(&list->probes[i]);
	}
	place_plain(arch, sharers, any_own, map, &size);
	if (size > UINT32_MAX / 2)
		return size;
	forget(sharers);
	place_payloads(arch, sharers, any_own, map, &size);
	if (size > UINT32_MAX / 2)
		return size;
	size = (size + align - 1) / align * align;
	if (any_jumps) {
		forget(sharers);
		place_jumps(arch, sharers, any_own, map, &size);
	}
	return size;
}

int ip_stub_layout_make(const struct ip_probe_list *list, const struct ip_arch *arch, bool values,
			struct ip_stub_layout *ret)
{
	const size_t n = list->header->nprobes + 1ull;
	_cleanup_free_ uint32_t *newest = calloc(list->header->nfunctions + 1ull, sizeof(*newest)),
				*next = calloc(n, sizeof(*next));
	struct sharers sharers = {list, newest, next};

	*ret = (struct ip_stub_layout){.offsets = calloc(n, sizeof(*ret->offsets)),
				       .jump_offsets = calloc(n, sizeof(*ret->jump_offsets))};
	if (values) {
		ret->payload_offsets = calloc(n, sizeof(*ret->payload_offsets));
		ret->payloads = calloc(n, sizeof(*ret->payloads));
	}
	if (!newest || !next || !ret->offsets || !ret->jump_offsets ||
	    (values && (!ret->payload_offsets || !ret->payloads))) {
		ip_stub_layout_clear(ret);
		return ip_error("out of memory");
	}
	ret->size = place(arch, &sharers, ret);
	if (ret->size <= UINT32_MAX / 2)
		return 0;
	ip_stub_layout_clear(ret);
	return ip_error("too many probes: their stubs take more than 2 GiB");
}

void ip_stub_layout_clear(struct ip_stub_layout *map)
{
	free(map->offsets);
	free(map->payload_offsets);
	free(map->payloads);
	free(map->jump_offsets);
	*map = (struct ip_stub_layout){0};
}
