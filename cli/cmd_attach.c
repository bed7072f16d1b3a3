/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe attach.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/worker_client.h"
#include "analysis/read/session.h"
#include "cli/args/processes.h"
#include "cli/cli.h"
#include "cli/record/attach.h"
#include "cli/record/shared_notice.h"
#include "cli/record/stops.h"
#include "cli/record/via_daemon.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"
#include "common/trace/kernel_format.h"
#include "common/units.h"
#include "kernel_trace/kernel_check.h"
#include "kernel_trace/users/worker_recorder.h"

static const char help[] =
	"usage: iprobe attach [OPTIONS] PID...\n"
	"       iprobe attach [OPTIONS] --name GLOB | --unit UNIT | --cgroup PATH\n\n"
	"Makes the chosen probes of a running process live, records until the time is over, "
	"Ctrl-C, or the\n"
	"process ends, and puts every byte back. The first attach puts iprobe's runtime into the "
	"process,\n"
	"unless it was started with it.\n\n"
	"Several processes go into one trace, each by a session of its own, and those that come "
	"later join.\n\n"
	"While iprobe records the process already, another attach changes that session and ends: "
	"-f SEL adds,\n"
	"-f '!GLOB' takes away.\n\n" CLI_PROCESS_HELP
	"  -f, --functions SEL   globs, comma-separated; !GLOB takes away; file:GLOB, lib:GLOB; "
	"@NAME from\n"
	"                        probes.d; -f @FILE reads them (default: all probes)\n"
	"  -o, --output DIR      trace directory (default iprobe.data; one that exists is kept as "
	"DIR.old)\n"
	"      --duration T      200ms, 10s, 2m (default: until Ctrl-C)\n"
	"      --memory SIZE     ring memory (default 64M)\n"
	"      --time WORD       precise (default), or coarse: a third of the cost, true to 10 to "
	"80 us (busy machine: ms)\n"
	"      --compress        compress the trace while it is recorded (iprobe trim makes a copy "
	"that other readers open)\n"
	"      --clock WORD      tsc, monotonic (clock_gettime, which costs more), or auto "
	"(default): the one where the other cannot be\n"
	"                        trusted\n"
	"      --max-size SIZE   stop recording when the trace is this large (default 1G or a "
	"tenth of the free space)\n"
	"      --rotate N        do not stop there: keep the newest, in N pieces (2 to 64) of "
	"which the oldest goes\n"
	"      --stream PLACE    a live log of the events as they happen, for iprobe last: FILE, "
	"HOST:PORT, device:PATH\n"
	"      --stream-interval T   write to it at least so often (default 10ms)\n"
	"      --max-stop T      no stop longer than T: several stops if need be; give up, nothing "
	"changed, where the\n"
	"                        threads cannot be gathered in it (default 50ms); failed ones are "
	"told, too\n"
	"      --no-stop         switch pages under the running threads; one blocked thread is "
	"held instead of all\n"
	"      --stop            stop the threads also where pages would be switched unasked, "
	"since "
	"nothing is lost by it\n"
	"      --resume          go on with the recording whose iprobe was killed (its directory "
	"is "
	"found, or named by -o)\n"
	"      --dry-run         say what would be patched, in how many stops of what length; "
	"change nothing\n"
	"      --args            record the arguments of functions (placement fentry, with debug "
	"information) and of\n"
	"                        points\n"
	"      --args 'FUNC(EXPR, ...)'   these values of FUNC instead: "
	"r->uri.data:string(r->len), "
	"NAME=EXPR; repeatable\n"
	"      --retval          record what functions return; --retval 'FUNC(retval->status)'\n"
	"      --when EXPR       leave out calls for which EXPR is not true: len > 4096 && state "
	"== "
	"BUSY, or FUNC: EXPR; repeatable\n"
	"      --string-limit N  bytes of a string that are recorded (default 64, at most 1024)\n"
	"      --depth N         leave out calls with N or more recorded functions below them on "
	"the stack (at most 512)\n"
	"      --min-duration T  leave out calls shorter than T; callers of what is kept are kept\n"
	"      --sample N[:SEL]  one call in N of each function (of SEL's); repeatable\n"
	"      --start-on F[:N]  record nothing before function F is called (for the Nth time)\n"
	"      --stop-on F[:N]   end when function F is called (for the Nth time)\n"
	"      --within SEL      record what these functions call, and nothing else\n"
	"      --tid LIST        these threads only; --thread GLOB,... by name\n"
	"      --callsite        record where each call comes from\n"
	"      --overwrite       keep the newest events only, in the rings, until the end or "
	"iprobe snapshot\n"
	"      --follow-fork     record forked children too, in the same trace, until the last has "
	"ended\n"
	"      --follow-exec     go on in what the process executes, in the same trace; says how "
	"long it was not recorded\n"
	"      --plt             calls into libraries, too: entries of functions that the PLT "
	"names\n"
	"                        (malloc@plt; -f malloc)\n"
	"      --payload P[:SEL] what the probes do, of SEL or of all others: log (default), count "
	"(calls only), hist\n"
	"                        (latency histograms), user:FILE (a shared object of yours: "
	"<iprobe/payload.h>); repeatable; where each\n"
	"                        has a SEL and there is no -f, these are live\n"
	"      --until COND      end when a function's latency passes a limit: p99>10ms/1s:SEL, "
	"its p99 in a second (p50,\n"
	"                        p90, p95, p99, p999, mean, max; calls>N/T:SEL); SEL has the "
	"payload "
	"hist (with --overwrite\n"
	"                        it is recorded as well); repeatable\n"
	"      --linger T        with --until: go on for T when it is met\n"
	"      --save-counts T   write what --payload counts and measures into the trace every T "
	"(default 1s)\n"
	"      --drop-hot[=PCT]  take the probes of a function away when they take PCT per cent "
	"(default 50) of its own time and 1 %\n"
	"                        of its thread's: its calls are counted from then on, where that "
	"is cheap enough\n"
	"      --kernel[=LIST]   events of the kernel as well: sched, syscalls, irq, faults, "
	"block, all "
	"(default: all but\n"
	"                        block); then iprobe wait says what functions waited for; with "
	"optional in it, a kernel\n"
	"                        that cannot tell them is told, and recording goes on without\n"
	"      --kernel-functions SEL   calls of functions of the kernel as well, by names or "
	"patterns ('vfs_*'), at most 200\n"
	"      --kernel-buffer SIZE   room for them in the kernel, for each CPU (default 4M)\n"
	"      --kernel-source WORD   where they come from: tracefs, perf, auto (default: the one "
	"that serves)\n"
	"      --list FILE       probe list or debug file of a stripped module, or a folder of "
	"such; repeatable\n"
	"      --leave           where iprobed does it: end when it is live, and let it go on by "
	"itself\n"
	"      --yield           end when another iprobe attach comes, which begins then (watches "
	"of iprobed's rules)\n"
	"      --json            the summary as one line of JSON on stdout\n"
	"  -q, --quiet           no live line, no summary\n"
	"  -h, --help\n";

