/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the end of a session took, and how long iprobe waited for a CPU. Where CPUs are busy and
 * iprobe may take no priority, a recording is longer than it was to be, and loses events that more
 * memory would not save: the summary tells that by these times.
 */
#ifndef IP_END_TIME_H
#define IP_END_TIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ip_session;

/* For the summary, in nanoseconds. */
struct ip_end_time {
	uint64_t noticed;	   /* from the end of --duration until the session saw it; else 0 */
	uint64_t restored;	   /* from then until the sites were put back */
	uint64_t written;	   /* from then until what the rings held was written */
	uint64_t queued;	   /* of these together iprobe waited for a CPU */
	uint64_t recording;	   /* from the start until the session saw that it was to end */
	uint64_t queued_recording; /* of that iprobe waited for a CPU */
	size_t in_vain;		   /* stops in which the sites could not be put back */
	bool prioritized;	   /* iprobe may take priority, and lend it (CAP_SYS_NICE) */
};

/* What the session notes until then. Zeroed at first. */
struct ip_end_time_notes {
	uint64_t start_queued;
	uint64_t noticed_ns, restored_ns; /* ip_now_ns(); 0: not yet */
	uint64_t noticed_queued;
	size_t noticed_in_vain;
};

/* The recording begins. */
void ip_end_time_start(struct ip_session *s);
/* The session sees that it is to end. */
void ip_end_time_notice(struct ip_session *s);
/* Nothing is recorded from now on: the recording ends here, whatever it takes to write it. */
void ip_end_time_idle(struct ip_session *s);
/* It had ended before that where an iprobe detach has put the sites back: the area tells when. The
 * session has an area. */
void ip_end_time_idle_elsewhere(struct ip_session *s);
/* Its sites are idle, or cannot become so. */
void ip_end_time_restore(struct ip_session *s);
/* All is written: fills in the summary, whose reason and stops are there. */
void ip_end_time_fill(struct ip_session *s);

#endif
