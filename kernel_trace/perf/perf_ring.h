/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring in which perf_event_open(2) leaves the samples of one CPU: PERF_SAMPLE_TIME and
 * PERF_SAMPLE_RAW, which is the record of a tracepoint. Nothing outside of the ring is read, nor
 * written, whatever stands in it.
 *
 * Protocol:
 *
 *   1. data_head is read. Up to there the kernel has written.
 *   2. What lies between data_tail and data_head is gathered, put in order of time, and passed on:
 *      an interrupt may have left its samples before that of what it has interrupted.
 *   3. data_head is read again. If the ring was as good as full then, something may be lost which
 *      the kernel tells no earlier than with its next sample (PERF_RECORD_LOST): it is passed on as
 *      a loss.
 *   4. data_tail is written: the kernel may overwrite what lies before.
 */
#ifndef IP_PERF_RING_H
#define IP_PERF_RING_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel_trace/record_source.h"

struct ip_perf_clock;

#define IP_PERF_RECORD_MOST (64u << 10) /* the size of a record has 16 bits */
#define IP_PERF_BATCH	    4096u

/* What rings that are read one after the other have in common. */
struct ip_perf_batch {
	struct ip_perf_sample {
		uint64_t ns;
		const uint8_t *record;
		uint32_t size;
	} samples[IP_PERF_BATCH];
	uint8_t copy[IP_PERF_RECORD_MOST]; /* of the record that goes round the ring's end */
};

struct ip_perf_ring {
	struct perf_event_mmap_page *page;
	const uint8_t *data;
	uint64_t size;	      /* of data; a power of two */
	uint64_t from, until; /* TSC: samples of other times are left out */
	uint64_t lost;
	uint64_t full_head; /* of step 3: where the ring was full */
	bool unsure;	    /* something may be lost behind it */
	bool told;	    /* the sink was told of that */
};

/* page: borrowed; data: size bytes, borrowed. Samples of all times are taken. */
void ip_perf_ring_init(struct ip_perf_ring *ring, struct perf_event_mmap_page *page,
		       const uint8_t *data, uint64_t size);

/* Steps 1 to 4. Returns 1: there is more; 0; -1 with an error: the ring holds what cannot be, or
 * the taker has failed. */
int ip_perf_ring_read(struct ip_perf_ring *ring, struct ip_perf_batch *batch,
		      struct ip_perf_clock *clock, const struct ip_record_sink *taker);

/* How many samples were lost in all; 1 more where that is not certain. */
uint64_t ip_perf_ring_lost(const struct ip_perf_ring *ring);

#endif
