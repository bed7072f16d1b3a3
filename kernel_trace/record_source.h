/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where records of tracepoints come from: instances of tracefs (tracefs_source.h), or events of
 * perf_event_open(2) (perf_source.h) where such an instance cannot be made. Both give records as
 * the kernel lays them out (event_layout.h), with the time of the TSC, from one buffer for each CPU
 * and part.
 */
#ifndef IP_RECORD_SOURCE_H
#define IP_RECORD_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What is recorded of any process, and what of the target's threads. */
enum ip_record_part { IP_RECORD_ALL, IP_RECORD_TARGET, IP_RECORD_PARTS };

/* Which of them --kernel-source asks for. */
enum ip_kernel_source { IP_KERNEL_SOURCE_AUTO, IP_KERNEL_SOURCE_TRACEFS, IP_KERNEL_SOURCE_PERF };

struct ip_kernel_probes;
struct ip_tracepoint;

struct ip_record_sink {
	/* The next record of the buffer. A negative value ends the reading. */
	int (*record)(void *context, const void *record, size_t size, uint64_t tsc);
	/* Behind the last record so many were lost in all; more than before, though the number may
	 * be no greater. */
	int (*lost)(void *context, uint64_t total);
	void *context;
};

/* Operations of a source. Those that fail return -1 with an error, unless told otherwise. They are
 * called by one thread at a time. */
struct ip_record_source {
	const struct ip_record_source_ops *ops;
};

struct ip_thread_filter;

struct ip_record_source_ops {
	const char *name; /* as --kernel-source has it */
	/* TSC ticks by which times of records may be wrong, beside those of hooks. */
	uint64_t imprecision;
	/* Makes the part's buffers of all CPUs; nothing is recorded yet. size: bytes for each CPU.
	 */
	int (*make)(struct ip_record_source *source, enum ip_record_part part, size_t size);
	/* Asks for the records of a tracepoint that the kernel has; before switch_on(). */
	int (*enable)(struct ip_record_source *source, enum ip_record_part part,
		      const struct ip_tracepoint *tracepoint);
	/* Asks for the calls of the kernel's functions that have these probes, of the target's
	 * part; before switch_on(). NULL: this source has no such. */
	int (*enable_probes)(struct ip_record_source *source,
			     const struct ip_kernel_probes *probes);
	/* The process' threads, and those that they make, are the target's from now on: before
	 * switch_on() of that part, and behind it. */
	int (*limit)(struct ip_record_source *source, pid_t pid);
	/* Passes the threads that are the target's now to each(), of which a negative value ends
	 * it. Returns 1: they are not known. */
	int (*list)(const struct ip_record_source *source, int (*each)(void *context, pid_t tid),
		    void *context);
	/* The set of these threads, which programs of BPF keep; NULL, also the operation: there is
	 * none. The source owns it. */
	struct ip_thread_filter *(*threads)(const struct ip_record_source *source);
	int (*switch_on)(struct ip_record_source *source, enum ip_record_part part);
	/* Nothing more is recorded, of any part. */
	int (*switch_off)(struct ip_record_source *source);
	/* A descriptor that poll(2) finds readable when the buffer has filled up by a quarter; -1:
	 * there is none now. */
	int (*poll_fd)(const struct ip_record_source *source, enum ip_record_part part,
		       unsigned cpu);
	/* Takes what is in a buffer, up to a limit. Returns 1: there is more; 0; -1 with an error.
	 */
	int (*drain)(struct ip_record_source *source, enum ip_record_part part, unsigned cpu,
		     const struct ip_record_sink *taker);
	/* Of the target's part: whether the event (common/trace/kernel_format.h) belongs to its
	 * threads. NULL: all do. */
	bool (*wants)(const struct ip_record_source *source, const uint8_t *event, size_t size);
	/* Whether records may be missing that nothing counts. The first time a notice tells why.
	 * NULL: never. */
	bool (*misses)(struct ip_record_source *source);
	/* How many records of a buffer that is empty and off were lost in all. */
	uint64_t (*lost)(const struct ip_record_source *source, enum ip_record_part part,
			 unsigned cpu);
	/* In a process that was forked meanwhile: closes what would keep buffers in being. */
	void (*leave)(const struct ip_record_source *source);
	/* Removes the buffers, and frees the source. */
	void (*destroy)(struct ip_record_source *source);
};

/* CPUs that the machine may have, up to as many as a trace may have. */
unsigned ip_record_cpus(void);

/* Reads "auto", "tracefs", "perf". Returns 0, or -1 with an error. */
int ip_kernel_source_parse(const char *text, enum ip_kernel_source *ret);

#endif
