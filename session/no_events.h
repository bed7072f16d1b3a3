/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out why a session has recorded nothing. Each reason is proved by what the session has seen:
 *
 *   filtered     events happened, and the session's filters left all of them out
 *   literal      and one of them compares a text that looks like a pattern
 *   start_on     the function of --start-on was not called
 *   slept        the threads of the process used no CPU time, and none of them waits for a CPU
 *   stopped      they used none, and at the end one of them is stopped by a signal (SIGSTOP)
 *   no_cpu       they used none, and one of them waits for a CPU
 *   not_called   no live site was reached
 *   inlined      the compiler has put functions into their callers, where they have no probe
 *   children     child processes run the program of the process, and are not recorded
 *   foreign      selected sites hold what another tool has put there
 */
#ifndef IP_SESSION_NO_EVENTS_H
#define IP_SESSION_NO_EVENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ip_session;

/* The CPU time that a process used while it was recorded; all zero at first. */
struct ip_cpu_used {
	uint64_t from_ns;	    /* after the start of the recording; 0: not read yet */
	uint64_t first_ns, last_ns; /* CPU time of the process at from_ns, and at the end */
	bool known;		    /* both could be read */
	bool waits;		    /* at the end a thread waits for a CPU */
	bool stopped;		    /* at the end a thread is stopped by a signal */
};

/* To be called in each step of the session, and once before its sites are put back: going live and
 * going idle wake threads, which is no time of theirs. */
void ip_session_look_at_cpu(struct ip_session *s, bool ends);

/* Fills in why in the summary, and writes it into the trace, if there are no events. The figures of
 * the summary must be there. */
void ip_session_explain(struct ip_session *s);

#endif
