/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches live sites. site_monitor.h describes the steps; comments here name them.
 */
#include "session/site_monitor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/notice.h"
#include "common/selection/selection.h"
#include "hotpatcher/arch/x86_64/regs.h"
#include "hotpatcher/patch/patch_in_place.h"
#include "hotpatcher/patch/site_state.h"
#include "hotpatcher/ptrace/stop.h"
#include "trace_writer/writer.h"

#define PIECE	   (256u << 10)
#define PASS_NS	   100000000ull /* all sites are looked at this often */
#define TURN_NS	   500000ull	/* of looking in one step, about: the rings must be drained */
#define STOP_SHARE 20		/* at most one part in so many of the target's time goes to stops */
#define SHARE	   100		/* one part in so many of our time */
#define BACK_NS	   1000000000ull
#define BACK_MAX   60000000000ull
#define TELL_NS	   10000000000ull
/* sites that are read to find out whether a library is the one that we have patched */
#define STANDS_MAX 64u

struct site {
	uint64_t address;
	uint64_t library; /* where its module starts, if dlclose may unload that; 0: it may not */
	uint32_t function;
	uint8_t length, form, transit_regs;
	uint8_t live[IP_SITE_MAX];
};

struct function {
	char *name; /* the linker's name */
	uint32_t number;
	bool off;	   /* its sites are idle, since another tool has changed one */
	bool suspect;	   /* all its sites are to be looked at */
	bool pending;	   /* it was suspect, and has not been settled since */
	bool disturbed;	   /* counted in the summary */
	bool late;	   /* has idle sites in a library, which an update must make live */
	bool removed;	   /* not selected any more: what is ours becomes idle and stays so */
	uint64_t seen_tsc; /* when its sites were last seen as they must be */
	uint64_t wait_ns, back_ns;
	uint64_t ask_ns; /* late: when to ask for an update again */
};

struct piece {
	size_t first, end; /* indexes of sites */
	uint64_t seen_tsc;
};

struct ip_site_monitor {
	struct ip_target *target;
	struct ip_area *area;
	uint64_t max_stop_ns;
	struct site *sites; /* sorted by address */
	size_t nsites;
	struct function *functions;
	size_t nfunctions, noff;
	struct piece *pieces;
	size_t npieces, at;
	uint8_t *text;
	uint64_t next_ns, told_ns;
	bool late;  /* any function is late */
	bool wants; /* the next answer of ip_site_monitor_wants_update() */
	struct ip_site_monitor_summary summary;
};

int ip_site_monitor_create(struct ip_target *target, struct ip_area *area, uint64_t max_stop_ns,
			   struct ip_site_monitor **ret)
{
	struct ip_site_monitor *w = calloc(1, sizeof(*w));

	if (!w || !(w->text = malloc(PIECE))) {
		free(w);
		return ip_error("out of memory");
	}
	w->target = target;
	w->area = area;
	w->max_stop_ns = max_stop_ns;
	*ret = w;
	return 0;
}

