/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes whose system calls are counted live: those that a user chooses, by their pids, by
 * name, unit, control group, or as children. The kernel adds what they fork by itself.
 *
 * A process joins so:
 *
 *   1. A descriptor of it (pidfd) is opened. It is the one that was found if it was started at that
 *      time: then the descriptor holds on to this process and no other.
 *   2. Its program is looked at: system calls of 32-bit programs cannot be told from others. Where
 *      this user may not look at it, iprobed does, in step 3, if it gives the events.
 *   3. The kernel is told to record the threads of this pid.
 *   4. The process of step 1 still lives: so the pid was its own all the time, and the kernel
 *      records no other process that was given the same number meanwhile.
 */
#ifndef IP_CLI_LIVE_PROCESSES_H
#define IP_CLI_LIVE_PROCESSES_H

#include "kernel_trace/recorder.h"
#include "service/processes.h"

struct cli_live_processes {
	const struct ip_service_choice *choice;
	struct cli_live_process {
		pid_t pid;
		uint64_t started; /* of struct ip_service_process */
		int fd;		  /* pidfd; below 0: it is not counted, or has ended */
		bool named;	  /* by its pid */
		bool unseen;	  /* its program could not be looked at */
	} * items;
	size_t n;
	size_t counted; /* that joined */
	size_t live;	/* of these, that have not ended */
	int ends;	/* epoll: readable when one of them has ended */
	bool failed;	/* one that was named by its pid is not counted; that was told */
	/* iprobed gives the events: it looks at the programs that this user may not look at.
	 * cli_live_processes_look_by() */
	bool by_iprobed;
	/* Private. */
	size_t joined; /* items that had their turn */
	bool asked;    /* whether iprobed gives the events is known */
	long last_pid;
	uint64_t look_ns, idle_ns;
};

/* Finds the processes, and takes steps 1 and 2. The caller clears *ret in any case. Returns 0; or
 * -1 with an error: none of them can be counted, or an operand is a thread. */
int cli_live_processes_open(const struct ip_service_choice *choice, struct cli_live_processes *ret);

/* Tells who looks at programs that this user may not look at: iprobed, or nobody: then such
 * processes are not counted. Returns 0; or -1 with an error: none of them can be counted. */
int cli_live_processes_look_by(struct cli_live_processes *p, bool by_iprobed);

/* Takes steps 3 and 4. Returns 0, or -1 with an error. */
int cli_live_processes_join(struct cli_live_processes *p, struct ip_kernel_recorder *recorder);

/* Takes note of processes that have ended, and lets join those that the choice has now, too.
 * Returns 0, or -1 with an error. */
int cli_live_processes_step(struct cli_live_processes *p, struct ip_kernel_recorder *recorder);

/* Whether there is nothing more to count: all have ended, and for a second no other has come. */
bool cli_live_processes_are_over(const struct cli_live_processes *p);

void cli_live_processes_clear(struct cli_live_processes *p);

#endif
