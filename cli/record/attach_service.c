/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe attach with several processes: what each worker does, and what is printed at the end.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cli/args/each_process.h"
#include "cli/record/attach.h"
#include "cli/record/daemon_events.h"
#include "cli/record/error_groups.h"
#include "cli/record/live_line.h"
#include "cli/record/shared_notice.h"
#include "cli/record/stops.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/json.h"
#include "common/now.h"
#include "common/print.h"
#include "common/proc.h"
#include "common/process_set.h"
#include "common/units.h"

struct service {
	const struct ip_service_choice *choice;
	const struct cli_record_options *options;
	int argc;
	char **argv;
	uint64_t start_ns;
	char **documents; /* JSON, one of each worker */
	size_t ndocuments;
	struct ip_service_worker_result sum;
	struct ip_session_summary gaps; /* what the sessions could not do, of all of them */
	char limit_by[64];		/* as in it */
	struct cli_error_groups *failures;
	struct cli_preview_sums *sums; /* --dry-run: shared memory; NULL: there is none */
	char no_events[1100];	       /* why one of the processes has none */
	char why[1024];		       /* of the first that has nothing to record */
	/* with events, forked ones that were followed included; and all that were recorded */
	struct ip_process_set *eventful, *all;
	struct ip_process_set *missed;	   /* that ended too soon */
	size_t recorded, changed, without; /* without: there was nothing to record */
	size_t killed;			   /* whose workers were */
	size_t most_functions;		   /* of a process */
	struct ip_kernel_stats kernel;
	struct cli_daemon_events events; /* of the kernel, where iprobed reads them */
};

/* ---- the worker's side ---- */

#define LATE_NS 500000000ull /* after its start; what goes live later is told to have come late */

struct worker_context {
	const struct ip_service_choice *choice;
	int socket;
	bool follows;
	uint64_t started;    /* as in ip_service_task */
	uint64_t *joined_ns; /* NULL: the process was there when the recording began */
};

/* The time since the target was started, which the kernel tells in clock ticks. */
static uint64_t age_ns(uint64_t started)
{
	const uint64_t tick = 1000000000ull / sysconf(_SC_CLK_TCK);
	struct timespec t;
	uint64_t now;

	clock_gettime(CLOCK_BOOTTIME, &t);
	now = t.tv_sec * 1000000000ull + t.tv_nsec;
	return started && started * tick < now ? now - started * tick : 0;
}

static void tell_live(void *context)
{
	const struct worker_context *c = context;
	const uint64_t age = c->joined_ns ? age_ns(c->started) : 0;

	if (age >= LATE_NS)
		*c->joined_ns = age;
	ip_service_worker_say_live(c->socket, c->follows);
}

/* Returns whether the child is one of the service, for which a session of its own is begun. */
static bool tell_let_go(void *context, pid_t pid)
{
	const struct worker_context *c = context;

	if (!ip_service_choice_includes_child(c->choice, pid))
		return false;
	ip_service_worker_say_let_go(c->socket, pid);
	return true;
}

static void tell_progress(void *context, const struct ip_session_progress *p)
{
	const struct worker_context *c = context;
	const struct ip_service_worker_progress progress = {p->events, p->lost, p->per_second,
							    p->written};

	ip_service_worker_say_progress(c->socket, &progress);
}

/* Whether a session can follow what its process forks (--follow-fork). A child that puts itself
 * under seccomp might be ended for reading the kernel's clock. */
static bool can_follow(const struct ip_session_options *session, pid_t pid)
{
	const char *why;
	const bool asks_kernel = session->clock == IP_CLOCK_MONOTONIC ||
				 (session->clock == IP_CLOCK_AUTO && !ip_clock_trustworthy(&why));

	return !session->drop_hot && !session->overwrite && (session->coarse || !asks_kernel) &&
	       ip_proc_status(pid, "Seccomp") <= 0;
}

/* Of what --rotate may take, events of the kernel have one half. */
static uint64_t share_of_processes(const struct ip_session_options *session)
{
	return session->kernel.groups ? session->max_size / 2 : session->max_size;
}

