/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the options of a search. See rule_search.h.
 */
#include "config/rule_search.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/units.h"
#include "config/probes_d.h"
#include "config/probes_d_values.h"

#define NUMBER_MOST 1000000000u
/* what the rings held at two moments, and at the end of the session */
#define RECORDINGS 3u

static const char *const keys[] = {"function",	"slower_than",	"percentile", "peak",
				   "start_ops", "decision_ops", "depth",      "maxcount_percentage",
				   "budget",	"memory",	"html",	      "max_functions",
				   NULL};

static int read_number(const struct ip_yaml_document *document, const struct ip_yaml *map,
		       const char *key, unsigned most, unsigned *ret)
{
	const struct ip_yaml *node = ip_yaml_get(map, key);
	const char *text = node ? ip_yaml_text(document, node, key) : NULL;
	unsigned long value;

	if (!text)
		return node ? -1 : 0;
	value = strlen(text) < 11 && !text[strspn(text, "0123456789")] ? strtoul(text, NULL, 10)
								       : 0;
	*ret = value <= most ? value : 0;
	return *ret ? 0
		    : ip_yaml_error(document, node, "%s is a number from 1 to %u, not '%.32s'", key,
				    most, text);
}

/* Whether a text is a number from 0 to 100, as it is written for people. */
static bool is_percent(const char *text, double *ret)
{
	char *end;

	*ret = strtod(text, &end);
	return !text[strspn(text, "0123456789.")] && *text >= '0' && *text <= '9' && !*end &&
	       *ret <= 100;
}

static int read_percentile(const struct ip_yaml_document *document, const struct ip_yaml *map,
			   char **ret)
{
	const struct ip_yaml *node = ip_yaml_get(map, "percentile");
	double value;

	if (ip_probes_text(document, map, "percentile", ret) < 0)
		return -1;
	if (!*ret || (is_percent(*ret + (**ret == 'p'), &value) && value > 0 && value < 100))
		return 0;
	return ip_yaml_error(document, node,
			     "percentile is p50, p99, p99.9 and the like, not '%.32s'", *ret);
}

static int read_maxcount(const struct ip_yaml_document *document, const struct ip_yaml *map,
			 char **ret)
{
	double value;

	if (ip_probes_text(document, map, "maxcount_percentage", ret) < 0)
		return -1;
	return !*ret || is_percent(*ret, &value)
		       ? 0
		       : ip_yaml_error(document, ip_yaml_get(map, "maxcount_percentage"),
				       "maxcount_percentage is a number from 0 to 100, not '%.32s'",
				       *ret);
}

static int read_budget(const struct ip_yaml_document *document, const struct ip_yaml *node,
		       double *ret)
{
	const char *text = ip_yaml_text(document, node, "budget");
	size_t n;

	if (!text)
		return -1;
	n = strspn(text, "0123456789.");
	*ret = n && strchr("0123456789", *text) ? strtod(text, NULL) : 0;
	return !strcmp(text + n, "%") && *ret >= IP_PROFILE_BUDGET_LEAST && *ret <= 100
		       ? 0
		       : ip_yaml_error(document, node,
				       "budget is a share of run time from %g%% to 100%%, such as "
				       "2%%, not '%.32s'",
				       IP_PROFILE_BUDGET_LEAST, text);
}

/* At most one of them says which calls are searched. */
static int check_choice(const struct ip_yaml_document *document, const struct ip_yaml *map)
{
	static const char *const choices[] = {"slower_than", "percentile", "peak"};
	const char *first = NULL;

	for (size_t i = 0; i < sizeof(choices) / sizeof(*choices); i++) {
		const struct ip_yaml *node = ip_yaml_get(map, choices[i]);

		if (node && first)
			return ip_yaml_error(document, node, "%s and %s: one of them", first,
					     choices[i]);
		first = node ? choices[i] : first;
	}
	return 0;
}

int ip_rules_search_read(const struct ip_yaml_document *document, const struct ip_yaml *map,
			 struct ip_rules_rule *ret)
{
	struct ip_rules_search *s = &ret->search;
	const struct ip_yaml *node;

	if (ip_yaml_check_map(document, map, "darc", keys) < 0 || check_choice(document, map) < 0 ||
	    ip_probes_duration(document, map, "slower_than", &s->slower_ns) < 0 ||
	    read_percentile(document, map, &s->percentile) < 0 ||
	    read_number(document, map, "peak", NUMBER_MOST, &s->peak) < 0 ||
	    read_number(document, map, "start_ops", NUMBER_MOST, &s->start_ops) < 0 ||
	    read_number(document, map, "decision_ops", NUMBER_MOST, &s->decision_ops) < 0 ||
	    read_number(document, map, "max_functions", NUMBER_MOST, &s->max_functions) < 0 ||
	    read_number(document, map, "depth", IP_RULES_SEARCH_DEPTH, &s->depth) < 0 ||
	    read_maxcount(document, map, &s->maxcount_percentage) < 0)
		return -1;
	if ((node = ip_yaml_get(map, "budget")) &&
	    read_budget(document, node, &s->budget_percent) < 0)
		return -1;
	if ((node = ip_yaml_get(map, "html")) && ip_yaml_bool(document, node, "html", &s->html) < 0)
		return -1;
	node = ip_yaml_get(map, "function");
	return node ? ip_probes_join(document, node, "function", ip_probes_check_selection,
				     &ret->functions)
		    : 0;
}

uint64_t ip_rules_search_slower(const struct ip_rules_rule *rule)
{
	const struct ip_rules_search *s = &rule->search;

	return s->percentile || s->peak ? 0 : s->slower_ns ? s->slower_ns : rule->limit_ns;
}

uint64_t ip_rules_search_room(const struct ip_rules_rule *rule)
{
	/* events of the kernel are kept in as much memory as the others */
	return RECORDINGS * (rule->ring ? rule->ring : IP_RULES_SEARCH_MEMORY) *
	       (rule->kernel ? 2 : 1);
}

int ip_rules_search_check(const struct ip_yaml_document *document, const struct ip_yaml *map,
			  const struct ip_rules_rule *r)
{
	const struct ip_yaml *node = ip_yaml_get(map, "disk");
	char needed[16];

	if (!r->functions && !r->latency)
		return ip_yaml_error(document, ip_yaml_get(map, "do"),
				     "darc of which function? 'darc: FUNCTION', or a latency");
	if (r->service)
		return ip_yaml_error(document, ip_yaml_get(map, "record"),
				     "darc searches one process: record: service goes with the "
				     "others");
	if (r->overhead_percent > 0 && r->overhead_percent < IP_PROFILE_BUDGET_LEAST)
		return ip_yaml_error(document, ip_yaml_get(map, "overhead"),
				     "the budget of darc is %g%% at least",
				     IP_PROFILE_BUDGET_LEAST);
	if (ip_rules_search_room(r) > r->disk / 2)
		return ip_yaml_error(document, node ? node : ip_yaml_get(map, "do"),
				     "the recordings of a search take up to %s while it goes on, "
				     "which is more than half of disk: less memory, or more disk",
				     ip_format_size(ip_rules_search_room(r), needed));
	return 0;
}
