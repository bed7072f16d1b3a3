/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells sections of code apart. See section.h.
 */
#include "coldpatch/stage/section.h"

#include <stdint.h>
#include <stdlib.h>

struct section {
	char *directive;
	size_t length;
	unsigned label;
};

static size_t hash(const char *text, size_t length)
{
	uint64_t h = 14695981039346656037u;

	for (size_t i = 0; i < length; i++)
		h = (h ^ (unsigned char)text[i]) * 1099511628211u;
	return h ^ h >> 32;
}

static struct section *slot_of(struct section *all, size_t room, const char *directive,
			       size_t length)
{
	size_t i = hash(directive, length) & (room - 1);

	while (all[i].directive &&
	       (all[i].length != length || memcmp(all[i].directive, directive, length)))
		i = (i + 1) & (room - 1);
	return &all[i];
}

static bool grow(struct sections *s)
{
	size_t room = s->room ? 2 * s->room : 64;
	struct section *all = calloc(room, sizeof(*all));

	if (!all)
		return false;
	for (size_t i = 0; i < s->room; i++)
		if (s->all[i].directive)
			*slot_of(all, room, s->all[i].directive, s->all[i].length) = s->all[i];
	free(s->all);
	s->all = all;
	s->room = room;
	return true;
}

/* Returns the length of the text that tells a section of code from other sections; 0: not a
 * section of code. gcc gives the flags only where it names a section for the first time. The
 * flags count only if they are not the usual ones: a group of its own makes another section of
 * the same name. */
static size_t key_length(struct line l)
{
	const char *comma = memchr(l.text, ',', l.length);

	if (begins(l, "\t.text"))
		return l.length;
	if (!begins(l, "\t.section"))
		return 0;
	if (!comma)
		return l.length;
	if (!begins((struct line){.text = comma, .length = l.text + l.length - comma}, ",\"ax"))
		return 0;
	return comma[4] == '"' ? (size_t)(comma - l.text) : l.length;
}

int section_enter(struct sections *sections, struct line l, unsigned *ret)
{
	size_t length = key_length(l);
	struct section *s;

	*ret = NO_SECTION;
	if (!length)
		return 0;
	if (2 * (sections->n + 1) > sections->room && !grow(sections))
		return -1;
	s = slot_of(sections->all, sections->room, l.text, length);
	if (s->directive) {
		*ret = s->label;
		return 0;
	}
	s->directive = malloc(length);
	if (!s->directive)
		return -1;
	memcpy(s->directive, l.text, length);
	s->length = length;
	*ret = s->label = ++sections->n;
	return 1;
}

bool section_changes(struct line l)
{
	static const char *const directives[] = {".section", ".text",	    ".data",
						 ".bss",     ".subsection", ".previous"};
	size_t skip = 0;

	while (skip < l.length && (l.text[skip] == ' ' || l.text[skip] == '\t'))
		skip++;
	l.text += skip;
	l.length -= skip;
	for (size_t i = 0; i < sizeof(directives) / sizeof(directives[0]); i++) {
		size_t n = strlen(directives[i]);

		if (begins(l, directives[i]) && (l.length == n || strchr(" \t;#", l.text[n])))
			return true;
	}
	return false;
}

void sections_release(struct sections *s)
{
	for (size_t i = 0; i < s->room; i++)
		free(s->all[i].directive);
	free(s->all);
}
