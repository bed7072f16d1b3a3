/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks a name up in all signatures once, so that the readers of events only index an array.
 */
#include "analysis/read/value_name.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"
#include "common/selection/selection.h"

#define RESULT "retval"
#define SHOWN  40u /* names that a message lists */

/* Returns the N of "argN"; 0: it is another name. */
static unsigned number_of(const char *text)
{
	unsigned n = 0;

	if (strncmp(text, "arg", 3) || !isdigit((unsigned char)text[3]) || text[3] == '0')
		return 0;
	for (const char *p = text + 3; *p; p++) {
		if (!isdigit((unsigned char)*p) || n > IP_VALUES_MAX)
			return 0;
		n = 10 * n + (*p - '0');
	}
	return n <= IP_VALUES_MAX ? n : 0;
}

static bool is_recorded(const struct ip_value_type *type)
{
	return type->code != '-';
}

static int place_of(const struct ip_signature *s, const char *text)
{
	for (unsigned i = 0; i < s->n; i++)
		if (is_recorded(&s->values[i]) && s->values[i].name &&
		    !strcmp(s->values[i].name, text))
			return i;
	return -1;
}

static int place_at_entry(const struct ip_signature *s, const char *text)
{
	unsigned n = number_of(text);
	int place = strcmp(text, RESULT) ? place_of(s, text) : -1;

	return place < 0 && n && n <= s->n && is_recorded(&s->values[n - 1]) ? (int)n - 1 : place;
}

static int place_at_exit(const struct ip_signature *s, const char *text)
{
	int place = place_of(s, text);

	/* the result itself has no name of its own, and is the first value */
	return place < 0 && !strcmp(text, RESULT) && s->n && !s->values[0].name &&
			       is_recorded(&s->values[0])
		       ? 0
		       : place;
}

struct names {
	char **items;
	size_t n;
};

/* Adds a name once. Takes the ownership of text, which may be NULL. */
static int add(struct names *names, char *text)
{
	if (!text)
		return ip_error("out of memory");
	for (size_t i = 0; i < names->n; i++)
		if (!strcmp(names->items[i], text)) {
			free(text);
			return 0;
		}
	if (ip_array_grow(&names->items, names->n, sizeof(*names->items)) < 0) {
		free(text);
		return -1;
	}
	names->items[names->n++] = text;
	return 0;
}

static void clear_names(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->items[i]);
	free(names->items);
}

/* A list is for people: what they can read is enough. */
#define NAMES_MAX 1000u

static int collect(const struct ip_recording *s, struct names *ret)
{
	char arg[16];

	for (size_t i = 0; i < s->nsignatures; i++)
		for (unsigned k = 0; k < s->signatures[i].n && ret->n < NAMES_MAX; k++) {
			const struct ip_value_type *type = &s->signatures[i].values[k];

			if (!is_recorded(type))
				continue;
			snprintf(arg, sizeof(arg), "arg%u", k + 1);
			if (add(ret, strdup(type->name ? type->name : arg)) < 0)
				return -1;
			if (!type->name && s->signatures[i].n == 1 && add(ret, strdup(RESULT)) < 0)
				return -1;
		}
	return 0;
}

static char *join(const struct names *names)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	for (size_t i = 0; out && i < names->n && i < SHOWN; i++)
		ip_print(out, "%s%s", i ? ", " : "", names->items[i]);
	if (out && names->n > SHOWN)
		ip_print(out, " and more");
	return ip_print_end_text(out, &text);
}

char *ip_value_names(const struct ip_recording *s)
{
	struct names names = {0};
	char *text = collect(s, &names) < 0 ? NULL : join(&names);

	clear_names(&names);
	return text;
}

static int is_unknown(const struct ip_recording *s, const char *dir, const char *text)
{
	struct names names = {0};
	_cleanup_free_ char *nearest = NULL;
	_cleanup_free_ char *all = NULL;
	int ret = collect(s, &names);

	if (ret == 0) {
		all = join(&names);
		nearest = ip_nearest_names(text, (const char *const *)names.items, names.n);
		ret = all && nearest ? 0 : ip_error("out of memory");
	}
	if (ret == 0 && !names.n)
		ip_error("%s: no values were recorded: iprobe run and attach record them with "
			 "--args and --retval",
			 dir);
	else if (ret == 0 && *nearest)
		ip_error("%s: no function records a value '%s'; the nearest are: %s; there are: %s",
			 dir, text, nearest, all);
	else if (ret == 0)
		ip_error("%s: no function records a value '%s'; there are: %s", dir, text, all);
	clear_names(&names);
	return -1;
}

int ip_value_name_find(const struct ip_recording *s, const char *dir, const char *text,
		       struct ip_value_name *ret)
{
	bool known = false;

	*ret = (struct ip_value_name){.session = s, .text = strdup(text)};
	ret->at_entry = calloc(s->nsignatures + 1, sizeof(*ret->at_entry));
	ret->at_exit = calloc(s->nsignatures + 1, sizeof(*ret->at_exit));
	if (!ret->text || !ret->at_entry || !ret->at_exit)
		return ip_error("out of memory");
	for (size_t i = 0; i < s->nsignatures; i++) {
		ret->at_entry[i] = place_at_entry(&s->signatures[i], text);
		ret->at_exit[i] = place_at_exit(&s->signatures[i], text);
		known |= ret->at_entry[i] >= 0 || ret->at_exit[i] >= 0;
	}
	return known ? 0 : is_unknown(s, dir, text);
}

void ip_value_name_clear(struct ip_value_name *name)
{
	free(name->text);
	free(name->at_entry);
	free(name->at_exit);
	*name = (struct ip_value_name){0};
}

bool ip_value_name_is_text(const struct ip_value_name *name)
{
	const struct ip_recording *s = name->session;

	for (size_t i = 0; i < s->nsignatures; i++) {
		const struct ip_value_type *values = s->signatures[i].values;
		int entry = name->at_entry[i], exit = name->at_exit[i];

		if ((entry >= 0 && values[entry].code != 's') ||
		    (exit >= 0 && values[exit].code != 's'))
			return false;
	}
	return true;
}

bool ip_value_name_get(const struct ip_value_name *name, const uint64_t *payload, bool at_exit,
		       struct ip_value *ret)
{
	const struct ip_signature *signature = ip_recording_signature(name->session, payload);
	int place;

	if (!signature)
		return false;
	place = (at_exit ? name->at_exit : name->at_entry)[signature - name->session->signatures];
	return place >= 0 && ip_value_at(signature, payload, place, ret) && !ret->missing;
}
