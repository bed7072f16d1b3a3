/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe doctor: tells what this kernel, user and target allow. It changes nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/args/operands.h"
#include "cli/args/suggest.h"
#include "cli/cli.h"
#include "cli/record/daemon_check.h"
#include "cli/record/via_daemon.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"
#include "common/units.h"
#include "hotpatcher/inject/area_renew.h"
#include "hotpatcher/inject/inject.h"
#include "hotpatcher/inject/runtime_wake.h"
#include "hotpatcher/patch/restore.h"
#include "hotpatcher/process/target.h"
#include "hotpatcher/ptrace/priority_guard.h"
#include "hotpatcher/ptrace/stops.h"
#include "hotpatcher/shm/area.h"
#include "kernel_trace/kernel_check.h"

static const char help[] =
	"usage: iprobe doctor [--json] [PID...]\n\n"
	"Checks what this kernel and user allow, and with PIDs whether these processes can be "
	"attached to.\n"
	"Nothing is changed. Exit code 0: all that is needed is there; 1: something is missing.\n\n"
	"  -p, --pid PID,...  the processes, in the place of operands\n"
	"      --json         the checks, as JSON; those of a process have its pid\n";

enum verdict { GOOD, NOTE, BAD };

struct examination {
	struct ip_json *json; /* NULL: as text */
	unsigned bad;
	pid_t pid; /* of the process that is examined; 0: the machine is */
};

static void tell(struct examination *e, enum verdict verdict, const char *check, const char *format,
		 ...) __attribute__((format(printf, 4, 5)));

static void tell(struct examination *e, enum verdict verdict, const char *check, const char *format,
		 ...)
{
	static const char *const words[] = {"ok", "note", "bad"};
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	e->bad += verdict == BAD;
	if (e->json) {
		ip_json_object(e->json, NULL);
		ip_json_string(e->json, "check", check);
		if (e->pid)
			ip_json_int(e->json, "pid", e->pid);
		ip_json_string(e->json, "verdict", words[verdict]);
		ip_json_string(e->json, "detail", text);
		ip_json_end_object(e->json);
	} else {
		ip_print(stdout, "%-5s %-18s %s\n", words[verdict], check, text);
	}
}

/* Returns the first line of a file; "" where there is none. */
static const char *first_line(const char *path, char *buffer, size_t size)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");

	buffer[0] = '\0';
	if (file && fgets(buffer, size, file))
		buffer[strcspn(buffer, "\n")] = '\0';
	return buffer;
}

/* Tries ptrace(2) on a child of this process: attach and stop. */
static int try_ptrace(void)
{
	pid_t child = fork();
	int status, error = 0;

	if (child == 0) {
		for (;;)
			pause();
	}
	if (child < 0)
		return errno;
	if (ptrace(PTRACE_SEIZE, child, 0, 0) < 0 || ptrace(PTRACE_INTERRUPT, child, 0, 0) < 0 ||
	    waitpid(child, &status, __WALL) < 0)
		error = errno;
	kill(child, SIGKILL);
	waitpid(child, &status, __WALL);
	return error;
}

/* Returns whether memory that was written can be made executable, as the runtime needs it.
 * SELinux (execmem) and prctl(PR_SET_MDWE) forbid it. */
static bool try_executable(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool can = page != MAP_FAILED && mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0;

	if (page != MAP_FAILED)
		munmap(page, 4096);
	return can;
}

/* Whether there are processes that this user, root, may not trace. The kernel asks the same for
 * this link of a process as for tracing it (ptrace(2), "Ptrace access mode checking"). */
static bool is_confined_root(void)
{
	char text[64];

	return readlink("/proc/1/ns/user", text, sizeof(text)) < 0 && errno != ENOENT;
}

static void examine_kernel_events(struct examination *e)
{
	struct ip_kernel_check can;

	if (ip_kernel_check(~0u, &can) < 0) {
		_cleanup_free_ char *why = strdup(ip_error_message());

		tell(e, NOTE, "kernel events", "%s (--kernel)%s", why ? why : "out of memory",
		     geteuid() && cli_daemon_listens()
			     ? "; iprobed gives those of their own processes to whom its policy "
			       "lists (kernel)"
			     : "");
		return;
	}
	if (can.no_tracefs && can.no_perf)
		tell(e, NOTE, "kernel events", "%s; by perf events: %s (--kernel)", can.no_tracefs,
		     can.no_perf);
	else if (can.no_tracefs)
		tell(e, NOTE, "kernel events",
		     "can be recorded (--kernel) by perf events; by tracefs not: %s",
		     can.no_tracefs);
	else if (can.no_perf)
		tell(e, GOOD, "kernel events",
		     "can be recorded (--kernel) by tracefs; by perf events not: %s", can.no_perf);
	else
		tell(e, GOOD, "kernel events",
		     "can be recorded (--kernel), by tracefs or by perf events");
	if (*can.missing)
		tell(e, NOTE, "kernel events", "this kernel cannot tell of %s", can.missing);
	ip_kernel_check_clear(&can);
}

