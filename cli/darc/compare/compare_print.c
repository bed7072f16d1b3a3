/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints how slow calls differ from a usual one.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/call_values.h"
#include "cli/darc/compare/compare_calls.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"
#include "common/units.h"

#define PARTS_SHOWN 3u
#define PART_SHARE  0.05 /* of the difference of a node: less is not shown */
#define NODE_SHARE  0.005

static struct cli_darc darc_of(const struct cli_compare_calls *c)
{
	return (struct cli_darc){.search = &c->trace->search,
				 .profile = &c->trace->search,
				 .names = c->trace->names,
				 .places = c->trace->places,
				 .waits = c->trace->waits};
}

/* What a slow call and the usual one did in each node. *ret: NULL without events of the kernel. */
static int find_waits(const struct cli_compare_calls *c, const struct ip_darc_operation *slow,
		      struct ip_cause_waits **ret)
{
	*ret = NULL;
	return c->trace->waits
		       ? ip_node_waits_find(c->trace->trace,
					    (struct ip_ftree *)&c->trace->search.ftree,
					    c->options->depth, slow, c->usual, c->trace->waits, ret)
		       : 0;
}

static uint32_t tid_of(const struct cli_compare_calls *c, const struct ip_darc_operation *o)
{
	return c->trace->trace->runs[o->run].tid;
}

static uint64_t since_start(const struct cli_compare_calls *c, const struct ip_darc_operation *o)
{
	return ip_recording_since_start(c->trace->trace->session, o->start);
}

static uint64_t ns_of(const struct cli_compare_calls *c, uint64_t ticks)
{
	return ip_recording_ns(c->trace->trace->session, ticks);
}

/* A call of F0 with its values. number: of values. */
static struct ip_slow_call with_values(const struct cli_compare_calls *c, size_t number)
{
	const struct ip_node_value *v = ip_node_values_find(&c->values[number], 0);

	return (struct ip_slow_call){.args = v && v->args.size ? v->args.words : NULL,
				     .result = v && v->result.size ? v->result.words : NULL};
}

/* The call with its values: handle_request(uri="/a") = 0. NULL with an error. number: of values. */
static char *call_text(const struct cli_compare_calls *c, size_t number)
{
	const struct ip_slow_call call = with_values(c, number);
	char *text = cli_call_text(
		c->trace->trace->session,
		ip_names_shown(c->trace->names, c->trace->search.ftree.nodes[0].function), &call);

	if (!text)
		ip_error("out of memory");
	return text;
}

/* A difference with its sign. */
static const char *signed_ns(const struct cli_darc *d, double ticks, char buffer[24])
{
	char time[16];

	snprintf(buffer, 24, "%c%s", ticks < 0 ? '-' : '+',
		 ip_format_ns(cli_darc_ns(d, fabs(ticks)), time));
	return buffer;
}

static void print_parts(const struct cli_darc *d, const struct ip_cause_waits *w, double difference)
{
	char time[24];

	for (size_t i = 0, shown = 0; i < w->n && shown < PARTS_SHOWN; i++) {
		const struct ip_cause_part *p = &w->parts[i];
		const double x = (double)p->ticks - (double)p->reference_ticks;

		if (x * difference <= 0 || fabs(x) < PART_SHARE * fabs(difference))
			continue;
		ip_print(stdout, "%10s %33s  ", signed_ns(d, x, time), "");
		cli_darc_print_part(stdout, d, p);
		ip_print(stdout, "\n");
		shown++;
	}
}

/* The values that differ, below the line of a node. */
static int print_values(const struct cli_compare_calls *c, size_t number,
			const struct cli_compare_node *node)
{
	const struct cli_compare_values values = cli_compare_values_of(c, number, node->node);
	_cleanup_free_ char *text = cli_compare_values_text(&values);

	if (!text)
		return -1;
	if (*text)
		ip_print(stdout, "%46s%s%s\n", "", text,
			 node->slow_calls > 1 || node->usual_calls > 1 ? " (of the longest call)"
								       : "");
	return 0;
}

static int print_path(const struct cli_darc *d, uint32_t node)
{
	size_t n;
	_cleanup_free_ uint32_t *path = cli_darc_path(d, node, &n);

	if (!path)
		return -1;
	for (size_t i = 0; i < n; i++)
		ip_print(stdout, "%s%s", i ? " > " : "",
			 ip_names_shown(d->names, d->search->ftree.nodes[path[i]].function));
	ip_print(stdout, "\n");
	return 0;
}

