/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording without a process, for tests of what is made of rings and meters: an area whose
 * session has begun, a trace in a directory of its own, a collector between the two, and a fake
 * target (fake_target.h), which is alive for as long as the test is. Slots and sub-buffers are as
 * threads of the target would leave them: the test says how.
 */
#ifndef TEST_FAKE_RECORDING_H
#define TEST_FAKE_RECORDING_H

#include "collector/collector.h"
#include "common/trace/trace_format.h"
#include "test/unit/fake_target.h"

struct fake_recording {
	struct ip_target *target;
	struct ip_area *area;
	struct ip_trace *trace;
	struct ip_collector *collector;
	char dir[64];
};

/* max_size: of the trace, bytes. fake_recording_end() ends it, and removes the directory. */
void fake_recording_begin(struct fake_recording *r, const struct ip_area_needs *needs,
			  uint64_t max_size);
void fake_recording_end(struct fake_recording *r);

/* A thread has claimed the slot, and has no sub-buffer yet. */
void fake_thread_claim(struct fake_recording *r, uint32_t slot, uint32_t tid);
/* It takes the sub-buffer, as its ordinal-th, and has filled n words of it, word 0 included. */
void fake_thread_take(struct fake_recording *r, uint32_t slot, uint32_t subbuf, uint64_t ordinal,
		      uint32_t n);
/* It has no room left in it: it goes to no other. */
void fake_thread_leave(struct fake_recording *r, uint32_t slot, uint64_t ordinal);

/* The words of a sub-buffer. */
uint64_t *fake_words(const struct fake_recording *r, uint32_t subbuf);
/* Puts one event there; the index of the next word. */
uint32_t fake_put_extended(uint64_t *words, uint32_t at, uint64_t time, uint32_t number);
uint32_t fake_put_compact(uint64_t *words, uint32_t at, uint64_t time, uint32_t number);
/* n words, word 0 included, of events from time on, one a tick. Their number. */
uint32_t fake_fill(uint64_t *words, uint32_t n, uint64_t time);

/* The header of the packet'th packet of a slot's stream. False: there is none. */
bool fake_packet(const struct fake_recording *r, uint32_t slot, unsigned packet,
		 struct ip_packet_header *ret);

#endif
