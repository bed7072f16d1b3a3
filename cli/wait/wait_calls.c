/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slowest calls, and the chains of what they waited for.
 */
#include "cli/wait/wait_calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/call_values.h"
#include "cli/elide.h"
#include "cli/filter/filter_check.h"
#include "cli/trace_args.h"
#include "cli/wait/call_parts.h"
#include "cli/wait/cpu_user.h"
#include "cli/wait/wait_chain_print.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"
#include "common/units.h"

#define BESIDE	 40u /* columns that the line of a call has beside the call itself, about */
#define TEXT_MIN 24u

static const char *function_name(const struct cli_call_trace *x, uint32_t function)
{
	return function == IP_NO_FUNCTION_AT ? NULL : ip_names_shown(x->trace.names, function);
}

static void print_what(const struct cli_call_trace *x, const struct cli_call_part *p)
{
	switch ((enum ip_thread_state)p->state) {
	case IP_THREAD_RUNNING:
		ip_print(stdout, "on a CPU");
		break;
	case IP_THREAD_RUNNABLE:
		ip_print(stdout, "waiting for a CPU");
		break;
	case IP_THREAD_BLOCKED:
		ip_print(stdout, "blocked on %s %s", ip_wait_kind_name(p->object.kind),
			 ip_object_name(x->trace.object_names, &p->object));
		break;
	default:
		ip_print(stdout, "not known");
	}
}

static void print_part(const struct cli_call_trace *x, const struct cli_call_part *p)
{
	char time[32];

	ip_print(stdout, p->own ? "  %10s  " : "              %10s  ",
		 ip_format_ns(cli_wait_ns(&x->trace, p->ticks), time));
	if (!p->own) {
		cli_wait_print_thread(p->thread);
		ip_print(stdout, " ");
	}
	print_what(x, p);
	if (p->count > 1)
		ip_print(stdout, " (%" PRIu64 " times)", p->count);
	if (!p->own && function_name(x, p->function))
		ip_print(stdout, " in %s", function_name(x, p->function));
	if (p->state == IP_THREAD_RUNNABLE && p->thread)
		cli_wait_print_cpu_user(&x->trace, p->thread, p->at, p->longest, p->count);
	if (p->own && p->holder) {
		ip_print(stdout, p->is_lock ? ", held by " : ", ended by ");
		cli_wait_print_thread(p->holder);
		if (function_name(x, p->holder_function))
			ip_print(stdout, " in %s", function_name(x, p->holder_function));
	}
	ip_print(stdout, "\n");
}

static double since_start(const struct cli_call_trace *x, uint64_t tsc)
{
	const uint64_t start = x->trace.trace->session->tsc_start;

	return tsc > start ? cli_wait_ns(&x->trace, tsc - start) : 0;
}

/* The call with its values: handle_request(uri="/a") = 0. */
static char *call_text(const struct cli_call_trace *x, const struct cli_wait_call *c)
{
	char *text = cli_call_text(x->trace.trace->session,
				   ip_names_shown(x->trace.names, c->call->function), c->call);

	if (text)
		cli_cut_text(text, cli_name_width(BESIDE, TEXT_MIN));
	else
		ip_error("out of memory");
	return text;
}

static int print_call(const struct cli_call_trace *x, const struct cli_wait_call *c)
{
	_cleanup_free_ char *text = call_text(x, c);
	_cleanup_free_ struct cli_call_part **sorted = cli_call_parts_sort(c);
	char time[32], at[32];

	if (!text || !sorted)
		return -1;
	if (c->chain.n) {
		/* a result is not to be read as one with the time */
		ip_print(stdout, "%s%s %s:", text,
			 ip_recording_signature(x->trace.trace->session, c->call->result) ? ","
											  : "",
			 ip_format_ns(cli_wait_ns(&x->trace, c->call->ticks), time));
		if (cli_wait_chain_print(&x->trace, x->functions, &c->chain) < 0)
			return -1;
		ip_print(stdout, "\n");
	}
	ip_print(stdout, "%s: %s in thread %u", text,
		 ip_format_ns(cli_wait_ns(&x->trace, c->call->ticks), time), c->tid);
	if (c->thread && *c->thread->name)
		ip_print(stdout, " (%s)", c->thread->name);
	ip_print(stdout, ", %s after the start%s\n",
		 ip_format_ns(since_start(x, c->call->start), at),
		 c->call->how == IP_END_UNFINISHED ? "; it had not finished" : "");
	for (size_t i = 0; i < c->nparts; i++) {
		if (!sorted[i]->own)
			continue;
		print_part(x, sorted[i]);
		for (size_t k = 0, n = 0; k < c->nparts && n < x->trace.options->objects; k++)
			if (!sorted[k]->own && &c->parts[sorted[k]->because] == sorted[i]) {
				print_part(x, sorted[k]);
				n++;
			}
	}
	ip_print(stdout, "\n");
	return 0;
}

