/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the stop share; stop.h has the steps.
 */
#ifndef IP_STOP_INTERNAL_H
#define IP_STOP_INTERNAL_H

#include "hotpatcher/stop.h"

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
int ip_stop_signal_of(int status);
char ip_stop_state_of(int task, const char *tid);
bool ip_stop_has_ended(pid_t pid, pid_t tid);

/* stop_gather.c */
int ip_stop_find_kin(struct ip_stop *stop);
/* The number of threads that were not known, or have just vanished; -1 with the reason. */
int ip_stop_seize_new(struct ip_stop *stop);
bool ip_stop_is_complete(const struct ip_stop *stop);
void ip_stop_take_held(struct ip_stop *stop);
void ip_stop_adopt_strays(struct ip_stop *stop);

/* stop.c: 0; -1: the deadline has passed. */
int ip_stop_wait_for(struct ip_stop *stop, size_t i);

#endif
