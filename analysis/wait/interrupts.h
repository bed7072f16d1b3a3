/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interrupts that came while a thread ran: which, when, and for how long the kernel handled them.
 *
 * An interrupt that comes while another one is handled is a part of that.
 */
#ifndef IP_INTERRUPTS_H
#define IP_INTERRUPTS_H

#include <stddef.h>
#include <stdint.h>

#include "analysis/read/kernel_reader.h"
#include "analysis/wait/number_map.h"

struct ip_interrupt {
	uint64_t from, to; /* TSC */
	uint64_t before;   /* ticks in the interrupts of the thread that came before it */
	int32_t tid;	   /* of the thread that ran */
	int32_t line;	   /* of a software interrupt its kind; -1: it has none */
	uint16_t event;	   /* enum ip_kernel_event: that by which it began */
};

/* What CPUs are in, as the events tell one after the other. All zero: in nothing. */
struct ip_interrupt_stacks {
	struct ip_interrupt_cpu *cpus;
	size_t ncpus;
};

/* Takes an event, in the order of time. Returns 1 where an interrupt has ended with it: *ret
 * without before, *ret_depth: in how many others it came; 0 in any other case; -1 with an error.
 * What was open where events were lost has no end. */
int ip_interrupt_stacks_take(struct ip_interrupt_stacks *stacks,
			     const struct ip_kernel_record *record, struct ip_interrupt *ret,
			     unsigned *ret_depth);
void ip_interrupt_stacks_clear(struct ip_interrupt_stacks *stacks);

/* Those that came in no other one. Software interrupts in a system call are left out, as far as
 * calls are known: the call itself may have raised them, as send(2) to this machine does. */
struct ip_interrupts {
	struct ip_interrupt *items; /* by thread, then by time */
	size_t n;
	struct ip_interrupt_line {
		int32_t line;
		char name[16]; /* as the kernel has it; it may have no end */
	} * lines;
	size_t nlines;
};

/* Takes them from a reading that is for others, too. */
struct ip_interrupt_observer {
	struct ip_interrupts *to;
	struct ip_interrupt_stacks stacks;
	struct ip_number_map calls; /* threads that are in a system call have a 1 */
};

/* *ret: the caller clears it in any case; it must outlive the observer, which is ended in any case.
 */
void ip_interrupt_observer_begin(struct ip_interrupt_observer *observer, struct ip_interrupts *ret);
/* context: the observer. See struct ip_kernel_observer. */
int ip_interrupt_observer_take(void *context, const struct ip_kernel_record *record);
/* All events were taken: *ret is complete. */
void ip_interrupt_observer_end(struct ip_interrupt_observer *observer);

/* Reads those of a trace; none where it has no events of the kernel. dir: the trace. The caller
 * clears *ret in any case. Returns 0, or -1 with an error. */
int ip_interrupts_read(const char *dir, struct ip_interrupts *ret);
void ip_interrupts_clear(struct ip_interrupts *interrupts);

/* Those of one thread: the first of *ret_n. */
const struct ip_interrupt *ip_interrupts_of(const struct ip_interrupts *interrupts, int32_t tid,
					    size_t *ret_n);

/* Of some of one thread: index of the first one that ends behind a time; n: none does. */
size_t ip_interrupts_behind(const struct ip_interrupt *items, size_t n, uint64_t tsc);

#define IP_INTERRUPT_NAME_MAX 64u

/* "interrupt 24 (virtio0)", "softirq NET_RX", "timer interrupt"; in buf, of that size. */
const char *ip_interrupt_name(const struct ip_interrupts *interrupts, uint16_t event, int32_t line,
			      char *buf);

#endif
