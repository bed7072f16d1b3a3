// SPDX-License-Identifier: Apache-2.0
/*
 * Sites and stubs of x86-64.
 *
 *   form, length  idle                     live
 *   CALL, 5       0f 1f 44 00 00           e8 rel32         call
 *   CALL, 6       66 0f 1f 44 00 00        67 e8 rel32      addr32 call
 *   RETURN, 5     c3, 0f 1f 40 00          e9 rel32         jmp
 *   RETURN, 6     c3, 0f 1f 44 00 00       e9 rel32, 90     jmp, and a byte that is never reached
 *   JUMP, 5       0f 1f 44 00 00           e9 rel32         jmp
 *   JUMP, 6       66 0f 1f 44 00 00        e9 rel32, 90     jmp; its stub returns behind the 90
 *   TAIL, 5       e9 rel32                 e9 rel32         jmp; its stub jumps where it jumped
 *   PLT, 6        ff 25 rel32              e9 rel32, 90     jmp; its stub jumps through the slot
 *
 * The return address of a call is the end of its site in both lengths. If the live six-byte form
 * were `e8 rel32 90`, a thread could return into the middle of the site after it has become a NOP
 * again. Control does not return to a jmp, so the padding is never executed.
 *
 *   stub          41 bb number             mov $number,%r11d    where a call is expected
 *                 c7 44 24 f8 number       movl $number,-8(%rsp) at an entry or return: r11 may be
 *                                          live, and nothing below the stack pointer is
 *                 68 number                push $number         where everything is live
 *                 e9 rel32                 jmp hook             or, if it is out of reach,
 *                 ff 25 rel32              jmp *slot(%rip)
 *                 cc ...                   up to 16 bytes
 *
 *   jump stub     48 8d 64 24 80           lea -128(%rsp),%rsp  over the red zone; changes no flags
 *                 68 number                push $number
 *                 67 e8 rel32              call hook            or ff 15 rel32, call *slot(%rip)
 *                 48 8d a4 24 88 00 00 00  lea 136(%rsp),%rsp   over the number too
 *                 e9 rel32                 jmp back
 *                 cc ...                   up to 32 bytes
 *
 *   tail stub     68 number                push $number        no red zone: the frame has gone,
 *   or PLT stub                                                or has not begun
 *                 67 e8 rel32              call hook            or ff 15 rel32, call *slot(%rip)
 *                 48 8d 64 24 08           lea 8(%rsp),%rsp     over the number
 *                 e9 rel32                 jmp target          or ff 25 rel32, jmp *slot(%rip)
 *                 cc ...                   up to 32 bytes
 *
 * The unwinder tells the kinds of stubs apart by their first bytes and their alignment
 * (stub_cfi.h).
 */
#include "common/arch/x86_64/site.h"

#include <elf.h>
#include <string.h>

#include "common/elf/probe_list.h"
#include "common/error.h"

#define STUB_SIZE      16
#define JUMP_STUB_SIZE 32

static const uint8_t nop4[] = {0x0f, 0x1f, 0x40, 0x00};
static const uint8_t nop5[] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
static const uint8_t nop6[] = {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00};

static int check_site(unsigned form, unsigned length)
{
	if (form > IP_FORM_PLT)
		return ip_error("site of unknown form %u", form);
	if ((length != 5 && length != 6) || (length == 6 && form == IP_FORM_TAIL) ||
	    (length == 5 && form == IP_FORM_PLT))
		return ip_error("site of %u bytes; x86 has sites of 5 and 6 bytes", length);
	return 0;
}

/* Writes the 32-bit displacement from the end of an instruction. Returns -1 if it does not fit. */
int ip_x86_displacement(unsigned bits, uint64_t from, uint64_t to, uint8_t *ret)
{
	int64_t distance = (int64_t)(to - from);
	int32_t rel = (int32_t)distance;

	if (bits == 64 && rel != distance)
		return -1;
	memcpy(ret, &rel, sizeof(rel));
	return 0;
}

static int displacement(uint64_t from, uint64_t to, uint8_t *ret)
{
	return ip_x86_displacement(64, from, to, ret);
}

static uint64_t follow(uint64_t from, const uint8_t *bytes)
{
	int32_t rel;

	memcpy(&rel, bytes, sizeof(rel));
	return from + (uint64_t)(int64_t)rel;
}

int ip_x86_idle(unsigned form, unsigned length, int32_t jump, uint8_t *ret)
{
	if (check_site(form, length) < 0)
		return -1;
	if (form == IP_FORM_TAIL) {
		ret[0] = 0xe9;
		memcpy(ret + 1, &jump, sizeof(jump));
	} else if (form == IP_FORM_PLT) {
		ret[0] = 0xff;
		ret[1] = 0x25;
		memcpy(ret + 2, &jump, sizeof(jump));
	} else if (form != IP_FORM_RETURN) {
		memcpy(ret, length == 5 ? nop5 : nop6, length);
	} else {
		ret[0] = 0xc3;
		memcpy(ret + 1, length == 5 ? nop4 : nop5, length - 1);
	}
	return 0;
}

