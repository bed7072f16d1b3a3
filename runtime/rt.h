/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of the runtime: what its files share. The runtime is freestanding: it calls nothing
 * outside of itself. So it can be called from anywhere (a signal handler, a thread that is half set
 * up, code that runs before libc is ready), and it traces nothing of itself.
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

/* Symbols that are not declared hidden are reached through a table of addresses. An image without a
 * loader has no such table. */
#ifdef RT_INJECTED
#pragma GCC visibility push(hidden)
#endif

/* Where the constructor has mapped the pieces of memory; constant afterwards. Valid only while
 * rt_gate is not NULL. */
extern volatile struct ip_gate *rt_gate;
extern struct ip_area_header *rt_header;
extern struct ip_slot *rt_slots;
extern struct ip_subbuf *rt_subbufs;
extern char *rt_data;
extern struct ip_payload *rt_payloads;
extern struct ip_value_program *rt_programs;
extern uint32_t *rt_duties;
extern struct ip_area_clock *rt_clock;
extern struct ip_filter_rule *rt_rules;
extern struct ip_filters *rt_filters;

/* The bounds of everything that hooks read in the area. The tracer writes it from outside. */
extern struct ip_rt_private rt_private;

static inline uint32_t rt_nsubbufs(void)
{
	return *(volatile uint32_t *)&rt_private.nsubbufs;
}

static inline int rt_may_read(void)
{
	return __atomic_load_n(&rt_private.may_read, __ATOMIC_ACQUIRE) != 0;
}

/* Makes the record of a probe. kind: enum ip_probe_kind; sp: as in trace_format.h. The hooks call
 * it. */
void rt_record(uint32_t number, uint32_t kind, uint64_t sp);

/* Defined by the file that starts the runtime: preload.c, static_entry.c or injected.c. */
extern struct ip_rt_anchor iprobe_rt_anchor;

/* Maps the area that the launcher has made, if it was made for this process. Returns 1 if so, else
 * 0. */
int rt_map_launched(const char *path);

enum rt_start {
	RT_PRELOADED, /* nothing else runs in the process yet */
	/* likewise, and rt_map_launched() has mapped an area; in the other cases the runtime maps
	 * its own */
	RT_LAUNCHED,
	RT_WOKEN, /* by a borrowed thread, while other threads run */
};

/* Maps an area of the process's own. Returns 1; 0: the anchor says why it failed. */
int rt_map_own_area(enum rt_start how);

/* Decides whether children that are forked from now on get the area. Returns 0, or an error as from
 * a system call. */
long rt_area_keep(int inherit);

/* For a forked child that has the area: replaces it by private zero pages. Returns 0, or an error
 * as from a system call. */
long rt_area_disown(void);

/* For a forked child: maps an area of its own where its parent's area was. replace: in the place of
 * what is mapped there, which must be the parent's area or what rt_area_disown() has left; else
 * between the covers, and nothing may be there. Returns 0, or an error as from a system call: then
 * what was there is there still, or what rt_area_disown() leaves is. */
long rt_area_renew(int replace);

/* What the area's mapping has now (area_window.c). rt_has_tables: 1: the tables are mapped too.
 * rt_nrules: rules that hooks may read. Only the borrowed thread that changes them writes them. */
extern int rt_has_tables;
extern uint32_t rt_nrules;

/* Sets where hooks find the tables, by rt_has_tables. */
void rt_area_find_tables(void);

/* Maps more of the area, up to size bytes from its start. Hooks may use it up to `end`. Returns 0,
 * or an error as from a system call: then nothing has changed. */
long rt_area_widen(uint64_t size, uint64_t end);
/* Maps the tables of the area, if they are not mapped. Returns as above. */
long rt_area_map_tables(void);

/* Unmaps what lies behind the first `size` bytes of the area, IP_AREA_SMALL_SIZE, and the tables.
 * No hook may be in flight. Returns as above; what could not be unmapped is there still. */
long rt_area_narrow(uint64_t size);
/* Unmaps the area, but for the first covers, and all pools. Returns as rt_area_narrow(). */
long rt_area_remove(void);
/* Unmaps the area, but for its covers: no process has it any more. */
void rt_area_forget(void);

/* Maps one more pool for stubs at the address, where nothing may be. Returns as above. */
long rt_pool_add(uint64_t address, uint64_t size);

/* Lays the covers that lie from `from` on, below the end, which is size. Returns 0, or an error as
 * from a system call. */
long rt_area_lay_covers(uint64_t area, uint64_t from, uint64_t size);

/* The number of the last session in which a thread of this process, or of one that it was forked
 * from, has claimed a slot. */
extern uint32_t rt_last_session;

