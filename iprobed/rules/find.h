/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes a rule is for now, for who only asks (iprobed --check). scan.c follows processes
 * as they come and go.
 */
#ifndef IP_RULES_FIND_H
#define IP_RULES_FIND_H

#include "iprobed/rules/match.h"

/* Calls found() for each process that the rule is for. program: path of iprobe: no rule is for it,
 * nor for iprobed and fperf beside it. */
void ip_rules_find(const struct ip_rules_rule *rule, const char *program,
		   void (*found)(void *context, const struct ip_rules_process *process),
		   void *context);

/* The same for processes that the rule would be for if their executable were called as the kernel
 * calls them: programs that are started through a link, such as redis-server, have the name of the
 * link. */
void ip_rules_find_called(const struct ip_rules_rule *rule, const char *program,
			  void (*found)(void *context, const struct ip_rules_process *process),
			  void *context);

#endif
