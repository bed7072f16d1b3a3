/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the real compiler, and never iprobe-cc itself. See real_compiler.h.
 */
#include "coldpatch/cc/real_compiler.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libiberty/libiberty.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static bool is_ourselves(const char *path)
{
	_cleanup_free_ char *real = realpath(path, NULL);
	struct stat there, here;
	const char *base;

	if (!real)
		return false;
	base = strrchr(real, '/') + 1;
	/* another installation, or the other one of iprobe-cc and iprobe-c++ */
	if (!strcmp(base, "iprobe-cc") || !strcmp(base, "iprobe-c++"))
		return true;
	return !stat(real, &there) && !stat("/proc/self/exe", &here) &&
	       there.st_ino == here.st_ino && there.st_dev == here.st_dev;
}

static bool is_program(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) && !ip_access(path, X_OK) &&
	       !is_ourselves(path);
}

/* Returns the first program of that name in PATH that is not iprobe-cc; malloc'ed; NULL: none. */
static char *find_in_path(const char *name)
{
	const char *path = getenv("PATH");

	if (strchr(name, '/'))
		return is_program(name) ? strdup(name) : NULL;
	if (!path)
		path = "/usr/local/bin:/usr/bin:/bin";
	while (*path) {
		size_t length = strcspn(path, ":");
		char *candidate;

		if (asprintf(&candidate, "%.*s%s%s", (int)length, path, length ? "/" : "", name) <
		    0)
			return NULL;
		if (is_program(candidate))
			return candidate;
		free(candidate);
		path += length;
		path += *path == ':';
	}
	return NULL;
}

/* "gcc-12" -> "g++-12"; "x86_64-linux-gnu-gcc", "clang" and "cc" in the same way; NULL for any
 * other name. */
static char *cxx_of(const char *cc)
{
	static const struct {
		const char *c, *cxx;
	} names[] = {{"clang", "clang++"}, {"gcc", "g++"}, {"cc", "c++"}};
	const char *base = strrchr(cc, '/');

	base = base ? base + 1 : cc;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		for (const char *at = strstr(base, names[i].c); at;
		     at = strstr(at + 1, names[i].c)) {
			size_t length = strlen(names[i].c);
			char *result;

			if ((at != base && at[-1] != '-') || (at[length] && at[length] != '-'))
				continue;
			if (asprintf(&result, "%.*s%s%s", (int)(at - cc), cc, names[i].cxx,
				     at + length) < 0)
				return NULL;
			return result;
		}
	}
	return NULL;
}

/* Returns the command that the user named; NULL if the user named none. */
static char **from_environment(bool cxx)
{
	const char *text = getenv(cxx ? "IPROBE_CXX" : "IPROBE_CC");
	char **words;
	size_t n;

	if (text && *text)
		return buildargv(text);
	text = getenv("IPROBE_CC");
	if (!cxx || !text || !*text)
		return NULL;
	/* only the C compiler was named: takes the C++ compiler that belongs to it, if known */
	words = buildargv(text);
	n = words ? countargv(words) : 0;
	for (size_t i = n; i-- > 0;) {
		char *sister = words[i][0] == '-' ? NULL : cxx_of(words[i]);

		if (sister) {
			free(words[i]);
			words[i] = sister;
			return words;
		}
	}
	freeargv(words);
	return NULL;
}

char **real_compiler_find(bool cxx)
{
	static const char *const defaults[2][3] = {{"cc", "gcc", "clang"},
						   {"c++", "g++", "clang++"}};
	const char *variable = cxx ? "IPROBE_CXX" : "IPROBE_CC";
	char **words = getenv(ENV_ACTIVE) ? NULL : from_environment(cxx);
	char *path;

	if (words && words[0]) {
		path = find_in_path(words[0]);
		if (path) {
			free(words[0]);
			words[0] = path;
			return words;
		}
		if (!is_ourselves(words[0]) || strchr(words[0], '/')) {
			ip_error("%s: no such compiler; %s must name the real one", words[0],
				 variable);
			freeargv(words);
			return NULL;
		}
	}
	freeargv(words);
	for (size_t i = 0; i < 3; i++) {
		path = find_in_path(defaults[cxx][i]);
		if (path) {
			words = calloc(2, sizeof(*words));
			if (words)
				words[0] = path;
			return words;
		}
	}
	ip_error("no compiler found; set %s to the real one", variable);
	return NULL;
}

bool real_compiler_is_clang(char *const *words)
{
	for (size_t i = 0; words[i]; i++) {
		_cleanup_free_ char *path = NULL, *real = NULL;
		const char *base;

		/* an option of the compiler, or of the program in front of it */
		if (words[i][0] == '-')
			continue;
		base = strrchr(words[i], '/');
		if (strstr(base ? base : words[i], "clang"))
			return true;
		path = find_in_path(words[i]);
		real = path ? realpath(path, NULL) : NULL;
		if (real && strstr(strrchr(real, '/'), "clang"))
			return true;
	}
	return false;
}

bool real_compiler_is_cross(char *const *words)
{
	static const char *const ours[] = {"x86_64", "amd64"};
	const char *base = strrchr(words[0], '/'), *target;
	size_t n;

	base = base ? base + 1 : words[0];
	target = strstr(base, "-linux");
	n = strcspn(base, "-");
	/* the form is CPU-linux-gnu-gcc or CPU-VENDOR-linux-gnu-gcc */
	if (!target ||
	    (!strstr(target, "-gcc") && !strstr(target, "-g++") && !strstr(target, "-clang")))
		return false;
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (strlen(ours[i]) == n && !memcmp(base, ours[i], n))
			return false;
	return true;
}

char *real_compiler_ask(char *const *argv)
{
	posix_spawn_file_actions_t actions;
	_cleanup_fclose_ FILE *out = NULL;
	char *line = NULL;
	size_t room = 0;
	ssize_t n = -1;
	int ends[2], status;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		return NULL;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	status = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	out = fdopen(ends[0], "r");
	if (!out)
		close(ends[0]);
	if (status)
		return NULL;
	if (out)
		n = getline(&line, &room, out);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (n <= 0) {
		free(line);
		return NULL;
	}
	line[strcspn(line, "\n")] = '\0';
	return line;
}
