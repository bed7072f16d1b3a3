/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes programs and signatures.
 *
 * Where is an argument at the entry? There are three sources. The first one that gives an answer
 * decides:
 *
 *   1. A constant: the value that the compiler has put in for the parameter (.constprop).
 *   2. A list of locations that begins at the entry and names a register, or the caller's part of
 *      the stack, there. A single location for the whole function is no such list: without
 *      optimisation, and for variables declared register, it holds only after the prologue.
 *   3. The ABI, applied to the types of all parameters in order. It is not used for functions whose
 *      parameters the compiler may have changed (.isra, .constprop, .part; clang: all local
 *      functions). For these a single location that is an argument's register counts, too, and a
 *      parameter without one is shown as missing.
 */
#include "hotpatcher/plan/value_locations.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/trace/values.h"
#include "hotpatcher/plan/value_types.h"
#include "hotpatcher/plan/x86_64/call_abi.h"

/* The registers and the stack that the parameters so far have used, according to the ABI. */
struct given {
	unsigned general, vector;
	uint64_t stack; /* bytes above the return address */
	bool unknown;
	bool stack_unknown; /* from here on */
	bool gnu;	    /* compiled by gcc */
};

static struct ip_value_op in_register(int number)
{
	return number < 16 ? (struct ip_value_op){.source = IP_VALUE_REGISTER,
						  .base = number,
						  .index = IP_VALUE_NOTHING}
			   : (struct ip_value_op){.source = IP_VALUE_VECTOR,
						  .base = number - 16,
						  .index = IP_VALUE_NOTHING};
}

/* Describes a place on the stack. offset: bytes above the return address. */
static struct ip_value_op on_stack(uint64_t offset)
{
	return (struct ip_value_op){.source = IP_VALUE_MEMORY,
				    .base = IP_STACK_POINTER,
				    .index = IP_VALUE_NOTHING,
				    .value = (int64_t)(IP_RETURN_ADDRESS + offset)};
}

static bool is_argument_register(int number)
{
	for (unsigned i = 0; i < IP_ARGUMENT_GENERAL; i++)
		if (ip_argument_registers[i] == number)
			return true;
	return number >= 16 && number < 16 + IP_ARGUMENT_VECTOR;
}

/* Returns whether DW_OP_fbreg counts from the stack pointer that the caller had before its call. */
static bool frame_base_is_cfa(Dwarf_Die *function)
{
	Dwarf_Attribute attr;
	Dwarf_Op *expression;
	size_t length;

	return dwarf_attr_integrate(function, DW_AT_frame_base, &attr) &&
	       dwarf_getlocation(&attr, &expression, &length) == 0 && length == 1 &&
	       expression[0].atom == DW_OP_call_frame_cfa;
}

static struct ip_value_op immediate(int64_t value)
{
	return (struct ip_value_op){.source = IP_VALUE_IMMEDIATE,
				    .base = IP_VALUE_NOTHING,
				    .index = IP_VALUE_NOTHING,
				    .value = value};
}

static bool constant_of(const Dwarf_Op *op, Dwarf_Sword *ret)
{
	if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31)
		*ret = op->atom - DW_OP_lit0;
	else if (op->atom >= DW_OP_const1u && op->atom <= DW_OP_consts)
		*ret = (Dwarf_Sword)op->number;
	else
		return false;
	return true;
}

/* Uses sources 1 and 2. Returns 1 and sets *ret; 0: they do not tell. */
static int place_from_debug_info(Dwarf_Die *function, Dwarf_Die *parameter, uint64_t entry,
				 bool changed, struct ip_value_op *ret)
{
	Dwarf_Attribute attr;
	Dwarf_Op *expression;
	Dwarf_Sword value;
	size_t length;
	bool list;
	int number;

	if (dwarf_attr(parameter, DW_AT_const_value, &attr) &&
	    dwarf_formsdata(&attr, &value) == 0) {
		*ret = immediate(value);
		return 1;
	}
	if (!dwarf_attr(parameter, DW_AT_location, &attr) ||
	    dwarf_getlocation_addr(&attr, entry, &expression, &length, 1) != 1)
		return 0;
	if (length == 2 && expression[1].atom == DW_OP_stack_value &&
	    constant_of(&expression[0], &value)) {
		*ret = immediate(value);
		return 1;
	}
	if (length != 1)
		return 0;
	list = dwarf_whatform(&attr) == DW_FORM_sec_offset ||
	       dwarf_whatform(&attr) == DW_FORM_loclistx ||
	       dwarf_whatform(&attr) == DW_FORM_data4 || dwarf_whatform(&attr) == DW_FORM_data8;
	if (expression[0].atom == DW_OP_fbreg) {
		int64_t offset = (int64_t)expression[0].number;

		if (offset < 0 || offset > 65536 || !frame_base_is_cfa(function))
			return 0;
		*ret = on_stack(offset);
		return 1;
	}
	if (expression[0].atom >= DW_OP_reg0 && expression[0].atom <= DW_OP_reg31)
		number = ip_register_of_dwarf(expression[0].atom - DW_OP_reg0);
	else if (expression[0].atom == DW_OP_regx)
		number = ip_register_of_dwarf(expression[0].number);
	else
		return 0;
	if (number < 0 || number >= 16 + IP_ARGUMENT_VECTOR || !is_argument_register(number) ||
	    (!list && !changed))
		return 0;
	*ret = in_register(number);
	return 1;
}

