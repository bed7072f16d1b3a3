/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobed --check: the rules as they were understood, and which processes they are for now.
 */
#ifndef IP_CLI_RULES_PRINT_H
#define IP_CLI_RULES_PRINT_H

#include "config/probes_d.h"

/* Prints some lines for each rule on stdout. Users that a rule which is
 * enabled names and that this machine does not
 * know are told on stderr: they may come. program: the path of iprobe: no rule is for it, nor for
 * what lies beside it. */
void cli_rules_print(const struct ip_probes_d *probes, const char *program);

#endif
