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
#define PIDS	   (1u << 22) /* the kernel has none above */

static struct cli_process_name *place_of(const struct cli_process_names *names, uint32_t key)
{
	size_t at = key * 2654435761u & (names->size - 1);

	while (names->items[at].key && names->items[at].key != key)
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
		if (before.items[i].key)
			*place_of(names, before.items[i].key) = before.items[i];
	free(before.items);
	return 0;
}

uint32_t cli_process_key(uint32_t pid, uint32_t program)
{
	return program ? PIDS + program : pid;
}

int cli_process_names_note(struct cli_process_names *names, uint32_t key, uint32_t pid,
			   const char *name)
{
	struct cli_process_name *place;

	if (!key)
		return 0;
	if (2 * (names->n + 1) > names->size && make_room(names) < 0)
		return -1;
	place = place_of(names, key);
	names->n += !place->key;
	place->key = key;
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

static const struct cli_process_name *find(const struct cli_process_names *names, uint32_t key)
{
	static const struct cli_process_name none;
	const struct cli_process_name *place = names->size && key ? place_of(names, key) : &none;

	return place->key ? place : &none;
}

uint32_t cli_process_names_pid(const struct cli_process_names *names, uint32_t key)
{
	const uint32_t pid = find(names, key)->pid;

	return pid ? pid : key < PIDS ? key : 0;
}

const char *cli_process_names_get(const struct cli_process_names *names, uint32_t key)
{
	return find(names, key)->name;
}

const char *cli_process_names_text(struct cli_process_names *names, uint32_t key)
{
	const uint32_t pid = cli_process_names_pid(names, key);
	const char *name = cli_process_names_get(names, key);

	if (!pid)
		return "(not known)";
	snprintf(names->text, sizeof(names->text), "%u%s%s", pid, *name ? " " : "", name);
	ip_clean(names->text);
	return names->text;
}
