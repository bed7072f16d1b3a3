/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaves out of the kernel's events what is other users': what remains is what a user may know.
 *
 *   - Events of the threads that are shown (those of the target) stay as they are.
 *   - All other threads are one for each CPU (IP_KERNEL_OTHER): that such a thread runs on the CPU
 *     is told, and that it wakes a thread that is shown. Its id, name, priority and state are not.
 *     Switches between two such threads, and what they do, are left out: whom they wake and fork.
 *   - Requests to block devices are left out: a thread that issues one may do so for another, and
 *     nothing tells for whom.
 *   - Addresses of the kernel are left out: of timers and their functions, of code that faults, and
 *     of faults, with whether there is a page.
 *
 * A thread is shown while it is known to be what the user may trace:
 *
 *   1. It is shown from a time on at which that was checked, or at which a thread that is shown has
 *      made it: it has the rights of that one then.
 *   2. An exec ends that: the program may have other rights. Its events are withheld until a check
 *      has ended in which it has executed nothing. That some are missing is told once until then.
 * An exec counts from when the kernel gives the process its new name, which comes before its new
 * rights. Threads that rename themselves cannot be told from that, unless they are known not to be
 * the first of their process, which is asked for at each check.
 *   3. Where events were lost there may have been an exec among them, or the end of a thread: then
 *      all have to be checked again.
 *   4. Who checks tells of a process that may not be shown any more, or has other rights.
 *
 * Events are given in the order of time, of all CPUs together. On each CPU, what comes out tells by
 * switches of its own who runs where something was left out between.
 */
#ifndef IP_EVENT_FILTER_H
#define IP_EVENT_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define IP_EVENT_FILTER_THREADS 65536u /* that are shown at the same time; others are not */

struct ip_event_filter;

/* Takes what remains. A negative value is returned by who has given the event. */
struct ip_event_filter_output {
	/* all: of the stream of all processes, or of that of the targets */
	int (*event)(void *context, bool all, uint32_t cpu, const uint8_t *event, size_t size);
	/* events are missing behind those before. How many, and of whom, is not told */
	int (*lost)(void *context, bool all, uint32_t cpu);
	/* returns the process that a thread belongs to now; -1: the thread has ended */
	pid_t (*process_of)(pid_t tid);
	void *context;
};

/* cpus: their number. NULL with an error. */
struct ip_event_filter *ip_event_filter_create(unsigned cpus,
					       const struct ip_event_filter_output *output);
void ip_event_filter_destroy(struct ip_event_filter *filter);

/* A thread of process pid is shown from tsc on, as far as it has executed nothing since `asked`,
 * when its check began. comm: its name, of which 15 bytes count. Returns 0, or -1 with an error. */
int ip_event_filter_show(struct ip_event_filter *filter, pid_t tid, pid_t pid, const char *comm,
			 uint64_t asked, uint64_t tsc);

/* An event (common/trace/kernel_format.h), those that are in no trace among them. Returns 0, or -1.
 */
int ip_event_filter_event(struct ip_event_filter *filter, bool all, uint32_t cpu,
			  const uint8_t *event, size_t size);
/* Events were lost, up to tsc. Returns 0, or -1. */
int ip_event_filter_lost(struct ip_event_filter *filter, bool all, uint32_t cpu, uint64_t tsc);

/* For who checks: visit() is called for each process that has threads which are shown, once; a
 * negative value ends it and is returned. */
int ip_event_filter_each(struct ip_event_filter *filter, int (*visit)(void *context, pid_t pid),
			 void *context);
/* The process may be shown, as was found out between asked and tsc. Threads that are withheld are
 * shown from tsc on, as far as they have executed nothing since `asked`. */
void ip_event_filter_allow(struct ip_event_filter *filter, pid_t pid, uint64_t asked, uint64_t tsc);
/* It may not, from its events that have not been given yet on. */
void ip_event_filter_refuse(struct ip_event_filter *filter, pid_t pid);

#endif