static void examine_machine(struct examination *e)
{
	struct utsname u;
	struct rlimit r;
	const char *why;
	char line[256];
	int error, fd;
	const bool listens = geteuid() != 0 && cli_daemon_listens();

	uname(&u);
	if (strcmp(u.machine, "x86_64"))
		tell(e, BAD, "machine", "%s: this iprobe knows x86_64", u.machine);
	else
		tell(e, GOOD, "machine", "%s %s on %s", u.sysname, u.release, u.machine);
	if (geteuid() == 0 && is_confined_root())
		tell(e, NOTE, "user",
		     "root, but not of the whole machine (a container, a security module, or no "
		     "CAP_SYS_PTRACE): pid 1 is out of reach, and others may be: name them");
	else if (geteuid() == 0)
		tell(e, GOOD, "user", "root: any process of this machine");
	else
		tell(e, NOTE, "user", "uid %d: your own processes; other people's need root%s",
		     (int)geteuid(),
		     listens ? ", or iprobed, which is running: with a PID it is asked"
			     : ", or iprobed(8)");
	error = try_ptrace();
	if (error)
		tell(e, BAD, "ptrace",
		     "refused (%s): a seccomp filter or security module forbids it here",
		     strerror(error));
	else
		tell(e, GOOD, "ptrace", "a process can be stopped and released");
	if (*first_line("/proc/sys/kernel/yama/ptrace_scope", line, sizeof(line)) &&
	    strcmp(line, "0") && geteuid() != 0)
		tell(e, listens ? NOTE : BAD, "yama",
		     "ptrace_scope is %s: attach works only on own children (iprobe run), through "
		     "iprobed, or as root; 0 lifts it",
		     line);
	else
		tell(e, GOOD, "yama", "%s", *line ? "does not stand in the way" : "is not there");
	if (ip_priority_guard_may_lend())
		tell(e, GOOD, "priority",
		     "threads that are stopped or borrowed have real-time priority meanwhile");
	else
		tell(e, NOTE, "priority",
		     "none can be lent (CAP_SYS_NICE): on a busy machine stops and holds wait for "
		     "CPUs, tens of milliseconds");
	if (ip_target_may_write_text())
		tell(e, GOOD, "text writes", "/proc/PID/mem writes to read-only pages");
	else
		tell(e, BAD, "text writes",
		     "/proc/PID/mem refuses read-only pages (proc_mem.force_override on the kernel "
		     "command line)");
	if (try_executable())
		tell(e, GOOD, "executable memory", "can be made");
	else
		tell(e, NOTE, "executable memory",
		     "refused here (%s): the runtime needs it in targets, which may be under the "
		     "same policy (SELinux: execmem)",
		     strerror(errno));
	fd = memfd_create("iprobe-doctor", MFD_CLOEXEC);
	if (fd < 0)
		tell(e, BAD, "ring memory", "memfd_create: %s", strerror(errno));
	else
		tell(e, GOOD, "ring memory", "memfd works");
	if (fd >= 0)
		close(fd);
	if (ip_clock_trustworthy(&why))
		tell(e, GOOD, "clock", "invariant TSC; the kernel's clocksource is %s",
		     first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource",
				line, sizeof(line)));
	else
		tell(e, NOTE, "clock", "%s: times are taken by clock_gettime, which costs more",
		     why);
	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_max < 4096)
		tell(e, NOTE, "open files", "limit %lu: one file a thread is written (ulimit -n)",
		     (unsigned long)r.rlim_max);
	else
		tell(e, GOOD, "open files", "enough for a file a thread");
	examine_kernel_events(e);
	if (ip_kernel_functions_check() < 0)
		tell(e, NOTE, "kernel functions", "%s (--kernel-functions)", ip_error_message());
	else
		tell(e, GOOD, "kernel functions", "can be recorded (--kernel-functions)");
	if (cli_runtime_path())
		tell(e, GOOD, "runtime", "%s", cli_runtime_path());
	else
		tell(e, BAD, "runtime", "%s", ip_error_message());
}

static void examine_modules(struct examination *e, const struct ip_target *target,
			    const struct ip_modules *modules)
{
	size_t probes = 0, prepared = 0;

	for (size_t i = 0; i < modules->n; i++) {
		if (modules->items[i].problem)
			tell(e, NOTE, "module", "%s", modules->items[i].problem);
		if (ip_module_is_to_be_made(&modules->items[i]))
			tell(e, NOTE, "module",
			     "%s has no probes: iprobe-cc has compiled it, and another compiler "
			     "has linked it, as libtool may: run coldpatch on it, and start the "
			     "process anew",
			     modules->items[i].path);
		if (!modules->items[i].list)
			continue;
		prepared++;
		probes += modules->items[i].list->header->nprobes;
	}
	if (probes)
		tell(e, GOOD, "probes", "%zu in %zu of %zu module%s", probes, prepared, modules->n,
		     ip_plural(modules->n));
	else
		tell(e, BAD, "probes", "none: no module of pid %d was built with iprobe-cc",
		     target->pid);
}

/* Asks iprobed where this user may not trace the process. Returns whether that is all that can be
 * told. */
