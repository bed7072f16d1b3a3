/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"

static const char help[] =
	"usage: iprobe run [OPTIONS] [--] CMD [ARGS...]\n\n"
	"Runs the command and records it from its first instruction, constructors included. Exits "
	"with the command's\n"
	"code (128 + N where signal N ended it), or 1 where it could not be run or recorded.\n\n"
	"  -f, --functions SEL   globs, comma-separated; !GLOB takes away; file:GLOB, lib:GLOB; "
	"@NAME from\n"
	"                        probes.d; -f @FILE reads them (default: all probes)\n"
	"  -o, --output DIR      trace directory (default iprobe.data; one that exists is kept as "
	"DIR.old)\n"
	"      --duration T      record for T only (200ms, 10s, 2m); the command goes on\n"
	"      --memory SIZE     ring memory (default 64M)\n"
	"      --time WORD       precise (default), or coarse: a third of the cost, true to 10 to "
	"80 us (busy machine: ms)\n"
	"      --compress        compress the trace while it is recorded (iprobe trim makes a copy "
	"that other readers open)\n"
	"      --clock WORD      tsc, monotonic (clock_gettime, which costs more), or auto "
	"(default): the one where the other cannot be\n"
	"                        trusted\n"
	"      --max-size SIZE   stop recording when the trace is this large (default 1G or a "
	"tenth of the free space)\n"
	"      --rotate N        do not stop there: keep the newest, in N pieces (2 to 64) of "
	"which the oldest goes\n"
	"      --stream PLACE    a live log of the events as they happen, for iprobe last: FILE, "
	"HOST:PORT, device:PATH\n"
	"      --stream-interval T   write to it at least so often (default 10ms)\n"
	"      --max-stop T      no stop longer than T: several if need be (default 50ms)\n"
	"      --args            record the arguments of functions (placement fentry, with debug "
	"information) and of\n"
	"                        points\n"
	"      --args 'FUNC(EXPR, ...)'   these values of FUNC instead: "
	"r->uri.data:string(r->len), "
	"NAME=EXPR; repeatable\n"
	"      --retval          record what functions return; --retval 'FUNC(retval->status)'\n"
	"      --when EXPR       leave out calls for which EXPR is not true: len > 4096 && state "
	"== "
	"BUSY, or FUNC: EXPR; repeatable\n"
	"      --string-limit N  bytes of a string that are recorded (default 64, at most 1024)\n"
	"      --depth N         leave out calls with N or more recorded functions below them on "
	"the stack (at most 512)\n"
	"      --min-duration T  leave out calls shorter than T; callers of what is kept are kept\n"
	"      --sample N[:SEL]  one call in N of each function (of SEL's); repeatable\n"
	"      --start-on F[:N]  record nothing before function F is called (for the Nth time)\n"
	"      --stop-on F[:N]   end when function F is called (for the Nth time)\n"
	"      --within SEL      record what these functions call, and nothing else\n"
	"      --tid LIST        these threads only; --thread GLOB,... by name\n"
	"      --callsite        record where each call comes from\n"
	"      --overwrite       keep the newest events only, in the rings, until the end or "
	"iprobe snapshot\n"
	"      --follow-fork     record forked children too, in the same trace, until the last has "
	"ended\n"
	"      --follow-exec     what the command executes is recorded anyway, without a gap\n"
	"      --plt             calls into libraries, too: entries of functions that the PLT "
	"names\n"
	"                        (malloc@plt; -f malloc)\n"
	"      --payload P[:SEL] what the probes do, of SEL or of all others: log (default), count "
	"(calls only), hist\n"
	"                        (latency histograms), user:FILE (a shared object of yours: "
	"<iprobe/payload.h>); repeatable; where each\n"
	"                        has a SEL and there is no -f, these are live\n"
	"      --until COND      end when a function's latency passes a limit: p99>10ms/1s:SEL, "
	"its p99 in a second (p50,\n"
	"                        p90, p95, p99, p999, mean, max; calls>N/T:SEL); SEL has the "
	"payload "
	"hist (with --overwrite\n"
	"                        it is recorded as well); repeatable\n"
	"      --linger T        with --until: go on for T when it is met\n"
	"      --save-counts T   write what --payload counts and measures into the trace every T "
	"(default 1s)\n"
	"      --drop-hot[=PCT]  take the probes of a function away when they take PCT per cent "
	"(default 50) of its own time and 1 %\n"
	"                        of its thread's: its calls are counted from then on, where that "
	"is cheap enough\n"
	"      --kernel[=LIST]   events of the kernel as well: sched, syscalls, irq, faults, "
	"block, all "
	"(default: all but\n"
	"                        block); then iprobe wait says what functions waited for; with "
	"optional in it, a kernel\n"
	"                        that cannot tell them is told, and recording goes on without\n"
	"      --kernel-functions SEL   calls of functions of the kernel as well, by names or "
	"patterns ('vfs_*'), at most 200\n"
	"      --kernel-buffer SIZE   room for them in the kernel, for each CPU (default 4M)\n"
	"      --kernel-source WORD   where they come from: tracefs, perf, auto (default: the one "
	"that serves)\n"
	"      --list FILE       probe list or debug file of a stripped module, or a folder of "
	"such; repeatable\n"
	"      --fail-with N     exit with N where iprobe itself fails (default 1); else with "
	"the command's code\n"
	"      --json            the summary as one line of JSON on stdout, after the command's "
	"own output\n"
	"  -q, --quiet           no live line, no summary\n"
	"  -h, --help\n";

