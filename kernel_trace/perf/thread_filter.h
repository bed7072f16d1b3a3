/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads whose events perf_event_open(2) is to record: a set in the kernel, which programs of
 * BPF keep and read. perf's own means do not do: a filter of an event knows no threads that come
 * later, and events of each thread would be threads * CPUs * tracepoints descriptors.
 *
 * Protocol:
 *
 *   1. What a thread of the set forks joins it, before it runs (sched_process_fork). A thread that
 *      exits (sched_process_exit) is moved to those that have ended: events of it may not be read
 *      yet. What another thread forks is in neither: it has the id of one that is gone.
 *   2. At a tracepoint that threads themselves come by, a program copies the record into the ring
 *      of its CPU, if the thread is in the set.
 *   3. Events of other tracepoints are recorded of all threads, and those of the set are kept by
 *      who reads them (ip_thread_filter_has()).
 *
 * Each program returns 1: what it has not taken is still there for others that use perf events. All
 * is gone when its descriptors are closed, whatever becomes of us.
 */
#ifndef IP_THREAD_FILTER_H
#define IP_THREAD_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define IP_THREAD_FILTER_PROGRAMS "iprobe_" /* names of iprobe's programs begin so */

struct ip_bpf_program;
struct ip_event_layout;
struct ip_thread_filter;
struct ip_tracepoint;

/* An empty set. Step 1 begins. Returns NULL with an error. */
struct ip_thread_filter *ip_thread_filter_create(const struct ip_event_layout *layout);
/* NULL is allowed. */
void ip_thread_filter_destroy(struct ip_thread_filter *filter);
/* In a process that was forked meanwhile: closes what would keep the programs in being. */
void ip_thread_filter_leave(const struct ip_thread_filter *filter);

/* Whether a program of BPF, by its number, is one of iprobe's. NULL: no filter of our own. */
bool ip_thread_filter_owns(const struct ip_thread_filter *filter, uint32_t program);

/* The samples of a CPU go to that event (perf_event_open(2), PERF_COUNT_SW_BPF_OUTPUT). Returns 0,
 * or -1 with an error. */
int ip_thread_filter_output(struct ip_thread_filter *filter, unsigned cpu, int event);

/* Begins a program: it goes on where the thread that runs is in the set, with r6 its context, and
 * r7 that thread's id. */
void ip_thread_filter_put(const struct ip_thread_filter *filter, struct ip_bpf_program *program);

/* Step 2 begins for a tracepoint. Returns 0, or -1 with an error. */
int ip_thread_filter_record(struct ip_thread_filter *filter,
			    const struct ip_tracepoint *tracepoint);
/* No more events come by step 2. */
void ip_thread_filter_stop(struct ip_thread_filter *filter);

/* The process' threads join the set. Returns 0, or -1 with an error. */
int ip_thread_filter_add(struct ip_thread_filter *filter, pid_t pid);

/* Passes the threads of the set to each(), of which a negative value ends it. Returns 0, or -1 with
 * an error. */
int ip_thread_filter_list(const struct ip_thread_filter *filter,
			  int (*each)(void *context, pid_t tid), void *context);

/* Whether a thread is in the set, or was until it ended. */
bool ip_thread_filter_has(const struct ip_thread_filter *filter, pid_t tid);

#endif
