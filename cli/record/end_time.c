/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a recording that came late. See end_time.h.
 */
#include "cli/record/end_time.h"

#include <stdio.h>

#include "common/print.h"
#include "common/units.h"

#define LATE_NS	      300000000ull
#define PART_NS	      10000000ull /* shorter parts are not told */
#define STARVED_SHARE 5 /* one part in so many of the time was spent in waiting for a CPU */

static void print_part(uint64_t ns, const char *what, const char **separator)
{
	char length[16];

	if (ns < PART_NS)
		return;
	ip_print(stderr, "%s%s %s", *separator, ip_format_ns(ns, length), what);
	*separator = ", ";
}

void cli_end_time_print(const struct ip_session_summary *s, const char *whose)
{
	const struct ip_end_time *t = &s->end_time;
	const uint64_t all = t->noticed + t->restored + t->written;
	const char *separator = ": ";
	char length[16];

	if (all < LATE_NS)
		return;
	ip_print(stderr, "iprobe: %sthe end took %s", whose, ip_format_ns(all, length));
	print_part(t->noticed, "until iprobe saw that the time was over", &separator);
	print_part(t->restored, "until the sites were put back", &separator);
	if (t->restored >= PART_NS && t->in_vain)
		ip_print(stderr, " (%zu stop%s in vain: threads could not be stopped in time)",
			 t->in_vain, ip_plural(t->in_vain));
	print_part(t->written, "until what was recorded was written", &separator);
	if (t->queued > all / STARVED_SHARE)
		ip_print(stderr, "; for %s of that it waited for a CPU%s",
			 ip_format_ns(t->queued < all ? t->queued : all, length),
			 t->prioritized ? "" : " (busy CPUs, no CAP_SYS_NICE)");
	else if (t->in_vain && !t->prioritized)
		ip_print(stderr, "; it has no CAP_SYS_NICE, by which threads get a CPU to stop on");
	ip_print(stderr, "\n");
}

void cli_end_time_json(struct ip_json *j, const struct ip_session_summary *s)
{
	ip_json_uint(j, "end_noticed_ns", s->end_time.noticed);
	ip_json_uint(j, "end_restored_ns", s->end_time.restored);
	ip_json_uint(j, "end_written_ns", s->end_time.written);
	ip_json_uint(j, "end_queued_ns", s->end_time.queued);
	ip_json_uint(j, "queued_ns", s->end_time.queued_recording);
}

bool cli_end_time_starved(const struct ip_session_summary *s)
{
	return s->end_time.queued_recording > s->end_time.recording / STARVED_SHARE;
}
