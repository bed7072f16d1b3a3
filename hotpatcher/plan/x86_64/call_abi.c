/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classes of types. The ABI gives each eightbyte of a value a class. An aggregate of up to two
 * eightbytes is passed in registers, by the classes of its eightbytes. A larger one is passed in
 * memory, and so is a packed one, or one with a long double.
 */
#include "hotpatcher/plan/x86_64/call_abi.h"

#include <dwarf.h>
#include <string.h>

#include "hotpatcher/plan/value_types.h"

#define DEPTH_MAX  16u
#define OFFSET_MAX (1u << 28) /* bytes, of a member */

/* rdi rsi rdx rcx r8 r9 */
const uint8_t ip_argument_registers[IP_ARGUMENT_GENERAL] = {7, 6, 2, 1, 8, 9};

/* rax rdx, xmm0 xmm1 */
const uint8_t ip_result_general[2] = {0, 2}, ip_result_vector[2] = {0, 1};

int ip_register_of_dwarf(unsigned number)
{
	static const uint8_t general[] = {0, 2, 1, 3, 6, 7, 5, 4};

	if (number < 8)
		return general[number];
	if (number < 16)
		return number;
	return number >= 17 && number < 33 ? (int)(number - 1) : -1;
}

enum class { NO_CLASS, INTEGER, SSE, MEMORY, UNKNOWN };

/* The classes of an aggregate, while its members are added. */
struct classes {
	enum class eightbytes[2];
	bool memory, unknown;
	uint64_t align;
};

static void merge(struct classes *c, uint64_t offset, uint64_t size, enum class class)
{
	if (class == MEMORY)
		c->memory = true;
	if (class == UNKNOWN)
		c->unknown = true;
	for (uint64_t i = offset / 8; size && i <= (offset + size - 1) / 8; i++) {
		if (i > 1) {
			c->memory = true;
			return;
		}
		if (c->eightbytes[i] == NO_CLASS || class == INTEGER)
			c->eightbytes[i] = class;
	}
}

static void classify(struct classes *c, Dwarf_Die *type, uint64_t offset, unsigned depth);

static void scalar(struct classes *c, uint64_t offset, uint64_t size, uint64_t align,
		   enum class class)
{
	if (align > c->align)
		c->align = align;
	if (offset % align)
		c->memory = true;
	merge(c, offset, size, class);
}

static void classify_base(struct classes *c, Dwarf_Die *type, uint64_t offset)
{
	uint64_t size = dwarf_bytesize(type) > 0 ? dwarf_bytesize(type) : 0;
	uint64_t align = size > 16 ? 16 : size;
	const char *name = dwarf_diename(type);
	Dwarf_Attribute attr;
	Dwarf_Word encoding = 0;

	dwarf_formudata(dwarf_attr_integrate(type, DW_AT_encoding, &attr), &encoding);
	if (!size || (size & (size - 1))) {
		c->unknown = true;
		return;
	}
	switch (encoding) {
	case DW_ATE_float:
	case DW_ATE_decimal_float:
		if (size == 16 && (!name || !strcmp(name, "long double")))
			scalar(c, offset, size, 16, MEMORY);
		else if (size == 16) /* in one vector register: the second half adds no register */
			scalar(c, offset, 8, 16, SSE);
		else
			scalar(c, offset, size, align, SSE);
		break;
	case DW_ATE_complex_float:
		scalar(c, offset, size, size / 2, size > 16 ? MEMORY : SSE);
		break;
	case DW_ATE_boolean:
	case DW_ATE_signed:
	case DW_ATE_signed_char:
	case DW_ATE_unsigned:
	case DW_ATE_unsigned_char:
	case DW_ATE_UTF:
		scalar(c, offset, size, align, INTEGER);
		break;
	default:
		c->unknown = true;
	}
}

/* Reads a constant attribute. Returns 1 and sets *ret; 0: there is no such attribute; -1: it is no
 * constant. */
