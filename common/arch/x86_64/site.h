/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the sites of i386 and of x86-64 have in common. bits: bits of an address. With 32 bits every
 * address is within reach of every other one, since addresses wrap.
 */
#ifndef IP_X86_64_SITE_H
#define IP_X86_64_SITE_H

#include "common/arch/arch.h"

/* The operations of struct ip_arch. */
int ip_x86_idle(unsigned form, unsigned length, int32_t jump, uint8_t *ret);
int ip_x86_live(unsigned bits, unsigned form, unsigned length, uint64_t address, uint64_t stub,
		uint8_t *ret);
int ip_x86_live_target(unsigned bits, unsigned form, unsigned length, uint64_t address,
		       const uint8_t *bytes, uint64_t *ret);
unsigned ip_x86_transit(unsigned bits, unsigned form, unsigned regs, unsigned length,
			unsigned split, uint8_t *ret);

/* Writes the displacement of a jump or call whose end is at from. Returns -1 if to is out of
 * reach. */
int ip_x86_displacement(unsigned bits, uint64_t from, uint64_t to, uint8_t *ret);

#endif
