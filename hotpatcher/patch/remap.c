/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carrying out remaps. The steps are told in remap.h; the comments here name them. The first step
 * is in remap_plan.c.
 */
#include "hotpatcher/patch/remap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/abi/area.h"
#include "common/abi/borrow.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/inject/borrow_search.h"
#include "hotpatcher/patch/remap_limits.h"
#include "hotpatcher/patch/remap_plan.h"
#include "hotpatcher/patch/restore.h"
#include "hotpatcher/ptrace/stops.h"

#define MAPPINGS 4 /* mappings that a piece may take, for a moment */
/* the second hold may take this many times as long to find a thread: a thread has just been
 * found */
#define AGAIN 4

#define NO_THREAD "no thread could be borrowed at once"

static void note_hold(struct ip_remap_result *result, const struct ip_remap_hold *hold)
{
	if (!hold->ns)
		return;
	result->changing_ns += hold->changing_ns;
	result->bare_ns += hold->bare_ns;
	if (result->nholds == IP_REMAP_HOLDS) {
		if (hold->ns > result->holds[IP_REMAP_HOLDS - 1].ns)
			result->holds[IP_REMAP_HOLDS - 1] = *hold;
		return;
	}
	result->holds[result->nholds++] = *hold;
}

static size_t count(const struct ip_remap_plan *plan, size_t first, size_t n,
		    enum ip_remap_kind kind)
{
	size_t found = 0;

	for (size_t i = first; i < first + n; i++)
		found += plan->pieces[i].kind == kind;
	return found;
}

/* What a thread is to do to a piece of this kind: in step 4 if stage is set, otherwise in step 8.
 * alone: all pieces of the batch revert. */
static enum ip_remap_what what_of(enum ip_remap_kind kind, bool stage, bool alone)
{
	switch (kind) {
	case IP_REMAP_REVERTING:
		return stage == alone ? IP_REMAP_REVERT : IP_REMAP_NOTHING;
	case IP_REMAP_CHANGING:
		return stage ? IP_REMAP_COPY : IP_REMAP_SWITCH;
	default:
		return stage ? IP_REMAP_STAGE : IP_REMAP_SWITCH;
	}
}

/* Says what else there is, after an error of who borrows threads for many purposes. */
static int refuse(void)
{
	_cleanup_free_ char *why = strdup(ip_error_message());

	return ip_error("%s; without --no-stop its threads are stopped instead",
			why ? why : "out of memory");
}

/* Steps 4 and 8: has a thread do to each piece what its kind needs. */
static int hold(struct ip_remap_plan *plan, size_t first, size_t n, bool stage, uint64_t find_ns,
		struct ip_remap_result *result)
{
	struct ip_remap_piece *pieces = plan->entries + first;
	bool alone = count(plan, first, n, IP_REMAP_REVERTING) == n;
	struct ip_remap_hold held;
	int ret;

	for (size_t i = 0; i < n; i++) {
		pieces[i].what = what_of(plan->pieces[first + i].kind, stage, alone);
		pieces[i].error = 0;
	}
	ret = ip_remap_thread_run(plan->target, ip_borrow_waiting, find_ns, pieces, n, &held);
	note_hold(result, &held);
	ip_stops_of(plan->target)->lender = stage ? held.tid : 0;
	result->begun |= held.ns && (!stage || alone);
	if (ret < 0 && !held.ns)
		result->why = NO_THREAD;
	if (ret < 0)
		return held.ns || !ip_target_alive(plan->target) ? -1 : refuse();
	for (size_t i = 0; i < n; i++) {
		/* the pages that were moved away did not come back: live sites are idle */
		result->begun |= stage && plan->pieces[first + i].kind == IP_REMAP_CHANGING &&
				 pieces[i].error && pieces[i].staged;
		if (pieces[i].error == EINVAL)
			result->why = "this kernel cannot move its text";
		else if (pieces[i].error == ENOMEM)
			result->why = "its memory is short or limited";
		if (pieces[i].error == EINVAL)
			return ip_error("pid %d: this kernel cannot move text at %#lx (Linux 5.13 "
					"can): leave out --no-stop",
					plan->target->pid, pieces[i].at);
		if (pieces[i].error)
			return ip_error("pid %d: text at %#lx could not be %s: %s",
					plan->target->pid, pieces[i].at,
					stage ? "moved" : "switched", strerror(pieces[i].error));
		if (stage && plan->pieces[first + i].kind != IP_REMAP_REVERTING &&
		    !pieces[i].staged)
			return ip_error("pid %d: its runtime is too old for changing pages that "
					"stay live: start it anew",
					plan->target->pid);
	}
	return 0;
}

