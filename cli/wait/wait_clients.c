/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the work for clients.
 */
#include "cli/wait/wait_clients.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/wait/clients/client_intervals.h"
#include "analysis/wait/clients/client_sums.h"
#include "analysis/wait/clients/value_intervals.h"
#include "cli/trace_args.h"
#include "cli/wait/wait_load.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"
#include "common/units.h"

#define NOT_NAMED "(connections that ended before they could be named)"

struct report {
	const struct cli_wait_options *options;
	struct cli_wait_trace t;
	struct ip_client_connections connections;
	struct ip_client_intervals intervals;
	struct ip_value_name *ids; /* by value: as options->values */
	struct ip_value_intervals values;
	struct ip_client_sums sums;
};

static bool by_value(const struct report *r)
{
	return r->options->by == CLI_WAIT_BY_VALUE;
}

static int read_intervals(struct report *r, const char *dir)
{
	const char *groups = r->t.trace->session->kernel_groups;
	struct ip_kernel_reader *reader = NULL;
	int got, ret;

	if (groups && !strstr(groups, "syscalls"))
		return ip_error("%s has no system calls, which tell who is served: record with "
				"--kernel=syscalls",
				dir);
	got = ip_kernel_reader_open(dir, &reader);
	if (got <= 0)
		return got < 0 ? -1 : ip_error("%s has no events of the kernel any more", dir);
	ip_client_connections_init(&r->connections, &r->t.descriptors, r->t.owners.pid_of,
				   r->t.owners.context);
	ret = ip_kernel_reader_use_jobs(reader, r->t.trace->jobs);
	if (ret == 0)
		ret = ip_client_intervals_read(reader, r->t.states, &r->connections, &r->intervals);
	ip_kernel_reader_close(reader);
	return ret;
}

/* For whom threads work by ids of requests. */
static int read_values(struct report *r)
{
	const struct cli_wait_options *o = r->options;
	bool *gives = NULL, *ends = NULL;
	int ret = cli_wait_find_idle(&r->t);

	r->ids = calloc(o->nvalues, sizeof(*r->ids));
	if (!r->ids)
		return ip_error("out of memory");
	for (size_t i = 0; ret == 0 && i < o->nvalues; i++)
		ret = ip_value_name_find(r->t.trace->session, r->t.dir, o->values[i], &r->ids[i]);
	if (ret == 0 && o->ids) {
		gives = cli_reader_select(r->t.trace, o->ids);
		ret = gives ? 0 : -1;
	}
	if (ret == 0 && o->ends) {
		ends = cli_reader_select(r->t.trace, o->ends);
		ret = ends ? 0 : -1;
	}
	if (ret == 0) {
		const struct ip_value_intervals_options options = {r->ids, o->nvalues, gives, ends,
								   &r->t.idle};

		ret = ip_value_intervals_read(r->t.trace, &options, &r->values);
	}
	free(gives);
	free(ends);
	return ret;
}

static int make_sums(struct report *r)
{
	const struct ip_client_names names = {
		.texts =
			by_value(r) ? (const char *const *)r->values.texts : r->connections.clients,
		.n = by_value(r) ? r->values.n : r->connections.nclients,
		.naming = by_value(r)				 ? IP_CLIENT_EACH
			  : r->options->by == CLI_WAIT_BY_CLIENT ? IP_CLIENT_OTHER_END
								 : IP_CLIENT_OTHER_END_AND_PORT,
		.pid_of = r->t.owners.pid_of,
		.context = r->t.owners.context};

	return ip_client_sums_make(r->t.trace, r->t.states,
				   by_value(r) ? &r->values.intervals : &r->intervals, &names,
				   &r->sums);
}

/* Whether it is a socket of datagrams, by its name, which is whole then. */
static bool is_datagrams(const struct report *r, const struct ip_client_sum *c)
{
	return !by_value(r) && c->name &&
	       ip_client_connections_is_datagram(&r->connections, c->name);
}

static uint64_t blocked(const struct ip_wait_parts *p)
{
	return p->elapsed - p->cpu - p->runqueue - p->unknown;
}

/* The functions of a client that are wanted, in order; next: where they begin, and where they end.
 * Returns NULL behind the last one. */
static const struct ip_client_function *next_function(const struct report *r, uint32_t client,
						      size_t *next, size_t *shown)
{
	const struct ip_client_sums *s = &r->sums;

	while (*next < s->nfunctions && s->functions[*next].client == client) {
		const struct ip_client_function *f = &s->functions[(*next)++];

		if (r->t.selected[f->function] && (*shown)++ < r->options->objects)
			return f;
	}
	return NULL;
}

