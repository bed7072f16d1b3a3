/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads --handover. A name of C++ may have parentheses, too: the last ones of each side are meant.
 */
#include "cli/darc/darc_handovers.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"
#include "common/selection/selection.h"
#include "hotpatcher/process/callees.h"

/* Where the two sides of the text meet, at the "=" behind a ")"; NULL: nowhere. */
static const char *middle_of(const char *text)
{
	const char *at = strstr(text, ")=");

	return at ? at + 1 : NULL;
}

/* Cuts one side, which ends with ")", into function and value. Returns false where it is not of
 * that form. */
static bool cut(char *side, char **ret_value)
{
	const size_t n = strlen(side);
	char *open = strrchr(side, '(');

	if (!n || side[n - 1] != ')' || !open || open == side || open[1] == ')')
		return false;
	side[n - 1] = '\0';
	*open = '\0';
	*ret_value = open + 1;
	return true;
}

int cli_darc_handovers_take(const char *command, struct cli_darc_handovers *h)
{
	const char *middle = middle_of(optarg);
	_cleanup_free_ char *giver = middle ? strndup(optarg, middle - optarg) : NULL;
	_cleanup_free_ char *server = middle ? strdup(middle + 1) : NULL;
	char *value;

	if (!giver || !server || !cut(giver, &value) || !cut(server, &value))
		return cli_usage(command,
				 "--handover takes two functions with a value each, "
				 "'push(job)=run(job)', not '%s'",
				 optarg);
	if (h->n == CLI_DARC_HANDOVERS_MOST)
		return cli_usage(command, "--handover: %u at most", CLI_DARC_HANDOVERS_MOST);
	h->texts[h->n++] = optarg;
	return -1;
}

/* function: the selection that means it; NULL: what the text has. */
static int find_side(const struct cli_darc_trace *t, const char *function, const char *text,
		     size_t length, uint32_t *ret_function, struct ip_value_name *ret_name)
{
	_cleanup_free_ char *side = strndup(text, length);
	char *value;

	if (!side)
		return ip_error("out of memory");
	if (!cut(side, &value))
		return ip_error("--handover %s: a function with a value is expected", text);
	return cli_darc_find_function(t, "--handover", function ? function : side, ret_function) <
				       0 ||
			       ip_value_name_find(t->trace->session, t->trace->dir, value,
						  ret_name) < 0
		       ? -1
		       : 0;
}

static void clear_rules(struct cli_darc_handovers *h)
{
	for (size_t i = 0; h->rules && i < h->n; i++) {
		ip_value_name_clear(&h->rules[i].given);
		ip_value_name_clear(&h->rules[i].served);
	}
	free(h->rules);
	h->rules = NULL;
}

int cli_darc_handovers_find(struct cli_darc_handovers *h, const struct cli_darc_trace *t,
			    struct ip_darc_options *options)
{
	clear_rules(h);
	h->rules = calloc(h->n + 1, sizeof(*h->rules));
	if (!h->rules)
		return ip_error("out of memory");
	for (size_t i = 0; i < h->n; i++) {
		struct ip_handover_rule *r = &h->rules[i];
		const char *middle = middle_of(h->texts[i]);

		if (find_side(t, h->functions[2 * i], h->texts[i], middle - h->texts[i], &r->giver,
			      &r->given) < 0 ||
		    find_side(t, h->functions[2 * i + 1], middle + 1, strlen(middle + 1),
			      &r->server, &r->served) < 0)
			return -1;
	}
	options->handovers = h->rules;
	options->nhandovers = h->n;
	return 0;
}

/* What a process has: functions with probes, and points. */
struct process_names {
	struct ip_callees functions, points;
};

/* Looks for what a selection means. *ret: what was found before, or NULL. */
static int match_names(const struct ip_callees *names, const struct ip_selection *selection,
		       const char *text, const char **ret)
{
	for (size_t i = 0; i < names->n; i++) {
		if (!ip_selection_match(selection, names->names[i], NULL, NULL))
			continue;
		if (*ret)
			return ip_error("--handover %s means several functions (%s, %s): name one",
					text, *ret, names->names[i]);
		*ret = names->names[i];
	}
	return 0;
}

