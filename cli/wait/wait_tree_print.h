/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe wait --tree: what each call path waited for.
 */
#ifndef IP_CLI_WAIT_TREE_PRINT_H
#define IP_CLI_WAIT_TREE_PRINT_H

#include "cli/wait/wait_report.h"

/* Prints the tree. Returns 0, or -1 with an error. */
int cli_wait_tree(const char *dir, const struct cli_wait_options *o);

#endif
