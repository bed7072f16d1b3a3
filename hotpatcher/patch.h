/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing sites of a live process: the one place where text is written.
 *
 * A patch is a set of changes (old bytes -> new bytes, each a whole site), prepared into images of contiguous pages while the target
 * runs, and carried out in one stop. The protocol:
 *
 *   1. Prepare: read each range; each site must hold its old bytes; make the image with the new ones.
 *   2. Pre-fault: write one byte of each page that it already has, so that copying a private page happens while the target
 *      runs, not while it is stopped.
 *   3. Stop all threads (stop.h), within the deadline.
 *   4. No program counter may stand inside a site (its first byte is outside: the site is one instruction, so a thread there has
 *      executed all or nothing of it). Return addresses need no check: a call's is the end of its site, old and new.
 *   5. Read the ranges again; the sites must be what was prepared (nobody else changed them meanwhile). What lies between them may
 *      have changed: other tools' breakpoints, at a point's other NOP for example, come and go. The images get it as it is now.
 *   6. The caller's own write (the gate).
 *   7. Write: each range whole, from the start of its first page; a site that crosses a page in three writes, each inside
 *      one page. The kernel copies pieces of 4096 bytes from where a write starts, and looks for a fatal signal between
 *      them: so a writer that is killed leaves whole pages written and the rest not.
 *        a. its first bytes := the transit form: harmless whatever old or new bytes follow (arch.h)
 *        b. the part behind the boundary := new   c. the part in front of it := new
 *   8. Read back and compare; on any failure write the old bytes back the same way.
 *   9. Let the threads go.
 *
 * Killed at any point we leave each site idle, live or in transit, all of them valid code, and ip_restore() brings every one back.
 */
#ifndef IP_PATCH_H
#define IP_PATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/arch/arch.h"
#include "hotpatcher/target.h"

struct ip_change {
	uint64_t address;
	uint8_t length, kind, form, regs; /* as in struct ip_pl_probe */
	uint8_t transit_regs;		  /* ip_probe_transit_regs() */
	uint8_t old_bytes[IP_SITE_MAX], new_bytes[IP_SITE_MAX];
};

struct ip_patch;

struct ip_patch_result {
	uint64_t stop_ns;
	uint64_t stop_tsc; /* when it began */
	size_t threads, pages, sites;
	bool transient; /* of a failure: it may work a moment later */
	pid_t *inside;	/* threads that stood in the runtime or its stubs: a hook of theirs is in flight */
	size_t ninside; /* inside is freed by the caller */
};

/* Steps 1 and 2. changes are sorted and kept until ip_patch_destroy(); they must not overlap. */
int ip_patch_prepare(struct ip_target *target, struct ip_change *changes, size_t n, struct ip_patch **ret);
void ip_patch_destroy(struct ip_patch *patch);

/* Pages that the patch writes. */
size_t ip_patch_pages(const struct ip_patch *patch);

/* Steps 3 to 9. gate_session: value for the gate, written with the text; -1: leave the gate alone. */
int ip_patch_apply(struct ip_patch *patch, uint64_t deadline_ns, int64_t gate_session,
		   struct ip_patch_result *ret);

/* Waits until the threads that stood inside the runtime have left it; the ones that do not within
 * limit_ns stay in result->inside. */
void ip_patch_settle(struct ip_target *target, struct ip_patch_result *result, uint64_t limit_ns);

#endif
