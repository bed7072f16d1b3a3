/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handing out slots. The steps are told in restart_slot.h; comments here name them.
 */
#include "hotpatcher/ptrace/restart_slot.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "access/delegation.h"
#include "common/cleanup.h"
#include "common/file.h"
#include "hotpatcher/arch/x86_64/regs.h"

/* the code as iprobe knows it */
extern const uint8_t ip_restart_code[], ip_restart_common[], ip_restart_code_end[];

#define COMMON_MAX 1024

static int copy_in(pid_t tid, uint64_t address, void *buffer, size_t size)
{
	const struct iovec ours = {buffer, size}, theirs = {(void *)(uintptr_t)address, size};

	return process_vm_readv(tid, &ours, 1, &theirs, 1, 0) == (ssize_t)size ? 0 : -1;
}

static bool has_slots(const struct ip_target *target)
{
	const struct ip_rt_anchor *a = &target->anchor;

	return target->has_runtime && target->arch->bits == 64 && a->restart_slots &&
	       a->restart_nslots == IP_RESTART_SLOTS &&
	       a->restart_end - a->restart == (uint64_t)(ip_restart_code_end - ip_restart_code);
}

static struct ip_restart_place place_of(const struct ip_target *target, uint64_t i)
{
	return (struct ip_restart_place){.slot = target->anchor.restart_slots + i * IP_RESTART_SLOT,
					 .calls = target->anchor.restart + i * IP_RESTART_CALLS};
}

/* Whether the slot's calls, and the code with which they go on, stand in the thread's memory byte
 * for byte as iprobe knows them, and lead to that slot. */
static bool is_known(const struct ip_target *target, pid_t tid,
		     const struct ip_restart_place *place)
{
	const size_t common = ip_restart_common - ip_restart_code,
		     size = ip_restart_code_end - ip_restart_common;
	const uint64_t first = place->calls - target->anchor.restart;
	uint8_t calls[IP_RESTART_CALLS], there[COMMON_MAX];
	uint64_t distance;

	if (size > sizeof(there) || copy_in(tid, place->calls, calls, sizeof(calls)) < 0 ||
	    copy_in(tid, target->anchor.restart + common, there, size) < 0)
		return false;
	memcpy(&distance, calls + IP_RESTART_TO_SLOT, sizeof(distance));
	return !memcmp(calls, ip_restart_code + first, IP_RESTART_TO_SLOT) &&
	       !memcmp(there, ip_restart_common, size) && place->calls + distance == place->slot;
}

/* Step 3: whether the owner has ended. Numbers of threads are those of their own PID namespace: if
 * the target is in another namespace than iprobe, the answer is false. */
static bool has_ended(const struct ip_target *target, uint64_t owner)
{
	char name[64];

	if (target->inner_pid != target->pid || owner > INT32_MAX)
		return false;
	snprintf(name, sizeof(name), "/proc/%lu", owner);
	return ip_access(name, F_OK) < 0 && errno == ENOENT;
}

/* 32-bit code: the length of the code in a slot */
#define NARROW_CODE 37
/* where the slot holds its owner: the thread's id in its own namespace, and its stack pointer; 4
 * bytes each */
#define NARROW_OWNER 40

/* Makes the code of a slot. restart holds the arguments of the call and the place of the caller. */
static void narrow_code(const struct ip_restart *restart, uint64_t slot, uint8_t *ret)
{
	static const uint8_t movs[6] = {0xbb, 0xb9, 0xba, 0xbe, 0xbf, 0xbd}; /* as arguments */
	const uint32_t distance = restart->pc - (slot + NARROW_CODE);
	uint8_t *p = ret;

	*p++ = 0xcd;
	*p++ = 0x80;
	for (unsigned i = 0; i < 6; i++) {
		const uint32_t value = restart->arguments[i];

		*p++ = movs[i];
		memcpy(p, &value, sizeof(value));
		p += sizeof(value);
	}
	*p++ = 0xe9;
	memcpy(p, &distance, sizeof(distance));
}

void ip_restart_narrow_image(const struct ip_restart *restart, const struct ip_restart_place *place,
			     pid_t owner, uint64_t sp, uint8_t *ret)
{
	const uint32_t who[2] = {owner, sp};

	memset(ret, 0, IP_RESTART_NARROW);
	narrow_code(restart, place->slot, ret);
	memcpy(ret + NARROW_OWNER, who, sizeof(who));
	memcpy(ret + IP_RESTART_NARROW_DATA, restart, sizeof(*restart));
}

/* Whether a slot is as iprobe leaves one, or as it was at the start. */
static bool is_known_narrow(uint64_t slot, const uint8_t *there)
{
	static const uint8_t none[IP_RESTART_NARROW];
	struct ip_restart restart;
	uint8_t code[NARROW_CODE];

	memcpy(&restart, there + IP_RESTART_NARROW_DATA, sizeof(restart));
	narrow_code(&restart, slot, code);
	return !memcmp(there, code, sizeof(code)) || !memcmp(there, none, sizeof(none));
}

