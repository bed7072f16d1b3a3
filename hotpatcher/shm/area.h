/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our side of the area: the memory that the runtime shares with the collector.
 * What it holds may have been scribbled over by the target: indexes are checked by who uses them.
 */
#ifndef IP_AREA_H
#define IP_AREA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/abi/area.h"
#include "common/abi/filters.h"
#include "common/abi/meters.h"
#include "common/abi/ring.h"
#include "common/abi/values.h"
#include "hotpatcher/process/target.h"
#include "hotpatcher/shm/meter_blocks.h"

struct ip_area {
	int fd;
	size_t mapped;	   /* bytes mapped here */
	uint64_t window;   /* bytes that the target has mapped: no session can use more */
	uint32_t nsubbufs; /* of the current session, those included that are not allocated yet */
	uint32_t ngrown;   /* allocated, and handed to the runtime */
	struct ip_blocks blocks; /* of meters; what the header says can be scribbled over */
	uint32_t numbers;	 /* below which all have duties */
	/* as in struct ip_rt_private (bounds.h) */
	uint32_t modes, user_scratch, fperf, fperf_pmu, fperf_counters, fperf_reads;
	bool may_read;
	struct ip_area_header *header;
	struct ip_area_module *modules;
	struct ip_slot *slots;
	struct ip_subbuf *subbufs;
	uint32_t *firsts; /* payload numbers, by module */
	struct ip_payload *payloads;
	struct ip_value_program *programs;
	uint32_t *duties; /* by probe number */
	struct ip_area_clock *clock;
	struct ip_filters *filters;
	struct ip_filter_rule *rules; /* by probe number */
	uint32_t nrules;	      /* of the current session */
	uint32_t nprograms;	      /* of the current session */
	/* payload numbers of the module have a meaning in the current session */
	bool bound[IP_AREA_MODULES];
	char *data;
	/* Whether a process of the family other than the one has the module of the entry mapped
	 * where the entry says: then the entry stays as it is. NULL: the area is one process's */
	bool (*elsewhere)(void *data, const struct ip_target *except,
			  const struct ip_area_module *entry);
	void *elsewhere_data;
};

/* Makes an area for a process that is about to be launched. memory: bytes for sub-buffers. */
int ip_area_create(uint64_t memory, struct ip_area **ret);

/* Opens the area of a target that has the runtime. */
int ip_area_open(const struct ip_target *target, struct ip_area **ret);
void ip_area_close(struct ip_area *area);

/* Whether an iprobe has the session. */
bool ip_area_has_session(const struct ip_area *area);
/* Whether the process has an open file that holds the session lock, by the kernel's word. -1: that
 * is not to be seen. */
int ip_area_held_by(const struct ip_area *area, pid_t pid);
/* The iprobe that has the session; 0 where what the area says of it is not so. */
pid_t ip_area_owner(const struct ip_area *area);
/* Takes the session lock; 1 where another iprobe holds it. */
int ip_area_try_session(struct ip_area *area, pid_t pid);
/* The same; -1 where another iprobe holds it. Released by close or death. */
int ip_area_lock_session(struct ip_area *area, pid_t pid);
/* Takes (waits for up to a second) and releases the lock that guards changes of text. */
int ip_area_lock_patch(struct ip_area *area, pid_t pid);
/* The same without waiting. 1: ours; 0: another's; -1. */
int ip_area_try_patch(struct ip_area *area, pid_t pid);
void ip_area_unlock_patch(struct ip_area *area);

/* What a session needs of the area. */
struct ip_area_needs {
	uint64_t memory; /* bytes, for sub-buffers and meters */
	uint32_t modes;	 /* IP_MODE_... */
	/* IP_MODE_PAYLOADS: bytes of room in each block, whether durations are measured; all probe
	 * numbers are below numbers */
	uint64_t room;
	bool frames;
	uint32_t numbers;
};

/* Starts a session with empty slots, a pool of sub-buffers and blocks of meters, allocated and
 * zero: all meters, and as many sub-buffers as are used up only after a while. The session lock
 * must be held and the gate be closed. Sets header->session. Every number's duty is to log,
 * until ip_area_set_duty(). */
int ip_area_begin(struct ip_area *area, pid_t pid, const struct ip_area_needs *needs);
/* The number that it will have; the session lock must be held. */
uint32_t ip_area_next_session(const struct ip_area *area);
/* Allocates some more of the pool, and only then hands it to the runtime. 1: call again, there
 * is more to come; 0: all is there; -1: there is no memory for the rest, the session goes on
 * without it. */
int ip_area_grow(struct ip_area *area, pid_t pid);

/* Says what a probe number does from now on: enum ip_duty, with the offset of what it counts in, 0
 * for the others. */
void ip_area_set_duty(struct ip_area *area, uint32_t number, uint32_t duty, uint32_t offset);
/* Block i of meters, 0 being the one that threads without a block share; below area->blocks.all. */
struct ip_meters *ip_area_meters(const struct ip_area *area, uint32_t i);

/* Goes on with that session, of an iprobe that was killed. The session lock must be held. */
int ip_area_resume(struct ip_area *area, pid_t pid, uint32_t session);

/* Values (common/abi/values.h). Allocates memory for n more programs and all payload numbers
 * below npayloads; -1 with an error where there is none. */
int ip_area_reserve_values(struct ip_area *area, uint32_t npayloads, uint32_t nprograms);
/* Adds a program to the session, for which there is room. The number that ip_payload.program
 * has. */
uint32_t ip_area_add_program(struct ip_area *area, const struct ip_value_program *program);

/* The process has exec'ed: its stubs are gone. Numbers that were given stay taken. */
void ip_area_forget_stubs(struct ip_area *area);

/* Gives the pool's memory back. No hook may be in flight. */
void ip_area_end(struct ip_area *area);

#endif
