/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache of demangled names.
 */
#include "analysis/read/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/names/short_name.h"
#include "common/selection/selection.h"
#include "common/units.h"

struct ip_names {
	const struct ip_recording *session;
	char **names, **shown;
	char **shorter;		/* NULL: not made; one that is NULL is the whole name */
	const bool *until_tail; /* NULL: not known */
	bool full;
	char **appended; /* names of the numbers behind the functions */
	size_t nappended;
};

struct ip_names *ip_names_create(const struct ip_recording *session)
{
	struct ip_names *names = calloc(1, sizeof(*names));

	if (names)
		*names = (struct ip_names){
			.names = calloc(session->nfunctions, sizeof(*names->names)),
			.shown = calloc(session->nfunctions, sizeof(*names->shown))};
	if (!names || !names->names || !names->shown) {
		if (names) {
			free(names->names);
			free(names->shown);
		}
		free(names);
		ip_error("out of memory");
		return NULL;
	}
	names->session = session;
	return names;
}

void ip_names_destroy(struct ip_names *names)
{
	if (!names)
		return;
	for (size_t i = 0; i < names->session->nfunctions; i++) {
		free(names->names[i]);
		free(names->shown[i]);
		if (names->shorter)
			free(names->shorter[i]);
	}
	for (size_t i = 0; i < names->nappended; i++)
		free(names->appended[i]);
	free(names->appended);
	free(names->shorter);
	free(names->shown);
	free(names->names);
	free(names);
}

int ip_names_append(struct ip_names *names, char *text)
{
	if (ip_array_grow(&names->appended, names->nappended, sizeof(*names->appended)) < 0) {
		free(text);
		return -1;
	}
	names->appended[names->nappended++] = text;
	return 0;
}

/* Returns the name of a number behind the functions; NULL: it is a function. */
static const char *appended(const struct ip_names *names, uint32_t function)
{
	const size_t first = names->session->nfunctions;

	if (function < first)
		return NULL;
	return function - first < names->nappended ? names->appended[function - first] : "?";
}

const char *ip_names_get(struct ip_names *names, uint32_t function)
{
	const char *other = appended(names, function);
	const char *linker_name;

	if (other)
		return other;
	linker_name = names->session->functions[function].linker_name;
	if (!names->names[function])
		names->names[function] = ip_demangle(linker_name, false);
	return names->names[function] ? names->names[function] : linker_name;
}

/* Whether a name can be shorter than it is: demanglers change it. */
static bool may_be_short(const struct ip_names *names, uint32_t function)
{
	return names->session->functions[function].linker_name[0] == '_';
}

static uint64_t hash_of(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
	return hash ^ hash >> 29;
}

static const char *form_of(struct ip_names *names, uint32_t function)
{
	return names->shorter[function] ? names->shorter[function] : ip_names_get(names, function);
}

/* Marks the functions whose form another function has, too, which has another name. Returns how
 * many there are; SIZE_MAX: out of memory. */
static size_t find_same(struct ip_names *names, bool *same)
{
	const size_t n = names->session->nfunctions;
	_cleanup_free_ uint32_t *table = NULL; /* index + 1 */
	size_t slots = 16, found = 0;

	while (slots < 2 * n)
		slots *= 2;
	table = calloc(slots, sizeof(*table));
	if (!table)
		return SIZE_MAX;
	for (size_t i = 1; i < n; i++) {
		const char *form = form_of(names, i);
		size_t slot = hash_of(form) & (slots - 1);
		uint32_t first;

		while (table[slot] && strcmp(form_of(names, table[slot] - 1), form))
			slot = (slot + 1) & (slots - 1);
		if (!table[slot]) {
			table[slot] = i + 1;
			continue;
		}
		first = table[slot] - 1;
		if (same[first] || strcmp(ip_names_get(names, first), ip_names_get(names, i))) {
			found += !same[first];
			same[first] = same[i] = true;
			found++;
		}
	}
	return found;
}

/* Makes all short forms. Functions that would have one form get a longer one: less is elided, then
 * nothing, and where that does not help, the name is whole. */
static void make_short(struct ip_names *names)
{
	static const size_t limits[] = {96, 160, SIZE_MAX, 0}; /* 0: the whole name */
	const size_t n = names->session->nfunctions;
	_cleanup_free_ bool *same = calloc(n, sizeof(*same));
	size_t mangled = 0;

	names->shorter = calloc(n, sizeof(*names->shorter));
	if (!names->shorter || !same)
		return;
	for (size_t i = 1; i < n; i++)
		mangled += may_be_short(names, i);
	if (!mangled)
		return;
	for (size_t i = 1; i < n; i++)
		if (may_be_short(names, i))
			names->shorter[i] =
				ip_short_name(ip_names_get(names, i), IP_SHORT_NAME_LIMIT);
	for (size_t step = 0; step < sizeof(limits) / sizeof(*limits); step++) {
		size_t found;

		memset(same, 0, n * sizeof(*same));
		found = find_same(names, same);
		if (!found)
			break;
		for (size_t i = 1; i < n; i++) {
			/* names are not told apart where memory runs out: they are whole */
			if (!same[i] && found != SIZE_MAX)
				continue;
			free(names->shorter[i]);
			names->shorter[i] =
				!limits[step] || found == SIZE_MAX
					? NULL
					: ip_short_name(ip_names_get(names, i), limits[step]);
		}
	}
}

const char *ip_names_short(struct ip_names *names, uint32_t function)
{
	const char *other = appended(names, function);

	if (other)
		return other;
	if (!names->shorter)
		make_short(names);
	return names->shorter ? form_of(names, function) : ip_names_get(names, function);
}

const char *ip_names_text(struct ip_names *names, uint32_t function)
{
	return names->full ? ip_names_get(names, function) : ip_names_short(names, function);
}

void ip_names_use_full(struct ip_names *names)
{
	names->full = true;
}

const struct ip_recording_drop *ip_names_drop(const struct ip_recording *session, uint32_t function)
{
	for (size_t i = 0; i < session->ndrops; i++)
		if (session->drops[i].function == function)
			return &session->drops[i];
	return NULL;
}

void ip_names_mark_tails(struct ip_names *names, const bool *until_tail)
{
	names->until_tail = until_tail;
}

const char *ip_names_shown(struct ip_names *names, uint32_t function)
{
	const struct ip_recording_drop *drop = ip_names_drop(names->session, function);
	const char *name = ip_names_text(names, function);
	const bool is_function = function < names->session->nfunctions;
	bool tail = is_function && names->until_tail && names->until_tail[function];
	char at[16] = "";

	if (!drop && !tail)
		return name;
	if (drop)
		ip_format_ns(ip_recording_since_start(names->session, drop->tsc), at);
	if (!names->shown[function] &&
	    asprintf(&names->shown[function], "%s%s%s%s%s", name, drop ? " [until dropped at " : "",
		     at, drop ? "]" : "", tail ? " [until its tail call]" : "") < 0)
		names->shown[function] = NULL;
	return names->shown[function] ? names->shown[function] : name;
}
