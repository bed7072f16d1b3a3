/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FPerf's memory in the target: setting it up, and the places of functions in it.
 */
#include "fperf/fperf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collector/hot_functions.h"
#include "common/arch/arch.h"
#include "common/array.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/selection/selection.h"
#include "fperf/fperf_private.h"
#include "fperf/policy.h"
#include "fperf/tails.h"
#include "hotpatcher/plan/plan.h"
#include "hotpatcher/plan/value_plan.h"
#include "hotpatcher/ptrace/stop.h"
#include "hotpatcher/shm/area.h"

#define MORE_CELLS 64u /* room for functions of libraries that are loaded later */
#define CLOCK_NS   20000000ull
/* What hooks cost, as parts or multiples of two readings of the clock (hot_functions.h), rounded
 * up. It was measured on a loop of calls of a function that does next to nothing. Entry and exit
 * took 3.9 ns as long as the function was only counted, while two readings took 21 ns. In programs
 * the hooks take twice that: branch prediction and caches are shared between the program and the
 * hooks. (lzip with a budget of 5 % lost 6.9 +- 1.3 when this was 4.5, and 4.0 +- 1.0 with 2.5.) */
/* two readings cost so many times as much as a counted call: both of its hooks, of which only the
 * entry counts */
#define COUNT_PARTS 2.5
/* Added to that for a function that is called so seldom that its stub and its cell are in no near
 * cache. In sqlite, with 242 functions that are called some thousand times a second each, 1.4
 * million calls a second took about 4 % of its time. 6.4 million calls, most of them of a few hot
 * functions, took 4.8 %. */
#define COLD_PARTS 1.3
/* A hook that goes through C and takes no sample. Also what a hook that takes a sample costs
 * besides what it measures. */
#define HOOK_PARTS 1.0

int ip_fperf_create(const struct ip_fperf_options *options, struct ip_fperf **ret)
{
	struct ip_fperf *f = calloc(1, sizeof(*f));

	if (!f)
		return ip_error("out of memory");
	f->options = *options;
	f->cpu_time.own = -1;
	ip_fperf_set_controller(f);
	*ret = f;
	return 0;
}

void ip_fperf_destroy(struct ip_fperf *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->nfunctions; i++) {
		free(f->functions[i].name);
		free(f->functions[i].bare_name);
		free(f->functions[i].module);
		free(f->functions[i].targets);
		free(f->functions[i].needs);
		free(f->functions[i].needed_by);
	}
	for (size_t i = 0; i < f->nmodules; i++)
		free(f->modules[i].index);
	ip_cpu_time_clear(&f->cpu_time);
	free(f->functions);
	free(f->modules);
	free(f->owned);
	free(f->places);
	free(f);
}

const struct ip_fperf_options *ip_fperf_get_options(const struct ip_fperf *f)
{
	return &f->options;
}

bool ip_fperf_makes_calls(const struct ip_fperf *f)
{
	for (unsigned i = 0; i < f->options.nevents; i++)
		if (ip_fperf_reads(f->options.events[i]->source))
			return true;
	return false;
}

static uint32_t cell_size(const struct ip_fperf *f)
{
	return IP_FPERF_CELL_SIZE(f->options.nevents);
}

int ip_fperf_check(struct ip_fperf *f, const struct ip_target *target, const struct ip_plan *plan,
		   uint64_t *room)
{
	if (target->arch->bits != 64)
		return ip_error("pid %d: fperf counts in 64-bit programs only", target->pid);
	/* otherwise it would count nothing, without a message */
	if (target->anchor.fperf_abi != IP_FPERF_ABI)
		return ip_error("pid %d: the runtime in it is that of another version of iprobe "
				"(fperf's ABI is %u, ours %u): start the process anew",
				target->pid, target->anchor.fperf_abi, IP_FPERF_ABI);
	if (ip_fperf_makes_calls(f) && ip_values_is_confined(target))
		return ip_error("pid %d: it is under seccomp, or may be soon (libseccomp), and "
				"might be ended for the system calls that read these counters: -e "
				"tsc::CYCLES takes none",
				target->pid);
	if (ip_pmu_check(target, f->options.events, f->options.nevents) < 0)
		return -1;
	*room += ip_pmu_room(f->options.events, f->options.nevents) + IP_FPERF_PLACE_SIZE +
		 (plan->nfunctions + MORE_CELLS) * (uint64_t)cell_size(f);
	return 0;
}

