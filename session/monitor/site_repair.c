/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repairs live sites that another tool has changed. site_monitor.h describes the steps; comments
 * here name them.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/names/name_list.h"
#include "common/notice.h"
#include "common/selection/selection.h"
#include "hotpatcher/arch/x86_64/regs.h"
#include "hotpatcher/patch/patch_in_place.h"
#include "hotpatcher/patch/site_state.h"
#include "hotpatcher/ptrace/stop.h"
#include "session/monitor/site_monitor_private.h"
#include "trace_writer/writer.h"

/* one part in so many of our time */
#define BACK_NS	 1000000000ull
#define BACK_MAX 60000000000ull
#define TELL_NS	 10000000000ull
/* sites that are read to find out whether a library is the one that we have patched */
#define STANDS_MAX 64u

void ip_monitor_missing(struct ip_site_monitor *w, struct ip_monitor_function *f, uint64_t until,
			struct ip_trace *trace)
{
	w->summary.disturbed += !f->disturbed;
	f->disturbed = true;
	if (trace)
		ip_trace_add_missing(trace, f->number, f->seen_tsc, until);
}

/* What settling finds, and what it will change. */
struct settling {
	struct ip_change *changes;
	size_t n;
	uint8_t *blocked; /* by function: another tool is still there */
	uint8_t *gone;	  /* its library has gone, or was loaded anew */
	uint8_t *late;	  /* it has idle sites that must become live, but not by us */
	uint64_t library; /* the last library of which library_stands() was asked */
	bool stands;	  /* what the answer was */
	const struct ip_monitor_site *first; /* the first site that is not as it must be */
	enum ip_site_state first_state;
	size_t sites;
};

/* Whether the stub of the site is still there: it may have gone with the library that brought
 * it. */
static bool stub_stands(const struct ip_site_monitor *w, const struct ip_monitor_site *s)
{
	static const uint8_t nothing[16];
	uint8_t bytes[16];
	uint64_t stub;

	return w->target->arch->live_target(s->form, s->length, s->address, s->live, &stub) &&
	       ip_target_is_stub(w->target, stub) &&
	       ip_target_read(w->target, stub, bytes, sizeof(bytes)) == 0 &&
	       memcmp(bytes, nothing, sizeof(bytes)) != 0;
}

/* Step 3. No file has such bytes, so the page is the one that we have written. */
static bool holds_ours(enum ip_site_state state)
{
	return state == IP_SITE_LIVE || state == IP_SITE_ORPHAN || state == IP_SITE_TRAPPED_LIVE;
}

/* Step 3. Whether the library is the one that we have patched. */
static bool library_stands(const struct ip_site_monitor *w, struct settling *g, uint64_t library)
{
	unsigned looks = 0;

	if (g->library == library)
		return g->stands;
	g->library = library;
	g->stands = false;
	for (size_t i = 0; i < w->nsites && looks < STANDS_MAX && !g->stands; i++) {
		const struct ip_monitor_site *s = &w->sites[i];
		uint8_t bytes[IP_SITE_MAX];

		if (ip_monitor_library(s) != library)
			continue;
		looks++;
		g->stands = ip_target_read(w->target, s->address, bytes, s->length) == 0 &&
			    holds_ours(ip_site_state_of_form(w->target, s->form, s->length,
							     s->transit_regs, s->jump, s->address,
							     bytes));
	}
	return g->stands;
}

static int add_change(struct settling *g, const struct ip_site_monitor *w,
		      const struct ip_monitor_site *s, enum ip_site_state state,
		      const uint8_t *bytes, bool live)
{
	struct ip_change c = {.address = s->address,
			      .length = s->length,
			      .form = s->form,
			      .jump = s->jump,
			      .transit_regs = s->transit_regs,
			      .may_go = s->pages};

	if (state == IP_SITE_FOREIGN || state == IP_SITE_KERNEL || state == IP_SITE_TRAPPED_IDLE)
		return 0;
	if (s->pages && !holds_ours(state)) {
		g->late[s->function] |= live;
		return 0;
	}
	memcpy(c.old_bytes, bytes, s->length);
	memcpy(c.new_bytes, s->live, s->length);
	if (!live && w->target->arch->idle(s->form, s->length, s->jump, c.new_bytes) < 0)
		return -1;
	if (state == IP_SITE_TRAPPED_LIVE)
		c.new_bytes[0] = bytes[0];
	if (!memcmp(c.old_bytes, c.new_bytes, s->length))
		return 0;
	if (ip_array_grow(&g->changes, g->n, sizeof(*g->changes)) < 0)
		return -1;
	g->changes[g->n++] = c;
	return 0;
}

/* Looks at the sites of all suspect functions twice: first to find out which functions are blocked,
 * then to find the changes. */
