/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ABI: how hooks read the values of arguments and results (programs in the shared area,
 * abi/area.h). How a record holds them, and what a signature is: common/values.h.
 */
#ifndef IP_ABI_VALUES_H
#define IP_ABI_VALUES_H

#include <stdint.h>

/* Values. A payload stub passes a payload number, which is the stub's for the life of the process;
 * the session says in payloads[] what it means now: whose event it is, and which program reads its
 * values. So a thread that has been on its way through a stub since an earlier session finds no
 * other bytes there, and at worst records an event without values.
 *
 * A program is read by hooks while another session may write it: session is 0 then, and a hook
 * that finds another value than its own session's in front of or behind its copying has copied
 * nothing of use. */
struct ip_payload {
	uint32_t number;  /* of the event; 0: silent */
	uint32_t program; /* index + 1; 0: without values */
};

enum ip_value_source {
	IP_VALUE_REGISTER = 1,	/* general register base (as the machine numbers them) */
	IP_VALUE_IMMEDIATE = 2, /* value */
	IP_VALUE_MEMORY = 3,	/* at value + base + index * scale */
	IP_VALUE_VECTOR = 4,	/* low bytes of vector register base */
	IP_VALUE_X87 = 5,	/* st(0), two words */
};

#define IP_VALUE_SIGNED	 1u    /* extend with the sign */
#define IP_VALUE_STRING	 2u    /* it is the address of one; values.h tells the words */
#define IP_VALUE_LONG	 4u    /* 16 bytes in memory, of which 10 count: two words */
#define IP_VALUE_NOTHING 0xffu /* base, index: none */
#define IP_PROGRAM_OPS	 16u
#define IP_PROGRAM_WORDS 512u /* of values: what a hook takes of the thread's stack */

struct ip_value_op {
	uint8_t source; /* enum ip_value_source */
	uint8_t size;	/* 1, 2, 4, 8 */
	uint8_t flags;
	uint8_t base, index, scale;
	uint16_t limit; /* of a string, bytes */
	int64_t value;
};

struct ip_value_program {
	uint32_t session;
	uint32_t signature;
	uint32_t nops;
	uint32_t max_words; /* that the values can take */
	struct ip_value_op ops[IP_PROGRAM_OPS];
};

_Static_assert(sizeof(struct ip_value_program) == 272, "ABI");

#endif
