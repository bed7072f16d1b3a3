/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the entries of probes.d key by key.
 */
#include "config/probes_d.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/selection/selection.h"
#include "common/units.h"
#include "config/probes_d_values.h"
#include "config/yaml_tree.h"

static const char *const file_keys[] = {"selections", "profiles", "rules", NULL};
static const char *const selection_keys[] = {"description", "functions", NULL};
static const char *const profile_keys[] = {"description", "events",   "functions", "budget",
					   "interval",	  "duration", NULL};

static int set_place(struct ip_probes_place *place, const struct ip_yaml_document *document,
		     const struct ip_yaml *node)
{
	place->file = strdup(document->name);
	place->line = node->line;
	place->column = node->column;
	return place->file ? 0 : ip_error("out of memory");
}

/* Checks the name of an FPerf event. Whether the event exists is known only where events are
 * counted. */
static int check_event(const struct ip_yaml_document *document, const struct ip_yaml *node,
		       const char *text)
{
	for (const char *p = text; *p; p++)
		if (*p <= ' ' || *p == 0x7f)
			return ip_yaml_error(document, node, "'%.64s' is no name of an event",
					     text);
	return 0;
}

static bool is_name(const char *name)
{
	return ip_selection_is_name(name, strlen(name));
}

static int check_name(const struct ip_yaml_document *document, const struct ip_yaml *key,
		      const char *what, const struct ip_probes_place *other)
{
	if (!is_name(key->text))
		return ip_yaml_error(document, key,
				     "'%.64s' is no name for a %s: letters, digits, '_', '-' and "
				     "'.', at most 64, a letter or digit first",
				     key->text, what);
	if (other)
		return ip_yaml_error(document, key, "there is a %s '%s' already, at %s:%u", what,
				     key->text, other->file, other->line);
	return 0;
}

static int read_selection(const struct ip_yaml_document *document, const struct ip_yaml *key,
			  const struct ip_yaml *map, struct ip_named_selection *ret)
{
	const struct ip_yaml *functions;

	if (set_place(&ret->place, document, key) < 0)
		return -1;
	ret->name = strdup(key->text);
	if (!ret->name)
		return ip_error("out of memory");
	if (map->kind != IP_YAML_MAP) /* the short form: only the functions */
		return ip_probes_join(document, map, "the selection", ip_probes_check_selection,
				      &ret->functions);
	if (ip_yaml_check_map(document, map, "a selection", selection_keys) < 0 ||
	    ip_probes_text(document, map, "description", &ret->description) < 0)
		return -1;
	functions = ip_yaml_get(map, "functions");
	if (!functions)
		return ip_yaml_error(document, key, "the selection '%s' has no functions",
				     key->text);
	return ip_probes_join(document, functions, "functions", ip_probes_check_selection,
			      &ret->functions);
}

/* Reads "2%" or "500/s". */
static int read_budget(const struct ip_yaml_document *document, const struct ip_yaml *node,
		       struct ip_fperf_profile *ret)
{
	const char *text = ip_yaml_text(document, node, "budget");
	char *end;
	double value;

	if (!text)
		return -1;
	value = strtod(text, &end);
	if (*text >= '0' && *text <= '9' && isfinite(value) && !strcmp(end, "%") &&
	    value >= IP_PROFILE_BUDGET_LEAST && value <= 100) {
		ret->budget_percent = value;
		return 0;
	}
	if (*text >= '0' && *text <= '9' && !strcmp(end, "/s") && value >= 1 && value <= 1e9 &&
	    value == floor(value)) {
		ret->budget_samples = value;
		return 0;
	}
	return ip_yaml_error(document, node,
			     "budget is a share of run time such as 2%%, or samples a second such "
			     "as 500/s, not '%.64s'",
			     text);
}

static int read_profile(const struct ip_yaml_document *document, const struct ip_yaml *key,
			const struct ip_yaml *map, struct ip_fperf_profile *ret)
{
	const struct ip_yaml *node;

	if (set_place(&ret->place, document, key) < 0)
		return -1;
	ret->name = strdup(key->text);
	if (!ret->name)
		return ip_error("out of memory");
	if (ip_yaml_check_map(document, map, "a profile", profile_keys) < 0 ||
	    ip_probes_text(document, map, "description", &ret->description) < 0)
		return -1;
	if ((node = ip_yaml_get(map, "events")) &&
	    ip_probes_join(document, node, "events", check_event, &ret->events) < 0)
		return -1;
	if ((node = ip_yaml_get(map, "functions")) &&
	    ip_probes_join(document, node, "functions", ip_probes_check_selection,
			   &ret->functions) < 0)
		return -1;
	if ((node = ip_yaml_get(map, "budget")) && read_budget(document, node, ret) < 0)
		return -1;
	return ip_probes_duration(document, map, "interval", &ret->interval_ns) < 0
		       ? -1
		       : ip_probes_duration(document, map, "duration", &ret->duration_ns);
}

static void clear_selection(struct ip_named_selection *s)
{
	free(s->name);
	free(s->description);
	free(s->functions);
	free(s->place.file);
}

static void clear_profile(struct ip_fperf_profile *p)
{
	free(p->name);
	free(p->description);
	free(p->events);
	free(p->functions);
	free(p->place.file);
}

