// SPDX-License-Identifier: Apache-2.0
/*
 * Sites and stubs of x86-64.
 *
 *   site          idle                     live
 *   5 bytes       0f 1f 44 00 00           e8 rel32         call
 *   6 bytes       66 0f 1f 44 00 00        67 e8 rel32      addr32 call
 *   tail-exit, 5  c3, 0f 1f 40 00          e9 rel32         jmp
 *   tail-exit, 6  c3, 0f 1f 44 00 00       e9 rel32, 90     jmp, and a byte that is never reached
 *
 * A call's return address is the end of its site in both lengths: were the six-byte one `e8 rel32 90`, a
 * thread could come back into the middle of it after it has become a NOP again. A jmp does
 * not come back, so the tail-exit may be padded.
 *
 *   stub          bf number                mov $number,%edi
 *                 e9 rel32                 jmp hook              or, out of its reach,
 *                 ff 25 rel32              jmp *slot(%rip)
 *                 cc ...                   up to 16 bytes
 */
#include "common/arch/arch.h"

#include <elf.h>
#include <string.h>

#include "common/error.h"
#include "common/probe_list.h"

#define STUB_SIZE 16

static const uint8_t nop4[] = {0x0f, 0x1f, 0x40, 0x00};
static const uint8_t nop5[] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
static const uint8_t nop6[] = {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00};

static int check_site(unsigned kind, unsigned length)
{
	if (kind < IP_PROBE_ENTRY || kind > IP_PROBE_POINT)
		return ip_error("probe of unknown kind %u", kind);
	if (length != 5 && length != 6)
		return ip_error("site of %u bytes; x86-64 has sites of 5 and 6 bytes", length);
	return 0;
}

/* The 32-bit displacement from the end of an instruction; -1 where it does not fit. */
static int displacement(uint64_t from, uint64_t to, uint8_t *ret)
{
	int64_t distance = (int64_t)(to - from);
	int32_t rel = (int32_t)distance;

	if (rel != distance)
		return -1;
	memcpy(ret, &rel, sizeof(rel));
	return 0;
}

static uint64_t follow(uint64_t from, const uint8_t *bytes)
{
	int32_t rel;

	memcpy(&rel, bytes, sizeof(rel));
	return from + (uint64_t)(int64_t)rel;
}

static int x86_64_idle(unsigned kind, unsigned length, uint8_t *ret)
{
	if (check_site(kind, length) < 0)
		return -1;
	if (kind != IP_PROBE_TAIL_EXIT) {
		memcpy(ret, length == 5 ? nop5 : nop6, length);
	} else {
		ret[0] = 0xc3;
		memcpy(ret + 1, length == 5 ? nop4 : nop5, length - 1);
	}
	return 0;
}

static int x86_64_live(unsigned kind, unsigned length, uint64_t address, uint64_t stub, uint8_t *ret)
{
	bool tail = kind == IP_PROBE_TAIL_EXIT;
	unsigned opcode = !tail && length == 6 ? 1 : 0; /* where in the site it stands */

	if (check_site(kind, length) < 0)
		return -1;
	if (displacement(address + opcode + 5, stub, ret + opcode + 1) < 0)
		return ip_error("site at 0x%llx: its stub at 0x%llx is out of reach",
				(unsigned long long)address, (unsigned long long)stub);
	ret[opcode] = tail ? 0xe9 : 0xe8;
	if (opcode)
		ret[0] = 0x67;
	else if (length == 6)
		ret[5] = 0x90;
	return 0;
}

static int x86_64_live_target(unsigned kind, unsigned length, uint64_t address, const uint8_t *bytes,
			      uint64_t *ret)
{
	bool tail = kind == IP_PROBE_TAIL_EXIT;
	unsigned opcode = !tail && length == 6 ? 1 : 0;

	if (length != 5 && length != 6)
		return 0;
	if (bytes[opcode] != (tail ? 0xe9 : 0xe8))
		return 0;
	if (opcode && bytes[0] != 0x67)
		return 0;
	if (tail && length == 6 && bytes[5] != 0x90)
		return 0;
	*ret = follow(address + opcode + 5, bytes + opcode + 1);
	return 1;
}

/*
 * The state between must be one harmless instruction whichever mixture of idle and live bytes follows.
 *
 *   tail-exit   c3                ret: the idle form's own first byte, nothing behind it is reached
 *   5 bytes     a9 imm32          test $imm32,%eax: changes the flags alone, which are dead at a call
 *   6 bytes     48 a9 imm32       test $imm32,%rax, where both bytes lie in front of the boundary
 *               67 | nop, 67 | e8 where only the first does: the idle tail makes an addr32 NOP of it, the
 * live tail is the live form itself
 *
 * No single first byte would do for all of the six-byte site: its second byte would be the idle form's 0f or
 * the live form's e8 behind it, and no instruction takes six bytes and touches nothing with either.
 */
static unsigned x86_64_transit(unsigned kind, unsigned length, unsigned split, uint8_t *ret)
{
	if (check_site(kind, length) < 0 || split == 0 || split >= length)
		return 0;
	if (kind == IP_PROBE_TAIL_EXIT) {
		ret[0] = 0xc3;
		return 1;
	}
	if (length == 5) {
		ret[0] = 0xa9;
		return 1;
	}
	if (split == 1) {
		ret[0] = 0x67;
		return 1;
	}
	ret[0] = 0x48;
	ret[1] = 0xa9;
	return 2;
}

static int x86_64_stub(uint64_t address, uint64_t hook, uint64_t slot, uint32_t number, uint8_t *ret)
{
	memset(ret, 0xcc, STUB_SIZE);
	ret[0] = 0xbf;
	memcpy(ret + 1, &number, sizeof(number));
	if (displacement(address + 10, hook, ret + 6) == 0) {
		ret[5] = 0xe9;
		return 0;
	}
	if (displacement(address + 11, slot, ret + 7) == 0) {
		ret[5] = 0xff;
		ret[6] = 0x25;
		return 0;
	}
	return ip_error("stub at 0x%llx: neither the hook at 0x%llx nor the slot at 0x%llx is within reach",
			(unsigned long long)address, (unsigned long long)hook, (unsigned long long)slot);
}

const struct ip_arch ip_arch_x86_64 = {
	.name = "x86-64",
	.machine = EM_X86_64,
	.stub_size = STUB_SIZE,
	.reach = 0x7ff00000, /* +-2 GiB less 1 MiB: the planner may reckon from any byte of site or stub */
	.idle = x86_64_idle,
	.live = x86_64_live,
	.live_target = x86_64_live_target,
	.transit = x86_64_transit,
	.stub = x86_64_stub,
};
