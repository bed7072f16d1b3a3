/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operands in memory: following pointers, members, elements, addresses. See operand.h.
 */
#include "hotpatcher/plan/values/operand.h"

#include <dwarf.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/plan/values/pointer_class.h"
#include "hotpatcher/plan/values/type_search.h"

#define OFFSET_MAX (1ll << 40)

static int load(struct ip_value_scope *scope, int temporary, int64_t offset, unsigned size,
		bool is_signed)
{
	const struct ip_value_op op = {.source = IP_VALUE_LOAD,
				       .size = size,
				       .flags = is_signed ? IP_VALUE_SIGNED : 0,
				       .base = temporary,
				       .index = IP_VALUE_NOTHING,
				       .value = offset};

	return ip_value_step(&scope->steps, &op, NULL);
}

int ip_operand_in_memory(struct ip_value_scope *scope, const struct ip_value_op *address,
			 struct ip_operand *operand)
{
	struct ip_value_op op = *address;

	op.size = 8;
	op.flags = 0;
	if (op.source == IP_VALUE_MEMORY) {
		op.source = IP_VALUE_REGISTER;
		op.value = 0;
	}
	operand->where = IP_OPERAND_AT;
	operand->offset = 0;
	operand->temporary = ip_value_step(&scope->steps, &op, NULL);
	if (operand->temporary >= 0 && address->source == IP_VALUE_MEMORY)
		operand->temporary = load(scope, operand->temporary, address->value, 8, false);
	return operand->temporary < 0 ? -1 : 0;
}

static bool is_tag(const struct ip_operand *o, int tag)
{
	return o->typed && !o->addresses && dwarf_tag((Dwarf_Die *)&o->type) == tag;
}

static bool is_reference(const struct ip_operand *o)
{
	return is_tag(o, DW_TAG_reference_type) || is_tag(o, DW_TAG_rvalue_reference_type);
}

/* Sets the type to the one that its type refers to; void: there is none. */
static void set_inner_type(struct ip_operand *o)
{
	struct ip_value_type inner;

	o->typed = ip_value_type_of(&o->type, &inner) > 0;
	if (o->typed)
		o->type = inner.die;
}

/* A reference stands for what it refers to. */
static int see_through(struct ip_value_scope *scope, struct ip_operand *o)
{
	int address;

	if (!is_reference(o))
		return 0;
	address = o->where == IP_OPERAND_COMPUTED ? o->temporary
						  : load(scope, o->temporary, o->offset, 8, false);
	if (address < 0)
		return -1;
	o->where = IP_OPERAND_AT;
	o->temporary = address;
	o->offset = 0;
	set_inner_type(o);
	return 0;
}

bool ip_operand_is_aggregate(struct ip_operand *o)
{
	struct ip_operand inner = *o;

	if (is_reference(o))
		set_inner_type(&inner);
	return inner.typed && !inner.addresses && ip_value_is_aggregate(&inner.type);
}

/* Replaces a class that stands for a pointer by that pointer. */
static bool take_pointer(struct ip_operand *o, bool indexed)
{
	struct ip_value_member member;

	if (!o->typed || o->addresses || !ip_value_is_aggregate(&o->type) ||
	    ip_value_type_complete(&o->type) < 0 ||
	    !ip_value_pointer_class_find(&o->type, indexed, &member) ||
	    __builtin_add_overflow(o->offset, (int64_t)member.offset, &o->offset) ||
	    o->offset > OFFSET_MAX)
		return false;
	o->type = member.type;
	return true;
}

bool ip_operand_is_pointer_class(struct ip_operand *o)
{
	struct ip_operand inner = *o;

	if (is_reference(o))
		set_inner_type(&inner);
	return take_pointer(&inner, false);
}

/* Says what a type is, for messages. */
static int is_no(struct ip_operand *o, const char *what)
{
	_cleanup_free_ char *name = o->typed && !o->addresses ? ip_value_type_name(&o->type) : NULL;

	return ip_error("%s is no %s", name ? name : "this", what);
}

static int follow(struct ip_value_scope *scope, struct ip_operand *o, bool indexed)
{
	if (see_through(scope, o) < 0)
		return -1;
	take_pointer(o, indexed);
	if (o->addresses) {
		o->temporary = ip_operand_number(scope, o);
		if (o->temporary < 0)
			return -1;
		o->addresses--;
		o->where = IP_OPERAND_AT;
		o->offset = 0;
		return 0;
	}
	if (is_tag(o, DW_TAG_array_type))
		return ip_operand_element(scope, o, 0, -1);
	if (!is_tag(o, DW_TAG_pointer_type))
		return is_no(o, "pointer");
	o->temporary = ip_operand_number(scope, o);
	if (o->temporary < 0)
		return -1;
	o->where = IP_OPERAND_AT;
	o->offset = 0;
	o->bits = 0;
	set_inner_type(o);
	return 0;
}

