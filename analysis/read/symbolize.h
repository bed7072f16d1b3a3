/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code addresses of a recorded process as people read them: function and offset, source file and
 * line.
 *
 * The module's file answers, where it is still there with the build-id that was recorded: its
 * symbols, and its debug information (its own or that of a separate file) for the line. Elsewhere
 * the copy of the probe list in the trace has to do: it knows the functions that have probes, and
 * so does the trace on another machine.
 */
#ifndef IP_SYMBOLIZE_H
#define IP_SYMBOLIZE_H

#include <stdint.h>

#include "analysis/read/session.h"

struct ip_place {
	uint64_t address;
	const char *function; /* linker name, without the compiler's suffixes; NULL: unknown */
	const char *name;     /* the same demangled, without arguments */
	const char *module;   /* last component of its path; NULL: unknown */
	const char *file;     /* NULL: unknown */
	uint32_t line;
	uint64_t offset; /* from the function's beginning */
	/* private: one more than the index of the callee's module, where that has the address; 0 */
	size_t chosen;
};

struct ip_symbolizer;

/* dir: of the trace; session is borrowed. NULL with an error where memory ran out. */
struct ip_symbolizer *ip_symbolizer_create(const char *dir, const struct ip_recording *session);
void ip_symbolizer_destroy(struct ip_symbolizer *places);

/* What a return address belongs to: the call in front of it. callee: the module of the function
 * that was called there, which goes before others that have the address too: a trace of several
 * processes does not tell whose modules are, and programs that are not position-independent all
 * lie at one place. Looked up once, kept. Owned by places; NULL with an error where memory ran
 * out. */
const struct ip_place *ip_symbolizer_get(struct ip_symbolizer *places, uint32_t callee,
					 uint64_t return_address);

/* For people: "main+0x3f", "0x7f..." where nothing is known; with the source's "file:line"
 * behind a space where that is known, its directories left out. malloc'ed, as clean as
 * ip_clean() makes it; NULL where memory ran out. */
char *ip_place_text(const struct ip_place *place);

#endif
