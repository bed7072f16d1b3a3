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

static int find_side(const struct cli_darc_trace *t, const char *text, size_t length,
		     uint32_t *ret_function, struct ip_value_name *ret_name)
{
	_cleanup_free_ char *side = strndup(text, length);
	char *value;

	if (!side)
		return ip_error("out of memory");
	if (!cut(side, &value))
		return ip_error("--handover %s: a function with a value is expected", text);
	return cli_darc_find_function(t, "--handover", side, ret_function) < 0 ||
			       ip_value_name_find(t->trace->session, t->trace->dir, value,
						  ret_name) < 0
		       ? -1
		       : 0;
}

int cli_darc_handovers_find(struct cli_darc_handovers *h, const struct cli_darc_trace *t,
			    struct ip_darc_options *options)
{
	h->rules = calloc(h->n + 1, sizeof(*h->rules));
	if (!h->rules)
		return ip_error("out of memory");
	for (size_t i = 0; i < h->n; i++) {
		struct ip_handover_rule *r = &h->rules[i];
		const char *middle = middle_of(h->texts[i]);

		if (find_side(t, h->texts[i], middle - h->texts[i], &r->giver, &r->given) < 0 ||
		    find_side(t, middle + 1, strlen(middle + 1), &r->server, &r->served) < 0)
			return -1;
	}
	options->handovers = h->rules;
	options->nhandovers = h->n;
	return 0;
}

void cli_darc_handovers_clear(struct cli_darc_handovers *h)
{
	for (size_t i = 0; h->rules && i < h->n; i++) {
		ip_value_name_clear(&h->rules[i].given);
		ip_value_name_clear(&h->rules[i].served);
	}
	free(h->rules);
	h->rules = NULL;
}
