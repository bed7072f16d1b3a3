/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "Do you mean".
 */
#include "cli/args/suggest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/args/suggest_options.h"
#include "cli/cli.h"
#include "common/cleanup.h"
#include "common/edit_distance.h"
#include "common/file.h"
#include "common/print.h"

/* What users of perf, strace, gdb, uftrace, LTTng and bpftrace type, and what does it here. */
static const struct {
	const char *words; /* each between blanks */
	const char *what;
} habits[] = {
	{" record trace start log follow monitor watch capture create enable-event ftrace ",
	 "'attach' (a running process) or 'run' (a command)"},
	{" stop end kill finish disable undo restore remove off quit destroy ", "'detach'"},
	{" exec launch spawn begin ", "'run'"},
	{" stat stats count counters ",
	 "'report' (calls and times of a trace), 'status' (what is live), or the command fperf "
	 "(hardware counters)"},
	{" script replay print events cat view read babeltrace ",
	 "'dump' (event by event) or 'report' (a table)"},
	{" list-events evlist pmu papi ",
	 "fperf list-events (events that the command fperf counts)"},
	{" show summary summarize analyze analyse profile table annotate ",
	 "'report' (a trace as a table) or 'graph' (as a tree)"},
	{" tree callgraph callers callees stacks backtrace bt ", "'graph'"},
	{" flame flamegraph html chrome perfetto convert timechart page browser ui gui ",
	 "'export' (--format html, chrome, folded...)"},
	{" diff compare ", "'report --diff' (two traces)"},
	{" functions funcs probes symbols sites ls available probe ", "'list'"},
	{" histogram latency percentiles heatmap funclatency ", "'hist'"},
	{" live busiest ", "'top'"},
	{" strace truss syscall sctrace sysdig ",
	 "'syscalls' (of a running process, or of a trace with --kernel)"},
	{" ps sessions state ", "'status'"},
	{" save flush rings ", "'snapshot'"},
	{" check test diagnose why setup version-check ", "'doctor'"},
	{" cut slice filter shorten ", "'trim' (a part of a trace) or 'split'"},
	{" about metadata describe header buildid-list ", "'info'"},
};

/* What the options take, for those whose names do not say it. */
static const struct {
	const char *name, *value;
} values[] = {
	{"functions", "a selection, such as 'parse_*' or lib:libz*"},
	{"output", "the name of a directory or file"},
	{"pid", "the number of a process"},
	{"name", "the name of a program, such as nginx"},
	{"unit", "a unit of systemd, such as nginx.service"},
	{"cgroup", "the path of a control group"},
	{"value", "a condition on a value, such as 'len>4096'"},
	{"by", "what is put together, such as thread"},
	{"diff", "the directory of another trace"},
	{"slowest", "a number"},
	{"details", "a size, such as 8M"},
	{"list", "a file, or a directory of probe lists"},
	{"duration", "a time, such as 200ms, 10s or 2m"},
	{"interval", "a time, such as 200ms, 10s or 2m"},
	{"delay", "a time, such as 200ms, 10s or 2m"},
	{"linger", "a time, such as 200ms, 10s or 2m"},
	{"fail-with", "an exit code, such as 125"},
	{"max-stop", "a time, such as 5ms"},
	{"min-duration", "a time, such as 10us or 5ms"},
	{"slower-than", "a time, such as 10us or 5ms"},
	{"margin", "a time, such as 10us or 5ms"},
	{"from", "a time since the start of the recording, such as 1.5s"},
	{"to", "a time since the start of the recording, such as 1.5s"},
	{"memory", "a size, such as 64M"},
	{"max-size", "a size, such as 1G"},
	{"string-limit", "a number of bytes"},
	{"time", "precise or coarse"},
	{"clock", "auto, tsc or monotonic"},
	{"payload", "log, count, hist or user:FILE"},
	{"until", "a condition, such as 'p99>10ms/1s:parse_*'"},
	{"tid", "the number of a thread"},
	{"thread", "names of threads, such as 'worker-*'"},
	{"sample", "a number, such as 100 for one call in 100"},
	{"start-on", "the name of a function"},
	{"stop-on", "the name of a function"},
	{"within", "the name of a function, or a selection as -f has it"},
	{"depth", "a number of levels"},
	{"rotate", "a number of pieces"},
	{"limit", "a number"},
	{"waits", "below, hide or among"},
	{"iterations", "a number"},
	{"sort", "the name of a column"},
	{"format", "the name of a format, such as html"},
	{"budget", "a share of the time, such as 2%"},
	{"events", "names of events, such as cycles,instructions"},
};

