/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carrying out changes of text. The steps are told in patch.h; the comments here name them.
 */
#include "hotpatcher/patch/patch.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/abi/area.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/proc.h"
#include "hotpatcher/inject/thread_areas.h"
#include "hotpatcher/patch/patch_private.h"
#include "hotpatcher/patch/write_helper.h"
#include "hotpatcher/process/pagemap.h"
#include "hotpatcher/ptrace/stack_copies.h"
#include "hotpatcher/ptrace/stop.h"
#include "hotpatcher/ptrace/syscall_restart.h"

/* Costs as measured on a small, slow machine (benchmarks/stop): they are what the first stop is
 * expected to take. */
#define FIRST_PAGE_NS	  2500u
#define FIRST_CROSSING_NS 6000u
#define THREAD_NS	  25000u
#define STOP_NS		  100000u

/* What a page is expected to take, by the stops so far. */
static uint64_t page_ns = FIRST_PAGE_NS;

bool ip_change_crosses_page(const struct ip_change *c)
{
	return PAGE(c->address) != PAGE(c->address + c->length - 1);
}

uint64_t ip_patch_expect_ns(size_t pages, size_t crossing)
{
	return pages * page_ns + crossing * FIRST_CROSSING_NS;
}

uint64_t ip_patch_expect_threads_ns(size_t threads)
{
	return STOP_NS + threads * THREAD_NS;
}

void ip_patch_result_add(struct ip_patch_result *result, const struct ip_stop_record *stop)
{
	if (!result->stop_ns)
		result->stop_tsc = stop->tsc;
	result->stop_ns += stop->ns;
	result->sites += stop->sites;
	result->pages += stop->pages;
	result->threads = stop->threads > result->threads ? stop->threads : result->threads;
	ip_stop_log_add(&result->stops, stop);
}

