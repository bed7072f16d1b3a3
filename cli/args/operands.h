/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operands that name processes, and -p, which names them in the way of perf, strace and gdb. What
 * is no process gets a message that says what it most likely is.
 */
#ifndef IP_CLI_OPERANDS_H
#define IP_CLI_OPERANDS_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>

/* For getopt_long(), with the letters "p:". */
#define CLI_OPTION_PID                                                                             \
	{                                                                                          \
		"pid", required_argument, NULL, 'p'                                                \
	}

/* Takes the argument of -p: one PID, or several between commas or blanks ("$(pidof nginx)"). They
 * are kept until the process ends. Returns 0, or 2 after a usage error. */
int cli_pid_option(const char *command, const char *text);

/* Whether there are operands from argv[next] on, or some of -p. */
bool cli_any_pid(int argc, int next);

/* Returns the operands from argv[next] on, with those of -p before them: a NULL-terminated array
 * (malloc'ed, with room for one more; the texts are borrowed), their number in *ret_n. NULL with an
 * error where memory ran out. */
char **cli_operands(int argc, char **argv, int next, size_t *ret_n);

/* Reads an operand as a PID. Returns -1: *ret is it; else the exit code, 2, after a message that
 * says what the text may be: a name, a file, a selection. is_first: no other operand stands before
 * it. */
int cli_pid_operand(const char *command, const char *text, bool is_first, int *ret);

/* Whether an operand that is no file looks like a selection of functions. */
bool cli_may_be_functions(const char *text);

/* Looks whether an operand can be a trace. Returns 0: opening it tells more; or -1 with an error
 * that says what it is instead. */
int cli_trace_operand(const char *text);

/* Reads operands that are all PIDs, each once, or none. *ret: malloc'ed. Returns -1: go on; else
 * the exit code. */
int cli_pids_or_none(int argc, char **argv, int **ret, size_t *ret_n);

#endif
