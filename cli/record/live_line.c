/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live line, and notices. See live_line.h.
 */
#include "cli/record/live_line.h"

#include <stdbool.h>
#include <stdio.h>

#include "common/notice.h"
#include "common/print.h"
#include "common/units.h"
#include "session/session.h"

static bool shown;

void cli_live_line_clear(void)
{
	if (shown)
		ip_print(stderr, "\r\033[K");
	shown = false;
}

static void tell(const char *who, const char *text)
{
	cli_live_line_clear();
	ip_print(stderr, "%s: %s\n", who, text);
}

void cli_print_notices(void)
{
	ip_notice_to(tell);
}

void cli_live_line_show(void *context, const struct ip_session_progress *p)
{
	char events[32], rate[32], lost[32], size[16], left[16] = "";

	if (p->has_duration)
		snprintf(left, sizeof(left), ", %.1f s left", p->left_ns / 1e9);
	ip_print(stderr, "\r%s event%s, %s/s, %s lost, %s%s \033[K",
		 ip_format_count(p->events, events), ip_plural(p->events),
		 ip_format_count(p->per_second, rate), ip_format_count(p->lost, lost),
		 ip_format_size(p->written, size), left);
	shown = true;
}
