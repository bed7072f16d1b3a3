/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the group of a call. One hash table serves all kinds of groups. It is first searched by
 * (function, return address) or by (function, function around it): these are all that a call
 * brings along. A key that has not been seen before is then searched by (function, how the
 * caller is known, the caller's name), since many addresses have one caller. Groups by thread,
 * module and file have keys of their own.
 */
#include "analysis/profile/groups.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/error.h"

/* The kind of a key, in its upper half. */
#define KEY_ADDRESS (1ull << 32)
#define KEY_AROUND  (2ull << 32)
#define KEY_NONE    (3ull << 32)
#define KEY_CALLER  (4ull << 32) /* + enum ip_caller_from */
#define KEY_THREAD  (8ull << 32)
#define KEY_MODULE  (9ull << 32)
#define KEY_FILE    (10ull << 32)
#define KEY_NAME    (11ull << 32)
#define KEY_PROCESS (12ull << 32)
/* Where groups are within processes: the process + 1, above the kind. */
#define KEY_WITHIN(process) ((uint64_t)((process) + 1) << 40)

struct ip_groups *ip_groups_create(const struct ip_trace_reader *trace, enum ip_group_by by,
				   const char *value)
{
	struct ip_groups *g = calloc(1, sizeof(*g));

	if (!g) {
		ip_error("out of memory");
		return NULL;
	}
	g->by = by;
	g->session = trace->session;
	g->places = ip_symbolizer_create(trace->dir, trace->session);
	if (g->places && by == IP_GROUP_BY_VALUE)
		g->values = ip_value_groups_create(trace->session, trace->dir, value);
	if (!g->places || (by == IP_GROUP_BY_VALUE && !g->values)) {
		ip_groups_destroy(g);
		return NULL;
	}
	return g;
}

void ip_groups_destroy(struct ip_groups *g)
{
	if (!g)
		return;
	for (size_t i = 0; i < g->ncallers; i++)
		free(g->callers[i]);
	free(g->callers);
	ip_symbolizer_destroy(g->places);
	ip_value_groups_destroy(g->values);
	free(g->groups);
	free(g->index);
	free(g);
}

static size_t slot_of(const struct ip_groups *g, uint64_t a, uint64_t b)
{
	uint64_t h = (a ^ (b << 17 | b >> 47)) * 0x9e3779b97f4a7c15ull;
	size_t at = (h ^ b * 0xc2b2ae3d27d4eb4full) >> 20 & (g->size - 1);

	while (g->index[at].value && (g->index[at].a != a || g->index[at].b != b))
		at = (at + 1) & (g->size - 1);
	return at;
}

static int grow_index(struct ip_groups *g)
{
	struct ip_group_slot *old = g->index;
	size_t size = g->size;

	g->size = size ? 2 * size : 1024;
	g->index = calloc(g->size, sizeof(*g->index));
	if (!g->index) {
		g->index = old;
		g->size = size;
		return ip_error("out of memory");
	}
	for (size_t i = 0; i < size; i++)
		if (old[i].value)
			g->index[slot_of(g, old[i].a, old[i].b)] = old[i];
	free(old);
	return 0;
}

static uint32_t find(const struct ip_groups *g, uint64_t a, uint64_t b)
{
	return g->size ? g->index[slot_of(g, a, b)].value - 1 : IP_NO_GROUP;
}

static uint32_t note(struct ip_groups *g, uint64_t a, uint64_t b, uint32_t value)
{
	if (value == IP_NO_GROUP || (2 * (g->used + 1) > g->size && grow_index(g) < 0))
		return IP_NO_GROUP;
	g->used++;
	g->index[slot_of(g, a, b)] = (struct ip_group_slot){a, b, value + 1};
	return value;
}

static uint32_t add(struct ip_groups *g, const struct ip_group *group)
{
	if (g->n >= INT32_MAX || ip_array_grow(&g->groups, g->n, sizeof(*g->groups)) < 0)
		return IP_NO_GROUP;
	g->groups[g->n] = *group;
	return g->n++;
}

/* Returns the number of a caller, by its module and linker name; IP_NO_GROUP with an error. */
static uint32_t number_of(struct ip_groups *g, const char *module, const char *name)
{
	uint64_t h = 0xcbf29ce484222325ull;
	uint32_t number;
	char *text;

	if (asprintf(&text, "%s\t%s", module, name) < 0) {
		ip_error("out of memory");
		return IP_NO_GROUP;
	}
	for (const char *p = text; *p; p++)
		h = (h ^ (unsigned char)*p) * 0x100000001b3ull;
	/* where two callers have the same hash, the second takes the next free value */
	while ((number = find(g, KEY_NAME, h)) != IP_NO_GROUP && strcmp(g->callers[number], text))
		h++;
	if (number == IP_NO_GROUP &&
	    ip_array_grow(&g->callers, g->ncallers, sizeof(*g->callers)) == 0) {
		g->callers[g->ncallers] = text;
		return note(g, KEY_NAME, h, g->ncallers++);
	}
	free(text);
	return number;
}

/* Returns the group of calls of the function by the caller. Many call sites may share it. */
static uint32_t by_caller(struct ip_groups *g, const struct ip_group *wanted, const char *module,
			  const char *name)
{
	uint32_t caller = number_of(g, module, name);
	uint64_t key = g->within + KEY_CALLER + ((uint64_t)wanted->from << 32) + wanted->function;
	uint32_t group;

	if (caller == IP_NO_GROUP)
		return IP_NO_GROUP;
	group = find(g, key, caller);
	return group != IP_NO_GROUP ? group : note(g, key, caller, add(g, wanted));
}

/* One call site has other addresses in other processes: the place in its function tells it. */
static uint32_t by_place(struct ip_groups *g, const struct ip_group *wanted)
{
	const struct ip_place *site = wanted->site;
	uint32_t found;
	char *place;

	if (asprintf(&place, "%s+%#" PRIx64, site->function, site->offset) < 0) {
		ip_error("out of memory");
		return IP_NO_GROUP;
	}
	found = by_caller(g, wanted, site->module ? site->module : "", place);
	free(place);
	return found;
}

static uint32_t of_address(struct ip_groups *g, const struct ip_thread_packets *run,
			   uint32_t function, uint64_t address)
{
	struct ip_group group = {.function = function,
				 .module = g->session->functions[function].module,
				 .process = run->process,
				 .from = IP_CALLER_SITE};
	/* addresses mean something else in each member */
	uint64_t key = (g->session->members ? KEY_WITHIN(run->process) : g->within) + KEY_ADDRESS +
		       function;
	uint32_t found = find(g, key, address);

	if (found != IP_NO_GROUP)
		return found;
	group.site = ip_symbolizer_get(g->places, run->member, group.module, address);
	if (!group.site)
		return IP_NO_GROUP;
	/* a call site whose function is not known is a group of its own */
	if (g->by == IP_GROUP_BY_CALL_SITE && g->session->members && group.site->function)
		found = by_place(g, &group);
	else if (g->by == IP_GROUP_BY_CALL_SITE || !group.site->function)
		found = add(g, &group);
	else
		found = by_caller(g, &group, group.site->module ? group.site->module : "",
				  group.site->function);
	return note(g, key, address, found);
}

static uint32_t of_frame(struct ip_groups *g, const struct ip_thread_packets *run,
			 uint32_t function, bool around, uint32_t caller)
{
	uint64_t a = g->within + (around ? KEY_AROUND : KEY_NONE) + function;
	struct ip_group group = {.function = function,
				 .module = g->session->functions[function].module,
				 .process = run ? run->process : 0,
				 .from = around ? IP_CALLER_FRAME : IP_CALLER_NONE,
				 .caller = caller};
	uint32_t found = find(g, a, caller);

	return found != IP_NO_GROUP ? found : note(g, a, caller, add(g, &group));
}

static uint32_t of_thread(struct ip_groups *g, const struct ip_thread_packets *run)
{
	uint64_t key = (uint64_t)run->pid << 32 | run->tid;
	struct ip_group group = {.function = IP_NO_FUNCTION,
				 .module = IP_NO_MODULE,
				 .pid = run->pid,
				 .tid = run->tid,
				 .member = run->member,
				 .process = run->process};
	uint32_t found = find(g, KEY_THREAD, key);

	return found != IP_NO_GROUP ? found : note(g, KEY_THREAD, key, add(g, &group));
}

static uint32_t of_process(struct ip_groups *g, const struct ip_thread_packets *run)
{
	struct ip_group group = {.function = IP_NO_FUNCTION,
				 .module = IP_NO_MODULE,
				 .pid = run->pid,
				 .process = run->process};
	uint32_t found = find(g, KEY_PROCESS, run->process);

	return found != IP_NO_GROUP ? found : note(g, KEY_PROCESS, run->process, add(g, &group));
}

static uint32_t of_module(struct ip_groups *g, const struct ip_thread_packets *run,
			  uint32_t function)
{
	uint32_t module = g->session->functions[function].module;
	struct ip_group group = {
		.function = IP_NO_FUNCTION, .module = module, .process = run ? run->process : 0};
	uint64_t key = g->within + KEY_MODULE;
	uint32_t found = find(g, key, module);

	return found != IP_NO_GROUP ? found : note(g, key, module, add(g, &group));
}

/* Files of one name are one group, in whichever module they are. */
static uint32_t of_file(struct ip_groups *g, const struct ip_thread_packets *run, uint32_t function)
{
	const char *file = g->session->functions[function].file;
	struct ip_group group = {.function = IP_NO_FUNCTION,
				 .module = IP_NO_MODULE,
				 .file = file,
				 .process = run ? run->process : 0};
	uint64_t key = g->within + KEY_FILE;
	uint32_t found = find(g, key, function), name;

	if (found != IP_NO_GROUP)
		return found;
	name = number_of(g, "", file ? file : "");
	if (name == IP_NO_GROUP)
		return IP_NO_GROUP;
	found = find(g, key + (1ull << 31), name);
	if (found == IP_NO_GROUP)
		found = note(g, key + (1ull << 31), name, add(g, &group));
	return note(g, key, function, found);
}

static void set_process(struct ip_groups *g, const struct ip_thread_packets *run)
{
	g->within = g->per_process && run ? KEY_WITHIN(run->process) : 0;
}

/* Takes over a group that ip_value_groups has made, where it is new. */
static uint32_t of_value(struct ip_groups *g, uint32_t number)
{
	struct ip_group group;

	if (number == UINT32_MAX)
		return IP_NO_GROUP;
	if (number < g->n)
		return number;
	group = (struct ip_group){.function = g->values->items[number]->function,
				  .value = &g->values->items[number]->key};
	group.module = g->session->functions[group.function].module;
	return add(g, &group);
}

int ip_groups_of_result(struct ip_groups *g, const struct ip_frame *frame, const uint64_t *payload,
			uint32_t *ret)
{
	int found =
		g->values ? ip_value_groups_at_exit(g->values, frame->function, payload, ret) : 0;

	if (found == 1)
		*ret = of_value(g, *ret);
	return found == 1 && *ret == IP_NO_GROUP ? -1 : found;
}

uint32_t ip_groups_of_point(struct ip_groups *g, const struct ip_thread_packets *run,
			    uint32_t function, const uint64_t *payload)
{
	return g->values ? of_value(g, ip_value_groups_at_entry(g->values, function, payload))
			 : ip_groups_of_function(g, run, function);
}

uint32_t ip_groups_of_function(struct ip_groups *g, const struct ip_thread_packets *run,
			       uint32_t function)
{
	set_process(g, run);
	switch (g->by) {
	case IP_GROUP_BY_PROCESS:
		return of_process(g, run);
	case IP_GROUP_BY_THREAD:
		return of_thread(g, run);
	case IP_GROUP_BY_MODULE:
		return of_module(g, run, function);
	case IP_GROUP_BY_FILE:
		return of_file(g, run, function);
	default:
		return of_frame(g, run, function, false, 0);
	}
}

uint32_t ip_groups_of_call(struct ip_groups *g, const struct ip_thread_packets *run,
			   const struct ip_frame *frame, size_t depth, const uint64_t *payload)
{
	uint64_t address;

	if (g->values)
		return of_value(g, ip_value_groups_at_entry(g->values, frame->function, payload));
	if (g->by != IP_GROUP_BY_CALLER && g->by != IP_GROUP_BY_CALL_SITE)
		return ip_groups_of_function(g, run, frame->function);
	set_process(g, run);
	address = ip_recording_call_site(payload);
	if (address)
		return of_address(g, run, frame->function, address);
	return of_frame(g, run, frame->function, depth, depth ? frame[-1].function : 0);
}
