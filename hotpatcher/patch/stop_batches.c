/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several stops. The steps are told in stop_batches.h; the comments here name them.
 */
#include "hotpatcher/patch/stop_batches.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "hotpatcher/ptrace/stop.h"

#define PAGE(a)	    ((a) >> 12)
#define NAP_NS	    5000000ull
#define OTHER_TRIES 4 /* the most tries, unless threads got no CPU in time */
#define TIMEOUT_NS  10000000000ull

static int by_group(const void *a, const void *b, void *data)
{
	const struct ip_change *x = a, *y = b;
	const uint64_t *first = data;

	if (x->group != y->group)
		return first[x->group] < first[y->group] ? -1 : 1;
	return x->address < y->address ? -1 : x->address > y->address;
}

int ip_stop_batches_order(struct ip_change *changes, size_t n)
{
	_cleanup_free_ uint64_t *first = NULL; /* the lowest address of each group */
	uint32_t last = 0;
	bool ordered = true;

	for (size_t i = 0; i < n; i++)
		last = changes[i].group > last ? changes[i].group : last;
	first = malloc((last + 1ull) * sizeof(*first));
	if (!first)
		return ip_error("out of memory");
	memset(first, 0xff, (last + 1ull) * sizeof(*first));
	for (size_t i = 0; i < n; i++)
		if (changes[i].address < first[changes[i].group])
			first[changes[i].group] = changes[i].address;
	for (size_t i = 1; i < n && ordered; i++)
		ordered = by_group(&changes[i - 1], &changes[i], first) < 0;
	if (!ordered)
		qsort_r(changes, n, sizeof(*changes), by_group, first);
	return 0;
}

/* Whether they are ordered as ip_stop_batches_order() would do it. False also where that is not
 * plain: the numbers of groups that are in order go up in most plans. */
static bool is_in_order(const struct ip_change *changes, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (changes[i - 1].address >= changes[i].address ||
		    changes[i - 1].group > changes[i].group)
			return false;
	return true;
}

/* Counts one more site: the pages that it begins, and whether it crosses. last: the page of the
 * site before. */
static void count(const struct ip_change *c, uint64_t *last, size_t *pages, size_t *crossing)
{
	uint64_t page = PAGE(c->address);
	bool crosses = ip_change_crosses_page(c);

	*pages += (page != *last) + crosses;
	*crossing += crosses;
	*last = page + crosses;
}

size_t ip_stop_batches_next(const struct ip_change *changes, size_t n, uint64_t write_ns)
{
	size_t whole = 0, pages = 0, crossing = 0, i = 0;
	uint64_t last = ~0ull;

	while (i < n) {
		uint32_t group = changes[i].group;

		for (; i < n && changes[i].group == group; i++)
			count(&changes[i], &last, &pages, &crossing);
		if (whole && ip_patch_expect_ns(pages, crossing) > write_ns)
			return whole;
		whole = i;
	}
	return whole;
}

/* Step 1. */
uint64_t ip_stop_batches_write_ns(uint64_t max_stop_ns, size_t threads)
{
	uint64_t gather = ip_patch_expect_threads_ns(threads), half = max_stop_ns / 2;

	if (gather <= half)
		return half;
	return gather < max_stop_ns ? max_stop_ns - gather : 0;
}

uint64_t ip_stop_batches_expect(struct ip_change *changes, size_t n, uint64_t max_stop_ns,
				size_t threads, size_t *ret_stops)
{
	uint64_t write_ns = ip_stop_batches_write_ns(max_stop_ns, threads), longest = 0;

	*ret_stops = 0;
	if (ip_stop_batches_order(changes, n) < 0)
		return 0;
	for (size_t done = 0, part; done < n; done += part) {
		size_t pages = 0, crossing = 0;
		uint64_t last = ~0ull, expected;

		part = ip_stop_batches_next(changes + done, n - done, write_ns);
		for (size_t i = done; i < done + part; i++)
			count(&changes[i], &last, &pages, &crossing);
		expected = ip_patch_expect_ns(pages, crossing);
		longest = expected > longest ? expected : longest;
		++*ret_stops;
	}
	return ip_patch_expect_threads_ns(threads) + longest;
}

