/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evaluates expressions over types: members, pointers, arrays, bit fields. What an expression
 * stands for is an operand: something in memory, in registers, or computed.
 */
#include "hotpatcher/plan/values/expression.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/selection/selection.h"
#include "hotpatcher/plan/values/operand.h"
#include "hotpatcher/plan/values/type_search.h"

static bool add_place(void *context, const struct ip_argument_place *place)
{
	struct ip_value_scope *scope = context;

	if (scope->nplaces < IP_PLACES_MAX)
		scope->places[scope->nplaces++] = *place;
	return scope->nplaces < IP_PLACES_MAX;
}

void ip_value_scope_init(struct ip_value_scope *scope, struct ip_debug_function *function,
			 bool at_return)
{
	*scope = (struct ip_value_scope){.function = function, .at_return = at_return};
	if (!at_return)
		ip_argument_places(function, add_place, scope);
	else if (ip_result_place(function, &scope->places[0]) != 0)
		scope->nplaces = 1;
}

/* Tells what values the point has. Returns -1 with an error. */
static int no_such_value(const struct ip_value_point *point, const char *name)
{
	char all[IP_POINT_ARGS_MAX * (IP_POINT_NAME_MAX + 3)] = "";

	for (unsigned i = 0; i < point->n; i++) {
		char number[16];
		const char *own = point->names.names[i];

		snprintf(number, sizeof(number), "arg%u", i + 1);
		if (i)
			strcat(all, ", ");
		strcat(all, *own ? own : number);
	}
	return ip_error("there is no value '%s'; the point has %s", name, *all ? all : "none");
}

static int no_such_name(struct ip_value_scope *scope, const char *name)
{
	const char *names[IP_PLACES_MAX];
	_cleanup_free_ char *all = NULL;
	size_t n = 0, size = 0;
	FILE *out;

	if (scope->point)
		return no_such_value(scope->point, name);
	if (scope->at_return)
		return scope->nplaces
			       ? ip_error("'%s': at a return, only retval can be named", name)
			       : ip_error("'%s': the function returns nothing", name);
	for (unsigned i = 0; i < scope->nplaces; i++)
		if (scope->places[i].name)
			names[n++] = scope->places[i].name;
	if (!n)
		return ip_error("there is no parameter '%s': the function has none", name);
	out = open_memstream(&all, &size);
	for (size_t i = 0; out && i < n && i < 8; i++)
		fprintf(out, "%s%s", i ? ", " : "", names[i]);
	if (out)
		fclose(out);
	return ip_error("there is no parameter '%s'; the function has %s", name,
			all ? all : "others");
}

/* An operand for a parameter or a result. */
static int take_place(struct ip_value_scope *scope, const struct ip_argument_place *place,
		      struct ip_operand *ret)
{
	struct ip_value_op op = place->ops[0];
	bool aggregate = place->typed && ip_value_is_aggregate((Dwarf_Die *)&place->type.die);

	*ret = (struct ip_operand){.type = place->type.die, .typed = place->typed, .counted = -1};
	if (!place->typed || place->kind == IP_PLACE_UNKNOWN)
		return ip_error(
			"'%s': the compiler has moved it, or removed it, so that nothing tells "
			"where it is: leave it out",
			place->name ? place->name : "retval");
	if (place->kind == IP_PLACE_REFERENCE)
		return ip_operand_in_memory(scope, &op, ret);
	if (place->kind == IP_PLACE_STACK) {
		struct ip_value_op address = {.source = IP_VALUE_REGISTER,
					      .size = 8,
					      .base = op.base,
					      .index = IP_VALUE_NOTHING};

		ret->where = IP_OPERAND_AT;
		ret->offset = op.value;
		ret->temporary = ip_value_step(&scope->steps, &address, NULL);
		return ret->temporary < 0 ? -1 : 0;
	}
	if (place->abi.x87)
		return ip_error("'%s' is a long double: record it by --args or --retval alone",
				place->name ? place->name : "retval");
	for (unsigned i = 0; i < place->n; i++) {
		op = place->ops[i];
		op.size = aggregate || place->n > 1 ? 8 : place->type.size;
		op.flags = aggregate ? 0 : place->type.flags & IP_VALUE_SIGNED;
		ret->pieces[i] = ip_value_step(&scope->steps, &op, NULL);
		if (ret->pieces[i] < 0)
			return -1;
	}
	ret->where = aggregate ? IP_OPERAND_PIECES : IP_OPERAND_COMPUTED;
	ret->npieces = place->n;
	ret->temporary = ret->pieces[0];
	return 0;
}

