/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches live sites. site_monitor.h describes the steps; comments here name them.
 */
#include "session/monitor/site_monitor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/now.h"
#include "hotpatcher/arch/x86_64/regs.h"
#include "hotpatcher/patch/site_state.h"
#include "hotpatcher/ptrace/stop.h"
#include "session/monitor/site_monitor_private.h"
#include "trace_writer/writer.h"

#define PIECE	   (256u << 10)
#define PASS_NS	   100000000ull /* all sites are looked at this often */
#define TURN_NS	   500000ull	/* of looking in one step, about: the rings must be drained */
#define STOP_SHARE 20		/* at most one part in so many of the target's time goes to stops */
#define SHARE	   100
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
	const struct ip_monitor_site *x = a, *y = b;

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
		    ip_monitor_library(&w->sites[i]) == ip_monitor_library(&w->sites[i - 1]))
			continue;
		if (ip_array_grow(&w->pieces, w->npieces, sizeof(*w->pieces)) < 0)
			return -1;
		w->pieces[w->npieces++] = (struct ip_monitor_piece){first, i, now};
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

static const char *name_of(const struct ip_plan_function *f)
{
	const struct ip_probe_list *list = f->module->list;

	return ip_probe_list_string(list, list->functions[f->function].name);
}

/* Makes room for functions of a plan, for names of them all, and for its sites if these are to be
 * there. */
static int make_room(struct ip_site_monitor *w, const struct ip_plan *plan, bool sites)
{
	size_t size = w->names_size + 1;
	void *grown;

	for (size_t i = 0; i < plan->nfunctions; i++)
		size += strlen(name_of(&plan->functions[i])) + 1;
	if (size > UINT32_MAX)
		return ip_error("the names of the functions take more than 4 GiB");
	grown = realloc(w->names, size);
	if (!grown)
		return ip_error("out of memory");
	w->names = grown;
	grown = reallocarray(w->functions, w->nfunctions + plan->nfunctions + 1,
			     sizeof(*w->functions));
	if (!grown)
		return ip_error("out of memory");
	w->functions = grown;
	if (!sites)
		return 0;
	grown = reallocarray(w->sites, w->nsites + plan->nchanges + 1, sizeof(*w->sites));
	if (!grown)
		return ip_error("out of memory");
	w->sites = grown;
	return 0;
}

static void add_function(struct ip_site_monitor *w, const struct ip_plan_function *f)
{
	const char *name = name_of(f);
	const size_t size = strlen(name) + 1;

	w->functions[w->nfunctions++] =
		(struct ip_monitor_function){.name = w->names_size, .number = f->number};
	memcpy(w->names + w->names_size, name, size);
	w->names_size += size;
}

/* As struct ip_monitor_site tells it. */
static uint32_t pages_to(const struct ip_module *module, const struct ip_change *c)
{
	return (c->address >> 12) - (module->start >> 12) + 1;
}

/* Orders the sites by address; those of one module are in order already. */
static void sort(struct ip_site_monitor *w)
{
	size_t i = 1;

	while (i < w->nsites && w->sites[i - 1].address <= w->sites[i].address)
		i++;
	if (i < w->nsites)
		qsort(w->sites, w->nsites, sizeof(*w->sites), by_address);
}

static struct ip_monitor_site site_of(const struct ip_change *c, const struct ip_module *module,
				      uint32_t function)
{
	struct ip_monitor_site site = {.address = c->address,
				       .pages = c->may_go ? pages_to(module, c) : 0,
				       .function = function,
				       .length = c->length,
				       .form = c->form,
				       .jump = c->jump,
				       .transit_regs = c->transit_regs};

	memcpy(site.live, c->new_bytes, sizeof(site.live));
	return site;
}

/* Adds the plan's sites behind the others, which there is room for. A site is read before the
 * memory at its place is written, so to may be the memory of the plan's changes. */
static void add_sites(struct ip_site_monitor *w, const struct ip_plan *plan,
		      const struct known *known, size_t nknown, uint32_t *place, void *to)
{
	for (size_t n = 0; n < plan->nchanges; n++) {
		const uint32_t index = plan->function_of[n];
		const struct ip_plan_function *f = &plan->functions[index];
		const struct known key = {.number = f->number}, *found;
		struct ip_monitor_site site;

		/* of some functions a site was live before, or calls are still missing */
		if (!place[index] && nknown &&
		    (found = bsearch(&key, known, nknown, sizeof(*known), by_known)))
			place[index] = found->place + 1;
		if (!place[index]) {
			add_function(w, f);
			place[index] = w->nfunctions;
		}
		site = site_of(&plan->changes[n], f->module, place[index] - 1);
		memcpy((char *)to + n * sizeof(site), &site, sizeof(site));
	}
}

static int add(struct ip_site_monitor *w, const struct ip_plan *plan, void *to)
{
	/* index in w->functions, plus 1; 0: not known yet */
	_cleanup_free_ uint32_t *place = calloc(plan->nfunctions + 1, sizeof(*place));
	_cleanup_free_ struct known *known = NULL;
	size_t nknown;

	if (!place)
		return ip_error("out of memory");
	if (ip_site_monitor_drop(w, plan) < 0)
		return -1;
	known = list_known(w, &nknown);
	if (!known)
		return ip_error("out of memory");
	if (make_room(w, plan, !to) < 0)
		return -1;
	add_sites(w, plan, known, nknown, place, to ? to : w->sites + w->nsites);
	return 0;
}