/* Whether memory at address holds the expected bytes. 1, 0, or -1 with an error. */
static int holds(const struct ip_remap_plan *plan, uint64_t address, const uint8_t *expected,
		 size_t size)
{
	if (ip_target_read(plan->target, address, plan->scratch, size) < 0)
		return -1;
	return !memcmp(plan->scratch, expected, size);
}

enum image {
	BEFORE,
	AFTER,
	FILES,
};

static const uint8_t *image_of(const struct ip_remap_plan_piece *p, enum image image)
{
	return image == BEFORE ? p->before : image == AFTER ? p->after : p->file;
}

/* Steps 3, 5, 6 and 9: checks that all pieces hold that image. staged: checks the staged pages
 * instead of the text. */
static int verify(const struct ip_remap_plan *plan, size_t first, size_t n, bool staged,
		  enum image image, struct ip_remap_result *result)
{
	for (size_t i = first; i < first + n; i++) {
		const struct ip_remap_plan_piece *p = &plan->pieces[i];
		int same;

		if (staged && p->kind == IP_REMAP_REVERTING)
			continue;
		same = holds(plan, staged ? plan->entries[i].staged : p->start, image_of(p, image),
			     p->size);
		if (same < 0)
			return -1;
		result->transient = !same && image != AFTER;
		if (same)
			continue;
		if (image == AFTER) {
			result->why = "its text does not hold what was written";
			return ip_error("pid %d: text at %#lx does not hold what was written",
					plan->target->pid, p->start);
		}
		result->why = "somebody else changed its text just now";
		return ip_error("pid %d: text at %#lx was changed by somebody else just now (a "
				"debugger, a uprobe?): try again",
				plan->target->pid, p->start);
	}
	return 0;
}

/* Step 6 for one piece: writes only pages that differ from the file's, in runs. */
static int write_staged(const struct ip_remap_plan *plan, size_t i)
{
	const struct ip_remap_plan_piece *p = &plan->pieces[i];
	size_t start = 0;

	while (start < p->size) {
		size_t end = start;

		while (end < p->size && memcmp(p->file + end, p->after + end, IP_REMAP_PAGE))
			end += IP_REMAP_PAGE;
		if (end > start && ip_target_write(plan->target, plan->entries[i].staged + start,
						   p->after + start, end - start) < 0)
			return -1;
		start = end + IP_REMAP_PAGE;
	}
	return 0;
}

static int write_gate(const struct ip_target *target, int64_t session)
{
	const struct ip_gate gate = {.session = session, .pid = target->inner_pid, .base = session};

	return session < 0 ? 0 : ip_target_write(target, target->anchor.gate, &gate, sizeof(gate));
}

/* Step 5 has failed. A piece that was the file's holds a byte of another program in the pages that
 * were moved away: they come back. A piece that changes has all its pages in the text: its staged
 * pages are dropped. */
static int put_back(struct ip_remap_plan *plan, size_t first, size_t n, uint64_t find_ns,
		    struct ip_remap_result *result)
{
	_cleanup_free_ char *why = strdup(ip_error_message());
	struct ip_remap_hold held;

	for (size_t i = first; i < first + n; i++)
		plan->entries[i].what = plan->pieces[i].kind == IP_REMAP_SWITCHING ? IP_REMAP_SWITCH
					: plan->pieces[i].kind == IP_REMAP_CHANGING
						? IP_REMAP_DROP
						: IP_REMAP_NOTHING;
	ip_remap_thread_run(plan->target, ip_borrow_waiting, AGAIN * find_ns, plan->entries + first,
			    n, &held);
	note_hold(result, &held);
	return ip_error("%s", why ? why : "out of memory");
}

/* Steps 3 to 9 for a batch: as many pieces as a thread can be told of at a time. */
static int remap_batch(struct ip_remap_plan *plan, size_t first, size_t n, int64_t gate_session,
		       uint64_t find_ns, struct ip_remap_result *result)
{
	if (verify(plan, first, n, false, BEFORE, result) < 0) /* 3 */
		return -1;
	if (hold(plan, first, n, true, find_ns, result) < 0) /* 4 */
		return -1;
	if (count(plan, first, n, IP_REMAP_REVERTING) < n) {
		if (verify(plan, first, n, true, FILES, result) < 0) /* 5 */
			return put_back(plan, first, n, find_ns, result);
		/* 6 */
		for (size_t i = first; i < first + n; i++)
			if (plan->pieces[i].kind != IP_REMAP_REVERTING && write_staged(plan, i) < 0)
				return -1;
		if (verify(plan, first, n, true, AFTER, result) < 0 ||
		    verify(plan, first, n, false, BEFORE, result) < 0)
			return -1;
		if (write_gate(plan->target, gate_session) < 0) /* 7 */
			return -1;
		if (hold(plan, first, n, false, AGAIN * find_ns, result) < 0) /* 8 */
			return -1;
	}
	return verify(plan, first, n, false, AFTER, result); /* 9 */
}

