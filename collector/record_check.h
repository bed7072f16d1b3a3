/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sifting the words of a sub-buffer: which of them are records. The target can scribble over them,
 * so nothing is believed.
 */
#ifndef IP_RECORD_CHECK_H
#define IP_RECORD_CHECK_H

#include <stddef.h>
#include <stdint.h>

/* What one sub-buffer holds. */
struct ip_checked_records {
	size_t words; /* of records */
	uint64_t events, holes, invalid;
	uint64_t begin, end; /* times of the first and last event */
};

/* Checks words[1..n) and puts the good records into records, which has room for n words. The
 * first one must be extended: it carries the time; neither that nor what follows may go back in
 * time, behind since or behind each other: the clock of a virtual machine that was moved may do
 * so, and no reader could bring that in order. */
void ip_record_check(const uint64_t *words, size_t n, uint64_t since, uint64_t *records,
		     struct ip_checked_records *ret);

#endif