/* What the attach does to the process besides: "and 2 holds of one thread at the first attach". */
static void print_besides(const struct ip_session_preview *p)
{
	ip_print(stdout, "pid %d: and ", p->summary.pid);
	if (p->holds)
		ip_print(stdout, "%zu hold%s of one thread at the first attach%s", p->holds,
			 ip_plural(p->holds), p->looks ? ", " : "; ");
	if (p->looks)
		ip_print(stdout, "%zu look%s at one thread; ", p->looks, ip_plural(p->looks));
	ip_print(stdout, "%zu stop%s at the end\n", p->end_stops, ip_plural(p->end_stops));
}

static void print_silent(const struct ip_session_summary *s)
{
	char names[IP_NAME_LIST_TEXT];

	if (s->silent_functions.n)
		ip_print(stdout,
			 "pid %d: %zu of the sites %s in %zu more function%s that these jump to, "
			 "and are not shown (TAIL CALLS in iprobe-concepts(7)): %s\n",
			 s->pid, s->silent_sites, s->silent_sites == 1 ? "is" : "are",
			 s->silent_functions.n, ip_plural(s->silent_functions.n),
			 ip_name_list_text(&s->silent_functions, names));
}

/* Whether the events of the kernel can be had. */
static void print_kernel(const struct ip_kernel_options *kernel, struct ip_json *j)
{
	_cleanup_free_ char *groups = ip_kernel_groups_text(kernel->groups), *missing = NULL;
	const struct ip_kernel_options o = {.groups = kernel->groups,
					    .reader = ip_worker_client_events()};
	const char *none = ip_worker_client_no_events();
	const bool can = (none	     ? ip_error("%s", none)
			  : o.reader ? ip_worker_recorder_missing(&o, &missing)
				     : ip_kernel_missing(o.groups, kernel->source, &missing)) == 0;

	if (j) {
		ip_json_object(j, "kernel");
		ip_json_string(j, "groups", groups);
		ip_json_string(j, "missing", can ? missing : ip_error_message());
		ip_json_bool(j, "recorded", can);
		ip_json_end_object(j);
	} else if (!can) {
		ip_print(stdout, "no events of the kernel: %s%s\n", ip_error_message(),
			 kernel->optional ? "; they would be left out" : "");
	} else {
		ip_print(stdout, "and events of the kernel: %s%s%s\n", groups ? groups : "",
			 *missing ? "; this kernel cannot tell of " : "", missing);
	}
}

