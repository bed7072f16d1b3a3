/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a process, and whether a rule is for it.
 *
 * All of it is what the process, or who started it, has chosen: names that are matched, and nothing
 * that is trusted.
 */
#ifndef IP_RULES_MATCH_H
#define IP_RULES_MATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/rule.h"

/* Of /proc/PID/stat. */
struct ip_rules_stat {
	char state;
	/* in the kernel's ticks since boot: with its number it means this process and no other */
	unsigned long long start;
	uint64_t cpu_ns;
	uint64_t resident; /* bytes */
};

struct ip_rules_process {
	pid_t pid;
	unsigned long long start;
	uid_t uid;     /* real */
	char *exe;     /* path, without what the kernel adds to one that is deleted */
	char *cmdline; /* arguments with blanks between them, the first 4 KiB; NULL: not read yet */
	char *cgroup;  /* /proc/PID/cgroup */
};

/* The text of /proc/PID/stat. 0, or -1: it is none. */
int ip_rules_stat_parse(const char *text, struct ip_rules_stat *ret);
/* 0, or -1: the process is gone. */
int ip_rules_stat_read(pid_t pid, struct ip_rules_stat *ret);

/* All but the command line (cmdline_reader.h). 0, or -1: it is gone, one of the kernel's own, or
 * closed to us. */
int ip_rules_process_read(pid_t pid, struct ip_rules_process *ret);
void ip_rules_process_clear(struct ip_rules_process *process);

/* Its executable as the link says; malloc'ed, NULL: none. */
char *ip_rules_exe(pid_t pid);

/* Whether the rule is for it, as far as is known without the command line. */
bool ip_rules_may_match(const struct ip_rules_rule *rule, const struct ip_rules_process *process);
/* Whether it is. Where the rule asks for the command line it has been read. */
bool ip_rules_match(const struct ip_rules_rule *rule, const struct ip_rules_process *process);

/* Microseconds for which some (full: all) tasks of the process's cgroup have waited for the
 * resource since the cgroup was made. -1 with an error where the kernel does not tell. */
int ip_rules_pressure_read(const struct ip_rules_process *process, enum ip_rules_pressure what,
			   uint64_t *ret_us);
/* The text of such a file. 0 or -1. */
int ip_rules_pressure_parse(const char *text, bool full, uint64_t *ret_us);

#endif
