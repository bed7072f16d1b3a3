/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of processes whose system calls are counted: a process may have ended when they are
 * shown.
 */
#ifndef IP_CLI_PROCESS_NAMES_H
#define IP_CLI_PROCESS_NAMES_H

#include <stddef.h>
#include <stdint.h>

/* All zero: empty. */
struct cli_process_names {
	/* Private: open addressing, a power of two. */
	struct cli_process_name {
		uint32_t pid; /* 0: the place is free */
		char name[16];
	} * items;
	size_t size, n;
	char text[48];
};

/* Notes the name of a process; "": it is not known, and what was noted stays. pid 0 has none.
 * Returns 0, or -1 with an error. */
int cli_process_names_note(struct cli_process_names *names, uint32_t pid, const char *name);

/* Makes *to, which is empty, the same as from. Returns 0, or -1 with an error. */
int cli_process_names_copy(struct cli_process_names *to, const struct cli_process_names *from);
void cli_process_names_clear(struct cli_process_names *names);

/* The name; "": not known. */
const char *cli_process_names_get(const struct cli_process_names *names, uint32_t pid);

/* "4711 nginx"; valid until the next call. */
const char *cli_process_names_text(struct cli_process_names *names, uint32_t pid);

#endif
