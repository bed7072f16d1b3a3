/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of include/iprobe/probe.h, as they lie in section .iprobe.points of a linked module.
 */
#ifndef COLD_POINTS_H
#define COLD_POINTS_H

#include "coldpatch/elf/module.h"

#define COLD_POINTS_SECTION ".iprobe.points"

enum cold_point_kind {
	COLD_POINT = 0,
	COLD_SCOPE_BEGIN = 1,
	COLD_SCOPE_END = 2,
};

struct cold_point {
	uint64_t address; /* of the site */
	uint8_t kind;	  /* enum cold_point_kind */
	uint8_t strings;  /* bit mask of the arguments that are strings */
	uint8_t pointers; /* and of those that are other pointers */
	uint8_t hexes;	  /* and of those that are numbers of IPROBE_HEX */
	/* they point into the section. name is "" for the end of a scope that only identity (an
	 * operand) names */
	const char *name, *args, *identity;
	uint64_t text; /* address of the arguments as the source has them; 0: not known */
};

/* Checks the record at bytes (size bytes left) and gives its length. Returns 0, or -1 with an error
 * that does not name the module. */
int cold_point_read(const uint8_t *bytes, size_t size, struct cold_point *ret, size_t *ret_length);

/* Returns the text for a record's arguments in the probe list (malloc'ed; NULL: out of memory, with
 * an error). Symbols become addresses. An argument whose place is not known becomes "?". */
char *cold_point_places(const struct cold_module *module, const struct cold_point *point);

/* The hash by which an end without a name refers to its scope (probe.h: IPROBE_HASH_). */
uint64_t cold_scope_hash(const char *name);

#endif
