/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands that read traces share.
 */
#include "cli/trace_args.h"

#include <getopt.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/read/kernel_calls.h"
#include "analysis/read/names.h"
#include "cli/args/operands.h"
#include "cli/cli.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"
#include "common/selection/selection.h"
#include "common/trace/trace_format.h"
#include "common/units.h"

/* Of several processes whose recording was cut off, so many are named. */
#define CUT_OFF_SHOWN 4u

int cli_reader_dir(const char *command, int argc, char **argv, const char **ret)
{
	if (argc - optind > 1)
		return cli_usage(command,
				 cli_may_be_functions(argv[optind + 1])
					 ? "one trace directory at most, not '%s' as well: "
					   "functions are chosen by -f"
					 : "one trace directory at most, not '%s' as well",
				 argv[optind + 1]);
	*ret = optind < argc ? argv[optind] : CLI_DEFAULT_DIR;
	return -1;
}

int cli_reader_open(const char *dir, const char *process, struct ip_trace_reader **ret)
{
	return cli_reader_open_told(dir, process, NULL, ret);
}

int cli_reader_open_told(const char *dir, const char *process, struct ip_trace_progress *progress,
			 struct ip_trace_reader **ret)
{
	if (cli_trace_operand(dir) < 0 || ip_trace_reader_open_told(dir, progress, ret) < 0)
		return -1;
	if (ip_trace_reader_choose(*ret, process) == 0)
		return 0;
	ip_trace_reader_close(ip_steal_ptr(*ret));
	return -1;
}

int cli_reader_add_kernel(struct ip_trace_reader *trace)
{
	const struct ip_kernel_calls *calls;
	char lost[32], unknown[32];

	if (ip_kernel_calls_load(trace->dir, trace->session) < 0)
		return -1;
	calls = trace->session->kernel_calls;
	for (const char *const *line = ip_kernel_calls_damage(calls); *line; line++)
		ip_print(stderr, "iprobe: %s\n", *line);
	if (ip_kernel_calls_lost(calls))
		ip_print(stderr,
			 "iprobe: %s: of the kernel's events %s are LOST: calls of its functions "
			 "are missing, or have no known end\n",
			 trace->dir, ip_format_count(ip_kernel_calls_lost(calls), lost));
	if (ip_kernel_calls_unknown(calls))
		ip_print(stderr,
			 "iprobe: %s: of %s call%s of the kernel's functions no end is known\n",
			 trace->dir, ip_format_count(ip_kernel_calls_unknown(calls), unknown),
			 ip_plural(ip_kernel_calls_unknown(calls)));
	return 0;
}

int cli_reader_open_functions(const char *dir, const char *process, struct ip_trace_reader **ret)
{
	if (cli_reader_open(dir, process, ret) < 0)
		return -1;
	if (cli_reader_add_kernel(*ret) == 0)
		return 0;
	ip_trace_reader_close(ip_steal_ptr(*ret));
	return -1;
}

