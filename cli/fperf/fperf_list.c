/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fperf list-events.
 */
#include <string.h>
#include <strings.h>

#include "cli/cli.h"
#include "cli/fperf/fperf.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"

struct listing {
	struct ip_json *json; /* NULL: text */
	unsigned counted, all;
};

static const char *by(const struct ip_fperf_event *e)
{
	if (e->source == IP_FPERF_TSC)
		return "rdtsc";
	if (e->source == IP_FPERF_TASK_CLOCK)
		return "clock_gettime";
	return e->source < IP_FPERF_PMU ? "getrusage" : "perf_event_open";
}

static void tell_counter(struct ip_json *j, const struct ip_fperf_counter *c, uint32_t divisor)
{
	ip_json_object(j, NULL);
	ip_json_uint(j, "type", c->counter.type);
	ip_json_uint(j, "config", c->counter.config);
	ip_json_double(j, "weight", c->weight / (divisor ? (double)divisor : 1));
	ip_json_end_object(j);
}

/* Prints the counters. Where a formula is no sum, they are the counters of its parts. */
static void tell_counters(struct ip_json *j, const struct ip_fperf_event *e)
{
	ip_json_array(j, "counters");
	for (unsigned i = 0; i < e->ncounters; i++)
		tell_counter(j, &e->counters[i], e->divisor);
	for (unsigned i = 0; i < e->nparts; i++)
		tell_counter(j, &e->parts[i]->counters[0], 0);
	ip_json_end_array(j);
}

static void tell(struct listing *l, const struct ip_fperf_event *e, const char *how,
		 const char *formula, const char *why_not)
{
	l->all++;
	l->counted += !why_not;
	if (!l->json) {
		ip_print(stdout, "%-32s %-4s %s\n", e->name, why_not ? "no" : "yes", e->what);
		return;
	}
	ip_json_object(l->json, NULL);
	ip_json_string(l->json, "name", e->name);
	ip_json_string(l->json, "what", e->what);
	ip_json_string(l->json, "unit", e->unit);
	ip_json_string(l->json, "by", how);
	ip_json_bool(l->json, "counts", !why_not);
	ip_json_string(l->json, "why_not", why_not);
	ip_json_string(l->json, "formula", formula);
	tell_counters(l->json, e);
	ip_json_end_object(l->json);
}

static bool is_preset(const char *name)
{
	return !strncasecmp(name, "PAPI_", 5);
}

static void tell_papi(void *context, const struct papi_event *p, const char *why_not)
{
	const struct ip_fperf_event bare = {
		.name = p->name, .what = p->what, .unit = "", .source = IP_FPERF_PMU};
	const struct ip_fperf_event *e = p->ncounters ? fperf_papi_event(p) : NULL;

	if (!why_not)
		why_not = e ? ip_fperf_why_not(e) : ip_error_message();
	tell(context, e ? e : &bare, "PAPI and perf_event_open", *p->formula ? p->formula : NULL,
	     why_not);
}

/* Prints fperf's own events; also those of PAPI, where PAPI does not print them itself. */
static void tell_own(struct listing *l, bool presets)
{
	size_t n;
	const struct ip_fperf_event *events = ip_fperf_events(&n);

	for (size_t i = 0; i < n; i++)
		if (presets || !is_preset(events[i].name))
			tell(l, &events[i], by(&events[i]), NULL, ip_fperf_why_not(&events[i]));
}

int fperf_list_events(int argc, char **argv)
{
	const struct papi_names *papi = fperf_papi();
	const char *why;
	struct listing l = {0};
	struct ip_json json;
	bool natives = false;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json"))
			l.json = &json;
		else if (!strcmp(argv[i], "--native"))
			natives = true;
		else
			return cli_usage("fperf",
					 "list-events takes --native and --json, and nothing else");
	}
	if (l.json) {
		ip_json_init(&json, stdout);
		ip_json_object(&json, NULL);
		ip_json_string(&json, "papi", papi ? papi->version : NULL);
		ip_json_array(&json, "events");
	}
	if (!natives)
		tell_own(&l, !papi);
	if (papi)
		papi->each(natives, tell_papi, &l);
	if (l.json) {
		ip_json_end_array(&json);
		ip_json_end_object(&json);
		return 0;
	}
	if (papi)
		ip_print(stdout,
			 "\n%u of %u count here. PAPI %s tells presets; --native shows the native "
			 "events of this machine.\n",
			 l.counted, l.all, papi->version);
	else
		ip_print(stdout, "\n%u of %u count here. No PAPI: %s.\n", l.counted, l.all,
			 fperf_papi_why_not());
	why = ip_fperf_why_not(ip_fperf_event_named("perf::INSTRUCTIONS"));
	if (why)
		ip_print(stdout, "No PMU events: %s.\n", why);
	return 0;
}
