/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the state of a search.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/darc/darc_state.h"
#include "cli/darc/darc_state_values.h"
#include "common/error.h"
#include "config/yaml_tree.h"

#define NAMES_MOST   8192u /* of a set */
#define MODULES_MOST 256u
#define CALLS_MOST   (1ull << 48) /* of a bin: their sum is no overflow */
#define NS_MOST	     (1ull << 62)

static int read_names(const struct cli_state_object *f, const char *key, struct cli_darc_names *ret)
{
	const struct ip_yaml *list = cli_state_list(f, key, NAMES_MOST);

	if (!list)
		return -1;
	for (size_t i = 0; i < list->n; i++) {
		const struct ip_yaml *item = list->items[i];

		if (item->kind != IP_YAML_SCALAR || !*item->text ||
		    strlen(item->text) > CLI_STATE_TEXT_MAX)
			return cli_state_error(f, item, key, "a name is needed");
		if (cli_darc_names_add(ret, item->text, SIZE_MAX) < 0)
			return -1;
	}
	return 0;
}

/* A pair of a bin, or where it begins, and its calls. */
static int read_pair(const struct cli_state_object *f, const struct ip_yaml *pair, const char *key,
		     uint64_t most, uint64_t *ret_from, uint64_t *ret_calls)
{
	if (pair->kind != IP_YAML_LIST || pair->n != 2)
		return cli_state_error(f, pair, key, "a pair of numbers is needed");
	if (cli_state_number_of(f, pair->items[0], key, UINT64_MAX, ret_from) < 0 ||
	    cli_state_number_of(f, pair->items[1], key, most, ret_calls) < 0)
		return -1;
	return *ret_calls ? 0 : cli_state_error(f, pair, key, "bins without calls are left out");
}

static int read_bins(const struct cli_state_object *f, struct ip_peak_bins *ret)
{
	const struct ip_yaml *list = cli_state_list(f, "bins", IP_PEAK_BINS);
	uint64_t next = 0;

	if (!list)
		return -1;
	for (size_t i = 0; i < list->n; i++) {
		uint64_t bin, calls;

		if (read_pair(f, list->items[i], "bins", CALLS_MOST, &bin, &calls) < 0)
			return -1;
		if (bin < next || bin >= IP_PEAK_BINS)
			return cli_state_error(f, list->items[i], "bins",
					       "there is no such bin behind it");
		ret->calls[bin] = calls;
		ret->count += calls;
		next = bin + 1;
	}
	return 0;
}

static int read_durations(const struct cli_state_object *f, struct ip_histogram *ret)
{
	const size_t most = (size_t)IP_HISTOGRAM_ROWS * IP_HISTOGRAM_STEPS;
	const struct ip_yaml *list = cli_state_list(f, "latencies", most);
	uint64_t before = 0;

	if (!list)
		return -1;
	for (size_t i = 0; i < list->n; i++) {
		unsigned row, step;
		uint64_t from, calls;
		uint32_t *counts;

		if (read_pair(f, list->items[i], "latencies", UINT32_MAX, &from, &calls) < 0)
			return -1;
		row = ip_histogram_row_of(from);
		step = ip_histogram_step_of(from, row);
		if (ip_histogram_step_from(row, step) != from || (i && from <= before))
			return cli_state_error(f, list->items[i], "latencies",
					       "no step begins there");
		counts = ret->rows[row] ? ret->rows[row] : ip_histogram_row(ret, row);
		if (!counts)
			return ip_error("out of memory");
		counts[step] = (uint32_t)calls;
		ret->count += calls;
		before = from;
	}
	return 0;
}

/* A range that is there must be the one that follows from the latencies. */
static int check_range(const struct cli_state_object *f, const char *key,
		       const struct ip_darc_range *range)
{
	const struct ip_yaml *node = ip_yaml_get(f->object, key), *to;
	uint64_t from_ns, to_ns = UINT64_MAX;

	if (!node)
		return range->most ? cli_state_error(f, NULL, key, "it is missing") : 0;
	if (node->kind != IP_YAML_MAP)
		return cli_state_error(f, node, key, "an object is needed");
	to = ip_yaml_get(node, "to_ns");
	if (cli_state_number(&(struct cli_state_object){f->document, node}, "from_ns", UINT64_MAX,
			     &from_ns) < 0 ||
	    (!cli_state_is_null(to) &&
	     cli_state_number(&(struct cli_state_object){f->document, node}, "to_ns", UINT64_MAX,
			      &to_ns) < 0))
		return -1;
	return range->most && from_ns == range->from_ns && to_ns == range->to_ns
		       ? 0
		       : cli_state_error(f, node, key,
					 "it does not follow from the latencies and the options");
}

