/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ABI: how hooks read the values of arguments and results (programs in the shared area,
 * abi/area.h). common/trace/values.h describes how a record holds the values, and what a signature
 * is.
 */
#ifndef IP_ABI_VALUES_H
#define IP_ABI_VALUES_H

#include <stdint.h>

/* Values. A payload stub passes a payload number, which is the stub's own while the process lives.
 * The session says in payloads[] what the number means now: which probe's event it is, and which
 * program reads its values. So a thread that has been running through a stub since an earlier
 * session finds the same bytes there. In the worst case it records an event without values.
 *
 * Hooks may read a program while another session writes it. The writer sets `session` to 0
 * meanwhile. A hook reads `session` before and after it copies the program. If either value is not
 * its own session, the copy is not used. */
struct ip_payload {
	uint32_t number;  /* number of the event; 0: record nothing */
	uint32_t program; /* index of the program + 1; 0: no values */
};

/* Where the value of an operation comes from. With IP_VALUE_KEEP the value goes to a temporary;
 * else it is the next value of the record. */
enum ip_value_source {
	IP_VALUE_REGISTER = 1,	/* general register `base` (in the machine's numbering) */
	IP_VALUE_IMMEDIATE = 2, /* value */
	IP_VALUE_MEMORY = 3,	/* memory at value + base + index * scale */
	IP_VALUE_VECTOR = 4,	/* low bytes of vector register `base` */
	IP_VALUE_X87 = 5,	/* st(0), two words */
	IP_VALUE_TEMPORARY = 6, /* temporary `base` + value + temporary `index` * scale */
	IP_VALUE_LOAD = 7,	/* memory at that address */
	IP_VALUE_BITS = 8,	/* `scale` bits of temporary `base`, from bit `index` on */
	IP_VALUE_COMPUTE =
		9, /* temporary `base` and temporary `index`, by enum ip_value_operator */
	/* compares the string at temporary `base` with the text in the operations that follow,
	 * `value` bytes; see the flags */
	IP_VALUE_COMPARE = 10,
	/* the condition: temporary `base`; if it is not known to be other than 0, the call leaves
	 * no event */
	IP_VALUE_WHEN = 11,
};

enum ip_value_operator {		    /* in `scale` */
			 IP_COMPUTE_OR = 1, /* logical: known if one operand decides */
			 IP_COMPUTE_AND,
			 IP_COMPUTE_EQUAL,
			 IP_COMPUTE_LESS, /* signed, with IP_VALUE_SIGNED */
			 IP_COMPUTE_ADD,
			 IP_COMPUTE_SUBTRACT,
			 IP_COMPUTE_MULTIPLY,
			 IP_COMPUTE_BITS,
			 IP_COMPUTE_NOT, /* logical, of base alone */
};

#define IP_VALUE_SIGNED 1u /* extend the value with its sign */
/* the value is the address of a string; common/trace/values.h describes the words */
#define IP_VALUE_STRING	 2u
#define IP_VALUE_LONG	 4u    /* 16 bytes in memory, of which 10 are used: two words */
#define IP_VALUE_KEEP	 8u    /* the value goes to temporary limit % 256 */
#define IP_VALUE_COUNTED 16u   /* the string's length in bytes is temporary `index` */
#define IP_VALUE_BEGINS	 32u   /* of a comparison: whether the string begins with the text */
#define IP_VALUE_NOTHING 0xffu /* base, index: no register, no temporary */

/* A program is one block or more, which lie one behind the other. The first one tells how many
 * operations the program has; those that it has no room for are in the next blocks. */
#define IP_PROGRAM_BLOCK_OPS 16u
#define IP_PROGRAM_BLOCKS    8u
#define IP_PROGRAM_OPS	     (IP_PROGRAM_BLOCK_OPS * IP_PROGRAM_BLOCKS)
#define IP_PROGRAM_TEMPS     64u
/* words of values: memory that a hook takes from the thread's stack */
#define IP_PROGRAM_WORDS  512u
#define IP_VALUE_TEXT_MAX 64u /* bytes of a text that a string is compared with */

struct ip_value_op {
	uint8_t source; /* enum ip_value_source */
	uint8_t size;	/* 1, 2, 4, 8 */
	uint8_t flags;
	uint8_t base, index, scale;
	uint16_t limit; /* limit of a string, in bytes; or the number of a temporary */
	int64_t value;
};

struct ip_value_program {
	uint32_t session; /* in each block */
	uint32_t signature;
	uint32_t nops;	    /* of the whole program */
	uint32_t max_words; /* words that the values can take at most */
	struct ip_value_op ops[IP_PROGRAM_BLOCK_OPS];
};

_Static_assert(sizeof(struct ip_value_program) == 272, "ABI");

#endif
