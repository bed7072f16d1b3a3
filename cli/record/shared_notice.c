/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has been told already, in memory that workers share with the process that forked them.
 *
 * Texts are kept as hashes. Two that have the same one are as unlikely as a fault of the machine,
 * and cost a line on stderr. A table that is full has each worker tell for itself.
 */
#include "cli/record/shared_notice.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "common/notice.h"

#define SLOTS 256u

static uint64_t *told; /* SLOTS hashes, 0: free; NULL: nothing is shared */

/* FNV-1a; never 0. */
static uint64_t hash_of(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3ull;
	return hash ? hash : 1;
}

void cli_told_once_begin(void)
{
	void *memory = mmap(NULL, SLOTS * sizeof(*told), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return;
	told = memory;
	ip_notice_ask(cli_told_before);
}

bool cli_told_before(const char *text)
{
	const uint64_t hash = hash_of(text);

	for (size_t i = 0; told && i < SLOTS; i++) {
		uint64_t there = 0;

		if (__atomic_compare_exchange_n(&told[i], &there, hash, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			return false;
		if (there == hash)
			return true;
	}
	return false;
}