static void json_thread(struct ip_json *j, const char *key, const struct cli_call_trace *x,
			const struct ip_thread_states *t, uint32_t function)
{
	ip_json_object(j, key);
	ip_json_int(j, "tid", t->tid);
	ip_json_string(j, "thread", t->name);
	ip_json_string(j, "function",
		       function == IP_NO_FUNCTION_AT ? NULL
						     : ip_names_get(x->trace.names, function));
	ip_json_end_object(j);
}

static void json_object(struct ip_json *j, const struct cli_call_trace *x,
			const struct ip_wait_object *o)
{
	ip_json_string(j, "kind", ip_wait_kind_name(o->kind));
	ip_json_string(j, "object", ip_object_name(x->trace.object_names, o));
}

static void json_because(struct ip_json *j, const struct cli_call_trace *x,
			 const struct cli_wait_call *c, struct cli_call_part **sorted,
			 const struct cli_call_part *own)
{
	ip_json_array(j, "because");
	for (size_t k = 0; k < c->nparts; k++) {
		const struct cli_call_part *p = sorted[k];

		if (p->own || &c->parts[p->because] != own)
			continue;
		ip_json_object(j, NULL);
		ip_json_int(j, "tid", p->thread->tid);
		ip_json_string(j, "thread", p->thread->name);
		ip_json_string(j, "function",
			       p->function == IP_NO_FUNCTION_AT
				       ? NULL
				       : ip_names_get(x->trace.names, p->function));
		ip_json_string(j, "state", cli_wait_state_name(p->state));
		if (p->state == IP_THREAD_BLOCKED)
			json_object(j, x, &p->object);
		ip_json_uint(j, "ns", cli_wait_ns(&x->trace, p->ticks) + 0.5);
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
}

static void json_path(struct ip_json *j, const struct cli_call_trace *x,
		      const struct cli_wait_call *c)
{
	ip_json_array(j, "critical_path");
	for (size_t i = 0; i < c->nsteps; i++) {
		const struct ip_path_step *s = &c->steps[i];
		struct ip_wait_object o;

		ip_json_object(j, NULL);
		ip_json_uint(j, "from_ns", since_start(x, s->from) + 0.5);
		ip_json_uint(j, "to_ns", since_start(x, s->to) + 0.5);
		ip_json_int(j, "tid", s->thread->tid);
		ip_json_string(j, "thread", s->thread->name);
		ip_json_string(j, "state", cli_wait_state_name(s->state));
		if (s->state == IP_THREAD_BLOCKED) {
			ip_wait_object_of_thread(&s->thread->waits[s->wait], &x->trace.descriptors,
						 &x->trace.owners, s->thread->tid, s->from, &o);
			json_object(j, x, &o);
		}
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
}

static int json_call(struct ip_json *j, const struct cli_call_trace *x,
		     const struct cli_wait_call *c)
{
	uint64_t sums[IP_THREAD_GONE + 1] = {0};
	struct cli_call_part **sorted = cli_call_parts_sort(c);

	if (!sorted)
		return -1;
	for (size_t i = 0; i < c->nparts; i++)
		if (c->parts[i].own)
			sums[c->parts[i].state] += c->parts[i].ticks;
	ip_json_object(j, NULL);
	ip_json_string(j, "function", ip_names_get(x->trace.names, c->call->function));
	ip_json_uint(j, "tid", c->tid);
	ip_json_string(j, "thread", c->thread ? c->thread->name : NULL);
	cli_call_values_json(j, x->trace.trace->session, c->call);
	ip_json_uint(j, "from_ns", since_start(x, c->call->start) + 0.5);
	ip_json_uint(j, "elapsed_ns", cli_wait_ns(&x->trace, c->call->ticks) + 0.5);
	ip_json_uint(j, "cpu_ns", cli_wait_ns(&x->trace, sums[IP_THREAD_RUNNING]) + 0.5);
	ip_json_uint(j, "runqueue_ns", cli_wait_ns(&x->trace, sums[IP_THREAD_RUNNABLE]) + 0.5);
	ip_json_uint(j, "unknown_ns", cli_wait_ns(&x->trace, sums[IP_THREAD_UNKNOWN]) + 0.5);
	ip_json_array(j, "blocked");
	for (size_t i = 0; i < c->nparts; i++) {
		const struct cli_call_part *p = sorted[i];

		if (!p->own || p->state != IP_THREAD_BLOCKED)
			continue;
		ip_json_object(j, NULL);
		json_object(j, x, &p->object);
		ip_json_uint(j, "ns", cli_wait_ns(&x->trace, p->ticks) + 0.5);
		ip_json_uint(j, "count", p->count);
		if (p->holder)
			json_thread(j, "holder", x, p->holder, p->holder_function);
		json_because(j, x, c, sorted, p);
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
	json_path(j, x, c);
	free(sorted);
	if (cli_wait_chain_json(&x->trace, x->functions, &c->chain, j) < 0)
		return -1;
	ip_json_end_object(j);
	return 0;
}

static int print_all(struct cli_call_trace *x, const struct ip_slowest *found)
{
	const struct cli_wait_options *o = x->trace.options;
	struct ip_json j;
	int ret = 0;

	if (o->json) {
		ip_json_init(&j, stdout);
		ip_json_object(&j, NULL);
		ip_json_uint(&j, "kernel_lost", x->trace.states->lost);
		ip_json_array(&j, "calls");
	} else {
		cli_wait_print_head(&x->trace, found->events, 0);
	}
	for (size_t i = 0; ret == 0 && i < found->n; i++) {
		struct cli_wait_call c;

		ret = cli_call_parts_find(x, &found->calls[i], &c);
		if (ret == 0)
			ret = o->json ? json_call(&j, x, &c) : print_call(x, &c);
		cli_call_parts_clear(&c);
	}
	if (o->json) {
		ip_json_end_array(&j);
		ip_json_end_object(&j);
	} else if (!found->n) {
		ip_print(stdout, o->filter.matches.n ? "No call of it has such values.\n"
						     : "No call of it was recorded.\n");
	}
	return ret;
}

int cli_wait_calls(const char *dir, struct cli_wait_options *o)
{
	struct cli_call_trace x = {0};
	struct ip_slowest *found = NULL;
	struct ip_slowest_options wanted = {
		.n = o->slowest, .by = IP_SLOWEST_BY_DURATION, .matches = &o->filter.matches};
	int ret = cli_wait_load(dir, o, &x.trace);

	if (ret == 0)
		ret = ip_value_matches_find(&o->filter.matches, x.trace.trace->session, dir);
	if (ret == 0) {
		wanted.selected = x.trace.selected;
		x.functions = ip_function_index_create(x.trace.trace);
		ret = x.functions ? ip_slowest_find(x.trace.trace, &wanted, &found) : -1;
	}
	if (ret == 0) {
		cli_reader_warn(x.trace.trace);
		if (!found->n && o->filter.matches.n)
			cli_filter_warn_no_calls(x.trace.trace, &o->filter, found->events,
						 found->chosen_points);
		ret = print_all(&x, found);
	}
	if (ret == 0)
		ret = cli_reader_check_stdout();
	ip_slowest_destroy(found);
	ip_function_index_destroy(x.functions);
	cli_wait_clear(&x.trace);
	return ret;
}
