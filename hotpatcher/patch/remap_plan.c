/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Step 1 of a remap: dividing the changed sites into pieces.
 */
#include "hotpatcher/patch/remap_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/abi/borrow.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/arch/x86_64/remap.h"

#define PAGE(a)	   ((a) & ~(IP_REMAP_PAGE - 1))
#define PAGE_UP(a) PAGE((a) + IP_REMAP_PAGE - 1)
#define PIECE_MAX  (512ull << 10) /* a thread that runs in a piece waits while it is switched */
/* the most bytes of pages without sites between two pages with sites in a piece */
#define GAP_MAX (16 * IP_REMAP_PAGE)
/* the same if such pages may hold live functions: these would be idle without need while the piece
 * is copied */
#define KEEPING_GAP_MAX IP_REMAP_PAGE

static int by_address(const void *a, const void *b)
{
	const struct ip_change *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static uint64_t end_of(const struct ip_change *c)
{
	return c->address + c->length;
}

/* Whether pages of the text are locked in memory: the file's own pages would not be locked when
 * they come back. */
static bool is_locked(pid_t pid, uint64_t address)
{
	_cleanup_fclose_ FILE *file = NULL;
	_cleanup_free_ char *line = NULL; /* whole lines: a path may hold text like a line */
	bool here = false;
	char name[64];
	size_t size = 0;

	if (ip_proc_status(pid, "VmLck") <= 0)
		return false;
	snprintf(name, sizeof(name), "/proc/%d/smaps", pid);
	file = fopen(name, "re");
	while (file && getline(&line, &size, file) > 0) {
		uint64_t start, end;

		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			here = address >= start && address < end;
		else if (here && !strncmp(line, "VmFlags:", 8))
			return strstr(line, " lo") != NULL;
	}
	return true;
}

/* Whether the change can be part of any piece. *ret_mapping: the mapping in which it lies. 0, or -1
 * with the reason. */
static int check_change(const struct ip_target *target, const struct ip_change *c, bool silently,
			const struct ip_mapping **ret_mapping)
{
	const struct ip_mapping *m = ip_maps_find(&target->maps, c->address);

	*ret_mapping = m;
	/* the prepared pages would take the place of whatever is mapped there by then */
	if (c->may_go)
		return ip_error("pid %d: the library at %#lx may be unloaded at any time, which "
				"takes a stop",
				target->pid, c->address);
	if (!m || memcmp(m->perms, "r-xp", 4) || !m->inode)
		return ip_error("pid %d: text at %#lx is no private mapping of a file", target->pid,
				c->address);
	if (end_of(c) > m->end)
		return ip_error("pid %d: the site at %#lx crosses a border of two mappings",
				target->pid, c->address);
	if (silently && c->address / IP_ARCH_FETCH_LINE != (end_of(c) - 1) / IP_ARCH_FETCH_LINE)
		return ip_error("pid %d: the site at %#lx crosses a cache line, which on this "
				"processor takes a stop",
				target->pid, c->address);
	return 0;
}

/* Finds where the piece that begins with changes[first] begins and ends. Returns the index after
 * its last change. If other sites stay live, too, no site may lie across its borders. Otherwise no
 * changed site may, and a changed site that lies across a border takes the pages on both sides into
 * the piece. */
static size_t cut(const struct ip_remap_plan *plan, const struct ip_module *of, size_t n,
		  size_t first, const struct ip_mapping *m, uint64_t *ret_start, uint64_t *ret_end)
{
	const struct ip_change *changes = plan->changes;
	const struct ip_module *module = plan->flags & IP_REMAP_KEEPING ? of : NULL;
	uint64_t start = ip_remap_border(module, m, PAGE(changes[first].address), true),
		 end = ip_remap_border(module, m, PAGE_UP(end_of(&changes[first])), false),
		 gap = plan->flags & IP_REMAP_KEEPING ? KEEPING_GAP_MAX : GAP_MAX;
	size_t i;

	for (i = first + 1; i < n; i++) {
		uint64_t page = PAGE(changes[i].address), page_end = PAGE_UP(end_of(&changes[i]));

		if (end_of(&changes[i]) > m->end || page > end + gap)
			break;
		if (page >= end && page_end - start > PIECE_MAX)
			break;
		if (page_end > end)
			end = ip_remap_border(module, m, page_end, false);
	}
	*ret_start = start;
	*ret_end = end;
	return i;
}

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void leave_out(struct ip_remap_plan *plan, const struct ip_change *changes, size_t n)
{
	if (!plan->reason)
		plan->reason = strdup(ip_error_message());
	for (size_t i = 0; i < n; i++)
		plan->gone[plan->left_out++] = changes[i].address;
}

/* Takes out of changes[] those that no piece can hold. */
static int leave_out_unfit(struct ip_remap_plan *plan)
{
	bool silently = ip_arch_flushes_silently();
	const struct ip_mapping *m, *locked = NULL, *free_one = NULL;
	size_t left = 0;

	for (size_t i = 0; i < plan->nchanges; i++) {
		const struct ip_change *c = &plan->changes[i];
		int ret = check_change(plan->target, c, silently, &m);

		if (i + 1 < plan->nchanges && plan->changes[i + 1].address < end_of(c))
			return ip_error("pid %d: two sites overlap at %#lx", plan->target->pid,
					plan->changes[i + 1].address);
		if (ret == 0 && m != free_one && m != locked) {
			if (is_locked(plan->target->pid, c->address))
				locked = m;
			else
				free_one = m;
		}
		if (ret == 0 && m == locked)
			ret = ip_error("pid %d: text at %#lx is locked in memory (mlock)",
				       plan->target->pid, c->address);
		if (ret == 0)
			plan->changes[left++] = *c;
		else if (plan->flags & IP_REMAP_PARTIAL)
			leave_out(plan, c, 1);
		else
			return -1;
	}
	plan->nchanges = left;
	return 0;
}

/* Makes one piece of as many of changes[first..n-1] as it can hold. *ret_next: the index after the
 * last one. If a byte of another program is in the way, the piece ends in front of that page, and
 * the sites on that page are left out. */
static int make_piece(struct ip_remap_plan *plan, const struct ip_modules *modules, size_t first,
		      size_t n, size_t *ret_next)
{
	const struct ip_mapping *m =
		ip_maps_find(&plan->target->maps, plan->changes[first].address);
	const struct ip_module *module = ip_remap_module_of(modules, m);
	struct ip_remap_plan_piece *part = &plan->pieces[plan->npieces];
	uint64_t start, end, bad;
	size_t in_front, behind;
	bool fatal;

	*ret_next = cut(plan, module, n, first, m, &start, &end);
	*part = (struct ip_remap_plan_piece){
		.start = start, .size = end - start, .first = first, .n = *ret_next - first};
	if (ip_remap_make_images(plan, module, m, ip_arch_flushes_silently(), part, &fatal, &bad) ==
	    0) {
		plan->entries[plan->npieces++] =
			(struct ip_remap_piece){.at = part->start, .size = part->size};
		return 0;
	}
	ip_remap_plan_piece_clear(part);
	if (fatal || !(plan->flags & IP_REMAP_PARTIAL))
		return -1;
	for (in_front = first;
	     bad && in_front < *ret_next && end_of(&plan->changes[in_front]) <= PAGE(bad);)
		in_front++;
	for (behind = in_front; behind < *ret_next && (!bad || plan->changes[behind].address <
								       PAGE(bad) + IP_REMAP_PAGE);)
		behind++;
	leave_out(plan, &plan->changes[in_front], behind - in_front);
	*ret_next = behind;
	return in_front > first ? make_piece(plan, modules, first, in_front, &in_front) : 0;
}

static int make_pieces(struct ip_remap_plan *plan, const struct ip_modules *modules)
{
	size_t largest = 0, kept = 0;

	for (size_t i = 0; i < plan->nchanges;)
		if (make_piece(plan, modules, i, plan->nchanges, &i) < 0)
			return -1;
	for (size_t i = 0; i < plan->npieces; i++) {
		largest = plan->pieces[i].size > largest ? plan->pieces[i].size : largest;
		kept += plan->pieces[i].n;
	}
	/* the images are made: the changes themselves are not needed any more */
	plan->nchanges = kept;
	plan->scratch = malloc(largest + 1);
	return plan->scratch ? 0 : ip_error("out of memory");
}

int ip_remap_prepare(struct ip_target *target, const struct ip_modules *modules,
		     const struct ip_change *changes, size_t n, unsigned flags,
		     struct ip_remap_plan **ret)
{
	struct ip_remap_plan *plan = calloc(1, sizeof(*plan));

	if (!plan)
		return ip_error("out of memory");
	plan->target = target;
	plan->flags = flags;
	plan->nchanges = n;
	plan->changes = calloc(n + 1, sizeof(*changes));
	plan->pieces = calloc(n + 1, sizeof(*plan->pieces));
	plan->entries = calloc(n + 1, sizeof(*plan->entries));
	plan->gone = calloc(n + 1, sizeof(*plan->gone));
	if (!plan->changes || !plan->pieces || !plan->entries || !plan->gone) {
		ip_remap_destroy(plan);
		return ip_error("out of memory");
	}
	memcpy(plan->changes, changes, n * sizeof(*changes));
	qsort(plan->changes, n, sizeof(*changes), by_address);
	if (leave_out_unfit(plan) < 0 || make_pieces(plan, modules) < 0) {
		ip_remap_destroy(plan);
		return -1;
	}
	if (n && !plan->npieces) {
		ip_error("%s: no site can be switched without a stop: leave out --no-stop",
			 plan->reason ? plan->reason : "out of memory");
		ip_remap_destroy(plan);
		return -1;
	}
	qsort(plan->gone, plan->left_out, sizeof(*plan->gone), by_value);
	*ret = plan;
	return 0;
}

void ip_remap_destroy(struct ip_remap_plan *plan)
{
	if (!plan)
		return;
	for (size_t i = 0; i < plan->npieces; i++)
		ip_remap_plan_piece_clear(&plan->pieces[i]);
	free(plan->pieces);
	free(plan->entries);
	free(plan->functions);
	free(plan->changes);
	free(plan->gone);
	free(plan->reason);
	free(plan->scratch);
	free(plan);
}

size_t ip_remap_sites(const struct ip_remap_plan *plan)
{
	return plan->nchanges;
}

/* The number of pages that are to differ from what they are, or, if file is set, from the
 * file's. */
static size_t pages_unlike(const struct ip_remap_plan *plan, bool file)
{
	size_t pages = 0;

	for (size_t i = 0; i < plan->npieces; i++) {
		const struct ip_remap_plan_piece *p = &plan->pieces[i];

		for (size_t at = 0; at < p->size; at += IP_REMAP_PAGE)
			pages += memcmp((file ? p->file : p->before) + at, p->after + at,
					IP_REMAP_PAGE) != 0;
	}
	return pages;
}

size_t ip_remap_pages(const struct ip_remap_plan *plan)
{
	return pages_unlike(plan, false);
}

size_t ip_remap_pages_copied(const struct ip_remap_plan *plan)
{
	return pages_unlike(plan, true);
}

void ip_remap_each_interrupted(const struct ip_remap_plan *plan,
			       void (*visit)(void *context, const struct ip_module *module,
					     uint32_t function),
			       void *context)
{
	for (size_t i = 0; i < plan->nfunctions; i++)
		visit(context, plan->functions[i].module, plan->functions[i].function);
}

size_t ip_remap_pieces(const struct ip_remap_plan *plan)
{
	return plan->npieces;
}

size_t ip_remap_left_out(const struct ip_remap_plan *plan)
{
	return plan->left_out;
}

bool ip_remap_is_left_out(const struct ip_remap_plan *plan, uint64_t address)
{
	return bsearch(&address, plan->gone, plan->left_out, sizeof(*plan->gone), by_value) != NULL;
}

const char *ip_remap_reason(const struct ip_remap_plan *plan)
{
	return plan->reason;
}
