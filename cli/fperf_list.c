/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fperf list-events.
 */
#include <string.h>

#include "cli/cli.h"
#include "cli/fperf.h"
#include "common/json.h"

static const char *why(const struct ip_fperf_event *e)
{
	if (e->source != IP_FPERF_NONE)
		return NULL;
	return strncmp(e->name, "PAPI_", 5) ? "it would take a descriptor in the process"
					    : ip_fperf_why_no_pmu();
}

static void print_json(const struct ip_fperf_event *events, size_t n)
{
	struct ip_json j;

	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	ip_json_array(&j, "events");
	for (size_t i = 0; i < n; i++) {
		ip_json_object(&j, NULL);
		ip_json_string(&j, "name", events[i].name);
		ip_json_string(&j, "what", events[i].what);
		ip_json_string(&j, "unit", events[i].unit);
		ip_json_bool(&j, "counts", events[i].source != IP_FPERF_NONE);
		ip_json_string(&j, "why_not", why(&events[i]));
		ip_json_end_object(&j);
	}
	ip_json_end_array(&j);
	ip_json_end_object(&j);
}

int fperf_list_events(int argc, char **argv)
{
	size_t n;
	const struct ip_fperf_event *events = ip_fperf_events(&n);

	if (argc == 2 && !strcmp(argv[1], "--json")) {
		print_json(events, n);
		return 0;
	}
	if (argc > 1)
		return cli_usage("fperf", "list-events takes --json and nothing else");
	for (size_t i = 0; i < n; i++)
		printf("%-28s %-4s %s\n", events[i].name, events[i].source != IP_FPERF_NONE ? "yes" : "no",
		       events[i].what);
	printf("\nNo PMU events: %s.\n", ip_fperf_why_no_pmu());
	return 0;
}