int ip_operand_follow(struct ip_value_scope *scope, struct ip_operand *o)
{
	return follow(scope, o, false);
}

int ip_operand_cast(struct ip_value_scope *scope, struct ip_operand *o, const Dwarf_Die *pointee,
		    unsigned stars)
{
	const int temporary = ip_operand_number(scope, o);

	*o = (struct ip_operand){.where = IP_OPERAND_COMPUTED,
				 .type = *pointee,
				 .typed = true,
				 .addresses = stars,
				 .temporary = temporary,
				 .counted = -1};
	return temporary < 0 ? -1 : 0;
}

int ip_operand_member(struct ip_value_scope *scope, struct ip_operand *o, const char *name)
{
	_cleanup_free_ char *type = NULL, *names = NULL;
	struct ip_value_member member;
	int found;

	if (see_through(scope, o) < 0)
		return -1;
	if (!o->typed && o->where == IP_OPERAND_AT)
		return ip_error("'%s': a pointer to void: say what it points to: "
				"((struct NAME *)...)->%s",
				name, name);
	if (!o->typed || o->addresses || !ip_value_is_aggregate(&o->type)) {
		is_no(o, "structure");
		return ip_error_prefix("'%s'", name);
	}
	type = ip_value_type_name(&o->type);
	if (ip_value_type_complete(&o->type) < 0)
		return ip_error("'%s': %s is only declared in the debug information, or defined in "
				"several ways",
				name, type ? type : "the type");
	found = ip_value_member_find(&o->type, name, &member);
	if (found < 0)
		return ip_error("'%s': where %s has it is not constant (a virtual base class)",
				name, type ? type : "the type");
	if (!found) {
		names = ip_value_member_names(&o->type, name);
		return ip_error("%s has no member '%s'%s%s", type ? type : "the type", name,
				names && *names ? "; the nearest: " : "",
				names && *names ? names : "");
	}
	o->type = member.type;
	o->bits = member.bits;
	o->first_bit = member.first_bit;
	if (__builtin_add_overflow(o->offset, (int64_t)member.offset, &o->offset) ||
	    o->offset > OFFSET_MAX)
		return ip_error("'%s': its offset is too large", name);
	return 0;
}

static int add_index(struct ip_value_scope *scope, struct ip_operand *o, int index, Dwarf_Word size)
{
	struct ip_value_op op = {.source = IP_VALUE_TEMPORARY,
				 .size = 8,
				 .base = o->temporary,
				 .index = index,
				 .scale = size,
				 .value = o->offset};

	if (size != 1 && size != 2 && size != 4 && size != 8) {
		const struct ip_value_op number = {.source = IP_VALUE_IMMEDIATE,
						   .size = 8,
						   .base = IP_VALUE_NOTHING,
						   .index = IP_VALUE_NOTHING,
						   .value = (int64_t)size};
		struct ip_value_op product = {.source = IP_VALUE_COMPUTE,
					      .size = 8,
					      .base = index,
					      .scale = IP_COMPUTE_MULTIPLY};
		int factor = ip_value_step(&scope->steps, &number, NULL);

		product.index = factor;
		index = factor < 0 ? -1 : ip_value_step(&scope->steps, &product, NULL);
		if (index < 0)
			return -1;
		op.index = index;
		op.scale = 1;
	}
	o->offset = 0;
	o->temporary = ip_value_step(&scope->steps, &op, NULL);
	return o->temporary < 0 ? -1 : 0;
}

/* Whether an array has more than one dimension. */
static bool is_multiple(Dwarf_Die *array)
{
	unsigned n = 0;
	Dwarf_Die die;

	if (dwarf_child(array, &die) != 0)
		return false;
	do
		n += dwarf_tag(&die) == DW_TAG_subrange_type;
	while (dwarf_siblingof(&die, &die) == 0);
	return n > 1;
}

