/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The assembler stage. gcc finds this program under the name "as" in the folder that iprobe-cc
 * gives it by -B. If gcc has marked sites in the text, the text is rewritten (rewrite.h) on its way
 * into the real assembler's standard input. For any other text the real assembler replaces this
 * program by exec.
 *
 * This program stays the parent of the assembler while it writes. If it were the child, its death
 * would look like the end of the text, and half an object file would look like a whole one.
 */
#include "coldpatch/sites/exclude.h"
#include "coldpatch/stage/naked_attr.h"
#include "coldpatch/stage/rewrite.h"
#include "common/file.h"
#include "common/print.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WINDOW	  (1u << 20) /* size of the buffer for standard input */
#define NOT_FOUND 127

/* Options whose value is the next argument. */
static const char *const with_value[] = {
	"-o", "-I", "--defsym", "--MD", "-MD", "--debug-prefix-map", "--itbl", "-t",
};

struct input {
	int argument; /* its index in argv; 0: standard input, which no argument names */
	const char *text;
	size_t size;
};

static int say(const char *what, const char *why)
{
	ip_print(stderr, "iprobe as: %s: %s\n", what, why);
	return 1;
}

/* --- the real assembler */

static bool is_other_program(const char *path)
{
	struct stat there, here;

	return !stat(path, &there) && S_ISREG(there.st_mode) && !ip_access(path, X_OK) &&
	       !stat("/proc/self/exe", &here) &&
	       (there.st_dev != here.st_dev || there.st_ino != here.st_ino);
}

/* Returns the first program "as" in a list of folders, separated by colons; malloc'ed, NULL:
 * none. */
static char *find_in(const char *folders)
{
	while (folders && *folders) {
		size_t length = strcspn(folders, ":");
		bool slash = length && folders[length - 1] == '/';
		char *path;

		if (asprintf(&path, "%.*s%s", (int)length, folders,
			     !length ? "as"
			     : slash ? "as"
				     : "/as") < 0)
			return NULL;
		if (is_other_program(path))
			return path;
		free(path);
		folders += length;
		folders += *folders == ':';
	}
	return NULL;
}

/* Looks for the assembler as gcc itself does: the one that iprobe-cc has named, gcc's own folders,
 * PATH. */
static char *find_real(void)
{
	const char *named = getenv("IPROBE_AS"), *path = getenv("PATH");
	char *found = named && is_other_program(named) ? strdup(named) : NULL;

	if (!found)
		found = find_in(getenv("COMPILER_PATH"));
	return found ? found : find_in(path ? path : "/usr/local/bin:/usr/bin:/bin");
}

/* --- inputs */

static bool takes_value(const char *option)
{
	for (size_t i = 0; i < sizeof(with_value) / sizeof(with_value[0]); i++)
		if (!strcmp(option, with_value[i]))
			return true;
	return false;
}

/* Maps the file of an argument. Returns false if it is not a file that can be mapped, or is
 * empty. */
static bool map_input(const char *path, struct input *in)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *text;

	if (fd < 0)
		return false;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || !st.st_size) {
		close(fd);
		return false;
	}
	text = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (text == MAP_FAILED)
		return false;
	madvise(text, st.st_size, MADV_SEQUENTIAL);
	in->text = text;
	in->size = st.st_size;
	return true;
}

static void warn(void *context, const char *name, size_t length)
{
	ip_print(stderr,
		 "iprobe-cc: warning: %.*s is naked, and gcc breaks it by calling hooks in it; "
		 "mark it no_instrument_function\n",
		 (int)length, name);
}

/* Finds the text to rewrite: the only input, if gcc has marked sites in it; or standard input, if
 * there is no other. Returns 1, or 0: nothing, or a command that is not understood. */
static int find_input(int argc, char **argv, struct input *ret)
{
	int inputs = 0;

	*ret = (struct input){0};
	for (int i = 1; i < argc; i++) {
		if (argv[i][0] == '@')
			return 0;
		if (takes_value(argv[i])) {
			i++;
			continue;
		}
		if (argv[i][0] == '-' && strcmp(argv[i], "-") && strcmp(argv[i], "--")) {
			/* these ask a question, and the assembler may end without reading */
			if (!strcmp(argv[i], "--version") || !strcmp(argv[i], "--help") ||
			    !strcmp(argv[i], "--target-help"))
				return 0;
			continue;
		}
		inputs++;
		ret->argument = i;
	}
	if (inputs > 1)
		return 0;
	if (!inputs || argv[ret->argument][0] == '-')
		return 1;
	if (!map_input(argv[ret->argument], ret))
		return 0;
	if (stage_concerns(ret->text, ret->size))
		return 1;
	if (memmem(ret->text, ret->size, "__cyg_profile_func_exit", 23))
		stage_find_broken(ret->text, ret->size, warn, NULL);
	return 0;
}

