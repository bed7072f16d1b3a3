/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that carries out rules: files, signals, the loop. See rules.h.
 */
#include "iprobed/rules/rules.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/dir.h"
#include "common/error.h"
#include "common/file.h"
#include "common/now.h"
#include "iprobed/daemon_private.h"
#include "iprobed/rules/rules_private.h"
#include "iprobed/rules/store.h"

#define START_MS  5  /* while sessions wait for others to be live */
#define TURN_MS	  50 /* while something is being done */
#define REST_MS	  200
#define ENDING_NS 25000000000ull

void ip_rules_log(const struct ip_rules_state *state, const struct ip_rules_target *t,
		  const char *format, ...)
{
	char what[2048], who[512] = "", rule[128] = "rules";
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	if (state)
		snprintf(rule, sizeof(rule), "rule %s", state->rule->name);
	if (t && t->process.exe)
		snprintf(who, sizeof(who), " pid %d (%.400s):", t->process.pid, t->process.exe);
	else if (t)
		snprintf(who, sizeof(who), " pid %d:", t->process.pid);
	ip_iprobed_log(NULL, "%s:%s %s", rule, who, what);
}

void ip_rules_came_of(struct ip_rules_state *state, const struct ip_rules_target *t, bool recorded,
		      const char *format, ...)
{
	char what[2048];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	ip_rules_log(state, t, "%s", what);
	snprintf(state->outcome, sizeof(state->outcome), "pid %d: %.470s", t->process.pid, what);
	state->recorded = recorded;
}

static bool is_wanted(const struct ip_rules_options *o, const struct ip_rules_rule *rule)
{
	bool named = false;

	for (size_t i = 0; i < o->nonly; i++)
		named |= !strcmp(o->only[i], rule->name);
	return o->nonly ? named : rule->enabled;
}

static int add_state(struct ip_rules *e, const struct ip_rules_rule *rule)
{
	struct ip_rules_state *grown = reallocarray(e->states, e->nstates + 1, sizeof(*grown));

	if (!grown)
		return ip_error("out of memory");
	e->states = grown;
	e->states[e->nstates] = (struct ip_rules_state){.rule = rule};
	if (rule->at_most || rule->cooldown_ns)
		ip_rules_store_history(e->options->traces, rule, ip_now_ns(),
				       &e->states[e->nstates].services);
	e->nstates++;
	e->users |= rule->user.n != 0;
	e->cmdlines |= rule->cmdline.n != 0;
	e->services |= rule->service;
	return 0;
}

static void clear_states(struct ip_rules *e)
{
	for (size_t i = 0; i < e->nstates; i++) {
		ip_rules_services_clear(&e->states[i].services);
		free(e->states[i].begun);
	}
	free(ip_steal_ptr(e->states));
	e->nstates = 0;
	e->users = e->cmdlines = e->services = false;
}

/* Checks all files that define anything, since rules are made of selections and profiles, too. A
 * user who may write them, or replace them, decides what is recorded of all users' processes. */
static int check_files(const struct ip_probes_d *probes)
{
	int done = 0;

	for (size_t i = 0; i < probes->nrules && done == 0; i++)
		done = ip_file_check_way(probes->rules[i].file);
	for (size_t i = 0; i < probes->nselections && done == 0; i++)
		done = ip_file_check_way(probes->selections[i].place.file);
	for (size_t i = 0; i < probes->nprofiles && done == 0; i++)
		done = ip_file_check_way(probes->profiles[i].place.file);
	return done < 0 ? ip_error("%s; rules are made of it", ip_error_message()) : 0;
}

/* Reads the files. All errors in them are found here. Returns 0, or -1 with an error. */
static int read_files(const struct ip_rules *e, struct ip_probes_d *ret)
{
	bool any = false;
	int done = ip_probes_d_load(e->options->probes_d, ret);

	if (done < 0)
		return -1;
	for (size_t i = 0; i < e->options->nonly && done == 0; i++)
		if (!ip_probes_d_rule(ret, e->options->only[i]))
			done = ip_error("no rule '%s' in %s", e->options->only[i], ret->dir);
	for (size_t i = 0; i < ret->nrules; i++)
		any |= is_wanted(e->options, &ret->rules[i]);
	if (done == 0 && any)
		done = check_files(ret) < 0 ? -1 : ip_rules_store_open(e->options->traces);
	if (done < 0)
		ip_probes_d_clear(ret);
	return done;
}

/* Takes over the rules of files that have been read. */
static int take_over(struct ip_rules *e)
{
	for (size_t i = 0; i < e->probes.nrules; i++)
		if (is_wanted(e->options, &e->probes.rules[i]) &&
		    add_state(e, &e->probes.rules[i]) < 0)
			return -1;
	return 0;
}

