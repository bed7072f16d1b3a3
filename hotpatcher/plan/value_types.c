/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names types in signatures.
 */
#include "hotpatcher/plan/value_types.h"

#include <ctype.h>
#include <dwarf.h>
#include <stdbool.h>
#include <string.h>

#include "common/abi/values.h"

#define ENUMERATORS_MAX 64u
#define NAME_MAX_BYTES	128u

int ip_value_type_peel(Dwarf_Die *die, Dwarf_Die *ret)
{
	Dwarf_Attribute attr;
	Dwarf_Die whole;

	if (dwarf_peel_type(die, ret) != 0)
		return -1;
	/* the type is in a unit of its own (-fdebug-types-section) */
	if (dwarf_attr(ret, DW_AT_signature, &attr) && dwarf_formref_die(&attr, &whole))
		*ret = whole;
	return 0;
}

static int encoding_of(Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	Dwarf_Word encoding;

	return dwarf_formudata(dwarf_attr_integrate(die, DW_AT_encoding, &attr), &encoding) == 0
		       ? (int)encoding
		       : -1;
}

static bool is_named(Dwarf_Die *die, const char *name)
{
	const char *real = dwarf_diename(die);

	return real && !strcmp(real, name);
}

/* Returns whether the type is char, signed or not. signed char and unsigned char are not meant:
 * they are small numbers. */
static bool is_char(Dwarf_Die *die)
{
	int encoding = encoding_of(die);

	return dwarf_tag(die) == DW_TAG_base_type && dwarf_bytesize(die) == 1 &&
	       ((is_named(die, "char") &&
		 (encoding == DW_ATE_signed_char || encoding == DW_ATE_unsigned_char)) ||
		(encoding == DW_ATE_UTF && is_named(die, "char8_t")));
}

static void set(struct ip_value_type *ret, char code, uint64_t size, bool is_signed)
{
	ret->size = size;
	ret->flags = is_signed ? IP_VALUE_SIGNED : 0;
	if (strchr("iue", code)) {
		if (size != 1 && size != 2 && size != 4 && size != 8)
			return;
		ret->item[1] = '0' + size;
	}
	ret->item[0] = code;
}

static void name_base(Dwarf_Die *die, struct ip_value_type *ret)
{
	int size = dwarf_bytesize(die);

	switch (encoding_of(die)) {
	case DW_ATE_boolean:
		if (size == 1)
			set(ret, 'b', 1, false);
		else
			set(ret, 'u', size, false);
		break;
	case DW_ATE_signed_char:
	case DW_ATE_unsigned_char:
		if (is_char(die))
			set(ret, 'c', 1, true);
		else
			set(ret, encoding_of(die) == DW_ATE_signed_char ? 'i' : 'u', size,
			    encoding_of(die) == DW_ATE_signed_char);
		break;
	case DW_ATE_signed:
		set(ret, 'i', size, true);
		break;
	case DW_ATE_unsigned:
	case DW_ATE_UTF:
		set(ret, 'u', size, false);
		break;
	case DW_ATE_float:
		if (size == 4 || size == 8) {
			set(ret, 'f', size, false);
			ret->item[1] = '0' + size;
		} else if (size == 16 && is_named(die, "long double")) {
			set(ret, 'x', 16, false);
		}
		break;
	}
}

static bool has_negative(Dwarf_Die *enumeration)
{
	Dwarf_Attribute attr;
	Dwarf_Sword value;
	Dwarf_Die die;

	if (dwarf_child(enumeration, &die) != 0)
		return false;
	do {
		if (dwarf_tag(&die) == DW_TAG_enumerator &&
		    dwarf_formsdata(dwarf_attr(&die, DW_AT_const_value, &attr), &value) == 0 &&
		    value < 0)
			return true;
	} while (dwarf_siblingof(&die, &die) == 0);
	return false;
}

static void name_type(struct ip_value_type *ret)
{
	Dwarf_Die *die = &ret->die, pointee;
	Dwarf_Attribute attr;

	strcpy(ret->item, "-");
	switch (dwarf_tag(die)) {
	case DW_TAG_base_type:
		name_base(die, ret);
		break;
	case DW_TAG_enumeration_type:
		set(ret, 'e', dwarf_bytesize(die), has_negative(die));
		break;
	case DW_TAG_pointer_type:
		set(ret, 'p', 8, false);
		if (dwarf_formref_die(dwarf_attr(die, DW_AT_type, &attr), &pointee) &&
		    ip_value_type_peel(&pointee, &pointee) == 0 && is_char(&pointee)) {
			set(ret, 's', 8, false);
			ret->flags = IP_VALUE_STRING;
		}
		break;
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
	case DW_TAG_unspecified_type: /* nullptr_t */
		set(ret, 'p', 8, false);
		break;
	case DW_TAG_ptr_to_member_type:
		if (!(dwarf_formref_die(dwarf_attr(die, DW_AT_type, &attr), &pointee) &&
		      dwarf_tag(&pointee) == DW_TAG_subroutine_type))
			set(ret, 'i', 8, true);
		break;
	}
}

int ip_value_type_of(Dwarf_Die *die, struct ip_value_type *ret)
{
	Dwarf_Attribute attr;
	Dwarf_Die type;

	*ret = (struct ip_value_type){0};
	if (!dwarf_attr_integrate(die, DW_AT_type, &attr))
		return 0;
	if (!dwarf_formref_die(&attr, &type) || ip_value_type_peel(&type, &ret->die) < 0)
		return -1;
	name_type(ret);
	return 1;
}

void ip_value_type_from(Dwarf_Die *type, struct ip_value_type *ret)
{
	*ret = (struct ip_value_type){.die = *type};
	name_type(ret);
}

/* Writes a name, shortened and cleaned: a signature is one line, and its items are separated by
 * spaces. */
static void write_name(FILE *out, const char *name)
{
	for (size_t i = 0; name[i] && i < NAME_MAX_BYTES; i++) {
		unsigned char c = name[i];

		/* the second half stands in expressions */
		putc(isalnum(c) || (c && strchr("_$.->[]()*&:+<!~|^%/?'#", c)) || c >= 0x80 ? c
											    : '_',
		     out);
	}
}

static void write_enumerators(FILE *out, const struct ip_value_type *type)
{
	Dwarf_Die enumeration = type->die, die;
	unsigned n = 0;

	if (dwarf_child(&enumeration, &die) != 0)
		return;
	putc('{', out);
	do {
		const char *name = dwarf_diename(&die);
		Dwarf_Attribute attr;
		Dwarf_Sword value;
		Dwarf_Word unsigned_value;

		if (dwarf_tag(&die) != DW_TAG_enumerator || !name ||
		    !dwarf_attr(&die, DW_AT_const_value, &attr))
			continue;
		if (type->flags & IP_VALUE_SIGNED) {
			if (dwarf_formsdata(&attr, &value) != 0)
				continue;
		} else {
			if (dwarf_formudata(&attr, &unsigned_value) != 0)
				continue;
			value = (Dwarf_Sword)unsigned_value;
		}
		if (n++)
			putc(',', out);
		write_name(out, name);
		fprintf(out, "=%lld", (long long)value);
	} while (n < ENUMERATORS_MAX && dwarf_siblingof(&die, &die) == 0);
	putc('}', out);
}

void ip_value_type_write(FILE *out, const struct ip_value_type *type, const char *name)
{
	fputs(type->item, out);
	if (!name && type->item[0] != 'e')
		return;
	putc(':', out);
	if (name)
		write_name(out, name);
	if (type->item[0] == 'e')
		write_enumerators(out, type);
}