static void print_preview(const struct cli_record_options *options,
			  const struct ip_session_preview *p)
{
	const bool switches = options->session.no_stop || p->pieces;
	char stop[16];
	struct ip_json j;

	if (!options->json) {
		for (size_t i = 0; i < p->nmodules; i++)
			ip_print(stdout, "%8zu site%-1s  %8zu function%-1s  %s\n",
				 p->modules[i].sites, ip_plural(p->modules[i].sites),
				 p->modules[i].functions, ip_plural(p->modules[i].functions),
				 p->modules[i].path);
		if (switches) {
			ip_print(stdout,
				 "pid %d: %zu site%s on %zu page%s to switch in %zu piece%s "
				 "without a "
				 "stop, %zu to leave idle%s%s; nothing was changed\n",
				 p->summary.pid, p->summary.sites, ip_plural(p->summary.sites),
				 p->summary.pages, ip_plural(p->summary.pages), p->pieces,
				 ip_plural(p->pieces), p->summary.unswitched,
				 p->summary.unswitched ? ": " : "", p->summary.unswitched_why);
			print_silent(&p->summary);
			if (options->session.kernel.groups)
				print_kernel(&options->session.kernel, NULL);
			return;
		}
		ip_print(stdout,
			 "pid %d: %zu site%s of %zu function%s on %zu page%s, %zu thread%s; %zu "
			 "stop%s "
			 "of about %s%s; nothing was changed\n",
			 p->summary.pid, p->summary.sites, ip_plural(p->summary.sites),
			 p->summary.functions, ip_plural(p->summary.functions), p->summary.pages,
			 ip_plural(p->summary.pages), p->summary.threads,
			 ip_plural(p->summary.threads), p->nstops, p->nstops == 1 ? "" : "s",
			 ip_format_ns(p->expected_stop_ns, stop), p->nstops == 1 ? "" : " each");
		print_silent(&p->summary);
		print_besides(p);
		if (options->session.kernel.groups)
			print_kernel(&options->session.kernel, NULL);
		return;
	}
	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	ip_json_int(&j, "pid", p->summary.pid);
	ip_json_bool(&j, "dry_run", true);
	ip_json_uint(&j, "sites", p->summary.sites);
	ip_json_uint(&j, "functions", p->summary.functions);
	cli_json_silent(&j, &p->summary);
	ip_json_uint(&j, "threads", p->summary.threads);
	ip_json_uint(&j, "pages", p->summary.pages);
	ip_json_uint(&j, "stops", p->nstops);
	ip_json_double(&j, "expected_stop_us", p->expected_stop_ns / 1e3);
	ip_json_uint(&j, "holds", p->holds);
	ip_json_uint(&j, "looks", p->looks);
	ip_json_uint(&j, "end_stops", p->end_stops);
	if (p->stopped_why)
		ip_json_string(&j, "stopped_why", p->stopped_why);
	if (switches) {
		ip_json_uint(&j, "pieces", p->pieces);
		ip_json_uint(&j, "unswitched", p->summary.unswitched);
	}
	ip_json_array(&j, "modules");
	for (size_t i = 0; i < p->nmodules; i++) {
		ip_json_object(&j, NULL);
		ip_json_string(&j, "path", p->modules[i].path);
		ip_json_uint(&j, "sites", p->modules[i].sites);
		ip_json_uint(&j, "functions", p->modules[i].functions);
		ip_json_end_object(&j);
	}
	ip_json_end_array(&j);
	if (options->session.kernel.groups)
		print_kernel(&options->session.kernel, &j);
	ip_json_end_object(&j);
}

