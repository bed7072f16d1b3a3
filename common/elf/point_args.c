/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsing and formatting the places of a point's arguments. See point_args.h.
 */
#include "common/elf/point_args.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/arch/registers.h"
#include "common/error.h"

/* The unread rest of one argument. */
struct rest {
	const char *p, *end;
};

static bool take(struct rest *r, char c)
{
	if (r->p == r->end || *r->p != c)
		return false;
	r->p++;
	return true;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int digit_value(char c)
{
	if (is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return 16;
}

/* [-]digits, or [-]0xdigits: 64 bits, read as signed. */
static bool take_number(struct rest *r, int64_t *ret)
{
	struct rest at = *r;
	bool negative = take(&at, '-'), any = false;
	uint64_t value = 0;
	int base = 10;

	if (at.end - at.p > 2 && at.p[0] == '0' && (at.p[1] == 'x' || at.p[1] == 'X')) {
		base = 16;
		at.p += 2;
	}
	for (; at.p < at.end && digit_value(*at.p) < base; at.p++) {
		if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
		    __builtin_add_overflow(value, (uint64_t)digit_value(*at.p), &value))
			return false;
		any = true;
	}
	if (!any)
		return false;
	*ret = (int64_t)(negative ? 0 - value : value);
	*r = at;
	return true;
}

static bool take_register(struct rest *r, unsigned *ret_number, unsigned *ret_size, bool *ret_pc)
{
	const char *name;

	if (!take(r, '%'))
		return false;
	name = r->p;
	while (r->p < r->end && ((*r->p >= 'a' && *r->p <= 'z') || is_digit(*r->p)))
		r->p++;
	*ret_pc = ip_register_is_pc(name, r->p - name);
	return *ret_pc || ip_register_by_name(name, r->p - name, ret_number, ret_size);
}

static bool is_symbol_char(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
	       c == '.' || c == '$' || (unsigned char)c >= 0x80;
}

/* symbol [(+|-) number]... */
static bool take_symbol(struct rest *r, struct ip_point_arg *ret)
{
	int64_t offset;

	ret->symbol = r->p;
	while (r->p < r->end && is_symbol_char(*r->p))
		r->p++;
	ret->symbol_length = r->p - ret->symbol;
	if (!ret->symbol_length)
		return false;
	while (r->p < r->end && (*r->p == '+' || *r->p == '-')) {
		if (*r->p == '+')
			r->p++;
		if (!take_number(r, &offset) ||
		    __builtin_add_overflow(ret->value, offset, &ret->value))
			return false;
	}
	ret->operand = IP_OPERAND_SYMBOL;
	ret->in_module = true;
	return true;
}

/* (base,index,scale); all parts are optional, but base or index must be there. */
static bool take_registers(struct rest *r, struct ip_point_arg *ret)
{
	unsigned number = 0, size = 8;
	bool pc = false;
	int64_t scale = 1;

	if (!take(r, '('))
		return false;
	if (r->p < r->end && *r->p != ',') {
		if (!take_register(r, &number, &size, &pc) || (!pc && size != 8))
			return false;
		if (!pc)
			ret->base = (uint8_t)number;
		/* a distance from a program counter whose value is not known any more */
		else if (ret->operand != IP_OPERAND_SYMBOL)
			return false;
	}
	if (take(r, ',')) {
		if (pc || !take_register(r, &number, &size, &pc) || pc || size != 8)
			return false;
		ret->index = (uint8_t)number;
		if (take(r, ',') && (!take_number(r, &scale) ||
				     (scale != 1 && scale != 2 && scale != 4 && scale != 8)))
			return false;
		ret->scale = (uint8_t)scale;
	} else if (!pc && ret->base == IP_NO_REGISTER) {
		return false;
	}
	return take(r, ')');
}

static bool take_memory(struct rest *r, struct ip_point_arg *ret)
{
	ret->operand = IP_OPERAND_MEMORY;
	if (take(r, '*')) {
		if (!take_number(r, &ret->value))
			return false;
		ret->in_module = true;
	} else if (r->p < r->end && *r->p != '(' && !take_number(r, &ret->value) &&
		   !take_symbol(r, ret)) {
		return false;
	}
	if (r->p == r->end)
		return ret->in_module; /* a bare number is an address that no compiler prints */
	return take_registers(r, ret);
}

static bool take_operand(struct rest *r, struct ip_point_arg *ret)
{
	unsigned number, size;
	bool pc;

	if (r->p < r->end && *r->p == '%') {
		if (!take_register(r, &number, &size, &pc) || pc || size < ret->size)
			return false;
		ret->operand = IP_OPERAND_REGISTER;
		ret->base = (uint8_t)number;
		return true;
	}
	if (take(r, '$')) {
		ret->operand = IP_OPERAND_IMMEDIATE;
		return take_number(r, &ret->value);
	}
	return take_memory(r, ret);
}

static bool take_size(struct rest *r, struct ip_point_arg *ret)
{
	ret->is_signed = take(r, '-');
	if (r->p == r->end || !strchr("1248", *r->p) || !*r->p)
		return false;
	ret->size = (uint8_t)(*r->p++ - '0');
	if (ret->size == 8 && !ret->is_signed) {
		ret->is_string = take(r, 's');
		ret->is_pointer = !ret->is_string && take(r, 'p');
		ret->is_hex = !ret->is_string && !ret->is_pointer && take(r, 'h');
	}
	return take(r, '@');
}

int ip_point_arg_parse(const char *text, size_t length, struct ip_point_arg *ret)
{
	struct rest r = {text, text + length};

	*ret = (struct ip_point_arg){.base = IP_NO_REGISTER, .index = IP_NO_REGISTER};
	if (length == 1 && *text == '?')
		return 0;
	if (!take_size(&r, ret) || !take_operand(&r, ret) || r.p != r.end) {
		*ret = (struct ip_point_arg){.base = IP_NO_REGISTER, .index = IP_NO_REGISTER};
		return ip_error("'%.*s' is no argument of a point",
				(int)(length < 80 ? length : 80), text);
	}
	return 0;
}

int ip_point_args_parse(const char *text, struct ip_point_arg ret[IP_POINT_ARGS_MAX])
{
	int n = 0;

	if (!*text)
		return 0;
	for (;;) {
		size_t length = strcspn(text, " ");

		if (n == IP_POINT_ARGS_MAX)
			return ip_error("a point with more than %d arguments", IP_POINT_ARGS_MAX);
		if (ip_point_arg_parse(text, length, &ret[n++]) < 0)
			return -1;
		if (!text[length])
			return n;
		text += length + 1;
	}
}

int ip_point_arg_format(const struct ip_point_arg *a, char *buffer, size_t size)
{
	char place[32] = "", registers[32] = "";
	const char *base = a->base == IP_NO_REGISTER ? NULL : ip_register_name(a->base, 8);
	const char *index = a->index == IP_NO_REGISTER ? NULL : ip_register_name(a->index, 8);
	const char *sign = a->is_signed ? "-" : "", *string = a->is_string    ? "s"
							      : a->is_pointer ? "p"
							      : a->is_hex     ? "h"
									      : "";

	switch (a->operand) {
	case IP_OPERAND_REGISTER:
		return snprintf(buffer, size, "%s%u%s@%%%s", sign, a->size, string,
				ip_register_name(a->base, a->size));
	case IP_OPERAND_IMMEDIATE:
		return snprintf(buffer, size, "%s%u%s@$%" PRId64, sign, a->size, string, a->value);
	case IP_OPERAND_MEMORY:
		if (a->in_module)
			snprintf(place, sizeof(place), "*0x%" PRIx64, (uint64_t)a->value);
		else if (a->value)
			snprintf(place, sizeof(place), "%" PRId64, a->value);
		break;
	case IP_OPERAND_SYMBOL:
		if (a->value)
			snprintf(place, sizeof(place), "%+" PRId64, a->value);
		break;
	default:
		return snprintf(buffer, size, "?");
	}
	if (index)
		snprintf(registers, sizeof(registers), "(%s%s,%%%s,%u)", base ? "%" : "",
			 base ? base : "", index, a->scale);
	else if (base)
		snprintf(registers, sizeof(registers), "(%%%s)", base);
	else if (a->operand == IP_OPERAND_SYMBOL)
		snprintf(registers, sizeof(registers), "(%%rip)");
	return snprintf(buffer, size, "%s%u%s@%.*s%s%s", sign, a->size, string,
			(int)a->symbol_length, a->symbol ? a->symbol : "", place, registers);
}
