/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobed --check: whether the programs that rules are for have what the rules name.
 */
#ifndef IP_CLI_RULES_CHECK_H
#define IP_CLI_RULES_CHECK_H

#include "config/probes_d.h"

/* Prints on stderr what a rule names and its programs do not have: programs that run, and files
 * that match.exe names by a path. iprobe: the path of that program, which looks at them; iprobed
 * itself has no part that reads probe lists of processes. Mistakes and programs that cannot be
 * looked at are told, and change nothing else. */
void cli_rules_check(const struct ip_probes_d *probes, const char *iprobe);

#endif
