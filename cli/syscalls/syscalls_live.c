/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the system calls of live processes. They are neither stopped nor changed: the kernel
 * records events of their threads (kernel_trace/recorder.h), and a thread of the recorder hands
 * them to this file. They are put in order of time, and calls that have returned are added to the
 * sums: no trace is written, and memory does not grow with time.
 */
#include "cli/syscalls/syscalls_live.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/syscalls/event_order.h"
#include "analysis/syscalls/syscall_sums.h"
#include "cli/args/processes.h"
#include "cli/cli.h"
#include "cli/record/daemon_events.h"
#include "cli/screen/screen.h"
#include "cli/syscalls/list_output.h"
#include "cli/syscalls/live_paths.h"
#include "cli/syscalls/live_processes.h"
#include "cli/syscalls/process_names.h"
#include "cli/syscalls/syscalls_list.h"
#include "cli/syscalls/syscalls_table.h"
#include "cli/trace_args.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "common/now.h"
#include "common/print.h"
#include "common/proc.h"
#include "common/trace/kernel_format.h"
#include "kernel_trace/kernel_stream.h"
#include "kernel_trace/recorder.h"

#define BUFFER	     (4u << 20) /* for each CPU */
#define SECOND_NS    1000000000ull
#define WAIT_MOST_NS (SECOND_NS / 5) /* signals end it */
#define CLOCK_NS     20000000ull     /* for so long at least the clock is measured */

struct live {
	const struct cli_syscalls_options *options;
	struct cli_live_processes processes;
	struct ip_event_order *order;
	struct ip_kernel_recorder *recorder;
	struct cli_daemon_events events; /* where iprobed reads them for this user */
	struct ip_clock_reading start;	 /* of this command */
	uint64_t began;			 /* TSC: of the recording */
	uint64_t end_ns;		 /* CLOCK_MONOTONIC; UINT64_MAX: there is none */
	struct cli_syscalls_list list;
	struct cli_live_paths paths; /* of calls that are to be listed */
	struct ip_syscall_descriptors texts;
	struct cli_list_output output; /* of it, and paths: of the recorder's thread until that
					  has ended */
	size_t listed;
	bool enough; /* atomic: as many were listed as are wanted */
	/* Under the lock: the recorder's thread changes them. */
	pthread_mutex_t lock;
	struct ip_syscall_reader *reader;
	struct ip_syscall_sums sums;
	struct cli_syscalls_own own;
	struct cli_process_names names; /* of those that have sums, --by process */
};

/* ---- in the recorder's thread ---- */

static uint32_t owner_of(const struct cli_syscalls_options *o, const struct ip_syscall_call *call)
{
	return o->by == CLI_SYSCALLS_BY_PROCESS ? cli_process_key(call->pid, call->program) : 0;
}

/* The process of a thread that was made a moment ago. */
static int32_t process_of(void *context, int32_t tid)
{
	const long pid = ip_proc_status(tid, "Tgid");

	return pid > 0 ? pid : 0;
}

static int take(void *context, const struct ip_syscall_call *call)
{
	struct live *live = context;

	if (!cli_syscalls_wants(live->options, call) || cli_syscalls_own_take(&live->own, call))
		return 0;
	if (live->options->by == CLI_SYSCALLS_BY_PROCESS &&
	    cli_process_names_note(
		    &live->names, owner_of(live->options, call), call->pid,
		    ip_syscall_reader_process(live->reader, call->pid, call->program)) < 0)
		return -1;
	if (!live->options->list)
		return ip_syscall_sums_add(&live->sums, owner_of(live->options, call), call);
	if (live->listed >= live->options->filter.limit)
		return 0;
	live->list.out = cli_list_output_file(&live->output);
	if (!live->list.out)
		return -1;
	cli_syscalls_list_print(&live->list, call, ip_syscall_reader_caller(live->reader, call),
				NULL);
	if (++live->listed == live->options->filter.limit)
		__atomic_store_n(&live->enough, true, __ATOMIC_RELEASE);
	return 0;
}

