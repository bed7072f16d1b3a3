/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For each rule: finds its programs, and has `iprobe list --check` compare them with what the rule
 * names. A program that runs is looked at in its first process that matches; libraries are known
 * there. See rules_check.h.
 */
#include "cli/check/rules_check.h"

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/print.h"
#include "iprobed/rules/find.h"

#define PROGRAMS_MAX 16u /* of one rule that are looked at */
#define WORDS_MAX    64u
#define SECONDS_MAX  60u /* for one program */
#define OUTPUT_MAX   65536u

struct program {
	char *exe;
	pid_t pid; /* 0: no process of it is known */
};

struct programs {
	struct program items[PROGRAMS_MAX];
	size_t n;
};

/* Adds a program, unless it is there or there are enough. */
static void add_program(struct programs *programs, const char *exe, pid_t pid)
{
	for (size_t i = 0; i < programs->n; i++)
		if (!strcmp(programs->items[i].exe, exe))
			return;
	if (programs->n == PROGRAMS_MAX)
		return;
	programs->items[programs->n].exe = strdup(exe);
	programs->items[programs->n].pid = pid;
	programs->n += programs->items[programs->n].exe != NULL;
}

static void add_process(void *programs, const struct ip_rules_process *process)
{
	add_program(programs, process->exe, process->pid);
}

static void find_files(const struct ip_rules_rule *rule, struct programs *programs)
{
	for (size_t i = 0; i < rule->exe.n; i++) {
		const char *pattern = rule->exe.items[i];
		glob_t found;
		struct stat st;

		if (*pattern != '/' || glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
			continue;
		for (size_t k = 0; k < found.gl_pathc; k++) {
			_cleanup_free_ char *path = realpath(found.gl_pathv[k], NULL);

			if (path && stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
			    ip_access(path, X_OK) == 0)
				add_program(programs, path, 0);
		}
		globfree(&found);
	}
}

static const char *last_of(char *const *words)
{
	while (words[1])
		words++;
	return *words;
}

/* Runs a command and returns what it has said on stdout and stderr; malloc'ed. NULL with an
 * error. */
static char *run(char *const *words)
{
	_cleanup_free_ char *text = malloc(OUTPUT_MAX + 1);
	_cleanup_fclose_ FILE *output = NULL;
	int fds[2], status;
	size_t n;
	pid_t child;

	if (!text || pipe2(fds, O_CLOEXEC) < 0) {
		ip_error_errno("cannot make a pipe");
		return NULL;
	}
	output = fdopen(fds[0], "re");
	child = output ? fork() : -1;
	if (child == 0) {
		alarm(SECONDS_MAX); /* a file system may never answer */
		if (dup2(fds[1], STDOUT_FILENO) >= 0 && dup2(fds[1], STDERR_FILENO) >= 0)
			execv(words[0], words);
		_exit(127);
	}
	close(fds[1]);
	if (child < 0) {
		ip_error_errno("cannot run %s", words[0]);
		return NULL;
	}
	n = fread(text, 1, OUTPUT_MAX, output);
	text[n] = '\0';
	while (fgetc(output) != EOF) /* so that it ends */
		;
	waitpid(child, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) <= 1)
		return ip_steal_ptr(text);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		ip_error("looking at %s took more than %u s: it is left out", last_of(words),
			 SECONDS_MAX);
	else
		ip_error("%s has failed: %.*s", words[0], (int)strcspn(text, "\n"), text);
	return NULL;
}

struct words {
	char *items[WORDS_MAX + 1];
	size_t n;
};

static void add_word(struct words *words, const char *option, const char *value)
{
	if (words->n < WORDS_MAX && asprintf(&words->items[words->n], "%s%s%s", option,
					     value ? "=" : "", value ? value : "") >= 0)
		words->n++;
}

static void add_texts(struct words *words, const char *option, const struct ip_rules_texts *texts)
{
	for (size_t i = 0; i < texts->n; i++)
		add_word(words, option, texts->items[i]);
}

static void tell(const struct ip_rules_rule *rule, const char *text)
{
	ip_print(stderr, "iprobed: %s:%u:%u: rule %s: %s\n", rule->file, rule->line, rule->column,
		 rule->name, text);
}

/* Has iprobe compare one program with a selection (NULL: all), and with the values of the rule. */
static void compare(const struct ip_rules_rule *rule, const struct program *program,
		    const char *iprobe, const char *functions, bool values)
{
	static const char prefix[] = "iprobe: ";
	struct words words = {0};
	_cleanup_free_ char *text = NULL;
	char pid[16], *line, *rest;

	snprintf(pid, sizeof(pid), "%d", program->pid);
	add_word(&words, iprobe, NULL);
	add_word(&words, "list", NULL);
	add_word(&words, "--check", NULL);
	if (functions)
		add_word(&words, "--functions", functions);
	if (values) {
		add_texts(&words, "--args", &rule->args_of);
		add_texts(&words, "--retval", &rule->retval_of);
		add_texts(&words, "--when", &rule->when);
	}
	add_word(&words, "--", NULL);
	add_word(&words, program->pid ? pid : program->exe, NULL);
	text = run(words.items);
	for (size_t i = 0; i < words.n; i++)
		free(words.items[i]);
	if (!text)
		tell(rule, ip_error_message());
	for (line = text ? strtok_r(text, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest)) {
		_cleanup_free_ char *message = NULL;
		const char *said = line;

		if (!strncmp(said, prefix, sizeof(prefix) - 1))
			said += sizeof(prefix) - 1;
		if (asprintf(&message, "%s%s%s", program->pid ? program->exe : "",
			     program->pid ? ", " : "", said) < 0)
			message = NULL;
		tell(rule, message ? message : said);
	}
}

static void check_program(const struct ip_probes_d *probes, const struct ip_rules_rule *rule,
			  const struct program *program, const char *iprobe)
{
	const bool values = rule->args_of.n || rule->retval_of.n || rule->when.n;
	const struct ip_fperf_profile *profile =
		rule->profile ? ip_probes_d_profile(probes, rule->profile) : NULL;

	if (rule->latency)
		compare(rule, program, iprobe, rule->latency, values && !rule->functions);
	if (rule->functions || (values && !rule->latency))
		compare(rule, program, iprobe, rule->functions, values);
	if (profile && profile->functions)
		compare(rule, program, iprobe, profile->functions, false);
}

/* Whether the rule names functions or values that a program may lack. */
static bool names_any(const struct ip_probes_d *probes, const struct ip_rules_rule *rule)
{
	const struct ip_fperf_profile *profile =
		rule->profile ? ip_probes_d_profile(probes, rule->profile) : NULL;

	return rule->latency || rule->functions || rule->args_of.n || rule->retval_of.n ||
	       rule->when.n || (profile && profile->functions);
}

void cli_rules_check(const struct ip_probes_d *probes, const char *iprobe)
{
	setenv("IPROBE_PROBES_D", probes->dir, 1); /* '@NAME' is the same there */
	for (size_t i = 0; i < probes->nrules; i++) {
		const struct ip_rules_rule *rule = &probes->rules[i];
		struct programs programs = {0};

		if (!names_any(probes, rule))
			continue;
		ip_rules_find(rule, iprobe, add_process, &programs);
		find_files(rule, &programs);
		if (!programs.n && rule->enabled)
			tell(rule, "no process of it runs, and match.exe is the path of no file: "
				   "its functions are not compared with a program");
		for (size_t k = 0; k < programs.n; k++) {
			check_program(probes, rule, &programs.items[k], iprobe);
			free(programs.items[k].exe);
		}
	}
}
