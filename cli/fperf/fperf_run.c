/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run of fperf on one process. See fperf_run.h.
 */
#include "cli/fperf/fperf_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/fperf/fperf_summary.h"
#include "cli/record/via_daemon.h"
#include "common/cleanup.h"
#include "common/dir.h"
#include "common/error.h"
#include "common/print.h"
#include "fperf/pmu.h"

/* Makes a directory for the session's trace, which is not read. The caller frees the path. */
static char *make_directory(struct ip_dir_place *ret)
{
	const char *base = getenv("TMPDIR");
	char *path;
	int fd;

	base = base && *base ? base : "/tmp";
	fd = ip_dir_make_temporary(base, "fperf", ret);
	if (fd < 0)
		return NULL;
	close(fd);
	if (asprintf(&path, "%s/%s", base, ret->name) >= 0)
		return path;
	ip_error("out of memory");
	return NULL;
}

/* Reports that no thread of the process could count the events. */
static int check_refused(struct ip_fperf *f)
{
	struct ip_fperf_summary sum;

	ip_fperf_summary(f, &sum);
	if (!sum.refused || sum.counting || sum.samples)
		return 0;
	return ip_error("%s cannot be counted in that process: %s",
			sum.refused_event ? sum.refused_event : "-e",
			ip_pmu_error(sum.refused_error));
}

/* The profile is looked up here, with the rights of this user; the options follow it and override
 * it. */
int fperf_run_by_daemon(const struct fperf_options *o, int argc, char **argv)
{
	const struct ip_fperf_profile *p = o->profile;
	struct cli_via_daemon_word words[7] = {0};
	char budget[64], duration[32], interval[32];
	size_t n = 0;

	if (p && p->functions)
		words[n++] = (struct cli_via_daemon_word){"functions", p->functions};
	if (p && p->events)
		words[n++] = (struct cli_via_daemon_word){"events", p->events};
	if (p && p->duration_ns) {
		snprintf(duration, sizeof(duration), "%luns", p->duration_ns);
		words[n++] = (struct cli_via_daemon_word){"duration", duration};
	}
	if (p && p->interval_ns) {
		snprintf(interval, sizeof(interval), "%luns", o->fperf.interval_ns);
		words[n++] = (struct cli_via_daemon_word){"interval", interval};
	}
	if (p && !o->budget_given && (p->budget_percent > 0 || p->budget_samples)) {
		if (p->budget_samples)
			snprintf(budget, sizeof(budget), "%lu/s", p->budget_samples);
		else
			snprintf(budget, sizeof(budget), "%.9g%%", p->budget_percent);
		words[n++] = (struct cli_via_daemon_word){"budget", budget};
	}
	/* options may follow the PID; there is no command whose options they could be */
	return (o->program ? cli_via_daemon_print : cli_via_daemon_try)(
		IP_REQUEST_FPERF, o->pid, argc, argv, &FPERF_LETTERS[1], fperf_long_options, words);
}

int fperf_run(const struct fperf_options *o, struct fperf_output *output, char **command,
	      struct ip_session_summary *summary)
{
	struct ip_session_options session = o->session;
	struct ip_fperf *f = NULL;
	_cleanup_free_ char *base = NULL, *dir = NULL;
	struct ip_dir_place place = {.parent = -1};
	struct ip_command_end command_end = {0};
	int code, done;
	bool written;

	if (o->pid) /* before there is anything that would be left behind */
		cli_catch_signals();
	base = make_directory(&place);
	if (!base || asprintf(&dir, "%s/session", base) < 0 || ip_fperf_create(&o->fperf, &f) < 0) {
		fperf_output_close(o, output, false);
		return cli_fail();
	}
	session.dir = dir;
	session.controller = ip_fperf_controller(f);
	if (o->pid) {
		done = ip_session_attach(o->pid, &session, summary);
	} else {
		const char *runtime = cli_runtime_path();

		done = runtime ? ip_session_run(command, runtime, &session, summary, &command_end)
			       : -1;
	}
	if (done == 0 && o->fperf.show)
		ip_print(stderr, "\033[J");
	written = done == 0 && check_refused(f) == 0 &&
		  fperf_output_print(o, output, f, ip_session_end_text(summary)) == 0;
	if (!written && o->found && summary->nothing)
		code = 1; /* it is not told of each process of a service */
	else if (!written)
		code = cli_fail();
	else
		code = cli_command_code(command_end.status);
	fperf_output_close(o, output, written);
	if (done == 0 && !o->quiet)
		fperf_summary_tell(summary, f, o->program);
	if (done == 0 && o->little) {
		struct ip_fperf_summary sum;

		ip_fperf_summary(f, &sum);
		*o->little = fperf_summary_is_little(&sum);
	}
	ip_fperf_destroy(f);
	ip_dir_remove(place.parent, place.name);
	ip_dir_place_close(&place);
	return code;
}
