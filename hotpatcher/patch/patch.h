/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing sites of a live process: the one place where text is written.
 *
 * A patch is a set of changes (old bytes -> new bytes, each a whole site), prepared while the
 * target runs, and carried out in one stop. The protocol:
 *
 *   1. Prepare: sort, divide into pieces of contiguous pages; each site must hold its old bytes (or
 *      the new ones: then there is nothing to do for it).
 *   2. Pre-fault: write one byte of each page that it already has, so that copying a private page
 *      happens while the target runs, not while it is stopped. Not so for a library that may be
 *      unloaded any time: the byte could hit what comes there next. Its pages are copied in the
 *      stop.
 *   3. Stop all threads (stop.h), within the deadline.
 *   4. No program counter may stand inside a site (its first byte is outside: the site is one
 *      instruction, so a thread there has executed all or nothing of it). Return addresses need no
 *      check: a call's is the end of its site, old and new.
 *   5. The caller's own write (the gate).
 *   6. For each piece: read it, put the new bytes into its sites, which must still hold the old
 *      ones (nobody else changed them meanwhile), and write it back, from the start of its first
 *      page. What lies between the sites is written as it was read just now: other tools'
 *      breakpoints, at a point's other NOP for example, come and go. Where the library may have
 *      been unloaded, and another (version) loaded in its place, every byte must be what it was
 *      when we prepared. The kernel copies pieces of 4096 bytes from where a write starts, and
 *      looks for a fatal signal between them: so a writer that is killed leaves whole pages written
 *      and the rest not. A site that crosses a page is left out here, and then written in three
 *      steps, each inside one page:
 *        a. its first bytes := the transit form: harmless whatever old or new bytes follow (arch.h)
 *        b. the part behind the boundary := new   c. the part in front of it := new
 *      The one buffer is that of a piece, small enough for the cache and touched before the stop:
 *      no page of ours is faulted in, and no image of all the text streams through memory, while
 *      the target stands still.
 *   7. Where that fails the gate is closed and each site that holds its new bytes, or is in
 *      transit, gets the old ones, the same way. (Unless the gate was to be closed anyway: then the
 *      new bytes are NOPs, and what has got them keeps them.)
 *   8. Let the threads go.
 *   9. Read back and compare, while the target runs.
 *
 * Killed at any point we leave each site idle, live or in transit, all of them valid code, and
 * ip_restore() brings every one back. How long a page takes is measured in each stop: what the next
 * is expected to take (stop_batches.h) follows from it.
 */
#ifndef IP_PATCH_H
#define IP_PATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/arch/arch.h"
#include "hotpatcher/process/target.h"
#include "hotpatcher/ptrace/stop_log.h"

struct ip_change {
	uint64_t address;
	uint8_t length, kind, form, regs; /* as in struct ip_pl_probe */
	uint8_t transit_regs;		  /* ip_probe_transit_regs() */
	bool resident; /* its page is private already: no need to write there before the stop */
	/* of a library that can be unloaded: what is mapped there may be another's in a moment */
	bool may_go;
	uint8_t old_bytes[IP_SITE_MAX], new_bytes[IP_SITE_MAX];
	/* changes of one group are never divided between two stops (stop_batches.h) */
	uint32_t group;
};

struct ip_patch;

/* Of one stop, or of several: then sites, pages and stop_ns are sums. */
struct ip_patch_result {
	uint64_t stop_ns;
	uint64_t stop_tsc; /* when the first began */
	size_t threads, pages, sites;
	bool transient; /* of a failure: it may work a moment later */
	/* threads that stood in the runtime or its stubs: a hook of theirs is in flight */
	pid_t *inside;
	size_t ninside; /* inside is freed by the caller */
	struct ip_stop_log stops;
};

/* Adds one more stop to a result, sums and record. */
void ip_patch_result_add(struct ip_patch_result *result, const struct ip_stop_record *stop);
/* The same for all stops of a log. */
void ip_patch_result_append(struct ip_patch_result *result, const struct ip_stop_log *stops);

/* Steps 1 and 2. changes are sorted and kept until ip_patch_destroy(); they must not overlap. */
int ip_patch_prepare(struct ip_target *target, struct ip_change *changes, size_t n,
		     struct ip_patch **ret);
void ip_patch_destroy(struct ip_patch *patch);

/* Pages that the patch writes. */
size_t ip_patch_pages(const struct ip_patch *patch);

/* Whether the site lies on two pages. */
bool ip_change_crosses_page(const struct ip_change *c);

/* What writing is expected to take, by the stops so far in this process. crossing: sites that lie
 * on two pages. */
uint64_t ip_patch_expect_ns(size_t pages, size_t crossing);

/* The same for gathering and releasing threads. */
uint64_t ip_patch_expect_threads_ns(size_t threads);

/* Steps 3 to 9. gate_session: value for the gate, written with the text; -1: leave the gate alone.
 * ret is filled anew. */
int ip_patch_apply(struct ip_patch *patch, uint64_t deadline_ns, int64_t gate_session,
		   struct ip_patch_result *ret);

/* Waits until the threads that stood inside the runtime have left it; the ones that do not within
 * limit_ns stay in result->inside. */
void ip_patch_settle(struct ip_target *target, struct ip_patch_result *result, uint64_t limit_ns);

#endif
