/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the functions that two recordings share.
 */
#include "cli/report/function_pairs.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"

struct candidate {
	size_t item;
	const struct ip_recording_function *function;
	const char *value, *path, *base, *build_id, *file;
	bool after, taken;
};

/* The keys by which items with the same name are taken for the same function, the surest first. */
enum level { BY_FILE_OF_BUILD, BY_FILE_OF_PATH, BY_FILE_OF_BASE, BY_BASE, NLEVELS };

static int by_name(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;
	int order = strcmp(x->function->linker_name, y->function->linker_name);

	return order ? order : strcmp(x->value, y->value);
}

static int compare_keys(const struct candidate *x, const struct candidate *y, enum level level)
{
	int order = level <= BY_FILE_OF_PATH ? strcmp(x->path, y->path) : strcmp(x->base, y->base);

	if (!order && level == BY_FILE_OF_BUILD)
		order = strcmp(x->build_id, y->build_id);
	if (!order && level <= BY_FILE_OF_BASE)
		order = strcmp(x->file, y->file);
	return order;
}

/* Puts items of one key together: those of the first trace first, each in the order of the
 * source. */
static int by_level(const void *a, const void *b, void *level)
{
	const struct candidate *x = a, *y = b;
	int order = compare_keys(x, y, *(const enum level *)level);

	if (!order)
		order = x->after - y->after;
	if (!order && x->function->line != y->function->line)
		order = x->function->line > y->function->line ? 1 : -1;
	return order ? order : (x->item > y->item) - (x->item < y->item);
}

static void add_candidates(const struct cli_pair_side *side, bool after, struct candidate *ret,
			   size_t *n)
{
	const struct ip_recording *s = side->session;

	for (size_t i = 0; i < side->n; i++) {
		const struct ip_recording_function *f = side->functions[i];
		bool known = f->module != IP_NO_MODULE;
		const char *build_id = known ? s->modules[f->module].build_id : NULL;

		ret[(*n)++] = (struct candidate){.item = i,
						 .function = f,
						 .value = side->values ? side->values[i] : "",
						 .path = known ? s->modules[f->module].path : "",
						 .base = ip_recording_module_name(s, f),
						 .build_id = build_id ? build_id : "",
						 .file = f->file ? f->file : "",
						 .after = after};
	}
}

struct pairs {
	struct cli_item_pair *items;
	size_t n;
};

static void add_pair(struct pairs *p, struct candidate *before, struct candidate *after)
{
	p->items[p->n++] = (struct cli_item_pair){.before = before ? before->item : CLI_NO_PAIR,
						  .after = after ? after->item : CLI_NO_PAIR};
	if (before)
		before->taken = true;
	if (after)
		after->taken = true;
}

/* Removes the candidates that are taken. Returns how many are left. */
static size_t compact(struct candidate *items, size_t n)
{
	size_t left = 0;

	for (size_t i = 0; i < n; i++)
		if (!items[i].taken)
			items[left++] = items[i];
	return left;
}

/* Pairs the items of one name: the k-th of a key with the other trace's k-th of that key. Where in
 * the end one is left on each side, its module has another name now. */
static void pair_name(struct pairs *p, struct candidate *items, size_t n)
{
	for (enum level level = 0; level < NLEVELS; level++) {
		qsort_r(items, n, sizeof(*items), by_level, &level);
		for (size_t i = 0, end, after; i < n; i = end) {
			for (end = after = i;
			     end < n && !compare_keys(&items[i], &items[end], level); end++)
				after += !items[end].after;
			for (size_t k = 0; i + k < after && after + k < end; k++)
				add_pair(p, &items[i + k], &items[after + k]);
		}
		n = compact(items, n);
	}
	if (n == 2 && items[0].after != items[1].after) {
		add_pair(p, &items[items[0].after], &items[!items[0].after]);
		return;
	}
	for (size_t i = 0; i < n; i++)
		add_pair(p, items[i].after ? NULL : &items[i], items[i].after ? &items[i] : NULL);
}

int cli_pairs_find(const struct cli_pair_side *before, const struct cli_pair_side *after,
		   struct cli_item_pair **ret, size_t *ret_n)
{
	_cleanup_free_ struct candidate *all = calloc(before->n + after->n + 1, sizeof(*all));
	struct pairs pairs = {calloc(before->n + after->n + 1, sizeof(*pairs.items)), 0};
	size_t n = 0;

	if (!all || !pairs.items) {
		free(pairs.items);
		return ip_error("out of memory");
	}
	add_candidates(before, false, all, &n);
	add_candidates(after, true, all, &n);
	qsort(all, n, sizeof(*all), by_name);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && !by_name(&all[end], &all[i]);)
			end++;
		pair_name(&pairs, all + i, end - i);
	}
	*ret = pairs.items;
	*ret_n = pairs.n;
	return 0;
}
