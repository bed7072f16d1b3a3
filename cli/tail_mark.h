/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said of functions whose times end at a tail call: who executes the return is not known,
 * or has no probes.
 */
#ifndef IP_CLI_TAIL_MARK_H
#define IP_CLI_TAIL_MARK_H

#include <stdint.h>

#include "analysis/profile/counts.h"
#include "common/json.h"

#define CLI_TAIL_MARK_MAX 64

/* "until its tail call, in 83 % of the calls"; empty where tails is 0. */
const char *cli_tail_mark(uint64_t tails, uint64_t calls, char ret[CLI_TAIL_MARK_MAX]);

/* The same of durations that were measured in the process; tells: whether the function has such
 * ends (struct ip_recording_function). A trace of an older version does not know how many. */
const char *cli_tail_mark_counted(const struct ip_count *c, bool tells,
				  char ret[CLI_TAIL_MARK_MAX]);
void cli_tail_json_counted(struct ip_json *j, const struct ip_count *c, bool tells);

/* "until_tail_call": how many, "until_tail_call_share": of 1. */
void cli_tail_json(struct ip_json *j, uint64_t tails, uint64_t calls);

#endif