static int by_address(const void *a, const void *b)
{
	const struct site *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/* Cuts the sites into pieces: no page within a piece is without a site. */
static int cut(struct ip_site_monitor *w)
{
	uint64_t now = ip_clock_now();

	free(w->pieces);
	w->pieces = NULL;
	w->npieces = w->at = 0;
	for (size_t first = 0, i = 1; i <= w->nsites; i++) {
		if (i < w->nsites &&
		    w->sites[i].address + w->sites[i].length - w->sites[first].address <= PIECE &&
		    w->sites[i].address - w->sites[i - 1].address <= 4096 &&
		    w->sites[i].library == w->sites[i - 1].library)
			continue;
		if (ip_array_grow(&w->pieces, w->npieces, sizeof(*w->pieces)) < 0)
			return -1;
		w->pieces[w->npieces++] = (struct piece){first, i, now};
		first = i;
	}
	return 0;
}

struct known {
	uint32_t number, place;
};

static int by_known(const void *a, const void *b)
{
	const struct known *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

/* Lists the functions that are watched, sorted by number; the caller frees the list. NULL: memory
 * ran out. */
static struct known *list_known(const struct ip_site_monitor *w, size_t *ret_n)
{
	struct known *known = calloc(w->nfunctions + 1, sizeof(*known));

	*ret_n = 0;
	for (size_t i = 0; known && i < w->nfunctions; i++)
		if (!w->functions[i].removed)
			known[(*ret_n)++] = (struct known){w->functions[i].number, i};
	if (*ret_n)
		qsort(known, *ret_n, sizeof(*known), by_known);
	return known;
}

int ip_site_monitor_add(struct ip_site_monitor *w, const struct ip_plan *plan)
{
	/* index in w->functions, plus 1; 0: not known yet */
	_cleanup_free_ uint32_t *place = calloc(plan->nfunctions + 1, sizeof(*place));
	_cleanup_free_ struct known *known = NULL;
	size_t n = 0, nknown;
	struct function *functions;
	struct site *sites;

	if (!place)
		return ip_error("out of memory");
	if (ip_site_monitor_drop(w, plan) < 0)
		return -1;
	known = list_known(w, &nknown);
	functions = reallocarray(w->functions, w->nfunctions + plan->nfunctions + 1,
				 sizeof(*functions));
	w->functions = functions ? functions : w->functions;
	sites = reallocarray(w->sites, w->nsites + plan->nchanges + 1, sizeof(*sites));
	w->sites = sites ? sites : w->sites;
	if (!functions || !sites)
		return ip_error("out of memory");
	for (n = 0; n < plan->nchanges; n++) {
		const struct ip_change *c = &plan->changes[n];
		const struct ip_plan_function *f = &plan->functions[plan->function_of[n]];
		const struct known key = {.number = f->number}, *found;

		/* of some functions a site was live before, or calls are still missing */
		if (!place[plan->function_of[n]] && known &&
		    (found = bsearch(&key, known, nknown, sizeof(*known), by_known)))
			place[plan->function_of[n]] = found->place + 1;
		if (!place[plan->function_of[n]]) {
			const struct ip_probe_list *list = f->module->list;

			functions[w->nfunctions++] =
				(struct function){.name = strdup(ip_probe_list_string(
							  list, list->functions[f->function].name)),
						  .number = f->number};
			place[plan->function_of[n]] = w->nfunctions;
		}
		struct site *site = &sites[w->nsites++];

		*site = (struct site){.address = c->address,
				      .library = c->may_go ? f->module->start : 0,
				      .function = place[plan->function_of[n]] - 1,
				      .length = c->length,
				      .form = c->form,
				      .transit_regs = c->transit_regs};
		memcpy(site->live, c->new_bytes, sizeof(site->live));
	}
	qsort(w->sites, w->nsites, sizeof(*w->sites), by_address);
	return cut(w);
}

/* Forgets the functions of which no site is left and about which nothing is left to be reported. */
static int forget_functions(struct ip_site_monitor *w)
{
	_cleanup_free_ uint32_t *place = calloc(w->nfunctions + 1, sizeof(*place));
	size_t n = 0;

	if (!place)
		return ip_error("out of memory");
	for (size_t i = 0; i < w->nsites; i++)
		place[w->sites[i].function] = 1;
	for (size_t i = 0; i < w->nfunctions; i++) {
		const struct function *f = &w->functions[i];

		if (!place[i] && (f->removed || (!f->off && !f->pending))) {
			w->noff -= f->off;
			free(f->name);
			continue;
		}
		place[i] = n;
		w->functions[n++] = w->functions[i];
	}
	w->nfunctions = n;
	for (size_t i = 0; i < w->nsites; i++)
		w->sites[i].function = place[w->sites[i].function];
	return 0;
}

int ip_site_monitor_drop(struct ip_site_monitor *w, const struct ip_plan *plan)
{
	_cleanup_free_ bool *gone = NULL;
	size_t n = 0;

	if (!w->nsites || !plan->nchanges)
		return 0;
	gone = calloc(w->nsites, sizeof(*gone));
	if (!gone)
		return ip_error("out of memory");
	for (size_t i = 0; i < plan->nchanges; i++) {
		const struct site key = {.address = plan->changes[i].address};
		const struct site *found =
			bsearch(&key, w->sites, w->nsites, sizeof(*w->sites), by_address);

		if (found)
			gone[found - w->sites] = true;
	}
	for (size_t i = 0; i < w->nsites; i++)
		if (!gone[i])
			w->sites[n++] = w->sites[i];
	w->nsites = n;
	return forget_functions(w) < 0 ? -1 : cut(w);
}

static void note_missing(struct ip_site_monitor *w, struct function *f, uint64_t until,
			 struct ip_trace *trace)
{
	w->summary.disturbed += !f->disturbed;
	f->disturbed = true;
	if (trace)
		ip_trace_add_missing(trace, f->number, f->seen_tsc, until);
}

int ip_site_monitor_forget(struct ip_site_monitor *w, uint64_t start, uint64_t end,
			   struct ip_trace *trace)
{
	_cleanup_free_ bool *lost = w ? calloc(w->nfunctions + 1, sizeof(*lost)) : NULL;
	size_t n = 0;

	if (!w || !w->nsites)
		return 0;
	if (!lost)
		return ip_error("out of memory");
	for (size_t i = 0; i < w->nsites; i++) {
		const struct site *s = &w->sites[i];

		if (s->library && s->address >= start && s->address < end)
			lost[s->function] = true;
		else
			w->sites[n++] = *s;
	}
	if (n == w->nsites)
		return 0;
	w->nsites = n;
	/* a function lies in one module: all of its sites have gone */
	for (size_t i = 0; i < w->nfunctions; i++) {
		struct function *f = &w->functions[i];

		if (!lost[i])
			continue;
		if ((f->off || f->pending) && !f->removed)
			note_missing(w, f, ip_clock_now(), trace);
		w->noff -= f->off;
		f->off = f->pending = f->late = false;
	}
	return forget_functions(w) < 0 ? -1 : cut(w);
}

bool ip_site_monitor_wants_update(struct ip_site_monitor *w)
{
	bool wants = w && w->wants;

	if (w)
		w->wants = false;
	return wants;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

bool ip_site_monitor_is_disturbed(const struct ip_site_monitor *w)
{
	return w && w->noff;
}

void ip_site_monitor_select(struct ip_site_monitor *w, uint32_t *numbers, size_t n,
			    struct ip_trace *trace)
{
	qsort(numbers, n, sizeof(*numbers), by_number);
	for (size_t i = 0; i < w->nfunctions; i++) {
		struct function *f = &w->functions[i];
		bool selected = bsearch(&f->number, numbers, n, sizeof(*numbers), by_number);

		if (selected == !f->removed)
			continue;
		if (!selected && (f->off || f->pending))
			note_missing(w, f, ip_clock_now(), trace);
		f->removed = !selected;
		f->pending = false;
		f->seen_tsc = ip_clock_now();
		f->back_ns = 0;
		/* What is left of the function is looked at together with the functions that are
		 * off. Its sites become idle below the breakpoint of the other tool, or live
		 * again. */
		w->noff += !f->off;
		f->off = true;
	}
}

void ip_site_monitor_clear(struct ip_site_monitor *w, struct ip_trace *trace)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->nfunctions; i++) {
		if ((w->functions[i].off || w->functions[i].pending) && !w->functions[i].removed)
			note_missing(w, &w->functions[i], ip_clock_now(), trace);
		free(w->functions[i].name);
	}
	free(w->sites);
	free(w->functions);
	free(w->pieces);
	w->sites = NULL;
	w->functions = NULL;
	w->pieces = NULL;
	w->nsites = w->nfunctions = w->npieces = w->at = w->noff = 0;
}

void ip_site_monitor_destroy(struct ip_site_monitor *w)
{
	if (!w)
		return;
	ip_site_monitor_clear(w, NULL);
	free(w->text);
	free(w);
}

struct ip_site_monitor_summary ip_site_monitor_summary(const struct ip_site_monitor *w)
{
	return w ? w->summary : (struct ip_site_monitor_summary){0};
}

/* Step 1. Returns how many functions of the piece have become suspect. */
static size_t look(struct ip_site_monitor *w, struct piece *piece)
{
	const struct site *first = &w->sites[piece->first], *last = &w->sites[piece->end - 1];
	uint64_t now = ip_clock_now();
	size_t found = 0;

	/* what cannot be read is not mapped any more */
	if (ip_target_read(w->target, first->address, w->text,
			   last->address + last->length - first->address) < 0)
		return 0;
	for (const struct site *s = first; s <= last; s++) {
		struct function *f = &w->functions[s->function];

		if (f->off || !memcmp(w->text + (s->address - first->address), s->live, s->length))
			continue;
		if (!f->pending)
			f->seen_tsc = piece->seen_tsc;
		found += !f->suspect;
		f->suspect = f->pending = true;
	}
	if (!found)
		piece->seen_tsc = now;
	return found;
}

/* What settling finds, and what it will change. */
struct settling {
	struct ip_change *changes;
	size_t n;
	uint8_t *blocked;	  /* by function: another tool is still there */
	uint8_t *gone;		  /* its library has gone, or was loaded anew */
	uint8_t *late;		  /* it has idle sites that must become live, but not by us */
	uint64_t library;	  /* the last library of which library_stands() was asked */
	bool stands;		  /* what the answer was */
	const struct site *first; /* the first site that is not as it must be */
	enum ip_site_state first_state;
	size_t sites;
};

/* Whether the stub of the site is still there: it may have gone with the library that brought
 * it. */
static bool stub_stands(const struct ip_site_monitor *w, const struct site *s)
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
		const struct site *s = &w->sites[i];
		uint8_t bytes[IP_SITE_MAX];

		if (s->library != library)
			continue;
		looks++;
		g->stands = ip_target_read(w->target, s->address, bytes, s->length) == 0 &&
			    holds_ours(ip_site_state_of_form(w->target, s->form, s->length,
							     s->transit_regs, s->address, bytes));
	}
	return g->stands;
}