void cli_reader_use_jobs(struct ip_trace_reader *trace, size_t jobs)
{
	cpu_set_t cpus;

	if (!jobs && sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
		jobs = CPU_COUNT(&cpus);
	trace->jobs = jobs < UINT_MAX ? jobs : UINT_MAX;
}

/* Returns the names of the functions but the first, which is none; NULL: out of memory. */
static const char **all_names(const struct ip_recording *s)
{
	const char **names = calloc(s->nfunctions, sizeof(*names));

	for (size_t i = 1; names && i < s->nfunctions; i++)
		names[i - 1] = s->functions[i].linker_name;
	return names;
}

static void *nothing_selected(const struct ip_recording *s, const struct ip_selection *selection,
			      const char *dir)
{
	_cleanup_free_ const char **names = all_names(s);
	_cleanup_free_ char *nearest = NULL;

	if (names)
		nearest = ip_selection_nearest(selection, names, s->nfunctions - 1);
	if (nearest && *nearest)
		ip_error("%s: no function of the trace is selected; the nearest are: %s", dir,
			 nearest);
	else
		ip_error("%s: no function of the trace is selected (iprobe report shows them all)",
			 dir);
	return NULL;
}

bool *cli_match_functions(const struct ip_recording *s, struct ip_selection *selection,
			  size_t *ret_n)
{
	bool *selected = calloc(s->nfunctions, sizeof(*selected));

	*ret_n = 0;
	if (!selected)
		ip_error("out of memory");
	for (size_t i = 0; selected && i < s->nfunctions; i++) {
		const struct ip_recording_function *f = &s->functions[i];
		const char *path = f->module == IP_NO_MODULE ? NULL : s->modules[f->module].path;

		selected[i] = ip_selection_match(selection, f->linker_name, f->file, path);
		*ret_n += selected[i];
	}
	return selected;
}

bool *cli_reader_select(const struct ip_trace_reader *trace, const char *text)
{
	const struct ip_recording *s = trace->session;
	_cleanup_free_ char *unused = NULL;
	struct ip_selection *selection;
	bool *selected;
	size_t n;

	if (ip_selection_parse(text, &selection) < 0)
		return NULL;
	selected = cli_match_functions(s, selection, &n);
	if (!selected) {
		ip_selection_destroy(selection);
		return NULL;
	}
	if (!n) {
		free(selected);
		nothing_selected(s, selection, trace->dir);
		ip_selection_destroy(selection);
		return NULL;
	}
	unused = ip_selection_unused(selection);
	if (unused) {
		_cleanup_free_ const char **names = all_names(s);
		_cleanup_free_ char *nearest =
			names ? ip_selection_unused_nearest(selection, names, s->nfunctions - 1)
			      : NULL;

		cli_warn_unused(trace->dir, nearest ? nearest : unused);
	}
	ip_selection_destroy(selection);
	return selected;
}

/* Prints how far coarse time stamps may be off. */
static void warn_of_time(const struct ip_trace_reader *trace)
{
	const struct ip_recording *s = trace->session;
	char late[16], latest[16];

	if (!s->coarse)
		return;
	if (s->latest && s->tsc_hz)
		ip_print(stderr,
			 "iprobe: %s: time is coarse: an event happened up to %s after its stamp "
			 "(%s at the most); the order is exact\n",
			 trace->dir, ip_format_ns(s->late * 1e9 / s->tsc_hz, late),
			 ip_format_ns(s->latest * 1e9 / s->tsc_hz, latest));
	else
		ip_print(stderr,
			 "iprobe: %s: time is coarse: %s/%s tells how much; the order is exact\n",
			 trace->dir, trace->dir, IP_TRACE_STAMPS);
}

bool cli_reader_is_cut_off(const struct ip_trace_reader *trace)
{
	for (size_t i = 0; i < trace->nmembers; i++)
		if (!trace->members[i]->session->ended)
			return true;
	return !trace->members && !trace->session->ended;
}

/* Prints which recordings have not ended. */
static void warn_of_end(const struct ip_trace_reader *trace)
{
	size_t n = trace->members ? trace->nmembers : 1, more = 0;

	for (size_t i = 0; i < n; i++) {
		const struct ip_trace_reader *one = trace->members ? trace->members[i] : trace;

		if (one->session->ended)
			continue;
		if (more++ < CUT_OFF_SHOWN)
			ip_print(stderr,
				 "iprobe: %s: the recording was cut off: it is still going on, or "
				 "iprobe was killed; what had been written is shown, and not what "
				 "lies in the rings\n",
				 one->dir);
	}
	if (more > CUT_OFF_SHOWN)
		ip_print(stderr, "iprobe: %s: so were those of %zu more processes\n", trace->dir,
			 more - CUT_OFF_SHOWN);
}

void cli_reader_warn(const struct ip_trace_reader *trace)
{
	char count[32];

	warn_of_time(trace);

	for (size_t i = 0; i < trace->ndamages; i++) {
		ip_print(stderr, "iprobe: ");
		ip_print(stderr, "%s", trace->damages[i]);
		ip_print(stderr, "\n");
	}
	warn_of_end(trace);
	if (trace->lost)
		ip_print(stderr,
			 "iprobe: %s: %s EVENTS WERE LOST: figures are too low, and some calls are "
			 "missing from them\n",
			 trace->dir, ip_format_count(trace->lost, count));
	if (trace->session->invalid)
		ip_print(stderr,
			 "iprobe: %s: %s WORDS WERE NO RECORDS: the process scribbled over its "
			 "rings; figures are too low, and some calls are missing from them\n",
			 trace->dir, ip_format_count(trace->session->invalid, count));
	for (size_t i = 0; i < trace->session->nno_events; i++) {
		ip_print(stderr, "iprobe: no events: ");
		ip_print(stderr, "%s\n", trace->session->no_events[i].text);
	}
	if (trace->missing)
		ip_print(stderr,
			 "iprobe: %s: %s packet%s missing: their events are not in the figures\n",
			 trace->dir, ip_format_count(trace->missing, count),
			 trace->missing == 1 ? " is" : "s are");
}

void cli_reader_json_no_events(struct ip_json *j, const struct ip_recording *s)
{
	if (!s->nno_events)
		return;
	ip_json_array(j, "no_events");
	for (size_t i = 0; i < s->nno_events; i++) {
		ip_json_object(j, NULL);
		ip_json_string(j, "why", s->no_events[i].code);
		ip_json_string(j, "text", s->no_events[i].text);
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
}

void cli_reader_warn_counted(const struct ip_trace_reader *trace)
{
	size_t counted = 0, measured = 0;

	for (size_t i = 0; i < trace->session->nnumbers; i++) {
		counted += trace->session->numbers[i].payload == IP_RECORDING_COUNT;
		measured += trace->session->numbers[i].payload == IP_RECORDING_HIST;
	}
	if (counted || measured)
		ip_print(stderr,
			 "iprobe: %s: what was %s instead of logged (--payload) has no events: "
			 "iprobe report%s it\n",
			 trace->dir,
			 !measured  ? "counted"
			 : !counted ? "measured"
				    : "counted or measured",
			 measured ? " and iprobe hist show" : " shows");
}

const char *cli_reader_duration(const struct ip_trace_reader *t, char buffer[64])
{
	const uint64_t all = ip_trace_reader_recorded(t), kept = ip_trace_reader_kept(t);
	char length[16], last[16];

	ip_format_ns(ip_recording_ns(t->session, all), length);
	ip_format_ns(ip_recording_ns(t->session, kept), last);
	snprintf(buffer, 64, kept < all ? "%s, the last %s kept" : "%s", length, last);
	return buffer;
}

void cli_reader_json_kept(struct ip_json *j, const struct ip_trace_reader *t)
{
	if (t->session->overwrites || t->session->rotates)
		ip_json_uint(j, "kept_ns", ip_recording_ns(t->session, ip_trace_reader_kept(t)));
}

int cli_reader_check_stdout(void)
{
	if (fflush(stdout) != 0 || ferror(stdout))
		return ip_error_errno("cannot write to stdout");
	return 0;
}
