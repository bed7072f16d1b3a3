/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command that does what a rule asks for: iprobe attach, detach or snapshot, or fperf, as a user
 * would run it. So what holds for these commands holds here, too: one that is killed in the middle
 * leaves no target stopped, and no site live for good.
 *
 *   1. The command gets a session (setsid) of its own, no terminal, a pipe for each output, and the
 *      pidfds that hold the targets (delegation.h). If the pid belongs to another process when the
 *      command begins, it refuses. It has the memory limits and the few environment variables that
 *      workers have (worker.h).
 *   2. When iprobed's process dies the command gets SIGTERM, and restores every byte. It also gets
 *      SIGTERM when its time is over. If it takes half a minute longer than that, it is killed. A
 *      command that was killed may have left sites live: the caller must restore them (iprobe
 *      detach).
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
	char *text; /* output so far, up to IP_RULES_JOB_TEXT bytes */
	size_t ntext;
	bool live;		      /* an attach has told that its sites are live */
	char word[IP_RULES_JOB_WORD]; /* the last line on standard error */
	size_t nword;
	bool ended_line; /* the next byte begins a new line */
	/* limit_ns: when it gets SIGTERM; 0: there is no limit */
	uint64_t since_ns, limit_ns;
	uint64_t told_ns; /* when it got SIGTERM; 0: it has not */
	int status;	  /* as waitpid() returns it, once the command has ended */
};

/* Starts a command. argv[0]: path of the program. directory: where it runs. pidfds: of its n
 * targets; it has them from IP_RULES_JOB_TARGET on. environment: variables besides those of all
 * workers, or in their place; may be NULL.
 * Returns 0, or -1 with an error. */
#define IP_RULES_JOB_TARGET 3
int ip_rules_job_start(struct ip_rules_job *job, char *const *argv, const char *directory,
		       const int *pidfds, size_t n, char *const *environment);

/* Reads the output of the command, and enforces its limit. Returns true if it has ended. Then
 * status is set, and all output has been read. */
bool ip_rules_job_step(struct ip_rules_job *job, uint64_t now_ns);

/* Sends it SIGTERM. */
void ip_rules_job_end(struct ip_rules_job *job, uint64_t now_ns);

/* Whether a job that has ended got SIGTERM before it could take it: an iprobe that had not begun,
 * and has changed nothing. */
bool ip_rules_job_ended_unbegun(const struct ip_rules_job *job);

/* Frees a job that has ended, or that never began. */
void ip_rules_job_clear(struct ip_rules_job *job);

/* Returns the number after "key": in the output, or the sum if it is a list of numbers; 0: there is
 * none. */
double ip_rules_job_figure(const struct ip_rules_job *job, const char *key);
/* Returns the number after the first "key": behind "object":; 0: there is none. */
double ip_rules_job_figure_in(const struct ip_rules_job *job, const char *object, const char *key);
/* Returns the sum of the numbers after each "key":. */
double ip_rules_job_sum(const struct ip_rules_job *job, const char *key);
/* Returns the iprobe that has the session that the job, an attach, needed; 0: none, or the job did
 * not fail for that. */
pid_t ip_rules_job_taken_by(const struct ip_rules_job *job);
/* Of a failed attach: returns false if fewer than i + 1 conditions of --until are for no function
 * of the target. *ret_condition: from 1 on. nearest: names; "": none. */
bool ip_rules_job_absent(const struct ip_rules_job *job, size_t i, size_t *ret_condition,
			 char *nearest, size_t size);
/* Whether "key": is followed by the word, such as true. */
bool ip_rules_job_is(const struct ip_rules_job *job, const char *key, const char *word);
/* Copies the text after "key": up to its closing quote. Returns false if there is none. */
bool ip_rules_job_string(const struct ip_rules_job *job, const char *key, char *buffer,
			 size_t size);

#endif
