/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of a module's unwind table (.eh_frame_hdr): where functions begin. Linkers write it
 * sorted, as pairs of 32-bit distances from the section; no other form is read.
 */
#ifndef IP_EH_FRAME_HDR_H
#define IP_EH_FRAME_HDR_H

#include "common/elf/elf_file.h"

struct ip_eh_frame_hdr {
	uint64_t address; /* link-time address of the section */
	int32_t *starts;  /* distances of functions from it, as the file has them */
	size_t n;
};

/* Reads the index. The caller clears *ret, also where this fails. Returns 1; 0: the module has none
 * that can be read; -1 with an error. */
int ip_eh_frame_hdr_read(struct ip_elf_file *file, struct ip_eh_frame_hdr *ret);
void ip_eh_frame_hdr_clear(struct ip_eh_frame_hdr *hdr);

/* Returns the link-time address of the last function that begins at or before the address; 0: there
 * is none. Whether that function's code goes so far, the index does not tell. */
uint64_t ip_eh_frame_hdr_find(const struct ip_eh_frame_hdr *hdr, uint64_t address);

#endif
