/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What run and attach print at their end.
 */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/cli.h"
#include "cli/record/end_time.h"
#include "cli/record/live_line.h"
#include "cli/record/stops.h"
#include "cli/record/stream_log.h"
#include "common/json.h"
#include "common/print.h"
#include "common/trace/trace_format.h"
#include "common/units.h"

static const char *dir_of(const struct cli_record_options *options,
			  const struct ip_session_summary *s)
{
	return s->dir ? s->dir : options->shown ? options->shown : options->session.dir;
}

/* Writes the conditions of --until, if none was met. */
static void json_unmet(struct ip_json *j, const struct ip_session_summary *s)
{
	if (!s->nunmet)
		return;
	ip_json_array(j, "until_unmet");
	for (size_t i = 0; i < s->nunmet; i++) {
		const struct ip_session_unmet *u = &s->unmet[i];

		ip_json_object(j, NULL);
		ip_json_string(j, "condition", u->condition->text);
		ip_json_string(j, "text", u->said);
		if (*u->function) {
			bool calls = u->condition->measure == IP_CONDITION_RATE;

			ip_json_string(j, "function", u->function);
			ip_json_double(j, calls ? "highest_calls" : "highest_ns", u->highest.value);
			ip_json_uint(j, "calls", u->highest.calls);
			ip_json_uint(j, "span_ns", u->highest.span_ns);
		}
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
}

void cli_json_renewed(struct ip_json *j, const struct ip_session_summary *s)
{
	ip_json_uint(j, "renewed_calls", s->renewed);
	if (s->renewed && s->renewed_latest_ns != UINT64_MAX)
		ip_json_double(j, "renewed_max_us", s->renewed_latest_ns / 1e3);
}

void cli_json_kernel(struct ip_json *j, const struct ip_kernel_stats *stats)
{
	ip_json_object(j, "kernel");
	ip_json_uint(j, "events", stats->events);
	ip_json_uint(j, "lost", stats->lost);
	ip_json_uint(j, "bytes", stats->bytes);
	ip_json_uint(j, "dropped", stats->dropped);
	if (stats->functions) {
		ip_json_uint(j, "functions", stats->functions);
		ip_json_uint(j, "missed_returns", stats->missed);
	}
	if (stats->source)
		ip_json_string(j, "source", stats->source);
	if (*stats->missing)
		ip_json_string(j, "missing", stats->missing);
	ip_json_end_object(j);
}

void cli_record_tell_kernel(const char *whose, const struct ip_kernel_stats *stats)
{
	char events[32], lost[32], dropped[64] = "", count[32];

	if (*stats->missing) /* which was told */
		return;
	if (stats->dropped)
		snprintf(dropped, sizeof(dropped), "%s before them dropped, ",
			 ip_format_count(stats->dropped, count));
	ip_print(stderr, "iprobe: %s%s event%s of the kernel%s%s, %s%s lost%s\n", whose,
		 ip_format_count(stats->events, events), ip_plural(stats->events),
		 stats->source ? " by " : "", stats->source ? stats->source : "", dropped,
		 stats->lost ? ip_format_count(stats->lost, lost) : "none",
		 stats->lost ? " (give more --kernel-buffer)" : "");
	if (stats->functions)
		ip_print(stderr, "iprobe: %s%s function%s of the kernel%s%s%s\n", whose,
			 ip_format_count(stats->functions, events), ip_plural(stats->functions),
			 stats->missed ? "; of the machine's calls of them " : "",
			 stats->missed ? ip_format_count(stats->missed, lost) : "",
			 stats->missed ? " had no room for their return: no end of these is known"
				       : "");
}

void cli_json_name_list(struct ip_json *j, const char *key, const struct ip_name_list *names)
{
	ip_json_array(j, key);
	for (uint32_t i = 0; i < names->shown; i++)
		ip_json_string(j, NULL, names->names[i]);
	ip_json_end_array(j);
}

void cli_json_silent(struct ip_json *j, const struct ip_session_summary *s)
{
	ip_json_uint(j, "silent_functions", s->silent_functions.n);
	ip_json_uint(j, "silent_sites", s->silent_sites);
	cli_json_name_list(j, "silent_names", &s->silent_functions);
}

const char *cli_silent_sites(const struct ip_session_summary *s, char buffer[CLI_SILENT_TEXT])
{
	char sites[32], functions[32], names[IP_NAME_LIST_TEXT];

	*buffer = '\0';
	if (s->silent_functions.n)
		snprintf(buffer, CLI_SILENT_TEXT, ", %s of them in %s more that these jump to (%s)",
			 ip_format_count(s->silent_sites, sites),
			 ip_format_count(s->silent_functions.n, functions),
			 ip_name_list_text(&s->silent_functions, names));
	return buffer;
}

/* How the command of `iprobe run` ended, and how iprobe did. */
static void json_command(struct ip_json *j, const struct ip_command_end *command, const char *error)
{
	const bool exited = command->ended && WIFEXITED(command->status),
		   killed = command->ended && WIFSIGNALED(command->status);

	ip_json_string(j, "error", error);
	ip_json_bool(j, "started", command->started);
	/* 0 is a code: a command without one has null */
	if (exited)
		ip_json_int(j, "program_exit", WEXITSTATUS(command->status));
	else
		ip_json_string(j, "program_exit", NULL);
	if (killed)
		ip_json_int(j, "program_signal", WTERMSIG(command->status));
	else
		ip_json_string(j, "program_signal", NULL);
}

/* Which functions have no values, by reason. */
static void json_value_gaps(struct ip_json *j, const struct ip_value_gaps *gaps)
{
	static const char *const why[IP_GAPS] = {[IP_GAP_NO_DEBUG_INFO] = "no debug information",
						 [IP_GAP_OTHER_PLACEMENT] = "placement",
						 [IP_GAP_SCOPE] = "scope",
						 [IP_GAP_TOO_MANY] = "too many"};

	ip_json_array(j, "value_gaps");
	for (unsigned i = 0; i < IP_GAPS; i++) {
		if (!gaps->without[i].n)
			continue;
		ip_json_object(j, NULL);
		ip_json_string(j, "why", why[i]);
		ip_json_uint(j, "functions", gaps->without[i].n);
		cli_json_name_list(j, "names", &gaps->without[i]); /* the first ones */
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
}

static void print_json(const struct cli_record_options *options, const struct ip_session_summary *s,
		       const struct ip_command_end *command, const char *error)
{
	struct ip_json j;

	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	if (command && !s->recorded) {
		json_command(&j, command, error);
		ip_json_end_object(&j);
		return;
	}
	ip_json_int(&j, "pid", s->pid);
	ip_json_uint(&j, "sites", s->sites);
	ip_json_uint(&j, "functions", s->functions);
	cli_json_silent(&j, s);
	ip_json_uint(&j, "threads", s->threads);
	ip_json_uint(&j, "pages", s->pages);
	ip_json_uint(&j, "foreign", s->foreign);
	ip_json_uint(&j, "disturbed", s->disturbed);
	if (options->session.no_stop)
		ip_json_uint(&j, "unswitched", s->unswitched);
	cli_json_stops(&j, &s->stops);
	ip_json_array(&j, "stops");
	for (size_t i = 0; i < s->stops.n; i++) {
		const struct ip_stop_record *stop = &s->stops.items[i];

		ip_json_object(&j, NULL);
		ip_json_double(&j, "stop_us", stop->ns / 1e3);
		ip_json_double(&j, "running_us", stop->running_ns / 1e3);
		ip_json_uint(&j, "threads", stop->threads);
		ip_json_uint(&j, "pages", stop->pages);
		ip_json_uint(&j, "sites", stop->sites);
		if (stop->failed)
			ip_json_bool(&j, "failed", true);
		if (stop->held)
			ip_json_bool(&j, "held", true);
		ip_json_end_object(&j);
	}
	ip_json_end_array(&j);
	if (s->stopped_why)
		ip_json_string(&j, "stopped_why", s->stopped_why);
	ip_json_uint(&j, "looks", s->stops.looks.n);
	ip_json_double(&j, "looks_us", s->stops.looks.ns / 1e3);
	ip_json_double(&j, "looks_max_us", s->stops.looks.longest_ns / 1e3);
	cli_json_renewed(&j, s);
	ip_json_uint(&j, "events", s->events);
	ip_json_uint(&j, "lost", s->lost);
	if (s->unfinished)
		ip_json_uint(&j, "unfinished", s->unfinished);
	ip_json_uint(&j, "invalid", s->invalid);
	ip_json_uint(&j, "filtered", s->filtered);
	if (s->counting)
		ip_json_uint(&j, "counted", s->calls);
	if (options->session.drop_hot)
		ip_json_uint(&j, "dropped", s->dropped);
	if (options->session.overwrite || s->overwrites)
		ip_json_uint(&j, "overwritten", s->overwritten);
	if (s->rotates) {
		ip_json_uint(&j, "rotated", s->rotated.events);
		ip_json_uint(&j, "rotated_pieces", s->rotated.pieces);
		ip_json_uint(&j, "rotated_packets", s->rotated.packets);
		ip_json_uint(&j, "rotated_bytes", s->rotated.bytes);
		ip_json_uint(&j, "kept_from_ns", s->kept_from_ns);
	}
	ip_json_uint(&j, "bytes", s->written);
	if (options->session.compress)
		ip_json_uint(&j, "uncompressed_packets", s->plain);
	ip_json_string(&j, "dir", dir_of(options, s));
	ip_json_uint(&j, "processes", s->processes);
	ip_json_uint(&j, "children_restored", s->children_restored);
	if (options->session.kernel.groups && !options->session.service)
		cli_json_kernel(&j, &s->kernel);
	cli_stream_json(&j, &options->session, s);
	if (options->session.follow_exec) {
		ip_json_uint(&j, "execs", s->execs);
		ip_json_double(&j, "exec_gap_us", s->exec_gap_ns / 1e3);
	}
	if (options->joined_ns && *options->joined_ns)
		ip_json_uint(&j, "joined_ns", *options->joined_ns);
	if (command)
		json_command(&j, command, error);
	ip_json_uint(&j, "duration_ns", s->length_ns);
	cli_end_time_json(&j, s);
	if (options->session.resume)
		ip_json_uint(&j, "resumed_ns", s->resumed_ns);
	ip_json_string(&j, "end", ip_session_end_text(s));
	ip_json_bool(&j, "ended_early", ip_end_reason_is_early(s->end));
	if (ip_end_reason_is_room(s->end) && s->limit) {
		ip_json_uint(&j, "limit_bytes", s->limit);
		ip_json_string(&j, "limit_by", s->limit_by);
	}
	if (s->until) {
		ip_json_uint(&j, "until", s->until);
		ip_json_string(&j, "until_met", s->until_said);
		if (*s->until_function)
			ip_json_string(&j, "until_function", s->until_function);
		ip_json_uint(&j, "until_met_after_ns", s->until_ns);
	}
	json_unmet(&j, s);
	if (s->no_events.n)
		ip_json_array(&j, "no_events");
	for (size_t i = 0; i < s->no_events.n; i++) {
		ip_json_object(&j, NULL);
		ip_json_string(&j, "why", s->no_events.items[i].code);
		ip_json_string(&j, "text", s->no_events.items[i].text);
		ip_json_end_object(&j);
	}
	if (s->no_events.n)
		ip_json_end_array(&j);
	if (ip_values_any(&options->session.values)) {
		ip_json_uint(&j, "without_values", ip_value_gaps_count(&s->value_gaps));
		json_value_gaps(&j, &s->value_gaps);
		ip_json_bool(&j, "strings_read", !s->value_gaps.no_reading);
	}
	ip_json_end_object(&j);
}

static void print_value_gap(const struct ip_name_list *gap, const char *what, const char *why,
			    size_t processes)
{
	char of[48] = "", names[IP_NAME_LIST_TEXT];

	if (!gap->n)
		return;
	if (processes != 1)
		snprintf(of, sizeof(of), " (in %zu process%s together)", processes,
			 processes == 1 ? "" : "es");
	ip_print(stderr, "iprobe: %zu %s%s recorded without values%s: %s: %s\n", gap->n, what,
		 ip_plural(gap->n), of, why, ip_name_list_text(gap, names));
}

static void print_value_gaps(const struct ip_value_gaps *gaps, size_t processes)
{
	char why[sizeof(gaps->lacks) + 160] =
		"no debug information tells of them (build with -g, or install it)";

	if (*gaps->lacks)
		snprintf(
			why, sizeof(why),
			"no debug information tells of them: it lacks the file that it shares with "
			"others, %s (install it, or name the folder that has both by --list)",
			gaps->lacks);
	print_value_gap(&gaps->without[IP_GAP_NO_DEBUG_INFO], "function", why, processes);
	print_value_gap(
		&gaps->without[IP_GAP_OTHER_PLACEMENT], "function",
		"only those of placement fentry have them (build with IPROBE_PLACEMENT=fentry)",
		processes);
	print_value_gap(&gaps->without[IP_GAP_SCOPE], "scope",
			"a scope has none (put IPROBE_POINT(NAME, VALUES) into it, or select the "
			"function around it)",
			processes);
	print_value_gap(&gaps->without[IP_GAP_TOO_MANY], "function",
			"there are too many (select fewer)", processes);
	if (gaps->unfit)
		ip_print(stderr,
			 "iprobe: what --args and --retval name does not fit %zu of the functions "
			 "that have the name: they are recorded without it: %s%s\n",
			 gaps->unfit, gaps->unfit_why, gaps->unfit > 1 ? ", ..." : "");
	if (gaps->unfit_conditions)
		ip_print(stderr,
			 "iprobe: what --when names does not fit %zu of the functions that have "
			 "the name: all their calls are recorded: %s%s\n",
			 gaps->unfit_conditions, gaps->unfit_condition_why,
			 gaps->unfit_conditions > 1 ? ", ..." : "");
	if (gaps->no_reading && processes == 1)
		ip_print(stderr, "iprobe: strings were not read: the process is under seccomp, or "
				 "may be soon (libseccomp), and might be ended for that\n");
	else if (gaps->no_reading)
		ip_print(stderr, "iprobe: strings of some processes were not read: they are under "
				 "seccomp, or may be soon (libseccomp), and might be ended for "
				 "that\n");
}

/* Whether the requests name something of another kind than of all functions: then plain --args or
 * --retval may have been meant for those functions only. */
static bool names_others(const struct ip_value_options *values)
{
	return values->requests && ((values->retval && !values->args &&
				     ip_value_requests_any(values->requests, IP_REQUEST_ARGS)) ||
				    (values->args && !values->retval &&
				     ip_value_requests_any(values->requests, IP_REQUEST_RETVAL)));
}

void cli_record_tell_all(const struct cli_record_options *options, size_t functions)
{
	const struct ip_value_options *values = &options->session.values;
	const char *name = "FUNC";
	char count[32];

	if (!names_others(values) || functions <= values->requests->n)
		return;
	for (size_t i = 0; i < values->requests->n; i++)
		if (values->requests->items[i].kind != IP_REQUEST_WHEN &&
		    values->requests->items[i].function) {
			name = values->requests->items[i].function;
			break;
		}
	if (values->retval)
		ip_print(stderr,
			 "iprobe: --retval reads the results of all %s functions (--retval "
			 "'%s(retval)' reads those of %s)\n",
			 ip_format_count(functions, count), name, name);
	else
		ip_print(stderr,
			 "iprobe: --args reads the arguments of all %s functions (-f '%s' selects "
			 "%s)\n",
			 ip_format_count(functions, count), name, name);
}

void cli_record_warnings(const struct ip_session_summary *s, size_t processes)
{
	char count[32], length[16], most[32] = "", whose[48] = "the process";

	if (processes != 1)
		snprintf(whose, sizeof(whose), "%zu process%s", processes,
			 processes == 1 ? "" : "es");
	if (s->left_out)
		ip_print(stderr,
			 "iprobe: %zu site%s a page in a way that cannot be patched safely: "
			 "left out\n",
			 s->left_out, s->left_out == 1 ? " crosses" : "s cross");
	if (s->renewed && s->renewed_latest_ns != UINT64_MAX)
		snprintf(most, sizeof(most), " by at most %s",
			 ip_format_ns(s->renewed_latest_ns, length));
	if (s->renewed)
		ip_print(stderr,
			 "iprobe: %zu system call%s of %s may time out later%s (last: %s): the "
			 "limit began anew; what it waits for was not delayed\n",
			 s->renewed, ip_plural(s->renewed), whose, most, s->renewed_last);
	if (s->disturbed)
		ip_print(stderr,
			 "iprobe: calls of %zu function%s are missing for a while, since somebody "
			 "else changed live sites: iprobe report says when\n",
			 s->disturbed, s->disturbed == 1 ? "" : "s");
	if (s->unswitched)
		ip_print(stderr,
			 "iprobe: %zu site%s idle, since --no-stop cannot switch them (%s)\n",
			 s->unswitched, s->unswitched == 1 ? " stays" : "s stay",
			 s->unswitched_why);
	print_value_gaps(&s->value_gaps, processes);
	if (s->plain)
		ip_print(stderr, "iprobe: %s packet%s left uncompressed: compressing fell behind\n",
			 ip_format_count(s->plain, count), ip_plural(s->plain));
}

int cli_command_code(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void cli_record_losses(const struct ip_session_summary *s, const char *dir)
{
	const uint64_t full = s->lost > s->unfinished ? s->lost - s->unfinished : 0;
	char lost[32], size[16], waited[16], length[16];

	if (s->end == IP_END_SIZE_LIMIT)
		ip_print(stderr,
			 "iprobe: ended early: recording stopped at the size limit of %s (%s; %s); "
			 "%s events recorded until then were dropped\n",
			 ip_format_size(s->limit, size), s->limit_by,
			 !strcmp(s->limit_by, IP_LIMIT_ASKED) ? "more lasts longer"
							      : "--max-size sets another",
			 ip_format_count(s->lost, lost));
	else if (s->end == IP_END_NO_SPACE)
		ip_print(stderr,
			 "iprobe: ended early: recording stopped: there is no space left for %s; "
			 "%s events recorded until then were dropped\n",
			 dir, ip_format_count(s->lost, lost));
	else if (full && cli_end_time_starved(s))
		ip_print(stderr,
			 "iprobe: %s event%s lost (the rings were full while iprobe waited for a "
			 "CPU, for %s of %s%s: select fewer functions)\n",
			 ip_format_count(full, lost), ip_plural(full),
			 ip_format_ns(s->end_time.queued_recording, waited),
			 ip_format_ns(s->end_time.recording, length),
			 s->end_time.prioritized ? "" : "; busy CPUs, no CAP_SYS_NICE");
	else if (full)
		ip_print(stderr,
			 "iprobe: %s event%s lost (the rings were full: select fewer functions, or "
			 "give more --memory)\n",
			 ip_format_count(full, lost), ip_plural(full));
	if (s->unfinished)
		ip_print(
			stderr,
			"iprobe: %s event%s lost (interrupted by signal handlers that did not come "
			"back in time: see MEMORY AND LOSSES in iprobe-concepts(7))\n",
			ip_format_count(s->unfinished, lost), ip_plural(s->unfinished));
}

void cli_record_summary(const struct cli_record_options *options,
			const struct ip_session_summary *s)
{
	cli_record_summary_of(options, s, NULL, NULL);
}

void cli_record_summary_of(const struct cli_record_options *options,
			   const struct ip_session_summary *s, const struct ip_command_end *command,
			   const char *error)
{
	char counted[32], events[32], lost[32], filtered[32],
		overwritten[64] = "", count[32], sites[32], functions[32], length[16], joined[16],
		whose[32] = "", resumed[48] = "", silent[CLI_SILENT_TEXT];

	cli_live_line_clear();
	if (!s->recorded && command && options->json)
		print_json(options, s, command, error);
	if (!s->recorded)
		return;
	if (!options->session.service) /* all of them together: attach_service.c */
		cli_record_warnings(s, 1);
	if (s->invalid)
		ip_print(stderr,
			 "iprobe: pid %d scribbled over its rings: %lu word%s no record%s\n",
			 s->pid, s->invalid, s->invalid == 1 ? " was" : "s were",
			 ip_plural(s->invalid));
	if (!options->session.service)
		cli_record_losses(s, dir_of(options, s));
	if (options->json) {
		print_json(options, s, command, error);
		return;
	}
	if (options->quiet)
		return;
	if (options->session.service || options->member)
		snprintf(whose, sizeof(whose), "pid %d: ", s->pid);
	cli_end_time_print(s, whose);
	if (s->until)
		ip_print(stderr, "iprobe: %s--until was met %s after the start: %s\n", whose,
			 ip_format_ns(s->until_ns, length), s->until_said);
	for (size_t i = 0; i < s->nunmet; i++)
		ip_print(stderr, "iprobe: %s--until was not met: %s\n", whose, s->unmet[i].said);
	if (s->children_restored && !options->session.service)
		ip_print(stderr, "iprobe: %zu forked process%s got the NOPs back%s\n",
			 s->children_restored, s->children_restored == 1 ? "" : "es",
			 options->session.follow_fork ? "" : " (--follow-fork records them)");
	if (s->filtered && !options->session.service)
		ip_print(stderr, "iprobe: %s event%s filtered\n",
			 ip_format_count(s->filtered, filtered), ip_plural(s->filtered));
	if (options->session.payloads.object && !s->change.done)
		ip_print(stderr,
			 "iprobe: what the payload has counted is in %s/" IP_TRACE_PAYLOAD "\n",
			 dir_of(options, s));
	if (s->dropped)
		ip_print(stderr, "iprobe: %s%zu function%s dropped (--drop-hot): %s\n", whose,
			 s->dropped, ip_plural(s->dropped),
			 s->dropped_names ? s->dropped_names : "");
	if (!options->session.service)
		cli_record_tell_all(options, s->functions);
	if (s->counting && !options->session.service &&
	    (s->calls || !options->session.payloads.object))
		ip_print(stderr, "iprobe: %s call%s counted\n", ip_format_count(s->calls, counted),
			 ip_plural(s->calls));
	if (options->session.kernel.groups && !options->session.service)
		cli_record_tell_kernel(whose, &s->kernel);
	cli_stream_print(&options->session, s);
	if (options->session.overwrite || s->overwrites)
		snprintf(overwritten, sizeof(overwritten), ", %s before them overwritten",
			 ip_format_count(s->overwritten, count));
	if (s->resumed_ns)
		snprintf(resumed, sizeof(resumed), " (%s since it was resumed)",
			 ip_format_ns(s->resumed_ns, length));
	if (s->rotates)
		snprintf(overwritten, sizeof(overwritten), ", %s before them rotated away",
			 ip_format_count(s->rotated.events, count));
	ip_print(stderr, "iprobe: %s", whose);
	if (options->joined_ns && *options->joined_ns)
		ip_print(stderr,
			 "joined %s after its start: ", ip_format_ns(*options->joined_ns, joined));
	ip_print(stderr,
		 "%s%s event%s of %s function%s (%s site%s%s, %zu thread%s) in %s%s%s, %s "
		 "lost; ",
		 ip_end_reason_is_early(s->end) ? "ended early: " : "",
		 ip_format_count(s->events, events), ip_plural(s->events),
		 ip_format_count(s->functions, functions), ip_plural(s->functions),
		 ip_format_count(s->sites, sites), ip_plural(s->sites), cli_silent_sites(s, silent),
		 s->threads, ip_plural(s->threads), ip_format_ns(s->length_ns, length), resumed,
		 overwritten, s->lost ? ip_format_count(s->lost, lost) : "none");
	cli_print_stopped(stderr, &s->stops, s->stopped_why);
	cli_print_looks(stderr, s->stops.looks.n, s->stops.looks.ns);
	ip_print(stderr, "; trace in %s\n", dir_of(options, s));
	if (s->end == IP_END_EXECED)
		ip_print(stderr,
			 "iprobe: pid %d executed another program: it was not recorded any longer "
			 "(--follow-exec goes on)\n",
			 s->pid);
	else if (s->end == IP_END_TARGET_ENDED && options->attach)
		ip_print(stderr, "iprobe: pid %d has ended\n", s->pid);
	/* of a service some processes sleep; report says so of each */
	for (size_t i = 0; i < s->no_events.n && !options->session.service; i++) {
		ip_print(stderr, "iprobe: %sno events: ", whose);
		ip_print(stderr, "%s\n", s->no_events.items[i].text);
	}
}
