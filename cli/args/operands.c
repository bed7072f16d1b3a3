/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operands that name processes.
 */
#include "cli/args/operands.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/trace_args.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/units.h"

static char **named; /* by -p */
static size_t nnamed;
static char *const *operands; /* up to a NULL, as they stand on the command line */
static bool behind_dashes;

int cli_pid_option(const char *command, const char *text)
{
	const char *const between = ", \t\n";
	const size_t before = nnamed;

	for (const char *p = text + strspn(text, between); *p; p += strspn(p, between)) {
		const size_t n = strcspn(p, between);

		if (ip_array_grow(&named, nnamed, sizeof(*named)) < 0 ||
		    !(named[nnamed] = strndup(p, n)))
			return cli_usage(command, "-p: out of memory");
		nnamed++;
		p += n;
	}
	return nnamed > before ? 0
			       : cli_usage(command, "-p is empty: it needs the number of a process "
						    "(did pidof find none?)");
}

bool cli_any_pid(int argc, int next)
{
	return nnamed || next < argc;
}

char **cli_operands(int argc, char **argv, int next, size_t *ret_n)
{
	const size_t rest = next < argc ? argc - next : 0;
	char **all = calloc(nnamed + rest + 2, sizeof(*all));

	if (!all) {
		ip_error("out of memory");
		return NULL;
	}
	operands = rest ? argv + next : NULL;
	behind_dashes = rest && next > 1 && !strcmp(argv[next - 1], "--");
	if (nnamed)
		memcpy(all, named, nnamed * sizeof(*all));
	if (rest)
		memcpy(all + nnamed, argv + next, rest * sizeof(*all));
	*ret_n = nnamed + rest;
	return all;
}

/* Whether the directory is one of iprobe's traces. */
static bool is_trace(const char *path)
{
	_cleanup_free_ char *inside = NULL;
	struct stat st;

	if (asprintf(&inside, "%s/iprobe", path) < 0) {
		inside = NULL;
		return false;
	}
	return stat(inside, &st) == 0 && S_ISDIR(st.st_mode);
}

bool cli_may_be_functions(const char *text)
{
	return strpbrk(text, "*?!@") || strstr(text, "::") || !strncmp(text, "lib:", 4) ||
	       !strncmp(text, "file:", 5);
}

static bool takes_names(const char *command)
{
	return !strcmp(command, "attach") || !strcmp(command, "status") ||
	       !strcmp(command, "detach") || !strcmp(command, "snapshot") ||
	       !strcmp(command, "fperf");
}

static bool takes_functions(const char *command)
{
	return !strcmp(command, "attach") || !strcmp(command, "top") || !strcmp(command, "hist");
}

/* Returns the word behind an operand; NULL: there is none. */
static const char *next_operand(const char *text)
{
	for (char *const *word = operands; word && *word; word++)
		if (*word == text)
			return word[1];
	return NULL;
}

/* Refuses a command in the place of a process: perf record -p PID -- sleep 5. Returns -1 where the
 * word is none. */
static int refuse_command(const char *command, const char *word)
{
	const char *time = strcmp(word, "sleep") ? NULL : next_operand(word);
	const bool lasts = !strcmp(command, "attach") || !strcmp(command, "top");

	if (lasts && time)
		return cli_usage(command, "--duration %s%s ends it, in the place of sleep %s", time,
				 time[strspn(time, "0123456789.")] ? "" : "s", time);
	if (!behind_dashes || *word == '-' || cli_may_be_functions(word))
		return -1;
	return cli_usage(command, "%s: a command behind -- is started by iprobe run%s", word,
			 lasts ? "; --duration 5s ends this after 5 s" : "");
}

