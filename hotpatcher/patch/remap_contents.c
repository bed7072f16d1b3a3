/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Step 1 of a remap: what each piece was and is to become, and whose bytes are in it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/arch/x86_64/remap.h"
#include "hotpatcher/patch/remap_plan.h"
#include "hotpatcher/patch/site_state.h"

void ip_remap_plan_piece_clear(struct ip_remap_plan_piece *part)
{
	free(part->before);
	free(part->after);
	free(part->file);
}

const struct ip_module *ip_remap_module_of(const struct ip_modules *modules,
					   const struct ip_mapping *m)
{
	for (size_t i = 0; i < modules->n; i++) {
		const struct ip_module *module = &modules->items[i];

		if (module->elf && module->inode == m->inode && m->start >= module->start &&
		    m->end <= module->end)
			return module;
	}
	return NULL;
}

/* The index of the first site that begins at this address or above; the list is sorted by
 * address. */
static uint32_t first_site(const struct ip_module *module, uint64_t address)
{
	const struct ip_probe_list *list = module->list;
	uint64_t offset = address - module->load_bias;
	uint32_t low = 0, high = list ? list->header->nprobes : 0;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (list->probes[middle].offset < offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static uint64_t site_at(const struct ip_module *module, uint32_t i)
{
	return module->load_bias + module->list->probes[i].offset;
}

uint64_t ip_remap_border(const struct ip_module *module, const struct ip_mapping *m,
			 uint64_t address, bool backwards)
{
	while (module && address > m->start && address < m->end) {
		uint32_t i = first_site(module, address);

		if (!i || site_at(module, i - 1) + module->list->probes[i - 1].length <= address)
			break;
		address += backwards ? -IP_REMAP_PAGE : IP_REMAP_PAGE;
	}
	return address;
}

/* Reads the file's image; after the end of the file it has zeros. */
static int read_file(const struct ip_module *module, const struct ip_mapping *m,
		     struct ip_remap_plan_piece *part)
{
	for (size_t done = 0; done < part->size;) {
		ssize_t n = pread(module->elf->fd, part->file + done, part->size - done,
				  m->offset + (part->start - m->start) + done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return ip_error_errno("%s: cannot be read", m->path);
		if (n == 0)
			break;
		done += n;
	}
	return 0;
}

static int check_file(const struct ip_target *target, const struct ip_module *module,
		      const struct ip_mapping *m)
{
	struct stat st;

	if (!module)
		return ip_error("pid %d: text at %#lx is of no module", target->pid, m->start);
	if (fstat(module->elf->fd, &st) < 0 || st.st_ino != m->inode)
		return ip_error("pid %d: %s on disk is not the file that is mapped", target->pid,
				module->path);
	return 0;
}

static int note_function(struct ip_remap_plan *plan, const struct ip_module *module,
			 uint32_t function)
{
	const struct ip_remap_function *last =
		plan->nfunctions ? &plan->functions[plan->nfunctions - 1] : NULL;

	if (last && last->module == module && last->function == function)
		return 0;
	if (ip_array_grow(&plan->functions, plan->nfunctions, sizeof(*plan->functions)) < 0)
		return -1;
	plan->functions[plan->nfunctions++] = (struct ip_remap_function){module, function};
	return 0;
}

/* Marks the live sites of iprobe in mask, which has a byte for each byte of the piece, and notes
 * their functions in the plan. -1 with the reason. */
static int mark_live(struct ip_remap_plan *plan, const struct ip_module *module, bool silently,
		     const struct ip_remap_plan_piece *part, uint8_t *mask, bool *ret_fatal)
{
	const struct ip_target *target = plan->target;
	uint32_t n = module->list ? module->list->header->nprobes : 0;

	for (uint32_t i = first_site(module, part->start); i < n; i++) {
		const struct ip_pl_probe *probe = &module->list->probes[i];
		uint64_t address = site_at(module, i);
		size_t at = address - part->start;

		if (at + probe->length > part->size)
			break;
		if (ip_site_state(target, target->arch, probe, address, part->before + at) !=
		    IP_SITE_LIVE)
			continue;
		if (silently && address / IP_ARCH_FETCH_LINE !=
					(address + probe->length - 1) / IP_ARCH_FETCH_LINE)
			return ip_error("pid %d: the live site at %#lx crosses a cache line, which "
					"on this processor takes a stop",
					target->pid, address);
		memset(mask + at, 1, probe->length);
		if (note_function(plan, module, probe->function) < 0) {
			*ret_fatal = true;
			return -1;
		}
	}
	return 0;
}

/* Finds the first byte that is not the file's, does not change, and is not marked. Returns the
 * piece's size if there is none. */
static size_t find_foreign(const struct ip_remap_plan_piece *p, const uint8_t *mask)
{
	size_t i = 0;

	while (i < p->size &&
	       (p->before[i] == p->file[i] || p->after[i] != p->before[i] || (mask && mask[i])))
		i++;
	return i;
}

static int make_changing(struct ip_remap_plan *plan, const struct ip_module *module, bool silently,
			 struct ip_remap_plan_piece *part, bool *ret_fatal, uint64_t *ret_bad)
{
	_cleanup_free_ uint8_t *mask =
		plan->flags & IP_REMAP_KEEPING ? calloc(1, part->size) : NULL;
	size_t bad;

	if (plan->flags & IP_REMAP_KEEPING) {
		if (!mask) {
			*ret_fatal = true;
			return ip_error("out of memory");
		}
		if (mark_live(plan, module, silently, part, mask, ret_fatal) < 0)
			return -1;
	}
	bad = find_foreign(part, mask);
	if (bad < part->size) {
		*ret_bad = part->start + bad;
		return ip_error("pid %d: text at %#lx is not what its file holds (another "
				"session's site, a breakpoint, a relocation)",
				plan->target->pid, *ret_bad);
	}
	part->kind = IP_REMAP_CHANGING;
	return mask ? 0
		    : ip_error("pid %d: text at %#lx is partly live", plan->target->pid,
			       part->start);
}

int ip_remap_make_images(struct ip_remap_plan *plan, const struct ip_module *module,
			 const struct ip_mapping *m, bool silently, struct ip_remap_plan_piece *ret,
			 bool *ret_fatal, uint64_t *ret_bad)
{
	*ret_fatal = false;
	*ret_bad = 0;
	if (check_file(plan->target, module, m) < 0)
		return -1;
	ret->before = malloc(ret->size);
	ret->after = malloc(ret->size);
	ret->file = calloc(1, ret->size);
	if (!ret->file || !ret->before || !ret->after) {
		*ret_fatal = true;
		return ip_error("out of memory");
	}
	if (ip_target_read(plan->target, ret->start, ret->before, ret->size) < 0) {
		*ret_fatal = true;
		return -1;
	}
	if (read_file(module, m, ret) < 0)
		return -1;
	memcpy(ret->after, ret->before, ret->size);
	for (size_t i = ret->first; i < ret->first + ret->n; i++) {
		const struct ip_change *c = &plan->changes[i];
		size_t at = c->address - ret->start;

		if (memcmp(ret->before + at, c->old_bytes, c->length)) {
			*ret_fatal = true;
			return ip_error("pid %d: the site at %#lx does not hold what was expected: "
					"somebody else changed it (a debugger's breakpoint, a "
					"uprobe?); end that first",
					plan->target->pid, c->address);
		}
		memcpy(ret->after + at, c->new_bytes, c->length);
	}
	if (!memcmp(ret->after, ret->file, ret->size)) {
		ret->kind = IP_REMAP_REVERTING;
		return 0;
	}
	if (!memcmp(ret->before, ret->file, ret->size)) {
		ret->kind = IP_REMAP_SWITCHING;
		return 0;
	}
	return make_changing(plan, module, silently, ret, ret_fatal, ret_bad);
}
