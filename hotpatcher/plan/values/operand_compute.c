/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operands that are computed, compared, shown as strings, and recorded. See operand.h.
 */
#include <dwarf.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/plan/values/operand.h"
#include "hotpatcher/plan/values/type_search.h"

static int step(struct ip_value_scope *scope, enum ip_value_operator how, int a, int b,
		bool is_signed)
{
	const struct ip_value_op op = {.source = IP_VALUE_COMPUTE,
				       .size = 8,
				       .flags = is_signed ? IP_VALUE_SIGNED : 0,
				       .base = a,
				       .index = b < 0 ? IP_VALUE_NOTHING : b,
				       .scale = how};

	return ip_value_step(&scope->steps, &op, NULL);
}

/* A constant as a temporary. */
static int number(struct ip_value_scope *scope, int64_t value)
{
	struct ip_operand o = {.where = IP_OPERAND_NUMBER, .number = value, .counted = -1};

	return ip_operand_number(scope, &o);
}

static void item_of(struct ip_operand *o, struct ip_value_type *ret)
{
	if (o->typed && !o->addresses) {
		ip_value_type_from(&o->type, ret);
		return;
	}
	*ret = (struct ip_value_type){.size = 8};
	strcpy(ret->item, o->addresses ? "p" : o->truth ? "b" : o->is_unsigned ? "u8" : "i8");
	if (!o->addresses && !o->truth && !o->is_unsigned)
		ret->flags = IP_VALUE_SIGNED;
	if (o->truth)
		ret->size = 1;
}

/* Whether it is a number of 64 bits without a sign, or an address. */
static bool is_unsigned(struct ip_operand *o)
{
	struct ip_value_type type;

	if (o->where == IP_OPERAND_NUMBER)
		return false;
	item_of(o, &type);
	return type.size == 8 && !(type.flags & IP_VALUE_SIGNED) && type.item[0] != 'f';
}

static bool is_pointer(struct ip_operand *o)
{
	struct ip_value_type type;

	if (o->where == IP_OPERAND_NUMBER)
		return false;
	item_of(o, &type);
	return type.item[0] == 'p' || type.item[0] == 's';
}

/* A value that operators take: no floating number, no structure. Returns the temporary. */
static int whole(struct ip_value_scope *scope, struct ip_operand *o)
{
	int temporary = ip_operand_number(scope, o);
	struct ip_value_type type;

	if (temporary < 0 || o->where == IP_OPERAND_NUMBER)
		return temporary;
	item_of(o, &type);
	if (type.item[0] == 'f' || type.item[0] == 'x')
		return ip_error("operators take whole numbers, and no floating ones");
	return temporary;
}

static int set(struct ip_operand *o, int temporary, bool truth, bool unsigned_result)
{
	*o = (struct ip_operand){.where = IP_OPERAND_COMPUTED,
				 .truth = truth,
				 .is_unsigned = unsigned_result,
				 .temporary = temporary,
				 .counted = -1};
	return temporary < 0 ? -1 : 0;
}

int ip_operand_not(struct ip_value_scope *scope, struct ip_operand *o)
{
	int a = whole(scope, o);

	return a < 0 ? -1 : set(o, step(scope, IP_COMPUTE_NOT, a, -1, false), true, false);
}

int ip_operand_negate(struct ip_value_scope *scope, struct ip_operand *o, bool bitwise)
{
	bool was_unsigned = is_unsigned(o);
	int a, zero;

	if (o->where == IP_OPERAND_NUMBER) {
		o->number = (int64_t)((bitwise ? ~0ull : 0ull) - (uint64_t)o->number);
		return 0;
	}
	if (is_pointer(o))
		return ip_error("an address has no sign");
	a = whole(scope, o);
	zero = a < 0 ? -1 : number(scope, bitwise ? -1 : 0);
	if (zero < 0)
		return -1;
	return set(o, step(scope, IP_COMPUTE_SUBTRACT, zero, a, false), false, was_unsigned);
}

int ip_operand_compute(struct ip_value_scope *scope, struct ip_operand *o, struct ip_operand *right,
		       enum ip_expression_operator op)
{
	bool with_sign = !is_unsigned(o) && !is_unsigned(right);
	bool pointers = is_pointer(o) || is_pointer(right);
	int a = whole(scope, o), b = a < 0 ? -1 : whole(scope, right), ret;