#define AS_ASKED "its session is as asked for already"

/* Whether a second attach found nothing to change, and a line on stderr is all that it says.
 * Several processes are told together then. */
static bool is_as_asked(const struct cli_record_options *options,
			const struct ip_session_summary *s)
{
	const struct ip_session_change *c = &s->change;

	return c->done && !c->sites_added && !c->sites_removed && !c->unused && !s->foreign &&
	       !options->json && !options->quiet;
}

/* Prints what a second attach did, or with --dry-run would do. */
static void print_change(const struct cli_record_options *options,
			 const struct ip_session_summary *s)
{
	const char *would = options->dry_run ? "would be " : "";
	const struct ip_session_change *c = &s->change;
	FILE *out;
	struct ip_json j;

	if (c->unused && !cli_told_before(c->unused))
		cli_warn_unused(c->dir, c->unused);
	if (s->foreign)
		ip_print(stderr,
			 "iprobe: pid %d: %zu site%s something that is not iprobe's (a "
			 "breakpoint, a uprobe): left alone\n",
			 s->pid, s->foreign, s->foreign == 1 ? " holds" : "s hold");
	if (options->json) {
		ip_json_init(&j, stdout);
		ip_json_object(&j, NULL);
		ip_json_int(&j, "pid", s->pid);
		ip_json_bool(&j, "changed", !options->dry_run && s->stops.n);
		if (options->dry_run)
			ip_json_bool(&j, "dry_run", true);
		ip_json_uint(&j, "functions_added", c->functions_added);
		ip_json_uint(&j, "functions_removed", c->functions_removed);
		ip_json_uint(&j, "sites_added", c->sites_added);
		ip_json_uint(&j, "sites_removed", c->sites_removed);
		ip_json_uint(&j, "functions", s->functions);
		ip_json_uint(&j, "sites", s->sites);
		ip_json_uint(&j, "threads", s->threads);
		ip_json_uint(&j, "pages", s->pages);
		ip_json_uint(&j, "foreign", s->foreign);
		cli_json_stops(&j, &s->stops);
		ip_json_uint(&j, "failed_stops", ip_stop_log_failed(&s->stops));
		ip_json_string(&j, "dir", c->dir);
		ip_json_end_object(&j);
		return;
	}
	if (options->quiet && !options->dry_run)
		return;
	out = options->dry_run ? stdout : stderr;
	ip_print(out, options->dry_run ? "pid %d: " : "iprobe: pid %d: ", s->pid);
	if (!c->sites_added && !c->sites_removed)
		ip_print(out, AS_ASKED);
	if (c->sites_added)
		ip_print(out, "%zu function%s (%zu site%s) %sadded to its session",
			 c->functions_added, ip_plural(c->functions_added), c->sites_added,
			 ip_plural(c->sites_added), would);
	if (c->sites_removed)
		ip_print(out, "%s%zu function%s (%zu site%s) %sremoved%s",
			 c->sites_added ? ", " : "", c->functions_removed,
			 ip_plural(c->functions_removed), c->sites_removed,
			 ip_plural(c->sites_removed), would,
			 c->sites_added ? "" : " from its session");
	if (s->stops.n) {
		ip_print(out, "; stopped for");
		cli_print_stops(out, &s->stops);
	}
	if (options->dry_run)
		ip_print(out, "; nothing was changed\n");
	else
		ip_print(out, "; it records %zu function%s, trace in %s\n", s->functions,
			 s->functions == 1 ? "" : "s", c->dir);
}

