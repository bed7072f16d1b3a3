/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lays out the stubs of a module. See stub_layout.h.
 *
 * Jump stubs come first, since they are the larger ones. So each stub is aligned to its size.
 */
#include "hotpatcher/plan/stub_layout.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "hotpatcher/process/tails.h"

#define KINDS	5u /* enum ip_probe_kind, and RETURNS */
#define RETURNS 5u
#define REGS	4u

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

/* Places the payload stubs, from *size on. seen: by function, instance and kind, all 0 at first; 1
 * + the first probe that has the stub. */
static void place_payloads(const struct ip_probe_list *list, const struct ip_arch *arch,
			   uint32_t *seen, struct ip_stub_layout *map, uint64_t *size)
{
	uint64_t align = arch->jump_stub_size;

	*size = (*size + align - 1) / align * align;
	for (int jump = 1; jump >= 0; jump--) {
		for (uint32_t i = 0; i < list->header->nprobes; i++) {
			const struct ip_pl_probe *p = &list->probes[i];
			uint64_t instance = 2ull * p->function + !!(p->flags & IP_PROBE_INLINED);
			uint32_t *first = &seen[instance * KINDS + kind_of(p) - 1];

			if (!ip_probe_has_values(p) || jump != ip_form_has_own_stub(p->form))
				continue;
			if (!jump && p->kind != IP_PROBE_POINT && *first) {
				map->payload_offsets[i] = map->payload_offsets[*first - 1];
				map->payloads[i] = map->payloads[*first - 1];
				continue;
			}
			if (!jump)
				*first = i + 1;
			map->payload_offsets[i] = *size;
			map->payloads[i] = map->npayloads++;
			*size += jump ? arch->jump_stub_size : arch->stub_size;
			if (*size > UINT32_MAX / 2)
				return;
		}
	}
}

/* Places the stubs with second numbers, from *size on. seen: by function and registers, all 0 at
 * first; 1 + the first probe that has the stub. */
static void place_jumps(const struct ip_probe_list *list, const struct ip_arch *arch,
			uint32_t *seen, struct ip_stub_layout *map, uint64_t *size)
{
	uint64_t align = arch->jump_stub_size;

	*size = (*size + align - 1) / align * align;
	for (int jump = 1; jump >= 0; jump--) {
		for (uint32_t i = 0; i < list->header->nprobes; i++) {
			const struct ip_pl_probe *p = &list->probes[i];
			uint32_t *first = &seen[(uint64_t)p->function * REGS + p->regs];

			if (!ip_probe_jumps(p) || jump != ip_form_has_own_stub(p->form))
				continue;
			if (!jump && *first) {
				map->jump_offsets[i] = map->jump_offsets[*first - 1];
				continue;
			}
			if (!jump)
				*first = i + 1;
			map->jump_offsets[i] = *size;
			*size += jump ? arch->jump_stub_size : arch->stub_size;
			if (*size > UINT32_MAX / 2)
				return;
		}
	}
}

int ip_stub_layout_make(const struct ip_probe_list *list, const struct ip_arch *arch,
			struct ip_stub_layout *ret)
{
	uint32_t nprobes = list->header->nprobes;
	/* by function, instance, kind and registers: offset + 1 */
	uint32_t *shared = calloc(list->header->nfunctions * 2ull * KINDS * REGS, sizeof(*shared));
	uint64_t size = 0;

	*ret = (struct ip_stub_layout){
		.offsets = calloc(nprobes ? nprobes : 1ull, sizeof(*ret->offsets)),
		.payload_offsets = calloc(nprobes ? nprobes : 1ull, sizeof(*ret->payload_offsets)),
		.payloads = calloc(nprobes ? nprobes : 1ull, sizeof(*ret->payloads)),
		.jump_offsets = calloc(nprobes ? nprobes : 1ull, sizeof(*ret->jump_offsets))};
	if (!shared || !ret->offsets || !ret->payload_offsets || !ret->payloads ||
	    !ret->jump_offsets)
		goto no_memory;
	for (uint32_t i = 0; i < nprobes; i++) {
		if (!ip_form_has_own_stub(list->probes[i].form))
			continue;
		ret->offsets[i] = size;
		size += arch->jump_stub_size;
	}
	for (uint32_t i = 0; i < nprobes; i++) {
		const struct ip_pl_probe *p = &list->probes[i];
		uint64_t instance = 2ull * p->function + !!(p->flags & IP_PROBE_INLINED);
		uint32_t *offset = &shared[(instance * KINDS + kind_of(p) - 1) * REGS + p->regs];

		if (ip_form_has_own_stub(p->form))
			continue;
		if (!*offset) {
			*offset = size + 1;
			size += arch->stub_size;
		}
		ret->offsets[i] = *offset - 1;
		if (size > UINT32_MAX / 2)
			goto too_many;
	}
	memset(shared, 0, list->header->nfunctions * 2ull * KINDS * sizeof(*shared));
	place_payloads(list, arch, shared, ret, &size);
	if (size > UINT32_MAX / 2)
		goto too_many;
	memset(shared, 0, list->header->nfunctions * 1ull * REGS * sizeof(*shared));
	place_jumps(list, arch, shared, ret, &size);
	if (size > UINT32_MAX / 2)
		goto too_many;
	ret->size = size;
	free(shared);
	return 0;
no_memory:
	ip_stub_layout_clear(ret);
	free(shared);
	return ip_error("out of memory");
too_many:
	ip_stub_layout_clear(ret);
	free(shared);
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