static int read_profile(const struct cli_state_object *f, struct cli_darc_state *ret)
{
	struct ip_darc_search *s = &ret->profile;
	struct ip_darc_latencies *l = &s->latencies;
	bool chosen;

	if (!ip_yaml_get(f->object, "bins"))
		return ret->level ? cli_state_error(f, NULL, "bins", "they are missing") : 0;
	if (read_bins(f, &l->bins) < 0 || read_durations(f, &l->durations) < 0 ||
	    cli_state_number(f, "min_ns", NS_MOST, &l->bins.min) < 0 ||
	    cli_state_number(f, "max_ns", NS_MOST, &l->bins.max) < 0 ||
	    cli_state_number(f, "total_ns", UINT64_MAX, &l->bins.total) < 0 ||
	    cli_state_number(f, "left_out", UINT64_MAX, &l->left_out) < 0 ||
	    cli_state_number(f, "events", UINT64_MAX, &l->events) < 0 ||
	    cli_state_number(f, "profile_ns", NS_MOST, &ret->profile_ns) < 0)
		return -1;
	if (l->durations.count != l->bins.count)
		return cli_state_error(f, NULL, "latencies",
				       "they are not as many calls as the bins have");
	ret->looked = true;
	chosen = ip_darc_search_choose(s);
	if (!ret->level)
		return 0;
	if (!chosen)
		return cli_state_error(f, NULL, "bins",
				       "there is no such peak as the options choose");
	s->ranges[0].most = s->options.decision_operations;
	s->ranges[0].seen = s->ranges[0].count;
	s->ranges[1].seen = s->ranges[1].count;
	if (check_range(f, "searched", &s->ranges[0]) < 0 ||
	    check_range(f, "usual", &s->ranges[1]) < 0)
		return -1;
	return 0;
}

static int read_options(const struct cli_state_object *f, struct cli_darc_state *ret)
{
	const struct ip_yaml *object = cli_state_get(f, "options", IP_YAML_MAP), *choice;
	struct ip_darc_options *o = &ret->profile.options;
	struct cli_state_object in = {f->document, object};
	uint64_t number, tid, decision, depth;

	if (!object)
		return -1;
	choice = cli_state_get(&in, "search", IP_YAML_SCALAR);
	if (!choice)
		return -1;
	for (o->choice = IP_DARC_RIGHTMOST; strcmp(cli_state_choice(o->choice), choice->text);
	     o->choice++)
		if (o->choice == IP_DARC_PERCENTILE)
			return cli_state_error(&in, choice, "search", "there is no such choice");
	if (cli_state_number(&in, "peak", IP_PEAKS_MOST, &number) < 0 ||
	    cli_state_number(&in, "slower_than_ns", NS_MOST, &o->slower_ns) < 0 ||
	    cli_state_real(&in, "percentile", 1, &o->share) < 0 ||
	    cli_state_number(&in, "tid", INT32_MAX, &tid) < 0 ||
	    cli_state_number(&in, "start_ops", UINT64_MAX, &o->start_operations) < 0 ||
	    cli_state_number(&in, "decision_ops", SIZE_MAX, &decision) < 0 ||
	    cli_state_real(&in, "maxcount_percentage", 100, &o->maxcount_percent) < 0 ||
	    cli_state_number(&in, "depth", IP_DARC_DEPTH_MOST, &depth) < 0 ||
	    cli_state_number(&in, "max_functions", SIZE_MAX, &ret->max_functions) < 0 ||
	    (ip_yaml_get(object, "all_faster") &&
	     cli_state_bool(&in, "all_faster", &o->all_faster) < 0))
		return -1;
	o->number = number;
	o->tid = (uint32_t)tid;
	o->decision_operations = decision;
	o->depth = (uint32_t)depth;
	if (!decision || !o->start_operations)
		return cli_state_error(&in, NULL, "options", "a number of calls is 0");
	return 0;
}

