/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles what is requested of each function, and keeps only whether that worked. See
 * value_check.h.
 */
#include "hotpatcher/plan/value_check.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/plan/stub_layout.h"
#include "hotpatcher/plan/value_options.h"
#include "hotpatcher/plan/values/compile.h"
#include "hotpatcher/process/debug_info.h"

#define STRING_LIMIT 64 /* any that is valid: what is compiled is not used */

/* Where the debug information of a function is looked up. */
struct place {
	uint64_t address;
	uint32_t function; /* of the module's list */
};

struct checker {
	struct ip_value_options options;
	struct ip_value_outcome *outcomes; /* one for each request */
	/* of each request: a function of its name is chosen; one of these can have values; one is
	 * a point, or a scope */
	bool *named, *able, *points, *scopes;
	const struct ip_module *module;
	const struct place *places;
	bool failed;
};

static struct ip_value_function function_of(const struct ip_module *module, uint32_t i,
					    struct ip_debug_function *debug)
{
	const struct ip_probe_list *list = module->list;
	const struct ip_pl_function *f = &list->functions[i];

	return (struct ip_value_function){.debug = debug,
					  .linker_name = ip_probe_list_string(list, f->name),
					  .file = f->file ? ip_probe_list_string(list, f->file)
							  : NULL,
					  .module = module->path};
}

/* Notes which requests name the function. Returns whether one of them does. */
static bool note_named(struct checker *c, const struct ip_value_function *f, bool able, bool point,
		       bool scope)
{
	const struct ip_value_requests *requests = c->options.requests;
	bool any = false;

	for (size_t i = 0; i < requests->n; i++) {
		const struct ip_selection *named = requests->items[i].selection;

		if (named && !ip_selection_match(named, f->linker_name, f->file, f->module))
			continue;
		any = true;
		c->named[i] = true;
		c->able[i] |= able;
		c->points[i] |= point;
		c->scopes[i] |= scope;
	}
	return any;
}

static void on_found(void *context, size_t i, struct ip_debug_function *debug)
{
	struct checker *c = context;
	const struct ip_value_function f = function_of(c->module, c->places[i].function, debug);
	struct ip_arguments entry = {0}, exit = {0};

	if (c->failed)
		return;
	c->failed = ip_value_compile_entry(&c->options, &f, c->outcomes, &entry) < 0;
	if (!c->failed)
		ip_arguments_clear(&entry);
	c->failed = c->failed || ip_value_compile_exit(&c->options, &f, c->outcomes, &exit) < 0;
	if (!c->failed)
		ip_arguments_clear(&exit);
}

