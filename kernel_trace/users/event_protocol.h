/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker of iprobed, which records events of the kernel for a user (worker_recorder.h), and
 * the process that may read these events (event_reader.h) tell each other, in packets of a
 * SOCK_SEQPACKET socket: a struct ip_event_message each, and what follows it.
 */
#ifndef IP_EVENT_PROTOCOL_H
#define IP_EVENT_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

#define IP_EVENT_PACKET_MAX (32u << 10)

enum ip_event_word {
	/* from the worker; each has one answer */
	IP_EVENT_BEGIN = 1, /* number: bits of enum ip_kernel_group; size: of the buffers */
	/* number: the process that the reader was started for, or any; size: 1: it is refused
	 * where its program is a 32-bit one */
	IP_EVENT_ADD,
	IP_EVENT_STOP, /* all that has happened comes before the answer */
	IP_EVENT_LOOK, /* number: as of IP_EVENT_BEGIN; nothing is changed */
	/* answers: what is missing, "" if nothing is (a sentence of IP_EVENT_BEGIN, a list of
	 * IP_EVENT_LOOK), or why not */
	IP_EVENT_DONE,
	IP_EVENT_REFUSED,
	/* from the reader, by itself */
	IP_EVENT_EVENTS, /* events of cpu (common/trace/kernel_format.h), one behind the other */
	IP_EVENT_LOST,	 /* events of cpu are missing behind those before */
	IP_EVENT_UNTIL,	 /* all events before size, a time of the TSC, have come */
	IP_EVENT_OVER,	 /* nothing more comes: why */
	/* from the worker, with an answer: all that has happened up to now comes before it, as far
	 * as it does within 3 s */
	IP_EVENT_FLUSH,
};

struct ip_event_message {
	uint32_t word;
	uint32_t cpu; /* IP_KERNEL_CPUS_MAX: what was so at the beginning */
	uint32_t all; /* 1: of all processes; 0: of the target */
	int32_t number;
	uint64_t size;
};

#endif
