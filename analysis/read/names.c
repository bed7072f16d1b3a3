/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache of demangled names.
 */
#include "analysis/read/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/selection/selection.h"
#include "common/units.h"

struct ip_names {
	const struct ip_recording *session;
	char **names, **shown;
	const bool *until_tail; /* NULL: not known */
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
	}
	free(names->shown);
	free(names->names);
	free(names);
}

const char *ip_names_get(struct ip_names *names, uint32_t function)
{
	const char *linker_name = names->session->functions[function].linker_name;

	if (!names->names[function])
		names->names[function] = ip_demangle(linker_name, false);
	return names->names[function] ? names->names[function] : linker_name;
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
	const char *name = ip_names_get(names, function);
	bool tail = names->until_tail && names->until_tail[function];
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