/* An operand for a value of a point, of which no more than its size is known. */
static int take_value(struct ip_value_scope *scope, unsigned i, struct ip_operand *ret)
{
	const struct ip_value_type *type = &scope->point->types[i];
	struct ip_value_op op = scope->point->ops[i];

	*ret = (struct ip_operand){.where = IP_OPERAND_COMPUTED,
				   .string = type->item[0] == 's',
				   .pointer = type->item[0] == 'p',
				   .hex = type->item[0] == 'h',
				   .is_unsigned = type->size == 8 && type->item[0] != 'i',
				   .counted = -1};
	if (!op.source)
		return ip_error("nothing tells where value %u of the point is", i + 1);
	op.size = type->size;
	op.flags = type->flags & IP_VALUE_SIGNED;
	ret->temporary = ip_value_step(&scope->steps, &op, NULL);
	return ret->temporary < 0 ? -1 : 0;
}

static int take_name(struct ip_value_scope *scope, const char *name, struct ip_operand *ret)
{
	static const struct {
		const char *name;
		int64_t number;
	} constants[] = {{"NULL", 0}, {"nullptr", 0}, {"false", 0}, {"true", 1}};
	const struct ip_argument_place *object = NULL;
	struct ip_operand this;

	if (scope->at_return && *name == '$')
		name++;
	for (unsigned i = 0; i < scope->nplaces; i++) {
		const struct ip_argument_place *place = &scope->places[i];

		if (place->name && !strcmp(place->name, name))
			return take_place(scope, place, ret);
		if (place->name && !strcmp(place->name, "this"))
			object = place;
	}
	for (size_t i = 0; i < sizeof(constants) / sizeof(*constants); i++)
		if (!strcmp(constants[i].name, name)) {
			*ret = (struct ip_operand){.where = IP_OPERAND_NUMBER,
						   .number = constants[i].number,
						   .counted = -1};
			return 0;
		}
	/* a member of the object that a method is called for */
	if (object && take_place(scope, object, &this) == 0 &&
	    ip_operand_follow(scope, &this) == 0 && ip_operand_member(scope, &this, name) == 0) {
		*ret = this;
		return 0;
	}
	return no_such_name(scope, name);
}

static int evaluate(struct ip_value_scope *scope, const struct ip_expression *e,
		    struct ip_operand *ret);

/* Evaluates a number for use as an index, a length or an operand. Returns its temporary, or -1. */
static int evaluate_number(struct ip_value_scope *scope, const struct ip_expression *e)
{
	struct ip_operand operand;

	return evaluate(scope, e, &operand) < 0 ? -1 : ip_operand_number(scope, &operand);
}

static int evaluate_index(struct ip_value_scope *scope, const struct ip_expression *e,
			  struct ip_operand *ret)
{
	struct ip_operand index;

	if (evaluate(scope, e->left, ret) < 0 || evaluate(scope, e->right, &index) < 0)
		return -1;
	if (index.where == IP_OPERAND_NUMBER)
		return ip_operand_element(scope, ret, index.number, -1);
	index.temporary = ip_operand_number(scope, &index);
	return index.temporary < 0 ? -1 : ip_operand_element(scope, ret, 0, index.temporary);
}

static int evaluate_format(struct ip_value_scope *scope, const struct ip_expression *e,
			   struct ip_operand *ret)
{
	if (evaluate(scope, e->left, ret) < 0)
		return -1;
	switch (e->format) {
	case IP_FORMAT_HEX:
		ret->hex = true;
		if (ret->string && !ret->typed) { /* a value of a point */
			ret->string = false;
			ret->pointer = true;
		}
		return 0;
	case IP_FORMAT_LIMIT:
		if (e->number < 1 || e->number > IP_STRING_LIMIT_MAX)
			return ip_error(":%lld: from 1 to %u bytes", (long long)e->number,
					IP_STRING_LIMIT_MAX);
		ret->limit = e->number;
		return 0;
	default:
		return ip_operand_string(scope, ret,
					 e->right ? evaluate_number(scope, e->right) : -1,
					 e->right != NULL);
	}
}

static int evaluate_unary(struct ip_value_scope *scope, const struct ip_expression *e,
			  struct ip_operand *ret)
{
	if (evaluate(scope, e->left, ret) < 0)
		return -1;
	switch (e->op) {
	case IP_OPERATOR_FOLLOW:
		return ip_operand_follow(scope, ret);
	case IP_OPERATOR_ADDRESS:
		return ip_operand_address(scope, ret);
	case IP_OPERATOR_NOT:
		return ip_operand_not(scope, ret);
	default:
		return ip_operand_negate(scope, ret, e->op == IP_OPERATOR_INVERT);
	}
}

static int evaluate_cast(struct ip_value_scope *scope, const struct ip_expression *e,
			 struct ip_operand *ret)
{
	Dwarf_Die type;
	int found;

	if (!scope->function)
		return ip_error("(%s): values of a point cannot be cast", e->text);
	found = ip_value_type_search(&scope->function->die, e->text, &type);
	if (!found)
		return ip_error("there is no type '%s' in the debug information of the module",
				e->text);
	if (found < 0)
		return ip_error("type '%s' is defined in several ways, and not in the unit of the "
				"function",
				e->text);
	if (!e->number && dwarf_tag(&type) != DW_TAG_pointer_type)
		return ip_error("type '%s' is no pointer: a cast is (TYPE *), or has the name of a "
				"pointer type",
				e->text);
	return evaluate(scope, e->left, ret) < 0
		       ? -1
		       : ip_operand_cast(scope, ret, &type, (unsigned)e->number);
}

