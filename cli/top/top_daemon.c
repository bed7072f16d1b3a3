/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One of several processes of iprobe top that this user may not trace: iprobed measures it, by an
 * ordinary iprobe attach --payload hist into the directory of iprobe top.
 *
 * This user may not ask that session for its counts either. So it writes them by itself, several
 * times in each interval of iprobe top, which reads them there (cli/live_counts.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/profile/trace_counts.h"
#include "analysis/read/session.h"
#include "cli/cli.h"
#include "cli/record/via_daemon.h"
#include "cli/top/top_private.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/trace/trace_format.h"

#define SAVES	   4 /* in an interval */
#define SAVE_LEAST 50000000ull
#define SAVE_MOST  1000000000ull

struct waiting {
	const char *counts; /* the file, which is there when the session is live */
	void (*is_live)(void *context);
	void *context;
	bool live;
};

static void look(void *context)
{
	struct waiting *w = context;

	if (w->live || ip_access(w->counts, F_OK) < 0)
		return;
	w->live = true;
	w->is_live(w->context);
}

static int add_number(struct ip_request *request, const char *name, uint64_t n, const char *unit)
{
	char text[32];

	snprintf(text, sizeof(text), "%lu%s", n, unit);
	return cli_via_daemon_add(request, name, text);
}

static int make_request(const struct cli_top_options *o, const struct ip_service_task *task,
			struct ip_request *ret)
{
	uint64_t save_ns = o->delay_ns / SAVES,
		 memory = o->memory_asked ? o->memory : ip_service_memory(o->memory, task->n);

	save_ns = save_ns < SAVE_LEAST ? SAVE_LEAST : save_ns > SAVE_MOST ? SAVE_MOST : save_ns;
	*ret = (struct ip_request){.what = IP_REQUEST_ATTACH, .pid = task->pid};
	if (o->functions && cli_via_daemon_add_functions(ret, o->functions) < 0)
		return -1;
	if (task->left_ns && add_number(ret, "duration", task->left_ns, "ns") < 0)
		return -1;
	return cli_via_daemon_add(ret, "payload", "hist") < 0 ||
			       cli_via_daemon_add(ret, "quiet", NULL) < 0 ||
			       add_number(ret, "save-counts", save_ns, "ns") < 0 ||
			       add_number(ret, "memory", memory, "") < 0 ||
			       add_number(ret, "max-stop", o->max_stop_ns, "ns") < 0
		       ? -1
		       : 0;
}

/* What its trace tells of the session. */
static void fill(struct ip_service_worker_result *r, const char *dir)
{
	struct ip_recording *recording;
	struct ip_trace_reader trace; /* its streams are not read */
	struct ip_counts *counts;
	struct stat st;

	r->recorded = stat(dir, &st) == 0 && S_ISDIR(st.st_mode);
	if (!r->recorded || ip_recording_load(dir, &recording) < 0)
		return;
	r->longest_stop_ns = recording->more_stops_longest_ns;
	for (size_t i = 0; i < recording->nstops; i++)
		if (recording->stops[i].duration_ns > r->longest_stop_ns)
			r->longest_stop_ns = recording->stops[i].duration_ns;
	trace = (struct ip_trace_reader){.dir = (char *)dir, .session = recording};
	if (ip_counts_of_trace(&trace, &counts) == 0) {
		r->events = counts->calls;
		ip_counts_destroy(counts);
	}
	ip_recording_destroy(recording);
}

int cli_top_via_daemon(const struct cli_top_options *o, const struct ip_service_task *task,
		       const char *dir, void (*is_live)(void *context), void *context,
		       struct ip_service_worker_result *result)
{
	_cleanup_free_ char *counts = NULL;
	struct waiting waiting = {.is_live = is_live, .context = context};
	struct ip_request request;
	int socket = -1, wanted = cli_via_daemon_wanted(task->pid, &socket), code;

	if (wanted <= 0)
		return wanted < 0 ? cli_fail() : -1;
	if (asprintf(&counts, "%s/" IP_TRACE_COUNTS, dir) < 0) {
		counts = NULL;
		ip_error("out of memory");
	}
	if (!counts || make_request(o, task, &request) < 0) {
		close(socket);
		if (counts)
			ip_request_clear(&request);
		return cli_fail();
	}
	waiting.counts = counts;
	code = cli_via_daemon_watched(socket, &request, dir, look, &waiting);
	fill(result, dir);
	return code;
}