/* The lock and the socket exist only while there are rules to carry out. */
static int get_ready(struct ip_rules *e)
{
	if (e->nstates && e->lock < 0 && ip_rules_left_over(e) < 0)
		return -1;
	for (size_t i = 0; i < e->nstates; i++)
		ip_rules_store_remove_recorders(e->options->traces, e->states[i].rule);
	if (e->nstates && e->listening < 0)
		return ip_rules_listen(e);
	return 0;
}

static void close_down(struct ip_rules *e)
{
	ip_rules_listen_no_more(e);
	ip_rules_reader_close(&e->reader);
	ip_rules_unlock(e);
}

/* The files have been read (done: 0), or could not be read. From now on these rules are carried
 * out. After an error none are carried out. */
static void load(struct ip_rules *e, int done)
{
	free(ip_steal_ptr(e->environment));
	if (done == 0 && asprintf(&e->environment, "IPROBE_PROBES_D=%s", e->probes.dir) < 0) {
		e->environment = NULL;
		done = ip_error("out of memory");
	}
	if (done == 0)
		done = take_over(e);
	if (done == 0)
		done = get_ready(e);
	if (done < 0) {
		ip_rules_log(NULL, NULL, "none are carried out: %s", ip_error_message());
		clear_states(e);
	}
	if (e->nstates)
		ip_rules_log(NULL, NULL, "%zu carried out, of %s", e->nstates, e->probes.dir);
	else if (!e->ntargets)
		close_down(e);
	for (size_t i = 0; e->nstates && i < e->probes.notes.n; i++)
		ip_rules_log(NULL, NULL, "%s", e->probes.notes.items[i]);
}

static void reload(struct ip_rules *e)
{
	for (size_t i = 0; i < e->ntargets; i++) {
		struct ip_rules_target *t = e->targets[i];

		if (t->doing == IP_RULES_NOTHING) {
			ip_rules_target_free(t);
			e->targets[i--] = e->targets[--e->ntargets];
		} else {
			ip_rules_target_disarm(t); /* it must still be restored */
		}
	}
	clear_states(e);
	ip_probes_d_clear(&e->probes);
	e->probes = e->next;
	e->next = (struct ip_probes_d){0};
	ip_rules_rescan(e);
	e->reloading = false;
	load(e, 0);
}

/* Files with errors are not used: the present rules stay. */
static void begin_reload(struct ip_rules *e, uint64_t now_ns)
{
	struct ip_probes_d probes;

	if (read_files(e, &probes) < 0) {
		ip_rules_log(NULL, NULL, "all stays as it was: %s", ip_error_message());
		return;
	}
	ip_probes_d_clear(&e->next); /* of a reload that has not been completed */
	e->next = probes;
	if (!e->reloading)
		e->reload_ns = now_ns;
	e->reloading = true;
}

static void fire_by_signal(struct ip_rules *e, int number, uint64_t now_ns)
{
	for (size_t i = 0; i < e->ntargets; i++)
		for (size_t a = 0; a < e->targets[i]->narms; a++)
			if (e->targets[i]->arms[a].state->rule->signal == number)
				ip_rules_fire(e, e->targets[i], &e->targets[i]->arms[a], false,
					      now_ns, "signal %s to iprobed",
					      number == SIGUSR1 ? "USR1" : "USR2");
}

static void take_signals(struct ip_rules *e, int signals, uint64_t now_ns)
{
	struct signalfd_siginfo signal;

	while (read(signals, &signal, sizeof(signal)) == sizeof(signal))
		if (signal.ssi_signo == SIGTERM || signal.ssi_signo == SIGINT)
			e->ending = true;
		else if (signal.ssi_signo == SIGHUP)
			begin_reload(e, now_ns);
		else if (signal.ssi_signo == SIGCHLD)
			e->child_ended = true;
		else if (signal.ssi_signo == SIGUSR1 || signal.ssi_signo == SIGUSR2)
			fire_by_signal(e, signal.ssi_signo, now_ns);
}

void ip_rules_count_acting(struct ip_rules *e)
{
	e->acting = e->leading = 0;
	for (size_t i = 0; i < e->ntargets; i++) {
		const struct ip_rules_target *t = e->targets[i];

		e->acting += t->doing == IP_RULES_ACT || t->doing == IP_RULES_JOINED;
		e->leading += t->doing == IP_RULES_ACT && t->nmembers;
	}
}

/* Moves the targets before index to the end, since they have had their turn. So the one at index is
 * first. */
static void put_first(struct ip_rules *e, size_t index)
{
	_cleanup_free_ struct ip_rules_target **before = malloc((index + 1) * sizeof(*before));

	if (!before)
		/* the order stays as it is: the target waits for longer */
		return;
	memcpy(before, e->targets, index * sizeof(*before));
	memmove(e->targets, e->targets + index, (e->ntargets - index) * sizeof(*before));
	memcpy(e->targets + e->ntargets - index, before, index * sizeof(*before));
}

