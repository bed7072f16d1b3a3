/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of the names of processes.
 */
#include "cli/syscalls/process_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/print.h"

#define SIZE_LEAST 64u

static struct cli_process_name *place_of(const struct cli_process_names *names, uint32_t pid)
{
	size_t at = pid * 2654435761u & (names->size - 1);

	while (names->items[at].pid && names->items[at].pid != pid)
		at = (at + 1) & (names->size - 1);
	return &names->items[at];
}

static int make_room(struct cli_process_names *names)
{
	const struct cli_process_names before = *names;

	names->size = before.size ? 2 * before.size : SIZE_LEAST;
	names->items = calloc(names->size, sizeof(*names->items));
	if (!names->items) {
		*names = before;
		return ip_error("out of memory");
	}
	for (size_t i = 0; i < before.size; i++)
		if (before.items[i].pid)
			*place_of(names, before.items[i].pid) = before.items[i];
	free(before.items);
	return 0;
}

int cli_process_names_note(struct cli_process_names *names, uint32_t pid, const char *name)
{
	struct cli_process_name *place;

	if (!pid)
		return 0;
	if (2 * (names->n + 1) > names->size && make_room(names) < 0)
		return -1;
	place = place_of(names, pid);
	names->n += !place->pid;
	place->pid = pid;
	if (*name)
		snprintf(place->name, sizeof(place->name), "%s", name);
	return 0;
}

int cli_process_names_copy(struct cli_process_names *to, const struct cli_process_names *from)
{
	*to = *from;
	to->items = calloc(from->size + 1, sizeof(*to->items));
	if (!to->items) {
		*to = (struct cli_process_names){0};
		return ip_error("out of memory");
	}
	if (from->size)
		memcpy(to->items, from->items, from->size * sizeof(*to->items));
	return 0;
}

void cli_process_names_clear(struct cli_process_names *names)
{
	free(names->items);
	*names = (struct cli_process_names){0};
}

const char *cli_process_names_get(const struct cli_process_names *names, uint32_t pid)
{
	const struct cli_process_name *place = names->size && pid ? place_of(names, pid) : NULL;

	return place && place->pid ? place->name : "";
}

const char *cli_process_names_text(struct cli_process_names *names, uint32_t pid)
{
	const char *name = cli_process_names_get(names, pid);

	if (!pid)
		return "(not known)";
	snprintf(names->text, sizeof(names->text), "%u%s%s", pid, *name ? " " : "", name);
	ip_clean(names->text);
	return names->text;
}
