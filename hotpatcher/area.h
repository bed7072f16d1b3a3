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

#include "common/rt_abi.h"
#include "hotpatcher/target.h"

struct ip_area {
	int fd;
	size_t mapped;	   /* bytes mapped here */
	uint64_t window;   /* bytes that the target has mapped: no session can use more */
	uint32_t nsubbufs; /* of the current session */
	struct ip_area_header *header;
	struct ip_area_module *modules;
	struct ip_slot *slots;
	struct ip_subbuf *subbufs;
	uint32_t *firsts; /* payload numbers, by module */
	struct ip_payload *payloads;
	struct ip_value_program *programs;
	uint32_t nprograms; /* of the current session */
	bool bound[IP_AREA_MODULES]; /* payload numbers of the module have a meaning in the current session */
	char *data;
};

/* Makes an area for a process that is about to be launched. memory: bytes for sub-buffers. */
int ip_area_create(uint64_t memory, struct ip_area **ret);

/* Opens the area of a target that has the runtime. */
int ip_area_open(const struct ip_target *target, struct ip_area **ret);
void ip_area_close(struct ip_area *area);

/* Whether an iprobe has the session. */
bool ip_area_has_session(const struct ip_area *area);
/* Takes the session lock; 1 where another iprobe holds it. */
int ip_area_try_session(struct ip_area *area, pid_t pid);
/* The same; -1 where another iprobe holds it. Released by close or death. */
int ip_area_lock_session(struct ip_area *area, pid_t pid);
/* Takes (waits for up to a second) and releases the lock that guards changes of text. */
int ip_area_lock_patch(struct ip_area *area, pid_t pid);
void ip_area_unlock_patch(struct ip_area *area);

/* Starts a session with empty slots and a pool of memory bytes, allocated and zero. The session lock must be held and
 * the gate be closed. Sets header->session. */
int ip_area_begin(struct ip_area *area, pid_t pid, uint64_t memory);

/* Values (common/rt_abi.h). Allocates memory for n more programs and all payload numbers below npayloads; -1 with an error where there
 * is none. */
int ip_area_reserve_values(struct ip_area *area, uint32_t npayloads, uint32_t nprograms);
/* Adds a program to the session, for which there is room. The number that ip_payload.program has. */
uint32_t ip_area_add_program(struct ip_area *area, const struct ip_value_program *program);

/* The process has exec'ed: its stubs are gone. Numbers that were given stay taken. */
void ip_area_forget_stubs(struct ip_area *area);

/* Gives the pool's memory back. No hook may be in flight. */
void ip_area_end(struct ip_area *area);

#endif