static bool examine_by_daemon(struct examination *e, pid_t pid)
{
	char said[1024];
	const int allowed = cli_daemon_check(pid, said, sizeof(said));

	if (allowed < 0)
		return false;
	if (allowed) {
		tell(e, GOOD, "process",
		     "pid %d may be traced through iprobed, which iprobe attach asks by itself",
		     pid);
		tell(e, GOOD, "status", "%s: iprobe status %d shows its modules", said, pid);
	} else {
		tell(e, BAD, "process", "%s", said);
	}
	return true;
}

static void examine_target(struct examination *e, pid_t pid)
{
	struct ip_modules modules;
	struct ip_target *target;
	struct ip_area *area;
	bool shares;
	long threads = ip_proc_status(pid, "Threads"), seccomp = ip_proc_status(pid, "Seccomp");
	char size[16];

	if (examine_by_daemon(e, pid))
		return;
	if (ip_stops_open(pid, &target) < 0) {
		tell(e, BAD, "process", "%s", ip_error_message());
		return;
	}
	tell(e, GOOD, "process", "pid %d, %ld thread%s, may be traced", pid, threads,
	     ip_plural(threads));
	if (seccomp > 0)
		tell(e, NOTE, "seccomp", "mode %ld: %s", seccomp,
		     target->has_runtime && !target->injected
			     ? "the runtime makes no system call but gettid and getpid, once a "
			       "thread"
			     : "suspended for the thread that is borrowed, while it is; the "
			       "runtime makes no system call");
	if (ip_modules_load(target, &modules) < 0) {
		tell(e, BAD, "modules", "%s", ip_error_message());
	} else {
		examine_modules(e, target, &modules);
		ip_modules_clear(&modules);
	}
	if (ip_borrow_check(pid) < 0)
		tell(e, ip_is_asleep(target) || !target->has_runtime ? BAD : NOTE, "shadow stack",
		     "%s", ip_error_message());
	if (ip_is_asleep(target)) {
		tell(e, GOOD, "runtime there",
		     "%s and asleep: iprobe attach borrows a thread to wake it",
		     target->injected ? "put there" : "linked in");
	} else if (!target->has_runtime && ip_inject_check(target, NULL) < 0) {
		tell(e, BAD, "runtime there", "%s", ip_error_message());
	} else if (!target->has_runtime) {
		tell(e, GOOD, "runtime there",
		     "not yet: iprobe attach borrows a thread to put it there");
	} else if (ip_area_renew_is_needed(target, &shares) && !shares) {
		if (ip_area_renew_check(target, false) < 0)
			tell(e, BAD, "runtime there", "%s", ip_error_message());
		else
			tell(e, GOOD, "runtime there",
			     "%s without ring memory: iprobe attach borrows a thread to make it",
			     target->anchor.pid ? "forked with it, and"
						: "as detach --remove left it,");
	} else if (ip_area_open(target, &area) < 0) {
		tell(e, BAD, "runtime there", "%s", ip_error_message());
	} else {
		tell(e, GOOD, "runtime there", "room for %s of ring memory",
		     ip_format_size(area->most - IP_AREA_DATA_OFFSET, size));
		if (ip_area_lock_session(area, pid) < 0)
			tell(e, NOTE, "session", "%s", ip_error_message());
		else
			tell(e, GOOD, "session", "none: free to attach");
		ip_area_close(area);
	}
	ip_target_close(target);
}

int cmd_doctor(int argc, char **argv)
{
	static const char letters[] = ":p:h";
	static const struct option long_options[] = {{"json", no_argument, NULL, 'j'},
						     CLI_OPTION_PID,
						     {"help", no_argument, NULL, 'h'},
						     {0}};
	struct examination e = {0};
	struct ip_json j;
	bool json = false;
	_cleanup_free_ int *pids = NULL;
	int option, code;
	size_t n;

	opterr = 0;
	while ((option = getopt_long(argc, argv, letters, long_options, NULL)) >= 0) {
		if (option == 'j') {
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
	code = cli_pids_or_none(argc, argv, &pids, &n);
	if (code >= 0)
		return code;
	if (json) {
		ip_json_init(&j, stdout);
		ip_json_object(&j, NULL);
		ip_json_array(&j, "checks");
		e.json = &j;
	}
	examine_machine(&e);
	for (size_t i = 0; i < n; i++) {
		e.pid = pids[i];
		if (!json && n > 1)
			ip_print(stdout, "\npid %d\n", pids[i]);
		examine_target(&e, pids[i]);
	}
	if (!n)
		tell(&e, NOTE, "process",
		     "none was named: iprobe doctor PID... says whether it can be attached to");
	if (json) {
		ip_json_end_array(&j);
		ip_json_uint(&j, "bad", e.bad);
		ip_json_end_object(&j);
	}
	if (e.bad) {
		ip_error("%u thing%s stand%s in the way: see the lines marked bad", e.bad,
			 e.bad == 1 ? "" : "s", e.bad == 1 ? "s" : "");
		return cli_fail();
	}
	return 0;
}
