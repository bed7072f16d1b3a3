/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command of ours that does what a rule asks for: iprobe attach, detach or snapshot, or fperf, as
 * a person would run it. So all that holds for these holds here, too: who dies in the middle leaves
 * no process stopped and none with live sites for good.
 *
 *   1. It gets a session of its own, no terminal, a pipe for each output, and the descriptor that
 *      holds the process (delegation.h): should the number mean another process by the time when it
 *      begins, it refuses. It has the limits of memory, and the few variables, that workers have
 *      (worker.h).
 *   2. When we die it gets SIGTERM, and puts every byte back. So it does when its time is over:
 *      what takes longer than that, by half a minute, is killed. What was killed may have left
 *      sites live: that is the caller's to put right (iprobe detach).
 */
#ifndef IP_RULES_JOB_H
#define IP_RULES_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define IP_RULES_JOB_TEXT 65536u
#define IP_RULES_JOB_WORD 512u

struct ip_rules_job {
	pid_t pid; /* 0: none */
	int out, err;
	char *text; /* what it has printed so far, up to IP_RULES_JOB_TEXT */
	size_t ntext;
	char word[IP_RULES_JOB_WORD]; /* the last line on standard error */
	size_t nword;
	bool ended_line;	     /* the next byte begins a new one */
	uint64_t since_ns, limit_ns; /* when it is to be told to end; 0: not by itself */
	uint64_t told_ns;	     /* when it was */
	int status;		     /* as from waitpid, once it has ended */
};

/* argv[0] is the path of the program. directory: where it runs. pidfd: of the process; -1: none.
 * environment: more variables, may be NULL. 0, or -1 with an error. */
int ip_rules_job_start(struct ip_rules_job *job, char *const *argv, const char *directory,
		       int pidfd, char *const *environment);

/* Reads what it says, and sees to its limit. True: it has ended, status tells how; all it has said
 * is read. */
bool ip_rules_job_step(struct ip_rules_job *job, uint64_t now_ns);

/* Tells it to end. */
void ip_rules_job_end(struct ip_rules_job *job, uint64_t now_ns);

/* Of one that has ended, or never begun. */
void ip_rules_job_clear(struct ip_rules_job *job);

/* A number, or the sum of a list of numbers, behind "key": in what it has printed; 0: there is
 * none. */
double ip_rules_job_figure(const struct ip_rules_job *job, const char *key);
/* The text behind "key":, up to its closing quote; false: there is none. */
bool ip_rules_job_string(const struct ip_rules_job *job, const char *key, char *buffer,
			 size_t size);

#endif
