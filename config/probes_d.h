/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of probes.d: named selections, FPerf profiles and rules (docs/man/iprobe-probes.d.5.rst
 * describes the format).
 *
 * The selection language (common/) must not depend on YAML. ip_probes_d_serve() gives it a function
 * that finds the text of a name. So -f '@NAME' works in every command that calls
 * ip_probes_d_serve() once.
 */
#ifndef IP_PROBES_D_H
#define IP_PROBES_D_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/rule.h"

#define IP_PROFILE_BUDGET_LEAST 0.01 /* per cent of run time; fperf takes no less */

/* Where an entry begins, for error messages: file, line, column. */
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

/* The settings of fperf under one name. NULL or 0: the profile does not give that setting. */
struct ip_fperf_profile {
	char *name;
	char *description;
	char *events;		 /* comma-separated, as fperf -e takes them */
	char *functions;	 /* as -f takes it */
	double budget_percent;	 /* per cent of run time */
	uint64_t budget_samples; /* samples a second; not both */
	uint64_t interval_ns, duration_ns;
	struct ip_probes_place place;
};

struct ip_probes_d {
	char *dir;
	struct ip_rules_rule *rules;
	size_t nrules;
	struct ip_named_selection *selections;
	size_t nselections;
	struct ip_fperf_profile *profiles;
	size_t nprofiles;
	size_t nfiles;
	struct ip_yaml_notes notes; /* such as limits that have no unit */
};

/* Returns $IPROBE_PROBES_D, or the directory that this iprobe was configured with
 * (/etc/iprobe/probes.d). The text is static or the environment's. */
const char *ip_probes_d_dir(void);

/* Reads every *.yaml and *.yml of dir, in the order of their names. dir may be NULL: then it is
 * ip_probes_d_dir(), and the default directory need not exist. Returns 0, or -1 with an error that
 * gives FILE:LINE:COLUMN of the first mistake in any file. */
int ip_probes_d_load(const char *dir, struct ip_probes_d *ret);

/* Adds the entries of one file. The entries that are already in ret are kept, also after an error.
 * References between entries are not looked up. */
int ip_probes_d_add(struct ip_probes_d *probes, const char *text, size_t size, const char *file);

/* Checks that every @NAME in the entries names a selection, and every profile of a rule exists.
 * Returns 0, or -1 with the place. */
int ip_probes_d_check(const struct ip_probes_d *probes);

void ip_probes_d_clear(struct ip_probes_d *probes);

const struct ip_named_selection *ip_probes_d_selection(const struct ip_probes_d *probes,
						       const char *name);
const struct ip_fperf_profile *ip_probes_d_profile(const struct ip_probes_d *probes,
						   const char *name);
const struct ip_rules_rule *ip_probes_d_rule(const struct ip_probes_d *probes, const char *name);

/* From now on ip_selection_parse() finds '@NAME' in ip_probes_d_dir(). The directory is read when
 * the first name is looked up. For main(). */
void ip_probes_d_serve(void);

/* Returns the profile of that name, for fperf --profile. The profile lives until the process ends.
 * NULL with an error that lists the names of the existing profiles. */
const struct ip_fperf_profile *ip_profile_find(const char *name);

#endif
