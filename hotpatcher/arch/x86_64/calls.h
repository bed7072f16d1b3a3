/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target of a call, or of a jump out of a function, if it can be read from the bytes of the
 * instruction. For x86-64, and for i386, whose direct forms are the same.
 */
#ifndef IP_X86_64_CALLS_H
#define IP_X86_64_CALLS_H

#include <stdint.h>
#include <string.h>

#define IP_CALL_LENGTH_MAX 6u  /* of such an instruction */
#define IP_PLT_LENGTH	   16u /* the part of a PLT stub that matters */

enum ip_call_form {
	IP_CALL_NONE,
	IP_CALL_DIRECT, /* it leads to the address */
	IP_CALL_SLOT,	/* it leads to where the pointer at the address points */
};

static inline uint64_t ip_call_relative(uint64_t next, const uint8_t *displacement)
{
	int32_t distance;

	memcpy(&distance, displacement, sizeof(distance));
	return next + (uint64_t)(int64_t)distance;
}

/* bytes: IP_CALL_LENGTH_MAX bytes at address. bits: width of the machine's addresses. */
static inline enum ip_call_form ip_call_at(unsigned bits, uint64_t address, const uint8_t *bytes,
					   uint64_t *ret)
{
	if (bytes[0] == 0xe8 || bytes[0] == 0xe9) { /* call, jmp rel32 */
		*ret = ip_call_relative(address + 5, bytes + 1);
		*ret &= bits == 32 ? UINT32_MAX : UINT64_MAX;
		return IP_CALL_DIRECT;
	}
	if (bits == 64 && bytes[0] == 0xff &&
	    (bytes[1] == 0x15 || bytes[1] == 0x25)) { /* call, jmp *rel32(%rip) */
		*ret = ip_call_relative(address + 6, bytes + 2);
		return IP_CALL_SLOT;
	}
	return IP_CALL_NONE;
}

/* Where the jump of a PLT stub would be: behind endbr64 and bnd, or behind mov $n,%r11d, which mold
 * puts there. */
static inline unsigned ip_call_plt_jump(const uint8_t *bytes)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	unsigned at = memcmp(bytes, endbr64, sizeof(endbr64)) ? 0 : sizeof(endbr64);

	if (bytes[at] == 0x41 && bytes[at + 1] == 0xbb)
		return at + 6;
	return at + (bytes[at] == 0xf2);
}

/* Returns the address of the pointer through which the PLT stub at address jumps; 0: it is no such
 * stub. bytes: IP_PLT_LENGTH bytes of it. */
static inline uint64_t ip_call_plt_slot(unsigned bits, uint64_t address, const uint8_t *bytes)
{
	unsigned at = ip_call_plt_jump(bytes);
	uint64_t slot;

	return ip_call_at(bits, address + at, bytes + at, &slot) == IP_CALL_SLOT &&
			       bytes[at + 1] == 0x25
		       ? slot
		       : 0;
}

#endif
