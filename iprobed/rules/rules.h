/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out the rules of probes.d (rule.h): a process of iprobed's own.
 *
 *   rules.c          this process: files, signals, requests, the loop
 *   scan.c     which processes there are, and which rules are for them
 *   quota.c    how users share the places of a rule
 *   poll_conditions.c     conditions that are looked at from outside: every, cpu, memory, pressure
 *   target_state.c   one process: what is done to it now, and what is waiting
 *   arm.c    what is done until a rule fires
 *   action.c      and what then; and what came of it
 *   command.c  command lines for both
 *   job.c      running them
 *
 * Who it works for is who wrote the files: root, or the user that iprobed runs as. Files and
 * directories that others can write are refused. All that touches a process is an ordinary iprobe
 * attach, detach or snapshot, or fperf, in a process of its own (job.h).
 *
 * A process has one session at a time. So of what rules want of it one thing is done after the
 * other:
 *
 *   1. What has fired is done first, in its order, each for as long as its rule says.
 *   2. Else it is watched: by a histogram of the functions of all of its rules with a latency, or
 *      by the flight recorder of a rule that takes snapshots; where both are wanted, by what the
 *      first of them wants. The others wait, and the log says so. A rule that takes snapshots
 *      because of a latency has a recorder which watches for that itself, and ends when it has what
 *      comes after the moment: what it has written is the snapshot.
 *   3. When something fires while it is watched the watch ends first. Between the two are some tens
 *      of milliseconds in which nothing is recorded.
 *
 * Of all processes together so many record at the same time at most (IP_RULES_ACTING): what has
 * fired beyond that waits for its turn. And sessions are begun a few at a time (IP_RULES_BEGIN), so
 * that requests are answered meanwhile: each takes some tens of milliseconds of a CPU.
 *
 * The functions that are watched cost some 30 ns a call meanwhile, and nothing else of the process
 * does; of a flight recorder all that is recorded does.
 *
 * What may go wrong. A process that ends takes its session with it. A session that fails is tried
 * again, after a second, two, four, up to ten minutes. A session that is killed is followed by
 * iprobe detach. Before a session begins the state directory has a note of it: should all of us be
 * killed at once, the next one puts back what is live. When we end, or iprobed does, sessions end
 * properly.
 */
#ifndef IP_RULES_RULES_H
#define IP_RULES_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ip_rules_options {
	const char *probes_d; /* NULL: the usual one */
	const char *traces;   /* directory of what is recorded */
	const char *state;    /* directory of notes, and of the socket for requests */
	const char *program;  /* iprobe; fperf lies beside it */
	/* rules to be carried out, enabled or not, and no others; none: all that are enabled */
	const char *const *only;
	size_t nonly;
	uint64_t memory; /* of all sessions of rules together; 0: a quarter of what there is */
};

/* Starts it. Its process id, or -1 with an error. It ends with code 0 where there are no rules to
 * be carried out. SIGHUP has it read the files again, SIGUSR1 and SIGUSR2 fire rules, SIGTERM ends
 * it. */
pid_t ip_rules_start(const struct ip_rules_options *options);

/* Asks the one that works with that state directory: "fire NAME", "fire NAME PID", "list", "list
 * json". *ret: what it says, malloc'ed. 0, or -1 with an error, its own or ours. */
int ip_rules_ask(const char *state, const char *request, char **ret);

/* The text for a terminal: bytes that would have it do things stand as \xNN, those beyond ASCII
 * too, if all. Newlines stay. malloc'ed; NULL: no memory. */
char *ip_rules_plain(const char *text, bool all);

#endif