static int print_call(const struct cli_compare_calls *c, size_t number)
{
	const struct ip_darc_operation *slow = c->slow[number];
	const struct cli_darc d = darc_of(c);
	_cleanup_free_ char *text = call_text(c, number);
	const double all = (double)slow->ticks - (double)c->usual->ticks;
	_cleanup_free_ struct cli_compare_node *nodes = NULL;
	struct ip_cause_waits *waits = NULL;
	char time[24], usual[16], at[16];
	size_t n = 0;
	int ret;

	if (!text)
		return -1;
	ip_print(stdout,
		 "%s in thread %u, %s after the start, took %s: %s longer than usually\n"
		 "%10s %10s %10s %11s  %s\n",
		 text, tid_of(c, slow), ip_format_ns(since_start(c, slow), at),
		 ip_format_ns(cli_darc_ns(&d, slow->ticks), time),
		 ip_format_ns(cli_darc_ns(&d, all), usual), "DIFFERENCE", "THIS CALL", "USUALLY",
		 "CALLS", "CALL PATH, ITSELF");
	ret = find_waits(c, slow, &waits);
	nodes = ret == 0 ? cli_compare_nodes(c, slow, &n) : NULL;
	ret = nodes ? 0 : -1;
	for (size_t i = 0; ret == 0 && i < n && i < c->options->filter->limit; i++) {
		const double x = (double)nodes[i].slow - (double)nodes[i].usual;
		char calls[32];

		if (i && fabs(x) < NODE_SHARE * fabs(all))
			break;
		if (nodes[i].slow_calls == nodes[i].usual_calls)
			snprintf(calls, sizeof(calls), "%" PRIu64, nodes[i].slow_calls);
		else
			snprintf(calls, sizeof(calls), "%" PRIu64 "/%" PRIu64, nodes[i].slow_calls,
				 nodes[i].usual_calls);
		ip_print(stdout, "%10s ", signed_ns(&d, x, time));
		ip_print(stdout, "%10s %10s %11s  ",
			 ip_format_ns(cli_darc_ns(&d, nodes[i].slow), at),
			 ip_format_ns(cli_darc_ns(&d, nodes[i].usual), usual), calls);
		ret = print_path(&d, nodes[i].node);
		if (ret == 0)
			ret = print_values(c, number, &nodes[i]);
		if (ret == 0 && waits)
			print_parts(&d, &waits[nodes[i].node], x);
	}
	ip_print(stdout, "\n");
	ip_cause_waits_destroy(waits, d.search->ftree.n);
	return ret;
}

static bool has_values(const struct cli_compare_calls *c)
{
	return ip_node_values_find(&c->values[c->nslow], 0) != NULL;
}

int cli_compare_text(const struct cli_compare_calls *c)
{
	const struct cli_darc d = darc_of(c);
	_cleanup_free_ char *usual = call_text(c, c->nslow);
	char count[32], time[16], at[16];
	int ret = 0;

	if (!usual)
		return -1;
	ip_print(stdout,
		 "%s: %s calls; the usual one: %s%s%s, in thread %u, %s after the start\n\n",
		 ip_names_shown(d.names, d.search->ftree.nodes[0].function),
		 ip_format_count(d.search->latencies.bins.count, count), has_values(c) ? usual : "",
		 has_values(c) ? ", " : "", ip_format_ns(cli_darc_ns(&d, c->usual->ticks), time),
		 tid_of(c, c->usual), ip_format_ns(since_start(c, c->usual), at));
	for (size_t i = 0; ret == 0 && i < c->nslow; i++)
		ret = print_call(c, i);
	if (ret == 0 && !c->trace->waits)
		ip_print(stdout, "The trace has no events of the kernel (--kernel): whether the "
				 "threads ran or waited is not known.\n");
	return ret;
}

/* number: of values. */
static void json_call(struct ip_json *j, const char *key, const struct cli_compare_calls *c,
		      const struct ip_darc_operation *o, size_t number)
{
	const struct ip_slow_call call = with_values(c, number);

	ip_json_object(j, key);
	ip_json_uint(j, "duration_ns", ns_of(c, o->ticks));
	ip_json_uint(j, "ts", since_start(c, o));
	ip_json_uint(j, "tid", tid_of(c, o));
	cli_call_values_json(j, c->trace->trace->session, &call);
	ip_json_end_object(j);
}

static int64_t difference(const struct cli_compare_calls *c, uint64_t slow, uint64_t usual)
{
	return (int64_t)ns_of(c, slow) - (int64_t)ns_of(c, usual);
}