/* The registers of a value in order: its eightbytes, from the first one on. */
static void take_registers(struct given *g, const struct ip_call_abi *p,
			   struct ip_argument_place *ret)
{
	unsigned n = p->ngeneral + p->nvector;

	ret->kind = n && n <= 2 ? IP_PLACE_REGISTERS : IP_PLACE_UNKNOWN;
	ret->n = n;
	for (unsigned i = 0; i < n && i < 2; i++) {
		bool vector =
			i ? p->nvector == 2 || (p->nvector && !p->vector_first) : p->vector_first;

		ret->ops[i] = in_register(
			vector ? 16 + (int)g->vector++
			       : ip_argument_registers[g->general++ % IP_ARGUMENT_GENERAL]);
	}
}

/* Uses source 3. It counts the parameter in any case, and sets *ret as far as it can be told. */
static void place_by_abi(struct given *g, const struct ip_call_abi *p,
			 struct ip_argument_place *ret)
{
	ret->kind = IP_PLACE_UNKNOWN;
	if (p->unknown)
		g->unknown = true;
	if (g->unknown)
		return;
	if (p->memory && p->ngeneral) { /* the address of a copy is passed */
		ret->kind = g->general < IP_ARGUMENT_GENERAL || !g->stack_unknown
				    ? IP_PLACE_REFERENCE
				    : IP_PLACE_UNKNOWN;
		if (g->general < IP_ARGUMENT_GENERAL) {
			ret->ops[0] = in_register(ip_argument_registers[g->general++]);
		} else {
			ret->ops[0] = on_stack(g->stack);
			g->stack += 8;
		}
		return;
	}
	if (!p->memory && g->general + p->ngeneral <= IP_ARGUMENT_GENERAL &&
	    g->vector + p->nvector <= IP_ARGUMENT_VECTOR) {
		take_registers(g, p, ret);
		return;
	}
	/* compilers do not agree on the alignment of a 128-bit integer on the stack */
	if (p->ngeneral == 2 && p->align == 16 && !g->gnu)
		g->stack_unknown = true;
	if (g->stack_unknown)
		return;
	g->stack = (g->stack + p->align - 1) & ~(p->align - 1);
	ret->kind = IP_PLACE_STACK;
	ret->ops[0] = on_stack(g->stack);
	g->stack += p->size;
}

/* Returns whether the function has a calling convention of its own, or none: clang marks functions
 * whose parameters it has changed. */
static bool is_called_otherwise(Dwarf_Die *function)
{
	Dwarf_Attribute attr;
	Dwarf_Word convention;

	return dwarf_formudata(dwarf_attr_integrate(function, DW_AT_calling_convention, &attr),
			       &convention) == 0 &&
	       convention != DW_CC_normal;
}

/* Returns whether the function is written in C or C++; *ret_c: in C. Other languages pass their
 * parameters in ways of their own. */
static bool is_c_or_cxx(Dwarf_Die *function, bool *ret_c)
{
	Dwarf_Die unit;

	*ret_c = false;
	if (!dwarf_diecu(function, &unit, NULL, NULL))
		return false;
	switch (dwarf_srclang(&unit)) {
	case DW_LANG_C89:
	case DW_LANG_C:
	case DW_LANG_C99:
	case DW_LANG_C11:
		*ret_c = true;
		return true;
	case DW_LANG_C_plus_plus:
	case DW_LANG_C_plus_plus_03:
	case DW_LANG_C_plus_plus_11:
	case DW_LANG_C_plus_plus_14:
	case DW_LANG_ObjC:
	case DW_LANG_ObjC_plus_plus:
		return true;
	/* from the later list of DWARF 5: C17, C++17, C++20, C23, C++23 */
	case 0x2c:
	case 0x3e:
		*ret_c = true;
		return true;
	case 0x2a:
	case 0x2b:
	case 0x3a:
		return true;
	default:
		return false;
	}
}