static int feed(void *context, const struct ip_kernel_record *record)
{
	struct live *live = context;

	return ip_syscall_reader_feed(live->reader, record);
}

/* Those of iprobed's reader come in two parts. */
static bool is_of_all(const struct live *live, const uint8_t *event)
{
	struct ip_kernel_event_header header;
	const struct ip_kernel_kind *kind;

	if (!live->events.reader)
		return false;
	memcpy(&header, event, sizeof(header));
	kind = ip_kernel_kind_of(header.id);
	return kind && kind->everywhere;
}

static int on_event(void *context, uint32_t cpu, const uint8_t *event, size_t size)
{
	struct live *live = context;

	return ip_event_order_add(live->order, is_of_all(live, event), cpu, event, size);
}

static int on_lost(void *context, bool all, uint32_t cpu, uint64_t n)
{
	struct live *live = context;

	return ip_event_order_lose(live->order, live->events.reader && all, cpu, n);
}

static int on_path(void *context, const struct ip_call_path *path)
{
	struct live *live = context;

	return cli_live_paths_add(&live->paths, path);
}

static int on_until(void *context, uint64_t tsc)
{
	struct live *live = context;
	int ret;

	cli_live_paths_sort(&live->paths);
	pthread_mutex_lock(&live->lock);
	ret = ip_event_order_until(live->order, tsc);
	pthread_mutex_unlock(&live->lock);
	cli_live_paths_forget(&live->paths, tsc);
	return ret < 0 ? ret : cli_list_output_write(&live->output);
}

/* ---- the command ---- */

static uint64_t hz_of(const struct live *live)
{
	struct ip_clock_reading now;

	ip_clock_read(&now);
	return ip_clock_hz(&live->start, &now, CLOCK_NS);
}

static int begin(struct live *live)
{
	const char *why;

	if (ip_clock_select(IP_CLOCK_AUTO, &why) != IP_CLOCK_TSC)
		return ip_error("kernel events have the times of the TSC, which cannot be trusted "
				"here: %s",
				why ? why : "it is not used");
	ip_clock_read(&live->start);
	live->reader = ip_syscall_reader_create(take, live);
	live->order = live->reader ? ip_event_order_create(feed, live) : NULL;
	if (!live->order)
		return -1;
	ip_syscall_reader_expect_scheduler(live->reader);
	if (live->options->by == CLI_SYSCALLS_BY_PROCESS)
		ip_syscall_reader_ask_process(live->reader, process_of);
	live->texts = (struct ip_syscall_descriptors){.path = cli_live_paths_find,
						      .context = &live->paths};
	live->list = (struct cli_syscalls_list){.descriptors = &live->texts,
						.start = live->start.tsc,
						.realtime_ns = live->start.realtime_ns,
						.hz = live->options->list ? hz_of(live) : 0,
						.json = live->options->json,
						.scheduled = true};
	return 0;
}

/* Where this user may not have events of the kernel, iprobed is asked, for one process after the
 * other: some may be other users'. */
static int open_reader(struct live *live, struct ip_kernel_options *options)
{
	_cleanup_free_ char *why = NULL;

	for (size_t i = 0; i < live->processes.n; i++) {
		if (live->processes.items[i].fd < 0)
			continue;
		if (cli_daemon_events_open(live->processes.items[i].pid, options, false,
					   &live->events) >= 0) {
			options->reader = live->events.reader;
			return 0;
		}
		if (!why)
			why = strdup(ip_error_message());
	}
	return why ? ip_error("%s", why) : 0;
}

static int start(struct live *live, const struct ip_kernel_sink *sink)
{
	struct ip_kernel_options options = {.groups = 1 << IP_KERNEL_GROUP_SCHED |
						      1 << IP_KERNEL_GROUP_SYSCALLS,
					    .buffer = BUFFER,
					    .source = live->options->source,
					    .sink = sink,
					    .only_64_bit = true};

	if (open_reader(live, &options) < 0 ||
	    cli_live_processes_look_by(&live->processes, options.reader) < 0)
		return -1;
	if (ip_kernel_recorder_create(&options, -1, &live->recorder) < 0)
		return options.reader ? -1 : cli_daemon_events_missing(&options);
	live->began = ip_clock_now();
	if (ip_kernel_recorder_start(live->recorder) < 0 ||
	    cli_live_processes_join(&live->processes, live->recorder) < 0)
		return -1;
	live->end_ns =
		live->options->duration_ns ? ip_now_ns() + live->options->duration_ns : UINT64_MAX;
	return 0;
}

