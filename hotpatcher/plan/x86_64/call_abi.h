/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a value of a type is passed to a function and returned by it, according to the System V ABI
 * (x86-64 psABI, 3.2.3).
 */
#ifndef IP_CALL_ABI_H
#define IP_CALL_ABI_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

struct ip_call_abi {
	bool unknown; /* cannot be told, nor for the parameters after it */
	/* on the stack; as a result: at an address that the caller passes as a hidden first
	 * argument */
	bool memory;
	bool x87;	   /* a long double: on the stack; as a result: st(0) */
	bool vector_first; /* its first register is a vector register */
	/* registers that it needs; if not enough are left, it goes to the stack */
	uint8_t ngeneral, nvector;
	uint64_t size, align; /* on the stack, bytes */
};

/* type: without typedefs and qualifiers. */
void ip_call_abi_of(Dwarf_Die *type, struct ip_call_abi *ret);

#define IP_ARGUMENT_GENERAL 6
#define IP_ARGUMENT_VECTOR  8
/* The general registers that carry arguments, in order, by the machine's numbers. */
extern const uint8_t ip_argument_registers[IP_ARGUMENT_GENERAL];

/* Translates DWARF's number of a register. Returns the machine's number, 0..15, of a general
 * register; 16 + the number of a vector register; -1 for any other one. */
int ip_register_of_dwarf(unsigned number);

#define IP_RESULT_GENERAL 0 /* rax */
#define IP_RESULT_VECTOR  0 /* xmm0 */
/* the registers of a result of two eightbytes, in order */
extern const uint8_t ip_result_general[2], ip_result_vector[2];
#define IP_STACK_POINTER  4 /* rsp */
#define IP_RETURN_ADDRESS 8 /* bytes on top of the stack at a function's first instruction */

#endif