static int work(void *context, const struct ip_service_task *task, int socket,
		struct ip_service_worker_result *result)
{
	const struct service *s = context;
	struct cli_record_options options = *s->options;
	struct ip_session_options *session = &options.session;
	struct worker_context own = {.choice = s->choice,
				     .socket = socket,
				     .started = task->started,
				     .joined_ns = task->late ? &result->joined_ns : NULL};
	struct ip_session_service service = {.dir = task->dir,
					     .name = task->name,
					     .written = task->written,
					     .processes = s->eventful,
					     .parent = getppid(),
					     .on_let_go = tell_let_go};
	_cleanup_free_ char *dir = NULL;

	if (asprintf(&dir, "%s/%s", session->dir, task->name) < 0)
		return 1;
	session->dir = dir;
	session->service = &service;
	session->duration_ns = task->left_ns;
	if (!options.memory_asked)
		session->memory = ip_service_memory(session->memory, task->n);
	if (session->rotate && session->max_size && task->n)
		session->max_size = share_of_processes(session) / task->n;
	/* its children are recorded without a gap where the session can follow them; those that it
	 * cannot follow get sessions of their own */
	if (s->choice->children && can_follow(session, task->pid))
		session->follow_fork = true;
	own.follows = session->follow_fork;
	session->started = task->started;
	session->on_live = tell_live;
	session->on_progress = tell_progress;
	session->context = &own;
	options.joined_ns = own.joined_ns;
	options.found = !task->named;
	options.tried_again = !task->last;
	return cli_attach_one(task->pid, &options, s->argc, s->argv, dir, result);
}

/* ---- the command's side ---- */

static void show_progress(void *context, const struct ip_service_sum *sum)
{
	const struct service *s = context;
	const struct ip_session_progress p = {.events = sum->progress.events,
					      .lost = sum->progress.lost,
					      .per_second = sum->progress.per_second,
					      .written = sum->progress.written,
					      .has_duration = sum->has_duration,
					      .left_ns = sum->left_ns};

	if (s->options->session.on_progress)
		cli_live_line_show(NULL, &p);
	cli_error_groups_tell(s->failures, false);
}

static void add_gaps(struct service *s, const struct ip_service_worker_result *r)
{
	const struct ip_service_gaps *g = &r->gaps;
	struct ip_session_summary *sum = &s->gaps;

	sum->lost += r->lost;
	sum->left_out += g->left_out;
	sum->renewed += g->renewed;
	sum->disturbed += g->disturbed;
	sum->unswitched += g->unswitched;
	sum->plain += g->plain;
	sum->children_restored += g->children_restored;
	ip_value_gaps_join(&sum->value_gaps, &g->values);
	/* of the one that waited longest, for the cause of losses */
	if (g->queued_ns > sum->end_time.queued_recording) {
		sum->end_time.queued_recording = g->queued_ns;
		sum->end_time.prioritized = g->prioritized;
		sum->end_time.recording = g->queued_of_ns;
	}
	if (g->renewed_latest_ns > sum->renewed_latest_ns)
		sum->renewed_latest_ns = g->renewed_latest_ns;
	if (g->renewed)
		snprintf(sum->renewed_last, sizeof(sum->renewed_last), "%s", g->renewed_last);
	if (g->unswitched)
		snprintf(sum->unswitched_why, sizeof(sum->unswitched_why), "%s", g->unswitched_why);
	if (g->no_space) {
		sum->end = IP_END_NO_SPACE;
	} else if (g->limit && !sum->end) {
		sum->end = IP_END_SIZE_LIMIT;
		sum->limit = g->limit;
		snprintf(s->limit_by, sizeof(s->limit_by), "%s", g->limit_by);
		sum->limit_by = s->limit_by;
	}
}

