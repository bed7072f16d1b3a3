/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe detach.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/args/each_process.h"
#include "cli/args/processes.h"
#include "cli/args/suggest.h"
#include "cli/cli.h"
#include "cli/record/attach.h"
#include "cli/record/service_members.h"
#include "cli/record/stops.h"
#include "cli/record/via_daemon.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"
#include "common/units.h"
#include "hotpatcher/inject/borrow_search.h"
#include "hotpatcher/inject/text_padding.h"
#include "hotpatcher/patch/remap.h"
#include "hotpatcher/patch/restore.h"
#include "hotpatcher/plan/plan.h"
#include "hotpatcher/plan/window/area_window.h"
#include "hotpatcher/process/probe_list_search.h"
#include "hotpatcher/ptrace/priority_guard.h"
#include "hotpatcher/ptrace/stop.h"
#include "hotpatcher/shm/area.h"
#include "kernel_trace/kernel_check.h"
#include "session/control/control_socket.h"
#include "session/follow/follow_fork.h"
#include "session/pmu_leftovers.h"
#include "session/remove.h"

#define NAP_NS 10000000ull
#define LOCKS  65 /* of 1 s: longer than a session tries to stop threads */
#define LOOKS  10 /* 200 ms apart */
#define WAITS  50 /* of 20 ms: the processes of a killed iprobe are gone by then */

static const char help[] =
	"usage: iprobe detach [--no-stop] [--left-over] [--remove] [--list FILE]\n"
	"                     [--json] PID...\n\n"
	"Puts back every site that any iprobe left live in the process, whoever did it and however "
	"it ended.\n"
	"A session that is still recording ends; its trace is complete then, or a line tells which "
	"iprobe still writes it.\n"
	"A thread in uninterruptible sleep is waited for, for up to a minute; all others run "
	"meanwhile.\n\n" CLI_PROCESS_HELP
	"      --no-stop    switch pages instead of stopping the threads\n"
	"      --left-over  do nothing where an iprobe is alive that has the session\n"
	"      --remove     also take away the memory that iprobe has mapped in the process\n"
	"      --list FILE  the probe list of a stripped module, or a directory of such lists\n"
	"      --json       what was put back, as JSON\n";

/* Returns whether the module may have live sites. Where its file is missing, the address at
 * which it is mapped is used. */
static bool may_be_live(const struct ip_area *area, const struct ip_module *module)
{
	return ip_area_has_stubs(area, module->start) ||
	       (module->elf && ip_area_has_stubs(area, module->load_bias));
}

/* Takes away what an iprobe left that was killed while it injected the runtime, where no other
 * iprobe is injecting now. A thread that the killed iprobe had borrowed goes back by itself
 * after a tenth of a second (inject.h, step 5). Each look at the thread breaks that wait off,
 * and it begins anew. So this function does not look often. Returns 0, or -1 with an error. */
static int tidy(struct ip_target *target)
{
	const struct timespec nap = {.tv_nsec = 200000000};
	_cleanup_close_ int fd = -1;
	unsigned tidied = 0;

	if (!ip_text_padding_left_behind(target))
		return 0;
	fd = ip_borrow_lock(target->pid);
	if (fd < 0)
		return 0;
	for (int i = 0; i < LOOKS && ip_target_alive(target) && ip_text_padding_left_behind(target);
	     i++) {
		if (i)
			nanosleep(&nap, NULL);
		tidied += ip_text_padding_tidy(target);
	}
	if (tidied)
		ip_print(stderr,
			 "iprobe: pid %d: took away code that an iprobe which was killed had left "
			 "unused\n",
			 target->pid);
	if (ip_target_alive(target) && ip_text_padding_left_behind(target))
		return ip_error("pid %d: a thread is still in code at %#lx that an iprobe which "
				"was killed has left: detach again when it has gone on",
				target->pid, ip_text_padding_left_behind(target));
	return 0;
}

/* Returns whether there is a session whose iprobe is alive. */
static bool is_held(const struct ip_area *area)
{
	const struct timespec nap = {.tv_nsec = 20000000};
	int i;

	for (i = 0; i < WAITS && ip_area_has_session(area); i++)
		nanosleep(&nap, NULL);
	return i == WAITS;
}

/* Another session may hold the lock for as long as it waits for a thread. */
static int lock_patch(struct ip_area *area, struct ip_target *target)
{
	int ret = -1;

	for (int i = 0; i < LOCKS && ret < 0 && ip_target_alive(target); i++)
		ret = ip_area_lock_patch(area, target->pid);
	return ret;
}

/* Returns the limit of a stop: the default, or more where the number of threads needs more. */
static uint64_t max_stop_ns(const struct ip_target *target)
{
	const long threads = ip_proc_status(target->pid, "Threads");
	const uint64_t needed = threads > 0 ? 2 * ip_patch_expect_threads_ns(threads) : 0;

	return needed > IP_DEFAULT_MAX_STOP ? needed : IP_DEFAULT_MAX_STOP;
}