int cli_pid_operand(const char *command, const char *text, bool is_first, int *ret)
{
	struct stat st;
	int code;

	if (ip_parse_pid(text, ret) == 0)
		return -1;
	if (!*text)
		return cli_usage(command, "the PID is empty: did pidof or pgrep find none?");
	if (!strcmp(text, "--"))
		return cli_usage(command, "a command behind -- is started by iprobe run");
	code = refuse_command(command, text);
	if (code >= 0)
		return code;
	if (text[strspn(text, "0123456789")] == '\0' || *text == '-')
		return cli_usage(command, "%s", ip_error_message());
	if (takes_names(command) && text[strspn(text, "0123456789,")] == '\0')
		return cli_usage(command,
				 "'%s' is no process id: PIDs have blanks between them; or -p %s",
				 text, text);
	if (takes_functions(command) && stat(text, &st) < 0 &&
	    (!is_first || cli_may_be_functions(text)))
		return cli_usage(command, "'%s' is no process id: functions are chosen by -f '%s'",
				 text, text);
	if (stat(text, &st) == 0 && S_ISDIR(st.st_mode) && is_trace(text))
		return cli_usage(command,
				 "%s is a trace, and a running process is needed: iprobe report %s "
				 "shows the trace",
				 text, text);
	/* one often stands beside the source folder of a server */
	if (stat(text, &st) == 0 && S_ISDIR(st.st_mode))
		return cli_usage(command,
				 takes_names(command)
					 ? "%s is a directory, and %s needs the PID of a running "
					   "process; --name %s takes the processes of that name"
					 : "%s is a directory, and %s needs the PID of a running "
					   "process; pgrep -x %s finds it",
				 text, command, text);
	if (strchr(text, '/') || (stat(text, &st) == 0 && st.st_mode & 0111))
		return cli_usage(command,
				 "%s is a file, and %s needs the PID of a running process (pgrep "
				 "-f %s finds it); iprobe run %s starts one",
				 text, command, text, text);
	if (takes_names(command))
		return cli_usage(command,
				 "'%s' is no process id: --name %s takes the processes of that "
				 "name",
				 text, text);
	return cli_usage(command,
			 "'%s' is no process id: pgrep -x %s finds that of a process of "
			 "this name",
			 text, text);
}

/* Whether the text could be the name of a function in C. */
static bool is_identifier(const char *text)
{
	return (isalpha((unsigned char)*text) || *text == '_') &&
	       text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				 "0123456789_")] == '\0';
}

int cli_trace_operand(const char *text)
{
	const bool is_number = text[strspn(text, "0123456789")] == '\0';
	char proc[32];
	struct stat st;
	int pid;

	if (stat(text, &st) == 0 && !S_ISREG(st.st_mode))
		return 0;
	if (stat(text, &st) == 0)
		return ip_error(
			"%s: not a trace: a trace is a directory that iprobe run or iprobe attach "
			"wrote%s",
			text, st.st_mode & 0111 ? "; iprobe list shows a program's probes" : "");
	if (is_number && ip_parse_pid(text, &pid) == 0) {
		snprintf(proc, sizeof(proc), "/proc/%d", pid);
		if (ip_access(proc, F_OK) == 0)
			return ip_error("%s: there is no such trace, but a process: iprobe attach "
					"%s records it, iprobe top %s shows it live",
					text, text, text);
	}
	if (!strcmp(text, CLI_DEFAULT_DIR))
		return ip_error("there is no trace %s here: name its directory, or record one "
				"first (iprobe attach PID, iprobe run CMD)",
				text);
	if (cli_may_be_functions(text))
		return ip_error("there is no trace '%s': functions are chosen by -f '%s'", text,
				text);
	if (is_identifier(text))
		return ip_error(
			"there is no trace '%s': no such directory; a function of that name "
			"is chosen by -f %s",
			text, text);
	return 0;
}

int cli_pids_or_none(int argc, char **argv, int **ret, size_t *ret_n)
{
	_cleanup_free_ char **all = NULL;
	size_t n;

	*ret = NULL;
	*ret_n = 0;
	all = cli_operands(argc, argv, optind, &n);
	*ret = all ? calloc(n + 1, sizeof(**ret)) : NULL;
	if (!*ret) {
		ip_error("out of memory");
		return cli_fail();
	}
	for (size_t i = 0; i < n; i++) {
		int code = cli_pid_operand(argv[0], all[i], i == 0, &(*ret)[*ret_n]);
		bool known = false;

		if (code >= 0)
			return code;
		for (size_t k = 0; k < *ret_n; k++)
			known |= (*ret)[k] == (*ret)[*ret_n];
		*ret_n += !known;
	}
	return -1;
}