static int constant(Dwarf_Die *die, unsigned name, uint64_t *ret)
{
	Dwarf_Attribute attr;
	Dwarf_Word word;

	if (!dwarf_attr_integrate(die, name, &attr))
		return 0;
	if (dwarf_formudata(&attr, &word) != 0)
		return -1;
	*ret = word;
	return 1;
}

/* Returns the first bit of a bit field; -1: unknown. Before DWARF 5, DW_AT_bit_offset counts from
 * the highest bit of the unit that holds the field. */
static int64_t first_bit(Dwarf_Die *member, uint64_t bits)
{
	uint64_t first, location, size, from_top;

	if (constant(member, DW_AT_data_bit_offset, &first) == 1)
		return first <= OFFSET_MAX ? (int64_t)first : -1;
	if (constant(member, DW_AT_data_member_location, &location) != 1 ||
	    constant(member, DW_AT_byte_size, &size) != 1 ||
	    constant(member, DW_AT_bit_offset, &from_top) != 1 || location > OFFSET_MAX ||
	    size > 16 || from_top + bits > size * 8)
		return -1;
	return (int64_t)(location * 8 + size * 8 - from_top - bits);
}

static void classify_member(struct classes *c, Dwarf_Die *member, uint64_t base, unsigned depth)
{
	uint64_t offset = 0, bits;
	struct ip_value_type type;

	if (dwarf_hasattr(member, DW_AT_external) || dwarf_hasattr(member, DW_AT_declaration))
		return; /* a static member */
	if (constant(member, DW_AT_bit_size, &bits) == 1) {
		int64_t first = bits <= 128 ? first_bit(member, bits) : -1;

		if (first < 0)
			c->unknown = true;
		else
			merge(c, base + (uint64_t)first / 8, ((uint64_t)first % 8 + bits + 7) / 8,
			      INTEGER);
		return;
	}
	if (constant(member, DW_AT_data_member_location, &offset) < 0 || offset > OFFSET_MAX ||
	    ip_value_type_of(member, &type) <= 0) {
		c->unknown = true; /* this is also the case of a virtual base */
		return;
	}
	classify(c, &type.die, base + offset, depth + 1);
}

static void classify_members(struct classes *c, Dwarf_Die *type, uint64_t offset, unsigned depth)
{
	Dwarf_Die die;

	if (dwarf_hasattr_integrate(type, DW_AT_declaration)) {
		c->unknown = true;
		return;
	}
	if (dwarf_child(type, &die) != 0)
		return;
	do {
		if (dwarf_tag(&die) == DW_TAG_member || dwarf_tag(&die) == DW_TAG_inheritance)
			classify_member(c, &die, offset, depth);
	} while (dwarf_siblingof(&die, &die) == 0);
}

/* Returns whether a pointer to a member points to a function. It has two words then. */
static bool is_member_function(Dwarf_Die *type)
{
	struct ip_value_type member;

	return ip_value_type_of(type, &member) > 0 &&
	       dwarf_tag(&member.die) == DW_TAG_subroutine_type;
}

static void classify_array(struct classes *c, Dwarf_Die *type, uint64_t offset, unsigned depth)
{
	struct ip_value_type element;
	Dwarf_Word size, stride;

	if (dwarf_aggregate_size(type, &size) != 0 || ip_value_type_of(type, &element) <= 0) {
		c->unknown = true;
		return;
	}
	if (dwarf_hasattr(type, DW_AT_GNU_vector)) {
		if (size == 8)
			scalar(c, offset, 8, 8, SSE);
		else if (size == 16)
			scalar(c, offset, 8, 16, SSE);
		else
			c->unknown = true;
		return;
	}
	if (dwarf_aggregate_size(&element.die, &stride) != 0 || !stride) {
		c->unknown = size != 0;
		return;
	}
	for (uint64_t i = 0; i + stride <= size && i <= 16; i += stride)
		classify(c, &element.die, offset + i, depth + 1);
}

