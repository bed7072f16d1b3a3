/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache of demangled names.
 */
#include "analysis/read/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/read/kernel_calls.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/names/short_names.h"
#include "common/selection/selection.h"
#include "common/units.h"

struct ip_names {
	const struct ip_recording *session;
	char **names, **shown;
	struct ip_short_names *shorter; /* of each function; NULL: not made */
	const bool *until_tail;		/* NULL: not known */
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
			free(names->shorter[i].form);
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
	if (!names->names[function] && names->session->functions[function].kernel &&
	    asprintf(&names->names[function], "%s %s", linker_name, IP_KERNEL_MODULE) < 0)
		names->names[function] = NULL;
	else if (!names->names[function])
		names->names[function] = ip_demangle(linker_name, false);
	return names->names[function] ? names->names[function] : linker_name;
}

/* Makes all short forms. Number 0 is no function. */
static void make_short(struct ip_names *names)
{
	const size_t n = names->session->nfunctions;

	names->shorter = calloc(n + 1, sizeof(*names->shorter));
	if (!names->shorter)
		return;
	for (size_t i = 0; i < n; i++)
		names->shorter[i] = (struct ip_short_names){
			.name = ip_names_get(names, i),
			/* demanglers change the names that begin so */
			.mangled = !names->session->functions[i].kernel &&
				   names->session->functions[i].linker_name[0] == '_'};
	if (n > 1)
		ip_short_names_make(&names->shorter[1], n - 1);
}

const char *ip_names_short(struct ip_names *names, uint32_t function)
{
	const char *other = appended(names, function);

	if (other)
		return other;
	if (!names->shorter)
		make_short(names);
	return names->shorter ? ip_short_names_form(&names->shorter[function])
			      : ip_names_get(names, function);
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
