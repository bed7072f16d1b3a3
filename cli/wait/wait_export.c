/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the kernel's events for an export.
 */
#include "cli/wait/wait_export.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/error.h"
#include "common/print.h"
#include "common/units.h"

void cli_wait_export_damage(const char *line)
{
	ip_print(stderr, "iprobe: %s\n", line);
}

int cli_wait_export(struct ip_trace_reader *trace, bool wanted, bool required,
		    struct ip_trace_waits **ret)
{
	int got = wanted ? ip_trace_waits_read(trace, false, ret) : 0;

	if (got < 0)
		return -1;
	if (got == 0 && required && trace->session->trimmed)
		return ip_error("%s is a part of a trace, and has no events of the kernel (iprobe "
				"trim and split leave them out): export the whole trace",
				trace->dir);
	if (got == 0 && required)
		return ip_error(
			"%s has no events of the kernel: record with iprobe attach --kernel",
			trace->dir);
	for (const char *const *line = got ? (*ret)->damage : NULL; line && *line; line++)
		cli_wait_export_damage(*line);
	if (got && (*ret)->states->lost)
		ip_print(stderr,
			 "iprobe: %s: of the kernel's events %" PRIu64 " are LOST: what they would "
			 "tell is unknown\n",
			 trace->dir, (*ret)->states->lost);
	return 0;
}

void cli_wait_export_unknown(uint64_t ns)
{
	char time[32];

	if (ns)
		ip_print(stderr,
			 "iprobe: what the calls did for %s together is not known: it is left "
			 "out\n",
			 ip_format_ns(ns, time));
}

void cli_wait_export_idle(uint64_t ns)
{
	char time[32];

	if (ns)
		ip_print(stderr,
			 "iprobe: idle: for %s threads waited for new work: that is left out "
			 "(--idle counts it)\n",
			 ip_format_ns(ns, time));
}
