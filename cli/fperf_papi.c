/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading libiprobe-papi.so into fperf, when somebody asks for what it knows.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/fperf.h"

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
		if (access(path, R_OK) != 0)
			continue;
		library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		names = library ? dlsym(library, PAPI_NAMES_SYMBOL) : NULL;
		if (!library) { /* of PAPI itself, mostly */
			snprintf(why_not, sizeof(why_not), "%.300s", dlerror());
		} else if (!names || names->abi != PAPI_NAMES_ABI) {
			snprintf(why_not, sizeof(why_not), FILE_NAME " is of another version of fperf");
			names = NULL;
		}
	}
	return names;
}

const char *fperf_papi_why_not(void)
{
	return why_not;
}

const struct ip_fperf_event *fperf_papi_event(const struct papi_event *p)
{
	struct ip_fperf_event *e = calloc(1, sizeof(*e));
	char *name = strdup(p->name), *what = strdup(p->what);

	if (!e || !name || !what) {
		free(e);
		free(name);
		free(what);
		return NULL;
	}
	*e = (struct ip_fperf_event){
		.name = name, .unit = "", .what = what, .source = IP_FPERF_PMU, .ncounters = p->ncounters};
	memcpy(e->counters, p->counters, sizeof(e->counters));
	return e;
}

const struct ip_fperf_event *fperf_papi_find(const char *name, const char **ret_why)
{
	static char why[256];
	const struct papi_names *papi = fperf_papi();
	struct papi_event event;
	int found = papi ? papi->find(name, &event, why, sizeof(why)) : 0;

	if (!papi && strstr(name, "::") && strncasecmp(name, "perf::", 6) != 0)
		*ret_why = why_not;
	if (found < 0)
		*ret_why = why;
	return found > 0 ? fperf_papi_event(&event) : NULL;
}