static void add_open(void *context, const struct ip_syscall_call *call)
{
	struct cli_syscalls_table *table = context;

	if (cli_syscalls_wants(table->options, call) && !cli_syscalls_own_take(&table->own, call))
		ip_syscall_sums_add(&table->sums, owner_of(table->options, call), call);
}

static uint32_t pid_of(void *context, uint32_t owner)
{
	return cli_process_names_pid(context, owner);
}

static const char *process_text(void *context, uint32_t owner, bool shown)
{
	struct cli_process_names *names = context;

	return shown ? cli_process_names_text(names, owner) : cli_process_names_get(names, owner);
}

static struct cli_syscalls_table table_of(struct live *live, struct cli_process_names *names)
{
	struct cli_syscalls_table table = {.options = live->options,
					   .hz = hz_of(live),
					   .live = true,
					   .processes = live->processes.counted};

	if (cli_is_one_process(live->processes.choice))
		table.pid = live->processes.choice->pids[0];
	if (live->options->by == CLI_SYSCALLS_BY_PROCESS) {
		table.owner = process_text;
		table.pid_of = pid_of;
		table.context = names;
	}
	return table;
}

/* The table as it is now. The caller clears its sums, and the names, in any case. */
static int look(struct live *live, struct cli_process_names *names, struct cli_syscalls_table *ret)
{
	const uint64_t now = ip_clock_now();
	int done;

	*ret = table_of(live, names);
	pthread_mutex_lock(&live->lock);
	done = ip_syscall_sums_copy(&ret->sums, &live->sums);
	if (done == 0)
		done = cli_process_names_copy(names, &live->names);
	ret->own = live->own;
	ret->read = ip_syscall_reader_read(live->reader);
	if (done == 0)
		ip_syscall_reader_each_open(live->reader, now, add_open, ret);
	pthread_mutex_unlock(&live->lock);
	ret->read.begin = live->began;
	ret->read.end = now;
	return done;
}

static int show(struct live *live)
{
	struct cli_process_names names = {0};
	struct cli_syscalls_table table;
	_cleanup_free_ char *text = NULL;
	size_t size, lines, columns;
	FILE *out = open_memstream(&text, &size);
	int ret;

	if (!out)
		return ip_error("out of memory");
	cli_screen_size(&lines, &columns);
	ret = look(live, &names, &table);
	if (ret == 0)
		cli_syscalls_table_print(&table, out, lines > 1 ? lines - 1 : 1);
	ip_print(out, "q quit");
	ip_syscall_sums_clear(&table.sums);
	cli_process_names_clear(&names);
	if (fclose(out) != 0)
		return ip_error("out of memory");
	return ret < 0 ? ret : cli_screen_show(text, size);
}

static bool is_over(const struct live *live)
{
	return ip_interrupted || ip_now_ns() >= live->end_ns ||
	       cli_live_processes_are_over(&live->processes) ||
	       __atomic_load_n(&live->enough, __ATOMIC_ACQUIRE);
}

/* Looks after the recorder and the processes. */
static int step(struct live *live)
{
	struct ip_kernel_stats stats;

	return ip_kernel_recorder_stats(live->recorder, &stats) < 0
		       ? -1
		       : cli_live_processes_step(&live->processes, live->recorder);
}

