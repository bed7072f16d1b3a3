/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads texts, selections and times of probes.d. See probes_d_values.h.
 */
#include "config/probes_d_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/selection/selection.h"
#include "common/units.h"

int ip_probes_error_at(const struct ip_yaml_document *document, const struct ip_yaml *node,
		       const char *what)
{
	_cleanup_free_ char *why = strdup(ip_error_message());

	return ip_yaml_error(document, node, "%s%s%s", what ? what : "", what ? ": " : "",
			     why ? why : "out of memory");
}

int ip_probes_text(const struct ip_yaml_document *document, const struct ip_yaml *map,
		   const char *key, char **ret)
{
	const struct ip_yaml *node = ip_yaml_get(map, key);
	const char *text;

	if (!node)
		return 0;
	text = ip_yaml_text(document, node, key);
	if (!text)
		return -1;
	*ret = strdup(text);
	return *ret ? 0 : ip_error("out of memory");
}

int ip_probes_join(const struct ip_yaml_document *document, const struct ip_yaml *node,
		   const char *what,
		   int (*check)(const struct ip_yaml_document *, const struct ip_yaml *,
				const char *),
		   char **ret)
{
	const struct ip_yaml *only[] = {node};
	const struct ip_yaml *const *items =
		node->kind == IP_YAML_LIST ? (const struct ip_yaml *const *)node->items : only;
	size_t n = node->kind == IP_YAML_LIST ? node->n : 1, size;
	char *joined = NULL;
	FILE *out;
	int done = 0;

	if (!n)
		return ip_yaml_error(document, node, "%s is empty", what);
	out = open_memstream(&joined, &size);
	if (!out)
		return ip_error("out of memory");
	for (size_t i = 0; i < n && done == 0; i++) {
		const char *text = ip_yaml_text(document, items[i], what);

		done = text ? 0 : -1;
		if (text && check)
			done = check(document, items[i], text);
		if (done == 0)
			fprintf(out, "%s%s", i ? "," : "", text);
	}
	if (fclose(out) != 0 && done == 0)
		done = ip_error("out of memory");
	if (done < 0) {
		free(joined);
		return -1;
	}
	*ret = joined;
	return 0;
}

/* While the files are read, it is not known yet which names there will be. So every name counts as
 * one that selects something. */
static int find_any(void *context, const char *name, char **ret)
{
	(void)context, (void)name;
	*ret = strdup("x");
	return *ret ? 1 : ip_error("out of memory");
}

int ip_probes_check_selection(const struct ip_yaml_document *document, const struct ip_yaml *node,
			      const char *text)
{
	struct ip_selection *selection;
	ip_selection_finder *before;
	void *context;
	int done;

	if (strchr(text, '\n'))
		return ip_yaml_error(document, node, "a selection of several lines: write a list");
	before = ip_selection_set_finder(find_any, NULL, &context);
	done = ip_selection_parse_names(text, &selection);
	ip_selection_set_finder(before, context, NULL);
	if (done == 0) {
		ip_selection_destroy(selection);
		return 0;
	}
	return ip_probes_error_at(document, node, NULL);
}

bool ip_probes_is_bare(const char *text)
{
	text += strspn(text, "> \t");
	return text[strspn(text, "0123456789.")] == '\0' && *text;
}

void ip_probes_note_duration(const struct ip_yaml_document *document, const struct ip_yaml *node,
			     const char *what, const char *text, uint64_t ns)
{
	char is[24];

	if (ip_probes_is_bare(text))
		ip_yaml_note(document, node, "%s is %s, since it has no unit (10s, 200ms)", what,
			     ip_format_duration(ns, is));
}

void ip_probes_note_size(const struct ip_yaml_document *document, const struct ip_yaml *node,
			 const char *what, const char *text, uint64_t bytes)
{
	if (ip_probes_is_bare(text))
		ip_yaml_note(document, node, "%s is %lu byte%s, since it has no unit (64M, 2G)",
			     what, bytes, ip_plural(bytes));
}

int ip_probes_duration(const struct ip_yaml_document *document, const struct ip_yaml *map,
		       const char *key, uint64_t *ret)
{
	const struct ip_yaml *node = ip_yaml_get(map, key);
	const char *text;

	if (!node)
		return 0;
	text = ip_yaml_text(document, node, key);
	if (!text)
		return -1;
	if (ip_parse_duration(text, ret) < 0)
		return ip_probes_error_at(document, node, key);
	ip_probes_note_duration(document, node, key, text, *ret);
	return *ret ? 0
		    : ip_yaml_error(document, node, "%s is nothing: leave it out, or write 10s",
				    key);
}
