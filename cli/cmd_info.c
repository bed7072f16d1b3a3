/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe info: tells where a trace comes from, and how far it can be trusted.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/read/members.h"
#include "analysis/read/names.h"
#include "cli/args/suggest.h"
#include "cli/cli.h"
#include "cli/info_recorded.h"
#include "cli/report/report_processes.h"
#include "cli/silent_note.h"
#include "cli/trace_args.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"
#include "common/units.h"

#define STOPS_SHOWN	16 /* of each kind */
#define LIBRARIES_SHOWN 64

static const char help[] = "usage: iprobe info [--json] [DIR]\n\n"
			   "Tells where a trace (iprobe.data) comes from: host, command, modules, "
			   "clock, stops of the process, events, losses.\n";

static uint64_t duration_ns(const struct ip_trace_reader *t)
{
	return ip_recording_ns(t->session, ip_trace_reader_recorded(t));
}

static uint32_t functions_of(const struct ip_recording *s, uint32_t module)
{
	uint32_t n = 0;

	for (size_t i = 1; i < s->nfunctions; i++)
		n += s->functions[i].module == module;
	return n;
}

/* Formats a time in UTC, to the nanosecond. buffer has 64 bytes. */
static char *format_time(uint64_t ns, char *buffer)
{
	time_t seconds = ns / 1000000000;
	struct tm tm;

	if (!gmtime_r(&seconds, &tm) || !strftime(buffer, 40, "%Y-%m-%dT%H:%M:%S", &tm))
		return strcpy(buffer, "?");
	snprintf(buffer + strlen(buffer), 16, ".%09uZ", (unsigned)(ns % 1000000000));
	return buffer;
}