/* Parts of a trace that most of its readers do not choose. */
static const struct {
	const char *name, *instead;
} parts[] = {
	{"from", "iprobe trim --from T --to T writes that part of a trace as a trace"},
	{"to", "iprobe trim --from T --to T writes that part of a trace as a trace"},
	{"tid", "iprobe trim --tid TID writes the trace of one thread, report --by thread compares "
		"them"},
	{"thread", "--tid, or iprobe trim --tid TID, chooses a thread by its number; report --by "
		   "thread lists them"},
};
#define TRACE_READERS " report graph hist export dump trim split tui "

/* Returns whether the word is one of those, each of which stands between blanks. */
static bool has_word(const char *words, const char *word)
{
	char wanted[32];

	return (size_t)snprintf(wanted, sizeof(wanted), " %s ", word) < sizeof(wanted) &&
	       !strchr(word, ' ') && strstr(words, wanted);
}

static const char *by_habit(const char *word)
{
	for (size_t i = 0; i < sizeof(habits) / sizeof(*habits); i++)
		if (has_word(habits[i].words, word))
			return habits[i].what;
	return NULL;
}

/* Returns the name that comes next to the word: that it begins, or that is mistyped; or NULL. */
static const char *nearest(const char *word, const char *const *names)
{
	const size_t n = strlen(word);
	unsigned least = ip_edit_limit(n) + 1;
	const char *best = NULL;

	for (; *names; names++) {
		unsigned d = ip_edit_distance(word, n, *names, strlen(*names), least - 1);

		if (n >= 2 && !strncmp(word, *names, n))
			d = 0;
		if (d < least) {
			least = d;
			best = *names;
			if (!d)
				break;
		}
	}
	return best;
}

int cli_no_command(const char *word, const char *const *names)
{
	const char *habit = by_habit(word), *near = habit ? NULL : nearest(word, names);

	if (!strcmp(word, "fperf") || !strcmp(word, "iprobed") || !strcmp(word, "coldpatch"))
		ip_print(stderr,
			 "iprobe: %s is a command of its own: type '%s' without iprobe in front "
			 "(%s --help)%s\n",
			 word, word, word,
			 strcmp(word, "fperf") ? "" : ", such as fperf -p PID --duration 10s");
	else if (*word && word[strspn(word, "0123456789")] == '\0')
		ip_print(stderr,
			 "iprobe: no command '%s': do you mean 'iprobe attach %s' (record that "
			 "process) or 'iprobe top %s' (look at it)?\n",
			 word, word, word);
	else if (*word == '-')
		ip_print(stderr,
			 "iprobe: '%s' stands before a command: name the command first, such as "
			 "'iprobe attach %s ...' (iprobe --help lists them)\n",
			 word, word);
	else if (strchr(word, '/') && ip_access(word, X_OK) == 0)
		ip_print(stderr,
			 "iprobe: no command '%s': do you mean 'iprobe run %s' (record it) or "
			 "'iprobe list %s' (its probes)?\n",
			 word, word, word);
	else if (habit)
		ip_print(stderr, "iprobe: no command '%s': do you mean %s?\n", word, habit);
	else if (near)
		ip_print(stderr, "iprobe: no command '%s': do you mean '%s'?\n", word, near);
	else
		ip_print(stderr, "iprobe: no command '%s' (iprobe --help lists them)\n", word);
	return 2;
}

static const char *value_of(const char *name)
{
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		if (!strcmp(values[i].name, name))
			return values[i].value;
	return "a value";
}

