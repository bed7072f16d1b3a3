/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads libiprobe-papi.so into fperf, when the user asks for what it knows.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/fperf/fperf.h"
#include "common/error.h"
#include "common/file.h"
#include "fperf/formula.h"

#define FILE_NAME "libiprobe-papi.so"

static char why_not[384] = "this fperf was built without PAPI, or " FILE_NAME " is not installed";

const struct papi_names *fperf_papi(void)
{
	static const char *const places[] = {FILE_NAME, IP_RT_FROM_BIN "/" FILE_NAME};
	static const struct papi_names *names;
	static bool tried;
	char exe[PATH_MAX], path[PATH_MAX + 128];
	ssize_t n = tried ? 0 : readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	tried = true;
	if (n <= 0)
		return names;
	exe[n] = '\0';
	*strrchr(exe, '/') = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(*places) && !names; i++) {
		void *library;

		snprintf(path, sizeof(path), "%s/%s", exe, places[i]);
		if (ip_access(path, R_OK) != 0)
			continue;
		library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		names = library ? dlsym(library, PAPI_NAMES_SYMBOL) : NULL;
		if (!library) { /* mostly because PAPI itself is missing */
			snprintf(why_not, sizeof(why_not), "%.300s", dlerror());
		} else if (!names || names->abi != PAPI_NAMES_ABI) {
			snprintf(why_not, sizeof(why_not),
				 FILE_NAME " is of another version of fperf");
			names = NULL;
		}
	}
	return names;
}

const char *fperf_papi_why_not(void)
{
	return why_not;
}

static struct ip_fperf_event *create(const char *name, const char *what)
{
	struct ip_fperf_event *e = calloc(1, sizeof(*e));
	char *own_name = strdup(name), *own_what = strdup(what);

	if (!e || !own_name || !own_what) {
		ip_error("out of memory");
		free(e);
		free(own_name);
		free(own_what);
		return NULL;
	}
	*e = (struct ip_fperf_event){
		.name = own_name, .unit = "", .what = own_what, .source = IP_FPERF_PMU};
	return e;
}

static void set_counter(struct ip_fperf_event *e, const struct ip_pmu_counter *counter,
			int32_t weight)
{
	e->counters[e->ncounters++] =
		(struct ip_fperf_counter){.counter = *counter, .weight = weight};
}

/* An event that is no sum follows by a formula from its parts, which are events of their own. */
static const struct ip_fperf_event *
set_formula(struct ip_fperf_event *e, const struct papi_event *p, const struct ip_formula *formula)
{
	struct ip_formula *copy = malloc(sizeof(*copy));

	if (!copy) {
		ip_error("out of memory");
		return NULL;
	}
	*copy = *formula;
	e->formula = copy;
	e->source = IP_FPERF_NONE;
	for (unsigned i = 0; i < p->ncounters; i++) {
		struct ip_fperf_event *part = create(p->parts[i], "a part of it");

		if (!part)
			return NULL;
		set_counter(part, &p->counters[i], 1);
		e->parts[e->nparts++] = part;
	}
	return e;
}

const struct ip_fperf_event *fperf_papi_event(const struct papi_event *p)
{
	struct ip_fperf_event *e = create(p->name, p->what);
	int32_t weights[IP_PMU_COUNTERS] = {1};
	struct ip_formula formula;

	if (!e)
		return NULL;
	if (*p->formula) {
		if (ip_formula_parse(p->formula, p->ncounters, p->hz, &formula) < 0)
			return NULL;
		if (!ip_formula_weights(&formula, p->ncounters, weights, &e->divisor))
			return set_formula(e, p, &formula);
	}
	for (unsigned i = 0; i < p->ncounters; i++)
		set_counter(e, &p->counters[i], weights[i]);
	return e;
}

const struct ip_fperf_event *fperf_papi_find(const char *name, const char **ret_why)
{
	static char why[400];
	const struct ip_fperf_event *e;
	const struct papi_names *papi = fperf_papi();
	struct papi_event event;
	int found = papi ? papi->find(name, &event, why, sizeof(why)) : 0;

	if (!papi && strstr(name, "::") && strncasecmp(name, "perf::", 6) != 0)
		*ret_why = why_not;
	if (found < 0)
		*ret_why = why;
	if (found <= 0)
		return NULL;
	e = fperf_papi_event(&event);
	if (!e) {
		snprintf(why, sizeof(why), "%s", ip_error_message());
		*ret_why = why;
	}
	return e;
}
