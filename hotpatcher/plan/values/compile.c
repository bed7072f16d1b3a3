/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goes over the requests that name a function. A program begins with the condition: only if that is
 * true are the values read.
 */
#include "hotpatcher/plan/values/compile.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/plan/value_locations.h"
#include "hotpatcher/plan/values/expression.h"
#include "hotpatcher/plan/values/members.h"
#include "hotpatcher/plan/values/type_search.h"

/* State of compiling one program. */
struct compiler {
	const struct ip_value_options *options;
	const struct ip_value_function *function;
	struct ip_value_outcome *outcomes;
	struct ip_value_scope scope;
	struct ip_value_builder builder;
};

static bool matches(const struct ip_value_request *r, const struct ip_value_function *f)
{
	return !r->selection ||
	       ip_selection_match(r->selection, f->linker_name, f->file, f->module);
}

bool ip_value_is_wanted(const struct ip_value_options *options,
			const struct ip_value_function *function)
{
	for (size_t i = 0; options->requests && i < options->requests->n; i++)
		if (matches(&options->requests->items[i], function))
			return true;
	return options->args || options->retval;
}

/* Notes why a request does not fit the function. */
static void note(struct compiler *c, size_t i, const char *text)
{
	struct ip_value_outcome *o = &c->outcomes[i];
	_cleanup_free_ char *name = ip_demangle(c->function->linker_name, false);
	const char *function = name ? name : c->function->linker_name, *why = ip_error_message();

	o->unfit++;
	if (o->why)
		return;
	/* an error of the whole text names it already */
	if (why[0] == '\'' && !strncmp(why + 1, text, strlen(text)) &&
	    why[strlen(text) + 1] == '\'')
		ip_error_prefix("%s", function);
	else
		ip_error_prefix("%s: '%s'", function, text);
	o->why = strdup(ip_error_message());
}

/* The condition of all requests together. Returns 0, or -1 with an error: out of memory. */
static int compile_conditions(struct compiler *c)
{
	const struct ip_value_requests *requests = c->options->requests;
	struct ip_value_op when = {.source = IP_VALUE_WHEN, .index = IP_VALUE_NOTHING};
	int all = -1;

	for (size_t i = 0; requests && i < requests->n; i++) {
		const struct ip_value_request *r = &requests->items[i];
		unsigned before = c->scope.steps.n;
		int one;

		if (r->kind != IP_REQUEST_WHEN || !matches(r, c->function))
			continue;
		c->outcomes[i].matched = true;
		c->scope.text = r->items[0].text;
		one = ip_value_condition(&c->scope, r->items[0].expression);
		if (one >= 0 && all >= 0) {
			const struct ip_value_op and = {.source = IP_VALUE_COMPUTE,
							.size = 8,
							.base = all,
							.index = one,
							.scale = IP_COMPUTE_AND};

			one = ip_value_step(&c->scope.steps, &and, NULL);
		}
		if (one < 0) {
			note(c, i, r->items[0].text);
			c->scope.steps.n = before;
			continue;
		}
		c->outcomes[i].fits = true;
		all = one;
	}
	if (all < 0)
		return 0;
	when.base = all;
	if (ip_value_steps_write(&c->scope.steps, &c->builder) < 0)
		return -1;
	return ip_value_builder_keep(&c->builder, &when)
		       ? 0
		       : ip_error("--when: the conditions of one function are too long");
}

/* One request for values. Returns false if it does not fit. */
static bool compile_values(struct compiler *c, size_t i, struct ip_value_result *results, size_t n)
{
	const struct ip_value_request *r = &c->options->requests->items[i];
	unsigned before = c->scope.steps.n;

	for (size_t k = 0; k < r->n; k++) {
		bool room = n + k < IP_VALUES_MAX;

		c->scope.text = r->items[k].text;
		if (room &&
		    ip_value_expression(&c->scope, r->items[k].expression, &results[n + k]) == 0)
			continue;
		if (!room)
			ip_error("more than %u values of one function", IP_VALUES_MAX);
		note(c, i, r->items[k].text);
		c->scope.steps.n = before;
		return false;
	}
	c->outcomes[i].fits = true;
	return true;
}

/* The values that requests of a kind want. Returns 1; 0: no request names the function; -1 with an
 * error. */
