/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes rows of waits.
 */
#include "cli/wait/wait_rows.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"

static int by_name(const void *left, const void *right)
{
	const struct cli_wait_row *a = left, *b = right;

	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	return strcmp(a->name, b->name);
}

static int by_ticks(const void *left, const void *right)
{
	const struct cli_wait_row *a = left, *b = right;

	if (a->ticks - a->idle != b->ticks - b->idle)
		return a->ticks - a->idle > b->ticks - b->idle ? -1 : 1;
	if (a->ticks != b->ticks)
		return a->ticks > b->ticks ? -1 : 1;
	return by_name(left, right);
}

/* An address without a name is another thing in each process, and so is a number. */
static int is_named(const struct cli_wait_row *row)
{
	return strncmp(row->name, "0x", 2) != 0 && strncmp(row->name, "descriptor ", 11) != 0;
}

static void clear(struct cli_wait_row *row)
{
	free(row->name);
	free(row->by);
}

static int join_culprits(struct cli_wait_row *to, const struct cli_wait_row *from)
{
	struct ip_wait_culprit *by = reallocarray(to->by, to->nby + from->nby + 1, sizeof(*by));

	if (!by)
		return ip_error("out of memory");
	memcpy(by + to->nby, from->by, from->nby * sizeof(*by));
	to->by = by;
	to->nby = ip_wait_culprits_join(by, to->nby + from->nby);
	return 0;
}

/* Puts rows of one name together. *ret_n: how many are left. Returns 0, or -1 with an error. */
static int join(struct cli_wait_row *rows, size_t n, size_t *ret_n)
{
	size_t left = 0;
	int ret = 0;

	if (n)
		qsort(rows, n, sizeof(*rows), by_name);
	for (size_t i = 0; i < n; i++) {
		if (!left || by_name(&rows[left - 1], &rows[i]) || !is_named(&rows[i])) {
			rows[left++] = rows[i];
			continue;
		}
		rows[left - 1].ticks += rows[i].ticks;
		rows[left - 1].count += rows[i].count;
		rows[left - 1].idle += rows[i].idle;
		rows[left - 1].idle_count += rows[i].idle_count;
		ret = ret < 0 ? -1 : join_culprits(&rows[left - 1], &rows[i]);
		clear(&rows[i]);
	}
	if (left)
		qsort(rows, left, sizeof(*rows), by_ticks);
	*ret_n = left;
	return ret;
}

static int take_culprits(const struct ip_wait_culprits *culprits, const struct ip_wait_sum *wait,
			 struct cli_wait_row *row)
{
	size_t n;
	const struct ip_wait_culprit *c =
		ip_wait_culprits_of(culprits, wait->owner, wait->object, &n);

	row->by = calloc(n + 1, sizeof(*row->by));
	if (!row->by)
		return -1;
	if (n)
		memcpy(row->by, c, n * sizeof(*c));
	row->nby = n;
	return 0;
}

int cli_wait_rows_make(const struct cli_wait_trace *t, const struct ip_wait_profile *profile,
		       const struct ip_wait_culprits *culprits, const struct ip_wait_sum *waits,
		       size_t n, size_t most, struct cli_wait_row **ret, size_t *ret_n)
{
	const bool several = t->trace->session->members;
	struct cli_wait_row *rows;

	n = several || n < most ? n : most;
	*ret_n = 0;
	*ret = rows = calloc(n + 1, sizeof(*rows));
	if (!rows)
		return ip_error("out of memory");
	for (size_t i = 0; i < n; i++) {
		const struct ip_wait_object *o = &profile->objects[waits[i].object];

		rows[i] = (struct cli_wait_row){.kind = o->kind,
						.name = strdup(ip_object_name(t->object_names, o)),
						.ticks = waits[i].ticks,
						.count = waits[i].count,
						.idle = waits[i].idle,
						.idle_count = waits[i].idle_count};
		*ret_n = i + 1;
		if (!rows[i].name || take_culprits(culprits, &waits[i], &rows[i]) < 0)
			return ip_error("out of memory");
	}
	if (several && join(rows, n, ret_n) < 0)
		return -1;
	for (; *ret_n > most; --*ret_n)
		clear(&rows[*ret_n - 1]);
	return 0;
}

void cli_wait_rows_clear(struct cli_wait_row *rows, size_t n)
{
	for (size_t i = 0; rows && i < n; i++)
		clear(&rows[i]);
	free(rows);
}
