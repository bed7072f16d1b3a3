/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a site of a live process holds: one of iprobe's forms, whole or changed in part by another
 * program, or something else.
 *
 * The kernel sets a uprobe: the first byte of the instruction becomes a breakpoint. If the
 * instruction was a NOP of five bytes, kernels from 6.18 on make it a call into a mapping of their
 * own when the uprobe is first hit. When the uprobe is removed, the kernel puts the first byte
 * back as it is in the FILE, which holds iprobe's idle form; the bytes behind it stay what they
 * are. (After such a call the kernel puts back the whole NOP.)
 *
 *                  5-byte call, idle   live           states
 *   as iprobe left 0f 1f 44 00 00      e8 rel32       IDLE, LIVE (TRANSIT: patch.h)
 *   uprobe set     cc 1f 44 00 00      cc rel32       TRAPPED_IDLE, TRAPPED_LIVE
 *   uprobe hit     e8 kernel's         e8 kernel's    KERNEL
 *   and gone       0f 1f 44 00 00      0f rel32       IDLE, ORPHAN: mostly an invalid instruction
 *                                                     (KERNEL becomes IDLE)
 *
 * The first byte of a jump to another function (form TAIL) is the same in both states: there is no
 * ORPHAN of it, since what the kernel puts back is right.
 *
 * A debugger's breakpoint looks like TRAPPED, too. But the debugger remembers the byte that it has
 * found, and it traces the process: a program that may stop the process (iprobe, in a stop) knows
 * that there is no debugger. So TRAPPED_LIVE in a stop is a uprobe, and below its first byte the
 * site is iprobe's.
 */
#ifndef IP_SITE_STATE_H
#define IP_SITE_STATE_H

#include "common/elf/probe_list.h"
#include "hotpatcher/process/target.h"

enum ip_site_state {
	IP_SITE_IDLE,
	IP_SITE_LIVE,
	IP_SITE_TRANSIT,
	IP_SITE_ORPHAN,
	IP_SITE_TRAPPED_LIVE,
	IP_SITE_TRAPPED_IDLE,
	IP_SITE_KERNEL,
	IP_SITE_FOREIGN,
};

/* Returns the state of a site of this form at address that holds these bytes. The target's maps
 * must be fresh to find KERNEL. */
enum ip_site_state ip_site_state_of_form(const struct ip_target *target, unsigned form,
					 unsigned length, unsigned transit_regs, int32_t jump,
					 uint64_t address, const uint8_t *bytes);

/* Returns the state of the site of a probe. arch: the target's. */
enum ip_site_state ip_site_state(const struct ip_target *target, const struct ip_arch *arch,
				 const struct ip_pl_probe *probe, uint64_t address,
				 const uint8_t *bytes);

/* Whether the site holds bytes of iprobe's that have to go. */
static inline bool ip_site_is_ours(enum ip_site_state state)
{
	return state == IP_SITE_LIVE || state == IP_SITE_TRANSIT || state == IP_SITE_ORPHAN ||
	       state == IP_SITE_TRAPPED_LIVE;
}

/* Whether another program has changed the site. */
static inline bool ip_site_is_foreign(enum ip_site_state state)
{
	return state >= IP_SITE_ORPHAN;
}

/* Text for the user: "a uprobe's or debugger's breakpoint". */
const char *ip_site_state_name(enum ip_site_state state);

#endif
