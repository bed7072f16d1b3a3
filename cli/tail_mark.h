/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The note about functions whose times end at a tail call: the function that executes the return
 * is not known, or it has no probes.
 */
#ifndef IP_CLI_TAIL_MARK_H
#define IP_CLI_TAIL_MARK_H

#include <stdint.h>

#include "analysis/profile/counts.h"
#include "common/json.h"

#define CLI_TAIL_MARK_MAX 64

/* Makes "until its tail call, in 83 % of the calls"; empty where tails is 0. */
const char *cli_tail_mark(uint64_t tails, uint64_t calls, char ret[CLI_TAIL_MARK_MAX]);

/* The same, short: "tail 83 %"; a line elsewhere must say what that means. */
const char *cli_tail_mark_short(uint64_t tails, uint64_t calls, char ret[CLI_TAIL_MARK_MAX]);

/* Makes the note for durations that the process measured. tells: whether the function has such
 * ends (struct ip_recording_function). A trace of an older version does not tell how many. */
const char *cli_tail_mark_counted(const struct ip_count *c, bool tells,
				  char ret[CLI_TAIL_MARK_MAX]);
void cli_tail_json_counted(struct ip_json *j, const struct ip_count *c, bool tells);

/* Writes "until_tail_call", the number of such calls, and "until_tail_call_share", a share of 1. */
void cli_tail_json(struct ip_json *j, uint64_t tails, uint64_t calls);

#endif
