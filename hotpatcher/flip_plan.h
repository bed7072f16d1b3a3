/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is to be flipped, cut into pieces.
 */
#ifndef IP_FLIP_PLAN_H
#define IP_FLIP_PLAN_H

#include "hotpatcher/flip.h"

#define IP_FLIP_PAGE 4096ull

struct ip_flip_part {
	uint64_t start;
	size_t size;		 /* pages */
	size_t first, n;	 /* its changes */
	uint8_t *before, *after; /* images */
	bool reverts;
};

struct ip_flip_plan {
	struct ip_target *target;
	struct ip_change *changes; /* that are in pieces; by address */
	size_t nchanges;
	struct ip_flip_part *pieces;
	struct ip_flip_piece *entries; /* what the target is told of each */
	size_t npieces;
	uint64_t *gone; /* addresses of sites that are left out */
	size_t left_out;
	char *reason;
	uint8_t *scratch; /* as large as the largest piece */
};

#endif