static void take_result(void *context, const struct ip_service_worker *worker, const char *name)
{
	struct service *s = context;
	const struct ip_service_worker_result *r = worker->result;
	char *text = s->options->json ? ip_service_worker_output(worker) : NULL;

	if (r->untold)
		cli_error_groups_add(s->failures, worker->target, r->why);
	add_gaps(s, r);
	s->recorded += r->recorded;
	s->killed += worker->code < 0;
	if (r->recorded)
		ip_process_set_add(s->all, worker->target);
	if (r->recorded && r->events)
		ip_process_set_add(s->eventful, worker->target);
	s->changed += r->changed;
	s->without += r->none;
	if (r->none && !*s->why)
		snprintf(s->why, sizeof(s->why), "%s", r->why);
	/* one that would have had some tells more than one that slept */
	if (r->recorded && !r->events && *r->why &&
	    (!*s->no_events || (r->filtered && !s->sum.filtered)))
		snprintf(s->no_events, sizeof(s->no_events), "pid %d: %s", worker->target, r->why);
	s->sum.events += r->events;
	s->sum.lost += r->lost;
	s->sum.filtered += r->filtered;
	s->sum.counted += r->counted;
	s->sum.functions += r->functions;
	if (r->functions > s->most_functions)
		s->most_functions = r->functions;
	s->sum.sites += r->sites;
	s->sum.threads += r->threads;
	s->sum.pages += r->pages;
	s->sum.bytes += r->bytes;
	s->sum.stops += r->stops;
	s->sum.stops_ns += r->stops_ns;
	if (r->longest_stop_ns > s->sum.longest_stop_ns)
		s->sum.longest_stop_ns = r->longest_stop_ns;
	s->sum.looks += r->looks;
	s->sum.looks_ns += r->looks_ns;
	if (r->longest_look_ns > s->sum.longest_look_ns)
		s->sum.longest_look_ns = r->longest_look_ns;
	if (!text)
		return;
	text[strcspn(text, "\n")] = '\0';
	/* a worker that was killed may have written a part */
	if (!*text || text[strlen(text) - 1] != '}' ||
	    ip_array_grow(&s->documents, s->ndocuments, sizeof(*s->documents)) < 0) {
		free(text);
		return;
	}
	s->documents[s->ndocuments++] = text;
}

static void restore(void *context, pid_t pid)
{
	cli_detach_left(pid);
}

static void print_json(const struct service *s)
{
	_cleanup_free_ char *service = ip_service_choice_text(s->choice);
	struct ip_json j;

	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	ip_json_string(&j, "service", service);
	ip_json_uint(&j, "processes", ip_process_set_count(s->all));
	ip_json_uint(&j, "with_events", ip_process_set_count(s->eventful));
	ip_json_uint(&j, "changed", s->changed);
	ip_json_uint(&j, "without_probes", s->without);
	ip_json_uint(&j, "ended_before", ip_process_set_count(s->missed));
	ip_json_uint(&j, "sites", s->sum.sites);
	ip_json_uint(&j, "functions", s->sum.functions);
	ip_json_uint(&j, "threads", s->sum.threads);
	ip_json_uint(&j, "pages", s->sum.pages);
	ip_json_uint(&j, "events", s->sum.events);
	ip_json_uint(&j, "lost", s->sum.lost);
	ip_json_uint(&j, "filtered", s->sum.filtered);
	ip_json_uint(&j, "counted", s->sum.counted);
	ip_json_uint(&j, "bytes", s->sum.bytes);
	ip_json_uint(&j, "stops", s->sum.stops);
	ip_json_double(&j, "stopped_us", s->sum.stops_ns / 1e3);
	ip_json_double(&j, "longest_stop_us", s->sum.longest_stop_ns / 1e3);
	ip_json_uint(&j, "looks", s->sum.looks);
	ip_json_double(&j, "looks_us", s->sum.looks_ns / 1e3);
	ip_json_double(&j, "looks_max_us", s->sum.longest_look_ns / 1e3);
	cli_json_renewed(&j, &s->gaps);
	if (s->options->session.kernel.groups)
		cli_json_kernel(&j, &s->kernel);
	ip_json_string(&j, "dir", s->recorded ? s->options->session.dir : NULL);
	ip_json_uint(&j, "duration_ns", ip_now_ns() - s->start_ns);
	ip_json_bool(&j, "ended_early", ip_end_reason_is_early(s->gaps.end));
	if (s->gaps.end)
		ip_json_string(&j, "end", ip_session_end_text(&s->gaps));
	ip_json_array(&j, "members");
	for (size_t i = 0; i < s->ndocuments; i++)
		ip_json_raw(&j, NULL, s->documents[i]);
	ip_json_end_array(&j);
	ip_json_end_object(&j);
}

struct pid_list {
	char text[64]; /* the first of them */
	size_t n;
};

static void list_pid(void *context, uint32_t pid)
{
	struct pid_list *list = context;
	const size_t at = strlen(list->text);

	if (list->n++ < 4)
		snprintf(list->text + at, sizeof(list->text) - at, "%s%" PRIu32, at ? ", " : "",
			 pid);
}

