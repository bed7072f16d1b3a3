/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said of functions whose times end at a tail call: who executes the return is not known, or has no probes.
 */
#ifndef CLI_TAIL_MARK_H
#define CLI_TAIL_MARK_H

#include <stdint.h>

#include "common/json.h"

#define CLI_TAIL_MARK_MAX 64

/* "until its tail call, in 83 % of the calls"; empty where tails is 0. */
const char *cli_tail_mark(uint64_t tails, uint64_t calls, char ret[CLI_TAIL_MARK_MAX]);

/* The same where it is not known how many. */
#define CLI_TAIL_MARK_SOME "until its tail call, in some of the calls"
void cli_tail_json_some(struct ip_json *j);

/* "until_tail_call": how many, "until_tail_call_share": of 1. */
void cli_tail_json(struct ip_json *j, uint64_t tails, uint64_t calls);

#endif