static int add_change(struct settling *g, const struct ip_site_monitor *w, const struct site *s,
		      enum ip_site_state state, const uint8_t *bytes, bool live)
{
	struct ip_change c = {.address = s->address,
			      .length = s->length,
			      .form = s->form,
			      .transit_regs = s->transit_regs,
			      .may_go = s->library};

	if (state == IP_SITE_FOREIGN || state == IP_SITE_KERNEL || state == IP_SITE_TRAPPED_IDLE)
		return 0;
	if (s->library && !holds_ours(state)) {
		g->late[s->function] |= live;
		return 0;
	}
	memcpy(c.old_bytes, bytes, s->length);
	memcpy(c.new_bytes, s->live, s->length);
	if (!live && w->target->arch->idle(s->form, s->length, c.new_bytes) < 0)
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
			const struct site *s = &w->sites[i];
			struct function *f = &w->functions[s->function];
			enum ip_site_state state;
			uint8_t bytes[IP_SITE_MAX];

			if (!f->suspect || g->gone[s->function])
				continue;
			if (s->library && pass == 0 && !library_stands(w, g, s->library)) {
				g->gone[s->function] = true;
				continue;
			}
			if (ip_target_read(w->target, s->address, bytes, s->length) < 0) {
				g->blocked[s->function] = true;
				continue;
			}
			state = ip_site_state_of_form(w->target, s->form, s->length,
						      s->transit_regs, s->address, bytes);
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
	name = ip_demangle(w->functions[g->first->function].name, false);
	ip_notice("pid %d: somebody else changed %zu live site%s (the first: %s, of %s at %#lx): "
		  "calls are missing while that lasts",
		  w->target->pid, g->sites, g->sites == 1 ? "" : "s",
		  ip_site_state_name(g->first_state), name ? name : "?", g->first->address);
}