/* Lets the target run until the next try. -1: there will be no next try. Keeps the error. */
static int rest(struct ip_target *target, uint64_t limit_ns)
{
	if (ip_now_ns() + NAP_NS > limit_ns || ip_now_ns() + ip_stop_rest_ns(target) > limit_ns)
		return -1;
	return ip_stop_rest(target, NAP_NS, &ip_interrupted);
}

/* Step 4. */
static int apply(struct ip_patch *patch, struct ip_target *target, uint64_t max_stop_ns,
		 int64_t gate_session, unsigned tries, struct ip_patch_result *result)
{
	const uint64_t began = ip_now_ns();

	for (unsigned i = 1;; i++) {
		if (ip_patch_apply(patch, max_stop_ns, gate_session, result) == 0)
			return 0;
		if (!result->transient || i >= tries ||
		    (i >= OTHER_TRIES && !ip_stops_of(target)->starved))
			return -1;
		ip_stop_let_go(target);
		if (rest(target, began + TIMEOUT_NS) < 0)
			return -1;
	}
}

static int add_inside(struct ip_patch_result *all, const struct ip_patch_result *one)
{
	pid_t *grown;

	if (!one->ninside)
		return 0;
	grown = realloc(all->inside, (all->ninside + one->ninside) * sizeof(*grown));
	if (!grown)
		return ip_error("out of memory");
	memcpy(grown + all->ninside, one->inside, one->ninside * sizeof(*grown));
	all->inside = grown;
	all->ninside += one->ninside;
	return 0;
}

static int apply_part(struct ip_target *target, const struct ip_change *changes, size_t n,
		      uint64_t max_stop_ns, int64_t gate_session,
		      struct ip_stop_batches_tries tries, struct ip_patch_result *ret)
{
	struct ip_patch_result result = {0};
	struct ip_patch *patch = NULL;
	int done = -1;

	if (ip_patch_prepare(target, changes, n, tries.looked, &patch) == 0)
		done = apply(patch, target, max_stop_ns, gate_session, tries.n, &result);
	ip_patch_destroy(patch);
	ip_patch_result_append(ret, &result.stops);
	ret->transient = result.transient;
	if (add_inside(ret, &result) < 0)
		done = -1;
	free(result.inside);
	return done;
}

int ip_stop_batches_apply(struct ip_target *target, const struct ip_change *changes, size_t n,
			  uint64_t max_stop_ns, int64_t gate_session,
			  struct ip_stop_batches_tries tries, struct ip_patch_result *ret)
{
	_cleanup_free_ struct ip_change *own = NULL;
	long threads = ip_proc_status(target->pid, "Threads");

	*ret = (struct ip_patch_result){0};
	if (!is_in_order(changes, n)) {
		own = malloc(n * sizeof(*own));
		if (!own)
			return ip_error("out of memory");
		memcpy(own, changes, n * sizeof(*own));
		if (ip_stop_batches_order(own, n) < 0) /* 2 */
			return -1;
		changes = own;
	}
	for (size_t done = 0; done < n;) { /* 3 */
		uint64_t write_ns =
			ip_stop_batches_write_ns(max_stop_ns, threads > 0 ? threads : 1);
		size_t part = ip_stop_batches_next(changes + done, n - done, write_ns);

		/* 5 */
		if (apply_part(target, changes + done, part, max_stop_ns, gate_session, tries,
			       ret) < 0) {
			free(ret->inside);
			ret->inside = NULL;
			ret->ninside = 0;
			return -1;
		}
		done += part;
		tries.looked = false; /* by now the look is old: what others have set is refused
				       * while the target runs, not in a stop */
	}
	return 0;
}
