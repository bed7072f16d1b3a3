/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of other iprobes to a session, by its control socket (control_socket.h): changes of the
 * selection, snapshots, counts. See update.h.
 */
#include "common/cleanup.h"
#include "common/error.h"
#include "common/trace/values.h"
#include "session/session_private.h"
#include "session/update.h"
#include <string.h>

/* Writes the directory, as other processes can find it, a zero byte, and the items that matched
 * nothing. Returns the number of bytes. */
static size_t describe(const struct ip_session *s, const char *unused, char *text)
{
	_cleanup_free_ char *dir = realpath(s->options->dir, NULL);
	int n = snprintf(text, IP_CONTROL_TEXT_MAX, "%s%c%s", dir ? dir : s->options->dir, 0,
			 unused ? unused : "");

	return n < 0 ? 0 : n < (int)IP_CONTROL_TEXT_MAX ? n : IP_CONTROL_TEXT_MAX - 1;
}

static int serve(struct ip_session *s, const struct ip_control_request *request,
		 const char *selection, struct ip_change_result *result, char **ret_unused)
{
	struct ip_change_options options = {.kind = "change",
					    .must_match = true,
					    .dry_run = request->flags & IP_CONTROL_DRY_RUN,
					    .max_stop_ns = request->max_stop_ns,
					    .values = s->options->values};
	struct ip_selections next, before = s->selections;
	const char *program = ip_controllers_program(s);
	int done;

	if (request->inner_pid != (uint32_t)s->target->inner_pid)
		return ip_error("the session is that of pid %d, which this process was forked "
				"from, or which was forked from it: end that first",
				s->target->pid);
	if (program)
		return ip_error("pid %d: its session is that of an fperf (pid %d), which is not to "
				"be changed: end it, and attach anew",
				s->target->pid, getpid());
	if (s->options->no_stop && !options.dry_run)
		return ip_error("pid %d: its session never stops it (--no-stop), and a change "
				"would: end it, and attach anew",
				s->target->pid);
	if (request->flags & (IP_CONTROL_ARGS | IP_CONTROL_RETVAL))
		options.values =
			(struct ip_value_options){.args = request->flags & IP_CONTROL_ARGS,
						  .retval = request->flags & IP_CONTROL_RETVAL,
						  .string_limit = request->string_limit};
	if (ip_values_any(&options.values) &&
	    (!options.values.string_limit || options.values.string_limit > IP_STRING_LIMIT_MAX))
		return ip_error("the request is damaged");
	if (ip_selections_with(&before, *selection ? selection : NULL, &next) < 0)
		return -1;
	s->selections = next;
	done = ip_session_update(s, &options, result);
	if (done == 0)
		*ret_unused =
			ip_plan_unused(&s->modules, ip_selections_last(&s->selections)->selection);
	if (done < 0 || options.dry_run) {
		ip_selections_clear(&s->selections);
		s->selections = before;
		if (done < 0 && result->partial) {
			_cleanup_free_ char *why = strdup(ip_error_message());
			struct ip_change_result back;

			options.must_match = false;
			if (ip_session_update(s, &options, &back) == 0)
				ip_error("%s", why ? why : "out of memory");
			else
				ip_error_prefix(
					"some of what was asked for is done, and cannot be undone");
		}
	} else {
		ip_trace_add_selection(s->trace, ip_selections_last(&s->selections)->text);
		s->changes++;
		ip_selections_clear(&before);
	}
	return done;
}

void ip_session_serve(void *context, const struct ip_control_request *request,
		      const char *selection, int directory, struct ip_control_reply *reply,
		      char *text, size_t *text_size)
{
	struct ip_session *s = context;
	struct ip_change_result r = {0};
	_cleanup_free_ char *unused = NULL;

	if (request->flags & IP_CONTROL_SNAPSHOT) {
		reply->failed = ip_session_snapshot(s, directory, selection, request, reply) < 0;
		*text_size = snprintf(text, IP_CONTROL_TEXT_MAX, "%s",
				      reply->failed ? ip_error_message() : selection);
		return;
	}
	if (request->flags & IP_CONTROL_DESCRIBE) {
		reply->failed = ip_session_serve_description(s, directory) < 0;
		*text_size = reply->failed ? (size_t)snprintf(text, IP_CONTROL_TEXT_MAX, "%s",
							      ip_error_message())
					   : 0;
		return;
	}
	if (request->flags & IP_CONTROL_COUNTS) {
		reply->failed = ip_session_serve_counts(s) < 0;
		*text_size = reply->failed ? (size_t)snprintf(text, IP_CONTROL_TEXT_MAX, "%s",
							      ip_error_message())
					   : describe(s, NULL, text);
		return;
	}
	if (serve(s, request, selection, &r, &unused) < 0) {
		reply->failed = r.transient ? IP_CONTROL_FAILED_NOW : 1;
		*text_size = snprintf(text, IP_CONTROL_TEXT_MAX, "%s", ip_error_message());
		return;
	}
	reply->functions_added = r.functions_added;
	reply->functions_removed = r.functions_removed;
	reply->sites_added = r.sites_added;
	reply->sites_removed = r.sites_removed;
	reply->functions = r.functions;
	reply->sites = r.sites;
	reply->left_out = r.left_out;
	reply->foreign = r.foreign;
	reply->threads = r.threads;
	reply->pages = r.pages;
	reply->more_stops = r.stops.more;
	reply->more_ns = r.stops.more_ns;
	for (size_t i = 0; i < r.stops.n; i++) {
		uint64_t ns = r.stops.items[i].ns;

		if (i < IP_CONTROL_STOPS) {
			reply->failed_stops |= (uint64_t)r.stops.items[i].failed << reply->nstops;
			reply->stop_ns[reply->nstops++] = ns;
		} else {
			reply->more_stops++;
			reply->more_ns = ns > reply->more_ns ? ns : reply->more_ns;
		}
	}
	*text_size = describe(s, unused, text);
}
