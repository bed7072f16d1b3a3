/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread's first event in a session: it claims its slot (step 1 of record.c). In a forked child
 * the session begins before that. No system call is made if self.h knows where threads' ids are.
 */
#include "runtime/arch/cpu.h"
#include "runtime/flow.h"
#include "runtime/meters.h"
#include "runtime/ring.h"
#include "runtime/rt.h"
#include "runtime/self.h"

uint32_t rt_last_session;

/*
 * A forked child. The kernel has cleared its gate, so its hooks record nothing. Its text is its
 * parent's, live sites included, so its next hook comes here. If the session follows forks, the
 * child opens the gate by itself, with a number of its own. The slot that its thread has inherited
 * belongs to the parent and to another number. So the child records from its first call on, no
 * tracer stops it, and the parent does not notice. If the session does not follow forks, the child
 * must not use the area, which may be missing.
 *
 *   1. The child's own memory, a copy of its parent's, says whether children have the area. Only if
 *      they have it, the child reads `follow` in the area. 0: record nothing.
 *   2. Write whose gate it is. Then change the session number from 0 to the child's own, by
 *      compare-and-exchange: another thread of the child may be doing the same.
 *   3. Read `follow` again. When the hotpatcher ends a session it clears `follow` first, and then
 *      closes the gates of all children that it finds. A child that opens its gate too late to be
 *      found sees the change here, and closes its gate again.
 *
 * A child that shares its parent's memory (vfork) finds the parent's gate. The parent may itself be
 * a forked child that has never been in a hook. Then the vfork child opens the gate in its own
 * name. The parent's threads count as unserved: their events are lost, but counted.
 */
uint32_t rt_follow_fork(void)
{
	struct ip_gate *gate = (struct ip_gate *)rt_gate;
	uint32_t session, number, nobody = 0;

	if (!gate)
		return 0;
	session = __atomic_load_n(&rt_private.follow, __ATOMIC_SEQ_CST);
	if (!session || __atomic_load_n(&rt_header->follow, __ATOMIC_SEQ_CST) != session)
		return 0;
	gate->pid = cpu_syscall(SYS_getpid, 0, 0, 0, 0);
	rt_self_check_tid(gate->pid);
	gate->base = session;
	do
		number = IP_SESSION_NUMBER(
			__atomic_add_fetch(&rt_header->last_session, 1, __ATOMIC_SEQ_CST));
	while (!number);
	if (!__atomic_compare_exchange_n(&gate->session, &nobody, number, 0, __ATOMIC_SEQ_CST,
					 __ATOMIC_SEQ_CST))
		return nobody;
	if (__atomic_load_n(&rt_header->follow, __ATOMIC_SEQ_CST) != session) {
		__atomic_store_n(&gate->session, 0, __ATOMIC_SEQ_CST);
		return 0;
	}
	return number;
}

/* What --tid and --thread say of a thread that claims its slot. */
static uint32_t is_wanted(uint32_t tid)
{
	const struct ip_filters *f = rt_filters;

	for (uint32_t i = 0; f->threads & 1 && i < f->nthreads && i < IP_FILTER_THREADS; i++)
		if (f->thread[i] == tid)
			return IP_SLOT_WANTED;
	return f->threads & 2 ? IP_SLOT_UNDECIDED : f->threads ? IP_SLOT_UNWANTED : IP_SLOT_WANTED;
}

struct ip_slot *rt_claim_slot(void)
{
	uint32_t session = rt_session();
	struct ip_slot *mine;
	uint32_t pid, tid;

	if (!session)
		session = rt_follow_fork();
	if (!session)
		return NULL;
	mine = rt_self_slot();
	if (mine)
		return mine;
	if (session > rt_last_session)
		rt_last_session = session;
	pid = rt_gate->pid;
	tid = rt_self_tid();
	if (!tid || !rt_self_is_in(pid)) {
		cpu_increment_shared(&rt_header->unserved);
		return NULL;
	}

	for (uint32_t i = 0; i < IP_AREA_SLOTS; i++) {
		struct ip_slot *slot = &rt_slots[i];
		uint32_t expected = IP_SLOT_FREE;
		uint32_t used;

		if (slot->state != IP_SLOT_FREE ||
		    !__atomic_compare_exchange_n(&slot->state, &expected, IP_SLOT_CLAIMING, 0,
						 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		slot->modes = *(volatile uint32_t *)&rt_private.modes;
		slot->cur = cur_of_none(slot, 0);
		slot->guard = 0;
		slot->last_sp = 0;
		slot->epoch = ~0ull;
		slot->lost = 0;
		slot->leaving = 0;
		slot->tail = 0;
		slot->tid = tid;
		slot->pid = pid;
		slot->block = 0;
		rt_blocks[i] = NULL;
		rt_flows[i] = (struct rt_flow){.sp = RT_FLOW_NO_SP};
		if (slot->modes & IP_MODE_PAYLOADS)
			rt_meters_take(slot);
		slot->session = slot->modes & IP_MODES_MARKED ? session | IP_SESSION_MARK : session;
		slot->claimed = cpu_clock();
		slot->last_time = 0;
		slot->filtered = 0;
		slot->held = 0;
		slot->memory = 0;
		slot->wanted = is_wanted(tid);
		slot->oldest = 0;
		used = __atomic_load_n(&rt_header->slots_used, __ATOMIC_RELAXED);
		while (used < i + 1 &&
		       !__atomic_compare_exchange_n(&rt_header->slots_used, &used, i + 1, 0,
						    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			;
		__atomic_store_n(&slot->state, IP_SLOT_CLAIMED, __ATOMIC_RELEASE);
		return rt_self_set(slot, slot->session);
	}
	cpu_increment_shared(&rt_header->unserved);
	return NULL;
}
