/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An iprobe process that works on behalf of a user who cannot attach without help. It has a
 * capability that the user does not have.
 *
 * iprobed starts such a process (a worker, worker.h) with the ids and groups of the client's user
 * and with CAP_SYS_PTRACE. The worker must do no more than the user may do. So, while a delegation
 * is in force:
 *
 *   1. The worker checks the right to trace the target again and again: before it uses the target's
 *      memory after it has opened that memory (again), and in every stop, when all threads are
 *      stopped and none can change its credentials any more. If the target has executed a setuid
 *      program since iprobed looked, the worker lets it go and changes nothing. The worker changes
 *      registers only in stops. Memory that was opened before an exec is dead after it.
 *   2. The check is the kernel's own: with its capabilities put down the worker is nobody but that
 *      user. It asks the kernel for the memory map of each thread (PTRACE_MODE_READ_FSCREDS: all of
 *      the classic rules; of Yama and other security modules only the part that concerns reading).
 *      The check also finds a thread that is no longer one of the process, because its number was
 *      given to another thread between the listing and the stop. For members of the group the check
 *      is the policy's entry, which is only for processes that run as one plain user.
 *   3. The worker makes files with its capabilities put down. CAP_SYS_PTRACE would open ways
 *      through /proc/PID/root and /proc/PID/cwd of other processes.
 *   4. Some files in /proc of another user's process can be opened by that user alone (mem, fd).
 *      The worker opens them with CAP_DAC_OVERRIDE, and puts this capability down except for that
 *      one call. Only a worker that works for a member or for root has this capability.
 *   5. A worker for a member has only the effective ids of the member. Its real and saved user id
 *      are nobody's. So the member can send it no signal. Such a signal might end the worker while
 *      a thread of another user's process is borrowed.
 *
 *      A worker's image begins as root's, by its ids alone. It takes the client's ids only after it
 *      has made itself undumpable. So there is no moment at which the client could open what /proc
 *      shows of it, or trace it. The variable says whose ids it is to take.
 *
 *   6. A process that becomes undumpable, or changes its credentials, does not keep live sites.
 *      When a session goes idle, the worker asks for the right to trace as before. The kernel may
 *      refuse, while the image is still the one in which the sites went live (stop.h, step 6: the
 *      worker still has the memory that was opened while this was allowed). Then the worker closes
 *      the target's gate and restores its text through that memory: bytes that are known to be ours
 *      become NOPs. The user could have done this without help, by a descriptor opened in time. The
 *      worker writes no register, no stack and no other memory, and borrows no thread. Calls that
 *      the stop broke off begin anew.
 *
 *   7. A rule of iprobed may have a whole service recorded: then there are several targets. A
 *      pidfd holds each of them. The worker touches these, as long as they live, and what is found
 *      besides only where it runs the same program as one of them, for the same user: what they
 *      fork. So a number that was given to another process, and what a target's children execute,
 *      are left alone.
 *
 * If IPROBE_PERMIT is not set there is no delegation. Then no capability is changed and no right is
 * checked. Only ip_delegation_check_place() still checks that the thread is one of the process.
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
	IP_DELEGATION_OWN,    /* a process that the user may trace without help */
	IP_DELEGATION_MEMBER, /* a process that an entry of the policy lists */
	IP_DELEGATION_ANY,    /* any: the user has CAP_SYS_PTRACE without help */
};

/* Returns the variable's value, malloc'ed. uid: the user that the process is to become
 * (IP_DELEGATION_STAYS: it keeps its ids). pidfd: the descriptor that holds the target. entry: the
 * policy's entry, for a member. */
#define IP_DELEGATION_STAYS ((uid_t)-1)
char *ip_delegation_text(enum ip_delegation_kind kind, uid_t uid, int pidfd,
			 const struct ip_policy_entry *entry);

/* The same for several targets (step 7), of any kind. pidfd: holds the first of them, and those
 * that follow hold the others. pids: what they hold, for those that have ended meanwhile. */
#define IP_DELEGATION_TARGETS 1024u
char *ip_delegation_text_of_many(int pidfd, const pid_t *pids, size_t n);

/* Takes the delegation from the environment. For main(). Returns 0 or -1. */
int ip_delegation_take(void);

/* Whether iprobed has lent this process its rights. */
bool ip_delegation_is_lent(void);

/* Does steps 1 and 2 for all threads of a process. Returns 0, or -1 with an error. */
int ip_delegation_check(pid_t pid);
/* Does steps 1 and 2 for one stopped thread. The caller asks for each other thread of the process
 * separately. */
int ip_delegation_check_thread(pid_t pid, pid_t tid);
/* Checks whether a stopped thread is one of the process, also if there is no delegation: its number
 * may have been given to another thread between the listing and the stop. */
int ip_delegation_check_place(pid_t pid, pid_t tid);

/* Step 6: from now on stops only restore sites that are live already. */
void ip_delegation_restore_only(void);
bool ip_delegation_restores_only(void);

/* Step 4: opens a file of /proc/PID close-on-exec; fopen opens it for reading. */
int ip_delegation_open(const char *name, int flags);
FILE *ip_delegation_fopen(const char *name);

/* Step 3. ip_delegation_put_down() returns whether there are capabilities to take up again, for
 * ip_delegation_take_up(). */
bool ip_delegation_put_down(void);
void ip_delegation_take_up(bool put_down);

#endif