/* Whether the code there is the process's own: another process could change the code in shared
 * memory unnoticed. To be asked while all threads stand that have the memory. */
static bool is_private_code(pid_t pid, uint64_t start, uint64_t end)
{
	_cleanup_fclose_ FILE *file = NULL;
	_cleanup_free_ char *line = NULL; /* whole lines: a path may hold text like a line */
	char name[64], perms[5];
	uint64_t from, to;
	size_t size = 0;

	snprintf(name, sizeof(name), "/proc/%d/maps", pid);
	file = ip_delegation_fopen(name);
	while (file && getline(&line, &size, file) > 0)
		if (sscanf(line, "%lx-%lx %4s", &from, &to, perms) == 3 && from <= start &&
		    end <= to)
			return !strcmp(perms, "r-xp");
	return false;
}

static bool has_narrow_slots(const struct ip_target *target)
{
	const struct ip_rt_anchor *a = &target->anchor;

	return target->has_runtime && target->arch->bits == 32 && a->restart &&
	       a->restart % IP_RESTART_NARROW == 0 &&
	       a->restart_nslots == IP_RESTART_NARROW_SLOTS &&
	       a->restart_end - a->restart == IP_RESTART_NARROW_SLOTS * IP_RESTART_NARROW;
}

static int take_narrow(const struct ip_target *target, pid_t tid, uint64_t sp,
		       struct ip_restart_place *ret)
{
	const pid_t own = ip_proc_inner_pid(tid);
	const uint64_t first = target->anchor.restart;
	uint8_t there[IP_RESTART_NARROW];
	uint32_t who[2];

	if (!has_narrow_slots(target) ||
	    !is_private_code(target->pid, first,
			     first + IP_RESTART_NARROW_SLOTS * IP_RESTART_NARROW))
		return -1;
	for (unsigned pass = 0; pass < 2; pass++)
		for (unsigned i = 0; i < IP_RESTART_NARROW_SLOTS; i++) {
			const uint64_t slot = first + i * IP_RESTART_NARROW;

			*ret = (struct ip_restart_place){.slot = slot, .calls = slot};
			if (copy_in(tid, slot, there, sizeof(there)) < 0)
				return -1;
			memcpy(who, there + NARROW_OWNER, sizeof(who));
			if (who[0] && (who[0] != (uint32_t)own || who[1] != (uint32_t)sp) &&
			    !(pass && has_ended(target, who[0])))
				continue;
			return is_known_narrow(slot, there) ? 0 : -1;
		}
	return -1;
}

static bool narrow_at(const struct ip_target *target, pid_t tid, uint64_t pc,
		      struct ip_restart_place *ret)
{
	const uint64_t at = pc - target->anchor.restart;
	uint8_t there[IP_RESTART_NARROW];

	if (!has_narrow_slots(target) || at >= IP_RESTART_NARROW_SLOTS * IP_RESTART_NARROW ||
	    at % IP_RESTART_NARROW != IP_ARCH_CALL_LENGTH)
		return false;
	*ret = (struct ip_restart_place){.slot = pc - IP_ARCH_CALL_LENGTH,
					 .calls = pc - IP_ARCH_CALL_LENGTH};
	return copy_in(tid, ret->slot, there, sizeof(there)) == 0 &&
	       is_known_narrow(ret->slot, there);
}

int ip_restart_slot_take(const struct ip_target *target, pid_t tid, uint64_t sp,
			 struct ip_restart_place *ret)
{
	const uint64_t own = ip_proc_inner_pid(tid);
	struct ip_restart_slot slot;

	if (target->arch->bits == 32)
		return take_narrow(target, tid, sp, ret);
	if (!has_slots(target))
		return -1;
	for (unsigned pass = 0; pass < 2; pass++)
		for (unsigned i = 0; i < IP_RESTART_SLOTS; i++) {
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

bool ip_restart_slot_at(const struct ip_target *target, pid_t tid, uint64_t pc,
			struct ip_restart_place *ret)
{
	const uint64_t at = pc - target->anchor.restart,
		       call = at % IP_RESTART_CALLS - IP_ARCH_CALL_LENGTH;

	if (target->arch->bits == 32)
		return narrow_at(target, tid, pc, ret);
	if (!has_slots(target) || at >= (uint64_t)IP_RESTART_SLOTS * IP_RESTART_CALLS ||
	    (call && call != IP_RESTART_POLL && call != IP_RESTART_REST))
		return false;
	*ret = place_of(target, at / IP_RESTART_CALLS);
	ret->call = call;
	return is_known(target, tid, ret);
}