static bool is_made_by(Dwarf_Die *function, const char *compiler)
{
	Dwarf_Attribute attr;
	Dwarf_Die unit;
	const char *producer = dwarf_diecu(function, &unit, NULL, NULL)
				       ? dwarf_formstring(dwarf_attr(&unit, DW_AT_producer, &attr))
				       : NULL;

	return producer && strstr(producer, compiler);
}

/* What the compiler may have changed: the function's parameters, and its result. If there is no
 * symbol, a local function that is described apart from its declaration (an abstract instance) may
 * have been changed in any way. */
struct changes {
	bool parameters, result;
};

static struct changes changes_of(struct ip_debug_function *f)
{
	bool is_c, nocall = is_called_otherwise(&f->die) || !is_c_or_cxx(&f->die, &is_c);
	bool isra, part;

	/* Earlier versions of clang do not mark changed functions, so any local function may have
	 * been changed. */
	nocall |= is_made_by(&f->die, "clang") && !dwarf_hasattr_integrate(&f->die, DW_AT_external);
	if (!f->symbol) {
		nocall |= dwarf_hasattr(&f->die, DW_AT_abstract_origin) &&
			  !dwarf_hasattr_integrate(&f->die, DW_AT_external);
		return (struct changes){nocall, nocall};
	}
	isra = strstr(f->symbol, ".isra.");
	part = strstr(f->symbol, ".part.");
	return (struct changes){nocall || isra || part || strstr(f->symbol, ".constprop."),
				nocall || isra || part};
}

static bool has_hidden_result(Dwarf_Die *function)
{
	struct ip_value_type type;
	struct ip_call_abi passing;

	if (ip_value_type_of(function, &type) <= 0)
		return false;
	ip_call_abi_of(&type.die, &passing);
	return passing.memory && !passing.x87;
}

static bool has_unknown_result(Dwarf_Die *function)
{
	struct ip_value_type type;
	struct ip_call_abi passing;
	int there = ip_value_type_of(function, &type);

	if (there <= 0)
		return there < 0;
	ip_call_abi_of(&type.die, &passing);
	return passing.unknown;
}

static const char *name_of(Dwarf_Die *die)
{
	Dwarf_Attribute attr;

	return dwarf_formstring(dwarf_attr_integrate(die, DW_AT_name, &attr));
}

/* State of going over the parameters of a function. */
struct entry {
	struct given given;
	struct ip_debug_function *function;
	bool changed;
	bool promoted; /* without a prototype: a float is passed as a double */
	/* returns false to end */
	bool (*found)(void *context, const struct ip_argument_place *place);
	void *context;
};

/* Whether one register, or one place on the stack, holds the whole value. */
static bool is_single(const struct ip_argument_place *place)
{
	return place->kind != IP_PLACE_UNKNOWN && place->kind != IP_PLACE_REFERENCE &&
	       (place->abi.x87 ||
		(!place->abi.memory && place->abi.ngeneral + place->abi.nvector == 1));
}

static bool visit_parameter(struct entry *e, Dwarf_Die *die)
{
	struct ip_argument_place place = {.name = name_of(die)};
	struct ip_value_op op;

	if (ip_value_type_of(die, &place.type) <= 0) {
		e->given.unknown = true;
		return e->found(e->context, &place);
	}
	place.typed = true;
	if (e->promoted && !strcmp(place.type.item, "f4")) {
		strcpy(place.type.item, "f8");
		place.type.size = 8;
	}
	ip_call_abi_of(&place.type.die, &place.abi);
	place_by_abi(&e->given, &place.abi, &place);
	/* if it is in two registers or more, the first tells nothing about the whole */
	if (place.kind != IP_PLACE_REFERENCE &&
	    !(place.kind == IP_PLACE_REGISTERS && place.n > 1) &&
	    place_from_debug_info(&e->function->die, die, e->function->entry, e->changed, &op)) {
		bool whole = place.abi.x87 ||
			     (!place.abi.memory && place.abi.ngeneral + place.abi.nvector == 1);

		if (op.source == IP_VALUE_MEMORY)
			place.kind = IP_PLACE_STACK;
		else
			place.kind = whole ? IP_PLACE_REGISTERS : IP_PLACE_UNKNOWN;
		place.ops[0] = op;
		place.n = 1;
	}
	return e->found(e->context, &place);
}