/* The long option that getopt_long() takes name[0..n) for: of that name, or the only one that
 * begins with it. *ret_several: whether there are more. */
static const struct option *find_long(const struct option *options, const char *name, size_t n,
				      bool *ret_several)
{
	const struct option *found = NULL;

	*ret_several = false;
	for (; options->name; options++) {
		if (strncmp(options->name, name, n))
			continue;
		if (strlen(options->name) == n) {
			*ret_several = false;
			return options;
		}
		*ret_several |= found != NULL;
		found = found ? found : options;
	}
	return found;
}

/* Lists the options that begin with name[0..n): "--sample, --start-on". */
static char *list_long(const struct option *options, const char *name, size_t n)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	for (; out && options->name; options++)
		if (!strncmp(options->name, name, n))
			ip_print(out, "%s--%s", ftell(out) ? ", " : "", options->name);
	if (!out || fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

static const char *nearest_long(const struct option *options, const char *name, size_t n)
{
	_cleanup_free_ char *word = strndup(name, n);
	const char *names[128];
	size_t count = 0;

	for (; options->name && count < 127; options++)
		names[count++] = options->name;
	names[count] = NULL;
	return word ? nearest(word, names) : NULL;
}

static int bad_long(const char *command, const char *word, const struct option *options)
{
	const char *name = word + 2, *near, *habit;
	const size_t n = strcspn(name, "=");
	bool several;
	const struct option *found = find_long(options, name, n, &several);

	if (found && several) {
		_cleanup_free_ char *all = list_long(options, name, n);

		return cli_usage(command, "option --%.*s may be %s", (int)n, name,
				 all ? all : "several");
	}
	if (found && name[n] == '=')
		return cli_usage(command, "option --%s takes no value", found->name);
	if (found)
		return cli_usage(command, "option --%s needs %s", found->name,
				 value_of(found->name));
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (strlen(parts[i].name) == n && !strncmp(name, parts[i].name, n) &&
		    has_word(TRACE_READERS, command))
			return cli_usage(command, "no option --%s: %s", parts[i].name,
					 parts[i].instead);
	habit = cli_option_habit(command, name, n);
	if (habit)
		return cli_usage(command, "no option --%.*s: %s", (int)n, name, habit);
	near = nearest_long(options, name, n);
	if (near)
		return cli_usage(command, "no option --%.*s: do you mean --%s?", (int)n, name,
				 near);
	return cli_usage(command, "no option --%.*s", (int)n, name);
}

static int bad_letter(const char *command, int letter, const char *letters,
		      const struct option *options)
{
	const char *known = letter == ':' ? NULL : strchr(letters, letter);
	const struct option *same = options;
	const char name = letter, *habit = cli_option_habit(command, &name, 1);

	while (same->name && same->val != letter)
		same++;
	if (known && same->name)
		return cli_usage(command, "option -%c (--%s) needs %s", letter, same->name,
				 value_of(same->name));
	if (known)
		return cli_usage(command, "option -%c needs a value", letter);
	if (letter == 'p')
		return cli_usage(command, "no option -p: this command takes no process");
	if (habit)
		return cli_usage(command, "no option -%c: %s", letter, habit);
	if (same->name)
		return cli_usage(command, "no option -%c: do you mean --%s?", letter, same->name);
	return cli_usage(command, "no option -%c", letter);
}

int cli_bad_option(const char *command, int argc, char **argv, const char *letters,
		   const struct option *options)
{
	const char *word = optind > 0 && optind <= argc ? argv[optind - 1] : "?";
	const bool is_long = !strncmp(word, "--", 2) && word[2];
	bool several;

	/* getopt_long() tells no letter where it does not know a long option. Where it tells one,
	 * the word before may still be another, long option. */
	if (is_long && optopt) {
		const struct option *found =
			find_long(options, word + 2, strcspn(word + 2, "="), &several);

		if (!found || found->val != optopt)
			return bad_letter(command, optopt, letters, options);
	}
	if (is_long)
		return bad_long(command, word, options);
	return bad_letter(command, optopt, letters, options);
}
