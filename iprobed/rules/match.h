/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a process, and whether a rule is for it.
 *
 * The process, or the user who started it, has chosen all of this: it is only compared with rules,
 * and never trusted.
 */
#ifndef IP_RULES_MATCH_H
#define IP_RULES_MATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/rule.h"

/* From /proc/PID/stat. */
struct ip_rules_stat {
	char state;
	pid_t parent;
	/* in the kernel's ticks since boot: together with the pid it identifies this process */
	unsigned long long start;
	uint64_t cpu_ns;
	uint64_t resident; /* bytes */
	uint32_t threads;
};

struct ip_rules_process {
	pid_t pid, parent;
	unsigned long long start;
	uid_t uid; /* real */
	char *exe; /* path, without " (deleted)" */
	/* the arguments, separated by blanks, the first 4 KiB; NULL: not read yet */
	char *cmdline;
	char *cgroup; /* contents of /proc/PID/cgroup */
};

/* Parses the text of /proc/PID/stat. Returns 0, or -1: it is not such a text. */
int ip_rules_stat_parse(const char *text, struct ip_rules_stat *ret);
/* Returns 0, or -1: the process is gone. */
int ip_rules_stat_read(pid_t pid, struct ip_rules_stat *ret);

/* Reads everything except the command line (cmdline_reader.h). Returns 0, or -1: the process is
 * gone, is a kernel thread, or may not be read. */
int ip_rules_process_read(pid_t pid, struct ip_rules_process *ret);
void ip_rules_process_clear(struct ip_rules_process *process);

/* Returns the target of /proc/PID/exe, without " (deleted)". The caller frees it. NULL: there is
 * none. */
char *ip_rules_exe(pid_t pid);

/* Hashes a text; not for what an enemy gains by a collision. */
uint64_t ip_rules_hash(const char *text);

/* Returns whether the rule is for the process, as far as this is known without the command line. */
bool ip_rules_may_match(const struct ip_rules_rule *rule, const struct ip_rules_process *process);
/* Returns whether the rule is for the process. If the rule asks for the command line, it must have
 * been read. */
bool ip_rules_match(const struct ip_rules_rule *rule, const struct ip_rules_process *process);

/* Reads the microseconds for which some (full: all) tasks of the process's cgroup have waited for
 * the resource since the cgroup was made. Returns -1 with an error if the kernel does not report
 * it. */
int ip_rules_pressure_read(const struct ip_rules_process *process, enum ip_rules_pressure what,
			   uint64_t *ret_us);
/* Parses the text of such a file. Returns 0 or -1. */
int ip_rules_pressure_parse(const char *text, bool full, uint64_t *ret_us);

#endif
