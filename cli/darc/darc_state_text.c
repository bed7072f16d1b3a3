/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the state of a search for people.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "cli/darc/darc.h"
#include "cli/darc/darc_state.h"
#include "common/print.h"
#include "common/selection/selection.h"
#include "common/units.h"

#define LIVE_SHOWN 20u

static void print_path(const struct cli_darc_state *s, uint32_t node)
{
	if (s->nodes[node].parent != IP_FTREE_NONE) {
		print_path(s, s->nodes[node].parent);
		ip_print(stdout, " > ");
	}
	ip_print(stdout, "%s", s->nodes[node].function);
}

void cli_darc_kept_text(const struct cli_darc_state *s)
{
	ip_print(stdout,
		 "It was resumed at level %" PRIu32 ", and has not decided anything since.\n",
		 s->level);
	if (s->ncauses)
		ip_print(stdout, "\n");
	for (size_t i = 0; i < s->ncauses; i++) {
		ip_print(stdout, "Kept, %.0f %% of the calls then, %s: ", 100 * s->causes[i].share,
			 s->causes[i].kind);
		print_path(s, s->causes[i].node);
		ip_print(stdout, "\n");
	}
}

static void json_path(struct ip_json *j, const struct cli_darc_state *s, uint32_t node)
{
	if (s->nodes[node].parent != IP_FTREE_NONE)
		json_path(j, s, s->nodes[node].parent);
	ip_json_string(j, NULL, s->nodes[node].function);
}

void cli_darc_kept_json(struct ip_json *j, const struct cli_darc_state *s)
{
	ip_json_object(j, "kept");
	ip_json_string(j, "state", ip_darc_state_name(s->profile.state));
	ip_json_uint(j, "level", s->level);
	ip_json_array(j, "paths");
	for (size_t i = 0; i < s->ncauses; i++) {
		ip_json_object(j, NULL);
		ip_json_array(j, "path");
		json_path(j, s, s->causes[i].node);
		ip_json_end_array(j);
		ip_json_double(j, "share", s->causes[i].share);
		ip_json_string(j, "kind", s->causes[i].kind);
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
	ip_json_end_object(j);
}

static void print_searched(const struct cli_darc_state *s)
{
	const struct ip_darc_range *r = s->profile.ranges;
	char from[16], to[16], count[32];

	if (!s->level)
		return;
	ip_print(stdout, "\nSearched: calls of ");
	if (r[0].to_ns == UINT64_MAX)
		ip_print(stdout, "%s or more", ip_format_ns(r[0].from_ns, from));
	else
		ip_print(stdout, "%s to %s", ip_format_ns(r[0].from_ns, from),
			 ip_format_ns(r[0].to_ns, to));
	ip_print(stdout, ", %s in the profile", ip_format_count(r[0].count, count));
	if (r[1].most)
		ip_print(stdout, "; usual: %s to %s", ip_format_ns(r[1].from_ns, from),
			 ip_format_ns(r[1].to_ns, to));
	ip_print(stdout, "\n");
}

static void print_live(const struct cli_darc_state *s)
{
	ip_print(stdout,
		 "Live: %zu function%s, %" PRIu64 " at most beside those of the path: ", s->live.n,
		 ip_plural(s->live.n), s->max_functions);
	for (size_t i = 0; i < s->live.n && i < LIVE_SHOWN; i++) {
		char *name = ip_demangle(s->live.items[i], false);

		ip_print(stdout, "%s%s", i ? ", " : "", name ? name : s->live.items[i]);
		free(name);
	}
	ip_print(stdout, s->live.n > LIVE_SHOWN ? ", ...\n" : "\n");
}

/* The callees of a node, and theirs. */
static void print_below(const struct cli_darc_state *s, uint32_t node)
{
	const struct cli_darc_state_node *n = &s->nodes[node];
	char time[16], usual[16];

	ip_print(stdout, "%10" PRIu64 " %8" PRIu64 " %9s", n->looked_at, n->maxcount,
		 ip_format_ns(n->longest_ns, time));
	if (s->profile.ranges[1].most)
		ip_print(stdout, " %9s", ip_format_ns(n->usual_longest_ns, usual));
	ip_print(stdout, " %c %*s%s", n->cause ? '*' : ' ', (int)(2 * n->depth), "", n->function);
	if (n->call_site)
		ip_print(stdout, "  at %s", n->call_site);
	ip_print(stdout, "\n");
	for (uint32_t i = node + 1; i < s->nnodes; i++)
		if (s->nodes[i].parent == node)
			print_below(s, i);
}

void cli_darc_state_text(const struct cli_darc_state *s)
{
	if (s->looked)
		cli_darc_profile_text(s->function, &s->profile);
	else
		ip_print(stdout, "%s: nothing was looked at yet\n", s->function);
	print_searched(s);
	ip_print(stdout, "State: %s, level %" PRIu32 " of %" PRIu32 " at most\n",
		 ip_darc_state_name(s->profile.state), s->level, s->profile.options.depth);
	if (*s->profile.reason)
		ip_print(stdout, "So far: %s\n", s->profile.reason);
	print_live(s);
	if (!s->nnodes)
		return;
	ip_print(stdout, "\n%10s %8s %9s", "LOOKED AT", "MAXCOUNT", "LONGEST");
	if (s->profile.ranges[1].most)
		ip_print(stdout, " %9s", "USUALLY");
	ip_print(stdout, "   CALL PATH (* of a root cause)\n");
	print_below(s, 0);
}