double ip_fperf_pair_cost(double *ret_ns_per_tick, double *ret_cold_ns)
{
	struct ip_clock_reading from, to;
	struct ip_hot *hot = ip_hot_create(50);
	double pair_ns;

	ip_clock_read(&from);
	*ret_ns_per_tick = 1e9 / ip_clock_hz(&from, &to, CLOCK_NS);
	pair_ns = (hot ? ip_hot_cost(hot) : 100) * *ret_ns_per_tick;
	ip_hot_destroy(hot);
	*ret_cold_ns = pair_ns * COLD_PARTS;
	return pair_ns;
}

static void measure_costs(struct ip_fperf *f)
{
	const double pair_ns = ip_fperf_pair_cost(&f->ns_per_tick, &f->cold_ns);

	f->count_ns = pair_ns / COUNT_PARTS;
	f->hook_ns = pair_ns * HOOK_PARTS;
	/* With exclusive samples no function is only counted: each call inside of a sample is
	 * measured. */
	if (f->options.exclusive)
		f->count_ns = 2 * f->hook_ns;
	f->call_ns = f->count_ns;
	f->sample_ns = 3000;
	f->change_ns = 300000;
}

static int place_pmu(struct ip_fperf *f, struct ip_fperf_header *h)
{
	f->pmu = ip_blocks_place(f->area, ip_pmu_room(f->options.events, f->options.nevents));
	if (!f->pmu)
		return ip_error("no memory is left for counters: give more with --memory");
	ip_pmu_fill(f->options.events, f->options.nevents, f->options.multiplex,
		    ip_fperf_at(f, 0, f->pmu), h->source);
	h->pmu = f->area->fperf_pmu = f->pmu;
	f->area->fperf_counters = ip_pmu_counters(f->options.events, f->options.nevents);
	return 0;
}

int ip_fperf_begin(struct ip_fperf *f, struct ip_area *area)
{
	struct ip_fperf_header *h;

	f->area = area;
	f->nplaces = 0;
	free(f->owned);
	f->owned = calloc(area->blocks.all + 1, sizeof(*f->owned));
	if (!f->owned)
		return ip_error("out of memory");
	ip_fperf_list_owned(f);
	measure_costs(f);
	f->place = ip_blocks_place(area, (IP_FPERF_PLACE_SIZE + 7) / 8 * 8);
	if (!f->place)
		return ip_error("no memory is left for counters: give more with --memory");
	h = ip_fperf_at(f, 0, f->place);
	*h = (struct ip_fperf_header){.abi = IP_FPERF_ABI,
				      .nevents = f->options.nevents,
				      .hook_ticks = f->hook_ns / f->ns_per_tick,
				      .most_ticks = IP_FPERF_MOST_NS / f->ns_per_tick,
				      .ns_per_tick = f->ns_per_tick * 4294967296.0};
	for (unsigned i = 0; i < f->options.nevents; i++) {
		h->source[i] = f->options.events[i]->source;
		h->reads |= ip_fperf_reads(h->source[i]);
	}
	if (h->reads & IP_FPERF_READS_PMU && place_pmu(f, h) < 0)
		return -1;
	h->exclusive = f->options.exclusive;
	area->header->fperf = area->fperf = f->place;
	area->fperf_reads = h->reads;
	/* Number 0 is no probe's. It is for trials that the runtime itself makes (runtime/fperf.c,
	 * 3). */
	ip_area_set_duty(area, 0, IP_DUTY_FPERF, f->place);
	return 0;
}

void ip_fperf_set_whole(struct ip_fperf *f, bool whole)
{
	struct ip_fperf_header *h = ip_fperf_at(f, 0, f->place);
	uint32_t was = h->whole;

	if (f->options.exclusive && whole != (was != 0)) {
		if (whole)
			f->epoch = f->epoch + 1 ? f->epoch + 1 : 1;
		__atomic_store_n(&h->whole, whole ? f->epoch : 0, __ATOMIC_RELEASE);
	}
}

static struct ip_fperf_module *find_module(const struct ip_fperf *f, const struct ip_module *module)
{
	for (size_t i = 0; module->elf && i < f->nmodules; i++)
		if (f->modules[i].build_id_size == module->elf->build_id_size &&
		    !memcmp(f->modules[i].build_id, module->elf->build_id,
			    f->modules[i].build_id_size))
			return &f->modules[i];
	return NULL;
}