static int gather(struct ip_site_monitor *w, struct settling *g, uint64_t now)
{
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < w->nsites; i++) {
			const struct ip_monitor_site *s = &w->sites[i];
			struct ip_monitor_function *f = &w->functions[s->function];
			enum ip_site_state state;
			uint8_t bytes[IP_SITE_MAX];

			if (!f->suspect || g->gone[s->function])
				continue;
			if (s->pages && pass == 0 && !library_stands(w, g, ip_monitor_library(s))) {
				g->gone[s->function] = true;
				continue;
			}
			if (ip_target_read(w->target, s->address, bytes, s->length) < 0) {
				g->blocked[s->function] = true;
				continue;
			}
			state = ip_site_state_of_form(w->target, s->form, s->length,
						      s->transit_regs, s->jump, s->address, bytes);
			if (pass == 0) {
				if ((ip_site_is_foreign(state) && state != IP_SITE_ORPHAN) ||
				    !stub_stands(w, s) || f->removed ||
				    (f->off && now < f->back_ns))
					g->blocked[s->function] = true;
				if (!f->off && !f->late && memcmp(bytes, s->live, s->length) &&
				    !g->sites++) {
					g->first = s;
					g->first_state = state;
				}
			} else if (add_change(g, w, s, state, bytes, !g->blocked[s->function]) <
				   0) {
				return -1;
			}
		}
	return 0;
}

/* Step 4. */
static void tell(struct ip_site_monitor *w, const struct settling *g, uint64_t now)
{
	_cleanup_free_ char *name = NULL;

	if (!g->first || (w->told_ns && now - w->told_ns < TELL_NS))
		return;
	w->told_ns = now;
	name = ip_name_for_people(w->names + w->functions[g->first->function].name);
	ip_notice("pid %d: somebody else changed %zu live site%s (the first: %s, of %s at %#lx): "
		  "calls are missing while that lasts",
		  w->target->pid, g->sites, g->sites == 1 ? "" : "s",
		  ip_site_state_name(g->first_state), name ? name : "?", g->first->address);
}

/* Step 3. Asks for an update. The function stays pending, or off, until its sites are found
 * live. */
static void ask(struct ip_site_monitor *w, struct ip_monitor_function *f, uint64_t now)
{
	if (!f->late || now >= f->ask_ns) {
		w->wants = true;
		f->ask_ns = now + BACK_NS;
	}
	f->late = w->late = true;
}

/* Notes that the suspect functions are as they must be now. */
static void note_settled(struct ip_site_monitor *w, const struct settling *g, uint64_t now,
			 struct ip_trace *trace)
{
	for (size_t i = 0; i < w->nfunctions; i++) {
		struct ip_monitor_function *f = &w->functions[i];

		if (!f->suspect)
			continue;
		if (g->gone[i]) {
			f->pending = f->pending && f->late;
			/* Or no site holds what is ours because we have made all of them idle. An
			 * update can tell, by the library's file. */
			if (f->off && !f->removed && now >= f->back_ns) {
				w->wants = true;
				f->wait_ns = f->wait_ns < BACK_MAX / 2 ? 2 * f->wait_ns : BACK_MAX;
				f->back_ns = now + f->wait_ns;
			}
			continue;
		}
		if (g->late[i]) {
			ask(w, f, now);
			continue;
		}
		f->pending = f->late = false;
		if (g->blocked[i] && !f->off) {
			f->off = true;
			w->noff++;
			f->wait_ns = !f->wait_ns		 ? BACK_NS
				     : f->wait_ns < BACK_MAX / 2 ? 2 * f->wait_ns
								 : BACK_MAX;
			f->back_ns = now + f->wait_ns;
		} else if (!g->blocked[i]) {
			if (!f->removed)
				ip_monitor_missing(w, f, ip_clock_now(), trace);
			w->noff -= f->off;
			f->off = false;
		}
	}
}

struct ip_patch_result ip_site_repair(struct ip_site_monitor *w, struct ip_trace *trace)
{
	struct settling g = {.blocked = calloc(w->nfunctions, 1),
			     .gone = calloc(w->nfunctions, 1),
			     .late = calloc(w->nfunctions, 1)};
	struct ip_patch_result result = {0};
	unsigned images = w->target->images;
	uint64_t now = ip_now_ns();

	if (!g.blocked || !g.gone || !g.late || ip_area_lock_patch(w->area, w->target->pid) < 0)
		goto out;
	/* If iprobe detach has put the sites back, the session is about to end. If the target
	 * executes another program, the sites are not ours. */
	if (w->area->header->ended != w->area->header->session &&
	    ip_target_refresh(w->target) == 0 && w->target->images == images &&
	    gather(w, &g, now) == 0) {
		bool done = !g.n || ip_patch_in_place(w->target, g.changes, g.n, w->max_stop_ns,
						      &result) == (int)g.n;

		w->summary.stops += result.sites > 0;
		if (done)
			note_settled(w, &g, now, trace);
		tell(w, &g, now);
	}
	ip_area_unlock_patch(w->area);
out:
	for (size_t i = 0; i < w->nfunctions; i++)
		w->functions[i].suspect = false;
	free(g.blocked);
	free(g.gone);
	free(g.late);
	free(g.changes);
	return result;
}