	if (b < 0)
		return -1;
	switch (op) {
	case IP_OPERATOR_OR:
		return set(o, step(scope, IP_COMPUTE_OR, a, b, false), true, false);
	case IP_OPERATOR_AND:
		return set(o, step(scope, IP_COMPUTE_AND, a, b, false), true, false);
	case IP_OPERATOR_EQUAL:
		return set(o, step(scope, IP_COMPUTE_EQUAL, a, b, false), true, false);
	case IP_OPERATOR_UNEQUAL:
		ret = step(scope, IP_COMPUTE_EQUAL, a, b, false);
		return ret < 0 ? -1
			       : set(o, step(scope, IP_COMPUTE_NOT, ret, -1, false), true, false);
	case IP_OPERATOR_LESS:
		return set(o, step(scope, IP_COMPUTE_LESS, a, b, with_sign), true, false);
	case IP_OPERATOR_MORE:
		return set(o, step(scope, IP_COMPUTE_LESS, b, a, with_sign), true, false);
	case IP_OPERATOR_LESS_EQUAL:
		ret = step(scope, IP_COMPUTE_LESS, b, a, with_sign);
		return ret < 0 ? -1
			       : set(o, step(scope, IP_COMPUTE_NOT, ret, -1, false), true, false);
	case IP_OPERATOR_MORE_EQUAL:
		ret = step(scope, IP_COMPUTE_LESS, a, b, with_sign);
		return ret < 0 ? -1
			       : set(o, step(scope, IP_COMPUTE_NOT, ret, -1, false), true, false);
	default:
		break;
	}
	if (pointers && op != IP_OPERATOR_BITS)
		return ip_error("+ and - take numbers; an element of a pointer is POINTER[NUMBER]");
	if (op == IP_OPERATOR_ADD)
		ret = step(scope, IP_COMPUTE_ADD, a, b, false);
	else if (op == IP_OPERATOR_SUBTRACT)
		ret = step(scope, IP_COMPUTE_SUBTRACT, a, b, false);
	else
		ret = step(scope, IP_COMPUTE_BITS, a, b, false);
	return set(o, ret, false, !with_sign);
}

bool ip_operand_enumerator(const struct ip_operand *operand, const char *name,
			   struct ip_operand *ret)
{
	Dwarf_Die enumeration = operand->type, die;
	Dwarf_Attribute attr;
	Dwarf_Sword value;

	if (!operand->typed || operand->addresses ||
	    dwarf_tag(&enumeration) != DW_TAG_enumeration_type ||
	    dwarf_child(&enumeration, &die) != 0)
		return false;
	do {
		const char *own = dwarf_diename(&die);

		if (dwarf_tag(&die) != DW_TAG_enumerator || !own || strcmp(own, name) ||
		    dwarf_formsdata(dwarf_attr(&die, DW_AT_const_value, &attr), &value) != 0)
			continue;
		*ret = (struct ip_operand){
			.where = IP_OPERAND_NUMBER, .number = value, .counted = -1};
		return true;
	} while (dwarf_siblingof(&die, &die) == 0);
	return false;
}

/* The size of what a pointer or an array leads to; 0: unknown, or void. */
static uint64_t size_behind(struct ip_operand *o)
{
	struct ip_value_type inner;
	Dwarf_Word size;

	if (o->addresses)
		return o->addresses > 1 ? 8 : dwarf_aggregate_size(&o->type, &size) == 0 ? size : 0;
	return ip_value_type_of(&o->type, &inner) > 0 &&
			       dwarf_aggregate_size(&inner.die, &size) == 0
		       ? size
		       : 0;
}

static bool is_array(struct ip_operand *o)
{
	return o->typed && !o->addresses && dwarf_tag(&o->type) == DW_TAG_array_type;
}

/* Turns a string class into the address of its bytes and their number: libstdc++'s std::string and
 * std::string_view, by the names of their members. Returns 1; 0: it is none; -1 with an error. */
static int take_string_class(struct ip_value_scope *scope, struct ip_operand *o)
{
	static const char *const layouts[][3] = {{"_M_dataplus", "_M_p", "_M_string_length"},
						 {"_M_str", NULL, "_M_len"}};
	struct ip_value_member member;

	if (!ip_operand_is_aggregate(o))
		return 0;
	for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
		struct ip_operand bytes = *o, length = *o;
		Dwarf_Die type = o->type;

		/* a reference is seen through where its first member is taken */
		if (dwarf_tag(&type) == DW_TAG_reference_type ||
		    dwarf_tag(&type) == DW_TAG_rvalue_reference_type) {
			struct ip_value_type inner;

			if (ip_value_type_of(&type, &inner) <= 0)
				return 0;
			type = inner.die;
		}
		if (ip_value_type_complete(&type) < 0)
			return 0;
		if (ip_value_member_find(&type, layouts[i][0], &member) <= 0 ||
		    ip_value_member_find(&type, layouts[i][2], &member) <= 0)
			continue;
		if (ip_operand_member(scope, &bytes, layouts[i][0]) < 0 ||
		    (layouts[i][1] && ip_operand_member(scope, &bytes, layouts[i][1]) < 0) ||
		    ip_operand_member(scope, &length, layouts[i][2]) < 0)
			return -1;
		bytes.temporary = ip_operand_number(scope, &bytes);
		length.temporary = ip_operand_number(scope, &length);
		if (bytes.temporary < 0 || length.temporary < 0)
			return -1;
		bytes.where = IP_OPERAND_COMPUTED;
		bytes.string = true;
		bytes.counted = length.temporary;
		*o = bytes;
		return 1;
	}
	return 0;
}