bool ip_argument_add(struct ip_value_builder *b, const struct ip_argument_place *place)
{
	static const struct ip_value_op unknown = {.base = IP_VALUE_NOTHING,
						   .index = IP_VALUE_NOTHING};
	struct ip_value_op op = place->ops[0];

	if (!place->typed)
		return ip_value_builder_add(b, NULL, place->name, NULL);
	if (place->abi.x87)
		op.flags |= IP_VALUE_LONG;
	/* The value is shown as missing. A structure is not shown at all. */
	return ip_value_builder_add(b, &place->type, place->name,
				    is_single(place) ? &op : &unknown);
}

/* Returns where the parameter was declared: the offset of its declaration, or its own if it has no
 * other. */
static Dwarf_Off declared_at(Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	Dwarf_Die origin;

	return dwarf_formref_die(dwarf_attr(die, DW_AT_abstract_origin, &attr), &origin)
		       ? dwarf_dieoffset(&origin)
		       : dwarf_dieoffset(die);
}

/*
 * Visits the parameters in scope. The parameters of a template's pack are in a scope of their own.
 * In gcc's clones (.isra, .constprop), the parameters that gcc has removed come after the ones that
 * are left. So all parameters are visited in the order of the declaration.
 */
static bool visit_parameters(struct entry *e, Dwarf_Die *scope, bool pack)
{
	Dwarf_Die all[IP_VALUES_MAX + 1], die;
	unsigned n = 0, at;

	if (dwarf_child(scope, &die) != 0)
		return true;
	do {
		int tag = dwarf_tag(&die);

		if (tag != DW_TAG_formal_parameter &&
		    (tag != DW_TAG_GNU_formal_parameter_pack || pack))
			continue;
		if (n == sizeof(all) / sizeof(*all))
			break; /* there is no room for more */
		for (at = n++; at && e->changed && declared_at(&die) < declared_at(&all[at - 1]);
		     at--)
			all[at] = all[at - 1];
		all[at] = die;
	} while (dwarf_siblingof(&die, &die) == 0);
	for (unsigned i = 0; i < n; i++)
		if (dwarf_tag(&all[i]) == DW_TAG_formal_parameter
			    ? !visit_parameter(e, &all[i])
			    : !visit_parameters(e, &all[i], true))
			return false;
	return true;
}

void ip_argument_places(struct ip_debug_function *f,
			bool (*found)(void *context, const struct ip_argument_place *place),
			void *context)
{
	struct entry e = {.function = f,
			  .changed = changes_of(f).parameters,
			  .found = found,
			  .context = context};
	bool is_c;

	e.given.general = has_hidden_result(&f->die);
	e.given.unknown = e.changed || has_unknown_result(&f->die);
	e.given.gnu = is_made_by(&f->die, "GNU ");
	e.promoted = is_c_or_cxx(&f->die, &is_c) && is_c &&
		     !dwarf_hasattr_integrate(&f->die, DW_AT_prototyped);
	visit_parameters(&e, &f->die, false);
}

int ip_result_place(struct ip_debug_function *f, struct ip_argument_place *ret)
{
	struct given none = {0};
	unsigned general = 0, vector = 0;

	*ret = (struct ip_argument_place){.name = "retval"};
	if (changes_of(f).result)
		return -1;
	if (ip_value_type_of(&f->die, &ret->type) <= 0)
		return 0;
	ret->typed = true;
	ip_call_abi_of(&ret->type.die, &ret->abi);
	if (ret->abi.unknown)
		return -1;
	if (ret->abi.x87) {
		ret->kind = IP_PLACE_REGISTERS;
		ret->n = 1;
		ret->ops[0] = (struct ip_value_op){.source = IP_VALUE_X87,
						   .base = IP_VALUE_NOTHING,
						   .index = IP_VALUE_NOTHING};
		return 1;
	}
	if (ret->abi.memory) { /* the function returns the address of its result */
		ret->kind = IP_PLACE_REFERENCE;
		ret->ops[0] = in_register(IP_RESULT_GENERAL);
		return 1;
	}
	take_registers(&none, &ret->abi, ret);
	for (unsigned i = 0; i < ret->n && i < 2; i++)
		ret->ops[i] = in_register(ret->ops[i].source == IP_VALUE_VECTOR
						  ? 16 + ip_result_vector[vector++ % 2]
						  : ip_result_general[general++ % 2]);
	return ret->kind == IP_PLACE_UNKNOWN ? -1 : 1;
}

void ip_arguments_add_return(struct ip_value_builder *b, struct ip_debug_function *f)
{
	struct ip_argument_place place;

	if (ip_result_place(f, &place) > 0 && (place.abi.x87 || is_single(&place)))
		ip_value_builder_add(b, &place.type, NULL, &place.ops[0]);
}
