/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inspecting and restoring text. See restore.h.
 */
#include "hotpatcher/patch/restore.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/patch/patch_in_place.h"
#include "hotpatcher/patch/restore_changes.h"
#include "hotpatcher/patch/site_state.h"
#include "hotpatcher/patch/stop_batches.h"
#include "hotpatcher/ptrace/stops.h"

int ip_each_site(const struct ip_target *target, const struct ip_module *module,
		 int (*visit)(void *, const struct ip_pl_probe *, uint64_t address,
			      const uint8_t *bytes),
		 void *data)
{
	const size_t piece = 1 << 17;
	_cleanup_free_ uint8_t *text = malloc(piece + IP_SITE_MAX);
	uint64_t start = 0, end = 0; /* the addresses whose bytes text holds */

	if (!text)
		return ip_error("out of memory");
	for (uint32_t i = 0; i < module->list->header->nprobes; i++) {
		const struct ip_pl_probe *probe = &module->list->probes[i];
		uint64_t address = module->load_bias + probe->offset;

		if (address < start || address + probe->length > end) {
			const struct ip_elf_segment *s = NULL;

			for (size_t k = 0; k < module->elf->nloads; k++)
				if (probe->offset >= module->elf->loads[k].vaddr &&
				    probe->offset < module->elf->loads[k].vaddr +
							    module->elf->loads[k].filesz)
					s = &module->elf->loads[k];
			if (!s)
				return ip_error("%s: site at %#lx lies in no segment", module->path,
						probe->offset);
			start = address;
			end = module->load_bias + s->vaddr + s->filesz;
			if (end - start > piece)
				end = start + piece;
			if (ip_target_read(target, start, text, end - start) < 0)
				return -1;
		}
		if (visit(data, probe, address, text + (address - start)) < 0)
			return -1;
	}
	return 0;
}

struct search {
	const struct ip_target *target;
	uint64_t *address;
	uint8_t *bytes;
	unsigned size;
};

/* Ends the walk at the first live site. */
static int take_live(void *data, const struct ip_pl_probe *probe, uint64_t address,
		     const uint8_t *bytes)
{
	struct search *s = data;

	if (ip_site_state(s->target, s->target->arch, probe, address, bytes) != IP_SITE_LIVE)
		return 0;
	*s->address = address;
	memcpy(s->bytes, bytes, probe->length);
	s->size = probe->length;
	return -1;
}

unsigned ip_module_find_live(const struct ip_target *target, const struct ip_module *module,
			     uint64_t *ret_address, uint8_t *ret_bytes)
{
	struct search s = {target, ret_address, ret_bytes, 0};

	ip_each_site(target, module, take_live, &s);
	return s.size;
}

#define INSPECT_TRIES 3

struct inspection {
	const struct ip_target *target;
	struct ip_module_state *state;
};

static void note_foreign(struct ip_module_state *state, uint64_t address)
{
	if (!state->foreign++)
		state->first_foreign = address;
}

static int inspect_site(void *data, const struct ip_pl_probe *probe, uint64_t address,
			const uint8_t *bytes)
{
	struct inspection *in = data;
	enum ip_site_state s = ip_site_state(in->target, in->target->arch, probe, address, bytes);

	in->state->patched += ip_site_is_ours(s);
	in->state->probed += s == IP_SITE_TRAPPED_IDLE || s == IP_SITE_KERNEL;
	if (ip_site_is_foreign(s))
		note_foreign(in->state, address);
	return 0;
}

