/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the running kernel lays out the records of its tracepoints, and what we keep of them
 * (common/trace/kernel_format.h). libtraceevent reads the layout; records are taken by offsets.
 */
#ifndef IP_EVENT_LAYOUT_H
#define IP_EVENT_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/arch/syscalls.h"
#include "common/trace/kernel_format.h"

struct ip_event_layout;

/* A tracepoint that the kernel has. */
struct ip_tracepoint {
	const char *system, *name;
	uint16_t type; /* its number in this kernel, which its records begin with */
	uint16_t size; /* of a record; of one that ends with texts, without these */
	enum ip_kernel_group group;
};

/* The largest event that ip_event_convert() makes. */
#define IP_EVENT_SIZE_MAX 256

/* Reads the layout. The kernel's tracefs must be open (tracefs_place.h). Returns NULL with an
 * error. */
struct ip_event_layout *ip_event_layout_read(void);
void ip_event_layout_free(struct ip_event_layout *layout);

/* Reads the layout of the events of functions (kernel_probes.h), too. Returns 0, or -1 with an
 * error. */
struct ip_kernel_probes;
int ip_event_layout_add_functions(struct ip_event_layout *layout,
				  const struct ip_kernel_probes *probes);

/* Tracepoints of the groups (bits of enum ip_kernel_group) that this kernel does not have, or has
 * in a form that is not known: "irq:softirq_entry, irq:softirq_exit". Their events are missing.
 * malloc'ed; "": none. NULL with an error. */
char *ip_event_layout_missing(const struct ip_event_layout *layout, unsigned groups);

/* The tracepoint of an event, or of the entries (IP_KERNEL_SYSCALL_ENTRY) or exits of all system
 * calls. NULL: this kernel does not have it in a form that is known. */
const struct ip_tracepoint *ip_event_layout_tracepoint(const struct ip_event_layout *layout,
						       unsigned id);

/* Where a field of the event (its number in kernel_format.h) stands in the records of such a
 * tracepoint. */
unsigned ip_event_layout_offset(const struct ip_event_layout *layout, unsigned id, unsigned field);

/* Whether records of the tracepoint of an event (enum ip_kernel_event) become events. */
bool ip_event_layout_has(const struct ip_event_layout *layout, unsigned id);

/* Writes the event that a record is into out, which has room for IP_EVENT_SIZE_MAX bytes. Returns
 * its size; 0: the record is none of those that are kept. */
size_t ip_event_convert(const struct ip_event_layout *layout, const void *record, size_t size,
			uint64_t tsc, uint8_t *out);

/* Whether a system call is one of iprobe's code in the process (common/abi/own_call.h). The mark is
 * taken out of its arguments. */
bool ip_event_take_own_mark(uint64_t number, uint64_t arguments[IP_SYSCALL_ARGUMENTS]);

#endif
