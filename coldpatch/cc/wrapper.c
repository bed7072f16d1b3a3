/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe-cc and iprobe-c++: they run the real compiler, and ColdPatch on the file that it links.
 * The name by which the program was called decides which of the two it is.
 *
 *  - If the command does not link, the real compiler takes over by exec, with the instrumentation
 *    flag if a source is compiled. No part of iprobe-cc is left that could behave differently.
 *  - If the command links, the compiler runs as a child; its output and exit code become ours. Then
 *    ColdPatch runs on the file that the compiler wrote. If ColdPatch refuses the file, the file
 *    stays as it was linked, which works, and one line on stderr says why.
 */
#include "coldpatch/cc/command_line.h"
#include "coldpatch/cc/install_paths.h"
#include "coldpatch/cc/link_parts.h"
#include "coldpatch/cc/placement.h"
#include "coldpatch/cc/real_compiler.h"
#include "coldpatch/coldpatch.h"
#include "coldpatch/sites/exclude.h"
#include "common/arch/arch.h"
#include "common/cleanup.h"
#include "common/elf/elf_class.h"
#include "common/error.h"
#include "common/print.h"
#include "common/units.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <libiberty/libiberty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOT_FOUND 127

static const char *self;
static bool verbose;
static volatile sig_atomic_t child;

static int say(const char *what)
{
	ip_print(stderr, "%s: %s\n", self, what);
	return 1;
}

static void show(char *const *argv)
{
	ip_print(stderr, "%s:", self);
	for (size_t i = 0; argv[i]; i++) {
		if (*argv[i] && !argv[i][strspn(argv[i], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNO"
							 "PQRSTUVWXYZ0123456789_-+=./,:@%^")]) {
			ip_print(stderr, " %s", argv[i]);
			continue;
		}
		ip_print(stderr, " '");
		for (const char *p = argv[i]; *p;) {
			int n = strcspn(p, "'");

			ip_print(stderr, "%.*s", n, p);
			p += n;
			if (*p++)
				ip_print(stderr, "'\\''");
			else
				break;
		}
		ip_print(stderr, "'");
	}
	ip_print(stderr, "\n");
}

static int run_compiler(char **argv)
{
	if (verbose)
		show(argv);
	setenv(ENV_ACTIVE, "1", 1);
	execv(argv[0], argv);
	ip_print(stderr, "%s: %s: %s\n", self, argv[0], strerror(errno));
	return NOT_FOUND;
}

static void pass_on(int signal, siginfo_t *info, void *context __attribute__((unused)))
{
	bool typed = info->si_code == SI_KERNEL && (signal == SIGINT || signal == SIGQUIT);

	if (child > 0 && !typed)
		kill(child, signal);
}

/* Runs the compiler to its end and returns its wait status. Ctrl-C reaches the compiler directly. A
 * signal that is sent to us alone is passed on. */
static int wait_for_compiler(char **argv)
{
	static const int signals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
	struct sigaction old[4],
		action = {.sa_sigaction = pass_on, .sa_flags = SA_RESTART | SA_SIGINFO};
	sigset_t block, before;
	int status = NOT_FOUND << 8;
	pid_t pid;

	sigemptyset(&block);
	for (size_t i = 0; i < 4; i++)
		sigaddset(&block, signals[i]);
	sigprocmask(SIG_BLOCK, &block, &before);
	for (size_t i = 0; i < 4; i++) {
		sigaction(signals[i], NULL, &old[i]);
		if (old[i].sa_handler != SIG_IGN)
			sigaction(signals[i], &action, NULL);
	}
	pid = fork();
	if (pid == 0) {
		for (size_t i = 0; i < 4; i++)
			sigaction(signals[i], &old[i], NULL);
		sigprocmask(SIG_SETMASK, &before, NULL);
		_exit(run_compiler(argv));
	}
	child = pid;
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (pid < 0)
		say("cannot start the compiler: out of processes or memory");
	else
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	child = 0;
	for (size_t i = 0; i < 4; i++)
		sigaction(signals[i], &old[i], NULL);
	return status;
}