/* The one function or point that a selection means. Returns 0, or -1 with an error. */
static int find_name(const struct process_names *all, const char *text, const char **ret)
{
	_cleanup_free_ char *nearest = NULL;
	struct ip_selection *selection;
	int code;

	if (ip_selection_parse(text, &selection) < 0)
		return -1;
	*ret = NULL;
	code = match_names(&all->functions, selection, text, ret);
	if (code == 0)
		code = match_names(&all->points, selection, text, ret);
	if (code == 0 && !*ret) {
		nearest = ip_selection_nearest(selection, (const char *const *)all->functions.names,
					       all->functions.n);
		code = ip_error("--handover %s: the process has no function with probes and no "
				"point of that name%s%s",
				text, nearest && *nearest ? "; nearest: " : "",
				nearest ? nearest : "");
	}
	ip_selection_destroy(selection);
	return code;
}

/* Takes one side: its function, and a request for its value, once. */
static int take_side(struct cli_darc_handovers *h, const struct process_names *all,
		     const char *text, const struct ip_selection *f0, char **ret_function)
{
	_cleanup_free_ char *side = strdup(text);
	const char *name;
	char *value;

	if (!side)
		return ip_error("out of memory");
	for (size_t i = 0; i < h->requests.n; i++)
		if (!strcmp(h->requests.items[i].text, text))
			*side = '\0';
	if (*side && ip_value_requests_add(&h->requests, IP_REQUEST_ARGS, text) < 0)
		return -1;
	strcpy(side, text);
	if (!cut(side, &value) || find_name(all, side, &name) < 0)
		return -1;
	*ret_function = ip_selection_quote(name, strlen(name));
	if (!*ret_function)
		return -1;
	/* that is live in any case */
	return ip_selection_match(f0, name, NULL, NULL)
		       ? 0
		       : cli_darc_names_add(&h->names, name, SIZE_MAX);
}

int cli_darc_handovers_find_live(struct cli_darc_handovers *h, pid_t pid, const char *f0)
{
	struct ip_selection *selection;
	struct process_names all = {0};
	int ret = 0;

	if (!h->n)
		return 0;
	if (ip_selection_parse(f0, &selection) < 0)
		return -1;
	ret = ip_callees_all(pid, &all.functions, &all.points);
	for (size_t i = 0; ret >= 0 && i < h->n; i++) {
		const char *middle = middle_of(h->texts[i]);
		_cleanup_free_ char *giver = strndup(h->texts[i], middle - h->texts[i]);

		ret = giver ? take_side(h, &all, giver, selection, &h->functions[2 * i])
			    : ip_error("out of memory");
		if (ret >= 0)
			ret = take_side(h, &all, middle + 1, selection, &h->functions[2 * i + 1]);
	}
	ip_callees_clear(&all.functions);
	ip_callees_clear(&all.points);
	ip_selection_destroy(selection);
	return ret < 0 ? -1 : 0;
}

void cli_darc_handovers_tell_unseen(const struct cli_darc_handovers *h)
{
	for (size_t i = 0; h->rules && i < h->n; i++) {
		const struct ip_handover_rule *r = &h->rules[i];
		const char *middle = middle_of(h->texts[i]);

		if (!r->was_given)
			ip_print(stderr, "iprobe: no call of %.*s was seen with that value\n",
				 (int)(middle - h->texts[i]), h->texts[i]);
		if (!r->was_served)
			ip_print(stderr, "iprobe: no call of %s was seen with that value\n",
				 middle + 1);
	}
}

void cli_darc_handovers_clear(struct cli_darc_handovers *h)
{
	clear_rules(h);
	cli_darc_names_clear(&h->names);
	ip_value_requests_clear(&h->requests);
	for (size_t i = 0; i < 2 * h->n; i++)
		free(h->functions[i]);
	memset(h->functions, 0, sizeof(h->functions));
}
