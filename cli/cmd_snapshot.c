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
#include "cli/args/each_process.h"
#include "cli/args/processes.h"
#include "cli/args/suggest.h"
#include "cli/cli.h"
#include "cli/record/service_members.h"
#include "cli/record/via_daemon.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"
#include "common/trace/trace_members.h"
#include "common/units.h"
#include "trace_writer/member_dirs.h"

static const char help[] =
	"usage: iprobe snapshot [-o DIR] [--json] PID...\n\n"
	"Writes what the rings of a flight recorder (attach with its overwrite option) hold now, "
	"as "
	"a trace. The session goes on, and the process\n"
	"is not stopped.\n\n"
	"  -o, --output DIR      trace directory (default iprobe.snapshot; one that exists is kept "
	"as "
	"DIR.old)\n" CLI_PROCESS_HELP "      --json            what was written, as JSON\n"
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

static const char letters[] = ":o:p:h";
static const struct option long_options[] = {{"output", required_argument, NULL, 'o'},
					     {"json", no_argument, NULL, 'j'},
					     CLI_PROCESS_OPTIONS,
					     {"help", no_argument, NULL, 'h'},
					     {0}};

struct arguments {
	int argc;
	char **argv;
	const char *dir;
	bool json;
	/* of several processes: their directory. It is made before the snapshots are */
	struct ip_member_dirs *members;
};

static int snapshot_of(const struct arguments *a, pid_t pid, const char *dir)
{
	_cleanup_free_ char *path = NULL;
	struct ip_session_snapshot done;
	char events[32], overwritten[32], lost[32];
	int code = cli_via_daemon_snapshot(pid, a->argc, a->argv, letters, long_options, dir);

	if (code >= 0)
		return code;
	if (ip_session_ask_snapshot(pid, 0, dir, NULL, &done) < 0)
		return cli_fail();
	path = shown(dir);
	if (!path) {
		ip_error("out of memory");
		return cli_fail();
	}
	if (a->json) {
		print_json(pid, path, &done);
		return 0;
	}
	ip_print(stdout, "pid %d: %s event%s, %s before them overwritten, %s lost; trace in %s\n",
		 pid, ip_format_count(done.events, events), ip_plural(done.events),
		 ip_format_count(done.overwritten, overwritten),
		 done.lost ? ip_format_count(done.lost, lost) : "none", path);
	if (done.invalid)
		ip_print(stdout, "pid %d: it scribbled over its rings: %lu word%s no record%s\n",
			 pid, done.invalid, done.invalid == 1 ? " was" : "s were",
			 ip_plural(done.invalid));
	if (done.torn)
		ip_print(stdout,
			 "pid %d: %lu piece%s of 32 KiB overwritten while they were read, and "
			 "left out\n",
			 pid, done.torn, done.torn == 1 ? "" : "s");
	return 0;
}

static int snapshot_of_each(void *context, const struct ip_service_process *process)
{
	const struct arguments *a = context;
	char name[IP_TRACE_MEMBER_NAME];
	_cleanup_free_ char *dir = NULL;

	if (ip_trace_member_name(process->pid, process->comm, name, sizeof(name)) < 0 ||
	    asprintf(&dir, "%s/%s", a->dir, name) < 0)
		return cli_fail();
	return snapshot_of(a, process->pid, dir);
}

/* Announces the processes whose snapshots are to be made; returns their number, or -1. */
static int announce(struct arguments *a, const struct ip_service_choice *choice)
{
	_cleanup_free_ char *text = ip_service_choice_text(choice);
	struct ip_service_processes found;
	char name[IP_TRACE_MEMBER_NAME];
	int ret;

	if (!text)
		return ip_error("out of memory");
	if (ip_service_processes_find(choice, &found) < 0)
		return -1;
	ret = found.n ? ip_member_dirs_create(a->dir, text, &a->members) : 0;
	for (size_t i = 0; i < found.n && ret == 0; i++)
		ret = ip_member_dirs_add(a->members, found.items[i].pid, found.items[i].comm, name);
	ip_service_processes_clear(&found);
	return ret;
}

static int snapshot_of_all(struct arguments *a, const struct ip_service_choice *choice)
{
	int code = announce(a, choice) < 0
			   ? cli_fail()
			   : cli_each_process(choice, a->json, false, snapshot_of_each, a);

	/* those that have come to nothing are no members */
	ip_member_dirs_keep_made(a->members);
	ip_member_dirs_close(a->members);
	return code;
}

int cmd_snapshot(int argc, char **argv)
{
	struct arguments a = {.argc = argc, .argv = argv, .dir = "iprobe.snapshot"};
	struct cli_service_members members;
	struct ip_service_choice choice;
	int option, code;

	opterr = 0;
	while ((option = getopt_long(argc, argv, letters, long_options, NULL)) >= 0) {
		if (option == 'o') {
			if (!*optarg)
				return cli_usage(argv[0], "-o needs the name of a directory");
			a.dir = optarg;
		} else if (option == 'j') {
			a.json = true;
		} else if ((code = cli_process_option(argv[0], option, optarg)) != -2) {
			if (code >= 0)
				return code;
		} else if (option == 'h') {
			ip_print_lines(stdout, help);
			return 0;
		} else {
			return cli_bad_option(argv[0], argc, argv, letters, long_options);
		}
	}
	code = cli_process_choice(argc, argv, optind, &choice);
	if (code >= 0)
		return code;
	if (!cli_is_one_process(&choice))
		return snapshot_of_all(&a, &choice);
	code = snapshot_of(&a, choice.pids[0], a.dir);
	if (!code) {
		cli_service_members_look(choice.pids[0], &members);
		cli_service_members_tell(&members, choice.pids[0],
					 members.n == 1 ? "is not in it" : "are not in it");
	}
	return code;
}
