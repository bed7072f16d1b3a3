/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What options of perf, strace, uftrace, ltrace, bpftrace and gdb do here.
 */
#ifndef IP_CLI_SUGGEST_OPTIONS_H
#define IP_CLI_SUGGEST_OPTIONS_H

#include <stddef.h>

/* Returns what does in a command of iprobe (or in fperf) what a user of those tools means by an
 * option that the command does not have: name[0..n) without dashes, a letter or a long name. NULL:
 * none of those tools has it, or there is nothing like it. */
const char *cli_option_habit(const char *command, const char *name, size_t n);

#endif
