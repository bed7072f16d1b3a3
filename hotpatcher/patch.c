/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carrying out changes of text. The steps are told in patch.h; comments here name them.
 */
#include "hotpatcher/patch.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/restart.h"
#include "hotpatcher/stop.h"

#define PAGE_SIZE 4096ull
#define PAGE(a)	  ((a) & ~(PAGE_SIZE - 1))

struct range {
	uint64_t start, end; /* start of its first page, end of its last site */
	uint8_t *before, *after;
};

struct ip_patch {
	struct ip_target *target;
	const struct ip_arch *arch;
	struct ip_change *changes;
	size_t nchanges;
	struct range *ranges;
	size_t nranges;
	uint8_t *scratch; /* as large as the largest range */
};

static bool crosses_page(const struct ip_change *c)
{
	return PAGE(c->address) != PAGE(c->address + c->length - 1);
}

static int by_address(const void *a, const void *b)
{
	const struct ip_change *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static const char *hex(const uint8_t *bytes, size_t n, char *buffer)
{
	for (size_t i = 0; i < n; i++)
		sprintf(buffer + 3 * i, "%02x%s", bytes[i], i + 1 < n ? " " : "");
	return buffer;
}

/* Makes the range of changes[first..last]. */
static int range_init(struct ip_patch *patch, struct range *range, size_t first, size_t last)
{
	const struct ip_change *c = patch->changes;
	size_t size;
	char found[32], expected[32];

	range->start = PAGE(c[first].address);
	range->end = c[last].address + c[last].length;
	size = range->end - range->start;
	range->before = malloc(size);
	range->after = malloc(size);
	if (!range->before || !range->after)
		return ip_error("out of memory");
	if (ip_target_read(patch->target, range->start, range->before, size) < 0)
		return -1;
	memcpy(range->after, range->before, size);
	for (size_t i = first; i <= last; i++) {
		size_t at = c[i].address - range->start;

		if (memcmp(range->before + at, c[i].old_bytes, c[i].length))
			return ip_error(
				"pid %d: the site at %#lx holds %s instead of %s: somebody else changed it "
				"(a debugger's breakpoint, a uprobe?); end that first",
				patch->target->pid, c[i].address, hex(range->before + at, c[i].length, found),
				hex(c[i].old_bytes, c[i].length, expected));
		/* step 7 writes the crossing ones by themselves */
		if (!crosses_page(&c[i]))
			memcpy(range->after + at, c[i].new_bytes, c[i].length);
	}
	return 0;
}

/* Step 2. A byte of a site that we are about to change: nobody else has business there. */
static int prefault(const struct ip_patch *patch)
{
	uint64_t last = ~0ull;

	for (size_t i = 0; i < patch->nchanges; i++) {
		const struct ip_change *c = &patch->changes[i];
		uint64_t end = c->address + c->length - 1;

		if (PAGE(c->address) != last &&
		    ip_target_write(patch->target, c->address, c->old_bytes, 1) < 0)
			return -1;
		if (PAGE(end) != PAGE(c->address) &&
		    ip_target_write(patch->target, end, c->old_bytes + c->length - 1, 1) < 0)
			return -1;
		last = PAGE(end);
	}
	return 0;
}

int ip_patch_prepare(struct ip_target *target, struct ip_change *changes, size_t n, struct ip_patch **ret)
{
	struct ip_patch *patch = calloc(1, sizeof(*patch));
	size_t first = 0, largest = 0;

	if (!patch)
		return ip_error("out of memory");
	patch->target = target;
	patch->arch = target->arch;
	patch->changes = changes;
	patch->nchanges = n;
	qsort(changes, n, sizeof(*changes), by_address);
	patch->ranges = calloc(n ? n : 1, sizeof(*patch->ranges));
	if (!patch->ranges)
		goto no_memory;
	for (size_t i = 0; i < n; i++) {
		uint64_t end = changes[i].address + changes[i].length;

		if (i + 1 < n && changes[i + 1].address < end) {
			ip_error("pid %d: two sites overlap at %#lx", target->pid, changes[i + 1].address);
			goto fail;
		}
		/* a range ends where a page without sites follows */
		if (i + 1 < n && PAGE(changes[i + 1].address) <= PAGE(end - 1) + PAGE_SIZE)
			continue;
		if (range_init(patch, &patch->ranges[patch->nranges++], first, i) < 0)
			goto fail;
		if (end - PAGE(changes[first].address) > largest)
			largest = end - PAGE(changes[first].address);
		first = i + 1;
	}
	patch->scratch = malloc(largest + 1);
	if (!patch->scratch)
		goto no_memory;
	if (prefault(patch) < 0)
		goto fail;
	*ret = patch;
	return 0;
no_memory:
	ip_error("out of memory");
fail:
	ip_patch_destroy(patch);
	return -1;
}

void ip_patch_destroy(struct ip_patch *patch)
{
	if (!patch)
		return;
	for (size_t i = 0; i < patch->nranges; i++) {
		free(patch->ranges[i].before);
		free(patch->ranges[i].after);
	}
	free(patch->ranges);
	free(patch->scratch);
	free(patch);
}

size_t ip_patch_pages(const struct ip_patch *patch)
{
	size_t pages = 0;

	for (size_t i = 0; i < patch->nranges; i++)
		pages += (PAGE(patch->ranges[i].end - 1) - PAGE(patch->ranges[i].start)) / PAGE_SIZE + 1;
	return pages;
}

/* Whether pc lies in the runtime or its stubs. */
static bool is_inside(const struct ip_target *target, uint64_t pc)
{
	const struct ip_rt_anchor *anchor = &target->anchor;

	return target->has_runtime && !ip_restart_is_waiting(target, pc) &&
	       ((pc >= anchor->text_start && pc < anchor->text_end) || ip_target_is_stub(target, pc));
}

/* Step 4, and the threads that are inside our own code. */
static int check_pcs(const struct ip_patch *patch, const struct ip_stop *stop, struct ip_patch_result *result)
{
	const struct ip_target *target = patch->target;

	result->inside = calloc(stop->n, sizeof(*result->inside));
	if (!result->inside)
		return ip_error("out of memory");
	for (size_t i = 0; i < stop->n; i++) {
		uint64_t pc = stop->threads[i].pc;
		size_t low = 0, high = patch->nchanges;

		if (!stop->threads[i].stopped)
			continue;
		while (low < high) {
			size_t middle = (low + high) / 2;

			if (patch->changes[middle].address < pc)
				low = middle + 1;
			else
				high = middle;
		}
		if (low && pc < patch->changes[low - 1].address + patch->changes[low - 1].length)
			return ip_error("pid %d: thread %d stands inside the site at %#lx: nothing was "
					"changed, try again",
					target->pid, stop->threads[i].tid, patch->changes[low - 1].address);
		if (is_inside(target, pc))
			result->inside[result->ninside++] = stop->threads[i].tid;
	}
	return 0;
}

/* Step 5. */
static int verify_unchanged(const struct ip_patch *patch)
{
	size_t next = 0;

	for (size_t i = 0; i < patch->nranges; i++) {
		const struct range *r = &patch->ranges[i];
		size_t done = 0;
		bool same;

		if (ip_target_read(patch->target, r->start, patch->scratch, r->end - r->start) < 0)
			return -1;
		same = !memcmp(patch->scratch, r->before, r->end - r->start);
		for (; next < patch->nchanges && patch->changes[next].address < r->end; next++) {
			const struct ip_change *c = &patch->changes[next];
			size_t at = c->address - r->start;

			if (same)
				continue;
			if (memcmp(patch->scratch + at, r->before + at, c->length))
				return ip_error("pid %d: the site at %#lx was changed by somebody else just now: "
						"nothing was changed, try again",
						patch->target->pid, c->address);
			memcpy(r->before + done, patch->scratch + done, at - done);
			memcpy(r->after + done, patch->scratch + done, at - done);
			done = at + c->length;
		}
	}
	return 0;
}

/* Step 7, one crossing site: to are its bytes afterwards. */
static int write_crossing(const struct ip_patch *patch, const struct ip_change *c, const uint8_t *to)
{
	unsigned split = PAGE(c->address + c->length - 1) - c->address;
	uint8_t transit[IP_SITE_MAX];
	unsigned n = patch->arch->transit(c->form, c->transit_regs, c->length, split, transit);

	if (!n)
		return ip_error("pid %d: the site at %#lx crosses a page and cannot be written safely",
				patch->target->pid, c->address);
	if (ip_target_write(patch->target, c->address, transit, n) < 0)
		return -1;
	if (ip_target_write(patch->target, c->address + split, to + split, c->length - split) < 0)
		return -1;
	return ip_target_write(patch->target, c->address, to, split);
}

static int write_ranges(const struct ip_patch *patch, bool back)
{
	for (size_t i = 0; i < patch->nranges; i++) {
		const struct range *r = &patch->ranges[i];

		if (ip_target_write(patch->target, r->start, back ? r->before : r->after, r->end - r->start) <
		    0)
			return -1;
	}
	return 0;
}

static int write_crossings(const struct ip_patch *patch, bool back)
{
	for (size_t i = 0; i < patch->nchanges; i++) {
		const struct ip_change *c = &patch->changes[i];

		if (crosses_page(c) && write_crossing(patch, c, back ? c->old_bytes : c->new_bytes) < 0)
			return -1;
	}
	return 0;
}

/* Step 7. The images hold the old bytes of crossing sites: writing them changes nothing there. */
static int write_all(const struct ip_patch *patch)
{
	return write_ranges(patch, false) < 0 ? -1 : write_crossings(patch, false);
}

/* Step 8, the way back: crossing sites first, for the same reason. Both are tried, whatever fails. */
static int write_back(const struct ip_patch *patch)
{
	int crossings = write_crossings(patch, true), ranges = write_ranges(patch, true);

	return crossings < 0 || ranges < 0 ? -1 : 0;
}

/* Step 8. */
static int verify_written(const struct ip_patch *patch)
{
	size_t next = 0;

	for (size_t i = 0; i < patch->nranges; i++) {
		const struct range *r = &patch->ranges[i];

		if (ip_target_read(patch->target, r->start, patch->scratch, r->end - r->start) < 0)
			return -1;
		for (; next < patch->nchanges && patch->changes[next].address < r->end; next++) {
			const struct ip_change *c = &patch->changes[next];

			if (memcmp(patch->scratch + (c->address - r->start), c->new_bytes, c->length))
				return ip_error("pid %d: the site at %#lx does not hold what was written",
						patch->target->pid, c->address);
		}
	}
	return 0;
}

static int write_gate(const struct ip_target *target, int64_t session)
{
	const struct ip_gate gate = {.session = session, .pid = target->inner_pid, .base = session};

	if (session < 0 || !target->has_runtime || !target->anchor.gate)
		return 0;
	return ip_target_write(target, target->anchor.gate, &gate, sizeof(gate));
}

int ip_patch_apply(struct ip_patch *patch, uint64_t deadline_ns, int64_t gate_session,
		   struct ip_patch_result *ret)
{
	struct ip_target *target = patch->target;
	struct ip_stop stop;
	int done;

	*ret = (struct ip_patch_result){.sites = patch->nchanges, .pages = ip_patch_pages(patch)};
	if (ip_stop_begin(target, deadline_ns, &stop) < 0) { /* 3 */
		ret->transient = ip_target_alive(target) && stop.late;
		return -1;
	}
	ret->threads = stop.n;
	ret->stop_tsc = stop.began_tsc;
	done = check_pcs(patch, &stop, ret); /* 4 */
	ret->transient = done < 0;
	if (done == 0)
		done = verify_unchanged(patch); /* 5 */
	if (done == 0)
		done = write_gate(target, gate_session); /* 6 */
	if (done == 0) {
		done = write_all(patch); /* 7 */
		if (done == 0)
			done = verify_written(patch); /* 8 */
		if (done < 0) {
			char *why = strdup(ip_error_message());

			write_gate(target, gate_session > 0 ? 0 : -1);
			write_back(patch);
			ip_error("%s", why ? why : "out of memory");
			free(why);
		}
	}
	ret->stop_ns = ip_stop_end(&stop); /* 9 */
	if (done < 0) {
		free(ret->inside);
		ret->inside = NULL;
		ret->ninside = 0;
	}
	return done;
}

void ip_patch_settle(struct ip_target *target, struct ip_patch_result *result, uint64_t limit_ns)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	uint64_t limit = ip_now_ns() + limit_ns;

	while (result->ninside && ip_now_ns() < limit) {
		size_t left = 0;

		nanosleep(&nap, NULL);
		for (size_t i = 0; i < result->ninside; i++) {
			uint64_t pc;

			if (ip_stop_peek(target, result->inside[i], limit_ns, &pc) == 0 &&
			    is_inside(target, pc))
				result->inside[left++] = result->inside[i];
		}
		result->ninside = left;
	}
}
