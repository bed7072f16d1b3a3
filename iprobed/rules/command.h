/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command line of what rules have done: put together word by word, and run with the process that
 * it is for (job.h).
 */
#ifndef IP_RULES_COMMAND_H
#define IP_RULES_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "iprobed/rules/rules_private.h"

#define IP_RULES_COMMAND_WORDS 64

/* Words live until it has been started. What could not be added is told then. */
struct ip_rules_command {
	char *words[IP_RULES_COMMAND_WORDS + 1];
	size_t n;
	bool failed;
};

/* Begins one: iprobe COMMAND. */
void ip_rules_command_iprobe(struct ip_rules_command *c, const struct ip_rules *e,
			     const char *command);

/* One word more. */
void ip_rules_command_add(struct ip_rules_command *c, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The options that each attach has: quiet, to that directory, and the functions of the rule (NULL:
 * it says nothing of them). */
void ip_rules_command_options(struct ip_rules_command *c, const struct ip_rules_rule *rule,
			      const char *dir);

/* Runs it in the directory, and forgets it. 0, or -1 with an error. */
int ip_rules_command_start(struct ip_rules_command *c, const struct ip_rules *e,
			   const struct ip_rules_target *t, const char *directory,
			   struct ip_rules_job *job);

#endif