static int add_selections(struct ip_probes_d *probes, const struct ip_yaml_document *document,
			  const struct ip_yaml *map)
{
	for (size_t i = 0; i + 1 < map->n; i += 2) {
		const struct ip_named_selection *other =
			ip_probes_d_selection(probes, map->items[i]->text);
		struct ip_named_selection s = {0};

		if (check_name(document, map->items[i], "selection", other ? &other->place : NULL) <
		    0)
			return -1;
		if (read_selection(document, map->items[i], map->items[i + 1], &s) < 0 ||
		    ip_array_grow(&probes->selections, probes->nselections, sizeof(s)) < 0) {
			clear_selection(&s);
			return -1;
		}
		probes->selections[probes->nselections++] = s;
	}
	return 0;
}

static int add_profiles(struct ip_probes_d *probes, const struct ip_yaml_document *document,
			const struct ip_yaml *map)
{
	for (size_t i = 0; i + 1 < map->n; i += 2) {
		const struct ip_fperf_profile *other =
			ip_probes_d_profile(probes, map->items[i]->text);
		struct ip_fperf_profile p = {0};

		if (check_name(document, map->items[i], "profile", other ? &other->place : NULL) <
		    0)
			return -1;
		if (read_profile(document, map->items[i], map->items[i + 1], &p) < 0 ||
		    ip_array_grow(&probes->profiles, probes->nprofiles, sizeof(p)) < 0) {
			clear_profile(&p);
			return -1;
		}
		probes->profiles[probes->nprofiles++] = p;
	}
	return 0;
}

static int add_rules(struct ip_probes_d *probes, const struct ip_yaml_document *document,
		     const struct ip_yaml *map)
{
	for (size_t i = 0; i + 1 < map->n; i += 2) {
		const struct ip_rules_rule *other = ip_probes_d_rule(probes, map->items[i]->text);
		struct ip_probes_place place = {0};
		struct ip_rules_rule r = {0};

		if (other)
			place = (struct ip_probes_place){other->file, other->line, other->column};
		if (check_name(document, map->items[i], "rule", other ? &place : NULL) < 0)
			return -1;
		if (ip_rules_read(document, map->items[i], map->items[i + 1], &r) < 0 ||
		    ip_array_grow(&probes->rules, probes->nrules, sizeof(r)) < 0) {
			ip_rules_rule_clear(&r);
			return -1;
		}
		probes->rules[probes->nrules++] = r;
	}
	return 0;
}

static int add_document(struct ip_probes_d *probes, const struct ip_yaml_document *document)
{
	const struct ip_yaml *root = document->root, *part;

	if (!root || (root->kind == IP_YAML_SCALAR && !*root->text))
		return 0;
	if (ip_yaml_check_map(document, root, "a file of probes.d", file_keys) < 0)
		return -1;
	part = ip_yaml_get(root, "selections");
	if (part && part->kind != IP_YAML_MAP)
		return ip_yaml_error(document, part,
				     "selections are written as lines of 'NAME: [GLOB, ...]'");
	if (part && add_selections(probes, document, part) < 0)
		return -1;
	part = ip_yaml_get(root, "profiles");
	if (part && part->kind != IP_YAML_MAP)
		return ip_yaml_error(document, part,
				     "profiles are written by name: 'NAME:' and keys below it");
	if (part && add_profiles(probes, document, part) < 0)
		return -1;
	part = ip_yaml_get(root, "rules");
	if (part && part->kind != IP_YAML_MAP)
		return ip_yaml_error(document, part,
				     "rules are written by name: 'NAME:' and keys below it");
	return part ? add_rules(probes, document, part) : 0;
}

int ip_probes_d_add(struct ip_probes_d *probes, const char *text, size_t size, const char *file)
{
	struct ip_yaml_document document;
	int done;

	if (ip_yaml_parse(text, size, file, &document) < 0)
		return -1;
	document.notes = &probes->notes;
	done = add_document(probes, &document);
	ip_yaml_clear(&document);
	probes->nfiles++;
	return done;
}

void ip_probes_d_clear(struct ip_probes_d *probes)
{
	for (size_t i = 0; i < probes->nselections; i++)
		clear_selection(&probes->selections[i]);
	for (size_t i = 0; i < probes->nprofiles; i++)
		clear_profile(&probes->profiles[i]);
	for (size_t i = 0; i < probes->nrules; i++)
		ip_rules_rule_clear(&probes->rules[i]);
	free(probes->selections);
	free(probes->profiles);
	free(probes->rules);
	free(probes->dir);
	ip_yaml_notes_clear(&probes->notes);
	*probes = (struct ip_probes_d){0};
}

const struct ip_named_selection *ip_probes_d_selection(const struct ip_probes_d *probes,
						       const char *name)
{
	for (size_t i = 0; i < probes->nselections; i++)
		if (!strcmp(probes->selections[i].name, name))
			return &probes->selections[i];
	return NULL;
}

const struct ip_fperf_profile *ip_probes_d_profile(const struct ip_probes_d *probes,
						   const char *name)
{
	for (size_t i = 0; i < probes->nprofiles; i++)
		if (!strcmp(probes->profiles[i].name, name))
			return &probes->profiles[i];
	return NULL;
}

const struct ip_rules_rule *ip_probes_d_rule(const struct ip_probes_d *probes, const char *name)
{
	for (size_t i = 0; i < probes->nrules; i++)
		if (!strcmp(probes->rules[i].name, name))
			return &probes->rules[i];
	return NULL;
}
