/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares, and prints. See list_check.h.
 */
#include "cli/check/list_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"
#include "hotpatcher/plan/value_check.h"

int cli_list_check_add(struct cli_list_check *check, enum ip_value_request_kind kind,
		       const char *text)
{
	check->last = ip_value_request_option(kind);
	return ip_value_requests_add(&check->requests, kind, text);
}

struct telling {
	const char *what;
	struct ip_json *json; /* NULL: lines */
	size_t n;
};

static void put(struct telling *t, const char *option, const char *text)
{
	t->n++;
	if (!t->json) {
		ip_print(stdout, "%s: %s\n", t->what, text);
		return;
	}
	ip_json_object(t->json, NULL);
	ip_json_string(t->json, "option", option);
	ip_json_string(t->json, "text", text);
	ip_json_end_object(t->json);
}

/* What is said of a request begins with its option. */
static void tell_value(void *context, const char *text)
{
	static const enum ip_value_request_kind kinds[] = {IP_REQUEST_ARGS, IP_REQUEST_RETVAL,
							   IP_REQUEST_WHEN};
	const char *option = NULL;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds) && !option; i++) {
		const char *name = ip_value_request_option(kinds[i]);
		const size_t n = strlen(name);

		if (!strncmp(text, name, n) && text[n] == ' ')
			option = name;
	}
	put(context, option, text);
}

/* Compares the selection with all functions. Returns their names, and how many of them it chooses;
 * the caller frees the array. NULL with an error. */
static const char **compare(const struct ip_modules *modules, const struct ip_selection *selection,
			    size_t *ret_n, size_t *ret_chosen)
{
	const char **names;
	size_t most = 0;

	*ret_n = *ret_chosen = 0;
	for (size_t m = 0; m < modules->n; m++)
		most += modules->items[m].list ? modules->items[m].list->header->nfunctions : 0;
	names = calloc(most + 1, sizeof(*names));
	if (!names)
		ip_error("out of memory");
	for (size_t m = 0; names && m < modules->n; m++) {
		const struct ip_probe_list *list = modules->items[m].list;

		for (uint32_t i = 0; list && i < list->header->nfunctions; i++) {
			const struct ip_pl_function *f = &list->functions[i];
			const char *name = ip_probe_list_string(list, f->name);

			names[(*ret_n)++] = name;
			*ret_chosen += ip_selection_match(
				selection, name,
				f->file ? ip_probe_list_string(list, f->file) : NULL,
				modules->items[m].path);
		}
	}
	return names;
}

int cli_list_check(const struct cli_list_check *check, const char *what,
		   const struct ip_modules *modules, pid_t pid, struct ip_selection *selection,
		   struct ip_json *json)
{
	struct telling t = {.what = what, .json = json};
	_cleanup_free_ const char **names = NULL;
	_cleanup_free_ char *unused = NULL, *said = NULL;
	size_t n, chosen;

	if (!pid)
		ip_selection_modules_unknown(selection);
	names = compare(modules, selection, &n, &chosen);
	if (!names)
		return -1;
	unused = ip_selection_unused_nearest(selection, names, n);
	if (unused && asprintf(&said, "nothing matches %s%s", unused,
			       pid ? "" : "; the libraries that it loads were not looked at") < 0) {
		said = NULL;
		return ip_error("out of memory");
	}
	if (json) {
		ip_json_string(json, "checked", what);
		if (pid)
			ip_json_int(json, "pid", pid);
		ip_json_uint(json, "functions", n);
		ip_json_uint(json, "selected", chosen);
		ip_json_array(json, "problems");
	}
	if (said)
		put(&t, "-f", said);
	else if (!chosen && (pid || ip_selection_only_takes_away(selection)))
		put(&t, "-f", "the selection takes away all of its functions");
	if (chosen && ip_values_check_modules(modules, pid ? pid : getpid(), selection,
					      &check->requests, tell_value, &t) < 0)
		return -1;
	if (json) {
		ip_json_end_array(json);
		ip_json_bool(json, "ok", !t.n);
	}
	return t.n > 0;
}
