/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Showing stops. See stops.h.
 */
#include "cli/record/stops.h"

#include "common/print.h"
#include "common/units.h"

#define SHOWN 16

void cli_print_stops(FILE *out, const struct ip_stop_log *stops)
{
	const size_t n = stops->n, all = n + stops->more, shown = all > SHOWN ? SHOWN : n;
	uint64_t most = stops->more_ns;
	char length[16];

	for (size_t i = 0; i < shown; i++)
		ip_print(out, "%s %s%s", i ? "," : "", ip_format_ns(stops->items[i].ns, length),
			 stops->items[i].failed ? " in vain" : "");
	for (size_t i = shown; i < n; i++)
		most = stops->items[i].ns > most ? stops->items[i].ns : most;
	if (all > shown)
		ip_print(out, " and %zu time%s more, at most %s", all - shown,
			 ip_plural(all - shown), ip_format_ns(most, length));
}

void cli_print_stopped(FILE *out, const struct ip_stop_log *stops, const char *why)
{
	struct ip_stop_log own, children;

	ip_stop_log_split(stops, &own, &children);
	ip_print(out, "%s",
		 ip_stop_log_only_held(stops) ? "never stopped; one thread held for"
					      : "stopped for");
	cli_print_stops(out, &own);
	if (why)
		ip_print(out, " (since %s)", why);
	if (children.n) {
		ip_print(out, ", forked children for");
		cli_print_stops(out, &children);
	}
}

void cli_print_looks(FILE *out, size_t n, uint64_t ns)
{
	char length[16];

	if (n)
		ip_print(out, " and %zu look%s, together %s", n, ip_plural(n),
			 ip_format_ns(ns, length));
}

void cli_json_stops(struct ip_json *j, const struct ip_stop_log *stops)
{
	ip_json_array(j, "stop_us");
	for (size_t i = 0; i < stops->n; i++)
		ip_json_double(j, NULL, stops->items[i].ns / 1e3);
	ip_json_end_array(j);
	ip_json_uint(j, "more_stops", stops->more);
	ip_json_double(j, "more_stops_max_us", stops->more_ns / 1e3);
}
