/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a remap: the sites to change, divided into pieces.
 */
#ifndef IP_REMAP_PLAN_H
#define IP_REMAP_PLAN_H

#include "hotpatcher/patch/remap.h"

#define IP_REMAP_PAGE 4096ull

enum ip_remap_kind {
	IP_REMAP_SWITCHING,
	IP_REMAP_REVERTING,
	IP_REMAP_CHANGING,
};

struct ip_remap_plan_piece {
	uint64_t start;
	size_t size;		 /* in bytes, whole pages */
	size_t first, n;	 /* its changes in the plan: from first on, n of them */
	uint8_t *before, *after; /* the bytes before and after the change */
	uint8_t *file;		 /* what its file holds there */
	enum ip_remap_kind kind;
};

/* A function with live sites in a piece that changes. */
struct ip_remap_function {
	const struct ip_module *module;
	uint32_t function;
};

struct ip_remap_plan {
	struct ip_target *target;
	unsigned flags;		   /* enum ip_remap_how */
	struct ip_change *changes; /* those that are in pieces, by address */
	size_t nchanges;
	struct ip_remap_plan_piece *pieces;
	struct ip_remap_piece *entries; /* what the target's thread is told of each piece */
	size_t npieces;
	struct ip_remap_function *functions; /* the same function may be in it several times */
	size_t nfunctions;
	uint64_t *gone; /* addresses of sites that are left out */
	size_t left_out;
	char *reason;
	uint8_t *scratch; /* as large as the largest piece */
};

/* Finds the module, with its file open, to which the text at m belongs; NULL: there is none. */
const struct ip_module *ip_remap_module_of(const struct ip_modules *modules,
					   const struct ip_mapping *m);

/* Finds a border for a piece: the first address from `address` on (if backwards, the last address
 * up to it), in steps of pages and within m, at which no site of the module lies on both sides. If
 * there is none, m's own border. */
uint64_t ip_remap_border(const struct ip_module *module, const struct ip_mapping *m,
			 uint64_t address, bool backwards);

/* Fills *ret, whose start, size, first and n are set, and notes functions in the plan. silently:
 * see arch/ARCH/remap.h. 0; -1 with the reason. *ret_fatal: nothing may be switched. *ret_bad: an
 * address at which the text is not its file's; 0: not known. */
int ip_remap_make_images(struct ip_remap_plan *plan, const struct ip_module *module,
			 const struct ip_mapping *m, bool silently, struct ip_remap_plan_piece *ret,
			 bool *ret_fatal, uint64_t *ret_bad);
void ip_remap_plan_piece_clear(struct ip_remap_plan_piece *part);

#endif