void ip_patch_result_append(struct ip_patch_result *result, const struct ip_stop_log *stops)
{
	for (size_t i = 0; i < stops->n; i++)
		ip_patch_result_add(result, &stops->items[i]);
	result->stops.more += stops->more;
	if (stops->more_ns > result->stops.more_ns)
		result->stops.more_ns = stops->more_ns;
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

static bool holds(const uint8_t *bytes, const uint8_t *wanted, size_t length)
{
	return !memcmp(bytes, wanted, length);
}

/* Step 1, for one site: 0 if it holds its old or new bytes. */
static int check_site(const struct ip_patch *patch, const struct ip_change *c, const uint8_t *bytes)
{
	char found[32], expected[32];

	if (holds(bytes, c->old_bytes, c->length) || holds(bytes, c->new_bytes, c->length))
		return 0;
	return ip_error("pid %d: the site at %#lx holds %s instead of %s: somebody else changed it "
			"(a debugger's breakpoint, a uprobe?); end that first",
			patch->target->pid, c->address, hex(bytes, c->length, found),
			hex(c->old_bytes, c->length, expected));
}

/* Steps 1 and 9: calls look for each site. */
static int each_site(const struct ip_patch *patch,
		     int (*look)(const struct ip_patch *, const struct ip_change *,
				 const uint8_t *))
{
	for (size_t i = 0; i < patch->npieces; i++) {
		const struct ip_patch_piece *p = &patch->pieces[i];

		if (ip_target_read(patch->target, p->start, patch->buffer, p->size) < 0)
			return -1;
		for (size_t k = p->first; k < p->last; k++) {
			const struct ip_change *c = &patch->changes[k];

			if (!ip_change_crosses_page(c) &&
			    look(patch, c, patch->buffer + (c->address - p->start)) < 0)
				return -1;
		}
	}
	for (size_t i = 0; patch->ncrossing && i < patch->nchanges; i++) {
		uint8_t bytes[IP_SITE_MAX];

		if (ip_change_crosses_page(&patch->changes[i]) &&
		    (ip_patch_read_crossing(patch, &patch->changes[i], bytes) < 0 ||
		     look(patch, &patch->changes[i], bytes) < 0))
			return -1;
	}
	return 0;
}

/* Step 2. Writes a byte of a site that is about to be changed: no other program has business
 * there. */
static int prefault_page(const struct ip_patch *patch, struct ip_pagemap *pagemap,
			 const struct ip_change *c, size_t at)
{
	const uint64_t address = c->address + at;
	uint8_t byte;

	if (ip_pagemap_is_own(pagemap, address))
		return 0;
	/* it may be an old or a new one; what another tool has put there it may take away at any
	 * moment, so that is never written: the stop refuses it, or copies the page */
	if (ip_target_read(patch->target, address, &byte, 1) < 0)
		return -1;
	if (byte != c->old_bytes[at] && byte != c->new_bytes[at])
		return 0;
	return ip_target_write(patch->target, address, &byte, 1);
}

static int prefault(const struct ip_patch *patch)
{
	struct ip_pagemap *pagemap;
	uint64_t last = ~0ull;
	int ret = 0;

	pagemap = ip_pagemap_open(patch->target);
	if (!pagemap)
		return -1;
	for (size_t i = 0; i < patch->nchanges && ret == 0; i++) {
		const struct ip_change *c = &patch->changes[i];
		uint64_t end = c->address + c->length - 1;

		if (c->resident || c->may_go)
			continue;
		if (PAGE(c->address) != last)
			ret = prefault_page(patch, pagemap, c, 0);
		if (ret == 0 && PAGE(end) != PAGE(c->address))
			ret = prefault_page(patch, pagemap, c, c->length - 1);
		last = PAGE(end);
	}
	ip_pagemap_close(pagemap);
	return ret;
}

/* A new piece begins after a page without sites, and when a piece is full. */
static void make_pieces(struct ip_patch *patch)
{
	struct ip_patch_piece *p = NULL;
	uint64_t last = ~0ull;

	for (size_t i = 0; i < patch->nchanges; i++) {
		const struct ip_change *c = &patch->changes[i];
		uint64_t page = PAGE(c->address), end = c->address + c->length;

		patch->pages += (page != last) + (PAGE(end - 1) != page);
		last = PAGE(end - 1);
		if (ip_change_crosses_page(c)) {
			patch->ncrossing++;
			if (p)
				p->last = i + 1;
			continue;
		}
		if (!p || page > PAGE(p->start + p->size - 1) + PAGE_SIZE ||
		    page >= p->start + IP_PIECE_PAGES * PAGE_SIZE) {
			p = &patch->pieces[patch->npieces++];
			*p = (struct ip_patch_piece){.start = page, .first = i};
		}
		p->size = end - p->start;
		p->last = i + 1;
	}
}

static int sort(struct ip_patch *patch)
{
	const struct ip_change *c = patch->changes;
	bool sorted = true;

	for (size_t i = 1; i < patch->nchanges && sorted; i++)
		sorted = c[i - 1].address <= c[i].address;
	if (!sorted) {
		patch->own = malloc(patch->nchanges * sizeof(*patch->own));
		if (!patch->own)
			return ip_error("out of memory");
		memcpy(patch->own, c, patch->nchanges * sizeof(*patch->own));
		qsort(patch->own, patch->nchanges, sizeof(*patch->own), by_address);
		patch->changes = c = patch->own;
	}
	for (size_t i = 1; i < patch->nchanges; i++)
		if (c[i].address < c[i - 1].address + c[i - 1].length)
			return ip_error("pid %d: two sites overlap at %#lx", patch->target->pid,
					c[i].address);
	return 0;
}

/* Step 1, for libraries that may be unloaded: remembers what must still be there in the stop. */
static int remember_exact(const struct ip_patch *patch)
{
	for (size_t i = 0; i < patch->npieces; i++) {
		struct ip_patch_piece *p = &patch->pieces[i];

		for (size_t k = p->first; k < p->last; k++)
			p->exact |= patch->changes[k].may_go;
		if (!p->exact)
			continue;
		if (ip_target_read(patch->target, p->start, patch->buffer, p->size) < 0)
			return -1;
		p->sum = ip_patch_sum(patch->buffer, p->size);
	}
	return 0;
}

int ip_patch_prepare(struct ip_target *target, const struct ip_change *changes, size_t n,
		     bool looked, struct ip_patch **ret)
{
	struct ip_patch *patch = calloc(1, sizeof(*patch));
	size_t pages = n;

	if (!patch)
		return ip_error("out of memory");
	patch->target = target;
	patch->arch = target->arch;
	patch->changes = changes;
	patch->nchanges = n;
	if (sort(patch) < 0)
		goto fail;
	changes = patch->changes;
	if (n && (PAGE(changes[n - 1].address) - PAGE(changes[0].address)) / PAGE_SIZE + 1 < pages)
		pages = (PAGE(changes[n - 1].address) - PAGE(changes[0].address)) / PAGE_SIZE + 1;
	patch->pieces = calloc(pages ? pages : 1, sizeof(*patch->pieces));
	patch->buffer = calloc(1, IP_PIECE_BYTES + IP_SITE_MAX);
	if (!patch->pieces || !patch->buffer) {
		ip_error("out of memory");
		goto fail;
	}
	make_pieces(patch);
	if (remember_exact(patch) < 0 || (!looked && each_site(patch, check_site) < 0) ||
	    prefault(patch) < 0)
		goto fail;
	ip_patch_write_begin(patch);
	*ret = patch;
	return 0;
fail:
	ip_patch_destroy(patch);
	return -1;
}

void ip_patch_destroy(struct ip_patch *patch)
{
	if (!patch)
		return;
	ip_write_helper_destroy(patch->helper);
	free(patch->pieces);
	free(patch->buffer);
	free(patch->own);
	free(patch);
}

size_t ip_patch_pages(const struct ip_patch *patch)
{
	return patch->pages;
}

/* Whether pc lies in the runtime or its stubs. */
static bool is_inside(const struct ip_target *target, uint64_t pc)
{
	const struct ip_rt_anchor *anchor = &target->anchor;

	return target->has_runtime && !ip_restart_is_waiting(target, pc) &&
	       ((pc >= anchor->text_start && pc < anchor->text_end) ||
		ip_target_is_stub(target, pc));
}

/* Step 4. Also notes the threads that are inside the runtime's code or its stubs. */
static int check_pcs(const struct ip_patch *patch, const struct ip_stop *stop,
		     struct ip_patch_result *result)
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
			return ip_error("pid %d: thread %s stands inside the site at %#lx: nothing "
					"was changed, try again",
					target->pid, IP_THREAD_TEXT(stop->threads[i].tid),
					patch->changes[low - 1].address);
		if (is_inside(target, pc))
			result->inside[result->ninside++] = stop->threads[i].tid;
	}
	return 0;
}

