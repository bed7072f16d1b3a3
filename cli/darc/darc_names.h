/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of linker names, sorted, each name once.
 */
#ifndef IP_CLI_DARC_NAMES_H
#define IP_CLI_DARC_NAMES_H

#include <stdbool.h>
#include <stddef.h>

struct cli_darc_names {
	char **items;
	size_t n;
};

/* Adds a copy. Returns 1; 0: it is there already; -1 with an error. */
int cli_darc_names_add(struct cli_darc_names *names, const char *name, size_t length);
bool cli_darc_names_has(const struct cli_darc_names *names, const char *name);
void cli_darc_names_clear(struct cli_darc_names *names);

#endif