static void clear_change(struct ip_session_change *c)
{
	free(c->dir);
	free(c->unused);
}

static void leave_out_kernel(struct ip_request *request)
{
	static const char name[] = "--kernel";
	size_t n = 0;

	for (size_t i = 0; i < request->noptions; i++)
		if (strncmp(request->options[i], name, strlen(name)))
			request->options[n++] = request->options[i];
		else
			free(request->options[i]);
	request->noptions = n;
}

/* Asks iprobed where this user may not trace the process and iprobed is running. dir: of the trace;
 * NULL: as the command line says. Returns -1: this process is to do it; else the exit code. */
static int ask_daemon(int pid, const struct cli_record_options *options, int argc, char **argv,
		      const char *dir)
{
	struct ip_request request = {.what = IP_REQUEST_ATTACH, .pid = pid};
	const char *said;
	/* of several processes they are recorded once for all */
	const struct ip_kernel_options none = {0};
	int socket = -1, wanted = cli_via_daemon_wanted_with(
				 pid, dir ? &none : &options->session.kernel, &socket);

	if (wanted < 0)
		return cli_fail();
	if (!wanted && !options->leave)
		return -1;
	if (!wanted) {
		ip_error("--leave: there is no iprobed that is needed for it, or pid %d can be "
			 "traced without: use nohup, or IPROBE_DAEMON=always",
			 pid);
		return cli_fail();
	}
	if (cli_record_words(argc, argv, &request, &said) < 0) {
		close(socket);
		ip_request_clear(&request);
		/* without these events, and with those options, this user does it alone */
		return options->session.kernel.optional && cli_may_trace(pid) ? -1 : cli_fail();
	}
	if (dir)
		leave_out_kernel(&request);
	request.member = dir;
	cli_catch_signals();
	return cli_via_daemon(socket, &request, dir ? dir : said);
}

/* Adds to the sums over several processes, which their workers share. */
static void add_preview(struct cli_preview_sums *sums, const struct ip_session_preview *p)
{
	__atomic_fetch_add(&sums->processes, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&sums->sites, p->summary.sites, __ATOMIC_RELAXED);
	__atomic_fetch_add(&sums->stops, p->nstops + p->end_stops, __ATOMIC_RELAXED);
	__atomic_fetch_add(&sums->holds, p->holds, __ATOMIC_RELAXED);
	__atomic_fetch_add(&sums->looks, p->looks, __ATOMIC_RELAXED);
}

static int preview(pid_t pid, const struct cli_record_options *options)
{
	struct ip_session_preview p;
	int ret = ip_session_preview(pid, &options->session, &p), code;

	if (ret == 0 && p.summary.change.done)
		print_change(options, &p.summary);
	else if (ret == 0)
		print_preview(options, &p);
	if (ret == 0 && !p.summary.change.done && options->sums)
		add_preview(options->sums, &p);
	code = ret < 0 ? cli_fail() : 0;
	clear_change(&p.summary.change);
	ip_session_preview_clear(&p);
	return code;
}

