/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the lines of the session file about functions that end by jumping to others.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/read/session_parser.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"

int ip_session_parse_silent(struct ip_session_parser *p)
{
	struct ip_recording *s = p->session;
	const char *numbers = p->nfields > 1 ? p->fields[1] : "";
	uint64_t first, last;

	while (*numbers) {
		if (!ip_numbers_next(&numbers, &first, &last))
			return ip_session_bad(p, "not a list of numbers");
		for (uint64_t n = first; n <= last && n < s->nnumbers; n++)
			if (!strcmp(p->fields[0], "tails"))
				s->functions[s->numbers[n].function].tails = true;
			else
				s->numbers[n].silent = !strcmp(p->fields[0], "silent");
	}
	return 0;
}

/* ret: their names; NULL: not wanted. */
static size_t find_silent(const struct ip_recording *s, struct ip_name_list *ret)
{
	enum { SILENT = 1, SHOWN = 2 };
	_cleanup_free_ uint8_t *seen = calloc(s->nfunctions, sizeof(*seen));
	size_t n = 0;

	for (size_t i = 0; seen && i < s->nnumbers; i++)
		seen[s->numbers[i].function] |= s->numbers[i].silent ? SILENT : SHOWN;
	for (size_t i = 1; seen && i < s->nfunctions; i++) {
		n += seen[i] == SILENT;
		if (ret && seen[i] == SILENT)
			ip_name_list_add(ret, s->functions[i].linker_name);
	}
	return n;
}

size_t ip_recording_silent(const struct ip_recording *s)
{
	return find_silent(s, NULL);
}

void ip_recording_silent_names(const struct ip_recording *s, struct ip_name_list *ret)
{
	*ret = (struct ip_name_list){0};
	find_silent(s, ret);
}

int ip_session_parse_jump(struct ip_session_parser *p)
{
	struct ip_recording *s = p->session;
	uint64_t number = 0, to = 0;

	if (ip_session_number(p, 1, IP_NUMBER_MAX, &number) < 0 ||
	    ip_session_number(p, 2, IP_NUMBER_MAX, &to) < 0 ||
	    ip_array_grow(&s->jumps, s->njumps, sizeof(*s->jumps)) < 0)
		return -1;
	s->jumps[s->njumps++] = (struct ip_recording_jump){number, to};
	return 0;
}

static int by_number(const void *a, const void *b)
{
	const struct ip_recording_jump *x = a, *y = b;

	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return x->to < y->to ? -1 : x->to > y->to;
}

void ip_recording_sort_jumps(struct ip_recording *s)
{
	if (s->njumps)
		qsort(s->jumps, s->njumps, sizeof(*s->jumps), by_number);
}

void ip_session_index_jumps(struct ip_recording *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->njumps; i++) {
		uint32_t function = ip_recording_number(s, s->jumps[i].to).function;

		if (function)
			s->jumps[n++] = (struct ip_recording_jump){s->jumps[i].number, function};
	}
	s->njumps = n;
	ip_recording_sort_jumps(s);
}

bool ip_recording_leads_to(const struct ip_recording *s, uint32_t number, uint32_t function)
{
	const struct ip_recording_jump key = {number, function};

	return s->njumps && bsearch(&key, s->jumps, s->njumps, sizeof(*s->jumps), by_number);
}
