/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel's events tell of each thread over time, in bounded memory: states, system calls,
 * interrupts. The longest of each are kept one by one, all others are summed up in slices of time.
 */
#ifndef IP_THREAD_BARS_H
#define IP_THREAD_BARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/trace.h"
#include "analysis/wait/thread_states.h"

#define IP_BAR_THREADS 1000u /* the most threads: those with the most records */

/* Times in TSC. */
struct ip_thread_bar {
	uint64_t from, to;
	uint32_t thread; /* index into the threads */
	uint32_t number; /* of a system call; an interrupt: enum ip_kernel_event */
	int32_t other;	 /* of an interrupt: its line, its kind; -1: none */
	uint8_t state;	 /* enum ip_thread_state */
	const struct ip_thread_span *span; /* of a state */
};

struct ip_bar_set {
	struct ip_thread_bar *items; /* by thread, then by time */
	size_t n;
	uint64_t left_out; /* bars that are only in sums */
	uint64_t *sums;	   /* by thread, slice, state: ticks; NULL: all bars are kept */
	/* private: */
	size_t most, room;
};

struct ip_bar_thread {
	const struct ip_thread_packets *run;   /* the first one of the thread */
	const struct ip_thread_states *states; /* NULL: no kernel event is of it */
};

struct ip_thread_bars {
	struct ip_bar_thread *threads;
	size_t nthreads;
	size_t beyond; /* threads for which there was no room */
	struct ip_bar_set states, calls, interrupts;
	size_t nslices;
	uint64_t begin, ticks; /* the time that is divided into slices */
};

/* Collects the bars between begin and end of the trace, from states and the events of its kernel.
 * tid: of this thread only; 0: of all. states must outlive the bars. Returns NULL with an error. */
struct ip_thread_bars *ip_thread_bars_collect(const struct ip_trace_reader *trace,
					      const struct ip_states *states, uint32_t tid);
void ip_thread_bars_destroy(struct ip_thread_bars *bars);

#endif
