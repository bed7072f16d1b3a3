/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the threads of a target may read the processor's clock, as hooks do. It is an attribute
 * of each thread, which those that it makes inherit (PR_SET_TSC), and nothing tells it from
 * outside. The thread that sets a runtime up is asked (runtime/init.c); where that was long ago,
 * one that is borrowed. Strict seccomp sets it too, and shows.
 */
#ifndef IP_TARGET_CLOCK_H
#define IP_TARGET_CLOCK_H

#include <sys/types.h>

#include "hotpatcher/process/target.h"

/* 0; -1 with the reason: a thread is under strict seccomp. */
int ip_target_clock_check(pid_t pid);

/* Of a target whose runtime has been set up before: asks one of its threads, where one can be
 * had. 0; -1 with the reason. It is not asked while it is stopped or frozen, where none may be
 * borrowed (shadow stacks), nor under seccomp, whose filter might end it for the question: what
 * it was when the runtime was set up counts then. */
int ip_target_clock_ask(struct ip_target *target);

#endif
