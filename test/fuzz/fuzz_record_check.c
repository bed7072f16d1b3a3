/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sifting a sub-buffer: any words. What is kept is in order and no more than there was, and sifting
 * it again keeps all of it.
 *
 * covers: collector/record_check.c
 */
#include "collector/record_check.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t n = size / 8 + 1;
	uint64_t *words = malloc(n * 8), *records = malloc(n * 8), *again = malloc((n + 1) * 8),
		 *twice = malloc((n + 1) * 8);
	struct ip_checked_records found, second;

	fuzz_assert(words && records && again && twice);
	words[0] = 0;
	memcpy(words + 1, data, (n - 1) * 8);
	ip_record_check(words, n, 0, records, &found);
	fuzz_assert(found.words < n && found.events <= found.words && found.begin <= found.end);
	fuzz_assert(!found.words == !found.events);
	again[0] = 0;
	memcpy(again + 1, records, found.words * 8);
	ip_record_check(again, found.words + 1, found.begin, twice, &second);
	fuzz_assert(second.words == found.words && second.events == found.events &&
		    !second.invalid && !second.holes);
	fuzz_assert(!memcmp(twice, records, found.words * 8));
	fuzz_assert(second.begin == found.begin && second.end == found.end);
	free(words);
	free(records);
	free(again);
	free(twice);
	return 0;
}
