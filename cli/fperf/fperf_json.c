/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the results of fperf as JSON.
 */
#include <math.h>
#include <stdint.h>

#include "cli/elide.h"
#include "cli/fperf/fperf.h"
#include "cli/tail_mark.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "common/names/short_name.h"

void fperf_print_json(FILE *out, struct ip_fperf *f, const struct ip_fperf_row *rows, size_t n,
		      const char *end, pid_t pid)
{
	const struct ip_fperf_options *o = ip_fperf_get_options(f);
	struct ip_fperf_summary sum;
	struct ip_json j;

	ip_fperf_summary(f, &sum);
	ip_json_init(&j, out);
	ip_json_object(&j, NULL);
	if (pid)
		ip_json_int(&j, "pid", pid);
	ip_json_array(&j, "events");
	for (unsigned e = 0; e < o->nevents; e++)
		ip_json_string(&j, NULL, o->events[e]->name);
	ip_json_end_array(&j);
	ip_json_double(&j, "budget", o->budget < 0 ? NAN : o->budget);
	ip_json_bool(&j, "exclusive", o->exclusive);
	ip_json_string(&j, "end", end);
	ip_json_double(&j, "overhead", sum.overhead);
	ip_json_double(&j, "stops_share", sum.stops_share);
	ip_json_double(&j, "run_s", sum.run_s);
	ip_json_double(&j, "own_s", sum.own_s);
	ip_json_bool(&j, "confined", sum.confined);
	ip_json_double(&j, "duration_s", sum.length_s);
	ip_json_double(&j, "ns_per_tick", sum.ns_per_tick);
	ip_json_uint(&j, "samples", sum.samples);
	ip_json_uint(&j, "changes", sum.changes);
	ip_json_uint(&j, "changes_without_stop", sum.changes_without_stop);
	ip_json_double(&j, "longest_stop_us", sum.longest_stop_ns / 1e3);
	ip_json_double(&j, "longest_gap_us", sum.longest_gap_ns / 1e3);
	ip_json_uint(&j, "changes_failed", sum.changes_failed);
	ip_json_string(&j, "change_failure", sum.change_failure);
	ip_json_uint(&j, "selected", sum.functions);
	ip_json_uint(&j, "called", sum.called);
	ip_json_uint(&j, "sampled", sum.sampled);
	ip_json_uint(&j, "left_out", sum.left_out);
	ip_json_uint(&j, "missing", sum.missing);
	ip_json_uint(&j, "scaled", sum.scaled);
	ip_json_uint(&j, "reopened", sum.gone);
	ip_json_array(&j, "functions");
	for (size_t i = 0; i < n; i++) {
		ip_json_object(&j, NULL);
		_cleanup_free_ char *form = ip_short_name(rows[i].function, SIZE_MAX);

		ip_json_string(&j, "function", rows[i].function);
		cli_json_short(&j, rows[i].function, form);
		ip_json_string(&j, "module", rows[i].module);
		ip_json_uint(&j, "samples", rows[i].samples);
		ip_json_uint(&j, "cut", rows[i].cut);
		cli_tail_json(&j, rows[i].until_tail, rows[i].samples);
		ip_json_bool(&j, "known", rows[i].known);
		ip_json_double(&j, "calls", rows[i].calls);
		ip_json_double(&j, "calls_ci95", rows[i].calls_ci < 0 ? NAN : rows[i].calls_ci);
		ip_json_uint(&j, "counted", rows[i].counted);
		ip_json_double(&j, "live", rows[i].live);
		ip_json_object(&j, "counters");
		for (unsigned e = 0; rows[i].samples && e < o->nevents; e++) {
			ip_json_object(&j, o->events[e]->name);
			ip_json_double(&j, "per_call", rows[i].mean[e]);
			ip_json_double(&j, "ci95", rows[i].ci[e] < 0 ? NAN : rows[i].ci[e]);
			if (o->events[e]->ncounters) {
				ip_json_uint(&j, "missing", rows[i].missing[e]);
				ip_json_uint(&j, "scaled", rows[i].scaled[e]);
			}
			ip_json_end_object(&j);
		}
		ip_json_end_object(&j);
		fperf_derived_json(&j, f, &rows[i]);
		ip_json_end_object(&j);
	}
	ip_json_end_array(&j);
	ip_json_end_object(&j);
}
