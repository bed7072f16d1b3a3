/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches live sites while a session records. Another tool (a uprobe, a debugger, another patcher)
 * may change them at any time.
 *
 *   1. The live sites are read again, piece by piece (up to 256 KiB of text at a time). All of them
 *      are read every 100 ms. If that would take more than 1 % of a CPU, they are read as often as
 *      1 % allows.
 *   2. If a site of a function holds something else, all sites of the function are looked at
 *      (site_state.h):
 *        - There is only what uprobes left behind that have gone: the sites of the function are
 *          made live again. (A uprobe that came and went without being hit leaves an invalid
 *          instruction: this is what the site monitor is for.)
 *        - Another tool is still there: all that is ours at the sites of the function becomes idle,
 *          below the breakpoints of the tool too. So the target comes to no harm however the tool
 *          removes them, and entries and exits stay balanced. The sites go live again when the tool
 *          has gone: after a second at the earliest, and after twice as long each time it happens
 *          again.
 *      Sites are changed in a stop, no byte more than needed (patch_in_place.h), under the lock
 *      that guards changes of text.
 *   3. Libraries that dlclose may unload are watched too. At the address of a site of such a
 *      library there may be another library's text. So:
 *        - Only bytes that hold our displacement, or what a uprobe makes of them, are written: they
 *          are made idle, or live if only the first byte is missing. No file has a call into the
 *          runtime's pool, so a page that holds such a call is the page that we have written. And
 *          in the stop, in which no thread unloads anything, all bytes of the site must still be
 *          the same (patch_in_place.h).
 *        - The site monitor never makes an idle site live: the site may belong to a library that
 *          was loaded anew, or to another library. That is left to the update that follows the
 *          loader (follow_dlopen.h), which compares all of the text with the library's file. The
 *          update is asked for at once, and then once a second. The function is settled when its
 *          sites are found live again.
 *        - If no watched site of the library holds our displacement any more, the library has gone
 *          or was loaded anew. No other tool has changed anything, and nothing is reported. The
 *          sites are forgotten when the loader's list shows it (ip_site_monitor_forget()).
 *   4. The trace tells from when to when calls of the function are missing ("missing" lines). The
 *      summary tells how many such functions there were. The first is reported on stderr at once.
 *
 * The remaining window: a uprobe may be set on a live site and go, without being hit and without
 * our having seen it there. Then a thread may run into what the uprobe left, until our next look. A
 * uprobe that stays for longer than the interval between two looks is found while it is there; then
 * nothing can happen any more.
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
	size_t stops;	  /* stops that repairs took */
};

int ip_site_monitor_create(struct ip_target *target, struct ip_area *area, uint64_t max_stop_ns,
			   struct ip_site_monitor **ret);
void ip_site_monitor_destroy(struct ip_site_monitor *watch);

/* Watches the plan's sites, which are live from now on. Names and numbers are copied. Known sites
 * of the same addresses are replaced. 0, or -1 with an error. */
int ip_site_monitor_add(struct ip_site_monitor *watch, const struct ip_plan *plan);
/* The same, and takes the memory of the plan's changes if that saves some. Then the plan has none
 * any more. */
int ip_site_monitor_take(struct ip_site_monitor *watch, struct ip_plan *plan);
/* What was mapped from start to end has been unloaded: its sites are forgotten. watch may be NULL.
 * 0, or -1 with an error. */
int ip_site_monitor_forget(struct ip_site_monitor *watch, uint64_t start, uint64_t end,
			   struct ip_trace *trace);
/* Returns whether idle sites of libraries wait for an update (step 3); a second call returns false
 * until the monitor asks again. watch may be NULL. */
bool ip_site_monitor_wants_update(struct ip_site_monitor *watch);
/* We are about to make the plan's sites idle. To be called before that is done; otherwise the
 * monitor takes the change for the work of another tool. 0, or -1 with an error. */
int ip_site_monitor_drop(struct ip_site_monitor *watch, const struct ip_plan *plan);
/* Whether sites of any function are idle because of another tool. watch may be NULL. */
bool ip_site_monitor_is_disturbed(const struct ip_site_monitor *watch);
/* These functions are selected from now on; numbers becomes sorted. Other functions may still be
 * watched, since another tool has changed a site of theirs. All that is ours in those becomes idle,
 * and none of them goes live again unless it is selected again. */
void ip_site_monitor_select(struct ip_site_monitor *watch, uint32_t *numbers, size_t n,
			    struct ip_trace *trace);
/* The target executes another program, or ends: no site is live any more. Calls that are missing
 * until now are noted. */
void ip_site_monitor_clear(struct ip_site_monitor *watch, struct ip_trace *trace);

/* Does one step; returns at once if it is not time yet. Returns the result of the stop that a
 * repair took; result.sites is 0 if there was none. */
struct ip_patch_result ip_site_monitor_step(struct ip_site_monitor *watch, struct ip_trace *trace);

struct ip_site_monitor_summary ip_site_monitor_summary(const struct ip_site_monitor *watch);

#endif
