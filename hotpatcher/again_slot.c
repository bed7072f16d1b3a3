/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handing out slots. The steps are told in again_slot.h; comments here name them.
 */
#include "hotpatcher/again_slot.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "hotpatcher/arch/x86_64/regs.h"

/* hotpatcher/arch/ARCH/again.S: what we know of the code. */
extern const uint8_t ip_again_code[], ip_again_common[], ip_again_code_end[];

#define COMMON_MAX 1024

static int copy_in(pid_t tid, uint64_t address, void *buffer, size_t size)
{
	const struct iovec ours = {buffer, size}, theirs = {(void *)(uintptr_t)address, size};

	return process_vm_readv(tid, &ours, 1, &theirs, 1, 0) == (ssize_t)size ? 0 : -1;
}

static bool has_slots(const struct ip_target *target)
{
	const struct ip_rt_anchor *a = &target->anchor;

	return target->has_runtime && target->arch->bits == 64 && a->again_slots &&
	       a->again_nslots == IP_AGAIN_SLOTS &&
	       a->again_end - a->again == (uint64_t)(ip_again_code_end - ip_again_code);
}

static struct ip_again_place place_of(const struct ip_target *target, uint64_t i)
{
	return (struct ip_again_place){.slot = target->anchor.again_slots + i * IP_AGAIN_SLOT,
				       .calls = target->anchor.again + i * IP_AGAIN_CALLS};
}

/* Whether the slot's calls, and what they go on with, stand in the thread's memory byte for byte as we know
 * them, and lead to that slot. */
static bool is_known(const struct ip_target *target, pid_t tid, const struct ip_again_place *place)
{
	const size_t common = ip_again_common - ip_again_code, size = ip_again_code_end - ip_again_common;
	const uint64_t first = place->calls - target->anchor.again;
	uint8_t calls[IP_AGAIN_CALLS], there[COMMON_MAX];
	uint64_t distance;

	if (size > sizeof(there) || copy_in(tid, place->calls, calls, sizeof(calls)) < 0 ||
	    copy_in(tid, target->anchor.again + common, there, size) < 0)
		return false;
	memcpy(&distance, calls + IP_AGAIN_TO_SLOT, sizeof(distance));
	return !memcmp(calls, ip_again_code + first, IP_AGAIN_TO_SLOT) &&
	       !memcmp(there, ip_again_common, size) && place->calls + distance == place->slot;
}

/* Step 3. Numbers of threads are those of their own namespace. */
static bool has_ended(const struct ip_target *target, uint64_t owner)
{
	char name[64];

	if (target->inner_pid != target->pid || owner > INT32_MAX)
		return false;
	snprintf(name, sizeof(name), "/proc/%lu", owner);
	return access(name, F_OK) < 0 && errno == ENOENT;
}

int ip_again_slot_take(const struct ip_target *target, pid_t tid, uint64_t sp, struct ip_again_place *ret)
{
	const uint64_t own = ip_proc_inner_pid(tid);
	struct ip_again_slot slot;

	if (!has_slots(target))
		return -1;
	for (unsigned pass = 0; pass < 2; pass++)
		for (unsigned i = 0; i < IP_AGAIN_SLOTS; i++) {
			*ret = place_of(target, i);
			if (copy_in(tid, ret->slot, &slot, sizeof(slot)) < 0)
				return -1;
			if (slot.owner && (slot.owner != own || slot.sp != sp) &&
			    !(pass && has_ended(target, slot.owner)))
				continue;
			return is_known(target, tid, ret) ? 0 : -1;
		}
	return -1;
}

bool ip_again_slot_at(const struct ip_target *target, pid_t tid, uint64_t pc, struct ip_again_place *ret)
{
	const uint64_t at = pc - target->anchor.again, call = at % IP_AGAIN_CALLS - IP_ARCH_CALL_LENGTH;

	if (!has_slots(target) || at >= (uint64_t)IP_AGAIN_SLOTS * IP_AGAIN_CALLS ||
	    (call && call != IP_AGAIN_POLL && call != IP_AGAIN_REST))
		return false;
	*ret = place_of(target, at / IP_AGAIN_CALLS);
	ret->call = call;
	return is_known(target, tid, ret);
}