int ip_operand_string(struct ip_value_scope *scope, struct ip_operand *o, int length, bool counted)
{
	Dwarf_Word size;
	uint64_t element;
	bool array;
	int is_class;

	if (counted && length < 0)
		return -1;
	if (scope->point && !o->typed && (o->hex || o->pointer || o->string)) {
		o->string = true;
		o->hex = o->pointer = false;
		o->counted = length;
		return 0;
	}
	is_class = take_string_class(scope, o);
	if (is_class < 0)
		return -1;
	if (is_class) {
		if (counted)
			o->counted = length;
		return 0;
	}
	array = is_array(o);
	if (!o->typed || (!o->addresses && !array && dwarf_tag(&o->type) != DW_TAG_pointer_type))
		return ip_error(":string takes a pointer, an array or a std::string");
	element = size_behind(o);
	if (element > 1)
		return ip_error(":string takes bytes, and these elements have %llu",
				(unsigned long long)element);
	if (array && !o->limit && dwarf_aggregate_size(&o->type, &size) == 0 && size &&
	    size <= IP_STRING_LIMIT_MAX)
		o->limit = size;
	o->temporary = ip_operand_number(scope, o);
	o->where = IP_OPERAND_COMPUTED;
	o->string = true;
	o->counted = length;
	return o->temporary < 0 ? -1 : 0;
}

/* Shows what is a string without being told so as one: char pointers, char arrays, std::string. */
static int find_string(struct ip_value_scope *scope, struct ip_operand *o)
{
	struct ip_value_type type;
	int is_class;

	if (o->string || o->hex || !o->typed || o->addresses > 1)
		return 0;
	if (o->addresses) { /* (char *)p */
		ip_value_type_from(&o->type, &type);
		return type.item[0] == 'c' && dwarf_tag(&o->type) == DW_TAG_base_type
			       ? ip_operand_string(scope, o, -1, false)
			       : 0;
	}
	is_class = take_string_class(scope, o);
	if (is_class)
		return is_class < 0 ? -1 : 0;
	if (is_array(o)) {
		struct ip_value_type inner;

		if (ip_value_type_of(&o->type, &inner) > 0 && inner.item[0] == 'c')
			return ip_operand_string(scope, o, -1, false);
		return 0;
	}
	ip_value_type_from(&o->type, &type);
	return type.item[0] == 's' ? ip_operand_string(scope, o, -1, false) : 0;
}

int ip_operand_compare(struct ip_value_scope *scope, struct ip_operand *o, const char *text,
		       size_t length, enum ip_expression_operator op)
{
	struct ip_value_op compare = {.source = IP_VALUE_COMPARE,
				      .size = 8,
				      .flags = op == IP_OPERATOR_BEGINS ? IP_VALUE_BEGINS : 0,
				      .index = IP_VALUE_NOTHING,
				      .value = (int64_t)length};
	int ret;

	if (find_string(scope, o) < 0)
		return -1;
	if (!o->string)
		return ip_error("\"%.*s\" is compared with what is no string: say :string",
				(int)length, text);
	compare.base = o->temporary;
	if (o->counted >= 0) {
		compare.index = o->counted;
		compare.flags |= IP_VALUE_COUNTED;
	}
	ret = ip_value_step(&scope->steps, &compare, text);
	if (ret >= 0 && op == IP_OPERATOR_UNEQUAL)
		ret = step(scope, IP_COMPUTE_NOT, ret, -1, false);
	return set(o, ret, true, false);
}

int ip_operand_record(struct ip_value_scope *scope, struct ip_operand *o,
		      struct ip_value_result *ret)
{
	int temporary;

	*ret = (struct ip_value_result){0};
	if (find_string(scope, o) < 0)
		return -1;
	temporary = o->string ? o->temporary : ip_operand_number(scope, o);
	if (temporary < 0)
		return -1;
	ret->op = (struct ip_value_op){.source = IP_VALUE_TEMPORARY,
				       .base = temporary,
				       .index = IP_VALUE_NOTHING,
				       .scale = 1};
	if (o->string) {
		ret->type = (struct ip_value_type){.size = 8, .flags = IP_VALUE_STRING};
		strcpy(ret->type.item, "s");
		ret->op.limit = o->limit;
		if (o->counted >= 0) {
			ret->op.index = o->counted;
			ret->op.flags = IP_VALUE_COUNTED;
		}
		return 0;
	}
	item_of(o, &ret->type);
	if (is_array(o)) {
		return ip_error("an array: name an element, [0] and so on, or say :string");
	} else if (o->pointer || !strcmp(ret->type.item, "s")) {
		ret->type.flags = 0;
		strcpy(ret->type.item, "p");
	} else if (o->hex && ret->type.item[0] != 'p') {
		if (ret->type.item[0] == 'f')
			return ip_error(":hex takes whole numbers and addresses");
		ret->type.flags = 0;
		snprintf(ret->type.item, sizeof(ret->type.item), "h%u", ret->type.size % 10u);
	}
	return 0;
}