int ip_operand_element(struct ip_value_scope *scope, struct ip_operand *o, int64_t number,
		       int temporary)
{
	Dwarf_Word size;
	int64_t distance;

	if (see_through(scope, o) < 0)
		return -1;
	if (is_tag(o, DW_TAG_array_type)) {
		if (is_multiple(&o->type))
			return ip_error("arrays of several dimensions have no elements here");
		set_inner_type(o);
	} else if (follow(scope, o, true) < 0) {
		return -1;
	}
	if (o->typed && !o->addresses && ip_value_is_aggregate(&o->type) &&
	    ip_value_type_complete(&o->type) < 0)
		return ip_error("[]: the size of the elements is not known");
	if (o->addresses || is_tag(o, DW_TAG_pointer_type))
		size = 8;
	else if (!o->typed || dwarf_aggregate_size(&o->type, &size) != 0 || !size ||
		 size > OFFSET_MAX)
		return ip_error("[]: the size of the elements is not known");
	if (o->where == IP_OPERAND_PIECES && temporary >= 0)
		return ip_error("[]: a structure in registers takes constant indexes");
	if (temporary >= 0)
		return add_index(scope, o, temporary, size);
	if (__builtin_mul_overflow(number, (int64_t)size, &distance) ||
	    __builtin_add_overflow(o->offset, distance, &o->offset) || o->offset > OFFSET_MAX ||
	    o->offset < -OFFSET_MAX)
		return ip_error("[%lld]: it is too far away", (long long)number);
	return 0;
}

int ip_operand_address(struct ip_value_scope *scope, struct ip_operand *o)
{
	struct ip_value_op op = {
		.source = IP_VALUE_TEMPORARY, .size = 8, .index = IP_VALUE_NOTHING};

	if (see_through(scope, o) < 0)
		return -1;
	if (o->where != IP_OPERAND_AT || o->bits)
		return ip_error(
			"&: only what lies in memory has an address, and no bit field does");
	op.base = o->temporary;
	op.value = o->offset;
	o->temporary = ip_value_step(&scope->steps, &op, NULL);
	o->where = IP_OPERAND_COMPUTED;
	o->addresses++;
	return o->temporary < 0 ? -1 : 0;
}

/* Bits of a temporary. */
static int take_bits(struct ip_value_scope *scope, int temporary, unsigned first, unsigned bits,
		     bool is_signed)
{
	const struct ip_value_op op = {.source = IP_VALUE_BITS,
				       .size = 8,
				       .flags = is_signed ? IP_VALUE_SIGNED : 0,
				       .base = temporary,
				       .index = first,
				       .scale = bits};

	return ip_value_step(&scope->steps, &op, NULL);
}

int ip_operand_number(struct ip_value_scope *scope, struct ip_operand *o)
{
	struct ip_value_type type;
	unsigned size = 8;
	bool is_signed = false;
	int temporary;

	if (see_through(scope, o) < 0)
		return -1;
	if (o->where == IP_OPERAND_NUMBER) {
		const struct ip_value_op op = {.source = IP_VALUE_IMMEDIATE,
					       .size = 8,
					       .base = IP_VALUE_NOTHING,
					       .index = IP_VALUE_NOTHING,
					       .value = o->number};

		return ip_value_step(&scope->steps, &op, NULL);
	}
	if (o->where == IP_OPERAND_COMPUTED && !is_tag(o, DW_TAG_array_type))
		return o->temporary;
	if (is_tag(o, DW_TAG_array_type)) { /* as in C: the address of its first element */
		struct ip_operand address = *o;

		return ip_operand_address(scope, &address) < 0 ? -1 : address.temporary;
	}
	if (o->addresses)
		return load(scope, o->temporary, o->offset, 8, false);
	if (!o->typed)
		return ip_error("a pointer to void has no value behind it");
	take_pointer(o, false);
	ip_value_type_from(&o->type, &type);
	if (type.item[0] == '-' || type.item[0] == 'x') {
		_cleanup_free_ char *name = ip_value_type_name(&o->type),
				    *names = ip_value_is_aggregate(&o->type) &&
							     ip_value_type_complete(&o->type) == 0
						     ? ip_value_member_names(&o->type, NULL)
						     : NULL;

		return ip_error("%s is no single value%s%s", name ? name : "this",
				names ? ": name a member: " : "", names ? names : "");
	}
	size = type.size;
	is_signed = type.flags & IP_VALUE_SIGNED;
	if (o->where == IP_OPERAND_PIECES) {
		uint64_t piece = (uint64_t)o->offset / 8, first = (uint64_t)o->offset % 8 * 8;
		unsigned bits = o->bits ? o->bits : size * 8;

		first += o->bits ? o->first_bit : 0;
		if (o->offset < 0 || piece >= o->npieces || first + bits > 64)
			return ip_error("a member that is not whole in one register");
		return take_bits(scope, o->pieces[piece], first, bits, is_signed);
	}
	if (!o->bits)
		return load(scope, o->temporary, o->offset, size, is_signed);
	temporary = load(scope, o->temporary, o->offset, (o->first_bit + o->bits + 7) / 8, false);
	return temporary < 0 ? -1 : take_bits(scope, temporary, o->first_bit, o->bits, is_signed);
}
