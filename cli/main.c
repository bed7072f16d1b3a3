/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe: finds the sub-command and calls it.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "access/delegation.h"
#include "access/worker_client.h"
#include "cli/args/suggest.h"
#include "cli/cli.h"
#include "cli/record/live_line.h"
#include "common/elf/mapped_file.h"
#include "common/error.h"
#include "common/print.h"
#include "config/probes_d.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *what;
} commands[] = {
	{"list", cmd_list, "the probes of a file or of a running process"},
	{"run", cmd_run, "run a command and record it from its first instruction"},
	{"attach", cmd_attach, "record a running process; everything is put back afterwards"},
	{"follow", cmd_follow,
	 "record where the flow of control goes from a function, or a moment, on"},
	{"snapshot", cmd_snapshot,
	 "write what the rings hold of a session with --overwrite; it goes on"},
	{"detach", cmd_detach, "put back what any iprobe left live in a process"},
	{"status", cmd_status, "what is patched where, checked against the files on disk"},
	{"report", cmd_report, "a trace as a table: calls and times per function"},
	{"graph", cmd_graph, "a trace as a tree of calls; callers and callees of a function"},
	{"dump", cmd_dump, "a trace event by event"},
	{"last", cmd_last, "the last calls in a live log (--stream), however that ended"},
	{"tui", cmd_tui, "a trace on the terminal: table, tree, timeline, by keys"},
	{"top", cmd_top, "the busiest functions of a running process, live"},
	{"hist", cmd_hist,
	 "latency histograms of functions, with their peaks; over time; of two traces"},
	{"wait", cmd_wait, "where the time of functions goes: CPU, run queue, blocked on what"},
	{"darc", cmd_darc, "which call path makes the slow calls of a function slow"},
	{"compare-calls", cmd_compare_calls,
	 "why a call of a function was slow and a usual one not, part by part"},
	{"syscalls", cmd_syscalls,
	 "system calls: how many, how long, which errors, from which function"},
	{"trim", cmd_trim, "a part of a trace, as a trace of its own"},
	{"split", cmd_split, "a trace in parts: by time, size, thread or process"},
	{"export", cmd_export,
	 "a trace as a page for a browser, or for Perfetto, flame graphs, KCachegrind"},
	{"info", cmd_info,
	 "where a trace comes from: host, command, modules, clock, losses, stops"},
	{"doctor", cmd_doctor, "what this machine, user and process allow, what not, and why"},
};

#define NCOMMANDS (sizeof(commands) / sizeof(*commands))

static void print_help(FILE *out)
{
	ip_print(
		out,
		"usage: iprobe COMMAND [OPTIONS] ...\n"
		"       iprobe -p PID [OPTIONS]      (iprobe attach)\n\n"
		"Traces functions of programs that were built with iprobe-cc, while they run.\n\n");
	for (size_t i = 0; i < NCOMMANDS; i++)
		ip_print(out, "  %-13s %s\n", commands[i].name, commands[i].what);
	ip_print(out, "\niprobe COMMAND --help, or iprobe help COMMAND, tells a command's "
		      "options; iprobe --version the version.\n");
}

int cli_fail(void)
{
	cli_live_line_clear();
	ip_print(stderr, "iprobe: %s\n", ip_error_message());
	return 1;
}

int cli_usage(const char *command, const char *format, ...)
{
	va_list args;

	ip_print(stderr, "iprobe %s: ", command);
	va_start(args, format);
	ip_vprint(stderr, format, args);
	va_end(args);
	ip_print(stderr, " (see iprobe %s --help)\n", command);
	return 2;
}

void cli_warn_unused(const char *what, const char *unused)
{
	if (unused)
		ip_print(stderr, "iprobe: %s: nothing matches %s\n", what, unused);
}

/* Calls a command with its own name as argv[0]. Returns its exit code. */
static int run(size_t command, int argc, char **argv)
{
	int code = commands[command].run(argc, argv);

	if (fflush(stdout) != 0 && !code) {
		ip_print(stderr, "iprobe: cannot write to stdout: %s\n", strerror(errno));
		code = 1;
	}
	return code;
}

/* Returns the index of a command, or NCOMMANDS. */
static size_t find(const char *name)
{
	size_t i = 0;

	while (i < NCOMMANDS && strcmp(commands[i].name, name))
		i++;
	return i;
}

static int no_command(const char *word)
{
	const char *names[NCOMMANDS + 1] = {NULL};

	for (size_t i = 0; i < NCOMMANDS; i++)
		names[i] = commands[i].name;
	return cli_no_command(word, names);
}

/* iprobe help COMMAND */
static int help_on(char *name)
{
	char option[] = "--help", *words[] = {name, option, NULL};
	const size_t i = find(name);

	if (*name == '-') {
		print_help(stdout);
		return 0;
	}
	return i < NCOMMANDS ? run(i, 2, words) : no_command(name);
}

/* Whether -p PID is among the words of a command line that names no command. */
static bool names_a_process(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
		if (!strncmp(argv[i], "-p", 2) || !strcmp(argv[i], "--pid") ||
		    !strncmp(argv[i], "--pid=", 6))
			return true;
	return false;
}

/* Several workers of iprobed may write to the same file: their lines must not mix. */
static void print_whole_lines(void)
{
	static char line[65536];

	setvbuf(stderr, line, _IOLBF, sizeof(line));
}

int main(int argc, char **argv)
{
	cli_print_notices();
	ip_mapped_file_may_shrink();
	if (argc < 2) {
		print_help(stderr);
		return 2;
	}
	if (!strcmp(argv[1], "help") && argc > 2)
		return help_on(argv[2]);
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		print_help(stdout);
		return 0;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		ip_print(stdout, "iprobe " IP_VERSION "\n");
		return 0;
	}
	if (ip_delegation_take() < 0 || ip_worker_client_take() < 0)
		return cli_fail();
	if (ip_worker_client_is_member())
		print_whole_lines();
	ip_probes_d_serve();
	if (find(argv[1]) < NCOMMANDS)
		return run(find(argv[1]), argc - 1, argv + 1);
	/* as with perf, strace and gdb: iprobe -p PID */
	if (*argv[1] == '-' && names_a_process(argc, argv)) {
		argv[0] = "attach";
		return run(find("attach"), argc, argv);
	}
	return no_command(argv[1]);
}
