/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of arguments and results: how a payload record holds them (trace_format.h), and how a
 * signature describes them. The hotpatcher writes the signatures, the runtime writes the words, and
 * readers combine them.
 *
 * A signature is a line of text with one item a value, separated by spaces: TYPE:NAME, or TYPE if
 * there is no name.
 *
 *   TYPE             words in the record
 *   i1 i2 i4 i8      1   signed integer of that many bytes, extended to 64 bits
 *   u1 u2 u4 u8      1   unsigned integer
 *   c                1   a C char
 *   b                1   a truth value: 0, or not 0
 *   e1 e2 e4 e8      1   enumeration, extended; NAME is followed by {NAME=VALUE,...}, as many as
 *                        fit
 *   p                1   pointer, reference
 *   h1 h2 h4 h8      1   integer that is shown in hexadecimal; what is above its bytes means
 *                        nothing
 *   f4 f8            1   bits of a float, of a double
 *   x                2   x87 extended precision: mantissa, then sign and exponent in bits 0..15
 *   s                1   string: IP_STRING_... and its length in bytes; its bytes follow, in as
 *                        many words as they fill
 *   -                0   a value that is not recorded (a structure)
 */
#ifndef IP_VALUES_H
#define IP_VALUES_H

#include <stdint.h>

#define IP_VALUES_MAX	 16   /* items of a signature */
#define IP_SIGNATURE_MAX 4096 /* bytes of its text */

#define IP_STRING_LENGTH(word) ((uint32_t)(word))
#define IP_STRING_CUT	       (1ull << 63) /* the string continues after the limit */
#define IP_STRING_UNREADABLE   (1ull << 62) /* only a word with the address follows */
#define IP_STRING_NULL	       (1ull << 61) /* no word follows */

#define IP_STRING_LIMIT	    64u /* unless --string-limit says otherwise */
#define IP_STRING_LIMIT_MAX 1024u

#endif
