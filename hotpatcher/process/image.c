/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells images apart. See image.h.
 */
#include "hotpatcher/process/image.h"

#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include "access/delegation.h"
#include "common/cleanup.h"
#include "hotpatcher/arch/x86_64/regs.h"

#define WORDS 2 /* AT_RANDOM has 16 bytes */

/* The value of the entry of that type in an auxiliary vector; 0: there is no such entry. */
static uint64_t find_entry(const uint8_t *vector, size_t size, unsigned bits, uint64_t type)
{
	const size_t width = bits / 8;

	for (size_t at = 0; at + 2 * width <= size; at += 2 * width) {
		uint64_t key = 0, value = 0;

		memcpy(&key, vector + at, width);
		memcpy(&value, vector + at + width, width);
		if (key == type)
			return value;
	}
	return 0;
}

/* Address of the random bytes, by the auxiliary vector of a thread. The vector of a leader that has
 * ended is empty. 0: not there. */
static uint64_t random_of(const struct ip_target *target, const char *tid)
{
	uint8_t vector[4096];
	char name[300];
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/%d/task/%s/auxv", target->pid, tid);
	_cleanup_close_ int fd = ip_delegation_open(name, O_RDONLY);
	n = fd < 0 ? -1 : read(fd, vector, sizeof(vector));
	return n <= 0 ? 0 : find_entry(vector, n, target->arch->bits, AT_RANDOM);
}

void ip_image_remember(struct ip_target *target)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	char name[64];

	target->random_at = 0;
	snprintf(name, sizeof(name), "/proc/%d/task", target->pid);
	dir = opendir(name);
	while (dir && !target->random_at && (entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]))
			target->random_at = random_of(target, entry->d_name);
}

/* Compares the memory of the thread with the memory that we have open, at one address. 1: both hold
 * the same there; 0: they do not; -1: ours has nothing there. */
static int compare(const struct ip_target *target, pid_t tid, uint64_t address)
{
	uint64_t ours[WORDS];

	if (!address || pread(target->mem, ours, sizeof(ours), address) != sizeof(ours))
		return -1;
	for (unsigned i = 0; i < WORDS; i++) {
		long theirs;

		errno = 0;
		theirs = ptrace(PTRACE_PEEKDATA, tid, address + i * sizeof(*ours), 0);
		if (errno || (uint64_t)theirs != ours[i])
			return 0;
	}
	return 1;
}

bool ip_image_is_same(const struct ip_target *target, pid_t tid)
{
	int same;

	if (ip_target_image_is_gone(target))
		return false;
	same = compare(target, tid, target->random_at);
	/* if the program has unmapped its first stack, the thread's own stack is compared */
	return (same < 0 ? compare(target, tid, ip_arch_stack_pointer(tid)) : same) == 1;
}