static void classify(struct classes *c, Dwarf_Die *type, uint64_t offset, unsigned depth)
{
	Dwarf_Word size;

	if (depth > DEPTH_MAX) {
		c->unknown = true;
		return;
	}
	switch (dwarf_tag(type)) {
	case DW_TAG_base_type:
		classify_base(c, type, offset);
		break;
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
	case DW_TAG_unspecified_type:
		scalar(c, offset, 8, 8, INTEGER);
		break;
	case DW_TAG_enumeration_type:
		if (dwarf_aggregate_size(type, &size) == 0 && size && size <= 8 &&
		    !(size & (size - 1)))
			scalar(c, offset, size, size, INTEGER);
		else
			c->unknown = true;
		break;
	case DW_TAG_ptr_to_member_type:
		scalar(c, offset, is_member_function(type) ? 16 : 8, 8, INTEGER);
		break;
	case DW_TAG_array_type:
		classify_array(c, type, offset, depth);
		break;
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
	case DW_TAG_union_type:
		classify_members(c, type, offset, depth);
		break;
	default:
		c->unknown = true;
	}
}

/* Returns whether a C++ class is passed by the address of a copy. Newer debug information tells
 * this. In older one, a destructor or virtual functions show it. */
static bool is_by_reference(Dwarf_Die *type)
{
	uint64_t convention;
	Dwarf_Die die;

	if (constant(type, DW_AT_calling_convention, &convention) == 1)
		return convention == DW_CC_pass_by_reference;
	if (dwarf_hasattr(type, DW_AT_containing_type))
		return true;
	if (dwarf_child(type, &die) != 0)
		return false;
	do {
		const char *name = dwarf_diename(&die);

		if (dwarf_tag(&die) == DW_TAG_subprogram && name && name[0] == '~' &&
		    !dwarf_hasattr(&die, DW_AT_defaulted))
			return true;
	} while (dwarf_siblingof(&die, &die) == 0);
	return false;
}

static bool is_aggregate(Dwarf_Die *type)
{
	int tag = dwarf_tag(type);

	return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

static bool is_long_double(Dwarf_Die *type)
{
	const char *name = dwarf_diename(type);

	return dwarf_tag(type) == DW_TAG_base_type && dwarf_bytesize(type) == 16 && name &&
	       !strcmp(name, "long double");
}

/* Returns the size in bytes; UINT64_MAX: unknown. */
static uint64_t size_of(Dwarf_Die *type)
{
	Dwarf_Word size;

	switch (dwarf_tag(type)) {
	case DW_TAG_unspecified_type:
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
		return 8;
	case DW_TAG_ptr_to_member_type:
		return is_member_function(type) ? 16 : 8;
	default:
		return dwarf_aggregate_size(type, &size) == 0 ? size : UINT64_MAX;
	}
}

void ip_call_abi_of(Dwarf_Die *type, struct ip_call_abi *ret)
{
	struct classes c = {.align = 8};
	uint64_t size = size_of(type);

	*ret = (struct ip_call_abi){0};
	if (is_aggregate(type) && is_by_reference(type)) {
		*ret = (struct ip_call_abi){.memory = true, .ngeneral = 1, .size = 8, .align = 8};
		return;
	}
	classify(&c, type, 0, 0);
	ret->unknown = c.unknown || size == UINT64_MAX;
	ret->size = (size + 7) & ~7ull;
	ret->align = c.align > 8 ? 16 : 8;
	ret->x87 = is_long_double(type);
	ret->memory = c.memory || size > 16;
	if (ret->memory)
		return;
	ret->vector_first = c.eightbytes[0] == SSE;
	for (int i = 0; i < 2; i++) {
		ret->ngeneral += c.eightbytes[i] == INTEGER;
		ret->nvector += c.eightbytes[i] == SSE;
	}
	/* an empty C++ class has a size, but is not passed at all */
	if (!ret->ngeneral && !ret->nvector)
		ret->size = 0;
}
