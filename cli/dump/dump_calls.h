/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What iprobe dump keeps of each call while it is open.
 */
#ifndef IP_CLI_DUMP_CALLS_H
#define IP_CLI_DUMP_CALLS_H

#include <stddef.h>
#include <stdint.h>

struct cli_dump_call {
	uint32_t ordinal; /* in the order in which calls were opened, from 0 */
	uint32_t met;	  /* conditions on values that its entry meets, one bit each */
};

/* All zero: no call is open. */
struct cli_dump_calls {
	struct cli_dump_call *items;
	size_t n, room;
	uint32_t free; /* number of a free place + 1, whose ordinal leads to the next; 0: none */
};

/* Adds a call. Returns its number, which is not 0; 0 with an error where memory ran out. */
uint32_t cli_dump_calls_open(struct cli_dump_calls *calls, uint32_t ordinal, uint32_t met);
/* Removes a call. Its number may be given to another one then. */
void cli_dump_calls_close(struct cli_dump_calls *calls, uint32_t number);
void cli_dump_calls_clear(struct cli_dump_calls *calls);

static inline const struct cli_dump_call *cli_dump_calls_get(const struct cli_dump_calls *calls,
							     uint32_t number)
{
	return &calls->items[number - 1];
}

#endif
