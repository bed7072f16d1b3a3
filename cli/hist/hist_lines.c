/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints intervals as lines.
 */
#include "cli/hist/hist_lines.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/elide.h"
#include "common/print.h"
#include "common/units.h"

static const char shades[] = " .:-=+*#%@";

#define LINE	   48u /* columns in front of the cells and behind them */
#define CELL	   2u  /* columns of a cell where there is no terminal */
#define CELL_MOST  4u
#define CELLS_MIN  10u
#define LABEL_ROOM 16u

char cli_hist_shade(uint64_t calls)
{
	const unsigned shade = calls ? 1 + (63 - __builtin_clzll(calls)) / 2 : 0;

	return shades[shade < sizeof(shades) - 1 ? shade : sizeof(shades) - 2];
}

void cli_hist_print_shades(int indent)
{
	ip_print(stdout,
		 "%*s  calls in a cell: . 1 to 3, : to 15, - to 63, = to 255, + to 1023, ...\n",
		 indent, "");
}

void cli_hist_axis_fit(struct cli_hist_axis *axis, uint64_t interval_ns, unsigned others)
{
	const size_t room = cli_name_width(LINE + others, CELLS_MIN),
		     bins = axis->last - axis->first + 1;
	const size_t cell = room / bins;

	axis->cell = room == SIZE_MAX	? CELL
		     : cell > CELL_MOST ? CELL_MOST
		     : cell		? (unsigned)cell
					: 1;
	axis->decimals = 9;
	for (; axis->decimals && interval_ns % 10 == 0; interval_ns /= 10)
		axis->decimals--;
}

void cli_hist_print_axis(const struct cli_hist_axis *axis)
{
	unsigned column = 0;

	ip_print(stdout, "%12s %13s %9s  ", "from", "calls", "distance");
	for (unsigned b = axis->first; b <= axis->last; b++) {
		const unsigned at = (b - axis->first) * axis->cell;
		char text[LABEL_ROOM];

		if (b > axis->first && at < column + 2)
			continue;
		ip_format_ns(axis->from[b], text);
		ip_print(stdout, "%*s%s", (int)(at - column), "", text);
		column = at + strlen(text);
	}
	ip_print(stdout, "\n");
}

void cli_hist_line_make(struct ip_profile_intervals *intervals, uint64_t begin_ns,
			const uint64_t *calls, struct cli_hist_line *ret)
{
	*ret = (struct cli_hist_line){.begin_ns = begin_ns, .calls = calls};
	for (unsigned b = 0; b < IP_LATENCY_BUCKETS; b++)
		ret->n += calls[b];
	ret->verdict = ip_profile_intervals_add(intervals, calls, &ret->to);
}

void cli_hist_print_line(const struct cli_hist_axis *axis, const struct cli_hist_line *line)
{
	char count[32], distance[32] = "-";

	if (line->verdict != IP_PROFILES_FEW)
		snprintf(distance, sizeof(distance), "%.2f", line->to.distance);
	ip_print(stdout, "%10.*f s %13s %9s |", axis->decimals, line->begin_ns / 1e9,
		 ip_format_count(line->n, count), distance);
	for (unsigned b = axis->first; b <= axis->last; b++)
		for (unsigned i = 0; i < axis->cell; i++)
			ip_print(stdout, "%c", cli_hist_shade(line->calls[b]));
	ip_print(stdout, "|%s", line->verdict == IP_PROFILES_DIFFER ? " changed" : "");
}

void cli_hist_print_line_note(void)
{
	cli_hist_print_shades(0);
	ip_print(stdout,
		 "  distance: to the lines before, in bins (1: twice as long); -: fewer than %u "
		 "calls, which go with the next line\n"
		 "  changed: it is %g or more, and more than chance makes of so many calls\n",
		 IP_PROFILE_CALLS, IP_PROFILE_ALIKE);
}

void cli_hist_line_json(struct ip_json *j, const struct cli_hist_line *line)
{
	ip_json_double(j, "distance_bins", line->to.distance);
	ip_json_double(j, "by_chance_bins", line->to.by_chance);
	ip_json_bool(j, "changed", line->verdict == IP_PROFILES_DIFFER);
}
