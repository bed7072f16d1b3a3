/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the stop share; stop.h has the steps.
 */
#ifndef IP_STOP_PRIVATE_H
#define IP_STOP_PRIVATE_H

#include "hotpatcher/ptrace/stop.h"

#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif

/* stop_threads.c: the list. find: NULL where the thread is not in it. */
struct ip_stopped_thread *ip_stop_find(struct ip_stop *stop, pid_t tid);
int ip_stop_add(struct ip_stop *stop, pid_t pid, pid_t tid, bool running);
/* The thread or child stays ours when this stop is over, for ip_stop_let_go(). */
void ip_stop_hold(struct ip_target *target, pid_t tid);
/* Takes note of a status of a thread; the list may grow, and t move. */
void ip_stop_note(struct ip_stop *stop, struct ip_stopped_thread *t, int status);
/* PTRACE_SEIZE, while ip_interval_signal_start() is in force. */
int ip_stop_seize(struct ip_stop *stop, pid_t tid, unsigned long options);
/* Takes note of threads that have ended, for who executes a program and waits for that. */
void ip_stop_reap(struct ip_stop *stop);
int ip_stop_signal_of(int status);
char ip_stop_state_of(int task, const char *tid);
bool ip_stop_has_ended(pid_t pid, pid_t tid);

/* stop_gather.c */
int ip_stop_find_shared_mm(struct ip_stop *stop);
/* The number of threads that were not known, or have just vanished; -1 with the reason. */
int ip_stop_seize_new(struct ip_stop *stop);
bool ip_stop_is_complete(const struct ip_stop *stop);
void ip_stop_take_held(struct ip_stop *stop);
void ip_stop_adopt_strays(struct ip_stop *stop);

/* stop_decide.c: reads what is to be known of a thread that has just stopped, while others still
 * run. */
void ip_stop_look(const struct ip_stop *stop, struct ip_stopped_thread *t);
/* Steps 5 to 7, 0 or -1 with the reason; and 8. text_will_do: text_only is an
 * answer, too. */
int ip_stop_decide(struct ip_stop *stop, bool text_will_do);
void ip_stop_change(struct ip_stop *stop);
/* -1, with what is to be said where step 6 says no. */
int ip_stop_refuse_image(const struct ip_stop *stop);
/* For a stop that was not decided, or not for us: calls that it has broken off begin anew. In
 * another image where its threads are ours to trace; what is not is left as it is. Keeps the error.
 * */
void ip_stop_restart_plainly(const struct ip_stop *stop);

/* What a thread is asked to tell of, SEIZEd for more than itself, or by itself. */
#define IP_STOP_OPTIONS                                                                            \
	(PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC)

/* stop_asleep.c: step 1b. 0; -1 with the reason, nothing was done. */
int ip_stop_await_asleep(struct ip_stop *stop);
bool ip_stop_is_asleep(pid_t pid, pid_t tid);

/* Why a thread does not stop. */
const char *ip_stop_why_late(pid_t pid, pid_t tid);

/* stop.c: 0; -1: the deadline has passed. */
int ip_stop_wait_for(struct ip_stop *stop, size_t i);

#endif
