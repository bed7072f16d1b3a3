/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the runtime: what its files share. The runtime is freestanding: it calls nothing
 * outside of itself, so that it can be called from anywhere (signal handlers, a thread that is half
 * set up, code that runs before libc is ready) and traces nothing of itself.
 */
#ifndef RT_RT_H
#define RT_RT_H

#include <stddef.h>

#include "common/abi/anchor.h"
#include "common/abi/area.h"
#include "common/abi/filters.h"
#include "common/abi/ring.h"
#include "common/abi/values.h"

#define rt_unlikely(x) __builtin_expect(!!(x), 0)

/* What is not said to be hidden goes through a table of addresses, which an image without a loader
 * does not have. */
#ifdef RT_INJECTED
#pragma GCC visibility push(hidden)
#endif

/* Where the constructor mapped the pieces; constant after it. Valid only while rt_gate is not
 * NULL. */
extern volatile struct ip_gate *rt_gate;
extern struct ip_area_header *rt_header;
extern struct ip_slot *rt_slots;
extern struct ip_subbuf *rt_subbufs;
extern char *rt_data;
extern struct ip_payload *rt_payloads;
extern struct ip_value_program *rt_programs;
extern uint32_t *rt_duties;
extern struct ip_area_clock *rt_clock;
extern struct ip_rule *rt_rules;
extern struct ip_filters *rt_filters;

/* What bounds all that hooks read in the area. Written from outside. */
extern struct ip_rt_private rt_private;

static inline uint32_t rt_nsubbufs(void)
{
	return *(volatile uint32_t *)&rt_private.nsubbufs;
}

static inline int rt_may_read(void)
{
	return __atomic_load_n(&rt_private.may_read, __ATOMIC_ACQUIRE) != 0;
}

/* Makes a record of a probe. kind: enum ip_probe_kind; sp: as trace_format.h has it. Called by the
 * hooks. */
void rt_record(uint32_t number, uint32_t kind, uint64_t sp);

/* Of what starts the runtime: preload.c, static_entry.c or injected.c. */
extern struct ip_rt_anchor iprobe_rt_anchor;

/* Maps the area of a launcher, if it was made for this process. 1; 0: it was not. */
int rt_map_launched(const char *path);

enum rt_start {
	RT_PRELOADED, /* nothing else runs in the process yet */
	/* as well, and rt_map_launched() has mapped an area, where else one of our own is */
	RT_LAUNCHED,
	RT_WOKEN, /* by a borrowed thread, amid others */
};

/* Maps an area of the process's own. 1; 0: the anchor says why not. */
int rt_map_own_area(enum rt_start how);

/* Whether children that are forked from now on get the area. 0, or an error as of a system call. */
long rt_area_keep(int inherit);

/* In a forked child that has it: private zeros in its place. The same. */
long rt_area_disown(void);

/* Whether reading the processor's clock ends this thread, and those that it makes. What cannot be
 * known counts as a yes. */
int rt_clock_is_forbidden(void);

/* Sets everything up. executable: an address of the executable, for a pool near it;
 * library_pool: where the one for libraries is to be, 0: none. Fills the anchor in; waits for
 * the launcher if there is one. */
void rt_set_up(enum rt_start how, uint64_t executable, uint64_t library_pool);

/* Value of an environment variable, of an entry of the auxiliary vector behind the environment;
 * NULL, 0: not there. */
const char *rt_environment(char **envp, const char *name);
uint64_t rt_auxiliary(char **envp, uint64_t type);

/* Makes the room for stubs of one module executable: its program headers and where they are
 * loaded. Of all modules: the program headers of the executable, which may be NULL. */
void rt_stub_room_open(const void *headers, size_t n, uint64_t bias);
void rt_rooms_open(const void *headers, size_t n);

/* arch/ARCH/wake.S: what a borrowed thread runs, and the top of its stack, a struct ip_wake. */
extern const char rt_wake[], rt_wake_end[];
extern char rt_wake_block[];
void rt_wake_up(void);
/* What it does (static_entry.c, injected.c). */
void rt_wake_set_up(void);

/* Of a runtime that iprobe has put into a running process: what it has told it. */
extern struct ip_injection rt_injection;

/* arch/ARCH/flip.S: the same for changing mappings of text (remap.c); the block is a struct
 * ip_remap. */
extern const char rt_remap[], rt_remap_end[];
extern char rt_remap_block[];
void rt_remap_run(void);

/* arch/ARCH/again.S: where threads go on whose system call a stop broke off. */
extern const char rt_restart[], rt_restart_end[], rt_restart_slots[];

/* The same with values behind it (trace_format.h): the word that tells of them, and n words. */
struct rt_payload {
	uint64_t tells;
	const uint64_t *words;
	uint32_t n;
	/* whose signature and values they are: in another one the event comes without them */
	uint32_t session;
};
void rt_record_payload(uint32_t number, uint32_t kind, uint64_t sp,
		       const struct rt_payload *payload);

/* The session that records; 0: be silent. */
static inline uint32_t rt_session(void)
{
	return rt_gate ? rt_gate->session : 0;
}

/* For who finds the gate closed. A forked child of a session that follows forks opens it, for
 * itself; its number, or 0: be silent (claim.c). */
uint32_t rt_follow_fork(void);

/* A slot for this thread in the session of the gate; NULL: stay silent. */
__attribute__((cold)) struct ip_slot *rt_claim_slot(void);

/* The hooks that stubs jump to (arch/ARCH/hooks.S), by kind - 1 and registers, and those that
 * jump stubs call: offsets from rt_hooks_base. */
extern const char rt_hooks_base[];
extern const int32_t rt_hooks[IP_HOOK_KINDS][IP_HOOK_REGS];
extern const int32_t rt_jump_hooks[IP_HOOK_KINDS];
/* Those of sites whose values are recorded (arch/ARCH/payload.S), from rt_payload_base; 0: none. */
extern const char rt_payload_base[];
extern const int32_t rt_payload_hooks[IP_HOOK_KINDS][2];

/* Calls the user's payload (arch/ARCH/user.S); mask: ip_rt_private.user_mask. */
struct iprobe_call;
void rt_user_call(uint64_t function, const struct iprobe_call *call, uint32_t mask);

/* Room for stubs (arch/ARCH/pool.S). */
extern char rt_pool[];

#ifdef RT_INJECTED
#pragma GCC visibility pop
#endif

#endif
