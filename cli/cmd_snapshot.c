/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe snapshot.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "access/delegation.h"
#include "cli/args/operands.h"
#include "cli/args/suggest.h"
#include "cli/cli.h"
#include "cli/record/via_daemon.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"
#include "common/units.h"

static const char help[] = "usage: iprobe snapshot [-o DIR] [--json] PID\n\n"
			   "Writes what the rings of a flight recorder (attach with its overwrite "
			   "option) hold now, as a trace. The session goes on, and the process\n"
			   "is not stopped.\n\n"
			   "  -o, --output DIR  trace directory (default iprobe.snapshot; one that "
			   "exists is kept as DIR.old)\n"
			   "  -p, --pid PID     the process, in the place of the operand\n"
			   "      --json        what was written, as JSON\n"
			   "  -h, --help\n";

/* Returns the path to show. A worker of iprobed is in the directory that the caller has opened,
 * and has only a name; people want the path. */
static char *shown(const char *dir)
{
	_cleanup_free_ char *here = ip_delegation_is_lent() ? getcwd(NULL, 0) : NULL;
	char *path;

	/* a directory that is not below this process's root directory has no path here */
	if (!here || *here != '/')
		return strdup(dir);
	return asprintf(&path, "%s/%s", strcmp(here, "/") ? here : "", dir) < 0 ? NULL : path;
}

static void print_json(pid_t pid, const char *dir, const struct ip_session_snapshot *s)
{
	struct ip_json j;

	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	ip_json_int(&j, "pid", pid);
	ip_json_uint(&j, "events", s->events);
	ip_json_uint(&j, "lost", s->lost);
	ip_json_uint(&j, "invalid", s->invalid);
	ip_json_uint(&j, "overwritten", s->overwritten);
	ip_json_uint(&j, "torn", s->torn);
	ip_json_string(&j, "dir", dir);
	ip_json_end_object(&j);
}

int cmd_snapshot(int argc, char **argv)
{
	static const char letters[] = ":o:p:h";
	static const struct option long_options[] = {{"output", required_argument, NULL, 'o'},
						     {"json", no_argument, NULL, 'j'},
						     CLI_OPTION_PID,
						     {"help", no_argument, NULL, 'h'},
						     {0}};
	const char *dir = "iprobe.snapshot";
	_cleanup_free_ char *path = NULL;
	struct ip_session_snapshot done;
	char events[32], overwritten[32], lost[32];
	bool json = false;
	int option, pid, code;

	opterr = 0;
	while ((option = getopt_long(argc, argv, letters, long_options, NULL)) >= 0) {
		if (option == 'o') {
			if (!*optarg)
				return cli_usage(argv[0], "-o needs the name of a directory");
			dir = optarg;
		} else if (option == 'j') {
			json = true;
		} else if (option == 'p') {
			if (cli_pid_option(argv[0], optarg))
				return 2;
		} else if (option == 'h') {
			ip_print_lines(stdout, help);
			return 0;
		} else {
			return cli_bad_option(argv[0], argc, argv, letters, long_options);
		}
	}
	code = cli_one_pid(argc, argv, &pid);
	if (code >= 0)
		return code;
	code = cli_via_daemon_try(IP_REQUEST_SNAPSHOT, pid, argc, argv, letters, long_options,
				  NULL);
	if (code >= 0)
		return code;
	if (ip_session_ask_snapshot(pid, dir, &done) < 0)
		return cli_fail();
	path = shown(dir);
	if (!path) {
		ip_error("out of memory");
		return cli_fail();
	}
	if (json) {
		print_json(pid, path, &done);
		return 0;
	}
	ip_print(stdout, "pid %d: %s events, %s before them overwritten, %s lost; trace in %s\n",
		 pid, ip_format_count(done.events, events),
		 ip_format_count(done.overwritten, overwritten),
		 done.lost ? ip_format_count(done.lost, lost) : "none", path);
	if (done.invalid)
		ip_print(stdout, "pid %d: it scribbled over its rings: %lu words were no records\n",
			 pid, done.invalid);
	if (done.torn)
		ip_print(stdout,
			 "pid %d: %lu pieces of 32 KiB were overwritten while they were read, and "
			 "left out\n",
			 pid, done.torn);
	return 0;
}
