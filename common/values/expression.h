/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expressions over the arguments and the result of a function, as --args, --retval and --when take
 * them: the text, and the tree that is made of it.
 *
 *   expression  = and *("||" and)
 *   and         = comparison *("&&" comparison)
 *   comparison  = sum [("==" | "!=" | "<" | "<=" | ">" | ">=" | "=^") sum]
 *   sum         = bits *(("+" | "-") bits)
 *   bits        = unary *("&" unary)             binds closer than in C: flags & 4 == 4
 *   unary       = ("*" | "&" | "!" | "-" | "~") unary | cast unary | postfix
 *   cast        = "(" type *("*") ")"           (struct request *), (ns::list<int> **), (sds);
 *                                               without "*" only before a name or a bracket
 *   postfix     = primary *("->" name | "." name | "[" expression "]" | format)
 *   format      = ":string" ["(" expression ")"]  the bytes at a pointer as a string; its length
 *               | ":hex"                          the number or the address, in hexadecimal
 *               | ":" number                      at most so many bytes of a string
 *   primary     = number | 'c' | "text" | name | "(" expression ")"
 *   name        = a parameter, a member of *this, retval or $retval
 *
 * "=^" asks whether the left string begins with the right one. The text comes from a user, or from
 * a file: the parser accepts any bytes, and the tree is bounded.
 */
#ifndef IP_EXPRESSION_H
#define IP_EXPRESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IP_EXPRESSION_MAX      4096u /* bytes of text */
#define IP_EXPRESSION_NODES    256u
#define IP_EXPRESSION_TEXT_MAX 64u /* bytes of a text in quotes */
#define IP_EXPRESSION_NAME_MAX 255u

enum ip_expression_kind {
	IP_EXPRESSION_NUMBER,
	IP_EXPRESSION_TEXT,   /* bytes in quotes */
	IP_EXPRESSION_NAME,   /* a parameter, or retval */
	IP_EXPRESSION_ARROW,  /* left->text */
	IP_EXPRESSION_MEMBER, /* left.text */
	IP_EXPRESSION_INDEX,  /* left[right] */
	IP_EXPRESSION_FORMAT, /* left:string(right) and the like */
	IP_EXPRESSION_UNARY,  /* operator left */
	IP_EXPRESSION_CAST,   /* (text *) left, with `number` asterisks, or none */
	IP_EXPRESSION_BINARY, /* left operator right */
};

enum ip_expression_operator {
	IP_OPERATOR_NONE,
	/* unary */
	IP_OPERATOR_FOLLOW,  /* * */
	IP_OPERATOR_ADDRESS, /* & */
	IP_OPERATOR_NOT,
	IP_OPERATOR_MINUS,
	IP_OPERATOR_INVERT,
	/* binary */
	IP_OPERATOR_OR,
	IP_OPERATOR_AND,
	IP_OPERATOR_EQUAL,
	IP_OPERATOR_UNEQUAL,
	IP_OPERATOR_LESS,
	IP_OPERATOR_LESS_EQUAL,
	IP_OPERATOR_MORE,
	IP_OPERATOR_MORE_EQUAL,
	IP_OPERATOR_BEGINS,
	IP_OPERATOR_ADD,
	IP_OPERATOR_SUBTRACT,
	IP_OPERATOR_BITS,
};

enum ip_expression_format {
	IP_FORMAT_PLAIN,
	IP_FORMAT_STRING,
	IP_FORMAT_HEX,
	IP_FORMAT_LIMIT, /* number */
};

struct ip_expression {
	enum ip_expression_kind kind;
	enum ip_expression_operator op;
	enum ip_expression_format format;
	int64_t number;
	char *text; /* a name, or bytes in quotes (number of them in `number`) */
	struct ip_expression *left, *right;
	uint32_t begin, end; /* what it was made of, as offsets in the text */
};

/* Parses length bytes of text. Returns 0, and the caller destroys *ret; -1 with an error that shows
 * where the text makes no sense. */
int ip_expression_parse(const char *text, size_t length, struct ip_expression **ret);
void ip_expression_destroy(struct ip_expression *expression);

/* A text that is compared by == and has *, ? or [, as a pattern has: it is compared as it is
 * written. Returns its node; NULL: there is none. */
const struct ip_expression *ip_expression_literal_pattern(const struct ip_expression *expression);

#endif
