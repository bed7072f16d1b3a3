/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Architecture operations on sites that every part shares: what an idle site looks
 * like, what a live one looks like, and how to tell them apart.
 *
 * To add an architecture: write common/arch/NAME/site.c with one struct ip_arch,
 * name it in ip_arch_for_machine(), then follow the list in CONTRIBUTING.md.
 */
#ifndef IP_ARCH_H
#define IP_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IP_SITE_MAX 8 /* no site is longer */

struct ip_arch {
	const char *name;
	uint32_t machine;      /* e_machine */
	unsigned bits;	       /* of an address: 64 or 32 */
	size_t stub_size;      /* bytes of one stub, also its alignment */
	size_t jump_stub_size; /* the same of a stub for IP_FORM_JUMP; a multiple of stub_size */
	uint64_t reach;	       /* how far a live site may be from its stub; UINT64_MAX: anywhere */
	/* a breakpoint (debugger's, uprobe's): replaces the first byte of an instruction */
	uint8_t trap;

	/* Writes the idle bytes of a site of that form (enum ip_site_form). -1 where the
	 * architecture knows no such site. */
	int (*idle)(unsigned form, unsigned length, uint8_t *ret);

	/* Writes the live bytes of a site at address that calls, or jumps to, stub. -1 where stub
	 * is out of reach. */
	int (*live)(unsigned form, unsigned length, uint64_t address, uint64_t stub, uint8_t *ret);

	/* Where a site's bytes are live: 1 and the address that it calls; else 0. */
	int (*live_target)(unsigned form, unsigned length, uint64_t address, const uint8_t *bytes,
			   uint64_t *ret);

	/* A site that crosses a page is written in three steps, each within one page, so that a
	 * writer that is killed between two of them leaves valid code (hotpatcher/patch/patch.c):
	 *   1. these bytes over the first ones of the site; the rest of it stays as it was
	 *   2. the part behind the boundary in its new form
	 *   3. the part in front of the boundary in its new form
	 * Idle to live and live to idle alike. split: how many bytes of the site lie in front of
	 * the boundary (1 .. length - 1); regs: what is live there (enum ip_site_regs). Writes
	 * the bytes of step 1, at most split, and returns how many; 0: such a site cannot cross
	 * a page. */
	unsigned (*transit)(unsigned form, unsigned regs, unsigned length, unsigned split,
			    uint8_t *ret);

	/* Writes a stub (stub_size bytes): it passes the probe number to the hook at address
	 * hook and never comes back to itself. regs: which registers it must leave alone. Where
	 * the hook is out of a direct jump's reach it goes through the pointer at slot, which
	 * must hold hook. */
	int (*stub)(unsigned regs, uint64_t address, uint64_t hook, uint64_t slot, uint32_t number,
		    uint8_t *ret);

	/* Writes the stub of one IP_FORM_JUMP site (jump_stub_size bytes): it calls hook below
	 * the red zone and jumps to back, the end of the site. NULL where the architecture has
	 * no such sites. */
	int (*jump_stub)(uint64_t address, uint64_t hook, uint64_t slot, uint32_t number,
			 uint64_t back, uint8_t *ret);
};

/* NULL where we do not know the machine. x32 has the machine of x86-64: ip_elf_open() refuses
 * it. */
const struct ip_arch *ip_arch_for_machine(uint32_t machine);

extern const struct ip_arch ip_arch_x86_64;
extern const struct ip_arch ip_arch_i386;

#endif
