/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code addresses of a recorded process as people read them: function and offset, source file and
 * line.
 *
 * Where the module's file is still there with the build-id that was recorded, it gives the
 * answer: its symbols give the function, and its debug information (its own or that of a
 * separate file) gives the line. Elsewhere the copy of the probe list in the trace gives the
 * answer. It knows only the functions that have probes, and it works on another machine, too.
 */
#ifndef IP_SYMBOLIZE_H
#define IP_SYMBOLIZE_H

#include <stdint.h>

#include "analysis/read/session.h"

struct ip_place {
	uint64_t address;
	const char *function; /* linker name, without the compiler's suffixes; NULL: unknown */
	const char *name;     /* demangled, without arguments */
	const char *module;   /* last component of the module's path; NULL: unknown */
	const char *file;     /* NULL: unknown */
	uint32_t line;
	uint64_t offset; /* from the function's beginning */
	/* Private. Index + 1 of the callee's module where that module has the address; else 0. */
	size_t chosen;
	uint32_t member;
};

struct ip_symbolizer;

/* dir is the directory of the trace. session is borrowed. Returns NULL with an error where
 * memory ran out. */
struct ip_symbolizer *ip_symbolizer_create(const char *dir, const struct ip_recording *session);
void ip_symbolizer_destroy(struct ip_symbolizer *places);

/* Returns what a return address in a process of a member (analysis/read/members.h; 0 in a recording
 * of one process) belongs to: the call before it. callee is the module of the
 * function that was called there. Where several modules have the address, callee's module wins,
 * for two reasons: a trace of several processes does not tell which module belongs to which
 * process, and programs that are not position-independent all lie at one address. Each address
 * is looked up once and kept. The result is owned by places; NULL with an error where memory ran
 * out. */
const struct ip_place *ip_symbolizer_get(struct ip_symbolizer *places, uint32_t member,
					 uint32_t callee, uint64_t return_address);

/* Text for people: "main+0x3f", or "0x7f..." where nothing is known. Where the source is known,
 * a space and "file:line" follow, without directories. The result is malloc'ed and cleaned by
 * ip_clean(); NULL where memory ran out. */
char *ip_place_text(const struct ip_place *place);

#endif