/* Restores the sites. Tries again where threads cannot be stopped. */
static int restore(struct ip_target *target, const struct ip_modules *modules, bool no_stop,
		   struct ip_patch_result *result)
{
	struct ip_patch_result *all = calloc(1, sizeof(*all));
	const uint64_t began = ip_now_ns();
	bool said = false;
	int ret;

	if (!all)
		return ip_error("out of memory");
	for (;;) {
		ip_stop_let_go(target);
		ret = no_stop ? ip_remap_restore(target, modules, result)
			      : ip_restore(target, modules, max_stop_ns(target), result);
		if (ret < 0)
			ip_patch_result_append(all, &result->stops);
		ip_patch_result_append(all, &ip_stops_of(target)->log);
		ip_stop_log_clear(&ip_stops_of(target)->log);
		if (ret == 0 || !result->transient || !ip_stop_go_on(target, began, &said))
			break;
		ip_stop_rest(target, ip_stops_of(target)->asleep ? NAP_NS / 10 : NAP_NS, NULL);
	}
	ip_patch_result_append(result, &all->stops);
	free(all);
	if (ret < 0) {
		_cleanup_free_ char *why = strdup(ip_error_message());

		return ip_stop_tell_in_vain(&result->stops, why ? why : "out of memory");
	}
	return ret;
}

/* Tells the session, which may notice only later that it has ended, up to when it has recorded. */
static void tell_idle(struct ip_area *area)
{
	struct ip_area_header *h = area->header;
	struct ip_clock_reading now;

	ip_clock_read(&now);
	__atomic_store_n(&h->idle_ns, now.raw_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&h->idle, h->session, __ATOMIC_RELEASE);
}

/* Restores the sites and checks them. *ret_writer: the iprobe whose session ends, if it is still
 * writing its trace; else 0. Returns 0, or -1 with an error. */
static int detach(pid_t pid, bool no_stop, bool left_over, struct ip_patch_result *result,
		  pid_t *ret_writer)
{
	struct ip_modules modules = {0};
	struct ip_remap_hold held;
	struct ip_target *target;
	struct ip_area *area = NULL;
	bool ends = false;
	int ret = -1;

	*ret_writer = 0;
	ip_priority_guard_start();
	if (ip_stops_open(pid, &target) < 0)
		return -1;
	/* without the runtime no site can be live; without the runtime's memory the text can
	 * still be put back */
	if (target->has_runtime && ip_area_open(target, &area) == 0) {
		if (left_over && is_held(area)) {
			ret = 0;
			goto out;
		}
		if (lock_patch(area, target) < 0)
			goto out;
		/* a forked child shares the area with its parent: only the target's own session
		 * ends */
		ends = area->header->session_pid == (uint32_t)pid;
		if (ends) {
			ip_area_set_ended(area);
			ip_control_wake(area, pid);
		}
	}
	if (ip_modules_load(target, &modules) < 0)
		goto out;
	ret = restore(target, &modules, no_stop, result);
	if (ret == 0 && ends)
		tell_idle(area);
	/* an iprobe that was killed while it remapped text has left a second mapping of the text */
	if (ret == 0 && ip_remap_clean(target, &held) < 0)
		ip_print(stderr, "iprobe: %s; a copy of text stays mapped, which nobody uses\n",
			 ip_error_message());
	/* an fperf that was killed has left its counters */
	if (ret == 0 && area && area->header->session_pid == (uint32_t)pid &&
	    ip_area_lock_session(area, pid) == 0 && ip_pmu_clean(target, area) < 0)
		ip_print(stderr, "iprobe: %s\n", ip_error_message());
	/* Children that a killed iprobe has followed still record. An iprobe that is alive
	 * restores its children itself. */
	if (ret == 0 && area && area->header->session_pid == (uint32_t)pid &&
	    area->header->follow && ip_area_lock_session(area, pid) == 0)
		ret = ip_follow_fork_restore_dead(area, target, IP_DEFAULT_MAX_STOP);
	/* what the session of a killed iprobe needed; one that is alive gives it back itself */
	if (ret == 0 && area && area->header->session_pid == (uint32_t)pid &&
	    ip_area_try_session(area, pid) == 0) {
		ip_area_window_give(target, area, !no_stop);
		ip_patch_result_append(result, &ip_stops_of(target)->log);
	}
	for (size_t i = 0; ret == 0 && i < modules.n; i++) {
		struct ip_module_state state;

		if (!modules.items[i].list && area && may_be_live(area, &modules.items[i]))
			ret = ip_error(
				"pid %d: %s may hold live sites, but: %s", pid,
				modules.items[i].path,
				modules.items[i].problem
					? modules.items[i].problem
					: "its probe list is not found: name it with --list");
		if (!modules.items[i].list)
			continue;
		if (ip_module_inspect(target, &modules.items[i], &state) < 0)
			ret = -1;
		else if (state.foreign && state.foreign == state.probed && !state.patched)
			ip_print(stderr,
				 "iprobe: pid %d: %s: a uprobe or a debugger's breakpoint in %zu "
				 "idle site%s, the first at %#lx: left alone\n",
				 pid, modules.items[i].path, state.foreign,
				 ip_plural(state.foreign), state.first_foreign);
		else if (state.foreign)
			ret = ip_error("pid %d: %s: %zu place%s bytes that are neither the "
				       "file's nor iprobe's, the first at %#lx: left alone (a "
				       "debugger's breakpoint, another patcher?)",
				       pid, modules.items[i].path, state.foreign,
				       state.foreign == 1 ? " holds" : "s hold",
				       state.first_foreign);
	}
	if (ret == 0)
		ret = tidy(target);
out:
	ip_modules_clear(&modules);
	ip_target_close(target);
	ip_priority_guard_stop();
	if (ret == 0 && ends) {
		ip_area_unlock_patch(area); /* it looks after the sites itself, too */
		*ret_writer = ip_area_await_written(area, IP_AREA_WRITTEN_NS);
	}
	ip_area_close(area);
	return ret;
}

