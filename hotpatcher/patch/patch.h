/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing sites of a live process: the one place where text is written.
 *
 * A patch is a set of changes (old bytes -> new bytes, each a whole site). It is prepared while
 * the target runs, and carried out in one stop. The protocol:
 *
 *   1. Prepare: sort the changes, and divide them into pieces of contiguous pages. Each site must
 *      hold its old bytes (or the new ones: then there is nothing to do for it). Step 6 looks
 *      again, so this is to find in time what other tools have changed, and to have the pages in
 *      memory.
 *   2. Pre-fault: write to each page one byte that the page already has, so that the kernel copies
 *      a private page while the target runs, not while it is stopped. Pages that have been copied
 *      already, and are in memory, are left alone (pagemap.h). This is not done for a
 *      library that may be unloaded at any time: the byte could hit what is mapped there next. Its
 *      pages are copied in the stop.
 *   3. Stop all threads (stop.h), within the deadline.
 *   4. No program counter may stand inside a site. (The site's first byte does not count as
 *      inside: the site is one instruction, so a thread there has executed all or nothing of it.)
 *      Return addresses need no check: the return address of a call is the end of its site, both
 *      of the old and of the new one.
 *      If the gate is to be opened, each thread must also have a thread area of its own
 *      (thread_areas.h, 1).
 *   5. The caller's own write (the gate).
 *   6. For each piece: read it; put the new bytes into its sites, which must still hold the old
 *      ones (no other program has changed them meanwhile); and write it back, from the start of
 *      its first page. The bytes between the sites are written as they were just read: breakpoints
 *      of other tools come and go there, for example at another NOP of a point. If the library may
 *      have been unloaded, and another library (or version) loaded in its place, every byte must
 *      be what it was when the patch was prepared. The kernel copies 4096 bytes at a time from
 *      where a write starts, and looks for a fatal signal in between: so a writer that is killed
 *      leaves whole pages written and the rest not. A site that crosses a page is left out here,
 *      and is then written in three steps, each inside one page:
 *        a. its first bytes := the transit form: harmless whatever old or new bytes follow
 *           (arch.h)
 *        b. the part behind the boundary := new
 *        c. the part in front of it := new
 *      A second thread takes pieces by turns with the tracer's own (write_helper.h). A piece that
 *      it cannot write is written by the tracer's own thread again, which learns the reason. When
 *      step 6 ends, whether or not it failed, the second thread writes no more.
 *      Each thread has one buffer, for one piece. It is small enough for the cache, and is touched
 *      before the stop. So while the target stands still, no page of iprobe is faulted in, and no
 *      image of all the text goes through memory.
 *   7. If that fails, the gate is closed, and each site that holds its new bytes, or is in
 *      transit, gets the old ones, in the same way. (Unless the gate was to be closed anyway: then
 *      the new bytes are NOPs, and a site that has got them keeps them.)
 *   7b. If recording begins here, copy registers and stacks of the threads (stack_copies.h).
 *   8. Let the threads go.
 *   9. Read back and compare, while the target runs.
 *
 * If iprobe is killed at any point, each site is idle, live or in transit. All of these are valid
 * code, and ip_restore() brings every site back. Each stop measures how long a page takes; how
 * long the next stop is expected to take (stop_batches.h) follows from it.
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
	uint8_t old_bytes[IP_SITE_MAX], new_bytes[IP_SITE_MAX];
	uint32_t group; /* changes of one group go into one stop (stop_batches.h) */
	int32_t jump;	/* ip_probe_jump() */
	uint8_t length, kind, form, regs; /* as in struct ip_pl_probe */
	uint8_t transit_regs;		  /* ip_probe_transit_regs() */
	bool resident; /* its page is private already: step 2 need not write there */
	/* in a library that can be unloaded: another one may be mapped there in a moment */
	bool may_go;
};

_Static_assert(sizeof(struct ip_change) == 40, "a plan has millions of them");

struct ip_patch;

/* The result of one stop, or of several: then sites, pages and stop_ns are sums. */
struct ip_patch_result {
	uint64_t stop_ns;
	uint64_t stop_tsc; /* the clock (TSC) when the first stop began */
	size_t threads, pages, sites;
	bool transient; /* after a failure: the patch may succeed a moment later */
	bool all_idle;	/* of ip_restore(): all sites of the modules were idle, and are so */
	/* threads that stood in the runtime or its stubs: they have a hook in flight */
	pid_t *inside;
	size_t ninside; /* the caller frees inside */
	struct ip_stop_log stops;
};

/* Adds one more stop to a result: to its sums and to its log. */
void ip_patch_result_add(struct ip_patch_result *result, const struct ip_stop_record *stop);
/* Adds all stops of a log to a result. */
void ip_patch_result_append(struct ip_patch_result *result, const struct ip_stop_log *stops);

/* Steps 1 and 2. The changes must not overlap, and must live and stay as they are until
 * ip_patch_destroy(). If they are not in order of address, the patch sorts a copy. looked: the
 * caller has just seen that each site holds its old bytes, so step 1 does not look again. 0, or -1
 * with the reason. */
int ip_patch_prepare(struct ip_target *target, const struct ip_change *changes, size_t n,
		     bool looked, struct ip_patch **ret);
void ip_patch_destroy(struct ip_patch *patch);

/* The number of pages that the patch writes. */
size_t ip_patch_pages(const struct ip_patch *patch);

/* Whether the site lies on two pages. */
bool ip_change_crosses_page(const struct ip_change *c);

/* How many nanoseconds writing is expected to take, by the stops so far in this process. crossing:
 * number of sites that lie on two pages. */
uint64_t ip_patch_expect_ns(size_t pages, size_t crossing);

/* How many nanoseconds gathering and releasing threads is expected to take. */
uint64_t ip_patch_expect_threads_ns(size_t threads);

/* Steps 3 to 9. deadline_ns: the time allowed for the stop. gate_session: the value for the gate,
 * which is written with the text; -1: leave the gate alone. ret is filled anew. 0, or -1 with the
 * reason. */
int ip_patch_apply(struct ip_patch *patch, uint64_t deadline_ns, int64_t gate_session,
		   struct ip_patch_result *ret);

/* Waits until the threads that stood inside the runtime have left it. Threads that have not left it
 * within limit_ns stay in result->inside. */
void ip_patch_settle(struct ip_target *target, struct ip_patch_result *result, uint64_t limit_ns);

#endif