/* --- passing the text on */

static bool write_all(void *context, const char *data, size_t size)
{
	while (size) {
		ssize_t n = write(*(int *)context, data, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		data += n;
		size -= n;
	}
	return true;
}

/* Rewrites standard input through a buffer, which grows only if the lines around a site are
 * longer. */
static bool rewrite_stdin(struct stage_rewriter *r)
{
	size_t room = WINDOW, used = 0;
	char *window = malloc(room);
	bool last = false, ok = window;

	while (ok && !last) {
		ptrdiff_t done;
		ssize_t n;

		if (used == room) {
			char *larger = realloc(window, 2 * room);

			if (!larger)
				break;
			window = larger;
			room *= 2;
		}
		n = read(STDIN_FILENO, window + used, room - used);
		if (n < 0 && errno == EINTR)
			continue;
		last = n == 0;
		used += n > 0 ? n : 0;
		done = n < 0 ? -1 : stage_rewrite(r, window, used, last);
		ok = done >= 0;
		if (ok) {
			memmove(window, window + done, used - done);
			used -= done;
		}
	}
	free(window);
	return ok && last;
}

/* Starts the real assembler. It reads what this program writes to *ret_fd. Returns its pid, or
 * -1. */
static pid_t start_assembler(const char *real, char **argv, int *ret_fd)
{
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		return -1;
	fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
	pid = fork();
	if (pid == 0) {
		signal(SIGPIPE, SIG_DFL);
		/* this program's death would look like the end of the text */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(ends[0], STDIN_FILENO);
		execv(real, argv);
		_exit(NOT_FOUND);
	}
	close(ends[0]);
	if (pid < 0)
		close(ends[1]);
	*ret_fd = ends[1];
	return pid;
}

static int run(const char *real, int argc, char **argv, const struct input *in)
{
	struct ip_selection *exclude;
	struct stage_rewriter *r;
	char **args = calloc(argc + 2, sizeof(*args));
	int fd, status, n = 0, gave_up = 0;
	pid_t pid;
	bool ok;

	if (!args)
		return say(real, "out of memory");
	/* iprobe-cc has reported the mistake in it */
	if (cold_exclude_parse(getenv(ENV_EXCLUDE), &exclude) < 0)
		exclude = NULL;
	for (int i = 0; i < argc; i++)
		if (!i || i != in->argument)
			args[n++] = argv[i];
	args[n] = (char *)"--"; /* the assembler reads standard input */
	signal(SIGPIPE, SIG_IGN);
	pid = start_assembler(real, args, &fd);
	free(args);
	if (pid < 0)
		return say(real, strerror(errno));
	r = stage_rewriter_create(exclude, write_all, &fd, getenv("IPROBE_RED_ZONE"));
	if (in->text && r) {
		char *name;

		/* messages must name the file that gcc wrote */
		ok = asprintf(&name, "# 1 \"%s\"\n", argv[in->argument]) >= 0 &&
		     write_all(&fd, name, strlen(name)) &&
		     stage_rewrite(r, in->text, in->size, true) >= 0;
	} else {
		ok = r && rewrite_stdin(r);
	}
	if (!ok) {
		gave_up = errno;
		/* EPIPE: the assembler has ended, and has said why */
		if (gave_up != EPIPE)
			kill(pid, SIGKILL);
	}
	close(fd);
	if (r)
		stage_rewriter_destroy(r);
	ip_selection_destroy(exclude);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return say(real, strerror(errno));
	if (!ok && gave_up != EPIPE)
		return say("cannot rewrite the compiler's output",
			   strerror(gave_up ? gave_up : ENOMEM));
	if (WIFSIGNALED(status)) {
		signal(WTERMSIG(status), SIG_DFL);
		raise(WTERMSIG(status));
		return 128 + WTERMSIG(status);
	}
	return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	char *real = find_real();
	struct input in;

	if (!real) {
		say("as", "no assembler in PATH");
		return NOT_FOUND;
	}
	if (argc)
		argv[0] = real;
	if (find_input(argc, argv, &in))
		return run(real, argc, argv, &in);
	execv(real, argv);
	say(real, strerror(errno));
	return NOT_FOUND;
}
