/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether the threads of a target may read the processor's clock, as hooks do. That is an
 * attribute of each thread (PR_SET_TSC), and new threads inherit it from the thread that makes
 * them. Nothing shows it from outside. The thread that sets a runtime up asks for its own
 * (runtime/init.c). If that was long ago, a borrowed thread is asked. Strict seccomp forbids
 * reading the clock, too, and strict seccomp shows from outside.
 */
#ifndef IP_TARGET_CLOCK_H
#define IP_TARGET_CLOCK_H

#include <sys/types.h>

#include "hotpatcher/process/target.h"

/* 0; -1 with the reason: a thread is under strict seccomp, or the threads cannot be listed. */
int ip_target_clock_check(pid_t pid);

/* For a target whose runtime has been set up before: asks one of its threads, if one can be
 * borrowed. 0; -1 with the reason. No thread is asked while the target is stopped or frozen, if
 * none of its threads may be borrowed (shadow stacks), or if it is under seccomp, whose filter
 * might end the thread for the question. Then the answer from the set-up of the runtime counts. */
int ip_target_clock_ask(struct ip_target *target);

#endif
