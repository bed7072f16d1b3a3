/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of processes whose system calls are counted: a process may have ended when they are
 * shown. One that executes a program has another name from then on. So a process has a name, and a
 * key to which its calls are put down, for each program that it was.
 */
#ifndef IP_CLI_PROCESS_NAMES_H
#define IP_CLI_PROCESS_NAMES_H

#include <stddef.h>
#include <stdint.h>

/* All zero: empty. */
struct cli_process_names {
	/* Private: open addressing, a power of two. */
	struct cli_process_name {
		uint32_t key; /* 0: the place is free */
		uint32_t pid;
		char name[16];
	} * items;
	size_t size, n;
	char text[48];
};

/* The key of a process while it is a program (struct ip_syscall_call). */
uint32_t cli_process_key(uint32_t pid, uint32_t program);

/* Notes the name of a process, of which 15 characters are kept; "": it is not known, and what was
 * noted stays. Key 0 has none. Returns 0, or -1 with an error. */
int cli_process_names_note(struct cli_process_names *names, uint32_t key, uint32_t pid,
			   const char *name);

/* Makes *to, which is empty, the same as from. Returns 0, or -1 with an error. */
int cli_process_names_copy(struct cli_process_names *to, const struct cli_process_names *from);
void cli_process_names_clear(struct cli_process_names *names);

/* The process, 0: not known; its name, "": not known. */
uint32_t cli_process_names_pid(const struct cli_process_names *names, uint32_t key);
const char *cli_process_names_get(const struct cli_process_names *names, uint32_t key);

/* "4711 nginx"; valid until the next call. */
const char *cli_process_names_text(struct cli_process_names *names, uint32_t key);

#endif