int ip_remap_check(const struct ip_remap_plan *plan)
{
	return ip_remap_thread_check(plan->target) < 0
		       ? refuse()
		       : ip_remap_limits_check(plan->target, MAPPINGS * plan->npieces,
					       ip_remap_pages_copied(plan));
}

int ip_remap_apply(struct ip_remap_plan *plan, int64_t gate_session, uint64_t find_ns,
		   struct ip_remap_result *ret)
{
	_cleanup_free_ char *why = NULL;
	_cleanup_close_ int lock = -1;
	struct ip_remap_hold held;
	size_t changing = 0;
	int done;

	*ret = (struct ip_remap_result){.sites = plan->nchanges,
					.pages = ip_remap_pages(plan),
					.pieces = plan->npieces,
					.why = "its pages could not be switched"};
	if (ip_remap_check(plan) < 0) /* 2 */
		return -1;
	lock = ip_borrow_lock(plan->target->pid);
	if (lock < 0)
		return -1;
	done = ip_remap_thread_clean(plan->target, find_ns, &held);
	note_hold(ret, &held);
	if (done < 0 && !held.ns)
		ret->why = NO_THREAD;
	if (done < 0 && !held.ns && ip_target_alive(plan->target))
		refuse();
	if (done == 0 && gate_session == 0)
		done = write_gate(plan->target, 0);
	for (size_t first = 0; done == 0 && first < plan->npieces; first += IP_REMAP_PIECES) {
		size_t left = plan->npieces - first;

		done = remap_batch(plan, first, left < IP_REMAP_PIECES ? left : IP_REMAP_PIECES,
				   first ? -1 : gate_session, find_ns, ret);
		changing += count(plan, first, left < IP_REMAP_PIECES ? left : IP_REMAP_PIECES,
				  IP_REMAP_CHANGING);
	}
	ip_stops_of(plan->target)->lender = 0;
	if (changing)
		ret->bare_ns /= changing;
	if (done == 0) /* nothing is staged any more */
		return ip_remap_thread_clean(plan->target, find_ns, &held);
	why = strdup(ip_error_message());
	if (gate_session > 0)
		write_gate(plan->target, 0);
	ip_remap_thread_clean(plan->target, find_ns, &held);
	note_hold(ret, &held);
	return ip_error("%s", why ? why : "out of memory");
}

int ip_remap_restore(struct ip_target *target, const struct ip_modules *modules,
		     struct ip_patch_result *ret)
{
	_cleanup_free_ struct ip_change *changes = NULL;
	struct ip_remap_result remapped = {0};
	struct ip_remap_plan *plan;
	size_t n;
	int done;

	*ret = (struct ip_patch_result){0};
	if (ip_restore_collect(target, modules, &changes, &n) < 0)
		return -1;
	if (!n)
		return 0;
	if (ip_remap_prepare(target, modules, changes, n, 0, &plan) < 0)
		return -1;
	done = ip_remap_apply(plan, 0, IP_REMAP_FIND_NS, &remapped);
	ip_remap_destroy(plan);
	ret->transient = remapped.transient;
	for (size_t i = 0; i < remapped.nholds; i++)
		ip_patch_result_add(
			ret, &(struct ip_stop_record){.ns = remapped.holds[i].ns, .threads = 1});
	ret->sites = n;
	ret->pages = remapped.pages;
	return done;
}

int ip_remap_clean(struct ip_target *target, struct ip_remap_hold *ret)
{
	_cleanup_close_ int lock = -1;
	uint32_t n;

	*ret = (struct ip_remap_hold){0};
	if (!target->has_runtime || !target->anchor.remap)
		return 0;
	if (ip_target_read(target, target->anchor.remap_block + offsetof(struct ip_remap, npieces),
			   &n, sizeof(n)) < 0)
		return -1;
	if (!n) /* nothing is checked then: the usual case takes no time */
		return 0;
	if (ip_remap_thread_check(target) < 0)
		return -1;
	lock = ip_borrow_lock(target->pid);
	return lock < 0 ? -1 : ip_remap_thread_clean(target, IP_REMAP_FIND_NS, ret);
}