/* Whether reading the processor's clock ends this thread, or threads that it makes. If that cannot
 * be found out, the answer is yes. */
int rt_clock_is_forbidden(void);

/* How much the next call of rt_set_up() maps: of the area if the runtime makes it itself, of each
 * pool. */
extern uint64_t rt_area_size, rt_pool_size;

/* Sets everything up. executable: an address in the executable, for a pool near it; library_pool:
 * the address for the pool of the libraries, 0: none. Fills in the anchor, and waits for the
 * launcher if there is one. */
void rt_set_up(enum rt_start how, uint64_t executable, uint64_t library_pool);

/* The value of an environment variable; NULL: it is not set. The value of an entry of the auxiliary
 * vector, which follows the environment; 0: it is not there. */
const char *rt_environment(char **envp, const char *name);
uint64_t rt_auxiliary(char **envp, uint64_t type);

/* rt_stub_room_open() makes the room for stubs of one module executable. It takes the module's
 * program headers and the bias that they are loaded with. rt_rooms_open() does so for all modules.
 * It takes the program headers of the executable, which may be NULL. */
void rt_stub_room_open(const void *headers, size_t n, uint64_t bias);
void rt_rooms_open(const void *headers, size_t n);

/* arch/ARCH/wake.S: the code that a borrowed thread runs, and the top of its stack, a struct
 * ip_wake. */
extern const char rt_wake[], rt_wake_end[];
extern char rt_wake_block[];
void rt_wake_up(void);
/* The work of that thread (static_entry.c, injected.c). */
void rt_wake_set_up(void);

/* For a runtime that iprobe has put into a running process: what iprobe has told it. */
extern struct ip_injection rt_injection;

/* arch/ARCH/remap.S: the code that a borrowed thread runs to change mappings of text (remap.c), and
 * the top of its stack, a struct ip_remap. */
extern const char rt_remap[], rt_remap_end[];
extern char rt_remap_block[];
void rt_remap_run(void);

/* arch/ARCH/syscall_resume.S: where a thread continues a system call that a stop interrupted. */
extern const char rt_restart[], rt_restart_end[], rt_restart_slots[];

/* A record with values (trace_format.h): the word that describes them, and n words. */
struct rt_payload {
	uint64_t tells;
	const uint64_t *words;
	uint32_t n;
	/* session that the signature and the values belong to; in another session the event is
	 * recorded without them */
	uint32_t session;
	uint8_t bare; /* 1: a condition alone: the event has no values */
	uint8_t out;  /* 1: the condition is not true: the call leaves no event */
};
void rt_record_payload(uint32_t number, uint32_t kind, uint64_t sp,
		       const struct rt_payload *payload);

/* The session that records; 0: record nothing. */
static inline uint32_t rt_session(void)
{
	return rt_gate ? rt_gate->session : 0;
}

/* A hook calls this if it finds the gate closed. In a forked child of a session that follows forks,
 * it opens the child's own gate and returns the child's number. Otherwise it returns 0: record
 * nothing (claim.c). */
uint32_t rt_follow_fork(void);

/* Claims a slot for this thread in the session of the gate; NULL: record nothing. */
__attribute__((cold)) struct ip_slot *rt_claim_slot(void);

/* The hooks that stubs jump to (arch/ARCH/hooks.S), by kind - 1 and registers, and the hooks that
 * jump stubs call. All are offsets from rt_hooks_base. */
extern const char rt_hooks_base[];
extern const int32_t rt_hooks[IP_HOOK_KINDS][IP_HOOK_REGS];
extern const int32_t rt_jump_hooks[IP_HOOK_KINDS];
/* The hooks of sites whose values are recorded (arch/ARCH/payload.S), as offsets from
 * rt_payload_base; 0: there is none. */
extern const char rt_payload_base[];
extern const int32_t rt_payload_hooks[IP_HOOK_KINDS][2];
/* The hooks of exits that are returns: without values, as an offset from rt_hooks_base; with
 * values, as an offset from rt_payload_base. 0: there is none. */
extern const int32_t rt_return_hook, rt_payload_return_hook;
/* The hook of tail exits that are jumps, as an offset from rt_hooks_base; 0: there is none. */
extern const int32_t rt_tail_hook;
extern const int32_t rt_plt_hook;

/* Calls the user's payload (arch/ARCH/user.S); mask: ip_rt_private.user_mask. */
struct iprobe_call;
void rt_user_call(uint64_t function, const struct iprobe_call *call, uint32_t mask);

/* Room for stubs (arch/ARCH/pool.S). */
extern char rt_pool[];

#ifdef RT_INJECTED
#pragma GCC visibility pop
#endif

#endif
