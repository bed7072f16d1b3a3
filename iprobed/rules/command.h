/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command line for the action of a rule. It is put together word by word, and run with the
 * target's pidfd (job.h).
 */
#ifndef IP_RULES_COMMAND_H
#define IP_RULES_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "iprobed/rules/members.h"
#include "iprobed/rules/rules_private.h"

#define IP_RULES_COMMAND_WORDS 64

/* The words are freed when the command has been started. An error in adding a word is reported
 * then. */
struct ip_rules_command {
	char *words[IP_RULES_COMMAND_WORDS + 1];
	size_t n;
	bool failed;
	const char *temporary; /* where it makes temporary files; NULL: as all workers do */
};

/* Begins a command line: iprobe COMMAND. */
void ip_rules_command_iprobe(struct ip_rules_command *c, const struct ip_rules *e,
			     const char *command);

/* Adds one word. */
void ip_rules_command_add(struct ip_rules_command *c, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Adds the options that each attach has: quiet, the output directory, and the rule's functions
 * (NULL: none). */
void ip_rules_command_options(struct ip_rules_command *c, const struct ip_rules_rule *rule,
			      const char *dir);

/* Adds the values that a trace or a flight recorder of the rule has, and its filters of them. */
void ip_rules_command_values(struct ip_rules_command *c, const struct ip_rules_rule *rule);

/* Adds -p with the pids. */
void ip_rules_command_pids(struct ip_rules_command *c, const struct ip_rules_members *members);

/* Runs the command in the directory, and frees the words. The members are its targets. Returns 0,
 * or -1 with an error. */
int ip_rules_command_start(struct ip_rules_command *c, const struct ip_rules *e,
			   const struct ip_rules_members *members, const char *directory,
			   struct ip_rules_job *job);

#endif
