/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Architecture operations on sites that all parts share: what an idle site looks like, what a live
 * one looks like, and how to tell them apart.
 *
 * To add an architecture: write common/arch/NAME/site.c with one struct ip_arch, name it in
 * ip_arch_for_machine(), then follow the list in docs/architecture.md.
 */
#ifndef IP_ARCH_H
#define IP_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IP_SITE_MAX 8 /* no site is longer */

struct ip_arch {
	const char *name;
	uint32_t machine; /* e_machine */
	unsigned bits;	  /* bits of an address: 64 or 32 */
	size_t stub_size; /* bytes of one stub, also its alignment */
	/* bytes of a stub for IP_FORM_JUMP, IP_FORM_TAIL or IP_FORM_PLT, also its alignment; a
	 * multiple of stub_size */
	size_t jump_stub_size;
	/* largest distance between a live site and its stub; UINT64_MAX: any distance */
	uint64_t reach;
	/* a breakpoint (of a debugger or a uprobe): it replaces the first byte of an instruction */
	uint8_t trap;

	/* Writes the idle bytes of a site of that form (enum ip_site_form). jump: for IP_FORM_TAIL
	 * and IP_FORM_PLT, the distance from the site's end to where it jumps, or to its slot.
	 * Returns -1 if the architecture has no such site. */
	int (*idle)(unsigned form, unsigned length, int32_t jump, uint8_t *ret);

	/* Writes the live bytes of a site at address that calls, or jumps to, stub. Returns -1 if
	 * the stub is out of reach. */
	int (*live)(unsigned form, unsigned length, uint64_t address, uint64_t stub, uint8_t *ret);

	/* If a site's bytes are live, returns 1 and the address that it calls; else 0. */
	int (*live_target)(unsigned form, unsigned length, uint64_t address, const uint8_t *bytes,
			   uint64_t *ret);

	/* A site that crosses a page is written in three steps, each within one page. So a writer
	 * that is killed between two of them leaves valid code (hotpatcher/patch/patch.c):
	 *   1. these bytes over the first ones of the site; the rest of it stays as it was
	 *   2. the part behind the page boundary in its new form
	 *   3. the part in front of the page boundary in its new form
	 * The steps are the same for idle to live and for live to idle. split: the number of bytes
	 * of the site in front of the boundary (1 .. length - 1); regs: what is live there (enum
	 * ip_site_regs). Writes the bytes of step 1, at most split, and returns their number. 0:
	 * such a site cannot cross a page. */
	unsigned (*transit)(unsigned form, unsigned regs, unsigned length, unsigned split,
			    uint8_t *ret);

	/* Writes a stub (stub_size bytes). It passes the probe number to the hook at address hook;
	 * the hook does not return to it. regs: the registers that the stub must not change. If a
	 * direct jump does not reach the hook, the stub jumps through the pointer at slot, which
	 * must hold hook. */
	int (*stub)(unsigned regs, uint64_t address, uint64_t hook, uint64_t slot, uint32_t number,
		    uint8_t *ret);

	/* Writes the stub of one IP_FORM_JUMP site (jump_stub_size bytes). It calls hook below the
	 * red zone and jumps to back, the end of the site. NULL if the architecture has no such
	 * sites. */
	int (*jump_stub)(uint64_t address, uint64_t hook, uint64_t slot, uint32_t number,
			 uint64_t back, uint8_t *ret);

	/* The same of one IP_FORM_TAIL site: it calls hook, and jumps to where the site jumps when
	 * it is idle. */
	int (*tail_stub)(uint64_t address, uint64_t hook, uint64_t slot, uint32_t number,
			 uint64_t target, uint8_t *ret);

	/* The same of one IP_FORM_PLT site: after its hook it jumps through the PLT's slot. */
	int (*plt_stub)(uint64_t address, uint64_t hook, uint64_t slot, uint32_t number,
			uint64_t plt_slot, uint8_t *ret);
};

/* Returns NULL for an unknown machine. x32 has the machine of x86-64: ip_elf_open() refuses it. */
const struct ip_arch *ip_arch_for_machine(uint32_t machine);

extern const struct ip_arch ip_arch_x86_64;
extern const struct ip_arch ip_arch_i386;

#endif
