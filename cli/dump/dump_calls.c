/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool of open calls. Memory grows with the calls that are open at once.
 */
#include "cli/dump/dump_calls.h"

#include <stdlib.h>

#include "common/error.h"

uint32_t cli_dump_calls_open(struct cli_dump_calls *calls, uint32_t ordinal, uint32_t met)
{
	uint32_t number = calls->free;

	if (!number && calls->n == calls->room) {
		size_t room = calls->room ? 2 * calls->room : 256;
		struct cli_dump_call *items =
			room < UINT32_MAX ? reallocarray(calls->items, room, sizeof(*items)) : NULL;

		if (!items) {
			ip_error("out of memory");
			return 0;
		}
		calls->items = items;
		calls->room = room;
	}
	if (number)
		calls->free = calls->items[number - 1].ordinal;
	else
		number = ++calls->n;
	calls->items[number - 1] = (struct cli_dump_call){ordinal, met};
	return number;
}

void cli_dump_calls_close(struct cli_dump_calls *calls, uint32_t number)
{
	calls->items[number - 1].ordinal = calls->free;
	calls->free = number;
}

void cli_dump_calls_clear(struct cli_dump_calls *calls)
{
	free(calls->items);
	*calls = (struct cli_dump_calls){0};
}