static void json_modules(struct ip_json *j, const struct ip_recording *s)
{
	ip_json_array(j, "modules");
	for (size_t i = 0; i < s->nmodules; i++) {
		const struct ip_recording_module *m = &s->modules[i];

		if (!m->present)
			continue;
		ip_json_object(j, NULL);
		ip_json_string(j, "path", m->path);
		ip_json_string(j, "build_id", m->build_id);
		ip_json_uint(j, "load_bias", m->load_bias);
		ip_json_string(j, "placement", m->placement);
		ip_json_uint(j, "functions", functions_of(s, i));
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
}

/* The process whose recording something belongs to, where there are several. */
static void json_member(struct ip_json *j, const struct ip_recording *s, uint32_t member)
{
	if (s->members)
		ip_json_uint(j, "pid", s->members->items[member].pid);
}

static void json_stops(struct ip_json *j, const struct ip_recording *s)
{
	ip_json_array(j, "stops");
	for (size_t i = 0; i < s->nstops; i++) {
		const struct ip_recording_stop *stop = &s->stops[i];

		ip_json_object(j, NULL);
		ip_json_string(j, "kind", stop->kind);
		ip_json_uint(j, "ts", ip_recording_since_start(s, stop->tsc));
		ip_json_double(j, "stop_us", stop->duration_ns / 1e3);
		ip_json_uint(j, "threads", stop->threads);
		ip_json_uint(j, "pages", stop->pages);
		ip_json_uint(j, "sites", stop->sites);
		json_member(j, s, stop->member);
		if (stop->failed)
			ip_json_bool(j, "failed", true);
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
}

static void json_libraries(struct ip_json *j, const struct ip_recording *s)
{
	ip_json_array(j, "libraries");
	for (size_t i = 0; i < s->nlibraries; i++) {
		const struct ip_recording_library *l = &s->libraries[i];

		ip_json_object(j, NULL);
		ip_json_string(j, "event", l->unload ? "unload" : "load");
		ip_json_uint(j, "ts", ip_recording_since_start(s, l->tsc));
		ip_json_string(j, "path", l->path);
		ip_json_string(j, "build_id", l->build_id);
		ip_json_uint(j, "load_bias", l->load_bias);
		json_member(j, s, l->member);
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
}

static void print_libraries(const struct ip_trace_reader *t)
{
	const struct ip_recording *s = t->session;
	char at[16], in[16];

	for (size_t i = 0; i < s->nlibraries && i < LIBRARIES_SHOWN; i++) {
		const struct ip_recording_library *l = &s->libraries[i];

		ip_print(stdout, "%-10s%s after %s, at %#" PRIx64 ": ",
			 l->unload ? "unload" : "load", cli_in_member(t, l->member, in),
			 ip_format_ns(ip_recording_since_start(s, l->tsc), at), l->load_bias);
		ip_print(stdout, "%s", l->path);
		ip_print(stdout, "\n");
	}
	if (s->nlibraries > LIBRARIES_SHOWN)
		ip_print(stdout, "libraries  %zu more came or went (--json tells them)\n",
			 s->nlibraries - LIBRARIES_SHOWN);
}

static uint64_t gap_ns(const struct ip_recording *s, const struct ip_recording_exec *e)
{
	uint64_t from = ip_recording_since_start(s, e->gap_tsc),
		 to = ip_recording_since_start(s, e->again_tsc);

	return to > from ? to - from : 0;
}

static void json_execs(struct ip_json *j, const struct ip_recording *s)
{
	ip_json_array(j, "execs");
	for (size_t i = 0; i < s->nexecs; i++) {
		const struct ip_recording_exec *e = &s->execs[i];

		ip_json_object(j, NULL);
		ip_json_uint(j, "pid", e->pid);
		ip_json_uint(j, "ts", ip_recording_since_start(s, e->tsc));
		if (e->again_tsc)
			ip_json_double(j, "gap_us", gap_ns(s, e) / 1e3);
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
}

static void print_execs(const struct ip_recording *s)
{
	char at[16], gap[16];

	for (size_t i = 0; i < s->nexecs && i < LIBRARIES_SHOWN; i++) {
		const struct ip_recording_exec *e = &s->execs[i];

		ip_print(stdout, "exec       after %s, by pid %u",
			 ip_format_ns(ip_recording_since_start(s, e->tsc), at), e->pid);
		if (e->again_tsc)
			ip_print(stdout, ": recorded again, after at most %s in which it was not",
				 ip_format_ns(gap_ns(s, e), gap));
		ip_print(stdout, "\n");
	}
	if (s->nexecs > LIBRARIES_SHOWN)
		ip_print(stdout, "exec       %zu more times (--json tells them)\n",
			 s->nexecs - LIBRARIES_SHOWN);
}

static void json_drops(struct ip_json *j, const struct ip_trace_reader *t)
{
	const struct ip_recording *s = t->session;
	struct ip_names *names = ip_names_create(s);

	ip_json_array(j, "dropped");
	for (size_t i = 0; names && i < s->ndrops; i++) {
		const struct ip_recording_drop *d = &s->drops[i];

		ip_json_object(j, NULL);
		ip_json_string(j, "function", ip_names_get(names, d->function));
		ip_json_uint(j, "ts", ip_recording_since_start(s, d->tsc));
		ip_json_bool(j, "counted", d->counted);
		ip_json_uint(j, "calls_per_second", d->per_second);
		ip_json_uint(j, "own_ns", ip_recording_ns(s, d->own_ticks));
		ip_json_uint(j, "probes_percent", d->percent);
		json_member(j, s, d->member);
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
	ip_names_destroy(names);
}

static void print_drops(const struct ip_trace_reader *t)
{
	const struct ip_recording *s = t->session;
	struct ip_names *names = ip_names_create(s);
	char at[16], own[16], rate[32], in[16];

	for (size_t i = 0; names && i < s->ndrops; i++) {
		const struct ip_recording_drop *d = &s->drops[i];

		ip_print(stdout, "dropped    ");
		ip_print(stdout, "%s", ip_names_text(names, d->function));
		ip_print(stdout,
			 "%s after %s: %s calls a second of %s each, %" PRIu64
			 " %% of its time went to its probes; %s\n",
			 cli_in_member(t, d->member, in),
			 ip_format_ns(ip_recording_since_start(s, d->tsc), at),
			 ip_format_count(d->per_second, rate),
			 ip_format_ns(ip_recording_ns(s, d->own_ticks), own), d->percent,
			 d->counted ? "its calls were counted from then on"
				    : "its calls from then on are not known");
	}
	ip_names_destroy(names);
}

static void json_threads(struct ip_json *j, const struct ip_recording *s)
{
	ip_json_array(j, "thread_names");
	for (size_t i = 0; i < s->nthreads; i++) {
		ip_json_object(j, NULL);
		json_member(j, s, s->threads[i].member);
		ip_json_uint(j, "tid", s->threads[i].tid);
		ip_json_string(j, "name", s->threads[i].name);
		ip_json_string(j, "thread", s->threads[i].name);
		ip_json_uint(j, "from_ns", ip_recording_since_start(s, s->threads[i].tsc));
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
}

/* A name that came after another one is told with its time. */
static void print_threads(const struct ip_trace_reader *trace)
{
	const struct ip_recording *s = trace->session;
	char at[16], in[16];

	for (size_t i = 0; i < s->nthreads; i++) {
		const struct ip_recording_thread *t = &s->threads[i];

		ip_print(stdout, "%-10s %u%s ", "thread", t->tid,
			 cli_in_member(trace, t->member, in));
		ip_print(stdout, "%s", *t->name ? t->name : "(name not known)");
		if (i && t[-1].tid == t->tid && t[-1].member == t->member)
			ip_print(stdout, " (from %s on)",
				 ip_format_ns(ip_recording_since_start(s, t->tsc), at));
		ip_print(stdout, "\n");
	}
}

static void print_json(const struct ip_trace_reader *t, uint64_t events)
{
	const struct ip_recording *s = t->session;
	struct ip_json j;

	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	ip_json_string(&j, "dir", t->dir);
	ip_json_string(&j, "host", s->host);
	ip_json_string(&j, "kernel", s->kernel);
	ip_json_string(&j, "command", s->command);
	ip_json_uint(&j, "pid", s->pid);
	if (s->members)
		ip_json_string(&j, "service", s->members->service);
	ip_json_uint(&j, "start_realtime_ns", s->start_realtime);
	ip_json_uint(&j, "duration_ns", duration_ns(t));
	cli_reader_json_kept(&j, t);
	ip_json_uint(&j, "tsc_start", s->tsc_start);
	ip_json_uint(&j, "tsc_hz", s->tsc_hz);
	ip_json_uint(&j, "events", events);
	ip_json_uint(&j, "lost", t->lost);
	ip_json_uint(&j, "invalid", s->invalid);
	if (s->overwrites)
		ip_json_uint(&j, "overwritten", s->overwritten);
	if (s->rotates) {
		ip_json_uint(&j, "rotated", s->rotated);
		ip_json_uint(&j, "rotated_pieces", s->rotated_pieces);
		ip_json_uint(&j, "rotated_packets", s->rotated_packets);
		ip_json_uint(&j, "rotated_bytes", s->rotated_bytes);
		ip_json_uint(&j, "kept_from_ns", ip_recording_since_start(s, s->rotated_tsc));
	}
	if (s->filtered)
		ip_json_uint(&j, "filtered", s->filtered);
	ip_json_uint(&j, "threads", t->threads);
	if (s->ends) {
		ip_json_uint(&j, "threads_ended", t->ended);
		ip_json_uint(&j, "threads_ended_within_ns", ip_recording_ns(s, t->ended_within));
	}
	ip_json_uint(&j, "streams", t->nstreams);
	ip_json_uint(&j, "functions", s->nfunctions - 1);
	cli_silent_json(&j, t);
	cli_info_recorded_json(&j, s);
	ip_json_bool(&j, "ended", s->ended);
	ip_json_string(&j, "clock", s->monotonic ? "monotonic" : "tsc");
	ip_json_string(&j, "time", s->coarse ? "coarse" : "precise");
	if (s->coarse && s->tsc_hz) {
		ip_json_double(&j, "late_ns", s->late * 1e9 / s->tsc_hz);
		ip_json_double(&j, "latest_ns", s->latest * 1e9 / s->tsc_hz);
	}
	if (s->kernel_groups) {
		ip_json_object(&j, "kernel_events");
		ip_json_string(&j, "groups", s->kernel_groups);
		ip_json_uint(&j, "events", s->kernel_events);
		ip_json_uint(&j, "lost", s->kernel_lost);
		if (s->kernel_source)
			ip_json_string(&j, "source", s->kernel_source);
		ip_json_end_object(&j);
	}
	if (s->compressed) {
		ip_json_string(&j, "compressed", "zstd");
		ip_json_uint(&j, "uncompressed_packets", s->plain);
	}
	ip_json_string(&j, "end", s->end);
	cli_info_early_json(&j, s);
	ip_json_bool(&j, "damaged", t->ndamages || t->missing);
	json_modules(&j, s);
	json_stops(&j, s);
	ip_json_uint(&j, "more_stops", s->more_stops);
	ip_json_double(&j, "more_stops_us", s->more_stops_ns / 1e3);
	ip_json_double(&j, "more_stops_longest_us", s->more_stops_longest_ns / 1e3);
	ip_json_uint(&j, "looks", s->looks);
	ip_json_double(&j, "looks_us", s->looks_ns / 1e3);
	ip_json_double(&j, "looks_max_us", s->looks_longest_ns / 1e3);
	json_libraries(&j, s);
	json_execs(&j, s);
	json_drops(&j, t);
	cli_processes_json(&j, t);
	cli_reader_json_no_events(&j, s);
	json_threads(&j, s);
	ip_json_end_object(&j);
}

static void print_field(const char *name, const char *value)
{
	ip_print(stdout, "%-10s ", name);
	ip_print(stdout, "%s", value && *value ? value : "unknown");
	ip_print(stdout, "\n");
}

/* Whether the module is also loaded at another address. */
static bool is_elsewhere(const struct ip_recording *s, size_t module)
{
	for (size_t i = 0; i < s->nmodules; i++)
		if (i != module && s->modules[i].same_as == module)
			return true;
	return false;
}

static void print_modules(const struct ip_recording *s)
{
	char count[32];

	for (size_t i = 0; i < s->nmodules; i++) {
		const struct ip_recording_module *m = &s->modules[i];

		/* each process has loaded it elsewhere */
		if (!m->present || (s->members && m->same_as != i))
			continue;
		ip_print(stdout, "module     ");
		ip_print(stdout, "%s", m->path);
		ip_print(stdout, "\n             build-id ");
		ip_print(stdout, "%s", *m->build_id ? m->build_id : "none");
		if (s->members && is_elsewhere(s, i))
			ip_print(stdout, ", loaded at several addresses, placement ");
		else
			ip_print(stdout, ", loaded at %#" PRIx64 ", placement ", m->load_bias);
		ip_print(stdout, "%s", m->placement);
		if (m->same_as == i)
			ip_print(stdout, ", %s function%s",
				 ip_format_count(functions_of(s, i), count),
				 ip_plural(functions_of(s, i)));
		ip_print(stdout, "\n");
	}
}

/* Prints the first stops of each kind, and sums of the others. */
static void print_stops(const struct ip_trace_reader *t)
{
	const struct ip_recording *s = t->session;
	uint64_t more = s->more_stops, more_ns = s->more_stops_ns,
		 longest = s->more_stops_longest_ns;
	char at[16], length[16], in[16];

	for (size_t i = 0; i < s->nstops; i++) {
		const struct ip_recording_stop *stop = &s->stops[i];
		unsigned before = 0;

		for (size_t k = i; k-- && before < STOPS_SHOWN;)
			before += !strcmp(s->stops[k].kind, stop->kind);
		if (before == STOPS_SHOWN) {
			more++;
			more_ns += stop->duration_ns;
			longest = stop->duration_ns > longest ? stop->duration_ns : longest;
			continue;
		}
		ip_print(stdout, "stop       ");
		ip_print(stdout, "%s", stop->kind);
		ip_print(stdout,
			 "%s%s after %s, for %s: %" PRIu64 " thread%s, %" PRIu64
			 " site%s on %" PRIu64 " page%s\n",
			 stop->failed ? " failed" : "", cli_in_member(t, stop->member, in),
			 ip_format_ns(ip_recording_since_start(s, stop->tsc), at),
			 ip_format_ns(stop->duration_ns, length), stop->threads,
			 ip_plural(stop->threads), stop->sites, ip_plural(stop->sites), stop->pages,
			 ip_plural(stop->pages));
	}
	if (more)
		ip_print(stdout,
			 "stop       %" PRIu64
			 " more, together %s, the longest %s (--json tells more of them)\n",
			 more, ip_format_ns(more_ns, at), ip_format_ns(longest, length));
	if (s->looks)
		ip_print(stdout,
			 "looks      %" PRIu64
			 " at one thread for a moment, together %s, the longest %s\n",
			 s->looks, ip_format_ns(s->looks_ns, at),
			 ip_format_ns(s->looks_longest_ns, length));
}

static void print_functions(const struct ip_recording *s)
{
	char count[32], text[IP_NAME_LIST_TEXT];
	struct ip_name_list silent;

	ip_recording_silent_names(s, &silent);
	ip_print(stdout, "%-10s %s", "functions", ip_format_count(s->nfunctions - 1, count));
	if (silent.n)
		ip_print(stdout,
			 ", %s of them not shown (%s): selected ones end by jumping to these (TAIL "
			 "CALLS in iprobe-concepts(7))",
			 ip_format_count(silent.n, count), ip_name_list_text(&silent, text));
	ip_print(stdout, "\n");
}

static void print_text(const struct ip_trace_reader *t, uint64_t events)
{
	const struct ip_recording *s = t->session;
	char buffer[64], count[32], lost[32], early[1024];

	print_field("trace", t->dir);
	print_field("host", s->host);
	print_field("kernel", s->kernel);
	if (s->command || !s->members) /* else the processes have different ones */
		print_field("command", s->command);
	if (s->members)
		print_field("processes", s->members->service);
	else
		ip_print(stdout, "%-10s %" PRIu64 "\n", "pid", s->pid);
	print_field("start", format_time(s->start_realtime, buffer));
	print_field("duration", cli_reader_duration(t, buffer));
	if (!cli_info_early(s, early, sizeof(early)) &&
	    !cli_info_condition(s, early, sizeof(early)))
		snprintf(early, sizeof(early), "%s",
			 !s->ended ? "none: still going on, or cut off"
			 : s->end  ? s->end
				   : "");
	print_field("end", early);
	if (s->monotonic)
		ip_print(stdout, "%-10s CLOCK_MONOTONIC_RAW%s\n", "clock",
			 s->coarse ? ", coarse" : "");
	else
		ip_print(stdout, "%-10s TSC, %.6f MHz%s\n", "clock", s->tsc_hz / 1e6,
			 s->coarse ? ", coarse" : "");
	ip_print(stdout, "%-10s %s in %zu stream%s", "threads", ip_format_count(t->threads, count),
		 t->nstreams, ip_plural(t->nstreams));
	if (!s->ends)
		ip_print(stdout, "; when they ended is not in the trace");
	else if (t->ended)
		ip_print(stdout, "; %s ended, when is known to within %s",
			 ip_format_count(t->ended, lost),
			 ip_format_ns(ip_recording_ns(s, t->ended_within), buffer));
	ip_print(stdout, "\n");
	if (s->compressed)
		ip_print(stdout, "%-10s zstd%s%s%s\n", "compressed", s->plain ? ", but for " : "",
			 s->plain ? ip_format_count(s->plain, count) : "",
			 s->plain ? " packets" : "");
	if (s->kernel_groups)
		ip_print(stdout, "%-10s %s of the kernel%s%s, %s lost: %s\n", "events",
			 ip_format_count(s->kernel_events, count), s->kernel_source ? " by " : "",
			 s->kernel_source ? s->kernel_source : "",
			 ip_format_count(s->kernel_lost, lost), s->kernel_groups);
	ip_print(stdout, "%-10s %s, %s lost", "events", ip_format_count(events, count),
		 ip_format_count(t->lost, lost));
	if (s->overwrites)
		ip_print(stdout, ", %s before them overwritten",
			 ip_format_count(s->overwritten, count));
	if (s->rotates)
		ip_print(stdout, ", %s before them rotated away",
			 ip_format_count(s->rotated, count));
	if (s->invalid)
		ip_print(stdout, ", %s invalid", ip_format_count(s->invalid, count));
	if (s->filtered)
		ip_print(stdout, ", %s filtered", ip_format_count(s->filtered, count));
	if (t->silent)
		ip_print(stdout, ", %s not shown", ip_format_count(t->silent, count));
	if (s->ended && s->events != events)
		ip_print(stdout, " (%s were written)", ip_format_count(s->events, count));
	ip_print(stdout, "\n");
	if (s->rotated_packets)
		ip_print(stdout,
			 "%-10s %s packet%s, %s; everything is there that happened later than %s "
			 "after the start\n",
			 "rotated", ip_format_count(s->rotated_packets, count),
			 ip_plural(s->rotated_packets), ip_format_size(s->rotated_bytes, lost),
			 ip_format_ns(ip_recording_since_start(s, s->rotated_tsc), buffer));
	print_functions(s);
	cli_info_recorded(s);
	print_modules(s);
	print_libraries(t);
	print_execs(s);
	print_drops(t);
	cli_processes_print(t);
	print_stops(t);
	print_threads(t);
}

static int show(const char *dir, bool json)
{
	struct ip_trace_reader *trace;
	uint64_t events;
	int ret;

	if (cli_reader_open(dir, NULL, &trace) < 0)
		return cli_fail();
	ret = ip_trace_reader_count(trace, &events);
	if (ret == 0) {
		cli_reader_warn(trace);
		if (json)
			print_json(trace, events);
		else
			print_text(trace, events);
		ret = cli_reader_check_stdout();
	}
	ip_trace_reader_close(trace);
	return ret < 0 ? cli_fail() : 0;
}

int cmd_info(int argc, char **argv)
{
	static const char letters[] = "h";
	static const struct option long_options[] = {
		{"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {0}};
	const char *dir;
	bool json = false;
	int option, code;

	opterr = 0;
	while ((option = getopt_long(argc, argv, letters, long_options, NULL)) >= 0) {
		if (option == 'j') {
			json = true;
		} else if (option == 'h') {
			ip_print_lines(stdout, help);
			return 0;
		} else {
			return cli_bad_option(argv[0], argc, argv, letters, long_options);
		}
	}
	code = cli_reader_dir(argv[0], argc, argv, &dir);
	return code >= 0 ? code : show(dir, json);
}