static uint64_t earlier_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int watch_screen(struct live *live)
{
	int key = CLI_KEY_NONE, ret = 0;

	if (cli_screen_open("--duration and a file for the output do without") < 0)
		return -1;
	while (ret == 0 && !is_over(live) && key != 'q' && key != CLI_KEY_END_OF_INPUT) {
		const uint64_t next = ip_now_ns() + SECOND_NS;

		ret = show(live);
		do
			key = ret == 0 ? cli_screen_key(earlier_of(next, live->end_ns),
							live->processes.ends)
				       : CLI_KEY_NONE;
		while (key && key != 'q' && key != CLI_KEY_RESIZED && key != CLI_KEY_END_OF_INPUT);
		if (ret == 0)
			ret = step(live);
	}
	cli_screen_close();
	return ret;
}

static int watch(struct live *live)
{
	int ret = 0;

	while (ret == 0 && !is_over(live)) {
		struct pollfd fd = {.fd = live->processes.ends, .events = POLLIN};
		const uint64_t now = ip_now_ns(),
			       until = earlier_of(now + WAIT_MOST_NS, live->end_ns);

		poll(&fd, 1, until > now ? (until - now + 999999) / 1000000 : 0);
		ret = step(live);
	}
	return ret;
}

/* Keeps the first error. */
static void keep(int done, char **why)
{
	if (done < 0 && !*why && asprintf(why, "%s", ip_error_message()) < 0)
		*why = NULL;
}

static int print_end(struct live *live, struct cli_syscalls_table *table)
{
	if (live->options->list) {
		if (table->read.lost)
			ip_print(stderr,
				 "iprobe: %" PRIu64 " events of the kernel were LOST: calls are "
				 "missing, and the result or the time of others\n",
				 table->read.lost);
		cli_syscalls_own_print(&table->own, table->hz, "iprobe: ", stderr);
		return cli_list_output_write(&live->output);
	}
	table->sums = live->sums;
	if (live->options->json)
		cli_syscalls_table_json(table);
	else
		cli_syscalls_table_print(table, stdout, SIZE_MAX);
	live->sums = table->sums;
	return cli_reader_check_stdout();
}

/* watched: what came of the recording. Where it has failed, what was counted until then is told all
 * the same. */
static int finish(struct live *live, int watched)
{
	struct cli_syscalls_table table = table_of(live, &live->names);
	const uint64_t end = ip_clock_now();
	_cleanup_free_ char *why = NULL;
	int stopped, ended, printed;

	keep(watched, &why);
	stopped = ip_kernel_recorder_stop(live->recorder);
	keep(stopped, &why);
	ended = ip_syscall_reader_end(live->reader, end);
	keep(ended, &why);
	table.read = ip_syscall_reader_read(live->reader);
	table.read.begin = live->began;
	table.read.end = end;
	table.own = live->own;
	printed = print_end(live, &table);
	keep(printed, &why);
	if (watched < 0 || stopped < 0 || ended < 0 || printed < 0)
		return ip_error("%s", why ? why : "out of memory");
	return 0;
}

int cli_syscalls_live(const struct ip_service_choice *choice, const struct cli_syscalls_options *o)
{
	struct live live = {.options = o, .events.connection = -1};
	const struct ip_kernel_sink sink = {.event = on_event,
					    .lost = on_lost,
					    .path = o->list ? on_path : NULL,
					    .until = on_until,
					    .context = &live};
	const bool on_screen =
		!o->list && !o->json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	bool failed;
	int ret;

	pthread_mutex_init(&live.lock, NULL);
	cli_catch_signals();
	ret = cli_live_processes_open(choice, &live.processes);
	if (ret == 0)
		ret = begin(&live);
	if (ret == 0)
		ret = start(&live, &sink);
	if (ret == 0)
		ret = finish(&live, on_screen ? watch_screen(&live) : watch(&live));
	failed = live.processes.failed;
	ip_kernel_recorder_destroy(live.recorder);
	cli_daemon_events_close(&live.events);
	ip_syscall_reader_destroy(live.reader);
	ip_event_order_destroy(live.order);
	ip_syscall_sums_clear(&live.sums);
	cli_process_names_clear(&live.names);
	cli_live_paths_clear(&live.paths);
	cli_list_output_clear(&live.output);
	cli_live_processes_clear(&live.processes);
	return ret < 0 ? ret : failed;
}
