/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints locks.
 */
#include "cli/wait/wait_locks.h"

#include <inttypes.h>
#include <stdio.h>

#include "analysis/wait/function_index.h"
#include "analysis/wait/locks/lock_profile.h"
#include "cli/trace_args.h"
#include "cli/wait/wait_load.h"
#include "common/json.h"
#include "common/print.h"
#include "common/units.h"

struct view {
	const struct cli_wait_options *options;
	struct cli_wait_trace t;
	struct ip_lock_profile *profile;
};

static bool is_shown(const struct view *v, const struct ip_lock_function *f)
{
	return !v->options->filter.functions ||
	       (f->function != IP_NO_FUNCTION_AT && v->t.selected[f->function]);
}

/* The next lock that is to be shown, from one on; n: there is none. */
static size_t next_lock(const struct view *v, size_t from)
{
	for (; from < v->profile->n; from++)
		for (size_t i = 0; i < v->profile->locks[from].nfunctions; i++)
			if (is_shown(v, &v->profile->locks[from].functions[i]))
				return from;
	return from;
}

static void print_sums(const struct view *v, const struct ip_lock_sums *s)
{
	char t[4][32];

	ip_print(stdout, "%8" PRIu64 " %10s %10s %8" PRIu64 " %s%10s %10s  ", s->waits,
		 ip_format_ns(cli_wait_ns(&v->t, s->wait_ticks), t[0]),
		 ip_format_ns(cli_wait_ns(&v->t, s->wait_max), t[1]), s->had,
		 s->whole < s->had ? ">" : " ",
		 ip_format_ns(cli_wait_ns(&v->t, s->had_ticks), t[2]),
		 ip_format_ns(cli_wait_ns(&v->t, s->had_max), t[3]));
}

static void json_sums(const struct view *v, struct ip_json *j, const struct ip_lock_sums *s)
{
	ip_json_uint(j, "waits", s->waits);
	ip_json_uint(j, "wait_ns", cli_wait_ns(&v->t, s->wait_ticks) + 0.5);
	ip_json_uint(j, "wait_max_ns", cli_wait_ns(&v->t, s->wait_max) + 0.5);
	ip_json_uint(j, "held", s->had);
	ip_json_uint(j, "held_ns", cli_wait_ns(&v->t, s->had_ticks) + 0.5);
	ip_json_uint(j, "held_max_ns", cli_wait_ns(&v->t, s->had_max) + 0.5);
	ip_json_uint(j, "held_whole", s->whole);
	ip_json_uint(j, "held_whole_ns", cli_wait_ns(&v->t, s->whole_ticks) + 0.5);
}

static void print_text(const struct view *v)
{
	size_t shown = 0;

	cli_wait_print_head(&v->t, v->profile->events, 0);
	for (size_t i = next_lock(v, 0); i < v->profile->n && shown < v->options->filter.limit;
	     i = next_lock(v, i + 1)) {
		const struct ip_lock *lock = &v->profile->locks[i];

		if (!shown++)
			ip_print(stdout, "%8s %10s %10s %8s  %10s %10s  LOCK\n", "WAITS", "WAITED",
				 "MAX", "HELD", "FOR", "MAX");
		print_sums(v, &lock->sums);
		ip_print(stdout, "%s %s\n", ip_wait_kind_name(lock->object.kind),
			 ip_object_name(v->t.object_names, &lock->object));
		for (size_t k = 0, n = 0; k < lock->nfunctions && n < v->options->objects; k++) {
			const struct ip_lock_function *f = &lock->functions[k];

			if (!is_shown(v, f))
				continue;
			n++;
			print_sums(v, &f->sums);
			ip_print(stdout, "  in %s\n",
				 f->function == IP_NO_FUNCTION_AT
					 ? "no function that was recorded"
					 : ip_names_shown(v->t.names, f->function));
		}
	}
	if (!shown)
		ip_print(stdout, "No lock was waited for.\n");
}

static void print_json(const struct view *v)
{
	struct ip_json j;
	size_t shown = 0;

	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	ip_json_uint(&j, "events", v->profile->events);
	ip_json_uint(&j, "lost", v->t.trace->lost);
	ip_json_uint(&j, "kernel_events", v->t.states->events);
	ip_json_uint(&j, "kernel_lost", v->t.states->lost);
	ip_json_array(&j, "locks");
	for (size_t i = next_lock(v, 0); i < v->profile->n && shown < v->options->filter.limit;
	     i = next_lock(v, i + 1)) {
		const struct ip_lock *lock = &v->profile->locks[i];

		shown++;
		ip_json_object(&j, NULL);
		ip_json_string(&j, "kind", ip_wait_kind_name(lock->object.kind));
		ip_json_string(&j, "object", ip_object_name(v->t.object_names, &lock->object));
		ip_json_uint(&j, "pid", lock->pid); /* 0: of no process alone */
		json_sums(v, &j, &lock->sums);
		ip_json_array(&j, "functions");
		for (size_t k = 0, n = 0; k < lock->nfunctions && n < v->options->objects; k++) {
			const struct ip_lock_function *f = &lock->functions[k];

			if (!is_shown(v, f))
				continue;
			n++;
			ip_json_object(&j, NULL);
			ip_json_string(&j, "function",
				       f->function == IP_NO_FUNCTION_AT
					       ? NULL
					       : ip_names_get(v->t.names, f->function));
			json_sums(v, &j, &f->sums);
			ip_json_end_object(&j);
		}
		ip_json_end_array(&j);
		ip_json_end_object(&j);
	}
	ip_json_end_array(&j);
	ip_json_end_object(&j);
}

int cli_wait_locks(const char *dir, const struct cli_wait_options *o)
{
	struct view v = {.options = o};
	int ret = cli_wait_load(dir, o, &v.t);

	if (ret == 0) {
		v.profile =
			ip_lock_profile_make(v.t.trace, v.t.states, &v.t.descriptors, &v.t.owners);
		ret = v.profile ? 0 : -1;
	}
	if (ret == 0) {
		cli_reader_warn(v.t.trace);
		if (o->json)
			print_json(&v);
		else
			print_text(&v);
		ret = cli_reader_check_stdout();
	}
	ip_lock_profile_destroy(v.profile);
	cli_wait_clear(&v.t);
	return ret;
}