/* Whether the file is a linked program or library for x86-64 or i386. ColdPatch handles no other
 * file. */
static bool is_linked_elf(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	uint8_t start[sizeof(Elf64_Ehdr)] = {0};
	const struct ip_arch *arch;
	Elf64_Ehdr ehdr;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) ||
	    pread(fd, start, sizeof(start), 0) != sizeof(start) || memcmp(start, ELFMAG, SELFMAG))
		return false;
	ip_elf_ehdr_decode(start, &ehdr);
	arch = ip_arch_for_machine(ehdr.e_machine);
	return arch && ehdr.e_ident[EI_CLASS] == (arch->bits == 64 ? ELFCLASS64 : ELFCLASS32) &&
	       (ehdr.e_type == ET_EXEC || ehdr.e_type == ET_DYN);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static void coldpatch(const struct command_line *line, enum ip_placement placement,
		      const struct ip_selection *exclude)
{
	struct ip_coldpatch_options options = {
		.keep_relocs = line->keep_relocs,
		.exclude = exclude,
		.drop_debug = placement == IP_PLACEMENT_INLINE,
		.strip = line->strips,
	};
	struct ip_coldpatch_result result = {0};
	const char *path = line->output;
	int failed = ip_coldpatch(path, &options, &result);

	if (failed)
		ip_print(stderr, "%s: warning: %s (left as it was linked)\n", self,
			 ip_error_message());
	else if (line->gold_drops && result.status == IP_COLDPATCH_NO_PROBES && result.why_none)
		ip_print(stderr,
			 "%s: warning: %s: no probes: with --gc-sections gold drops the table of "
			 "clang's sites; link with -fuse-ld=lld or bfd, or set "
			 "IPROBE_PLACEMENT=instrument\n",
			 self, path);
	else if (verbose)
		ip_print(stderr, "%s: coldpatch %s: %s, %zu site%s of %zu function%s\n", self, path,
			 ip_coldpatch_status_name(result.status), result.sites,
			 ip_plural(result.sites), result.functions, ip_plural(result.functions));
	/* Removes the relocations, which only we asked for. We also strip: the linker was not asked
	 * to do it. */
	if ((failed || result.status == IP_COLDPATCH_NO_PROBES) &&
	    (!line->keep_relocs || line->strips) && ip_coldpatch_drop_relocs(path, line->strips))
		ip_print(stderr, "%s: warning: %s (%s stay in it)\n", self, ip_error_message(),
			 line->strips ? "symbols" : "relocations");
}

static int link_and_patch(const struct command_line *line, enum ip_placement placement,
			  const struct ip_selection *exclude, char **argv)
{
	struct stat before, after;
	bool existed = !stat(line->output, &before);
	int status = wait_for_compiler(argv);

	if (WIFSIGNALED(status)) {
		signal(WTERMSIG(status), SIG_DFL);
		raise(WTERMSIG(status));
		return 128 + WTERMSIG(status);
	}
	if (WEXITSTATUS(status))
		return WEXITSTATUS(status);
	/* the file may be unchanged: the run linked nothing after all (for example --version for
	 * the linker) */
	if (!stat(line->output, &after) && !(existed && same_file(&before, &after)) &&
	    is_linked_elf(line->output))
		coldpatch(line, placement, exclude);
	return 0;
}

/* The folder for <iprobe/probe.h>; nothing else is in it. It comes behind all folders that the user
 * has. It is also given if a source is only preprocessed: caches and feature tests do that. Returns
 * NULL: not installed. */
static char *headers(void)
{
	char *folder = install_path("../include", IP_HEADERS_FROM_BIN, "iprobe/probe.h", R_OK);

	if (folder)
		folder[strlen(folder) - strlen("/iprobe/probe.h")] = '\0';
	return folder;
}