static int json_parts(struct ip_json *j, const struct cli_compare_calls *c,
		      const struct ip_cause_waits *w)
{
	const struct cli_darc d = darc_of(c);

	ip_json_array(j, "parts");
	for (size_t i = 0; i < w->n; i++) {
		const struct ip_cause_part *p = &w->parts[i];

		ip_json_object(j, NULL);
		ip_json_string(j, "kind", ip_cause_kind_name(p->kind));
		if (cli_darc_json_object(j, &d, p) < 0)
			return -1;
		cli_darc_json_who(j, &d, p);
		ip_json_uint(j, "slow_ns", ns_of(c, p->ticks));
		ip_json_uint(j, "usual_ns", ns_of(c, p->reference_ticks));
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
	return 0;
}

static int json_node(struct ip_json *j, const struct cli_compare_calls *c,
		     const struct cli_compare_node *node)
{
	const struct cli_darc d = darc_of(c);
	size_t n;
	_cleanup_free_ uint32_t *path = cli_darc_path(&d, node->node, &n);

	if (!path)
		return -1;
	ip_json_uint(j, "node", node->node);
	ip_json_array(j, "path");
	for (size_t i = 0; i < n; i++)
		ip_json_string(j, NULL,
			       ip_names_get(d.names, d.search->ftree.nodes[path[i]].function));
	ip_json_end_array(j);
	ip_json_int(j, "difference_ns", difference(c, node->slow, node->usual));
	ip_json_uint(j, "slow_ns", ns_of(c, node->slow));
	ip_json_uint(j, "usual_ns", ns_of(c, node->usual));
	ip_json_uint(j, "slow_calls", node->slow_calls);
	ip_json_uint(j, "usual_calls", node->usual_calls);
	return 0;
}

static int json_comparison(struct ip_json *j, const struct cli_compare_calls *c, size_t number)
{
	const struct ip_darc_operation *slow = c->slow[number];
	_cleanup_free_ struct cli_compare_node *nodes = NULL;
	struct ip_cause_waits *waits = NULL;
	int ret = find_waits(c, slow, &waits);
	size_t n = 0;

	nodes = ret == 0 ? cli_compare_nodes(c, slow, &n) : NULL;
	ret = nodes ? 0 : -1;
	ip_json_object(j, NULL);
	json_call(j, "slow", c, slow, number);
	ip_json_int(j, "difference_ns", difference(c, slow->ticks, c->usual->ticks));
	if (c->values[number].left_out || c->values[c->nslow].left_out)
		ip_json_bool(j, "values_left_out", true);
	ip_json_array(j, "nodes");
	for (size_t i = 0; ret == 0 && i < n && i < c->options->filter->limit; i++) {
		const struct cli_compare_values values =
			cli_compare_values_of(c, number, nodes[i].node);

		ip_json_object(j, NULL);
		ret = json_node(j, c, &nodes[i]);
		if (ret == 0)
			ret = cli_compare_values_json(j, &values);
		if (ret == 0 && waits)
			ret = json_parts(j, c, &waits[nodes[i].node]);
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
	ip_json_end_object(j);
	ip_cause_waits_destroy(waits, c->trace->search.ftree.n);
	return ret;
}

int cli_compare_json(const struct cli_compare_calls *c)
{
	struct ip_json j;

	ip_json_init(&j, stdout);
	return cli_compare_json_put(&j, NULL, c);
}

int cli_compare_json_put(struct ip_json *j, const char *key, const struct cli_compare_calls *c)
{
	const struct cli_darc d = darc_of(c);
	const struct ip_recording_function *f =
		&d.search->session->functions[d.search->ftree.nodes[0].function];
	int ret = 0;

	ip_json_object(j, key);
	ip_json_string(j, "function", ip_names_get(d.names, d.search->ftree.nodes[0].function));
	ip_json_string(j, "module", ip_recording_module_name(d.search->session, f));
	ip_json_uint(j, "events", d.search->latencies.events);
	ip_json_uint(j, "lost", c->trace->trace->lost);
	ip_json_bool(j, "kernel", c->trace->waits != NULL);
	ip_json_uint(j, "calls", d.search->latencies.bins.count);
	json_call(j, "usual", c, c->usual, c->nslow);
	ip_json_array(j, "comparisons");
	for (size_t i = 0; ret == 0 && i < c->nslow; i++)
		ret = json_comparison(j, c, i);
	ip_json_end_array(j);
	ip_json_end_object(j);
	return ret;
}