static bool in_a_site(const struct ip_module *module, uint64_t offset)
{
	const struct ip_probe_list *list = module->list;
	uint32_t low = 0, high = list ? list->header->nprobes : 0;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (list->probes[middle].offset <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low && offset < list->probes[low - 1].offset + list->probes[low - 1].length;
}

static int compare_segment(struct ip_target *target, const struct ip_module *module,
			   const struct ip_elf_segment *s, struct ip_module_state *state)
{
	const size_t piece = 1 << 20;
	_cleanup_free_ uint8_t *memory = malloc(piece), *file = malloc(piece);

	if (!memory || !file)
		return ip_error("out of memory");
	for (uint64_t done = 0; done < s->filesz;) {
		size_t size = s->filesz - done < piece ? s->filesz - done : piece;
		ssize_t got = pread(module->elf->fd, file, size, s->offset + done);

		if (got <= 0)
			return ip_error("%s: cannot read its text at %#lx", module->path,
					s->offset + done);
		size = got;
		if (ip_target_read(target, module->load_bias + s->vaddr + done, memory, size) < 0)
			return -1;
		if (memcmp(memory, file, size)) {
			state->text_matches_file = false;
			for (size_t i = 0; i < size; i++)
				if (memory[i] != file[i] && !in_a_site(module, s->vaddr + done + i))
					note_foreign(state,
						     module->load_bias + s->vaddr + done + i);
		}
		done += size;
	}
	return 0;
}

static int inspect(struct ip_target *target, const struct ip_module *module,
		   struct ip_module_state *ret)
{
	struct inspection in = {target, ret};

	*ret = (struct ip_module_state){.text_matches_file = true};
	if (module->list && ip_each_site(target, module, inspect_site, &in) < 0)
		return -1;
	for (size_t i = 0; i < module->elf->nloads; i++)
		if ((module->elf->loads[i].flags & PF_X) &&
		    compare_segment(target, module, &module->elf->loads[i], ret) < 0)
			return -1;
	return 0;
}

/* Whether the module's text is not mapped any more where it was. */
static bool is_gone(struct ip_target *target, const struct ip_module *module)
{
	const struct ip_mapping *m;

	if (ip_target_refresh(target) < 0)
		return false;
	m = ip_maps_find(&target->maps, module->start);
	return !m || m->inode != module->inode;
}

/* A program may unload a library, and load it or another one in its place, while iprobe reads:
 * bytes that are foreign then were never the module's. */
int ip_module_inspect(struct ip_target *target, const struct ip_module *module,
		      struct ip_module_state *ret)
{
	int done = 0;

	for (int i = 0; i < INSPECT_TRIES; i++) {
		done = inspect(target, module, ret);
		if (done == 0 && !ret->foreign)
			return 0;
		if (is_gone(target, module)) {
			*ret = (struct ip_module_state){.text_matches_file = true};
			return 0;
		}
	}
	return done;
}

static int by_address(const void *a, const void *b)
{
	const struct ip_change *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/* Restores the sites below uprobes. A site that is not as it was any more is left to the next
 * try. */
static int restore_tails(struct ip_target *target, struct ip_change_list *tails,
			 uint64_t deadline_ns, struct ip_patch_result *ret)
{
	struct ip_patch_result result;
	int done;

	qsort(tails->items, tails->n, sizeof(*tails->items), by_address);
	done = ip_patch_in_place(target, tails->items, tails->n, deadline_ns, &result);
	ip_patch_result_append(ret, &result.stops);
	if (done == (int)tails->n)
		return 0;
	ret->transient = done >= 0 || result.transient;
	return done < 0 ? -1
			: ip_error("pid %d: a uprobe came or went on a site just now: try again",
				   target->pid);
}

int ip_restore_collect(struct ip_target *target, const struct ip_modules *modules,
		       struct ip_change **ret, size_t *ret_n)
{
	struct ip_restore_changes r;
	int done = ip_restore_changes_find(target, modules, &r);

	if (done == 0 && r.tails.n)
		done = ip_error(
			"pid %d: there is a uprobe on %zu of its live sites, the first at %#lx",
			target->pid, r.tails.n, r.tails.items[0].address);
	*ret = done < 0 ? NULL : ip_steal_ptr(r.whole.items);
	*ret_n = r.whole.n;
	ip_restore_changes_clear(&r);
	return done;
}

int ip_restore(struct ip_target *target, const struct ip_modules *modules, uint64_t deadline_ns,
	       struct ip_patch_result *ret)
{
	struct ip_restore_changes r;
	int done;

	*ret = (struct ip_patch_result){0};
	ip_stops_of(target)->asleep = 0;
	ip_stops_of(target)->starved = false;
	done = ip_restore_changes_find(target, modules, &r);
	if (done < 0)
		goto out;
	ret->all_idle = r.all_idle;
	if (r.whole.n) {
		done = ip_stop_batches_apply(target, r.whole.items, r.whole.n, deadline_ns, 0,
					     (struct ip_stop_batches_tries){1, false}, ret);
		/* another program has changed a site just now */
		if (done < 0 && !ret->stops.n)
			ret->transient |= ip_target_alive(target);
	}
	if (done == 0 && r.tails.n)
		done = restore_tails(target, &r.tails, deadline_ns, ret);
out:
	ip_restore_changes_clear(&r);
	return done;
}
