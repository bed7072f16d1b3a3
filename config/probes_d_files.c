/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the files of probes.d, checks their references, and looks names up for the selection
 * language and fperf.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/selection/selection.h"
#include "config/probes_d.h"
#include "config/yaml_tree.h"

const char *ip_probes_d_dir(void)
{
	const char *named = secure_getenv("IPROBE_PROBES_D");

	return named && *named ? named : IP_PROBES_D;
}

static int is_ours(const struct dirent *entry)
{
	const char *dot = strrchr(entry->d_name, '.');

	return entry->d_name[0] != '.' && dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml"));
}

static int add_file(struct ip_probes_d *probes, const char *dir, const char *name)
{
	_cleanup_free_ char *path = NULL, *text = NULL;
	size_t size;

	if (asprintf(&path, "%s/%s", dir, name) < 0) {
		path = NULL;
		return ip_error("out of memory");
	}
	if (ip_read_text(path, IP_YAML_SIZE_MAX, &text, &size) < 0)
		return -1;
	return ip_probes_d_add(probes, text, size, path);
}

static int find_in(void *context, const char *name, char **ret)
{
	const struct ip_named_selection *s = ip_probes_d_selection(context, name);

	if (!s)
		return 0;
	*ret = strdup(s->functions);
	return *ret ? 1 : ip_error("out of memory");
}

static int check_text(const char *functions, const struct ip_probes_place *place)
{
	struct ip_selection *selection;

	if (!functions)
		return 0;
	if (ip_selection_parse_names(functions, &selection) < 0)
		return ip_error_prefix("%s:%u:%u", place->file, place->line, place->column);
	ip_selection_destroy(selection);
	return 0;
}

/* Checks the functions and the profile that a rule names. */
static int check_rule(const struct ip_probes_d *probes, const struct ip_rules_rule *r)
{
	const struct ip_probes_place place = {r->file, r->line, r->column};

	if (r->profile && !ip_probes_d_profile(probes, r->profile))
		return ip_error("%s:%u:%u: no profile '%s'", r->file, r->line, r->column,
				r->profile);
	return check_text(r->functions, &place) < 0 ? -1 : check_text(r->latency, &place);
}

int ip_probes_d_check(const struct ip_probes_d *probes)
{
	ip_selection_finder *before;
	void *context;
	int done = 0;

	before = ip_selection_set_finder(find_in, (void *)probes, &context);
	for (size_t i = 0; i < probes->nselections && done == 0; i++)
		done = check_text(probes->selections[i].functions, &probes->selections[i].place);
	for (size_t i = 0; i < probes->nprofiles && done == 0; i++)
		done = check_text(probes->profiles[i].functions, &probes->profiles[i].place);
	for (size_t i = 0; i < probes->nrules && done == 0; i++)
		done = check_rule(probes, &probes->rules[i]);
	ip_selection_set_finder(before, context, NULL);
	return done;
}

static int load_from(const char *dir, bool required, struct ip_probes_d *probes)
{
	struct dirent **entries;
	int n, done = 0;

	probes->dir = strdup(dir);
	if (!probes->dir)
		return ip_error("out of memory");
	n = scandir(dir, &entries, is_ours, alphasort);
	if (n < 0)
		return errno == ENOENT && !required ? 0
		       : errno == ENOTDIR
			       ? ip_error("%s: it is no directory: name the one with the *.yaml "
					  "files",
					  dir)
			       : ip_error_errno("cannot read %s", dir);
	for (int i = 0; i < n; i++) {
		if (done == 0)
			done = add_file(probes, dir, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	return done < 0 ? -1 : ip_probes_d_check(probes);
}

int ip_probes_d_load(const char *dir, struct ip_probes_d *ret)
{
	bool required = dir || strcmp(ip_probes_d_dir(), IP_PROBES_D);

	*ret = (struct ip_probes_d){0};
	if (load_from(dir ? dir : ip_probes_d_dir(), required, ret) == 0)
		return 0;
	ip_probes_d_clear(ret);
	return -1;
}

/* Returns the entries that this process has read. It reads them only once. NULL with an error. */
static const struct ip_probes_d *all(void)
{
	static struct ip_probes_d probes;
	static bool loaded;

	if (!loaded && ip_probes_d_load(NULL, &probes) < 0)
		return NULL;
	loaded = true;
	return &probes;
}

static int find_anywhere(void *context, const char *name, char **ret)
{
	const struct ip_probes_d *probes = all();

	(void)context;
	return probes ? find_in((void *)probes, name, ret) : -1;
}

void ip_probes_d_serve(void)
{
	ip_selection_set_finder(find_anywhere, NULL, NULL);
}

const struct ip_fperf_profile *ip_profile_find(const char *name)
{
	const struct ip_probes_d *probes = all();
	const struct ip_fperf_profile *profile;
	char names[512] = "";

	if (!probes)
		return NULL;
	profile = ip_probes_d_profile(probes, name);
	if (profile)
		return profile;
	for (size_t i = 0; i < probes->nprofiles; i++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
			 i ? ", " : "", probes->profiles[i].name);
	ip_error("no profile '%s' in %s; there %s%s", name, probes->dir,
		 *names ? "are: " : "is none", names);
	return NULL;
}