static void fill_gaps(struct ip_service_gaps *g, const struct ip_session_summary *s)
{
	*g = (struct ip_service_gaps){.left_out = s->left_out,
				      .renewed = s->renewed,
				      .renewed_latest_ns = s->renewed_latest_ns,
				      .disturbed = s->disturbed,
				      .unswitched = s->unswitched,
				      .values = s->value_gaps,
				      .plain = s->plain,
				      .children_restored = s->children_restored,
				      .limit = s->end == IP_END_SIZE_LIMIT ? s->limit : 0,
				      .queued_ns = s->lost ? s->end_time.queued_recording : 0,
				      .queued_of_ns = s->lost ? s->end_time.recording : 0,
				      .prioritized = s->end_time.prioritized,
				      .no_space = s->end == IP_END_NO_SPACE};
	snprintf(g->renewed_last, sizeof(g->renewed_last), "%s", s->renewed_last);
	snprintf(g->unswitched_why, sizeof(g->unswitched_why), "%s", s->unswitched_why);
	snprintf(g->limit_by, sizeof(g->limit_by), "%s", s->limit_by ? s->limit_by : "");
}

/* What the worker of a service leaves for its sum. */
static void fill(struct ip_service_worker_result *r, const struct ip_session_summary *s, int code)
{
	r->events = s->events;
	r->lost = s->lost;
	r->invalid = s->invalid;
	r->filtered = s->filtered;
	r->counted = s->counting ? s->calls : 0;
	r->functions = s->functions;
	r->sites = s->sites;
	r->threads = s->threads;
	r->pages = s->pages;
	r->bytes = s->written;
	r->length_ns = s->length_ns;
	fill_gaps(&r->gaps, s);
	r->stops = s->stops.n;
	for (size_t i = 0; i < s->stops.n; i++) {
		r->stops_ns += s->stops.items[i].ns;
		if (s->stops.items[i].ns > r->longest_stop_ns)
			r->longest_stop_ns = s->stops.items[i].ns;
	}
	r->looks = s->stops.looks.n;
	r->looks_ns = s->stops.looks.ns;
	r->longest_look_ns = s->stops.looks.longest_ns;
	r->recorded = s->recorded;
	r->changed = s->change.done;
	r->followed = s->followed;
	r->none = s->nothing;
	r->execed = s->end == IP_END_EXECED;
	r->over = s->end == IP_END_UNTIL || s->end == IP_END_STOP_ON;
	if (code)
		snprintf(r->why, sizeof(r->why), "%s", ip_error_message());
	for (size_t i = 0, at = 0; !code && i < s->no_events.n && at < sizeof(r->why); i++)
		at += snprintf(r->why + at, sizeof(r->why) - at, "%s%s", i ? "; " : "",
			       s->no_events.items[i].text);
	if (ip_session_end_text(s))
		snprintf(r->end, sizeof(r->end), "%s", ip_session_end_text(s));
}

/* The same after a session of iprobed, of which nothing but its trace is known here: how many
 * functions, sites, threads and bytes it had is not in the sum. A session that has failed may have
 * recorded before. */
static void fill_from_trace(struct ip_service_worker_result *r, const char *dir, int code)
{
	struct ip_recording *recording;
	struct stat st;

	r->recorded = stat(dir, &st) == 0 && S_ISDIR(st.st_mode);
	r->changed = !r->recorded && !code;
	if (!r->recorded || ip_recording_load(dir, &recording) < 0)
		return;
	r->events = recording->events;
	r->lost = recording->lost;
	r->invalid = recording->invalid;
	r->filtered = recording->filtered;
	r->stops = recording->nstops + recording->more_stops;
	r->stops_ns = recording->more_stops_ns;
	r->longest_stop_ns = recording->more_stops_longest_ns;
	r->looks = recording->looks;
	r->looks_ns = recording->looks_ns;
	r->longest_look_ns = recording->looks_longest_ns;
	for (size_t i = 0; i < recording->nstops; i++) {
		r->stops_ns += recording->stops[i].duration_ns;
		if (recording->stops[i].duration_ns > r->longest_stop_ns)
			r->longest_stop_ns = recording->stops[i].duration_ns;
	}
	ip_recording_destroy(recording);
}

/* The error tells the same to people. */
static void print_taken(pid_t pid, pid_t iprobe)
{
	struct ip_json j;

	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	ip_json_int(&j, "pid", pid);
	ip_json_int(&j, "taken_by", iprobe);
	ip_json_end_object(&j);
}

