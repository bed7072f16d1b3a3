// SPDX-License-Identifier: Apache-2.0
/*
 * Sites and stubs of i386: 32-bit programs, placement instrument only.
 *
 *   form, length  idle                     live
 *   CALL, 5       0f 1f 44 00 00           e8 rel32         call
 *   CALL, 6       66 0f 1f 44 00 00        67 e8 rel32      addr16 call: the prefix has no effect;
 *                                                           ld writes it too
 *   RETURN, 5     c3, 0f 1f 40 00          e9 rel32         jmp
 *   RETURN, 6     c3, 0f 1f 44 00 00       e9 rel32, 90     jmp, and a byte that is never reached
 *
 * The bytes and their meaning are those of x86-64. Every processor since the Pentium Pro has the
 * long NOP.
 *
 *   stub          b8 number                mov $number,%eax: where the compiler expects a call,
 *                                          eax, ecx and edx are free
 *                 e9 rel32                 jmp hook
 *                 cc ...                   up to 16 bytes
 *
 * A jump reaches the whole address space. There are no jump sites: no compiler keeps data below the
 * stack pointer.
 */
#include <elf.h>
#include <string.h>

#include "common/arch/x86_64/site.h"
#include "common/elf/probe_list.h"
#include "common/error.h"

#define STUB_SIZE 16

static int i386_idle(unsigned form, unsigned length, int32_t jump, uint8_t *ret)
{
	if (ip_form_has_own_stub(form))
		return ip_error("i386 has no sites of form %u", form);
	return ip_x86_idle(form, length, jump, ret);
}

static int i386_live(unsigned form, unsigned length, uint64_t address, uint64_t stub, uint8_t *ret)
{
	if (ip_form_has_own_stub(form))
		return ip_error("i386 has no sites of form %u", form);
	return ip_x86_live(32, form, length, address, stub, ret);
}

static int i386_live_target(unsigned form, unsigned length, uint64_t address, const uint8_t *bytes,
			    uint64_t *ret)
{
	return ip_form_has_own_stub(form)
		       ? 0
		       : ip_x86_live_target(32, form, length, address, bytes, ret);
}

static unsigned i386_transit(unsigned form, unsigned regs, unsigned length, unsigned split,
			     uint8_t *ret)
{
	return ip_form_has_own_stub(form) ? 0 : ip_x86_transit(32, form, regs, length, split, ret);
}

static int i386_stub(unsigned regs, uint64_t address, uint64_t hook, uint64_t slot, uint32_t number,
		     uint8_t *ret)
{
	(void)slot;
	if (regs != IP_REGS_CALL)
		return ip_error("stub at 0x%llx: i386 has no sites where registers are live",
				(unsigned long long)address);
	memset(ret, 0xcc, STUB_SIZE);
	ret[0] = 0xb8;
	memcpy(ret + 1, &number, sizeof(number));
	ret[5] = 0xe9;
	return ip_x86_displacement(32, address + 10, hook, ret + 6);
}

static int i386_jump_stub(uint64_t address, uint64_t hook, uint64_t slot, uint32_t number,
			  uint64_t back, uint8_t *ret)
{
	(void)hook;
	(void)slot;
	(void)number;
	(void)back;
	(void)ret;
	return ip_error("stub at 0x%llx: i386 has no jump sites", (unsigned long long)address);
}

const struct ip_arch ip_arch_i386 = {
	.name = "i386",
	.machine = EM_386,
	.bits = 32,
	.stub_size = STUB_SIZE,
	.jump_stub_size = 2 * STUB_SIZE,
	.reach = UINT64_MAX,
	.trap = 0xcc, /* int3 */
	.idle = i386_idle,
	.live = i386_live,
	.live_target = i386_live_target,
	.transit = i386_transit,
	.stub = i386_stub,
	.jump_stub = i386_jump_stub,
};
