/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of probes.d. A rule says which processes are recorded, when, and what is recorded
 * (docs/man/iprobe-probes.d.5.rst describes the format).
 *
 * A rule holds only what its file says. rules.h carries rules out.
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
	IP_RULES_DARC,
};

#define IP_RULES_SEARCH_FOR    60000000000ull
#define IP_RULES_SEARCH_MEMORY (64ul << 20)
#define IP_RULES_SEARCH_DEPTH  1000u /* the most levels */

/* How the root causes of slow calls are searched: options of iprobe darc, which has its own default
 * for each that is 0 or NULL. */
struct ip_rules_search {
	uint64_t slower_ns; /* left out, it is the limit of the rule's latency */
	char *percentile;   /* "p99" */
	unsigned peak, start_ops, decision_ops, max_functions, depth;
	char *maxcount_percentage; /* a number */
	double budget_percent;	   /* left out, it is the rule's overhead */
	bool html;		   /* a page is written, too */
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

	/* A process must match all lists that are not empty. One item of a list is enough to match
	 * it. */
	struct ip_rules_texts exe, cmdline, cgroup, unit; /* globs */
	struct ip_rules_texts user;			  /* names or numbers */

	/* The rule fires when any of these conditions holds. */
	bool start, request;
	uint64_t every_ns; /* 0: no condition */
	struct ip_rules_level cpu, memory, pressure[IP_RULES_PRESSURES];
	char *until;	   /* latency, as --until takes it; NULL: no condition */
	char *latency;	   /* the functions of until; NULL: no condition */
	uint64_t limit_ns; /* of until; 0: it is no time */
	int signal;	   /* sent to iprobed; 0: no condition */

	enum ip_rules_action action;
	bool service;	 /* all processes of a service are recorded together */
	char *kernel;	 /* events of the kernel beside a trace, as --kernel takes it; NULL: none */
	char *functions; /* as -f takes it; NULL: all */
	char *profile;	 /* of fperf; NULL: none */
	struct ip_rules_search search; /* of darc */
	bool args, retval;
	/* of single functions: the values of --args and --retval; and those of --when */
	struct ip_rules_texts args_of, retval_of, when;
	uint64_t ring; /* memory of a flight recorder, a trace or a search, in bytes; 0: the default
			*/
	/* how long to record, or to search at most; for a snapshot: how long to record after the
	 * rule has fired */
	uint64_t for_ns;
	unsigned at_most;	 /* how many episodes of a service in per_ns; 0: any number */
	uint64_t per_ns;	 /* the time for at_most */
	uint64_t cooldown_ns;	 /* how long a service is left alone after a firing; 0: not */
	double overhead_percent; /* 0: no limit */
	uint64_t disk;
	unsigned processes; /* how many processes at the same time */

	char *file; /* where the rule begins */
	unsigned line, column;
};

/* Reads one rule. key is its name, which the caller has checked. Returns 0, or -1 with an error
 * that gives FILE:LINE:COLUMN. The caller must clear ret in either case. */
int ip_rules_read(const struct ip_yaml_document *document, const struct ip_yaml *key,
		  const struct ip_yaml *map, struct ip_rules_rule *ret);
void ip_rules_rule_clear(struct ip_rules_rule *rule);

/* "trace", "hist"... */
const char *ip_rules_action_name(enum ip_rules_action action);
/* "memory_full"... */
const char *ip_rules_pressure_name(enum ip_rules_pressure pressure);

/* Whether a condition of the rule is a level that is looked at from outside. */
bool ip_rules_has_level(const struct ip_rules_rule *rule);
/* Whether the rule needs a session of its own that watches the process all the time: a flight
 * recorder, or the histogram of a function. */
bool ip_rules_watches(const struct ip_rules_rule *rule);

#endif
