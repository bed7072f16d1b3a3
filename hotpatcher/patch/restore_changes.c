/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding what has to be put back. See restore_changes.h.
 */
#include "hotpatcher/patch/restore_changes.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "hotpatcher/patch/restore.h"
#include "hotpatcher/patch/site_state.h"

struct restoration {
	const struct ip_target *target;
	uint32_t group; /* of the module's first function */
	struct ip_restore_changes *changes;
};

static int restore_site(void *data, const struct ip_pl_probe *probe, uint64_t address,
			const uint8_t *bytes)
{
	struct restoration *r = data;
	enum ip_site_state s = ip_site_state(r->target, r->target->arch, probe, address, bytes);
	struct ip_change_list *list =
		s == IP_SITE_TRAPPED_LIVE ? &r->changes->tails : &r->changes->whole;
	struct ip_change *c;

	r->changes->all_idle &= s == IP_SITE_IDLE;
	if (!ip_site_is_ours(s))
		return 0;
	if (ip_array_grow(&list->items, list->n, sizeof(*list->items)) < 0)
		return -1;
	c = &list->items[list->n++];
	*c = (struct ip_change){.address = address,
				.length = probe->length,
				.kind = probe->kind,
				.form = probe->form,
				.jump = ip_probe_jump(probe),
				.regs = probe->regs,
				.transit_regs = ip_probe_transit_regs(probe),
				.resident = true,
				.group = r->group + 2 * probe->function +
					 !!(probe->flags & IP_PROBE_INLINED)};
	memcpy(c->old_bytes, bytes, probe->length);
	if (r->target->arch->idle(probe->form, probe->length, c->jump, c->new_bytes) < 0)
		return -1;
	if (s == IP_SITE_TRAPPED_LIVE)
		c->new_bytes[0] = bytes[0];
	return 0;
}

int ip_restore_changes_find(const struct ip_target *target, const struct ip_modules *modules,
			    struct ip_restore_changes *ret)
{
	struct restoration r = {.target = target, .changes = ret};

	*ret = (struct ip_restore_changes){.all_idle = true};
	for (size_t i = 0; i < modules->n; i++) {
		const struct ip_probe_list *list = modules->items[i].list;

		if (!list)
			continue;
		if (!ip_module_is_mapped(target, &modules->items[i]))
			ret->all_idle = false;
		else if (ip_each_site(target, &modules->items[i], restore_site, &r) < 0)
			return -1;
		r.group += 2 * list->header->nfunctions;
	}
	return 0;
}

void ip_restore_changes_clear(struct ip_restore_changes *changes)
{
	free(changes->whole.items);
	free(changes->tails.items);
	*changes = (struct ip_restore_changes){0};
}
