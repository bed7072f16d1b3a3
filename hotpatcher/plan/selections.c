/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The selections of a session, treated as one.
 */
#include "hotpatcher/plan/selections.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"

/* Each selection is matched against every function of the target. */
#define SELECTIONS_MAX 4096u

static void clear_item(struct ip_selections_item *item)
{
	ip_selection_destroy(item->selection);
	free(item->text);
}

/* Removes an earlier selection with the same text as the last one: the last one decides about every
 * function that the earlier one decides about. The first selection is kept, since only it may start
 * from all functions. */
static void drop_void(struct ip_selections *s)
{
	const struct ip_selections_item *last = ip_selections_last(s);

	for (size_t i = 1; i + 1 < s->n; i++)
		if (!strcmp(s->items[i].text, last->text)) {
			clear_item(&s->items[i]);
			memmove(&s->items[i], &s->items[i + 1], (s->n - i - 1) * sizeof(*s->items));
			s->n--;
			return;
		}
}

int ip_selections_add(struct ip_selections *s, const char *text)
{
	struct ip_selections_item item = {0};
	struct ip_selections_item *grown;

	if (s->n == SELECTIONS_MAX)
		return ip_error("a session takes %u different selections: end it and begin another",
				SELECTIONS_MAX);
	if (ip_selection_parse(text, &item.selection) < 0)
		return -1;
	item.text = ip_selection_text(item.selection);
	if (!item.text) {
		clear_item(&item);
		return -1;
	}
	item.takes_away = s->n && ip_selection_only_takes_away(item.selection);
	grown = reallocarray(s->items, s->n + 1, sizeof(*grown));
	if (!grown) {
		clear_item(&item);
		return ip_error("out of memory");
	}
	s->items = grown;
	s->items[s->n++] = item;
	drop_void(s);
	return 0;
}

int ip_selections_with(const struct ip_selections *s, const char *text, struct ip_selections *ret)
{
	*ret = (struct ip_selections){.rules = s->rules, .chooser = s->chooser, .plt = s->plt};
	for (size_t i = 0; i < s->n; i++)
		if (ip_selections_add(ret, s->items[i].text) < 0)
			goto fail;
	if (ip_selections_add(ret, text) == 0)
		return 0;
fail:
	ip_selections_clear(ret);
	return -1;
}

const struct ip_selections_item *ip_selections_last(const struct ip_selections *s)
{
	return &s->items[s->n - 1];
}

bool ip_selections_match(const struct ip_selections *s, const char *linker_name, const char *file,
			 const char *module)
{
	for (size_t i = s->n; i-- > 0;) {
		bool matched = ip_selection_match(s->items[i].selection, linker_name, file, module);

		/* a selection of ! items only, taken by itself, matches all other functions */
		if (matched != s->items[i].takes_away)
			return matched;
	}
	return false;
}

void ip_selections_clear(struct ip_selections *s)
{
	for (size_t i = 0; i < s->n; i++)
		clear_item(&s->items[i]);
	free(s->items);
	*s = (struct ip_selections){0};
}
