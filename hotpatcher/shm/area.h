/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracer's side of the area: the memory that the runtime shares with the collector. The target
 * can overwrite it at any time, so each function that uses an index from it checks the index.
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

/* A session has at least so many sub-buffers, which hooks may take. */
#define IP_SUBBUFS_LEAST 2u

struct ip_area {
	int fd;
	size_t mapped;	   /* bytes mapped here */
	uint64_t window;   /* bytes that the target has mapped, from the start to the end */
	uint64_t most;	   /* bytes that it can have mapped; no session can use more */
	bool tables;	   /* the target has the tables mapped (ip_area_look()) */
	uint32_t nsubbufs; /* number in the current session; some may not be allocated yet */
	uint32_t ngrown;   /* allocated, and handed to the runtime */
	/* of the first sub-buffers, while it goes on; NULL: none does */
	struct ip_area_allocation *allocation;
	int allocation_error;	 /* errno: the memory of the session is not there */
	struct ip_blocks blocks; /* of meters; the target can overwrite the header's copy */
	uint32_t numbers;	 /* all probe numbers below it have duties */
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
	uint32_t *duties;	     /* by probe number */
	struct ip_area_trace *trace; /* see area_trace.h */
	struct ip_area_clock *clock;
	struct ip_filters *filters;
	struct ip_filter_rule *rules; /* by probe number */
	uint32_t nrules;	      /* number in the current session */
	uint32_t nprograms;	      /* number in the current session */
	/* the module's payload numbers have a meaning in the current session */
	bool bound[IP_AREA_MODULES];
	char *data;
	/* Returns whether a process of the family, other than except, has the module of the entry
	 * mapped at the entry's address. If so, the entry stays as it is. NULL: the area belongs to
	 * one process */
	bool (*elsewhere)(void *data, const struct ip_target *except,
			  const struct ip_area_module *entry);
	void *elsewhere_data;
};

/* Makes an area for a process that is about to be started. memory: bytes for sub-buffers. */
int ip_area_create(uint64_t memory, struct ip_area **ret);

/* Opens the area of a target that has the runtime. */
int ip_area_open(const struct ip_target *target, struct ip_area **ret);
void ip_area_close(struct ip_area *area);

/* Looks anew at what the target has mapped of the area, by the maps that were read last. Returns 0,
 * or -1 with an error: the area is not mapped any more. */
int ip_area_look(struct ip_area *area, const struct ip_target *target);

/* Returns whether an iprobe has the session. */
bool ip_area_has_session(const struct ip_area *area);
/* Asks the kernel whether the process has an open file that holds the session lock. Returns 1: it
 * has; 0: it has not; -1: this cannot be seen. */
int ip_area_held_by(const struct ip_area *area, pid_t pid);
/* Returns the process id of the iprobe that has the session. Returns 0 if the id in the area is
 * wrong. */
pid_t ip_area_owner(const struct ip_area *area);

/* The session is about to end; its trace is closed. */
void ip_area_set_ended(struct ip_area *area);
void ip_area_set_written(struct ip_area *area);
/* How long a command waits until an iprobe whose session ends has written its trace. */
#define IP_AREA_WRITTEN_NS 3000000000ull
/* Waits, for limit_ns at most, until an iprobe whose session ends has written its trace. Returns 0:
 * it has, or no session is about to end; else the iprobe that is still writing. */
pid_t ip_area_await_written(const struct ip_area *area, uint64_t limit_ns);
/* Takes the session lock. Returns 0; 1: another iprobe holds it; -1 with an error. */
int ip_area_try_session(struct ip_area *area, pid_t pid);
/* Takes the session lock. Returns 0, or -1 with an error, also if another iprobe holds it. The lock
 * is released when the area is closed, or when this process ends. */
int ip_area_lock_session(struct ip_area *area, pid_t pid);
/* Take and release the lock that guards changes of text. Taking it waits for up to a second. */
int ip_area_lock_patch(struct ip_area *area, pid_t pid);
/* Tries to take that lock without waiting. Returns 1: taken; 0: another iprobe holds it; -1 with an
 * error. */
int ip_area_try_patch(struct ip_area *area, pid_t pid);
void ip_area_unlock_patch(struct ip_area *area);

/* What a session needs from the area. */
struct ip_area_needs {
	uint64_t memory; /* bytes, for sub-buffers and meters */
	uint32_t modes;	 /* IP_MODE_... */
	/* for IP_MODE_PAYLOADS: bytes of room in each block; whether durations are measured; the
	 * limit that all probe numbers lie below */
	uint64_t room;
	bool frames;
	uint32_t numbers;
	/* the tables are needed, whatever the modes are: forked children inherit what is mapped now
	 */
	bool tables;
};

/* Tells what the target must have mapped when such a session begins: bytes from the start, and
 * whether the tables. Returns -1 with an error if no area is large enough. */
int ip_area_plan(struct ip_area *area, pid_t pid, const struct ip_area_needs *needs,
		 uint64_t *ret_size, bool *ret_tables);
/* Returns the bytes from the start to the end of an area in which a session that logs has so many
 * bytes of memory. */
uint64_t ip_area_size_for(uint64_t memory);

/* Starts a session with empty slots, a pool of sub-buffers and blocks of meters. Meters are all
 * allocated and zero. Of the sub-buffers, as many are allocated as last for a while; this may still
 * go on until ip_area_await_allocated(). The caller must hold the session lock, and the gate must
 * be closed. Sets header->session. The duty of every number is to log, until ip_area_set_duty(). */
int ip_area_begin(struct ip_area *area, pid_t pid, const struct ip_area_needs *needs);
/* To be called before the gate opens: waits until the first sub-buffers are allocated. Returns 0,
 * or -1 with an error: there is no memory for them, and the session cannot begin. */
int ip_area_await_allocated(struct ip_area *area, pid_t pid);
/* Returns the number that the next session will have. The caller must hold the session lock. */
uint32_t ip_area_next_session(const struct ip_area *area);
/* Allocates some more of the pool, and only then hands it to the runtime. Returns 1: call it again,
 * there is more to come; 0: the pool is complete; -1 with an error: there is no memory for the
 * rest, and the session goes on without it. */
int ip_area_grow(struct ip_area *area, pid_t pid);

/* Sets what a probe number does from now on: enum ip_duty, with the offset of what it counts in; 0
 * for other duties. */
void ip_area_set_duty(struct ip_area *area, uint32_t number, uint32_t duty, uint32_t offset);
/* Returns block i of meters, i below area->blocks.all. Threads without a block share block 0. */
struct ip_meters *ip_area_meters(const struct ip_area *area, uint32_t i);

/* Goes on with a session of an iprobe that was killed. The caller must hold the session lock. */
int ip_area_resume(struct ip_area *area, pid_t pid, uint32_t session);

/* For values (common/abi/values.h): allocates memory for nprograms more programs, and for all
 * payload numbers below npayloads. Returns -1 with an error if there is no memory. */
int ip_area_reserve_values(struct ip_area *area, uint32_t npayloads, uint32_t nprograms);
/* Adds a program to the session. There must be room for it. Returns the number that
 * ip_payload.program has. */
uint32_t ip_area_add_program(struct ip_area *area, const struct ip_value_program *program);

/* Forgets the stubs after an exec of the process. Numbers that were given stay taken. */
void ip_area_forget_stubs(struct ip_area *area);

/* Gives the pool's memory back to the kernel. No hook may be in flight. */
void ip_area_end(struct ip_area *area);

#endif