/* A name that is an enumerator of the other operand's type. */
static bool is_enumerator(const struct ip_operand *other, const struct ip_expression *e,
			  struct ip_operand *ret)
{
	return e->kind == IP_EXPRESSION_NAME && ip_operand_enumerator(other, e->text, ret);
}

static int evaluate_binary(struct ip_value_scope *scope, const struct ip_expression *e,
			   struct ip_operand *ret)
{
	struct ip_operand right;
	const struct ip_expression *text = e->left->kind == IP_EXPRESSION_TEXT ? e->left : e->right;

	if (text->kind == IP_EXPRESSION_TEXT) {
		const struct ip_expression *string = text == e->left ? e->right : e->left;

		if ((e->op != IP_OPERATOR_EQUAL && e->op != IP_OPERATOR_UNEQUAL &&
		     (e->op != IP_OPERATOR_BEGINS || text == e->left)) ||
		    string->kind == IP_EXPRESSION_TEXT)
			return ip_error("a text is compared by ==, != or =^, and =^ has it on its "
					"right side");
		return evaluate(scope, string, ret) < 0
			       ? -1
			       : ip_operand_compare(scope, ret, text->text, (size_t)text->number,
						    e->op);
	}
	if (e->op == IP_OPERATOR_BEGINS)
		return ip_error("=^ has a text in \"\" on its right side");
	if (evaluate(scope, e->left, ret) < 0)
		return -1;
	if (!is_enumerator(ret, e->right, &right) && evaluate(scope, e->right, &right) < 0)
		return -1;
	return ip_operand_compute(scope, ret, &right, e->op);
}

static int evaluate(struct ip_value_scope *scope, const struct ip_expression *e,
		    struct ip_operand *ret)
{
	int value = -1;

	/* a point's value is named by all of its text: r->id is no member of r */
	if (scope->point && e->kind != IP_EXPRESSION_NUMBER && e->kind != IP_EXPRESSION_TEXT &&
	    e->kind != IP_EXPRESSION_FORMAT)
		value = ip_value_point_find(scope->point, scope->text + e->begin,
					    e->end - e->begin);
	if (value >= 0)
		return take_value(scope, (unsigned)value, ret);
	switch (e->kind) {
	case IP_EXPRESSION_NUMBER:
		*ret = (struct ip_operand){
			.where = IP_OPERAND_NUMBER, .number = e->number, .counted = -1};
		return 0;
	case IP_EXPRESSION_TEXT:
		return ip_error("a text can only be compared with");
	case IP_EXPRESSION_NAME:
		return take_name(scope, e->text, ret);
	case IP_EXPRESSION_ARROW:
	case IP_EXPRESSION_MEMBER:
		/* whether a value is a pointer is known: both signs do; not so of a class that
		 * stands for a pointer, which has members of its own */
		if (evaluate(scope, e->left, ret) < 0)
			return -1;
		if ((!ip_operand_is_aggregate(ret) ||
		     (e->kind == IP_EXPRESSION_ARROW && ip_operand_is_pointer_class(ret))) &&
		    ip_operand_follow(scope, ret) < 0)
			return ip_error_prefix(
				"'%s%s'", e->kind == IP_EXPRESSION_ARROW ? "->" : ".", e->text);
		return ip_operand_member(scope, ret, e->text);
	case IP_EXPRESSION_INDEX:
		return evaluate_index(scope, e, ret);
	case IP_EXPRESSION_FORMAT:
		return evaluate_format(scope, e, ret);
	case IP_EXPRESSION_UNARY:
		return evaluate_unary(scope, e, ret);
	case IP_EXPRESSION_CAST:
		return evaluate_cast(scope, e, ret);
	default:
		return evaluate_binary(scope, e, ret);
	}
}

int ip_value_expression(struct ip_value_scope *scope, const struct ip_expression *expression,
			struct ip_value_result *ret)
{
	struct ip_operand operand;

	return evaluate(scope, expression, &operand) < 0 ? -1
							 : ip_operand_record(scope, &operand, ret);
}

int ip_value_condition(struct ip_value_scope *scope, const struct ip_expression *expression)
{
	struct ip_operand operand, yes = {.where = IP_OPERAND_NUMBER, .number = 1, .counted = -1};

	if (evaluate(scope, expression, &operand) < 0)
		return -1;
	if (operand.truth)
		return operand.temporary;
	/* whether it is other than 0 */
	return ip_operand_compute(scope, &operand, &yes, IP_OPERATOR_AND) < 0 ? -1
									      : operand.temporary;
}