/* Options for every link. */
static const char *const any_link[] = {"-Wl,--build-id=sha1", NULL};

static size_t append(char **all, size_t n, const char *const *flags)
{
	while (*flags)
		all[n++] = (char *)*flags++;
	return n;
}

/* The command: the real compiler's words | our flags | the user's arguments as they came | our
 * objects */
static char **compose(char **real, const struct command_line *line,
		      const struct placement_flags *flags, bool clang, int argc, char **argv)
{
	char **all = calloc(countargv(real) + argc + flags->n + LINK_PARTS_MAX + 6, sizeof(*all));
	const char *parts[LINK_PARTS_MAX];
	size_t n, nparts = link_parts(line, clang, parts);
	char *found;

	if (!all)
		return NULL;
	n = append(all, 0, (const char *const *)real);
	if (line->preprocesses && (found = headers())) {
		all[n++] = (char *)"-idirafter";
		all[n++] = found;
	}
	for (size_t i = 0; i < flags->n; i++)
		all[n++] = flags->flags[i];
	if (line->links && !line->hands_off && !line->build_id)
		n = append(all, n, any_link);
	for (int i = 1; i < argc; i++) {
		bool strips = line->strips && line->links && !line->hands_off &&
			      strncmp(argv[i - 1], "-X", 2);

		/* the linker must not strip: ColdPatch needs the names of functions */
		all[n] = strips ? command_line_without_strip(argv[i]) : argv[i];
		n += all[n] != NULL;
	}
	if (flags->header) {
		all[n++] = (char *)"-include";
		all[n++] = (char *)flags->header;
	}
	for (size_t i = 0; i < nparts; i++)
		all[n++] = (char *)parts[i];
	return all;
}

int main(int argc, char **argv)
{
	const char *base = argc && argv[0] ? strrchr(argv[0], '/') : NULL;
	const char *loud = getenv("IPROBE_VERBOSE");
	struct placement_flags flags = {0};
	enum ip_placement placement;
	struct ip_selection *exclude;
	struct command_line line;
	char **real, **all;
	bool cxx, clang, sibling_calls;

	self = base ? base + 1 : argc && argv[0] ? argv[0] : "iprobe-cc";
	cxx = strstr(self, "++");
	verbose = loud && *loud && strcmp(loud, "0");
	real = real_compiler_find(cxx);
	if (!real) {
		say(ip_error_message());
		return NOT_FOUND;
	}
	if (command_line_parse(argc, argv, &line))
		return say(ip_error_message());
	if (line.x32 && (line.compiles || line.links) && !line.hands_off)
		return say("-mx32: x32 code cannot be probed; use -m32 or -m64, or the compiler "
			   "itself");
	if (cold_exclude_parse(getenv(ENV_EXCLUDE), &exclude)) {
		ip_error_prefix(ENV_EXCLUDE);
		return say(ip_error_message());
	}
	clang = real_compiler_is_clang(real);
	line.hands_off |= real_compiler_is_cross(real);
	if (placement_choose(&line, clang, &placement) || placement_sibling_calls(&sibling_calls))
		return say(ip_error_message());
	/* a compiler may run cc again, which is us: the flags are already there */
	if (getenv(ENV_ACTIVE))
		line.hands_off = true;
	if (line.profiles && placement == IP_PLACEMENT_FENTRY && !line.hands_off &&
	    (line.compiles || line.links)) {
		say("warning: -pg takes the place of iprobe's sites; for both, set "
		    "IPROBE_PLACEMENT=instrument");
		line.hands_off = true;
	}
	if (!line.hands_off &&
	    placement_flags(placement, &line, real, clang, sibling_calls, &flags))
		return say(ip_error_message());
	all = compose(real, &line, &flags, clang, argc, argv);
	if (!all)
		return say("out of memory");
	if (!line.links || line.hands_off || line.prints_only)
		return run_compiler(all);
	return link_and_patch(&line, placement, exclude, all);
}
