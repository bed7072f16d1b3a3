/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells in one line what a search has found, for logs and for scripts that have the document in a
 * file.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/darc/darc.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"
#include "common/units.h"

#define CAUSES_SHOWN 3u
#define FIRST_SHOWN  4u	 /* functions of a path that is too long for a line: the first ones */
#define LAST_SHOWN   8u	 /* and the last ones, which tell most */
#define NAME_SHOWN   100 /* bytes of a name */

static int put_path(FILE *out, const struct cli_darc *d, uint32_t node)
{
	_cleanup_free_ uint32_t *path = NULL;
	size_t n;

	path = cli_darc_path(d, node, &n);
	if (!path)
		return -1;
	for (size_t i = 0; i < n; i++) {
		const uint32_t function = d->search->ftree.nodes[path[i]].function;

		if (n > FIRST_SHOWN + LAST_SHOWN && i == FIRST_SHOWN) {
			i = n - LAST_SHOWN - 1;
			ip_print(out, " > ...");
			continue;
		}
		ip_print(out, "%s%.*s", i ? " > " : "", NAME_SHOWN,
			 ip_names_text(d->names, function));
	}
	return 0;
}

static int put_cause(FILE *out, const struct cli_darc *d, size_t cause)
{
	const struct ip_darc_cause *c = &d->search->causes.items[cause];
	const struct ip_cause_part *part;
	const char *kind = ip_darc_cause_kind(d->search, cause, &part);

	ip_print(out, "%s%.0f %% ", cause ? "; " : ": ", 100 * c->share);
	if (put_path(out, d, c->node) < 0)
		return -1;
	ip_print(out, " (");
	if (part)
		cli_darc_print_part(out, d, part);
	else
		ip_print(out, "%s", kind);
	if (c->loop.node != IP_FTREE_NONE)
		ip_print(out, ", a loop: %.0f calls of %.*s", c->loop.calls, NAME_SHOWN,
			 ip_names_text(d->names, d->search->ftree.nodes[c->loop.node].function));
	ip_print(out, ")");
	return 0;
}

static int put_causes(FILE *out, const struct cli_darc *d)
{
	const struct ip_darc_search *s = d->search;

	for (size_t i = 0; i < s->causes.n && i < CAUSES_SHOWN; i++)
		if (put_cause(out, d, i) < 0)
			return -1;
	if (s->causes.n > CAUSES_SHOWN)
		ip_print(out, "; and %zu more", s->causes.n - CAUSES_SHOWN);
	if (s->causes.n)
		ip_print(out, "; of %zu call%s looked at", s->ranges[0].operations.n,
			 ip_plural(s->ranges[0].operations.n));
	return 0;
}

static int put_variance(FILE *out, const struct cli_darc *d)
{
	const struct ip_variances *v = &d->search->variances;

	ip_print(out, ": %zu call%s looked at", v->operations, ip_plural(v->operations));
	if (!v->n)
		return 0;
	ip_print(out, ", %.1f %% of the variance is of ", 100 * v->nodes[0].share);
	return put_path(out, d, v->nodes[0].node);
}

static const char *state_text(const struct ip_darc_search *s)
{
	if (s->state != IP_DARC_IN_PROGRESS)
		return ip_darc_state_name(s->state);
	return s->causes.n || *s->reason ? "ended before it was over; so far"
					 : "ended before it was over";
}

/* The line, without a newline, harmless to print. The caller frees it. NULL with an error. */
static char *say(const struct cli_darc *d)
{
	const struct ip_darc_search *s = d->search;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	int done = 0;

	if (out && s->options.variance && s->state != IP_DARC_NO_PEAK) {
		ip_print(out, "latency varies");
		done = put_variance(out, d);
	} else if (out) {
		ip_print(out, "%s", state_text(s));
		if (s->state == IP_DARC_NO_DIFFERENCE)
			ip_print(out, ": %s",
				 s->causes.n ? "all of the slow calls takes longer"
					     : "no call path is the cause of enough calls");
		else if (*s->reason)
			ip_print(out, ": %s", s->reason);
		if (s->state != IP_DARC_NO_DIFFERENCE)
			done = put_causes(out, d);
	}
	if (done == 0)
		return ip_print_end_text(out, &text);
	fclose(out);
	free(text);
	return NULL;
}

int cli_darc_summary(const struct cli_darc *d, bool json)
{
	_cleanup_free_ char *text = say(d);
	struct ip_json j;

	if (!text)
		return -1;
	if (!json) {
		ip_print(stdout, "%s\n", text);
		return 0;
	}
	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	ip_json_string(&j, "function", ip_names_get(d->names, d->search->ftree.nodes[0].function));
	ip_json_string(&j, "state", ip_darc_state_name(d->search->state));
	ip_json_uint(&j, "causes", d->search->causes.n);
	ip_json_bool(&j, "kernel", d->waits != NULL);
	ip_json_string(&j, "said", text);
	ip_json_end_object(&j);
	return 0;
}