/* Step 3. Asks for an update. The function stays pending, or off, until its sites are found
 * live. */
static void ask(struct ip_site_monitor *w, struct function *f, uint64_t now)
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
		struct function *f = &w->functions[i];

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
				note_missing(w, f, ip_clock_now(), trace);
			w->noff -= f->off;
			f->off = false;
		}
	}
}

/* Step 2, for all suspect functions. */
static struct ip_patch_result settle(struct ip_site_monitor *w, struct ip_trace *trace)
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

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* Step 1: looks at the pieces whose time has come. */
struct ip_patch_result ip_site_monitor_step(struct ip_site_monitor *w, struct ip_trace *trace)
{
	struct ip_patch_result result = {0};
	uint64_t now = ip_now_ns(), began = cpu_ns(), pause, cost = 0, due, stopped = 0;
	size_t suspects = 0;

	if (!w || !w->npieces || now < w->next_ns)
		return result;
	pause = PASS_NS / w->npieces;
	due = 1 + (now - w->next_ns) / (pause + 1);
	for (size_t i = 0; i < due && i < w->npieces && cost < TURN_NS; i++) {
		suspects += look(w, &w->pieces[w->at]);
		w->at = (w->at + 1) % w->npieces;
		if (w->at == 0 && (w->noff || w->late)) {
			w->late = false;
			for (size_t k = 0; k < w->nfunctions; k++) {
				struct function *f = &w->functions[k];

				suspects += f->off || f->late;
				f->suspect |= f->off || f->late;
				w->late |= f->late;
			}
		}
		cost = ip_now_ns() - now;
	}
	if (suspects) {
		uint64_t settling = ip_now_ns();

		result = settle(w, trace);
		/* a stop that failed has held the target as well */
		stopped = result.transient ? ip_now_ns() - settling : result.stop_ns;
	}
	cost = SHARE * (cpu_ns() - began);
	if (cost < STOP_SHARE * stopped)
		cost = STOP_SHARE * stopped;
	w->next_ns = now + (pause > cost ? pause : cost);
	return result;
}