static int by_address(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/* The entry of each function, or the begin of one that has no entry; 0: no values. *ret_points:
 * which are points; ret_scopes: which are scopes. */
static void find_entries(const struct ip_probe_list *list, uint64_t *ret, bool *ret_points,
			 bool *ret_scopes)
{
	for (uint32_t i = 0; i < list->header->nprobes; i++) {
		const struct ip_pl_probe *p = &list->probes[i];

		ret_points[p->function] |= p->kind == IP_PROBE_POINT;
		ret_scopes[p->function] |= ip_probe_is_scope(list, p);
		if (!ip_probe_has_values(p) || p->kind == IP_PROBE_POINT)
			continue;
		if (p->kind == IP_PROBE_ENTRY)
			ret[p->function] = p->offset;
		else if (!ret[p->function])
			ret[p->function] = list->functions[p->function].address;
	}
}

/* Compiles what is requested of the points of the module. */
static int check_points(struct checker *c, const struct ip_selection *selection)
{
	const struct ip_probe_list *list = c->module->list;

	for (uint32_t i = 0; i < list->header->nprobes; i++) {
		const struct ip_pl_probe *p = &list->probes[i];
		const struct ip_value_function f = function_of(c->module, p->function, NULL);
		struct ip_value_point point;
		struct ip_arguments values;

		if (p->kind != IP_PROBE_POINT || !ip_probe_has_values(p) ||
		    !ip_selection_match(selection, f.linker_name, f.file, f.module) ||
		    !note_named(c, &f, false, true, false))
			continue;
		ip_value_point_init(list, p, 0, &point);
		if (ip_value_compile_point(&c->options, &f, &point, c->outcomes, &values) < 0)
			return -1;
		ip_arguments_clear(&values);
	}
	return 0;
}

static int check_module(struct checker *c, pid_t pid, const struct ip_selection *selection)
{
	const struct ip_probe_list *list = c->module->list;
	const uint32_t n = list->header->nfunctions;
	_cleanup_free_ uint64_t *entries = calloc(n + 1, sizeof(*entries));
	_cleanup_free_ struct place *places = calloc(n + 1, sizeof(*places));
	_cleanup_free_ uint64_t *addresses = calloc(n + 1, sizeof(*addresses));
	_cleanup_free_ bool *points = calloc(n + 1, sizeof(*points));
	_cleanup_free_ bool *scopes = calloc(n + 1, sizeof(*scopes));
	struct ip_debug_info *info;
	size_t kept = 0;
	int there;

	if (!entries || !places || !addresses || !points || !scopes)
		return ip_error("out of memory");
	find_entries(list, entries, points, scopes);
	for (uint32_t i = 0; i < n; i++) {
		const struct ip_value_function f = function_of(c->module, i, NULL);

		if (ip_selection_match(selection, f.linker_name, f.file, f.module) &&
		    note_named(c, &f, entries[i] != 0, points[i], scopes[i]) && entries[i])
			places[kept++] = (struct place){entries[i], i};
	}
	if (check_points(c, selection) < 0)
		return -1;
	if (!kept)
		return 0;
	qsort(places, kept, sizeof(*places), by_address);
	for (size_t i = 0; i < kept; i++)
		addresses[i] = places[i].address;
	there = ip_debug_info_open(c->module, pid, &info, NULL);
	if (there <= 0)
		return there;
	c->places = places;
	ip_debug_info_find(info, addresses, kept, on_found, c);
	ip_debug_info_close(info);
	return c->failed ? -1 : 0;
}

/* The names of all functions that the selection chooses, for the nearest ones; the caller frees
 * the array. NULL: out of memory. */
static const char **names_of(const struct ip_modules *modules, const struct ip_selection *selection,
			     size_t *ret_n)
{
	const char **names;
	size_t most = 0;

	*ret_n = 0;
	for (size_t m = 0; m < modules->n; m++)
		most += modules->items[m].list ? modules->items[m].list->header->nfunctions : 0;
	names = calloc(most + 1, sizeof(*names));
	for (size_t m = 0; names && m < modules->n; m++) {
		const struct ip_module *module = &modules->items[m];

		for (uint32_t i = 0; module->list && i < module->list->header->nfunctions; i++) {
			const struct ip_value_function f = function_of(module, i, NULL);

			if (ip_selection_match(selection, f.linker_name, f.file, f.module))
				names[(*ret_n)++] = f.linker_name;
		}
	}
	return names;
}

/* Tells of one request that fits no function, as far as that is certain. */
static int tell_unfit(const struct checker *c, size_t i, const struct ip_modules *modules,
		      const struct ip_selection *selection,
		      void (*tell)(void *context, const char *text), void *context)
{
	const struct ip_value_request *r = &c->options.requests->items[i];
	_cleanup_free_ const char **names = NULL;
	_cleanup_free_ char *nearest = NULL, *text = NULL;
	size_t n;

	if (!c->outcomes[i].why && c->points[i] && !c->able[i]) {
		ip_error("%s %s: what has that name is a point%s", ip_value_request_option(r->kind),
			 r->text,
			 r->kind == IP_REQUEST_RETVAL ? ": it returns nothing" : " without values");
	} else if (!c->outcomes[i].why && c->scopes[i] && !c->able[i]) {
		ip_error("%s %s: what has that name is a scope (IPROBE_SCOPE): " IP_SCOPE_VALUES,
			 ip_value_request_option(r->kind), r->text);
	} else if (!c->outcomes[i].why && c->named[i]) {
		if (c->able[i])
			return 0; /* there is no debug information of it */
		ip_error("%s %s: the functions of that name record no values: build them with "
			 "IPROBE_PLACEMENT=fentry",
			 ip_value_request_option(r->kind), r->text);
	} else {
		names = names_of(modules, selection, &n);
		nearest =
			names && r->selection ? ip_selection_nearest(r->selection, names, n) : NULL;
		if (nearest && *nearest && asprintf(&text, " (nearest: %s)", nearest) < 0)
			text = NULL;
		ip_value_outcomes_error(r, &c->outcomes[i], text);
	}
	tell(context, ip_error_message());
	return 0;
}

int ip_values_check_modules(const struct ip_modules *modules, pid_t pid,
			    const struct ip_selection *selection,
			    const struct ip_value_requests *requests,
			    void (*tell)(void *context, const char *text), void *context)
{
	struct checker c = {.options = {.string_limit = STRING_LIMIT, .requests = requests}};
	_cleanup_free_ bool *named = calloc(requests->n + 1, sizeof(*named));
	_cleanup_free_ bool *able = calloc(requests->n + 1, sizeof(*able));
	_cleanup_free_ bool *points = calloc(requests->n + 1, sizeof(*points));
	_cleanup_free_ bool *scopes = calloc(requests->n + 1, sizeof(*scopes));
	int ret = 0;

	c.outcomes = calloc(requests->n + 1, sizeof(*c.outcomes));
	if (!named || !able || !points || !scopes || !c.outcomes)
		ret = ip_error("out of memory");
	c.named = named;
	c.able = able;
	c.points = points;
	c.scopes = scopes;
	for (size_t m = 0; requests->n && ret == 0 && m < modules->n; m++) {
		c.module = &modules->items[m];
		if (c.module->list)
			ret = check_module(&c, pid, selection);
	}
	for (size_t i = 0; ret == 0 && i < requests->n; i++)
		if (!c.outcomes[i].fits)
			ret = tell_unfit(&c, i, modules, selection, tell, context);
	ip_value_outcomes_clear(c.outcomes, requests->n);
	return ret;
}
