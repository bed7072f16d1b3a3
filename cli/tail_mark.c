/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The note about times that end at a tail call.
 */
#include "cli/tail_mark.h"

#include <stdio.h>

static double share(uint64_t tails, uint64_t calls)
{
	return calls && tails < calls ? (double)tails / calls : !!tails;
}

const char *cli_tail_mark(uint64_t tails, uint64_t calls, char ret[CLI_TAIL_MARK_MAX])
{
	double percent = 100 * share(tails, calls);

	if (!tails)
		ret[0] = '\0';
	else if (percent < 1)
		snprintf(ret, CLI_TAIL_MARK_MAX,
			 "until its tail call, in less than 1 %% of the calls");
	else if (percent > 99 && tails < calls)
		snprintf(ret, CLI_TAIL_MARK_MAX,
			 "until its tail call, in more than 99 %% of the calls");
	else
		snprintf(ret, CLI_TAIL_MARK_MAX, "until its tail call, in %.0f %% of the calls",
			 percent);
	return ret;
}

const char *cli_tail_mark_short(uint64_t tails, uint64_t calls, char ret[CLI_TAIL_MARK_MAX])
{
	const double percent = 100 * share(tails, calls);

	if (!tails)
		ret[0] = '\0';
	else if (percent < 1)
		snprintf(ret, CLI_TAIL_MARK_MAX, "tail <1 %%");
	else if (percent > 99 && tails < calls)
		snprintf(ret, CLI_TAIL_MARK_MAX, "tail >99 %%");
	else
		snprintf(ret, CLI_TAIL_MARK_MAX, "tail %.0f %%", percent);
	return ret;
}

const char *cli_tail_mark_counted(const struct ip_count *c, bool tells, char ret[CLI_TAIL_MARK_MAX])
{
	if (tells && !c->has_tailed) {
		snprintf(ret, CLI_TAIL_MARK_MAX, "until its tail call, in some of the calls");
		return ret;
	}
	return cli_tail_mark(tells ? c->tailed : 0, c->ended, ret);
}

void cli_tail_json_counted(struct ip_json *j, const struct ip_count *c, bool tells)
{
	if (!tells || c->has_tailed) {
		cli_tail_json(j, tells ? c->tailed : 0, c->ended);
		return;
	}
	ip_json_string(j, "until_tail_call", NULL);
	ip_json_string(j, "until_tail_call_share", NULL);
}

void cli_tail_json(struct ip_json *j, uint64_t tails, uint64_t calls)
{
	ip_json_uint(j, "until_tail_call", tails);
	ip_json_double(j, "until_tail_call_share", share(tails, calls));
}
