/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares code. See own_code.h.
 */
#include "hotpatcher/inject/own_code.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/abi/borrow.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/inject/inject.h"
#include "hotpatcher/process/target_files.h"

#define CODE_MAX   256u
#define TEXT_MAX   (1ull << 20) /* more than the text of any runtime, bytes */
#define DISTANCES  6
#define MASK_PLACE offsetof(struct ip_wake, mask)

/* From hotpatcher/arch/ARCH/borrowed.S: the code; where its distances end, in bytes from its start;
 * its data: the set of signals to mask, the empty set, and the time to wait (two words). */
extern const uint8_t ip_borrowed_code[], ip_borrowed_code_end[];
extern const uint64_t ip_borrowed_distances[DISTANCES], ip_borrowed_data[4];

/* What the distances lead to, in the order of the code. */
enum { SIGNALS, FUNCTION, NONE, WHILE, MASK, BLOCK };

static int refuse(const struct ip_target *target)
{
	return ip_error("pid %d: its runtime is damaged: what stands in the place of its code is "
			"another, and no thread is sent there: restart it",
			target->pid);
}

static bool holds(const struct ip_target *target, uint64_t address, const uint64_t *expected,
		  size_t n)
{
	uint64_t there[2];

	return ip_target_read(target, address, there, n * sizeof(*there)) == 0 &&
	       !memcmp(there, expected, n * sizeof(*there));
}

int ip_own_code_check_place(const struct ip_target *target, const struct ip_borrow_place *p)
{
	const size_t size = ip_borrowed_code_end - ip_borrowed_code;
	const struct ip_mapping *m = ip_maps_find(&target->maps, p->code);
	uint8_t there[CODE_MAX], ours[CODE_MAX];
	uint64_t leads[DISTANCES];

	if (size > CODE_MAX || p->end - p->code != size ||
	    ip_target_read(target, p->code, there, size) < 0)
		return refuse(target);
	memcpy(ours, ip_borrowed_code, size);
	for (unsigned i = 0; i < DISTANCES; i++) {
		const uint64_t at = ip_borrowed_distances[i];
		int32_t distance;

		memcpy(&distance, there + at - sizeof(distance), sizeof(distance));
		memcpy(ours + at - sizeof(distance), &distance, sizeof(distance));
		leads[i] = p->code + at + (int64_t)distance;
	}
	if (memcmp(there, ours, size) || leads[BLOCK] != p->block ||
	    leads[MASK] != p->block + MASK_PLACE || !m || leads[FUNCTION] < m->start ||
	    leads[FUNCTION] >= m->end || !holds(target, leads[SIGNALS], &ip_borrowed_data[0], 1) ||
	    !holds(target, leads[NONE], &ip_borrowed_data[1], 1) ||
	    !holds(target, leads[WHILE], &ip_borrowed_data[2], 2))
		return refuse(target);
	return 0;
}

/* Whether the mapped bytes [start, end) are what the file of the mapping has. The range must lie in
 * the mapping. 1: they are, or that cannot be told; 0: they are not; -1 with an error. */
static int is_as_file(const struct ip_target *target, const struct ip_mapping *m, uint64_t start,
		      uint64_t end)
{
	_cleanup_free_ uint8_t *there = malloc(end - start), *file = malloc(end - start);
	bool exact = false;
	_cleanup_close_ int fd = ip_target_open_mapping(target->pid, m, &exact);

	if (!there || !file)
		return ip_error("out of memory");
	if (fd < 0 || !exact)
		return 1;
	return ip_target_read(target, start, there, end - start) == 0 &&
	       pread(fd, file, end - start, (off_t)(m->offset + (start - m->start))) ==
		       (ssize_t)(end - start) &&
	       !memcmp(there, file, end - start);
}

int ip_own_code_check(const struct ip_target *target, uint64_t within)
{
	const struct ip_rt_anchor *a = &target->anchor;
	uint64_t start = a->text_start, end = a->text_end;
	int same = 1;

	if (target->injected)
		return ip_inject_is_intact(target) ? 0 : refuse(target);
	/* a runtime that sleeps has not told yet where its code is: only the code that is called
	 * first can be checked */
	if (!start && !end) {
		start = a->wake;
		end = a->wake_end;
	}
	if (within < start || within >= end || end - start > TEXT_MAX)
		return refuse(target);
	while (start < end && same > 0) {
		const struct ip_mapping *m = ip_maps_find(&target->maps, start);
		uint64_t to = m && m->end < end ? m->end : end;

		if (!m || !m->inode)
			return refuse(target);
		same = is_as_file(target, m, start, to);
		start = to;
	}
	return same > 0 ? 0 : same < 0 ? -1 : refuse(target);
}
