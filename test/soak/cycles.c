/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patches and unpatches a running process as often as it can, by the hotpatcher's own means:
 *
 *   soak-cycles PID SELECTION CYCLES [SECONDS]
 *
 * A cycle: a new session (empty rings; hooks of the last one may still be in flight: nobody waits
 * for them here), all selected sites live in one stop, events seen in the rings of at least one
 * thread for each, all sites idle in another stop. Every hundredth time every byte of text is
 * compared with the files. Prints one JSON object at the end, a line on stderr every ten seconds.
 * Exit 1 with a reason on stderr: something is not as it should be.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/error.h"
#include "hotpatcher/patch/restore.h"
#include "hotpatcher/plan/plan.h"
#include "hotpatcher/plan/selections.h"
#include "hotpatcher/process/modules.h"
#include "hotpatcher/ptrace/stop.h"
#include "hotpatcher/shm/area.h"

#define MEMORY	   (8ull << 20)
#define DEADLINE   1000000000ull
#define EVENTS_NS  20000000000ull /* how long events are waited for */
#define TRIES	   100
#define CHECK_EACH 100

struct soak {
	struct ip_target *target;
	struct ip_area *area;
	struct ip_modules modules;
	struct ip_selections selections;
	struct ip_plan plan;
	uint64_t events, retries, longest_stop, total_stop, least_events;
	size_t threads;
};

static void nap(long ns)
{
	nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static uint64_t count_events(const struct ip_area *area)
{
	uint64_t words = 0;

	for (uint32_t i = 0; i < area->header->slots_used && i < IP_AREA_SLOTS; i++)
		words += (area->slots[i].cur & IP_POSITION_MASK) + area->slots[i].lost;
	return words + area->header->unserved;
}

/* One stop; tried again where somebody is in the way. */
static int patch(struct soak *k, struct ip_change *changes, size_t n, int64_t gate)
{
	for (int i = 0;; i++) {
		struct ip_patch_result result = {0};
		struct ip_patch *p = NULL;
		int ret = ip_patch_prepare(k->target, changes, n, false, &p);

		if (ret == 0)
			ret = ip_patch_apply(p, DEADLINE, gate, &result);
		ip_patch_destroy(p);
		free(result.inside);
		ip_stop_let_go(k->target);
		if (ret == 0) {
			k->longest_stop =
				result.stop_ns > k->longest_stop ? result.stop_ns : k->longest_stop;
			k->total_stop += result.stop_ns;
			k->threads = result.threads > k->threads ? result.threads : k->threads;
			return 0;
		}
		if (!result.transient || i == TRIES)
			return -1;
		k->retries++;
		nap(2000000);
	}
}

static void turn_round(struct ip_plan *plan)
{
	for (size_t i = 0; i < plan->nchanges; i++) {
		struct ip_change *c = &plan->changes[i];
		uint8_t bytes[IP_SITE_MAX];

		memcpy(bytes, c->old_bytes, sizeof(bytes));
		memcpy(c->old_bytes, c->new_bytes, sizeof(bytes));
		memcpy(c->new_bytes, bytes, sizeof(bytes));
	}
}

static int check_text(struct soak *k)
{
	for (size_t i = 0; i < k->modules.n; i++) {
		struct ip_module_state state;

		if (!k->modules.items[i].list ||
		    !ip_module_is_mapped(k->target, &k->modules.items[i]))
			continue;
		if (ip_module_inspect(k->target, &k->modules.items[i], &state) < 0)
			return -1;
		if (!state.text_matches_file || state.patched || state.foreign)
			return ip_error("%s: text is not as in the file (%zu patched, %zu foreign)",
					k->modules.items[i].path, state.patched, state.foreign);
	}
	return 0;
}

static int cycle(struct soak *k, uint64_t n)
{
	uint64_t limit, events;

	if (ip_area_begin(k->area, k->target->pid, &(struct ip_area_needs){.memory = MEMORY}) < 0)
		return -1;
	if (n == 0 && ip_plan_bind(&k->plan, k->target, k->area) < 0)
		return -1;
	if (patch(k, k->plan.changes, k->plan.nchanges, k->area->header->session) < 0)
		return ip_error_prefix("cycle %lu, going live", n), -1;
	limit = ip_now_ns() + EVENTS_NS;
	while (!(events = count_events(k->area)))
		if (!ip_target_alive(k->target) || ip_now_ns() > limit)
			return ip_error("cycle %lu: no events, or the target has ended", n);
		else
			nap(100000);
	turn_round(&k->plan);
	if (patch(k, k->plan.changes, k->plan.nchanges, 0) < 0)
		return ip_error_prefix("cycle %lu, going idle", n), -1;
	turn_round(&k->plan);
	events = count_events(k->area);
	k->events += events;
	if (!k->least_events || events < k->least_events)
		k->least_events = events;
	return n % CHECK_EACH == 0 ? check_text(k) : 0;
}

static int prepare(struct soak *k, pid_t pid, const char *selection)
{
	return ip_selections_add(&k->selections, selection) < 0 ||
			       ip_stops_open(pid, &k->target) < 0 ||
			       ip_area_open(k->target, &k->area) < 0 ||
			       ip_area_lock_session(k->area, pid) < 0 ||
			       ip_area_lock_patch(k->area, pid) < 0 ||
			       ip_modules_load(k->target, &k->modules) < 0 ||
			       ip_plan_select(k->target, &k->modules, &k->selections, &k->plan) < 0
		       ? -1
		       : 0;
}

int main(int argc, char **argv)
{
	struct soak k = {0};
	uint64_t cycles, n = 0, end, told = ip_now_ns(), began = told;
	int ret;

	if (argc < 4)
		return 2;
	cycles = strtoull(argv[3], NULL, 10);
	end = argc > 4 ? began + strtoull(argv[4], NULL, 10) * 1000000000ull : UINT64_MAX;
	ret = prepare(&k, atoi(argv[1]), argv[2]);
	while (ret == 0 && n < cycles && ip_now_ns() < end) {
		ret = cycle(&k, n);
		n += ret == 0;
		if (ip_now_ns() - told > 10000000000ull) {
			told = ip_now_ns();
			fprintf(stderr, "%lu cycles, %lu events\n", n, k.events);
		}
	}
	if (ret == 0)
		ret = check_text(&k);
	if (ret < 0) {
		fprintf(stderr, "soak-cycles: after %lu cycles: %s\n", n, ip_error_message());
		return 1;
	}
	printf("{\"cycles\":%lu,\"sites\":%zu,\"events\":%lu,\"least_events\":%lu,\"threads\":%zu,"
	       "\"retries\":%lu,\"longest_stop_us\":%lu,\"average_stop_us\":%lu,\"seconds\":%lu}\n",
	       n, k.plan.nchanges, k.events, k.least_events, k.threads, k.retries,
	       k.longest_stop / 1000, n ? k.total_stop / n / 2000 : 0,
	       (ip_now_ns() - began) / 1000000000);
	return 0;
}