int ip_site_monitor_add(struct ip_site_monitor *w, const struct ip_plan *plan)
{
	if (add(w, plan, NULL) < 0)
		return -1;
	w->nsites += plan->nchanges;
	sort(w);
	return cut(w);
}

int ip_site_monitor_take(struct ip_site_monitor *w, struct ip_plan *plan)
{
	void *sites;

	_Static_assert(sizeof(struct ip_monitor_site) <= sizeof(struct ip_change), "it has room");
	if (w->nsites || !plan->nchanges)
		return ip_site_monitor_add(w, plan);
	if (add(w, plan, plan->changes) < 0)
		return -1;
	free(w->sites);
	w->sites = (struct ip_monitor_site *)plan->changes;
	w->nsites = plan->nchanges;
	plan->changes = NULL;
	plan->nchanges = 0;
	sites = reallocarray(w->sites, w->nsites, sizeof(*w->sites));
	w->sites = sites ? sites : w->sites;
	sort(w);
	return cut(w);
}

/* Forgets the functions of which no site is left and about which nothing is left to be reported. */
static int forget_functions(struct ip_site_monitor *w)
{
	_cleanup_free_ uint32_t *place = calloc(w->nfunctions + 1, sizeof(*place));
	size_t n = 0, size = 0;

	if (!place)
		return ip_error("out of memory");
	for (size_t i = 0; i < w->nsites; i++)
		place[w->sites[i].function] = 1;
	for (size_t i = 0; i < w->nfunctions; i++) {
		const struct ip_monitor_function *f = &w->functions[i];
		const char *name = w->names + f->name;
		const size_t length = strlen(name) + 1;

		if (!place[i] && (f->removed || (!f->off && !f->pending))) {
			w->noff -= f->off;
			continue;
		}
		place[i] = n;
		memmove(w->names + size, name, length);
		w->functions[n] = w->functions[i];
		w->functions[n++].name = size;
		size += length;
	}
	w->nfunctions = n;
	w->names_size = size;
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
		const struct ip_monitor_site key = {.address = plan->changes[i].address};
		const struct ip_monitor_site *found =
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
		const struct ip_monitor_site *s = &w->sites[i];

		if (s->pages && s->address >= start && s->address < end)
			lost[s->function] = true;
		else
			w->sites[n++] = *s;
	}
	if (n == w->nsites)
		return 0;
	w->nsites = n;
	/* a function lies in one module: all of its sites have gone */
	for (size_t i = 0; i < w->nfunctions; i++) {
		struct ip_monitor_function *f = &w->functions[i];

		if (!lost[i])
			continue;
		if ((f->off || f->pending) && !f->removed)
			ip_monitor_missing(w, f, ip_clock_now(), trace);
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
		struct ip_monitor_function *f = &w->functions[i];
		bool selected = bsearch(&f->number, numbers, n, sizeof(*numbers), by_number);

		if (selected == !f->removed)
			continue;
		if (!selected && (f->off || f->pending))
			ip_monitor_missing(w, f, ip_clock_now(), trace);
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
	for (size_t i = 0; i < w->nfunctions; i++)
		if ((w->functions[i].off || w->functions[i].pending) && !w->functions[i].removed)
			ip_monitor_missing(w, &w->functions[i], ip_clock_now(), trace);
	free(w->names);
	free(w->sites);
	free(w->functions);
	free(w->pieces);
	w->names = NULL;
	w->names_size = 0;
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
static size_t look(struct ip_site_monitor *w, struct ip_monitor_piece *piece)
{
	const struct ip_monitor_site *first = &w->sites[piece->first],
				     *last = &w->sites[piece->end - 1];
	uint64_t now = ip_clock_now();
	size_t found = 0;

	/* what cannot be read is not mapped any more */
	if (ip_target_read(w->target, first->address, w->text,
			   last->address + last->length - first->address) < 0)
		return 0;
	for (const struct ip_monitor_site *s = first; s <= last; s++) {
		struct ip_monitor_function *f = &w->functions[s->function];

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

/* Step 1: looks at the pieces whose time has come. */
struct ip_patch_result ip_site_monitor_step(struct ip_site_monitor *w, struct ip_trace *trace)
{
	struct ip_patch_result result = {0};
	uint64_t now = ip_now_ns(), began = ip_thread_cpu_ns(), pause, cost = 0, due, stopped = 0;
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
				struct ip_monitor_function *f = &w->functions[k];

				suspects += f->off || f->late;
				f->suspect |= f->off || f->late;
				w->late |= f->late;
			}
		}
		cost = ip_now_ns() - now;
	}
	if (suspects) {
		uint64_t settling = ip_now_ns();

		result = ip_site_repair(w, trace);
		/* a stop that failed has held the target as well */
		stopped = result.transient ? ip_now_ns() - settling : result.stop_ns;
	}
	cost = SHARE * (ip_thread_cpu_ns() - began);
	if (cost < STOP_SHARE * stopped)
		cost = STOP_SHARE * stopped;
	w->next_ns = now + (pause > cost ? pause : cost);
	return result;
}
