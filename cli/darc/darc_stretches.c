/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints in which stretches a function takes the time that is a root cause.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/darc/darc.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"
#include "common/units.h"

#define SHOWN 4u
#define SHARE 0.05 /* of what the cause is slower by: less is not shown */

static const struct ip_stretches *stretches_of(const struct cli_darc *d, size_t cause)
{
	const struct ip_stretches *s = d->stretches ? &d->stretches[cause] : NULL;

	return s && s->calls && s->n ? s : NULL;
}

static double excess_of(const struct ip_stretch *s)
{
	return s->ticks - s->reference_ticks;
}

/* How many of the stretches are shown. A loop may take the time: then there may be none. */
static size_t count_shown(const struct cli_darc *d, size_t cause, const struct ip_stretches *s)
{
	const struct ip_darc_loop *l = &d->search->causes.items[cause].loop;
	double all = l->node == IP_FTREE_NONE ? 0 : fmax(0, l->ticks - l->reference_ticks);
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++)
		all += fmax(0, excess_of(&s->items[i]));
	while (n < s->n && n < SHOWN && excess_of(&s->items[n]) > 0 &&
	       excess_of(&s->items[n]) >= SHARE * all)
		n++;
	return n;
}

/* Where a callee is called; *ret NULL: that is not known. Returns 0, or -1 with an error. */
static int place_text(const struct cli_darc *d, uint32_t node, char **ret)
{
	const struct ip_place *place = cli_darc_place(d, node);

	*ret = place ? ip_place_text(place) : NULL;
	return place && !*ret ? ip_error("out of memory") : 0;
}

/* One end of a stretch. Returns whether it is a callee whose place is not known; -1 with an error.
 */
static int print_end(const struct cli_darc *d, uint32_t cause, uint32_t node, bool entry)
{
	const struct ip_ftree_node *nodes = d->search->ftree.nodes;
	const struct ip_recording_function *f =
		&d->search->session->functions[nodes[cause].function];
	const char *slash = f->file ? strrchr(f->file, '/') : NULL;
	_cleanup_free_ char *at = NULL;

	if (node == IP_FTREE_NONE) {
		ip_print(stdout, entry ? "its entry" : "its exit");
		if (entry && slash && f->line)
			ip_print(stdout, " (%s:%u)", slash + 1, f->line);
		else if (entry && f->file && f->line)
			ip_print(stdout, " (%s:%u)", f->file, f->line);
		return 0;
	}
	if (place_text(d, node, &at) < 0)
		return -1;
	ip_print(stdout, "the %s of %s", entry ? "end" : "call",
		 ip_names_shown(d->names, nodes[node].function));
	if (at)
		ip_print(stdout, " (%s)", at);
	return !at;
}

int cli_darc_print_stretches(const struct cli_darc *d, size_t cause, int indent)
{
	const struct ip_stretches *s = stretches_of(d, cause);
	const uint32_t node = d->search->causes.items[cause].node;
	const size_t shown = s ? count_shown(d, cause, s) : 0;
	char time[16], usual[16];
	int unknown = 0;

	if (!shown)
		return 0;
	if (s->n == 1 && s->items[0].from == s->items[0].to && s->items[0].to == IP_FTREE_NONE) {
		ip_print(stdout,
			 "%*sit calls nothing that was recorded: it cannot be narrowed down "
			 "further\n",
			 indent, "");
		return 0;
	}
	for (size_t i = 0; i < shown; i++) {
		const struct ip_stretch *x = &s->items[i];
		int from, to;

		ip_print(stdout, "%*s%9s", indent, "",
			 ip_format_ns(cli_darc_ns(d, x->ticks), time));
		if (d->search->ranges[1].most)
			ip_print(stdout, ", usually %s,",
				 ip_format_ns(cli_darc_ns(d, x->reference_ticks), usual));
		ip_print(stdout, " from ");
		from = print_end(d, node, x->from, true);
		ip_print(stdout, " to ");
		to = from < 0 ? -1 : print_end(d, node, x->to, false);
		if (from < 0 || to < 0)
			return -1;
		unknown |= from | to;
		if (x->times >= 1.5)
			ip_print(stdout, "; %.0f times", x->times);
		ip_print(stdout, "\n");
	}
	ip_print(stdout,
		 "%*sno call that was recorded lies in there: it cannot be narrowed down "
		 "further%s\n",
		 indent, "", unknown ? " (--callsite of a recording tells the places)" : "");
	return 0;
}

static int json_end(struct ip_json *j, const struct cli_darc *d, const char *key, uint32_t node)
{
	_cleanup_free_ char *at = NULL;

	if (node == IP_FTREE_NONE) {
		ip_json_string(j, key, NULL);
		return 0;
	}
	if (place_text(d, node, &at) < 0)
		return -1;
	ip_json_object(j, key);
	ip_json_uint(j, "node", node);
	ip_json_string(j, "function",
		       ip_names_get(d->names, d->search->ftree.nodes[node].function));
	ip_json_string(j, "call_site", at);
	ip_json_end_object(j);
	return 0;
}

static uint64_t ns_of(const struct cli_darc *d, double ticks)
{
	return ticks > 0 ? (uint64_t)(cli_darc_ns(d, ticks) + 0.5) : 0;
}

int cli_darc_json_stretches(struct ip_json *j, const struct cli_darc *d, size_t cause)
{
	const struct ip_stretches *s = stretches_of(d, cause);

	if (!s)
		return 0;
	ip_json_array(j, "stretches");
	for (size_t i = 0; i < s->n; i++) {
		const struct ip_stretch *x = &s->items[i];

		ip_json_object(j, NULL);
		if (json_end(j, d, "from", x->from) < 0 || json_end(j, d, "to", x->to) < 0)
			return -1;
		ip_json_uint(j, "ns", ns_of(d, x->ticks));
		ip_json_uint(j, "usual_ns", ns_of(d, x->reference_ticks));
		ip_json_double(j, "times", x->times);
		ip_json_double(j, "usual_times", x->reference_times);
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
	ip_json_uint(j, "stretches_left_out", s->left_out);
	return 0;
}
