/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An iprobe that works for somebody else: on behalf of a user who could not attach by himself, with
 * a capability that he has not.
 *
 * iprobed starts such a one with the ids and groups of who asked and with CAP_SYS_PTRACE
 * (worker.h). It must do no more than he might. So, while a permit is in force:
 *
 *   1. Before a target's memory is used after it was opened (again), and in every stop, when all
 *      threads stand and none can change its credentials any more, the right to trace it is
 *      checked. A target that has executed a setuid program since iprobed looked is let go, with
 *      nothing changed. Registers are changed in stops alone, and memory that was opened before an
 *      exec is dead after it.
 *   2. The check is the kernel's own: with our capabilities put down we are nobody but that user,
 *      and ask the kernel for the memory map of each thread (PTRACE_MODE_READ_FSCREDS: all of the
 *      classic rules, and of Yama and the like only what concerns reading). A thread that is not
 *      one of the process any more, because its number was given away between the listing and the
 *      stop, is found by that, too. For members of the group it is the policy's entry, which is for
 *      processes that run as one plain user only.
 *   3. Files are made with our capabilities put down: CAP_SYS_PTRACE would open ways through
 *      /proc/PID/root and /proc/PID/cwd of others.
 *
 *   4. What another user's process keeps to its user in /proc (mem, fd) is opened with
 *      CAP_DAC_OVERRIDE, which is put down but for that one call. Only those have it who work for a
 *      member or for root.
 *
 *   5. Who works for a member has the member's effective ids only, and nobody's as its real and
 *      saved user id: so the member can send it no signal, which might end it while a thread of
 *      somebody else's process is on an errand of ours.
 *
 *      A worker's image begins as root's, by its ids alone, and becomes the caller's when it has
 *      made itself undumpable: so there is no moment at which the caller could open what /proc
 *      shows of it, or trace it. The variable says whose it is to be.
 *
 *   6. A process that becomes undumpable, or changes its credentials, is not left with live sites.
 *      When a session goes idle the right is asked for as before. Where it is refused, and the
 *      image is the one in which the sites went live (stop.h, step 6: it still has the memory that
 *      was opened while it was allowed), its gate is closed and its text put back through that
 *      memory: bytes that are known to be ours become NOPs, which is what the user could have done
 *      himself by a descriptor opened in time. No register, no stack and no other memory is
 *      written, none of its threads is borrowed, and calls that the stop broke off begin anew.
 *
 * Where IPROBE_PERMIT is not set there is no permit, and all of this does nothing, but for telling
 * whose thread it is.
 */
#ifndef IP_DELEGATION_H
#define IP_DELEGATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#include "access/policy.h"

#define IP_DELEGATION_VARIABLE "IPROBE_PERMIT"

enum ip_delegation_kind {
	IP_DELEGATION_NONE,
	IP_DELEGATION_OWN,    /* what the user may trace himself */
	IP_DELEGATION_MEMBER, /* what an entry of the policy lists */
	IP_DELEGATION_ANY,    /* the user has CAP_SYS_PTRACE himself */
};

/* The variable's value, malloc'ed: whose the process is to be (IP_DELEGATION_STAYS: whose it
 * is), the descriptor that holds the target, and the policy's entry for a member. */
#define IP_DELEGATION_STAYS ((uid_t)-1)
char *ip_delegation_text(enum ip_delegation_kind kind, uid_t uid, int pidfd,
			 const struct ip_policy_entry *entry);

/* For main(): takes the permit from the environment. 0 or -1. */
int ip_delegation_take(void);

/* Whether somebody else has lent us what we may: iprobed. */
bool ip_delegation_is_lent(void);

/* Steps 1 and 2 for all threads of a process. 0, or -1 with an error. */
int ip_delegation_check(pid_t pid);
/* The same for one thread, which is stopped, of a process whose other threads are asked for by
 * themselves. */
int ip_delegation_check_thread(pid_t pid, pid_t tid);
/* Whether a thread that is stopped is one of the process, also where there is no permit: its number
 * may have been given away between the listing and the stop. */
int ip_delegation_check_place(pid_t pid, pid_t tid);

/* Step 6: from now on stops only put back what is live already. */
void ip_delegation_restore_only(void);
bool ip_delegation_restores_only(void);

/* Step 4: open and fopen for reading, close-on-exec, of a file of /proc/PID. */
int ip_delegation_open(const char *name, int flags);
FILE *ip_delegation_fopen(const char *name);

/* Step 3. Returns whether there is something to be taken up again. */
bool ip_delegation_put_down(void);
void ip_delegation_take_up(bool put_down);

#endif
