/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes at the entry and the return of chosen functions of the kernel (--kernel-functions), by
 * which an instance of tracefs (instance.h) records them for the target's threads.
 *
 * Why kprobes and kretprobes, and not the tracer function_graph: that tracer records in an instance
 * of its own only from Linux 6.11 on. Before, it takes the one place of the machine's tracer, from
 * whoever has it, and puts records between those of others. A probe's event can be switched on in
 * any instance, is left out for other threads by the instance's own list (set_event_pid), and lies
 * in one buffer with the system calls around it, so that the order of both is exact, and a loss is
 * counted once. The price: a function that is probed costs each of its callers on the machine,
 * target or not, the probe itself (a call by ftrace where the compiler has left room for one, and a
 * changed return address), before the list is asked.
 *
 * All functions share two events, one for entries and one for returns: an event can have many
 * probes (Linux 5.4). So the events are switched on and off once, however many functions there are.
 * Each probe has the number of its function as a constant argument: addresses of the kernel, which
 * it may hide, are not needed to tell functions apart.
 *
 * Probes belong to the whole tracefs, not to an instance. Their group tells which process has made
 * them. Protocol:
 *
 *   1. Groups of processes that are gone are removed (ip_kernel_probes_remove_left()), after the
 *      instances that they had left (ip_instance_remove_left()): a probe that is on cannot be
 *      removed. A process is known by its pid and the time at which it was started, so nobody takes
 *      the probes of an iprobe that lives.
 *   2. The return probes are made, then the entry probes, all of them off. Of two probes at one
 *      place the kernel runs the one that was made last first: the entry probe sees the return
 *      address before the return probe changes it.
 *   3. They are switched on in the instance, which is off itself.
 *   4. The instance is removed, which switches them off; then the probes are.
 *
 * Killed between 2 and 4 we leave probes behind, and an instance in which they are on. The next
 * iprobe that records kernel events does step 1, and so does each iprobe detach of root's.
 *
 * A return probe has room for IP_KERNEL_RETURNS_MAX calls that are open at once, on the whole
 * machine. The return of a call beyond is missed, which the kernel counts: no end of that call is
 * in the trace, and readers take it for unknown.
 */
#ifndef IP_KERNEL_PROBES_H
#define IP_KERNEL_PROBES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/trace/kernel_functions.h"

struct tracefs_instance;

#define IP_KERNEL_RETURNS_MAX 512u

struct ip_kernel_probes {
	struct ip_kernel_functions functions; /* those that have probes, by number */
	char group[64], entry[48], exit[48];  /* names of the group and of its events */
};

/* Step 1. Returns how many groups were removed. tracefs must be open (tracefs_place.h), here and
 * below. */
size_t ip_kernel_probes_remove_left(void);

/* Step 2, for the functions that the patterns choose (function_choice.h). A notice tells which
 * cannot be. Returns 0, or -1 with an error: nothing is left behind then. */
int ip_kernel_probes_make(const char *patterns, struct ip_kernel_probes **ret);

/* Step 3. Returns 0, or -1 with an error. */
int ip_kernel_probes_enable(const struct ip_kernel_probes *probes,
			    struct tracefs_instance *instance);

/* How many returns were missed. */
uint64_t ip_kernel_probes_missed(const struct ip_kernel_probes *probes);

/* Step 4, behind the removal of the instance. Frees it. NULL is allowed. */
void ip_kernel_probes_remove(struct ip_kernel_probes *probes);

/* Checks whether this kernel has such probes. Returns 0, or -1 with an error that says what is
 * missing. */
int ip_kernel_probes_check(void);

/* Reads the names of group and event of a line of kprobe_events, "r512:GROUP/EVENT ...". Returns
 * whether the group is that of a process; *ret_pid and *ret_started tell which. group and event
 * have room for size bytes each. */
bool ip_kernel_probes_parse(const char *line, char *group, char *event, size_t size, int *ret_pid,
			    uint64_t *ret_started);

#endif