static int compile_requests(struct compiler *c, enum ip_value_request_kind kind)
{
	const struct ip_value_requests *requests = c->options->requests;
	struct ip_value_result results[IP_VALUES_MAX];
	const char *names[IP_VALUES_MAX];
	size_t n = 0;
	int named = 0;

	for (size_t i = 0; requests && i < requests->n; i++) {
		const struct ip_value_request *r = &requests->items[i];

		if (r->kind != kind || !matches(r, c->function))
			continue;
		named = 1;
		c->outcomes[i].matched = true;
		if (!compile_values(c, i, results, n))
			continue;
		for (size_t k = 0; k < r->n; k++)
			names[n++] = r->items[k].name;
	}
	if (ip_value_steps_write(&c->scope.steps, &c->builder) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (!ip_value_builder_add(&c->builder, &results[i].type, names[i], &results[i].op))
			return ip_error("the values of one function are too many");
	return named;
}

/* Records a structure that the function returns: as a string, if it is one; else its members, as
 * far as each is a single value, or a string. Returns 1; 0: it returns none; -1 with an error. */
static int add_result_members(struct compiler *c)
{
	struct ip_argument_place *place = &c->scope.places[0];
	struct ip_expression result = {.kind = IP_EXPRESSION_NAME, .text = "retval"};
	struct ip_value_result results[IP_VALUES_MAX];
	const char *names[IP_VALUES_MAX];
	size_t n, kept = 0;

	ip_value_scope_init(&c->scope, c->function->debug, true);
	if (!c->scope.nplaces || !place->typed || !ip_value_is_aggregate(&place->type.die) ||
	    ip_value_type_complete(&place->type.die) < 0)
		return 0;
	if (ip_value_expression(&c->scope, &result, &results[0]) == 0) {
		if (ip_value_steps_write(&c->scope.steps, &c->builder) < 0)
			return -1;
		return ip_value_builder_add(&c->builder, &results[0].type, NULL, &results[0].op);
	}
	c->scope.steps.n = 0;
	n = ip_value_member_list(&place->type.die, names, IP_VALUES_MAX);
	for (size_t i = 0; i < n; i++) {
		struct ip_expression member = {
			.kind = IP_EXPRESSION_MEMBER, .text = (char *)names[i], .left = &result};
		unsigned before = c->scope.steps.n;

		if (ip_value_expression(&c->scope, &member, &results[kept]) == 0)
			names[kept++] = names[i];
		else
			c->scope.steps.n = before;
	}
	if (ip_value_steps_write(&c->scope.steps, &c->builder) < 0)
		return -1;
	for (size_t i = 0; i < kept; i++)
		if (!ip_value_builder_add(&c->builder, &results[i].type, names[i], &results[i].op))
			return ip_error("the values of one function are too many");
	return kept > 0;
}

/* Whether a parameter may be a string: a class, or a reference to one. */
static bool may_be_string(const struct ip_argument_place *place)
{
	struct ip_value_type type = place->type;

	if (!place->typed || !place->name)
		return false;
	if (dwarf_tag(&type.die) == DW_TAG_reference_type ||
	    dwarf_tag(&type.die) == DW_TAG_rvalue_reference_type) {
		Dwarf_Die reference = type.die;

		if (ip_value_type_of(&reference, &type) <= 0)
			return false;
	}
	return ip_value_is_aggregate(&type.die);
}

/* All parameters: strings (std::string and what it is like, and references to such) as strings,
 * others by their own types. Returns 0, or -1 with an error. */
static int add_parameters(struct compiler *c)
{
	struct ip_value_result results[IP_VALUES_MAX];
	bool strings[IP_PLACES_MAX] = {false};

	ip_value_scope_init(&c->scope, c->function->debug, false);
	for (unsigned i = 0; i < c->scope.nplaces && i < IP_VALUES_MAX; i++) {
		const struct ip_argument_place *place = &c->scope.places[i];
		const struct ip_expression name = {.kind = IP_EXPRESSION_NAME,
						   .text = (char *)place->name};
		const unsigned before = c->scope.steps.n;

		if (!may_be_string(place))
			continue;
		strings[i] = ip_value_expression(&c->scope, &name, &results[i]) == 0 &&
			     results[i].type.flags & IP_VALUE_STRING;
		if (!strings[i])
			c->scope.steps.n = before;
	}
	if (ip_value_steps_write(&c->scope.steps, &c->builder) < 0)
		return -1;
	for (unsigned i = 0; i < c->scope.nplaces; i++) {
		const struct ip_argument_place *place = &c->scope.places[i];

		if (!(strings[i] ? ip_value_builder_add(&c->builder, &results[i].type, place->name,
							&results[i].op)
				 : ip_argument_add(&c->builder, place)))
			return 0;
	}
	return 0;
}

/* Begins a program. Returns NULL with an error: out of memory. */
static struct compiler *begin(const struct ip_value_options *options,
			      const struct ip_value_function *function,
			      struct ip_value_outcome *outcomes, struct ip_arguments *ret)
{
	struct compiler *c = calloc(1, sizeof(*c));

	if (!c) {
		ip_error("out of memory");
		return NULL;
	}
	c->options = options;
	c->function = function;
	c->outcomes = outcomes;
	if (ip_value_builder_begin(&c->builder, options->string_limit, ret) < 0) {
		free(c);
		return NULL;
	}
	return c;
}

/* Ends a program; named < 0: an error came before. */
static int end(struct compiler *c, int named, struct ip_arguments *ret)
{
	if (ip_value_builder_finish(&c->builder) < 0)
		named = -1;
	if (named < 0)
		ip_arguments_clear(ret);
	free(c);
	return named < 0 ? -1 : 0;
}

static int compile(const struct ip_value_options *options, const struct ip_value_function *function,
		   bool at_return, struct ip_value_outcome *outcomes, struct ip_arguments *ret)
{
	struct compiler *c = begin(options, function, outcomes, ret);
	bool all = at_return ? options->retval : options->args;
	int named;

	if (!c)
		return -1;
	if (options->requests)
		ip_value_scope_init(&c->scope, function->debug, at_return);
	named = at_return ? 0 : compile_conditions(c);
	if (named == 0)
		named = compile_requests(c, at_return ? IP_REQUEST_RETVAL : IP_REQUEST_ARGS);
	if (named == 0 && all && at_return)
		named = add_result_members(c);
	if (named == 0 && all && at_return)
		ip_arguments_add_return(&c->builder, function->debug);
	else if (named == 0 && all)
		named = add_parameters(c);
	return end(c, named, ret);
}

int ip_value_compile_point(const struct ip_value_options *options,
			   const struct ip_value_function *function,
			   const struct ip_value_point *point, struct ip_value_outcome *outcomes,
			   struct ip_arguments *ret)
{
	struct compiler *c = begin(options, function, outcomes, ret);
	int named;

	if (!c)
		return -1;
	c->scope.point = point;
	named = compile_conditions(c);
	if (named == 0)
		named = compile_requests(c, IP_REQUEST_ARGS);
	for (unsigned i = 0; named == 0 && options->args && i < point->n; i++) {
		const char *name = point->names.names[i];

		ip_value_builder_add(&c->builder, &point->types[i], *name ? name : NULL,
				     &point->ops[i]);
	}
	return end(c, named, ret);
}

int ip_value_compile_entry(const struct ip_value_options *options,
			   const struct ip_value_function *function,
			   struct ip_value_outcome *outcomes, struct ip_arguments *ret)
{
	return compile(options, function, false, outcomes, ret);
}

int ip_value_compile_exit(const struct ip_value_options *options,
			  const struct ip_value_function *function,
			  struct ip_value_outcome *outcomes, struct ip_arguments *ret)
{
	return compile(options, function, true, outcomes, ret);
}

int ip_value_outcomes_unfit(const struct ip_value_requests *requests,
			    const struct ip_value_outcome *outcomes)
{
	for (size_t i = 0; requests && i < requests->n; i++)
		if (!outcomes[i].fits)
			return i;
	return -1;
}

int ip_value_outcomes_error(const struct ip_value_request *request,
			    const struct ip_value_outcome *outcome, const char *nearest)
{
	const char *option = ip_value_request_option(request->kind);

	if (outcome->why)
		return ip_error("%s %s: %s", option, request->text, outcome->why);
	return ip_error("%s %s: no function that is recorded and has debug information is called "
			"%s%s: see -f, and iprobe list",
			option, request->text,
			request->function ? request->function : "by any name",
			nearest ? nearest : "");
}

void ip_value_outcomes_clear(struct ip_value_outcome *outcomes, size_t n)
{
	for (size_t i = 0; outcomes && i < n; i++)
		free(outcomes[i].why);
	free(outcomes);
}
