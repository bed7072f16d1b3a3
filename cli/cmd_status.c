/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe status.
 */
#include <ctype.h>
#include <dirent.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/args/each_process.h"
#include "cli/args/processes.h"
#include "cli/args/suggest.h"
#include "cli/cli.h"
#include "cli/record/via_daemon.h"
#include "collector/rates.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"
#include "common/units.h"
#include "hotpatcher/inject/text_padding.h"
#include "hotpatcher/patch/restore.h"
#include "hotpatcher/process/anchor.h"
#include "hotpatcher/process/probe_list_search.h"

static const char help[] =
	"usage: iprobe status [--list FILE] [--json] [PID...]\n\n"
	"Compares every byte of every executable segment of the process with "
	"the files on disk and tells which\n"
	"sites are live, and how fast what is recorded comes in. Without PID: "
	"all processes that have iprobe's runtime.\n\n" CLI_PROCESS_HELP
	"      --list FILE  the probe list of a stripped module, or a directory of such lists\n"
	"      --json       one object (without PID: an array of them)\n";

#define RATES_NS 250000000ull

static void show_module(struct ip_json *j, const struct ip_module *module,
			const struct ip_module_state *state)
{
	if (j) {
		ip_json_object(j, NULL);
		ip_json_string(j, "path", module->path);
		ip_json_uint(j, "probes", module->list ? module->list->header->nprobes : 0);
		ip_json_uint(j, "patched", state->patched);
		ip_json_uint(j, "foreign", state->foreign);
		ip_json_bool(j, "text_matches_file", state->text_matches_file);
		ip_json_end_object(j);
		return;
	}
	ip_print(stdout, "  %-9s %8u probe%-1s %8zu live  %s",
		 state->text_matches_file ? "as on disk" : "changed",
		 module->list ? module->list->header->nprobes : 0,
		 ip_plural(module->list ? module->list->header->nprobes : 0), state->patched,
		 module->path);
	if (state->foreign)
		ip_print(stdout, "  (%zu foreign, first at %#lx)", state->foreign,
			 state->first_foreign);
	ip_print(stdout, "\n");
}

static void show_rates(struct ip_json *j, const struct ip_rates *rates)
{
	char events[32], bytes[16], lost[32];

	if (j) {
		ip_json_object(j, "session");
		ip_json_int(j, "iprobe", rates->iprobe);
		ip_json_uint(j, "interval_ns", rates->interval_ns);
		ip_json_uint(j, "events_per_second", rates->events);
		ip_json_uint(j, "bytes_per_second", rates->bytes);
		ip_json_uint(j, "lost_per_second", rates->lost);
		ip_json_end_object(j);
		return;
	}
	ip_print(stdout, "  recorded by iprobe pid %d: %s events/s, %s/s, ", rates->iprobe,
		 ip_format_count(rates->events, events), ip_format_size(rates->bytes, bytes));
	if (rates->lost)
		ip_print(stdout, "%s LOST a second\n", ip_format_count(rates->lost, lost));
	else
		ip_print(stdout, "none lost\n");
}

/* Shows one process. With j: as an object. */
static int show(struct ip_json *j, pid_t pid)
{
	struct ip_module_state *states;
	struct ip_modules modules;
	struct ip_target *target;
	struct ip_rates rates;
	uint64_t left_behind;
	size_t patched = 0;
	int ret = 0;

	if (ip_target_open(pid, false, &target) < 0)
		return -1;
	if (ip_modules_load(target, &modules) < 0) {
		ip_target_close(target);
		return -1;
	}
	states = calloc(modules.n + 1, sizeof(*states));
	for (size_t i = 0; states && i < modules.n && ret == 0; i++)
		if (modules.items[i].elf) {
			ret = ip_module_inspect(target, &modules.items[i], &states[i]);
			patched += states[i].patched;
		}
	if (!states)
		ret = ip_error("out of memory");
	if (ret == 0 && j) {
		ip_json_object(j, NULL);
		ip_json_int(j, "pid", pid);
		ip_json_bool(j, "runtime", target->has_runtime);
		ip_json_uint(j, "patched", patched);
	} else if (ret == 0) {
		ip_print(stdout, "pid %d: %zu site%s live%s\n", pid, patched, ip_plural(patched),
			 target->has_runtime ? "" : " (no runtime yet)");
	}
	if (ret == 0 && patched && ip_rates_look(target, RATES_NS, &rates))
		show_rates(j, &rates);
	else if (ret == 0 && patched && !j)
		ip_print(stdout,
			 "  no iprobe records it any more: iprobe detach %d puts the sites back, "
			 "iprobe attach --resume %d goes on\n",
			 pid, pid);
	if (ret == 0 && (left_behind = ip_text_padding_left_behind(target)))
		ip_print(stderr,
			 "iprobe: pid %d: code of an iprobe that was killed lies unused at %#lx: "
			 "iprobe detach %d takes it away\n",
			 pid, left_behind, pid);
	if (ret == 0 && j)
		ip_json_array(j, "modules");
	for (size_t i = 0; ret == 0 && i < modules.n; i++) {
		if (modules.items[i].elf)
			show_module(j, &modules.items[i], &states[i]);
		else
			ip_print(stderr, "iprobe: pid %d: %s\n", pid, modules.items[i].problem);
	}
	if (ret == 0 && j) {
		ip_json_end_array(j);
		ip_json_end_object(j);
	}
	free(states);
	ip_modules_clear(&modules);
	ip_target_close(target);
	return ret;
}

static int show_all(bool json)
{
	_cleanup_closedir_ DIR *dir = opendir("/proc");
	struct dirent *entry;
	struct ip_json j;
	unsigned found = 0;

	ip_json_init(&j, stdout);
	if (json)
		ip_json_array(&j, NULL);
	while (dir && (entry = readdir(dir))) {
		pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;

		if (!pid || !ip_proc_has_runtime(pid))
			continue;
		found++;
		/* a process that has just ended, or that belongs to another user, does not hide
		 * the others */
		if (show(json ? &j : NULL, pid) < 0)
			cli_fail();
	}
	if (json) {
		ip_json_end_array(&j);
	} else if (!found) {
		ip_print(stdout, "no process that we may look at has iprobe's runtime\n");
	}
	return 0;
}

static const char letters[] = ":p:h";
static const struct option long_options[] = {{"list", required_argument, NULL, 'l'},
					     {"json", no_argument, NULL, 'j'},
					     CLI_PROCESS_OPTIONS,
					     {"help", no_argument, NULL, 'h'},
					     {0}};

struct arguments {
	int argc;
	char **argv;
	bool json;
};

static int status_of(void *context, const struct ip_service_process *process)
{
	const struct arguments *a = context;
	const pid_t pid = process->pid;
	struct ip_json j;
	int code = cli_via_daemon_try(IP_REQUEST_STATUS, pid, a->argc, a->argv, letters,
				      long_options, NULL);

	if (code >= 0)
		return code;
	ip_json_init(&j, stdout);
	return show(a->json ? &j : NULL, pid) < 0 ? cli_fail() : 0;
}

int cmd_status(int argc, char **argv)
{
	struct arguments a = {.argc = argc, .argv = argv};
	int option, code;

	opterr = 0;
	while ((option = getopt_long(argc, argv, letters, long_options, NULL)) >= 0) {
		if (option == 'l') {
			if (ip_probe_list_search_add(optarg) < 0)
				return cli_fail();
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
	if (!cli_any_process(argc, optind))
		return show_all(a.json);
	return cli_serve_processes(argc, argv, a.json, status_of, &a);
}
