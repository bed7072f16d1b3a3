/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of a patch share; patch.h tells the steps. patch.c prepares and checks,
 * patch_write.c writes.
 */
#ifndef IP_PATCH_PRIVATE_H
#define IP_PATCH_PRIVATE_H

#include "hotpatcher/patch/patch.h"

#define PAGE_SIZE 4096ull
#define PAGE(a)	  ((a) & ~(PAGE_SIZE - 1))

#define IP_PIECE_PAGES 32u
#define IP_PIECE_BYTES (IP_PIECE_PAGES * PAGE_SIZE)

struct ip_patch_piece {
	uint64_t start;	    /* of its first page */
	uint32_t size;	    /* to the end of its last site that crosses no page */
	size_t first, last; /* the changes in it, including those that cross: [first, last) */
	bool exact;	    /* no byte may change from the preparation to the stop */
	uint64_t sum;	    /* checksum of its bytes, if exact */
};

struct ip_patch {
	struct ip_target *target;
	const struct ip_arch *arch;
	const struct ip_change *changes; /* in order of address */
	struct ip_change *own;		 /* NULL: the caller's are in order */
	size_t nchanges;
	struct ip_patch_piece *pieces;
	size_t npieces;
	size_t pages, ncrossing;
	uint8_t *buffer; /* room for one piece, and for IP_SITE_MAX bytes behind it */
	struct ip_write_helper *helper; /* NULL: there is none */
	/* atomic: the next piece that nobody has taken yet, and the first that the helper could not
	 * write; npieces: there is none */
	size_t next, left;
};

/* A checksum of n bytes of a piece. They are followed by 8 bytes that may be written to. */
uint64_t ip_patch_sum(uint8_t *bytes, size_t n);

/* Reads a site that crosses a page. 0, or -1 with the reason. */
int ip_patch_read_crossing(const struct ip_patch *patch, const struct ip_change *c, uint8_t *ret);

/* Makes ready what writing needs, while the target runs: the helper, if there is one. */
void ip_patch_write_begin(struct ip_patch *patch);

/* Step 6; back: step 7, which tries all pieces and sites, whatever fails. 0, or -1 with the
 * reason. */
int ip_patch_write_all(struct ip_patch *patch, bool back);

#endif
