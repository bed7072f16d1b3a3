/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads waits, and prints those of a function as iprobe wait has them.
 */
#include "cli/tui/tui_waits.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/wait/trace_waits.h"
#include "analysis/wait/wait_profile.h"
#include "cli/elide.h"
#include "cli/screen/screen.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"
#include "common/units.h"

#define BEFORE 34u /* columns before the name of an object */

struct cli_tui_waits {
	struct ip_trace_waits *trace;
	struct ip_wait_profile *profile;
	uint32_t function; /* whose are shown */
};

static int read_waits(struct cli_tui *tui, struct cli_tui_waits *w)
{
	int got = ip_trace_waits_read(tui->trace, false, &w->trace);
	struct ip_idle_waits idle = {0};

	if (got == 0)
		return ip_error("%s has no events of the kernel: record with iprobe attach "
				"--kernel",
				tui->trace->dir);
	if (got < 0)
		return -1;
	cli_tui_reading(tui, "reading what calls waited for", 0);
	if (ip_idle_waits_find(tui->trace, w->trace->states, &w->trace->descriptors, &idle) == 0)
		w->profile = ip_wait_profile_observe(tui->trace, w->trace->states,
						     &w->trace->descriptors, 0, &idle, NULL);
	ip_idle_waits_clear(&idle);
	return cli_tui_read(tui, w->profile ? 0 : -1);
}

void cli_tui_waits_show(struct cli_tui *tui, uint32_t function)
{
	if (!tui->waits) {
		tui->waits = calloc(1, sizeof(*tui->waits));
		if (!tui->waits)
			ip_error("out of memory");
		if (!tui->waits || read_waits(tui, tui->waits) < 0) {
			cli_tui_say_error(tui);
			cli_tui_waits_close(tui);
			return;
		}
	}
	tui->waits->function = function;
	tui->all_waits = true;
}

static void print_line(const struct cli_tui *tui, FILE *out, const char *what, uint64_t ticks,
		       uint64_t all)
{
	char time[32];

	ip_print(out, "%-12s %10s %6.1f %%\n", what,
		 ip_format_ns(ip_recording_ns(tui->trace->session, ticks), time),
		 all ? 100.0 * ticks / all : 0);
}

/* idle: of what was a wait for new work; else of the rest. Returns whether there was any. */
static bool print_wait(const struct cli_tui *tui, FILE *out, const struct ip_wait_sum *wait,
		       bool idle, uint64_t all, size_t columns)
{
	const uint64_t ticks = idle ? wait->idle : wait->ticks - wait->idle,
		       n = idle ? wait->idle_count : wait->count - wait->idle_count;
	const struct cli_tui_waits *w = tui->waits;
	_cleanup_free_ char *object =
		ip_trace_waits_object(w->trace, &w->profile->objects[wait->object]);
	char time[32], count[32];

	if (!ticks)
		return false;
	if (object)
		cli_fit_name(object, columns > BEFORE + 3 ? columns - BEFORE : 3);
	ip_print(out, "%23s %6.1f %%  %s  %s\n",
		 ip_format_ns(ip_recording_ns(tui->trace->session, ticks), time),
		 all ? 100.0 * ticks / all : 0, ip_format_count(n, count), object ? object : "?");
	return true;
}

static void print_waits(const struct cli_tui *tui, FILE *out, bool idle, size_t lines,
			size_t columns)
{
	const struct ip_wait_profile *p = tui->waits->profile;
	const uint32_t function = tui->waits->function;

	for (size_t i = 0, n = 0; i < p->nwaits && n < lines; i++)
		n += p->waits[i].owner == function &&
		     print_wait(tui, out, &p->waits[i], idle, p->functions[function].elapsed,
				columns);
}

void cli_tui_waits_draw(const struct cli_tui *tui, FILE *out, size_t lines, size_t columns)
{
	const struct ip_wait_profile *p = tui->waits->profile;
	const uint32_t function = tui->waits->function;
	const struct ip_wait_parts *parts = &p->functions[function];
	_cleanup_free_ char *text = NULL;
	size_t size, n = 0;
	FILE *all = open_memstream(&text, &size);

	if (!all)
		return;
	ip_print(all, "%s: %" PRIu64 " call%s, with what %s\n",
		 ip_names_text(tui->report.names, function), p->function_calls[function],
		 ip_plural(p->function_calls[function]),
		 p->function_calls[function] == 1 ? "it calls" : "they call");
	print_line(tui, all, "elapsed", parts->elapsed, parts->elapsed);
	print_line(tui, all, "on a CPU", parts->cpu, parts->elapsed);
	print_line(tui, all, "run queue", parts->runqueue, parts->elapsed);
	print_line(tui, all, "blocked",
		   parts->elapsed - parts->cpu - parts->runqueue - parts->unknown - parts->idle,
		   parts->elapsed);
	print_waits(tui, all, false, lines, columns);
	if (parts->idle) {
		print_line(tui, all, "idle", parts->idle, parts->elapsed);
		print_waits(tui, all, true, lines, columns);
	}
	print_line(tui, all, "not known", parts->unknown, parts->elapsed);
	if (tui->waits->trace->states->lost)
		ip_print(all, "of the kernel's events %" PRIu64 " are LOST\n",
			 tui->waits->trace->states->lost);
	for (const char *const *line = tui->waits->trace->damage; *line; line++)
		ip_print(all, "%s\n", *line);
	if (fclose(all) != 0 || !text)
		return;
	/* as many lines as there are */
	ip_print(out, CLI_SCREEN_BOLD);
	n = 0;
	for (char *at = text, *end; n < lines && (end = strchr(at, '\n')); at = end + 1, n++) {
		*end = '\0';
		ip_print(out, "%s\n", at);
	}
	for (; n < lines; n++)
		ip_print(out, "\n");
}

void cli_tui_waits_close(struct cli_tui *tui)
{
	if (!tui->waits)
		return;
	ip_wait_profile_destroy(tui->waits->profile);
	ip_trace_waits_destroy(tui->waits->trace);
	free(tui->waits);
	tui->waits = NULL;
}
