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

/* The functions that a live search has to do with, by what they are in it. */
struct cli_darc_sets {
	struct cli_darc_names path;	/* on the paths of causes */
	struct cli_darc_names below;	/* those of them whose callees are looked at */
	struct cli_darc_names looked;	/* those whose callees were live in a step */
	struct cli_darc_names again;	/* those whose callees were so once more, in the end */
	struct cli_darc_names pointers; /* those that call through pointers */
	struct cli_darc_names known;	/* those of them whose callees have been seen */
	struct cli_darc_names seen;	/* "caller callee": which callees those were */
	struct cli_darc_names callees;
};

#define CLI_DARC_SETS 8u

/* One of the sets after the other. *ret_key: what it is called where it is written down. */
struct cli_darc_names *cli_darc_sets_get(struct cli_darc_sets *sets, unsigned i,
					 const char **ret_key);
void cli_darc_sets_clear(struct cli_darc_sets *sets);

#endif
