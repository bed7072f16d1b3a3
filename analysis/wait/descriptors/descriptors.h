/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the descriptors of the target's processes were: DIR/iprobe/descriptors
 * (common/trace/trace_format.h). The file is input from outside: lines that are none are passed
 * over and counted.
 */
#ifndef IP_DESCRIPTORS_H
#define IP_DESCRIPTORS_H

#include <stddef.h>
#include <stdint.h>

#include "analysis/wait/descriptors/call_paths.h"
#include "analysis/wait/wait_object.h"

struct ip_descriptor {
	uint64_t from; /* TSC: it was made then, or was there before */
	uint64_t to;   /* it was closed, or given to something else */
	uint32_t pid;
	int32_t fd;
	enum ip_wait_kind kind; /* of what waits for it */
	const char *text;	/* "/var/log/x", "tcp 127.0.0.1:80 - 127.0.0.1:4711" */
};

struct ip_descriptors {
	struct ip_descriptor *items; /* by pid, descriptor, from */
	size_t n;
	size_t invalid;			/* lines */
	struct ip_call_paths paths;	/* that system calls were given */
	uint64_t first;			/* TSC: what was there at the beginning was noted then */
	char *memory;			/* of the texts */
	struct ip_inherited *inherited; /* NULL: what children inherit is not known */
	/* what those are that have no line; NULL: that is not known */
	struct ip_descriptor_births *births;
};

/* Reads the file of a trace, where it has one: else the result is empty. Returns 0, or -1 with an
 * error. */
int ip_descriptors_read(const char *dir, struct ip_descriptors *ret);
/* The same from memory, which it changes. name: for messages. */
int ip_descriptors_parse(char *text, struct ip_descriptors *ret);
void ip_descriptors_clear(struct ip_descriptors *descriptors);

/* Ends what was closed. pid_of: the process of a thread at a time; 0: not known, then of any
 * process. */
struct ip_closing;
void ip_descriptors_end(struct ip_descriptors *descriptors, const struct ip_closing *closings,
			size_t n,
			uint32_t (*pid_of)(const void *context, int32_t tid, uint64_t tsc),
			const void *context);

/* What a descriptor was at a time, or when what was there at the beginning was noted, if that is
 * later (at time 0: what the process had at its beginning); NULL: not known. */
const struct ip_descriptor *ip_descriptors_find(const struct ip_descriptors *descriptors,
						uint32_t pid, int32_t fd, uint64_t tsc);

/* The kind of a descriptor at a time, also of one that has no line; IP_WAIT_OTHER: not known. */
enum ip_wait_kind ip_descriptors_kind(const struct ip_descriptors *descriptors, uint32_t pid,
				      int32_t fd, uint64_t tsc);

#endif
