/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of probes.d: named selections, FPerf profiles and rules (docs/man/iprobe-probes.d.5.rst
 * tells the format).
 *
 * The selection language (common/) must not know of YAML: ip_probes_d_serve() gives it a function
 * that finds a name's text, and so -f '@NAME' works in every command that calls it once.
 */
#ifndef IP_PROBES_D_H
#define IP_PROBES_D_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/rule.h"

#define IP_PROFILE_BUDGET_LEAST 0.01 /* per cent of run time: fperf takes no less */

/* Where an entry stands, for errors: file, line, column. */
struct ip_probes_place {
	char *file;
	unsigned line, column;
};

struct ip_named_selection {
	char *name;
	char *description; /* NULL: none */
	char *functions;   /* as -f takes it */
	struct ip_probes_place place;
};

/* How fperf is to work, by one name. What is NULL or 0 was not said. */
struct ip_profile {
	char *name;
	char *description;
	char *events;		 /* comma-separated, as fperf -e takes them */
	char *functions;	 /* as -f takes it */
	double budget_percent;	 /* of run time... */
	uint64_t budget_samples; /* ...or samples a second; at most one of both */
	uint64_t interval_ns, duration_ns;
	struct ip_probes_place place;
};

struct ip_probes_d {
	char *dir;
	struct ip_rules_rule *rules;
	size_t nrules;
	struct ip_named_selection *selections;
	size_t nselections;
	struct ip_profile *profiles;
	size_t nprofiles;
	size_t nfiles;
};

/* $IPROBE_PROBES_D, or where this iprobe was configured to look (/etc/iprobe/probes.d). Static text
 * or the environment's. */
const char *ip_probes_d_dir(void);

/* Reads every *.yaml and *.yml of dir, in the order of their names. NULL: ip_probes_d_dir(), and
 * then the default one need not be there. 0, or -1 with FILE:LINE:COLUMN of the first thing that
 * is wrong in any file. */
int ip_probes_d_load(const char *dir, struct ip_probes_d *ret);

/* Adds what one file holds; what is in ret already stays, also after an error. No reference is
 * followed. */
int ip_probes_d_add(struct ip_probes_d *probes, const char *text, size_t size, const char *file);

/* Every @NAME in it leads to a selection. 0 or -1 with the place. */
int ip_probes_d_check(const struct ip_probes_d *probes);

void ip_probes_d_clear(struct ip_probes_d *probes);

const struct ip_named_selection *ip_probes_d_selection(const struct ip_probes_d *probes,
						       const char *name);
const struct ip_profile *ip_probes_d_profile(const struct ip_probes_d *probes, const char *name);
const struct ip_rules_rule *ip_probes_d_rule(const struct ip_probes_d *probes, const char *name);

/* From now on ip_selection_parse() finds '@NAME' in ip_probes_d_dir(), which is read when the first
 * is asked for. For main(). */
void ip_probes_d_serve(void);

/* The profile of that name, for fperf --profile: what it points to lives until the process ends.
 * NULL with an error that names those that there are. */
const struct ip_profile *ip_profile_find(const char *name);

#endif