int ip_x86_live(unsigned bits, unsigned form, unsigned length, uint64_t address, uint64_t stub,
		uint8_t *ret)
{
	bool jump = form != IP_FORM_CALL;
	unsigned opcode = !jump && length == 6 ? 1 : 0; /* offset of the opcode in the site */

	if (check_site(form, length) < 0)
		return -1;
	if (ip_x86_displacement(bits, address + opcode + 5, stub, ret + opcode + 1) < 0)
		return ip_error("site at 0x%llx: its stub at 0x%llx is out of reach",
				(unsigned long long)address, (unsigned long long)stub);
	ret[opcode] = jump ? 0xe9 : 0xe8;
	if (opcode)
		ret[0] = 0x67;
	else if (length == 6)
		ret[5] = 0x90;
	return 0;
}

int ip_x86_live_target(unsigned bits, unsigned form, unsigned length, uint64_t address,
		       const uint8_t *bytes, uint64_t *ret)
{
	bool jump = form != IP_FORM_CALL;
	unsigned opcode = !jump && length == 6 ? 1 : 0;

	if (length != 5 && length != 6)
		return 0;
	if (bytes[opcode] != (jump ? 0xe9 : 0xe8))
		return 0;
	if (opcode && bytes[0] != 0x67)
		return 0;
	if (jump && length == 6 && bytes[5] != 0x90)
		return 0;
	*ret = follow(address + opcode + 5, bytes + opcode + 1);
	if (bits == 32)
		*ret = (uint32_t)*ret;
	return 1;
}

/*
 * The state between must be one harmless instruction, whichever mixture of idle and live bytes
 * follows.
 *
 *   RETURN   c3                  ret: the first byte of the idle form. No byte behind it is reached
 *   PLT      none                it never crosses a page
 *   TAIL     e9                  jmp, if one byte lies in front of the boundary: it never changes,
 *                                so nothing is between. If more do, there is no such instruction
 *   any      eb rel8             jmp to the site's end, if two or more bytes lie in front of the
 *                                boundary
 *   5 bytes  a9 imm32            if one byte does: test $imm32,%eax changes only the flags. If they
 *                                are live, there is no such instruction: the site stays as it is
 *   CALL, 6  67 | nop, 67 | e8   if one byte does: with the idle tail it is an addr32 NOP, with the
 *                                live tail it is the live form itself. i386 uses 2e: there 67 would
 *                                give the NOP a 16-bit operand and make it one byte shorter. A cs
 *                                prefix changes neither a NOP nor a call (gcc itself puts it in
 *                                front of calls, -mindirect-branch-cs-prefix)
 *   JUMP, 6  66 | nop, 66 | e9   none: on AMD, 66 e9 rel32 is a jmp with a 16-bit operand. So such
 *                                a site must not cross a page after one byte
 *
 * No single first byte is possible for all of the six-byte site. Its second byte is the 0f of the
 * idle form or the e8 of the live form, and no instruction is six bytes long and changes nothing
 * with either.
 */
unsigned ip_x86_transit(unsigned bits, unsigned form, unsigned regs, unsigned length,
			unsigned split, uint8_t *ret)
{
	if (check_site(form, length) < 0 || split == 0 || split >= length)
		return 0;
	if (form == IP_FORM_PLT)
		return 0;
	if (form == IP_FORM_RETURN) {
		ret[0] = 0xc3;
		return 1;
	}
	if (form == IP_FORM_TAIL) {
		ret[0] = 0xe9;
		return split == 1;
	}
	if (split >= 2) {
		ret[0] = 0xeb;
		ret[1] = length - 2;
		return 2;
	}
	if (length == 6 && form == IP_FORM_CALL) {
		ret[0] = bits == 64 ? 0x67 : 0x2e;
		return 1;
	}
	if (length == 6 || regs == IP_REGS_ALL)
		return 0;
	ret[0] = 0xa9;
	return 1;
}

/* Writes a jump or call of target at ret[at], or one through slot. Returns the number of bytes
 * written; 0: neither is within reach. padded: it takes six bytes in both cases. */
static unsigned transfer(uint64_t address, uint8_t *ret, unsigned at, bool call, bool padded,
			 uint64_t target, uint64_t slot)
{
	unsigned pad = padded ? 1 : 0;

	if (displacement(address + at + pad + 5, target, ret + at + pad + 1) == 0) {
		ret[at] = 0x67;
		ret[at + pad] = call ? 0xe8 : 0xe9;
		return pad + 5;
	}
	if (displacement(address + at + 6, slot, ret + at + 2) == 0) {
		ret[at] = 0xff;
		ret[at + 1] = call ? 0x15 : 0x25;
		return 6;
	}
	ip_error(
		"stub at 0x%llx: neither the hook at 0x%llx nor the slot at 0x%llx is within reach",
		(unsigned long long)address, (unsigned long long)target, (unsigned long long)slot);
	return 0;
}