static void tell_missed(const struct service *s)
{
	struct pid_list list = {.n = 0};

	ip_process_set_each(s->missed, list_pid, &list);
	if (list.n)
		ip_print(stderr,
			 "iprobe: %zu process%s (%s%s) ended before %s own session began: what %s "
			 "did last is not recorded\n",
			 list.n, list.n == 1 ? "" : "es", list.text, list.n > 4 ? ", ..." : "",
			 list.n == 1 ? "its" : "their", list.n == 1 ? "it" : "they");
}

static void print_summary(const struct service *s)
{
	char events[32], lost[32], filtered[32], counted[32], length[16], longest[16],
		none[48] = "";
	const uint64_t all = ip_process_set_count(s->all),
		       eventful = ip_process_set_count(s->eventful);

	cli_live_line_clear();
	cli_error_groups_tell(s->failures, true);
	cli_record_warnings(&s->gaps, s->recorded);
	cli_record_losses(&s->gaps, s->options->session.dir);
	if (s->options->json) {
		print_json(s);
		return;
	}
	if (s->options->quiet)
		return;
	if (s->without && s->recorded)
		ip_print(stderr,
			 "iprobe: %zu process%s left out: no module of %s has such probes\n",
			 s->without, s->without == 1 ? "" : "es", s->without == 1 ? "it" : "them");
	tell_missed(s);
	if (!s->recorded)
		return;
	if (s->gaps.children_restored)
		ip_print(stderr, "iprobe: %zu forked process%s got the NOPs back\n",
			 s->gaps.children_restored, s->gaps.children_restored == 1 ? "" : "es");
	if (s->sum.filtered)
		ip_print(stderr, "iprobe: %s event%s filtered\n",
			 ip_format_count(s->sum.filtered, filtered), ip_plural(s->sum.filtered));
	if (s->sum.counted)
		ip_print(stderr, "iprobe: %s call%s counted\n",
			 ip_format_count(s->sum.counted, counted), ip_plural(s->sum.counted));
	cli_record_tell_all(s->options, s->most_functions);
	if (s->options->session.kernel.groups)
		cli_record_tell_kernel("", &s->kernel);
	if (all > eventful && eventful && s->sum.events)
		snprintf(none, sizeof(none), " (%" PRIu64 " of them recorded none)",
			 all - eventful);
	ip_print(stderr,
		 "iprobe: %s event%s of %" PRIu64
		 " process%s%s in %s, %s lost; no stop longer than %s",
		 ip_format_count(s->sum.events, events), s->sum.events == 1 ? "" : "s", all,
		 all == 1 ? "" : "es", none, ip_format_ns(ip_now_ns() - s->start_ns, length),
		 s->sum.lost ? ip_format_count(s->sum.lost, lost) : "none",
		 ip_format_ns(s->sum.longest_stop_ns, longest));
	cli_print_looks(stderr, s->sum.looks, s->sum.looks_ns);
	ip_print(stderr, "; trace in %s\n", s->options->session.dir);
	/* that of one process; others may have counted calls */
	if (!s->sum.events && !s->sum.counted && *s->no_events)
		ip_print(stderr, "iprobe: no events: %s\n", s->no_events);
}

static void add_to_all(void *all, uint32_t pid)
{
	ip_process_set_add(all, pid);
}

static int finish(struct service *s, int done)
{
	const uint64_t known = ip_process_set_each(s->eventful, add_to_all, s->all);

	/* of other pid namespaces */
	ip_process_set_add_unknown(s->all, ip_process_set_count(s->eventful) - known);
	if (done >= 0)
		print_summary(s);
	for (size_t i = 0; i < s->ndocuments; i++)
		free(s->documents[i]);
	free(s->documents);
	cli_error_groups_destroy(s->failures);
	ip_process_set_destroy(s->eventful);
	ip_process_set_destroy(s->all);
	ip_process_set_destroy(s->missed);
	if (done < 0)
		return cli_fail();
	if (!done && !s->recorded && s->killed) {
		ip_error("the worker of each process that was recorded was killed: iprobe report "
			 "%s shows what had been written",
			 s->options->session.dir);
		return cli_fail();
	}
	if (!done && !s->recorded && !s->changed) {
		ip_error("none of these processes can be recorded%s%s", *s->why ? ": " : "",
			 s->why);
		return cli_fail();
	}
	return done ? 1 : 0;
}

/* As this user may not look at a process for which iprobed is asked, that is not known then. */
static int check_requests(void *context, const struct ip_service_process *process)
{
	const struct service *s = context;

	return ip_session_check_requests(process->pid, &s->options->session);
}

