/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out the rules of probes.d (rule.h), in a process of its own, which iprobed starts.
 *
 *   rules.c            this process: files, signals, requests, the loop
 *   scan.c             which processes there are, and which rules are for them
 *   quota.c            how the places of a rule are shared among users
 *   poll_conditions.c  conditions that are checked from outside: every, cpu, memory, pressure
 *   target_state.c     one target: what is done to it now, and what waits
 *   arm.c              what is done until a rule fires
 *   arm_state.c        whether a rule wants its target to be watched
 *   action.c           what is done when it has fired, and the result
 *   command.c          command lines for both
 *   job.c              running them
 *   store.c            directories of what is recorded
 *   control.c          requests
 *   recovery.c         notes for the next process of rules
 *   match.c            what is known of a process, and whether a rule is for it
 *   cmdline_reader.c   reading command lines
 *   rate_limit.c       when a rule may fire
 *   service.c          the same, for each service that it is for
 *   members.c          processes of a service that are recorded together
 *   memory.c           how much memory the sessions may take
 *
 * It works for the user who wrote the files: root, or the user that iprobed runs as. Files and
 * directories that other users can write are refused. Everything that touches a target is an
 * ordinary iprobe attach, detach or snapshot, or fperf, in a process of its own (job.h).
 *
 * A target has one session at a time. So what rules want of it is done one after the other:
 *
 *   1. Rules that have fired come first, in the order of firing. Each takes as long as it says.
 *   2. Otherwise the target is watched. This is done by a histogram of the functions of all its
 *      rules with a latency, or by the flight recorder of a rule that takes snapshots. If both are
 *      wanted, the first such rule decides. The other rules wait, and the log says so. For a rule
 *      that takes snapshots because of a latency, the flight recorder itself watches the latency.
 *      It ends when it has recorded what comes after the moment: its trace is the snapshot.
 *   3. When a rule fires while the target is watched, the watch ends first. For some tens of
 *      milliseconds between the two, nothing is recorded.
 *
 * A rule may record all targets of a service together (members.h). Their watches end before, too.
 *
 * At most IP_RULES_ACTING targets record at the same time: other rules that have fired wait.
 * Sessions are begun a few at a time (IP_RULES_BEGIN), so that requests are answered meanwhile:
 * each session takes some tens of milliseconds of a CPU to begin. Of those that watch, a few for
 * each CPU begin at the same time (IP_RULES_STARTING): each tells when it is live.
 *
 * Hundreds of sessions may wait. So this process does not look at a session that is live and that
 * nothing else is wanted of, until it ends; and such a session sleeps nearly all the time
 * (session/nap.h).
 *
 * The functions that are watched cost some 30 ns a call meanwhile. Nothing else in the target costs
 * anything. With a flight recorder, everything that is recorded costs.
 *
 * Nothing is watched, and no flight recorder runs, for a rule that may not fire (at_most, every):
 * arm_state.c. A rule whose functions the target does not have is left out of its watch, and tried
 * again.
 *
 * What may go wrong. A target that ends takes its session with it. A session that fails is tried
 * again, after a second, two, four, up to ten minutes. After a session that was killed comes an
 * iprobe detach. Before a session begins a note of it is written to the state directory: if all
 * processes are killed at once, the next process of rules restores what is live. When this process
 * or iprobed ends, the sessions end properly.
 */
#ifndef IP_RULES_RULES_H
#define IP_RULES_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ip_rules_options {
	const char *probes_d; /* NULL: the default directory */
	const char *traces;   /* directory for what is recorded */
	const char *state;    /* directory for notes, and for the socket for requests */
	const char *program;  /* path of iprobe; fperf lies beside it */
	/* names of the rules to be carried out, enabled or not, and no others. None: all that are
	 * enabled. */
	const char *const *only;
	size_t nonly;
	/* limit for all sessions of rules together; 0: a quarter of the memory there is */
	uint64_t memory;
};

/* Starts the process. Returns its process id, or -1 with an error. It ends with code 0 if there are
 * no rules to be carried out. On SIGHUP it reads the files again. SIGUSR1 and SIGUSR2 fire rules.
 * SIGTERM ends it. */
pid_t ip_rules_start(const struct ip_rules_options *options);

/* Sends a request to the process that uses that state directory: "fire NAME", "fire NAME PID",
 * "list", "list json". *ret: the reply; the caller frees it. Returns 0, or -1 with an error, of
 * that process or of this function. */
int ip_rules_ask(const char *state, const char *request, char **ret);

/* Makes the text safe for a terminal: control characters become \xNN, and if all is set, bytes
 * beyond ASCII too. Newlines stay. The caller frees the result. NULL: out of memory. */
char *ip_rules_plain(const char *text, bool all);

#endif