static int x86_64_stub(unsigned regs, uint64_t address, uint64_t hook, uint64_t slot,
		       uint32_t number, uint8_t *ret)
{
	static const struct {
		uint8_t bytes[4];
		unsigned n;
	} ways[] = {
		[IP_REGS_CALL] = {{0x41, 0xbb}, 2},
		[IP_REGS_ENTRY] = {{0xc7, 0x44, 0x24, 0xf8}, 4},
		[IP_REGS_RETURN] = {{0xc7, 0x44, 0x24, 0xf8}, 4},
		[IP_REGS_ALL] = {{0x68}, 1},
	};
	unsigned at;

	if (regs > IP_REGS_ALL)
		return ip_error("stub at 0x%llx: unknown registers %u", (unsigned long long)address,
				regs);
	memset(ret, 0xcc, STUB_SIZE);
	at = ways[regs].n;
	memcpy(ret, ways[regs].bytes, at);
	memcpy(ret + at, &number, sizeof(number));
	return transfer(address, ret, at + 4, false, false, hook, slot) ? 0 : -1;
}

static int x86_64_jump_stub(uint64_t address, uint64_t hook, uint64_t slot, uint32_t number,
			    uint64_t back, uint8_t *ret)
{
	static const uint8_t down[] = {0x48, 0x8d, 0x64, 0x24, 0x80, 0x68};
	static const uint8_t up[] = {0x48, 0x8d, 0xa4, 0x24, 0x88, 0x00, 0x00, 0x00, 0xe9};

	memset(ret, 0xcc, JUMP_STUB_SIZE);
	memcpy(ret, down, sizeof(down));
	memcpy(ret + 6, &number, sizeof(number));
	if (!transfer(address, ret, 10, true, true, hook, slot))
		return -1;
	memcpy(ret + 16, up, sizeof(up));
	if (displacement(address + 29, back, ret + 25) < 0)
		return ip_error("stub at 0x%llx: its site at 0x%llx is out of reach",
				(unsigned long long)address, (unsigned long long)back);
	return 0;
}

/* Writes what tail stubs and PLT stubs begin with: the first 16 bytes. */
static int begin_tail_stub(uint64_t address, uint64_t hook, uint64_t slot, uint32_t number,
			   uint8_t *ret)
{
	static const uint8_t up[] = {0x48, 0x8d, 0x64, 0x24, 0x08};

	memset(ret, 0xcc, JUMP_STUB_SIZE);
	ret[0] = 0x68;
	memcpy(ret + 1, &number, sizeof(number));
	if (!transfer(address, ret, 5, true, true, hook, slot))
		return -1;
	memcpy(ret + 11, up, sizeof(up));
	return 0;
}

static int x86_64_tail_stub(uint64_t address, uint64_t hook, uint64_t slot, uint32_t number,
			    uint64_t target, uint8_t *ret)
{
	if (begin_tail_stub(address, hook, slot, number, ret) < 0)
		return -1;
	ret[16] = 0xe9;
	if (displacement(address + 21, target, ret + 17) < 0)
		return ip_error("stub at 0x%llx: the jump to 0x%llx is out of reach",
				(unsigned long long)address, (unsigned long long)target);
	return 0;
}

static int x86_64_plt_stub(uint64_t address, uint64_t hook, uint64_t slot, uint32_t number,
			   uint64_t plt_slot, uint8_t *ret)
{
	if (begin_tail_stub(address, hook, slot, number, ret) < 0)
		return -1;
	ret[16] = 0xff;
	ret[17] = 0x25;
	if (displacement(address + 22, plt_slot, ret + 18) < 0)
		return ip_error("stub at 0x%llx: the PLT's slot at 0x%llx is out of reach",
				(unsigned long long)address, (unsigned long long)plt_slot);
	return 0;
}

static int x86_64_live(unsigned form, unsigned length, uint64_t address, uint64_t stub,
		       uint8_t *ret)
{
	return ip_x86_live(64, form, length, address, stub, ret);
}

static int x86_64_live_target(unsigned form, unsigned length, uint64_t address,
			      const uint8_t *bytes, uint64_t *ret)
{
	return ip_x86_live_target(64, form, length, address, bytes, ret);
}

static unsigned x86_64_transit(unsigned form, unsigned regs, unsigned length, unsigned split,
			       uint8_t *ret)
{
	return ip_x86_transit(64, form, regs, length, split, ret);
}

const struct ip_arch ip_arch_x86_64 = {
	.name = "x86-64",
	.machine = EM_X86_64,
	.bits = 64,
	.stub_size = STUB_SIZE,
	.jump_stub_size = JUMP_STUB_SIZE,
	/* +-2 GiB less 1 MiB: the planner may count from any byte of the site or of the stub */
	.reach = 0x7ff00000,
	.trap = 0xcc, /* int3 */
	.idle = ip_x86_idle,
	.live = x86_64_live,
	.live_target = x86_64_live_target,
	.transit = x86_64_transit,
	.stub = x86_64_stub,
	.jump_stub = x86_64_jump_stub,
	.tail_stub = x86_64_tail_stub,
	.plt_stub = x86_64_plt_stub,
};