/* Whether a program of that name is found as execvp(3) finds it. */
static bool is_program(const char *name)
{
	_cleanup_free_ char *path = getenv("PATH") ? strdup(getenv("PATH")) : NULL;
	char *rest, *dir;

	if (strchr(name, '/'))
		return true; /* what is wrong with a path is told by who executes it */
	for (dir = path ? strtok_r(path, ":", &rest) : NULL; dir;
	     dir = strtok_r(NULL, ":", &rest)) {
		_cleanup_free_ char *file = NULL;

		if (asprintf(&file, "%s/%s", dir, name) < 0)
			file = NULL;
		if (file && ip_access(file, X_OK) == 0)
			return true;
	}
	return false;
}

/* Whether other tools have a command of that name, which starts a recording. */
static bool is_habit(const char *word)
{
	static const char *const words[] = {"record", "trace", "run", "start", "exec", "attach"};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strcmp(word, words[i]))
			return true;
	return false;
}

/* Says that iprobe has failed, and what became of the command. Returns the exit code. */
static int fail(const struct cli_record_options *options, const struct ip_session_summary *summary,
		const struct ip_command_end *command)
{
	_cleanup_free_ char *why = strdup(ip_error_message());

	if (!why)
		ip_error("out of memory");
	else if (!command->started)
		ip_error("%s; the command was not started", why);
	else if (!command->ended)
		ip_error("%s; the command was ended", why);
	else if (WIFSIGNALED(command->status))
		ip_error("%s; the command was ended by signal %d", why, WTERMSIG(command->status));
	else
		ip_error("%s; the command ran, and exited with %d", why,
			 WEXITSTATUS(command->status));
	cli_fail();
	cli_record_summary_of(options, summary, command, why ? why : ip_error_message());
	return options->fail_with ? options->fail_with : 1;
}

int cmd_run(int argc, char **argv)
{
	struct cli_record_options options;
	struct ip_session_summary summary = {0};
	struct ip_command_end command = {0};
	const char *runtime;
	int next, code;

	code = cli_record_parse(argc, argv, help, false, &options, &next);
	if (code >= 0)
		return code;
	if (next >= argc)
		return cli_usage(argv[0], "which command? CMD is missing");
	if (argv[next][strspn(argv[next], "0123456789")] == '\0' && ip_access(argv[next], F_OK) < 0)
		return cli_usage(argv[0],
				 "there is no command '%s': a process that runs already is "
				 "recorded by iprobe attach %s",
				 argv[next], argv[next]);
	if (next + 1 < argc && is_habit(argv[next]) && !is_program(argv[next]))
		return cli_usage(argv[0],
				 "there is no command '%s': iprobe run records what it starts: "
				 "iprobe run %s",
				 argv[next], argv[next + 1]);
	/* the live line would be mixed with the command's own output */
	options.session.on_progress = NULL;
	runtime = cli_runtime_path();
	if (!runtime ||
	    ip_session_run(argv + next, runtime, &options.session, &summary, &command) < 0)
		return fail(&options, &summary, &command);
	if (summary.kernel_failed) { /* a notice has told why */
		ip_error("not all events of the kernel could be recorded");
		return fail(&options, &summary, &command);
	}
	cli_record_summary_of(&options, &summary, &command, NULL);
	return cli_command_code(command.status);
}
