/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Laying stubs out. See stub_map.h.
 *
 * Jump stubs come first, since they are the larger ones: so each is aligned to its size.
 */
#include "hotpatcher/stub_map.h"

#include <stdlib.h>

#include "common/error.h"

#define KINDS 4u
#define REGS  4u

int ip_stub_map_make(const struct ip_probe_list *list, const struct ip_arch *arch, struct ip_stub_map *ret)
{
	uint32_t nprobes = list->header->nprobes;
	/* by function, instance, kind and registers: offset + 1 */
	uint32_t *shared = calloc(list->header->nfunctions * 2ull * KINDS * REGS, sizeof(*shared));
	uint64_t size = 0;

	*ret = (struct ip_stub_map){.offsets = calloc(nprobes ? nprobes : 1ull, sizeof(*ret->offsets))};
	if (!shared || !ret->offsets)
		goto no_memory;
	for (uint32_t i = 0; i < nprobes; i++) {
		if (list->probes[i].form != IP_FORM_JUMP)
			continue;
		ret->offsets[i] = size;
		size += arch->jump_stub_size;
	}
	for (uint32_t i = 0; i < nprobes; i++) {
		const struct ip_pl_probe *p = &list->probes[i];
		uint64_t instance = 2ull * p->function + !!(p->flags & IP_PROBE_INLINED);
		uint32_t *offset = &shared[(instance * KINDS + p->kind - 1) * REGS + p->regs];

		if (p->form == IP_FORM_JUMP)
			continue;
		if (!*offset) {
			*offset = size + 1;
			size += arch->stub_size;
		}
		ret->offsets[i] = *offset - 1;
		if (size > UINT32_MAX / 2) {
			ip_stub_map_clear(ret);
			free(shared);
			return ip_error("too many probes: their stubs take more than 2 GiB");
		}
	}
	ret->size = size;
	free(shared);
	return 0;
no_memory:
	ip_stub_map_clear(ret);
	free(shared);
	return ip_error("out of memory");
}

void ip_stub_map_clear(struct ip_stub_map *map)
{
	free(map->offsets);
	*map = (struct ip_stub_map){0};
}
