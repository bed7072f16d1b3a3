/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes that a worker has asked the reader of kernel events for, and what is known of them
 * from when they joined. One thread takes them in, another one reads their events: what both look
 * at is atomic.
 */
#ifndef IP_EVENT_TARGETS_H
#define IP_EVENT_TARGETS_H

#include "common/trace/kernel_format.h"
#include "kernel_trace/users/event_filter.h"
#include "kernel_trace/users/event_queues.h"
#include "kernel_trace/users/event_reader.h"

struct ip_event_target {
	pid_t pid;	   /* atomic; 0: another one has its number by now */
	uint64_t asked;	   /* when the check of it began that joins */
	uint64_t executed; /* when it has executed a program last, or may have */
	bool refused;	   /* it was */
	bool strange; /* atomic: under its number may be another, or it may not be shown any more */
};

struct ip_event_targets {
	const struct ip_event_reader_options *options;
	struct ip_event_filter *filter;
	struct ip_event_queues *queues; /* whose bound holds for begin, too */
	struct ip_event_target items[IP_EVENT_TARGETS_MOST];
	size_t n;			 /* atomic */
	struct ip_event_target *reading; /* of which the beginning is told; NULL: none */
	struct ip_event_queue begin;	 /* what was so at the beginning */
};

/* NULL: there is none. */
struct ip_event_target *ip_event_targets_find(struct ip_event_targets *targets, pid_t pid);
bool ip_event_target_is_strange(const struct ip_event_target *target);
void ip_event_target_set_strange(struct ip_event_target *target);
bool ip_event_target_is_gone(const struct ip_event_targets *targets,
			     const struct ip_event_target *target);

/* The process of that number, which is held from here on. Where an older one had it, that one is
 * not asked for any more. NULL with an error. */
struct ip_event_target *ip_event_targets_take(struct ip_event_targets *targets, pid_t pid);

/* What was so when a process was taken in. Returns 0, or -1 with an error. */
int ip_event_targets_begin_state(struct ip_event_targets *targets, const uint8_t *event,
				 size_t size);
/* Looks at an event for what says that a process executes a program. */
void ip_event_targets_note(struct ip_event_targets *targets,
			   const struct ip_kernel_event_header *header, const uint8_t *event);
/* Events were lost up to tsc. */
void ip_event_targets_note_loss(struct ip_event_targets *targets, uint64_t tsc);

/* Sends what was so at the beginning, when processes have been checked once more. until: all events
 * before that have come. all: whether they have or not. Returns 0, or -1 with an error. */
int ip_event_targets_send_begin(struct ip_event_targets *targets, int socket, uint64_t until,
				bool all);
void ip_event_targets_clear(struct ip_event_targets *targets);

#endif