struct ip_fperf_function *ip_fperf_find(const struct ip_fperf *f, const struct ip_module *module,
					uint32_t function)
{
	const struct ip_fperf_module *m = find_module(f, module);

	return m && function < m->nfunctions && m->index[function]
		       ? &f->functions[m->index[function] - 1]
		       : NULL;
}

bool ip_fperf_is_out(const struct ip_fperf *f, const struct ip_module *module, uint32_t function)
{
	const struct ip_fperf_function *fn = ip_fperf_find(f, module, function);

	return fn && fn->out;
}

static struct ip_fperf_module *add_module(struct ip_fperf *f, const struct ip_module *module)
{
	struct ip_fperf_module *m;

	if (ip_array_grow(&f->modules, f->nmodules, sizeof(*f->modules)) < 0)
		return NULL;
	m = &f->modules[f->nmodules];
	*m = (struct ip_fperf_module){.nfunctions = module->list->header->nfunctions};
	m->index = calloc(m->nfunctions + 1, sizeof(*m->index));
	if (!m->index) {
		ip_error("out of memory");
		return NULL;
	}
	m->build_id_size = module->elf->build_id_size;
	memcpy(m->build_id, module->elf->build_id, m->build_id_size);
	f->nmodules++;
	return m;
}

static struct ip_fperf_function *add_function(struct ip_fperf *f, const struct ip_plan_function *pf)
{
	struct ip_fperf_module *m = find_module(f, pf->module);
	const char *name = ip_probe_list_string(pf->module->list,
						pf->module->list->functions[pf->function].name),
		   *base = strrchr(pf->module->path, '/');
	struct ip_fperf_function *fn;

	if (!m)
		m = add_module(f, pf->module);
	if (!m)
		return NULL;
	if (m->index[pf->function])
		return &f->functions[m->index[pf->function] - 1];
	if (ip_array_grow(&f->functions, f->nfunctions, sizeof(*f->functions)) < 0)
		return NULL;
	fn = &f->functions[f->nfunctions];
	*fn = (struct ip_fperf_function){.name = ip_demangle(name, true),
					 .bare_name = ip_demangle(name, false),
					 .mangled = *name == '_',
					 .module = strdup(base ? base + 1 : pf->module->path),
					 .entry_only = pf->entry_only,
					 .hidden = pf->silent,
					 .width = -1,
					 .mean = NAN,
					 .gaps = {.tick = IP_FPERF_TICK_S}};
	fn->placed_ns = fn->since_ns = fn->looked_ns = ip_now_ns();
	fn->looked_s = ip_fperf_undisturbed(f);
	fn->looked_cpu_s = f->cpu_ns / 1e9;
	if (!fn->name || !fn->bare_name || !fn->module) {
		free(fn->name);
		free(fn->bare_name);
		free(fn->module);
		ip_error("out of memory");
		return NULL;
	}
	m->index[pf->function] = ++f->nfunctions;
	return fn;
}

int ip_fperf_place(struct ip_fperf *f, const struct ip_plan_function *pf)
{
	struct ip_fperf_function *fn = add_function(f, pf);

	if (!fn)
		return -1;
	if (pf->jumps) {
		ip_fperf_place_jumps(f, fn, pf->number);
		return 0;
	}
	fn->tails |= pf->tails;
	/* The number is of another process image, or it is the first one. What the old cell held
	 * has been taken over. */
	if (fn->numbers[pf->inlined] != pf->number) {
		uint32_t offset = ip_blocks_place(f->area, cell_size(f));

		if (!offset)
			return ip_error("no memory is left to count in more than %zu functions: "
					"select fewer, or give more with --memory",
					f->nfunctions);
		if (ip_array_grow(&f->places, f->nplaces, sizeof(*f->places)) < 0)
			return -1;
		f->places[f->nplaces++] = offset;
		fn->offsets[pf->inlined] = offset;
		fn->numbers[pf->inlined] = pf->number;
		ip_fperf_grant(f, fn, f->options.budget < 0 ? IP_FPERF_NO_LIMIT : IP_FPERF_PROMISED,
			       1);
	}
	return 0;
}
