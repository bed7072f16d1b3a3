/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the events of the kernel in a trace (common/trace/kernel_format.h), of all CPUs in the
 * order of their times.
 *
 * The files are input from outside. A stream is read up to the first thing in it that cannot be;
 * ip_kernel_reader_damage() tells what that is.
 */
#ifndef IP_KERNEL_READER_H
#define IP_KERNEL_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/trace/kernel_format.h"

/* The id of a record that is no event: what happened on the CPU from lost_since to tsc is not
 * known; lost is 0 where nothing was recorded meanwhile (a gap). all: in any process; else of the
 * target's threads alone. */
#define IP_KERNEL_LOST UINT16_MAX

struct ip_kernel_record {
	uint64_t tsc;
	uint64_t lost_since, lost; /* of IP_KERNEL_LOST: since when, how many */
	const uint8_t *fields;	   /* valid until the next call; as long as the id says */
	int32_t tid;		   /* of the thread that ran */
	uint32_t cpu;
	uint32_t size; /* of the fields */
	uint16_t id;
	uint8_t context; /* IP_KERNEL_IN_* */
	bool all;	 /* it stands in a stream of all processes */
};

struct ip_kernel_reader;

/* Opens the events of a trace. dir: the trace. Returns 1; 0: it has none; -1 with an error. */
int ip_kernel_reader_open(const char *dir, struct ip_kernel_reader **ret);
void ip_kernel_reader_close(struct ip_kernel_reader *reader);

/* Has packets of several streams read and checked by other threads, at most jobs - 1, while this
 * one merges their events: those are the same with any number. Once, before the first event is
 * read. Returns 0, or -1 with an error. */
int ip_kernel_reader_use_jobs(struct ip_kernel_reader *reader, unsigned jobs);

/* Is told of the events of a reading, one after the other. Returns 0, or -1 with an error, which
 * ends the reading. */
struct ip_kernel_observer {
	int (*take)(void *context, const struct ip_kernel_record *record);
	void *context;
};

/* Reads the next event. Returns 1; 0: there is no other; -1 with an error. */
int ip_kernel_reader_next(struct ip_kernel_reader *reader, struct ip_kernel_record *ret);

/* Since when the events of all CPUs are there, where older ones are gone (segments, a flight
 * recorder); 0: since the recording began. A stream's first record is IP_KERNEL_LOST then. TSC. */
uint64_t ip_kernel_reader_begin(const struct ip_kernel_reader *reader);
/* Up to when the events of all CPUs were read: behind it something may be missing. TSC. */
uint64_t ip_kernel_reader_end(const struct ip_kernel_reader *reader);

/* What is wrong with the streams that were read up to now, a line each; NULL behind the last. */
const char *const *ip_kernel_reader_damage(const struct ip_kernel_reader *reader);

/* Fields of an event, by their place in it (kernel_format.h). */
static inline int32_t ip_kernel_s32(const struct ip_kernel_record *record, size_t at)
{
	int32_t value;

	__builtin_memcpy(&value, record->fields + at, sizeof(value));
	return value;
}

static inline uint64_t ip_kernel_u64(const struct ip_kernel_record *record, size_t at)
{
	uint64_t value;

	__builtin_memcpy(&value, record->fields + at, sizeof(value));
	return value;
}

#endif
