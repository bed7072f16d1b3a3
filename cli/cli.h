/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sub-commands of iprobe. Each gets its own name as argv[0], parses its options, prints, and
 * returns the exit code: 0 done, 1 could not (one line on stderr), 2 usage error.
 */
#ifndef IP_CLI_CLI_H
#define IP_CLI_CLI_H

#include <stdio.h>

#include "session/session.h"

int cmd_attach(int argc, char **argv);
int cmd_compare_calls(int argc, char **argv);
int cmd_darc(int argc, char **argv);
int cmd_detach(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_dump(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_syscalls(int argc, char **argv);
int cmd_wait(int argc, char **argv);
int cmd_trim(int argc, char **argv);
int cmd_split(int argc, char **argv);
int cmd_follow(int argc, char **argv);
int cmd_graph(int argc, char **argv);
int cmd_hist(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_last(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_snapshot(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_tui(int argc, char **argv);

/* Prints "iprobe: MESSAGE" with the last error on stderr. Returns 1. */
int cli_fail(void);
/* Prints "iprobe COMMAND: MESSAGE" and a hint at --help on stderr. Returns 2. */
int cli_usage(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Takes the argument of -f. One that follows another adds its items: *ret is NULL at first. An
 * empty one is a usage error, since most likely a script has not set its variable. Returns 0, or 2
 * after a usage error. */
int cli_functions(const char *command, const char *text, const char **ret);
/* Prints on stderr which items of a selection matched nothing. To be called after the selection
 * has been compared with all probes. */
void cli_warn_unused(const char *what, const char *unused);

/* What attaches to several processes would do to them, together. */
struct cli_preview_sums {
	uint64_t processes, sites, stops, holds, looks;
};

/* Options that run and attach share. */
struct cli_record_options {
	struct ip_session_options session;
	bool json, dry_run, quiet;
	struct cli_preview_sums
		*sums;	   /* --dry-run of several processes: shared memory; else NULL */
	bool attach;	   /* to a process that is there: its end is worth a word */
	bool memory_asked; /* --memory was given */
	/* the process was found by a choice of several: it may have nothing to record */
	bool found;
	bool tried_again;  /* if it cannot be recorded now; then nothing is told of it yet */
	bool leave;	   /* attach: iprobed continues the session on its own */
	bool member;	   /* one of several, of which iprobed does this one alone */
	const char *shown; /* what messages call the trace's directory; NULL: session.dir */
	int fail_with;	   /* run: the exit code where iprobe itself has failed; 0: 1 */
	/* one of several processes that came late: when its session went live, since its start.
	 * NULL: not known; 0: it was there from the beginning, or has not gone live */
	const uint64_t *joined_ns;
};

#define CLI_KERNEL_BUFFER (4u << 20)

/* Parses the value of --kernel-buffer, in bytes. Returns 0, or -1 with an error. */
int cli_parse_kernel_buffer(const char *text, size_t *ret);

/* Parses the options. argv[*ret_next] is the first operand. attach: options may also follow the
 * PID, and the options for running processes are allowed. Returns -1: go on; else the exit code. */
int cli_record_parse(int argc, char **argv, const char *help, bool attach,
		     struct cli_record_options *ret, int *ret_next);

/* Adds the options of an attach to a request to iprobed. The command line has been checked.
 * *ret_dir is the argument of -o, or NULL. Returns 0, or -1 with an error. */
struct ip_request;
int cli_record_words(int argc, char **argv, struct ip_request *request, const char **ret_dir);

/* Prints on stderr what a session could not do, or the sessions of that many processes: system
 * calls that waited for longer, functions without values. */
void cli_record_warnings(const struct ip_session_summary *summary, size_t processes);

/* "renewed_calls":N, and "renewed_max_us":X where it is known, into the object that is open. */
struct ip_json;
void cli_json_renewed(struct ip_json *j, const struct ip_session_summary *summary);

/* The names that a list shows, as an array into the object that is open. */
void cli_json_name_list(struct ip_json *j, const char *key, const struct ip_name_list *names);

#define CLI_SILENT_TEXT (128 + IP_NAME_LIST_TEXT)

/* "silent_functions", "silent_sites" and "silent_names" (of the first few) into the object that is
 * open. */
void cli_json_silent(struct ip_json *j, const struct ip_session_summary *summary);
/* Returns buffer: ", 263 of them in 92 more that these jump to (f, g, ...)", to follow the number
 * of sites; "" where no function is live for that. */
const char *cli_silent_sites(const struct ip_session_summary *summary,
			     char buffer[CLI_SILENT_TEXT]);

/* Prints on stderr how many events were lost, and what ended the recording early. dir: of the
 * trace. */
void cli_record_losses(const struct ip_session_summary *summary, const char *dir);

/* "kernel":{...} into the object that is open, and the same as a line on stderr, behind whose it
 * is.
 */
struct ip_kernel_stats;
void cli_json_kernel(struct ip_json *j, const struct ip_kernel_stats *stats);
void cli_record_tell_kernel(const char *whose, const struct ip_kernel_stats *stats);

/* Tells on stderr where plain --args or --retval stands beside the other one with FUNC(...): it
 * takes all functions. functions: that are recorded. */
void cli_record_tell_all(const struct cli_record_options *options, size_t functions);

/* Prints the summary: a line on stderr, or with --json a line on stdout. */
void cli_record_summary(const struct cli_record_options *options,
			const struct ip_session_summary *summary);

/* Of `iprobe run`, whose command is a part of the summary. error: why it failed; NULL: it did not.
 * Where nothing was recorded, --json tells the error and the command alone. */
void cli_record_summary_of(const struct cli_record_options *options,
			   const struct ip_session_summary *summary,
			   const struct ip_command_end *command, const char *error);

/* Returns the exit code for how a command has ended (waitpid(2)): its own, or 128 and the signal's
 * number. */
int cli_command_code(int status);

/* Makes SIGINT, SIGTERM and SIGHUP end the session properly from now on. */
void cli_catch_signals(void);

/* Returns the path of libiprobe-rt.so: in the build folder of this iprobe, or where this prefix
 * was installed. Returns NULL with an error. */
const char *cli_runtime_path(void);

#endif