static void count_starting(struct ip_rules *e, uint64_t now_ns)
{
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	e->may_start = IP_RULES_STARTING * (cpus > 0 ? cpus : 1);
	e->starting = 0;
	for (size_t i = 0; i < e->ntargets; i++)
		e->starting += ip_rules_target_starts(e->targets[i], now_ns);
}

/* How long to wait for a signal or a request, ms. */
static int pause_of(const struct ip_rules *e, bool rest)
{
	if (e->held_back && e->starting)
		return START_MS;
	return (rest || !e->hurries) && !e->held_back && !e->ending && !e->reloading ? REST_MS
										     : TURN_MS;
}

/* Does one step for all targets. Returns whether nothing is being done to any of them. */
static bool turn(struct ip_rules *e, uint64_t now_ns)
{
	size_t first = 0; /* index of the first target that was held back */
	bool rest = true;

	e->begun = 0;
	e->held_back = e->hurries = false;
	ip_rules_count_acting(e);
	count_starting(e, now_ns);
	for (size_t i = 0; i < e->ntargets; i++) {
		struct ip_rules_target *t = e->targets[i];

		if (!e->held_back)
			first = i;
		if (!ip_rules_target_step(e, t, now_ns)) {
			ip_rules_target_free(t);
			e->targets[i--] = e->targets[--e->ntargets];
			e->room = true;
		} else {
			rest &= ip_rules_target_rests(t);
			e->hurries |= !ip_rules_target_is_quiet(t);
		}
	}
	if (e->held_back && first < e->ntargets)
		put_first(e, first);
	e->child_ended = false;
	return rest;
}

static void loop(struct ip_rules *e, int signals)
{
	uint64_t limit = 0;

	/* If there are no rules to carry out this process is not needed: SIGHUP to iprobed starts
	 * it again. */
	for (bool rest = true; e->ending ? !rest && ip_now_ns() < limit
					 : e->nstates || e->ntargets || e->reloading;) {
		struct pollfd polled[] = {{.fd = signals, .events = POLLIN},
					  {.fd = e->listening, .events = POLLIN}};

		poll(polled, 2, pause_of(e, rest));
		take_signals(e, signals, ip_now_ns());
		if (e->ending && !limit)
			limit = ip_now_ns() + ENDING_NS;
		if (polled[1].revents)
			ip_rules_serve(e, ip_now_ns());
		if (!e->ending && !e->reloading)
			ip_rules_scan(e, ip_now_ns());
		rest = turn(e, ip_now_ns());
		if (e->reloading && rest)
			reload(e);
	}
}

static int open_signals(void)
{
	static const int numbers[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
	sigset_t set;
	int fd;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		sigaddset(&set, numbers[i]);
	sigprocmask(SIG_SETMASK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd >= 0 ? fd : ip_error_errno("signalfd");
}

/* Gives up capabilities. Sessions run as root, or as the user that iprobed runs as, so no
 * capability to change ids is needed. */
static int give_up_capabilities(void)
{
	const uint64_t needed = 1ull << CAP_SYS_PTRACE | 1ull << CAP_SYS_NICE |
				1ull << CAP_DAC_OVERRIDE | 1ull << CAP_CHECKPOINT_RESTORE;
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, data) < 0)
		return ip_error_errno("capget");
	for (int cap = 0; cap < 64; cap++)
		if (data[0].effective & 1u << CAP_SETPCAP && !(needed >> cap & 1) &&
		    prctl(PR_CAPBSET_READ, cap) == 1)
			prctl(PR_CAPBSET_DROP, cap);
	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		data[i].permitted &= needed >> 32 * i;
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	return syscall(SYS_capset, &header, data) < 0 ? ip_error_errno("capset") : 0;
}

static void run(const struct ip_rules_options *options)
{
	struct ip_rules e = {
		.options = options, .listening = -1, .lock = -1, .first = true, .last_pid = -1};
	const char *slash = strrchr(options->program, '/');
	int signals = open_signals();

	ip_descriptor_limit_raise(); /* each target takes one */
	if (signals < 0 || give_up_capabilities() < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    asprintf(&e.fperf, "%.*s/fperf", slash ? (int)(slash - options->program) : 1,
		     slash ? options->program : ".") < 0 ||
	    (ip_rules_were_here(&e) && ip_rules_left_over(&e) < 0)) {
		ip_rules_log(NULL, NULL, "none are carried out: %s", ip_error_message());
		_exit(1);
	}
	load(&e, read_files(&e, &e.probes));
	loop(&e, signals);
	close_down(&e);
	_exit(0);
}

pid_t ip_rules_start(const struct ip_rules_options *options)
{
	pid_t parent = getpid(), pid;

	fflush(NULL);
	pid = fork();
	if (pid)
		return pid > 0 ? pid : ip_error_errno("cannot start the process for rules");
	prctl(PR_SET_NAME, "iprobed-rules");
	prctl(PR_SET_DUMPABLE, 0);
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
		_exit(1);
	syscall(SYS_close_range, 3, ~0u, 0);
	run(options);
	_exit(1);
}
