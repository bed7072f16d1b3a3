/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a site of a live process holds: one of our forms, whole or with somebody else's hand in it,
 * or something else.
 *
 * A uprobe is set by the kernel: the first byte becomes a breakpoint; where the instruction was a
 * NOP of five bytes, kernels from 6.18 on make a call of it when it is first hit, into a mapping of
 * their own. When it is taken away the kernel puts the first byte back as it is in the FILE, which
 * holds our idle form: behind it stands then whatever stood there. (After such a call: the whole
 * NOP.)
 *
 *                  5-byte call, idle   live           states
 *   as we left it  0f 1f 44 00 00     e8 rel32       IDLE, LIVE (TRANSIT: patch.h)
 *   uprobe set     cc 1f 44 00 00     cc rel32       TRAPPED_IDLE, TRAPPED_LIVE
 *   uprobe hit     e8 kernel's        e8 kernel's    KERNEL
 *   and gone       0f 1f 44 00 00 0f rel32 IDLE, ORPHAN: mostly an invalid instruction (KERNEL
 *                  becomes IDLE)
 *
 * A debugger's breakpoint looks like TRAPPED too, but it remembers the byte that it has found, and
 * it traces the process: who may stop the process (we, from a stop) knows that there is none. So
 * TRAPPED_LIVE in a stop is a uprobe, and ours below the first byte.
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

/* The site, of that form, at address, that holds bytes. The target's map must be fresh for
 * KERNEL. */
enum ip_site_state ip_site_state_of_form(const struct ip_target *target, unsigned form,
					 unsigned length, unsigned transit_regs, uint64_t address,
					 const uint8_t *bytes);

/* The same of a probe. arch: the target's. */
enum ip_site_state ip_site_state(const struct ip_target *target, const struct ip_arch *arch,
				 const struct ip_pl_probe *probe, uint64_t address,
				 const uint8_t *bytes);

/* Whether bytes of ours are in it that have to go. */
static inline bool ip_site_is_ours(enum ip_site_state state)
{
	return state == IP_SITE_LIVE || state == IP_SITE_TRANSIT || state == IP_SITE_ORPHAN ||
	       state == IP_SITE_TRAPPED_LIVE;
}

/* Whether somebody else's hand is in it. */
static inline bool ip_site_is_foreign(enum ip_site_state state)
{
	return state >= IP_SITE_ORPHAN;
}

/* For people: "a uprobe or breakpoint". */
const char *ip_site_state_name(enum ip_site_state state);

#endif