static int read_modules(const struct cli_state_object *f, struct cli_darc_state *ret)
{
	const struct ip_yaml *list = cli_state_list(f, "modules", MODULES_MOST);

	if (!list)
		return -1;
	ret->modules = calloc(list->n + 1, sizeof(*ret->modules));
	if (!ret->modules)
		return ip_error("out of memory");
	for (size_t i = 0; i < list->n; i++) {
		const struct cli_state_object in = {f->document, list->items[i]};
		struct cli_darc_state_module *m = &ret->modules[ret->nmodules++];

		if (in.object->kind != IP_YAML_MAP)
			return cli_state_error(f, in.object, "modules", "an object is needed");
		if (cli_state_text(&in, "path", false, &m->path) < 0 ||
		    cli_state_text(&in, "build_id", false, &m->build_id) < 0)
			return -1;
		if (m->build_id[strspn(m->build_id, "0123456789abcdef")])
			return cli_state_error(&in, NULL, "build_id", "that is none");
	}
	return 0;
}

static int read_state(const struct cli_state_object *f, struct ip_darc_search *ret)
{
	const struct ip_yaml *state = cli_state_get(f, "state", IP_YAML_SCALAR),
			     *reason = cli_state_get(f, "reason", IP_YAML_SCALAR);
	unsigned i = 0;

	if (!state || !reason)
		return -1;
	while (i < IP_DARC_STATES && strcmp(state->text, ip_darc_state_name(i)))
		i++;
	if (i == IP_DARC_STATES)
		return cli_state_error(f, state, "state", "there is no such state");
	ret->state = i;
	snprintf(ret->reason, sizeof(ret->reason), "%s",
		 cli_state_is_null(reason) ? "" : reason->text);
	return 0;
}

static int read_all(const struct cli_state_object *f, struct cli_darc_state *ret)
{
	const struct ip_yaml *format;
	uint64_t version, level;

	if (!f->object || f->object->kind != IP_YAML_MAP)
		return ip_error("%s: that is no state of a search", f->document->name);
	format = ip_yaml_get(f->object, "format");
	if (!format || format->kind != IP_YAML_SCALAR ||
	    strcmp(format->text, CLI_DARC_STATE_FORMAT) != 0)
		return ip_error("%s: that is no state of a search", f->document->name);
	if (cli_state_number(f, "version", UINT64_MAX, &version) < 0)
		return -1;
	if (version != CLI_DARC_STATE_VERSION)
		return ip_error("%s: version %lu of the format is not known, %u is",
				f->document->name, (unsigned long)version, CLI_DARC_STATE_VERSION);
	if (cli_state_text(f, "function", false, &ret->function) < 0 ||
	    cli_state_number(f, "level", IP_DARC_DEPTH_MOST, &level) < 0 ||
	    cli_state_text(f, "linker_name", !level, &ret->linker_name) < 0 ||
	    read_options(f, ret) < 0)
		return -1;
	ret->level = (uint32_t)level;
	if (level && !*ret->linker_name)
		return cli_state_error(f, NULL, "linker_name", "it is missing");
	if (read_profile(f, ret) < 0 || read_state(f, &ret->profile) < 0 ||
	    read_modules(f, ret) < 0 || read_names(f, "live", &ret->live) < 0)
		return -1;
	for (unsigned i = 0; i < CLI_DARC_SETS; i++) {
		const char *key;
		struct cli_darc_names *set = cli_darc_sets_get(&ret->sets, i, &key);

		if (read_names(f, key, set) < 0)
			return -1;
	}
	return cli_darc_state_read_tree(f, ret);
}

int cli_darc_state_read(const char *text, size_t size, const char *name, struct cli_darc_state *ret)
{
	struct ip_yaml_document document;
	int code;

	*ret = (struct cli_darc_state){0};
	if (ip_yaml_parse(text, size, name, &document) < 0)
		return -1;
	code = read_all(&(struct cli_state_object){&document, document.root}, ret);
	ip_yaml_clear(&document);
	return code;
}

void cli_darc_state_clear(struct cli_darc_state *s)
{
	free(s->function);
	free(s->linker_name);
	ip_darc_latencies_clear(&s->profile.latencies);
	for (size_t i = 0; i < s->nmodules; i++) {
		free(s->modules[i].path);
		free(s->modules[i].build_id);
	}
	free(s->modules);
	cli_darc_sets_clear(&s->sets);
	cli_darc_names_clear(&s->live);
	for (size_t i = 0; i < s->nnodes; i++) {
		free(s->nodes[i].function);
		free(s->nodes[i].call_site);
	}
	free(s->nodes);
	for (size_t i = 0; i < s->ncauses; i++)
		free(s->causes[i].kind);
	free(s->causes);
	*s = (struct cli_darc_state){0};
}
