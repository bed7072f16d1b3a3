/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows histograms of sessions that go on. The sessions' iprobes are asked to write them into
 * their traces, where this command reads them (live_counts.h). The targets are neither stopped nor
 * read.
 *
 * Of several processes the histograms are added up. One that has no session is told, unless it was
 * only found: a service has processes that nobody records.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/args/processes.h"
#include "cli/cli.h"
#include "cli/hist/hist.h"
#include "cli/hist/hist_live_lines.h"
#include "cli/live_counts.h"
#include "cli/record/via_daemon.h"
#include "cli/trace_args.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "common/print.h"
#include "session/session.h"

struct live {
	const struct ip_service_choice *choice;
	const struct cli_hist_options *options;
	struct cli_live_counts counts;
	struct cli_hist_live_lines lines; /* --over-time */
	bool renewed; /* functions have other indexes than in the reading before */
	bool failed;  /* a process that was named by its pid has no session with histograms */
};

static int show(struct live *live, const char *where)
{
	const struct cli_hist_options *o = live->options;
	const struct cli_live_counts *c = &live->counts;
	/* streams are not read */
	struct ip_trace_reader trace = {.dir = (char *)where, .session = c->recording};
	struct cli_hist h = {.dir = where,
			     .live = c,
			     .pid = cli_is_one_process(live->choice) ? live->choice->pids[0] : 0,
			     .session = c->recording,
			     .names = c->names,
			     .counts = c->now};
	_cleanup_free_ bool *selected = cli_reader_select(&trace, o->filter.functions);
	int ret = selected ? 0 : -1;

	if (ret == 0 && o->over_time)
		ret = cli_hist_live_lines_show(&live->lines, &h, o, selected, live->renewed);
	else if (ret == 0)
		ret = cli_hist_order(&h, selected, o->filter.limit);
	if (ret == 0 && !o->over_time) {
		if (o->json)
			cli_hist_json(&h);
		else
			ret = cli_hist_text(&h);
	}
	if (ret == 0)
		ret = cli_reader_check_stdout();
	free(h.order);
	return ret;
}

/* Tells what is wrong with a process, once, and goes on with the others. */
static void tell(struct live *live, bool named, bool first)
{
	if (!named || !first)
		return;
	live->failed = true;
	cli_fail();
}

/* A session that iprobed has begun cannot be asked by who may not trace the process: but it writes
 * its counts by itself. */
static int ask(pid_t pid, char **ret_dir)
{
	int socket = -1;

	if (ip_session_ask_counts(pid, ret_dir) == 0)
		return 0;
	if (cli_may_trace(pid) || cli_via_daemon_wanted(pid, &socket) <= 0)
		return -1;
	close(socket);
	return ip_error("pid %d: this user may not trace it, nor ask its session: iprobe hist DIR "
			"shows what a session of iprobed has written into its trace by now (each "
			"second), iprobe top %d what happens",
			pid, pid);
}

/* Adds the processes of the choice whose sessions answer. first: nothing has been shown yet. */
static int find(struct live *live, bool first)
{
	struct ip_service_processes found;
	int ret = 0;

	if (ip_service_processes_find(live->choice, &found) < 0)
		return -1;
	for (size_t i = 0; i < live->choice->npids; i++)
		if (!ip_service_processes_get(&found, live->choice->pids[i])) {
			ip_error("pid %d does not exist (any more)", live->choice->pids[i]);
			tell(live, true, first);
		}
	for (size_t i = 0; i < found.n && ret == 0; i++) {
		const struct ip_service_process *p = &found.items[i];
		char *dir = NULL;

		if (cli_live_counts_find(&live->counts, p->pid))
			continue;
		if (ask(p->pid, &dir) == 0)
			ret = cli_live_counts_add(&live->counts, p->pid, dir, true);
		else
			tell(live, p->named, first);
	}
	ip_service_processes_clear(&found);
	return ret;
}

/* Reads the counts. Returns 1; 0 where no session answers any more; -1 with an error. *ret_last:
 * none answers any more, and this is what they have left. */
static int look(struct live *live, bool first, bool *ret_last)
{
	bool answered;
	int renewed;

	*ret_last = false;
	if (cli_is_one_process(live->choice)) {
		const pid_t pid = live->choice->pids[0];
		char *dir = NULL;

		if (first &&
		    (ask(pid, &dir) < 0 || cli_live_counts_add(&live->counts, pid, dir, true) < 0))
			return -1;
	} else if ((first || ip_service_choice_is_open(live->choice)) && find(live, first) < 0) {
		return -1;
	}
	if (!live->counts.n) {
		_cleanup_free_ char *text = ip_service_choice_text(live->choice);

		return ip_error("no process of %s is being recorded with histograms: iprobe attach "
				"--payload hist does that",
				text ? text : "these");
	}
	answered = cli_live_counts_ask(&live->counts, false) > 0;
	/* what was counted up to the end of the session belongs to the last interval */
	if (!answered && (first || !live->options->over_time))
		return 0;
	if (!answered)
		cli_live_counts_await_end(&live->counts);
	renewed = cli_live_counts_read(&live->counts);
	if (renewed < 0)
		return -1;
	live->renewed = renewed;
	*ret_last = !answered;
	return live->counts.recording != NULL;
}

/* The first output must succeed. After it the sessions may end, and that is no error. */
static int run(struct live *live)
{
	const struct cli_hist_options *o = live->options;
	const struct timespec nap = {.tv_sec = o->interval_ns / 1000000000,
				     .tv_nsec = o->interval_ns % 1000000000};
	_cleanup_free_ char *text = ip_service_choice_text(live->choice);
	bool terminal = isatty(STDOUT_FILENO);

	if (!text)
		return ip_error("out of memory");
	for (unsigned i = 0;; i++) {
		bool last;
		const int done = look(live, !i, &last);

		if (done <= 0)
			return i ? 0 : -1;
		if (i && !o->json && terminal && !o->over_time)
			ip_print(stdout, "\033[H\033[J");
		else if (i && !o->json && !o->over_time)
			ip_print(stdout, "\n");
		if (show(live, cli_is_one_process(live->choice) ? live->counts.processes[0].dir
								: text) < 0)
			return -1;
		if (!o->interval_ns || ip_interrupted || last)
			return 0;
		nanosleep(&nap, NULL);
		if (ip_interrupted)
			return 0;
	}
}

int cli_hist_live(const struct ip_service_choice *choice, const struct cli_hist_options *o)
{
	struct live live = {
		.choice = choice, .options = o, .counts.full_names = o->filter.full_names};
	int ret, code;

	cli_catch_signals();
	ret = run(&live);
	code = ret < 0 ? cli_fail() : live.failed;
	cli_live_counts_clear(&live.counts);
	cli_hist_live_lines_clear(&live.lines);
	return code;
}