/* Step 9. */
static int check_written(const struct ip_patch *patch, const struct ip_change *c,
			 const uint8_t *bytes)
{
	if (holds(bytes, c->new_bytes, c->length))
		return 0;
	return ip_error("pid %d: the site at %#lx does not hold what was written: somebody else "
			"changed it just now",
			patch->target->pid, c->address);
}

static int write_gate(const struct ip_target *target, int64_t session)
{
	const struct ip_gate gate = {.session = session, .pid = target->inner_pid, .base = session};

	if (session < 0 || !target->has_runtime || !target->anchor.gate)
		return 0;
	return ip_target_write(target, target->anchor.gate, &gate, sizeof(gate));
}

/* Learns what the next stop may be expected to take. The slower of the last stops counts most. */
static void learn(const struct ip_patch *patch, uint64_t ns)
{
	uint64_t crossings = patch->ncrossing * FIRST_CROSSING_NS, seen;

	if (patch->pages < IP_PIECE_PAGES || ns < crossings)
		return;
	seen = (ns - crossings) / patch->pages;
	seen += seen / 4;
	page_ns = seen > page_ns ? seen : (page_ns + seen) / 2;
}

/* Step 7. Sites that have become idle stay idle. */
static void undo(struct ip_patch *patch, int64_t gate_session)
{
	if (!gate_session)
		return;
	write_gate(patch->target, gate_session > 0 ? 0 : -1);
	ip_patch_write_all(patch, true);
}

static uint64_t expected(const struct ip_patch *patch)
{
	return ip_patch_expect_ns(patch->pages, patch->ncrossing);
}

/* Step 7 after step 9, in a stop of its own. If that stop fails, the caller will restore the
 * sites. */
static void undo_later(struct ip_patch *patch, uint64_t deadline_ns, int64_t gate_session)
{
	_cleanup_free_ char *why = strdup(ip_error_message());
	struct ip_stop_record record = {.pages = patch->pages, .sites = patch->nchanges};
	struct ip_stop stop;

	if (gate_session && ip_target_alive(patch->target) &&
	    ip_stop_begin(patch->target, deadline_ns, expected(patch), &stop) == 0) {
		record.threads = stop.n;
		record.tsc = stop.began_tsc;
		undo(patch, gate_session);
		record.ns = ip_stop_end(&stop);
		ip_stop_log_add(&ip_stops_of(patch->target)->log, &record);
	}
	ip_error("%s", why ? why : "out of memory");
}

int ip_patch_apply(struct ip_patch *patch, uint64_t deadline_ns, int64_t gate_session,
		   struct ip_patch_result *ret)
{
	struct ip_target *target = patch->target;
	struct ip_stop_record record = {.pages = patch->pages, .sites = patch->nchanges};
	struct ip_stop stop;
	uint64_t began;
	int done;

	*ret = (struct ip_patch_result){0};
	if (ip_stop_begin(target, deadline_ns, expected(patch), &stop) < 0) { /* 3 */
		ret->transient = ip_target_alive(target) && stop.late;
		return -1;
	}
	ip_write_helper_wake(patch->helper);
	record.threads = stop.n;
	record.tsc = stop.began_tsc;
	done = check_pcs(patch, &stop, ret); /* 4 */
	ret->transient = done < 0;
	if (done == 0 && gate_session > 0)
		done = ip_thread_areas_check(&stop);
	if (done == 0)
		done = write_gate(target, gate_session); /* 5 */
	began = ip_now_ns();
	if (done == 0)
		done = ip_patch_write_all(patch, false); /* 6 */
	if (done < 0) {
		char *why = strdup(ip_error_message());

		ip_write_helper_finish(patch->helper);
		undo(patch, gate_session);
		ip_error("%s", why ? why : "out of memory");
		free(why);
	} else {
		learn(patch, ip_now_ns() - began);
		if (ip_stops_of(target)->copies)
			ip_stack_copies_take(ip_stops_of(target)->copies, &stop); /* 7b */
	}
	record.ns = ip_stop_end(&stop); /* 8 */
	record.running_ns = stop.running_ns;
	if (done < 0) {
		record.failed = true;
		record.pages = record.sites = 0;
		ip_stop_was_in_vain(target, &record);
	}
	if (done == 0) {
		ip_patch_result_add(ret, &record);
		done = each_site(patch, check_written); /* 9 */
		if (done < 0)
			undo_later(patch, deadline_ns, gate_session);
	}
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
