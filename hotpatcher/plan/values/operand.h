/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operands: what a part of an expression stands for, with its type, and what can be done with it.
 * Part of expression.c.
 *
 * All functions that return int return 0, or a temporary, or -1 with an error.
 */
#ifndef IP_VALUES_OPERAND_H
#define IP_VALUES_OPERAND_H

#include "common/trace/values.h"
#include "hotpatcher/plan/values/expression.h"
#include "hotpatcher/plan/values/members.h"

enum ip_operand_kind {
	IP_OPERAND_NUMBER,   /* a constant */
	IP_OPERAND_COMPUTED, /* in a temporary, extended to 64 bits */
	IP_OPERAND_AT,	     /* in memory, at a temporary + offset */
	IP_OPERAND_PIECES,   /* a structure in registers: temporaries of 8 bytes */
};

struct ip_operand {
	enum ip_operand_kind where;
	Dwarf_Die type;	    /* without typedefs and qualifiers */
	bool typed;	    /* false: a number of 64 bits, or of void */
	unsigned addresses; /* how often & was taken of it */
	bool truth;	    /* the result of a comparison */
	bool is_unsigned;   /* computed from an unsigned number of 64 bits */
	int temporary;
	int64_t offset; /* of IP_OPERAND_AT and of IP_OPERAND_PIECES, bytes */
	unsigned bits, first_bit;
	int pieces[2];
	unsigned npieces;
	int64_t number;
	/* formats */
	bool hex, string;
	bool pointer; /* of a value of a point, whose type is not known: it is an address */
	int counted;  /* temporary with a string's length; -1: none */
	unsigned limit;
};

/* The value at the address that an operation on registers or memory gives. */
int ip_operand_in_memory(struct ip_value_scope *scope, const struct ip_value_op *address,
			 struct ip_operand *operand);

bool ip_operand_is_aggregate(struct ip_operand *operand);

/* Makes a pointer to pointee of a value: with several stars, a pointer to a pointer, and so on;
 * without any, pointee is the type of a pointer. */
int ip_operand_cast(struct ip_value_scope *scope, struct ip_operand *operand,
		    const Dwarf_Die *pointee, unsigned stars);

/* Whether it is an object of a class that stands for a pointer (pointer_class.h), or a reference to
 * one. */
bool ip_operand_is_pointer_class(struct ip_operand *operand);

/* *operand, of a pointer, a reference, an array, or a class that stands for a pointer. */
int ip_operand_follow(struct ip_value_scope *scope, struct ip_operand *operand);
int ip_operand_member(struct ip_value_scope *scope, struct ip_operand *operand, const char *name);
/* operand[number], or operand[temporary] if that is not negative. */
int ip_operand_element(struct ip_value_scope *scope, struct ip_operand *operand, int64_t number,
		       int temporary);
int ip_operand_address(struct ip_value_scope *scope, struct ip_operand *operand);

/* The bytes at a pointer. counted: their number is the temporary `length`. */
int ip_operand_string(struct ip_value_scope *scope, struct ip_operand *operand, int length,
		      bool counted);

/* Its value as a number of 64 bits. Returns the temporary. */
int ip_operand_number(struct ip_value_scope *scope, struct ip_operand *operand);

/* Turn *operand into the result of an operation. */
int ip_operand_not(struct ip_value_scope *scope, struct ip_operand *operand);
int ip_operand_negate(struct ip_value_scope *scope, struct ip_operand *operand, bool bitwise);
int ip_operand_compute(struct ip_value_scope *scope, struct ip_operand *operand,
		       struct ip_operand *right, enum ip_expression_operator op);
int ip_operand_compare(struct ip_value_scope *scope, struct ip_operand *operand, const char *text,
		       size_t length, enum ip_expression_operator op);

/* An enumerator of the operand's type by its name. */
bool ip_operand_enumerator(const struct ip_operand *operand, const char *name,
			   struct ip_operand *ret);

/* How the operand is recorded. */
int ip_operand_record(struct ip_value_scope *scope, struct ip_operand *operand,
		      struct ip_value_result *ret);

#endif
