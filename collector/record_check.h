/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks which words of a sub-buffer are records. The target can write anything into them, so no
 * word is trusted.
 */
#ifndef IP_RECORD_CHECK_H
#define IP_RECORD_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What one sub-buffer contains. */
struct ip_checked_records {
	size_t words; /* number of words of valid records */
	uint64_t events, holes, invalid;
	uint64_t begin, end; /* times of the first and last event */
};

/* Checks words[1..n) and copies the valid records into records, which has room for n words. The
 * first record must be extended, since it carries the full time. No record may have an earlier time
 * than since or than the record before it. The clock of a virtual machine that was moved may go
 * back, and no reader could put such records in order. */
void ip_record_check(const uint64_t *words, size_t n, uint64_t since, uint64_t *records,
		     struct ip_checked_records *ret);

/* Where a sub-buffer that is read in parts is gone on with. */
struct ip_record_check_place {
	size_t first;  /* word; at least 1 */
	uint64_t time; /* of the record before it: no record may have an earlier one */
	bool begun;    /* a valid record of the sub-buffer lies before it */
};

/* Does the same for words[from->first..n). complete: no hook will fill any of these words. Else it
 * ends before the first record that is not filled yet. Returns the word to go on with. */
size_t ip_record_check_part(const uint64_t *words, size_t n,
			    const struct ip_record_check_place *from, bool complete,
			    uint64_t *records, struct ip_checked_records *ret);

#endif
