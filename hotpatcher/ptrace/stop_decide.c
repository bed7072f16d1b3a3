/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deciding whether a stop may change anything, and the first change: steps 5 to 8 of stop.h.
 */
#include <stdlib.h>
#include <string.h>

#include "access/delegation.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/arch/x86_64/regs.h"
#include "hotpatcher/process/image.h"
#include "hotpatcher/ptrace/stop_private.h"

int ip_stop_refuse_image(const struct ip_stop *stop)
{
	return ip_target_alive(stop->target) ? ip_error("pid %d executes another program, or ends, "
							"just now: nothing was changed",
							stop->target->pid)
					     : ip_error("pid %d has ended", stop->target->pid);
}

void ip_stop_look(const struct ip_stop *stop, struct ip_stopped_thread *t)
{
	struct ip_arch_syscall call;

	t->lost =
		ip_arch_syscall(t->tid, &call) < 0 || ip_delegation_check_place(t->pid, t->tid) < 0;
	if (t->lost)
		return;
	t->pc = call.pc;
	t->narrow = call.narrow;
	ip_arch_dwarf_registers(&call, t->registers);
	t->broken = ip_restart_concerns(stop->target, t->tid, &call);
}

/* Step 5. A thread that stands does so until it is killed, and then all threads of its process are
 * killed. Only for a leader can the meaning of its number change. */
static int look(struct ip_stop *stop)
{
	for (size_t i = 0; i < stop->n; i++) {
		struct ip_stopped_thread *t = &stop->threads[i];

		if (t->stopped && t->tid == t->pid)
			ip_stop_look(stop, t);
		if (t->stopped && t->lost)
			return ip_stop_refuse_image(stop);
	}
	return 0;
}

/* A thread of the process that stands; NULL: none. */
static const struct ip_stopped_thread *standing(const struct ip_stop *stop, pid_t pid)
{
	for (size_t i = 0; i < stop->n; i++)
		if (stop->threads[i].pid == pid && stop->threads[i].stopped)
			return &stop->threads[i];
	return NULL;
}

static bool image_is_same(const struct ip_stop *stop)
{
	const struct ip_stopped_thread *t = standing(stop, stop->target->pid);

	/* if only processes that share its memory are left, they have the memory */
	for (size_t i = 0; !t && i < stop->nshared_mm; i++)
		t = standing(stop, stop->shared_mm[i]);
	return !stop->executed && t && ip_image_is_same(stop->target, t->tid);
}

/* Step 6. A process that shared the memory and has become another program meanwhile will not be
 * found by the next try. */
static int prove_image(struct ip_stop *stop)
{
	if (!image_is_same(stop))
		return ip_stop_refuse_image(stop);
	for (size_t i = 0; i < stop->nshared_mm; i++) {
		const struct ip_stopped_thread *t = standing(stop, stop->shared_mm[i]);

		if (!t || ip_image_is_same(stop->target, t->tid))
			continue;
		stop->late = true;
		return ip_error("pid %d: pid %d, which shared its memory, executes another program "
				"just now: nothing was changed, try again",
				stop->target->pid, t->pid);
	}
	return 0;
}

/* Step 7. No thread can change its credentials any more, and no thread's number can come to mean
 * another thread: what was allowed when iprobe looked must still be allowed (delegation.h). A
 * thread that has ended is not asked about. */
static int check_threads(const struct ip_stop *stop, int (*check)(pid_t pid, pid_t tid))
{
	for (size_t i = 0; i < stop->n; i++)
		if (stop->threads[i].stopped &&
		    check(stop->threads[i].pid, stop->threads[i].tid) < 0)
			return -1;
	return 0;
}

int ip_stop_decide(struct ip_stop *stop, bool text_will_do)
{
	if (look(stop) < 0 || prove_image(stop) < 0)
		return -1;
	stop->same_image = true;
	if (check_threads(stop, ip_delegation_check_thread) == 0)
		return 0;
	stop->text_only = text_will_do && ip_delegation_restores_only();
	return stop->text_only ? 0 : -1;
}

void ip_stop_restart_plainly(const struct ip_stop *stop)
{
	_cleanup_free_ char *why = strdup(ip_error_message());
	const bool same = stop->same_image || image_is_same(stop);

	for (size_t i = 0; i < stop->n; i++) {
		struct ip_stopped_thread *t = &stop->threads[i];

		if (t->stopped && t->broken &&
		    (same || ip_delegation_check_thread(t->pid, t->tid) == 0))
			ip_restart_plainly(stop->target, t->tid, t->status);
		t->broken = false;
	}
	ip_error("%s", why ? why : "out of memory");
}

void ip_stop_change(struct ip_stop *stop)
{
	for (size_t i = 0; i < stop->n; i++) {
		struct ip_stopped_thread *t = &stop->threads[i];

		if (!t->stopped || !t->broken)
			continue;
		if (stop->text_only)
			ip_restart_plainly(stop->target, t->tid, t->status);
		else
			ip_restart_stopped(stop->target, t->tid, t->status, &stop->waits,
					   stop->whole, &t->left);
		t->broken = false;
	}
}