/* They are recorded once for all. Each process keeps and removes its own events by itself. */
static struct ip_kernel_options kernel_of(const struct ip_session_options *session)
{
	struct ip_kernel_options kernel = session->kernel;

	kernel.in_segments = session->rotate;
	kernel.keep = session->overwrite ? session->memory : 0;
	return kernel;
}

static struct ip_service_kernel_quota quota_of(const struct ip_session_options *session)
{
	const uint64_t size = session->max_size;

	return (struct ip_service_kernel_quota){
		.segments = session->rotate,
		.most = session->rotate ? size - share_of_processes(session) : size};
}

static int open_reader(void *context, pid_t pid, int *ret)
{
	struct service *s = context;
	const struct ip_kernel_options kernel = kernel_of(&s->options->session);
	const int got = cli_daemon_events_open(pid, &kernel, true, &s->events);

	*ret = got > 0 ? s->events.reader : 0;
	return got < 0 ? -1 : 0;
}

static int preview_each(void *context, const struct ip_service_process *process)
{
	const struct service *s = context;

	struct cli_record_options options = *s->options;

	options.sums = s->sums;
	if (s->choice->children && can_follow(&options.session, process->pid))
		options.session.follow_fork = true;
	return cli_attach_one(process->pid, &options, s->argc, s->argv, NULL, NULL);
}

static int preview_all(struct service *s)
{
	struct cli_preview_sums *sums = mmap(NULL, sizeof(*sums), PROT_READ | PROT_WRITE,
					     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char sites[32];
	int code;

	s->sums = sums == MAP_FAILED ? NULL : sums;
	code = cli_each_process(s->choice, s->options->json, true, preview_each, s);
	if (s->sums && sums->processes > 1 && !s->options->json && !s->options->session.no_stop)
		ip_print(stdout,
			 "together: %s site%s of %" PRIu64 " processes; %" PRIu64
			 " stop%s, half of them at the end, %" PRIu64 " hold%s of one thread, "
			 "%" PRIu64 " look%s; nothing was changed\n",
			 ip_format_count(sums->sites, sites), ip_plural(sums->sites),
			 sums->processes, sums->stops, ip_plural(sums->stops), sums->holds,
			 ip_plural(sums->holds), sums->looks, ip_plural(sums->looks));
	if (s->sums)
		munmap(sums, sizeof(*sums));
	return code;
}

int cli_attach_service(const struct ip_service_choice *choice,
		       const struct cli_record_options *options, int argc, char **argv)
{
	struct service s = {.choice = choice,
			    .options = options,
			    .argc = argc,
			    .argv = argv,
			    .start_ns = ip_now_ns(),
			    .events.connection = -1};
	const struct ip_kernel_options kernel = kernel_of(&options->session);
	struct ip_service_options service = {.choice = *choice,
					     .dir = options->session.dir,
					     .kernel = &kernel,
					     .kernel_quota = quota_of(&options->session),
					     .open_reader = open_reader,
					     .duration_ns = options->session.duration_ns,
					     .work = work,
					     .on_end = take_result,
					     .on_progress = show_progress,
					     .check = check_requests,
					     .restore = restore,
					     .context = &s};
	struct ip_service_sum sum;
	int done;

	if (options->session.resume)
		return cli_usage(argv[0], "--resume goes on with the session of one process: name "
					  "its PID, and its directory in the trace's by -o");
	if (options->leave)
		return cli_usage(argv[0], "--leave goes with one PID");
	if (options->dry_run)
		return preview_all(&s);
	s.failures = cli_error_groups_create();
	s.eventful = ip_process_set_create(true);
	s.all = ip_process_set_create(false);
	s.missed = service.missed = ip_process_set_create(false);
	if (!s.failures || !s.eventful || !s.all || !s.missed)
		return cli_fail();
	/* the events of the kernel have its times, whatever the workers select */
	if (options->session.kernel.groups)
		ip_clock_select(options->session.clock, NULL);
	cli_told_once_begin();
	cli_catch_signals();
	done = ip_service_record(&service, &sum);
	cli_daemon_events_close(&s.events);
	s.kernel = sum.kernel;
	if (sum.kernel.no_space)
		s.gaps.end = IP_END_NO_SPACE;
	else if (sum.kernel_failed && !s.gaps.end)
		s.gaps.end = IP_END_WRITE_FAILED;
	return finish(&s, done);
}