void cli_detach_left(pid_t pid)
{
	struct ip_patch_result result = {0};
	pid_t writer;

	if (detach(pid, false, true, &result, &writer) < 0)
		cli_fail();
	free(result.inside);
}

static const char letters[] = ":p:h";
static const struct option long_options[] = {
	{"list", required_argument, NULL, 'l'}, {"json", no_argument, NULL, 'j'},
	{"no-stop", no_argument, NULL, 'n'},	{"left-over", no_argument, NULL, 'o'},
	{"remove", no_argument, NULL, 'r'},	CLI_PROCESS_OPTIONS,
	{"help", no_argument, NULL, 'h'},	{0}};

struct arguments {
	int argc;
	char **argv;
	bool json, no_stop, left_over, remove;
};

static void tell_removal(pid_t pid, const struct ip_remove_result *removal)
{
	char size[16];

	if (!removal->runtime)
		ip_print(stdout, "pid %d: it has no runtime of iprobe's\n", pid);
	else
		ip_print(stdout,
			 "pid %d: %s of address space given back; the runtime's own code and data "
			 "stay%s\n",
			 pid, ip_format_size(removal->bytes, size),
			 removal->loaded ? ", since the program has loaded them" : "");
}

static int detach_from(void *context, const struct ip_service_process *process)
{
	const struct arguments *a = context;
	const pid_t pid = process->pid;
	struct ip_patch_result result = {0};
	struct ip_remove_result removal = {0};
	struct cli_service_members members = {0};
	_cleanup_free_ char *why = NULL;
	pid_t writer;
	struct ip_json j;
	int code = cli_via_daemon_try(IP_REQUEST_DETACH, pid, a->argc, a->argv, letters,
				      long_options, NULL);

	if (code >= 0)
		return code;
	/* alone: see cli_serve_processes(). Of a session that has ended no iprobe is known */
	if (process->named && !process->started)
		cli_service_members_look(pid, &members);
	if (detach(pid, a->no_stop, a->left_over, &result, &writer) < 0)
		return cli_fail();
	ip_kernel_remove_left(); /* of an iprobe that was killed */
	free(result.inside);
	if (writer)
		ip_print(stderr,
			 "iprobe: pid %d: its iprobe (pid %d) is still writing what it has "
			 "recorded\n",
			 pid, writer);
	/* what was put back is told all the same, for programs that read it */
	if (a->remove && ip_session_remove(pid, !a->no_stop, &result, &removal) < 0) {
		why = strdup(ip_error_message());
		code = cli_fail();
		if (!a->json)
			return code;
	}
	cli_service_members_tell(&members, pid, members.n == 1 ? "goes on" : "go on");
	if (a->json) {
		ip_json_init(&j, stdout);
		ip_json_object(&j, NULL);
		ip_json_int(&j, "pid", pid);
		ip_json_uint(&j, "restored", result.sites);
		cli_json_stops(&j, &result.stops);
		ip_json_uint(&j, "failed_stops", ip_stop_log_failed(&result.stops));
		ip_json_bool(&j, "written", !writer);
		if (a->remove)
			ip_json_uint(&j, "removed_bytes", removal.bytes);
		if (code > 0)
			ip_json_string(&j, "error", why ? why : "out of memory");
		ip_json_end_object(&j);
	} else if (result.sites) {
		ip_print(stdout, "pid %d: %zu site%s put back on %zu page%s; %s for", pid,
			 result.sites, ip_plural(result.sites), result.pages,
			 ip_plural(result.pages), a->no_stop ? "one thread held" : "stopped");
		cli_print_stops(stdout, &result.stops);
		ip_print(stdout, "\n");
	} else {
		ip_print(stdout, "pid %d: nothing was live\n", pid);
	}
	if (a->remove && !a->json)
		tell_removal(pid, &removal);
	return code > 0 ? code : 0;
}

int cmd_detach(int argc, char **argv)
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
		} else if (option == 'n') {
			a.no_stop = true;
		} else if (option == 'o') {
			a.left_over = true;
		} else if (option == 'r') {
			a.remove = true;
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
	return cli_serve_processes(argc, argv, a.json, detach_from, &a);
}
