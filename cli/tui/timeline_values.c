/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of the call under the cursor of iprobe tui's timeline: one line below the picture,
 * with a mark where it does not fit, and all of them in the place of the picture.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/elide.h"
#include "cli/tui/view_timeline.h"
#include "common/cleanup.h"
#include "common/print.h"
#include "common/utf8.h"

#define MORE	   "...  (v: all)"
#define MORE_SHORT "..."

static const char *how_it_ended(const struct cli_view_timeline *v)
{
	const struct ip_timeline_call_details *d = &v->details;

	if (v->item.point || !v->has_details)
		return "";
	switch (d->how) {
	case IP_END_UNWOUND:
		return "unwound: it was left without an exit";
	case IP_END_UNFINISHED:
		return "it had not finished when its thread or the recording ended";
	case IP_END_UNKNOWN:
		return "it has no exit probes";
	default:
		return d->flags & IP_FRAME_TAIL ? "until its tail call" : "";
	}
}

/* Returns the values as a text, as dump has them. The caller frees it; NULL: out of memory. */
static char *values_text(const struct cli_view_timeline *v)
{
	const struct ip_timeline_call_details *d = &v->details;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	if (d->args)
		ip_print(out, "(%s) ", d->args);
	if (d->result)
		ip_print(out, "= %s ", d->result);
	ip_print(out, "%s", how_it_ended(v));
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* Returns the bytes of the first characters of a text, at most so many. */
static size_t bytes_of(const char *text, size_t columns)
{
	size_t at = 0;

	for (; columns && text[at]; columns--)
		at += ip_utf8_length(text + at) ? ip_utf8_length(text + at) : 1;
	return at;
}

void cli_timeline_print_values(const struct cli_view_timeline *v, FILE *out, size_t columns)
{
	_cleanup_free_ char *text = values_text(v);
	const char *more = columns > 2 * strlen(MORE) ? MORE : MORE_SHORT;
	const size_t room = columns > strlen(more) ? columns - strlen(more) : 0;
	size_t length = text ? strlen(text) : 0;

	while (length && text[length - 1] == ' ')
		text[--length] = '\0';
	if (!text || cli_width_of(text) <= columns)
		ip_print(out, "%s\n", text ? text : "");
	else
		ip_print(out, "%.*s%s\n", (int)bytes_of(text, room), text, more);
}

void cli_timeline_draw_values(const struct cli_tui *tui, FILE *out, size_t lines, size_t columns)
{
	const struct cli_view_timeline *v = tui->views[CLI_TUI_TIMELINE];
	_cleanup_free_ char *text = values_text(v);
	const char *at = text && *text ? text : "no values were recorded";
	size_t n = 0;

	if (n < lines) {
		ip_print(out, "%s\n", ip_names_text(tui->report.names, v->item.function));
		n++;
	}
	for (; n < lines && *at; n++) {
		size_t length = bytes_of(at, columns ? columns : 1);
		bool last = n + 1 == lines && at[length];

		if (last)
			length = bytes_of(at, columns > 3 ? columns - 3 : 0);
		ip_print(out, "%.*s%s\n", (int)length, at, last ? MORE_SHORT : "");
		at += length;
	}
	for (; n < lines; n++)
		ip_print(out, "\n");
}
