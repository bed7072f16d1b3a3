/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a thread finds its slot.
 *
 * A runtime that was loaded or linked with the program has thread-local storage. The slot holds the
 * thread's id. The hook reads this id where the C library has stored it behind the thread pointer,
 * so hooks make no system call.
 *
 * A runtime that iprobe has put into a running process has no thread-local storage, since no loader
 * knows of it. There the thread's id leads to an entry of a table. The C library keeps the id at a
 * fixed place behind the thread pointer; iprobe has found out where. The slot itself says which
 * thread and which session it belongs to. So an entry may be stale, or another thread's: then it
 * does not count. hooks.S does the common case by the same steps.
 *
 * The session numbers that are noted for a thread carry IP_SESSION_MARK if the session's modes
 * require it (common/abi/area.h).
 */
#ifndef RT_SELF_H
#define RT_SELF_H

#include <stddef.h>
#include <sys/syscall.h>

#include "runtime/arch/cpu.h"
#include "runtime/rt.h"

#ifdef RT_INJECTED

/* Nothing else tells the runtime the id. */
static inline void rt_self_check_tid(uint32_t pid)
{
	(void)pid;
}

#define RT_THREADS     65536u /* hooks.S uses the low 16 bits */
#define RT_THREAD_WAYS 8u

extern struct ip_slot *rt_threads[RT_THREADS] __attribute__((visibility("hidden")));

static inline uint32_t rt_self_tid(void)
{
	return cpu_thread_word(rt_injection.tid_at);
}

/* A child that shares the parent's memory (vfork) shares the thread pointer too: what it claims
 * belongs to its parent's thread. */
static inline int rt_self_is_in(uint32_t pid)
{
	return pid != 0;
}

static inline int rt_self_is(const struct ip_slot *slot, uint32_t tid, uint32_t session)
{
	return slot->state == IP_SLOT_CLAIMED && slot->tid == tid &&
	       IP_SESSION_NUMBER(slot->session) == IP_SESSION_NUMBER(session);
}

static inline struct ip_slot **rt_self_entry(uint32_t tid, unsigned way)
{
	return &rt_threads[(tid + way) % RT_THREADS];
}

/* This thread's slot in the session of the gate; NULL: it has none. */
static inline struct ip_slot *rt_self_slot(void)
{
	uint32_t tid = rt_self_tid(), session = rt_gate->session;
	int full = 1;

	if (!session) /* maybe a forked child: there may be no slots at these addresses */
		return NULL;
	for (unsigned way = 0; way < RT_THREAD_WAYS; way++) {
		struct ip_slot *slot = __atomic_load_n(rt_self_entry(tid, way), __ATOMIC_RELAXED);

		if (slot && rt_self_is(slot, tid, session))
			return slot;
		full &= slot && slot->state != IP_SLOT_FREE &&
			IP_SESSION_NUMBER(slot->session) == session;
	}
	/* all places of this thread are taken by threads whose ids differ by multiples of 65536 */
	for (uint32_t i = 0; full && i < rt_header->slots_used && i < IP_AREA_SLOTS; i++)
		if (rt_self_is(&rt_slots[i], tid, session))
			return &rt_slots[i];
	return NULL;
}

/* Makes the slot this thread's. Returns the slot to use: a handler may have been faster. Then
 * `slot` stays empty until the thread ends. */
static inline struct ip_slot *rt_self_set(struct ip_slot *slot, uint32_t session)
{
	uint32_t tid = slot->tid;

	for (unsigned way = 0; way < RT_THREAD_WAYS; way++) {
		struct ip_slot **entry = rt_self_entry(tid, way),
			       *there = __atomic_load_n(entry, __ATOMIC_RELAXED);

		if (there && rt_self_is(there, tid, session))
			return there;
		if ((!there || there->state == IP_SLOT_FREE ||
		     IP_SESSION_NUMBER(there->session) != IP_SESSION_NUMBER(session)) &&
		    __atomic_compare_exchange_n(entry, &there, slot, 0, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED))
			return slot;
	}
	return slot;
}

#else

struct rt_self {
	struct ip_slot *slot;
	uint32_t session;
};
extern __thread struct rt_self rt_self
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Distance from the thread pointer to the thread's id, if the C library keeps it at a known place.
 * The thread that set the runtime up had its id there. 0: there is no such place, and hooks ask the
 * kernel. A seccomp filter might end the thread for that. */
extern uint32_t rt_tid_at __attribute__((visibility("hidden")));

void rt_self_find_tid(void);

/* In a forked child: if the C library did not make the child, its parent's id stands there. */
void rt_self_check_tid(uint32_t pid);

static inline uint32_t rt_self_tid(void)
{
	return rt_tid_at ? cpu_thread_word(rt_tid_at) : cpu_syscall(SYS_gettid, 0, 0, 0, 0);
}

/* Whether this is a thread of the process `pid`. A child that shares the parent's memory (vfork)
 * shares the thread's slot too. If the id is read from memory, the child has that thread's id, so
 * what it claims belongs to that thread. If the id comes from the kernel, the child must not claim
 * a slot, since the child ends before the thread does. */
static inline int rt_self_is_in(uint32_t pid)
{
	return rt_tid_at ? pid != 0 : cpu_syscall(SYS_getpid, 0, 0, 0, 0) == pid;
}

/* The order matters: if a handler comes in between and claims a slot for a new session, the gate
 * shows it. */
static inline struct ip_slot *rt_self_slot(void)
{
	uint32_t session = rt_self.session;
	struct ip_slot *slot;

	cpu_store_order();
	slot = rt_self.slot;
	cpu_store_order();
	return IP_SESSION_NUMBER(session) == rt_gate->session ? slot : NULL;
}

/* If a handler interrupts before the second store, it claims a slot of its own, and this hook
 * continues with that slot. */
static inline struct ip_slot *rt_self_set(struct ip_slot *slot, uint32_t session)
{
	rt_self.slot = slot;
	cpu_store_order();
	rt_self.session = session;
	cpu_store_order();
	return rt_self.slot;
}

#endif

#endif