static void print_json(struct report *r)
{
	const struct ip_client_function *f;
	struct ip_json j;
	size_t next = 0, shown;

	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	ip_json_uint(&j, "events", r->sums.events);
	ip_json_uint(&j, "lost", r->t.trace->lost);
	ip_json_uint(&j, "kernel_events", r->t.states->events);
	ip_json_uint(&j, "kernel_lost", r->t.states->lost);
	ip_json_uint(&j, "nobody_cpu_ns", cli_wait_ns(&r->t, r->sums.nobody) + 0.5);
	ip_json_array(&j, by_value(r) ? "values" : "clients");
	for (uint32_t i = 0; i < r->sums.n && i < r->options->filter.limit; i++) {
		const struct ip_client_sum *c = &r->sums.clients[i];

		ip_json_object(&j, NULL);
		if (by_value(r)) {
			ip_value_key_json(&j, "value", &r->values.keys[c->number]);
			ip_json_string(&j, "is", ip_value_key_is(&r->values.keys[c->number]));
			ip_json_uint(&j, "times", c->requests);
			ip_json_uint(&j, "from_ns",
				     ip_recording_since_start(r->t.trace->session, c->from));
			ip_json_uint(&j, "to_ns",
				     ip_recording_since_start(r->t.trace->session, c->to));
		} else {
			ip_json_string(&j, "client", c->name);
			ip_json_uint(&j, "connections", c->connections);
			ip_json_uint(&j, "requests", c->requests);
			ip_json_bool(&j, "datagrams", is_datagrams(r, c));
		}
		ip_json_uint(&j, "elapsed_ns", cli_wait_ns(&r->t, c->parts.elapsed) + 0.5);
		ip_json_uint(&j, "cpu_ns", cli_wait_ns(&r->t, c->parts.cpu) + 0.5);
		ip_json_uint(&j, "runqueue_ns", cli_wait_ns(&r->t, c->parts.runqueue) + 0.5);
		ip_json_uint(&j, "blocked_ns", cli_wait_ns(&r->t, blocked(&c->parts)) + 0.5);
		ip_json_uint(&j, "unknown_ns", cli_wait_ns(&r->t, c->parts.unknown) + 0.5);
		ip_json_array(&j, "functions");
		for (shown = 0; (f = next_function(r, i, &next, &shown));) {
			ip_json_object(&j, NULL);
			ip_json_string(&j, "function", ip_names_get(r->t.names, f->function));
			ip_json_uint(&j, "cpu_ns", cli_wait_ns(&r->t, f->cpu) + 0.5);
			ip_json_uint(&j, "elapsed_ns", cli_wait_ns(&r->t, f->elapsed) + 0.5);
			ip_json_end_object(&j);
		}
		ip_json_end_array(&j);
		ip_json_end_object(&j);
	}
	ip_json_end_array(&j);
	ip_json_end_object(&j);
}

static void print_text(struct report *r)
{
	const struct ip_client_function *f;
	char t[5][32];
	size_t next = 0, shown;

	cli_wait_print_head(&r->t, r->sums.events, 0);
	if (r->sums.n)
		cli_wait_print_columns(by_value(r) ? "TIMES" : "REQUESTS",
				       by_value(r) ? r->options->values[0] : "CLIENT", false);
	else if (by_value(r))
		ip_print(stdout, "No thread worked for a request: no point and no call has such a "
				 "value.\n");
	else
		ip_print(stdout, "No thread worked for a client: none read from a connection that "
				 "was accepted.\n");
	for (uint32_t i = 0; i < r->sums.n && i < r->options->filter.limit; i++) {
		const struct ip_client_sum *c = &r->sums.clients[i];
		const struct ip_wait_parts *p = &c->parts;

		ip_print(stdout, "%10" PRIu64 " %10s %10s %10s %10s %10s  %s", c->requests,
			 ip_format_ns(cli_wait_ns(&r->t, p->elapsed), t[0]),
			 ip_format_ns(cli_wait_ns(&r->t, p->cpu), t[1]),
			 ip_format_ns(cli_wait_ns(&r->t, p->runqueue), t[2]),
			 ip_format_ns(cli_wait_ns(&r->t, blocked(p)), t[3]),
			 ip_format_ns(cli_wait_ns(&r->t, p->unknown), t[4]),
			 c->name ? c->name : NOT_NAMED);
		if (c->connections > 1)
			ip_print(stdout, " (%" PRIu64 " connections)", c->connections);
		ip_print(stdout, "\n");
		for (shown = 0; (f = next_function(r, i, &next, &shown));)
			ip_print(stdout, "%21s %10s %32s  %s\n",
				 ip_format_ns(cli_wait_ns(&r->t, f->elapsed), t[0]),
				 ip_format_ns(cli_wait_ns(&r->t, f->cpu), t[1]), "",
				 ip_names_shown(r->t.names, f->function));
	}
	for (uint32_t i = 0; i < r->sums.n; i++)
		if (is_datagrams(r, &r->sums.clients[i])) {
			ip_print(stdout, "\nDatagrams count for the socket that received them: the "
					 "kernel's events do not have their senders.\n");
			break;
		}
	ip_print(stdout, "\n%s of CPU time was for no %s\n",
		 ip_format_ns(cli_wait_ns(&r->t, r->sums.nobody), t[0]),
		 by_value(r) ? "request" : "client");
}

int cli_wait_clients(const char *dir, const struct cli_wait_options *o)
{
	struct report r = {.options = o};
	int ret = cli_wait_load(dir, o, &r.t);

	if (ret == 0)
		ret = by_value(&r) ? read_values(&r) : read_intervals(&r, dir);
	if (ret == 0)
		ret = make_sums(&r);
	if (ret == 0) {
		cli_reader_warn(r.t.trace);
		if (o->json)
			print_json(&r);
		else
			print_text(&r);
		ret = cli_reader_check_stdout();
	}
	ip_client_sums_clear(&r.sums);
	ip_client_intervals_clear(&r.intervals);
	ip_value_intervals_clear(&r.values);
	for (size_t i = 0; r.ids && i < o->nvalues; i++)
		ip_value_name_clear(&r.ids[i]);
	free(r.ids);
	ip_client_connections_clear(&r.connections);
	cli_wait_clear(&r.t);
	return ret;
}
