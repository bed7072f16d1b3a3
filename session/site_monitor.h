/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking after live sites while we record: somebody else (a uprobe, a debugger, another patcher)
 * may change them at any time.
 *
 *   1. The live sites are read again, piece by piece (up to 256 KiB of text at a time), all of them
 *      every 100 ms; where that would take more than 1 % of a CPU, as often as 1 % allows.
 *   2. A function one of whose sites holds something else is looked at whole (site_state.h):
 *        - only what uprobes left behind that have gone: its sites are made live again (one that
 *          came and went unhit leaves an invalid instruction: this is what the watch is for)
 *        - somebody else is still there: all that is ours at its sites becomes idle, below their
 *          breakpoint too, so that the target comes to no harm however they go, and entries and
 *          exits stay balanced. It goes live again when they have gone: after a second at the
 *          earliest, after twice as long each time it happens again.
 *      Sites are changed in a stop, no byte more than needed (patch_in_place.h), under the lock
 *      that guards changes of text.
 *   3. Libraries that dlclose may take away are watched too: what is at a site of theirs may be
 *      another library's text. So
 *        - only bytes that hold our displacement, or what a uprobe makes of them, are written (made
 *          idle, or live where only the first byte is missing): no file has a call into the
 *          runtime's pool, so what holds one is the page that we have written; and in the stop, in
 *          which nobody unloads anything, all bytes of the site must still be those
 *          (patch_in_place.h)
 *        - an idle site is never made live from here: it may be that of a library that was loaded
 *          anew, or of another one. That is left to the update that follows the loader
 *          (follow_dlopen.h), which holds all of the text against the library's file; it is asked
 *          for at once, and then once a second. The function is settled when its sites are found
 *          live again
 *        - where no watched site of the library holds our displacement any more, it has gone or was
 *          loaded anew: nobody has changed anything, and nothing is told. Its sites are forgotten
 *          when the loader's list says so (ip_site_monitor_forget()).
 *   4. From when to when calls of the function are missing is told in the trace ("missing" lines),
 *      how many functions there were in the summary, the first on stderr at once.
 *
 * The remaining window: between a uprobe's going (unhit, on a live site that we have not seen below
 * it) and our next look a thread may run into what it left. A uprobe that stays for longer than a
 * look takes is found while it is there; then nothing can happen any more.
 */
#ifndef IP_SITE_MONITOR_H
#define IP_SITE_MONITOR_H

#include <stdbool.h>
#include <stddef.h>

#include "hotpatcher/plan/plan.h"
#include "hotpatcher/shm/area.h"

struct ip_trace;
struct ip_site_monitor;

struct ip_site_monitor_summary {
	size_t disturbed; /* functions of which calls are missing */
	size_t stops;	  /* that repairs took */
};

int ip_site_monitor_create(struct ip_target *target, struct ip_area *area, uint64_t max_stop_ns,
			   struct ip_site_monitor **ret);
void ip_site_monitor_destroy(struct ip_site_monitor *watch);

/* The plan's sites are live from now on; names and numbers are copied. Those of the same address
 * that are known are replaced. */
int ip_site_monitor_add(struct ip_site_monitor *watch, const struct ip_plan *plan);
/* What was mapped from start to end has been unloaded: its sites are no more. watch may be NULL. */
int ip_site_monitor_forget(struct ip_site_monitor *watch, uint64_t start, uint64_t end,
			   struct ip_trace *trace);
/* Whether idle sites of libraries wait for an update (step 3); asked once. watch may be NULL. */
bool ip_site_monitor_wants_update(struct ip_site_monitor *watch);
/* The plan's sites are made idle by us: to be called before that is done, or the watch takes it for
 * somebody else's work. */
int ip_site_monitor_drop(struct ip_site_monitor *watch, const struct ip_plan *plan);
/* Whether sites of any function are idle for the sake of somebody else. watch may be NULL. */
bool ip_site_monitor_is_disturbed(const struct ip_site_monitor *watch);
/* These functions are selected from now on (numbers are sorted). Of the others that are still
 * watched, since somebody else's hand is in a site of theirs, all that is ours goes idle, and
 * none goes live again unless it is selected again. */
void ip_site_monitor_select(struct ip_site_monitor *watch, uint32_t *numbers, size_t n,
			    struct ip_trace *trace);
/* Another program, or the end: no site is live any more. What is missing until now is noted. */
void ip_site_monitor_clear(struct ip_site_monitor *watch, struct ip_trace *trace);

/* One turn; returns at once where it is not time yet. result: of the stop that a repair took; sites
 * 0: none. */
struct ip_patch_result ip_site_monitor_step(struct ip_site_monitor *watch, struct ip_trace *trace);

struct ip_site_monitor_summary ip_site_monitor_summary(const struct ip_site_monitor *watch);

#endif
