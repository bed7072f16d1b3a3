/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules of probes.d: of which processes, when, what is recorded (docs/man/iprobe-probes.d.5.rst
 * tells the format).
 *
 * A rule is what its file says and nothing more; who carries it out is rules.h.
 */
#ifndef IP_RULE_H
#define IP_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/rule_level.h"
#include "config/yaml_tree.h"

#define IP_RULES_FOR	   1000000000ull
#define IP_RULES_FOR_MOST  3600000000000ull
#define IP_RULES_EVERY_MIN 1000000000ull
#define IP_RULES_DISK	   (1ull << 30)
#define IP_RULES_DISK_MIN  (1ull << 20)
#define IP_RULES_PROCESSES 16u

struct ip_rules_texts {
	char **items;
	size_t n;
};

enum ip_rules_action {
	IP_RULES_TRACE,
	IP_RULES_HIST,
	IP_RULES_FPERF,
	IP_RULES_SNAPSHOT,
};

enum ip_rules_pressure {
	IP_RULES_PRESSURE_CPU,
	IP_RULES_PRESSURE_MEMORY,
	IP_RULES_PRESSURE_IO,
	IP_RULES_PRESSURE_MEMORY_FULL,
	IP_RULES_PRESSURE_IO_FULL,
	IP_RULES_PRESSURES,
};

struct ip_rules_rule {
	char *name;
	char *description; /* NULL: none */
	bool enabled;

	/* All kinds that are there must match, each by one of its items. */
	struct ip_rules_texts exe, cmdline, cgroup, unit; /* globs */
	struct ip_rules_texts user;			  /* names or numbers */

	/* Any of these. */
	bool start, request;
	uint64_t every_ns; /* 0: not */
	struct ip_rules_level cpu, memory, pressure[IP_RULES_PRESSURES];
	char *until;   /* latency, as --until takes it; NULL: not */
	char *latency; /* of which functions; NULL likewise */
	int signal;    /* to iprobed; 0: not */

	enum ip_rules_action action;
	char *functions; /* as -f takes it; NULL: all */
	char *profile;	 /* of fperf; NULL: none */
	bool args, retval;
	uint64_t ring;	  /* memory of a flight recorder, and of a trace; 0: as ever */
	uint64_t for_ns;  /* of a snapshot: how long to wait for what comes after the moment */
	unsigned at_most; /* times */
	uint64_t per_ns;  /* in such a while; at_most is 0: as often as it likes */
	double overhead_percent; /* 0: as much as it takes */
	uint64_t disk;
	unsigned processes; /* at the same time */

	char *file; /* where it stands */
	unsigned line, column;
};

/* Reads one; key is its name, which has been checked. 0, or -1 with FILE:LINE:COLUMN; ret is to be
 * cleared in either case. */
int ip_rules_read(const struct ip_yaml_document *document, const struct ip_yaml *key,
		  const struct ip_yaml *map, struct ip_rules_rule *ret);
void ip_rules_rule_clear(struct ip_rules_rule *rule);

/* "trace", "hist"... */
const char *ip_rules_action_name(enum ip_rules_action action);
/* "memory_full"... */
const char *ip_rules_pressure_name(enum ip_rules_pressure pressure);

/* Whether somebody watches the process all the time, by a session of its own: a flight recorder, or
 * the histogram of a function. */
bool ip_rules_watches(const struct ip_rules_rule *rule);

#endif