/* The same of conditions that are for none of the functions: who has given several can leave these
 * out. */
static void print_absent(pid_t pid, const struct ip_session_summary *summary)
{
	struct ip_json j;

	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	ip_json_int(&j, "pid", pid);
	ip_json_array(&j, "until_absent");
	for (size_t i = 0; i < summary->nabsent; i++) {
		ip_json_object(&j, NULL);
		ip_json_uint(&j, "condition", summary->absent[i].condition);
		ip_json_string(&j, "nearest", summary->absent[i].nearest);
		ip_json_end_object(&j);
	}
	ip_json_end_array(&j);
	ip_json_end_object(&j);
}

/* Tells who carries out rules that the session has begun to watch. */
static void print_live(void *context)
{
	const pid_t *pid = context;
	struct ip_json j;

	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	ip_json_int(&j, "pid", *pid);
	ip_json_bool(&j, "live", true);
	ip_json_end_object(&j);
	fflush(stdout);
}

int cli_attach_one(pid_t pid, const struct cli_record_options *options, int argc, char **argv,
		   const char *dir, struct ip_service_worker_result *result)
{
	struct ip_session_options session = options->session;
	struct ip_session_summary summary;
	int code = ask_daemon(pid, options, argc, argv, dir);

	if (code >= 0) {
		if (result)
			fill_from_trace(result, dir, code);
		return code;
	}
	if (options->dry_run)
		return preview(pid, options);
	cli_catch_signals();
	/* a service has done it before its workers were started */
	if (!result && !options->session.resume &&
	    ip_session_check_requests(pid, &options->session) < 0)
		return cli_fail();
	if (session.yields && options->json && !result) {
		session.on_live = print_live;
		session.context = &pid;
	}
	code = ip_session_attach(pid, &session, &summary) < 0;
	if (result)
		fill(result, &summary, code);
	if (result && !options->found)
		result->none = false; /* it is told by itself */
	/* a process that was found and has nothing to record is counted, not named */
	if (code && !options->tried_again && !(options->found && summary.nothing)) {
		if (result)
			result->untold = true; /* its caller tells it once for all of them */
		else
			cli_fail();
	}
	if (result && is_as_asked(options, &summary)) {
		result->untold = true;
		snprintf(result->why, sizeof(result->why), AS_ASKED);
	} else if (summary.taken_by && options->json && !result) {
		print_taken(pid, summary.taken_by);
	} else if (code && summary.nabsent && options->json && !result) {
		print_absent(pid, &summary);
	} else if (summary.change.done) {
		print_change(options, &summary);
	} else {
		cli_record_summary(options, &summary);
	}
	clear_change(&summary.change);
	free(summary.dir);
	free(summary.unmet);
	return code || summary.kernel_failed;
}

/* What a worker of iprobed does for its client besides (access/worker_client.h). */
static void let_go(void *context)
{
	fflush(stdout);
	ip_worker_client_live();
}

static void serve_client(struct cli_record_options *options)
{
	options->member = ip_worker_client_is_member();
	options->shown = ip_worker_client_shown();
	if (!ip_worker_client_leaves())
		return;
	options->session.on_live = let_go;
	options->session.on_progress = NULL;
}

int cli_attach_chosen(const char *command, const struct ip_service_choice *choice,
		      const struct cli_record_options *options, int argc, char **argv)
{
	if (cli_is_one_process(choice))
		return cli_attach_one(choice->pids[0], options, argc, argv, NULL, NULL);
	if (options->session.stream)
		return cli_usage(command, "--stream is the log of one process: choose one");
	return cli_attach_service(choice, options, argc, argv);
}

int cmd_attach(int argc, char **argv)
{
	struct cli_record_options options;
	struct ip_service_choice choice;
	int next, code;

	code = cli_record_parse(argc, argv, help, true, &options, &next);
	if (code < 0)
		code = cli_process_choice(argc, argv, next, &choice);
	if (code >= 0)
		return code;
	serve_client(&options);
	return cli_attach_chosen("attach", &choice, &options, argc, argv);
}
