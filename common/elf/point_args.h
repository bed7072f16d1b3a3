/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the arguments of a point are when control reaches its site: the text in ip_pl_probe.args.
 *
 *   args    = "" | arg *(" " arg)               at most IP_POINT_ARGS_MAX
 *   arg     = "?" | size "@" operand            ?: the argument exists, but its place is not known
 *   size    = "8s" | "8p" | "8h" | ["-"] ("1" | "2" | "4" | "8")
 *                                               bytes; -: signed; 8s: address of a string that ends
 *                                               with a NUL; 8p: another pointer; 8h: a number that
 *                                               is shown in hexadecimal
 *   operand = "%" register                      named in the argument's size (%edi, %dil)
 *           | "$" number
 *           | [place] "(" [%base] ["," %index ["," scale]] ")" | place
 *   place   = number                            displacement
 *           | "*" number                        link-time address in the probe's module: add its
 *                                               load bias
 *           | symbol [("+" | "-") number]       as compilers print it, mostly with "(%rip)". A
 *                                               probe list contains none: ColdPatch turns it into
 *                                               the form with "*"
 *
 * SystemTap's notes use the same forms (4@%edi -8@-16(%rbp)), except for those with s, p, h, * and
 * ?. Numbers are decimal, or hexadecimal with 0x.
 *
 * The text comes from a file: the parser accepts any bytes.
 */
#ifndef IP_POINT_ARGS_H
#define IP_POINT_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IP_POINT_ARGS_MAX 6
#define IP_NO_REGISTER	  0xff

enum ip_point_operand {
	IP_OPERAND_UNKNOWN = 0, /* "?" */
	IP_OPERAND_REGISTER,	/* the low bytes of base */
	IP_OPERAND_IMMEDIATE,	/* value */
	/* memory at value + base + index * scale, plus the load bias if in_module */
	IP_OPERAND_MEMORY,
	IP_OPERAND_SYMBOL, /* the same plus the address of the symbol; in_module is set */
};

struct ip_point_arg {
	uint8_t operand; /* enum ip_point_operand */
	uint8_t size;	 /* bytes: 1, 2, 4, 8; 0 if the operand is unknown */
	/* in the machine's numbering of general registers (x86-64: rax 0, rcx 1 .. r15 15); or
	 * IP_NO_REGISTER */
	uint8_t base, index;
	uint8_t scale; /* 1, 2, 4, 8; 0 without index */
	bool is_signed;
	bool is_string, is_pointer, is_hex; /* one at most; then size is 8 */
	bool in_module;
	int64_t value;
	const char *symbol; /* points into the text, not terminated */
	size_t symbol_length;
};

/* Parses one argument, length bytes of text. Returns 0; -1 with an error: it is none of the
 * above. */
int ip_point_arg_parse(const char *text, size_t length, struct ip_point_arg *ret);

/* Parses all arguments of a point. Returns their number; -1 with an error. */
int ip_point_args_parse(const char *text, struct ip_point_arg ret[IP_POINT_ARGS_MAX]);

/* Writes the text of an argument, also of an IP_OPERAND_SYMBOL. Returns the length, as snprintf()
 * does. */
int ip_point_arg_format(const struct ip_point_arg *arg, char *buffer, size_t size);

#endif
