/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the stop share; stop.h tells the steps.
 */
#ifndef IP_STOP_PRIVATE_H
#define IP_STOP_PRIVATE_H

#include "hotpatcher/ptrace/stop.h"

#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif

/* stop_threads.c: the list of threads. ip_stop_find() returns NULL if the thread is not in it. */
struct ip_stopped_thread *ip_stop_find(struct ip_stop *stop, pid_t tid);
int ip_stop_add(struct ip_stop *stop, pid_t pid, pid_t tid, bool running);
/* Keeps a thread or child as a tracee beyond this stop, for ip_stop_let_go(). */
void ip_stop_hold(struct ip_target *target, pid_t tid);
/* Takes note of a wait status of a thread. The list may grow, and then t moves. */
void ip_stop_note(struct ip_stop *stop, struct ip_stopped_thread *t, int status);
/* PTRACE_SEIZE. ip_interval_signal_start() must be in force. */
int ip_stop_seize(struct ip_stop *stop, pid_t tid, unsigned long options);
/* Reaps threads that have ended, since a thread that executes a program waits for that. */
void ip_stop_reap(struct ip_stop *stop);
int ip_stop_signal_of(int status);
char ip_stop_state_of(int task, const char *tid);
bool ip_stop_has_ended(pid_t pid, pid_t tid);

/* stop_gather.c */
int ip_stop_find_shared_mm(struct ip_stop *stop);
/* Steps 1, 2 and 4. Returns the number of threads that were not known, or that have just vanished;
 * -1 with the reason. */
int ip_stop_seize_new(struct ip_stop *stop);
bool ip_stop_is_complete(const struct ip_stop *stop);
void ip_stop_take_held(struct ip_stop *stop);
void ip_stop_adopt_strays(struct ip_stop *stop);

/* stop_decide.c: reads what must be known of a thread that has just stopped, while others still
 * run. */
void ip_stop_look(const struct ip_stop *stop, struct ip_stopped_thread *t);
/* Steps 5 to 7: 0, or -1 with the reason. And step 8. text_will_do: the answer may also be
 * text_only. */
int ip_stop_decide(struct ip_stop *stop, bool text_will_do);
void ip_stop_change(struct ip_stop *stop);
/* Sets the error for the case that step 6 says no. Returns -1. */
int ip_stop_refuse_image(const struct ip_stop *stop);
/* For a stop that was not decided, or whose threads may not be traced: calls that it has broken off
 * begin anew. In another image this happens only to threads that iprobe may trace; the others are
 * left as they are. Keeps the error. */
void ip_stop_restart_plainly(const struct ip_stop *stop);

/* The events that a SEIZEd thread reports when the whole process is stopped. A thread that is
 * stopped by itself reports other ones. */
#define IP_STOP_OPTIONS                                                                            \
	(PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC)

/* stop_asleep.c: step 1b. 0; -1 with the reason: nothing was done to any thread. */
int ip_stop_await_asleep(struct ip_stop *stop);
bool ip_stop_is_asleep(pid_t pid, pid_t tid);

/* Why a thread does not stop. */
const char *ip_stop_why_late(pid_t pid, pid_t tid);

#endif
