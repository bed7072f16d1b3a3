/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the threads of a target may read the processor's clock, as hooks do. It is an attribute of each thread, which those that it makes
 * inherit (PR_SET_TSC), and nothing tells it from outside. The thread that sets a runtime up is asked (runtime/waking.c); strict
 * seccomp sets it too, and shows.
 */
#ifndef IP_TARGET_CLOCK_H
#define IP_TARGET_CLOCK_H

#include <sys/types.h>

/* 0; -1 with the reason: a thread is under strict seccomp. */
int ip_target_clock_check(pid_t pid);

#endif
