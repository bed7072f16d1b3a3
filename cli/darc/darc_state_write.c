/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the state of a search: what its result has, and what it takes to go on with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/darc/darc_state_values.h"
#include "cli/darc/live/darc_live_private.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/now.h"

static void write_options(struct ip_json *j, const struct ip_darc_options *o, size_t max_functions)
{

	ip_json_object(j, "options");
	ip_json_string(j, "search", cli_state_choice(o->choice));
	ip_json_uint(j, "peak", o->number);
	ip_json_bool(j, "all_faster", o->all_faster);
	ip_json_uint(j, "slower_than_ns", o->slower_ns);
	ip_json_double(j, "percentile", o->share);
	ip_json_uint(j, "tid", o->tid);
	ip_json_uint(j, "start_ops", o->start_operations);
	ip_json_uint(j, "decision_ops", o->decision_operations);
	ip_json_double(j, "maxcount_percentage", o->maxcount_percent);
	ip_json_uint(j, "depth", o->depth);
	ip_json_uint(j, "max_functions", max_functions);
	ip_json_end_object(j);
}

static void write_pair(struct ip_json *j, uint64_t from, uint64_t calls)
{
	ip_json_array(j, NULL);
	ip_json_uint(j, NULL, from);
	ip_json_uint(j, NULL, calls);
	ip_json_end_array(j);
}

static void write_latencies(struct ip_json *j, const struct ip_darc_latencies *l)
{
	ip_json_array(j, "bins");
	for (unsigned i = 0; i < IP_PEAK_BINS; i++)
		if (l->bins.calls[i])
			write_pair(j, i, l->bins.calls[i]);
	ip_json_end_array(j);
	ip_json_array(j, "latencies");
	for (unsigned row = 0; row < IP_HISTOGRAM_ROWS; row++)
		for (unsigned step = 0; l->durations.rows[row] && step < IP_HISTOGRAM_STEPS; step++)
			if (l->durations.rows[row][step])
				write_pair(j, ip_histogram_step_from(row, step),
					   l->durations.rows[row][step]);
	ip_json_end_array(j);
}

/* The modules whose functions were live. */
static void write_modules(struct ip_json *j, const struct ip_recording *session)
{
	ip_json_array(j, "modules");
	for (size_t i = 0; session && i < session->nmodules; i++) {
		if (session->modules[i].same_as != i)
			continue;
		ip_json_object(j, NULL);
		ip_json_string(j, "path", session->modules[i].path);
		ip_json_string(j, "build_id", session->modules[i].build_id);
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
}

static void write_names(struct ip_json *j, const char *key, char *const *names, size_t n,
			const char *first)
{
	ip_json_array(j, key);
	if (first)
		ip_json_string(j, NULL, first);
	for (size_t i = 0; i < n; i++)
		ip_json_string(j, NULL, names[i]);
	ip_json_end_array(j);
}

/* What was found in the last look. */
static int write_found(struct ip_json *j, const struct cli_darc_live_search *l,
		       const struct cli_darc_trace *last)
{
	struct cli_darc d = cli_darc_of(last, l->profile.trace ? &l->profile.search : NULL);
	struct ip_darc_search search = last->search;
	int ret;

	if (!l->concluded)
		search.state = IP_DARC_IN_PROGRESS;
	/* a search that has not looked at callees has found none */
	if (!l->level || last == &l->profile) {
		search.causes = (struct ip_root_causes){0};
		search.waits = NULL;
	}
	d.search = &search;
	ret = cli_darc_json_members(j, &d, CLI_DARC_STATE_NODES_WRITTEN);
	ip_json_uint(j, "profile_ns", l->profile.trace ? l->profile_ns : ip_now_ns() - l->begin_ns);
	write_latencies(j, &d.profile->latencies);
	return ret;
}

static void write_nothing_found(struct ip_json *j, const struct cli_darc_live_search *l)
{
	ip_json_string(j, "function", l->options->session.functions);
	ip_json_string(j, "state", ip_darc_state_name(IP_DARC_IN_PROGRESS));
	ip_json_string(j, "reason", NULL);
	write_names(j, "paths", NULL, 0, NULL);
	write_names(j, "ftree", NULL, 0, NULL);
}

int cli_darc_live_text(struct cli_darc_live_search *l, char **ret, size_t *ret_size)
{
	const struct cli_darc_trace *last = l->moment.trace    ? &l->moment
					    : l->profile.trace ? &l->profile
							       : NULL;
	FILE *out = open_memstream(ret, ret_size);
	struct ip_json j;
	bool failed;
	int code = 0;

	if (!out)
		return ip_error("out of memory");
	ip_json_init(&j, out);
	ip_json_object(&j, NULL);
	ip_json_string(&j, "format", CLI_DARC_STATE_FORMAT);
	ip_json_uint(&j, "version", CLI_DARC_STATE_VERSION);
	if (last)
		code = write_found(&j, l, last);
	else
		write_nothing_found(&j, l);
	ip_json_string(&j, "linker_name", l->f0);
	ip_json_uint(&j, "level", l->level);
	write_options(&j, &l->search, l->options->max_functions);
	write_modules(&j, last ? last->trace->session : NULL);
	write_names(&j, "live", l->session.live, l->session.nlive,
		    l->f0 ? l->f0 : l->options->session.functions);
	for (unsigned i = 0; i < CLI_DARC_SETS; i++) {
		const char *key;
		const struct cli_darc_names *set = cli_darc_sets_get(&l->sets, i, &key);

		write_names(&j, key, set->items, set->n, NULL);
	}
	ip_json_end_object(&j);
	failed = ferror(out);
	if (fclose(out) != 0 || failed)
		code = ip_error("out of memory");
	if (code == 0 && *ret_size > CLI_DARC_STATE_SIZE_MAX)
		code = ip_error("the state of the search is larger than %u bytes",
				CLI_DARC_STATE_SIZE_MAX);
	return code;
}

void cli_darc_live_describe(struct cli_darc_live_search *l, bool keep)
{
	_cleanup_free_ char *text = NULL;
	size_t size;

	if (cli_darc_live_text(l, &text, &size) < 0)
		return;
	cli_darc_session_describe(&l->session, text, size);
	if (l->view)
		cli_darc_view_state(l->view, text, size);
	if (keep)
		cli_darc_resume_keep(l->options->resume, text, size);
}

static int write_all(int fd, const char *text, size_t size)
{
	while (size) {
		const ssize_t n = write(fd, text, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		text += n;
		size -= (size_t)n;
	}
	return 0;
}

int cli_darc_state_put(const struct ip_dir_place *place, const char *text, size_t size, bool sync)
{
	char name[NAME_MAX + 1];
	_cleanup_close_ int fd = ip_file_make_beside(place, name, O_WRONLY);

	if (fd < 0)
		return ip_error_errno("cannot make a file beside %s", place->name);
	if (write_all(fd, text, size) == 0 && (!sync || fsync(fd) == 0) &&
	    renameat(place->parent, name, place->parent, place->name) == 0)
		return 0;
	ip_error_errno("cannot write %s", place->name);
	unlinkat(place->parent, name, 0);
	return -1;
}
