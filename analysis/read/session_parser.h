/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the source files of the parser of session files share.
 */
#ifndef IP_SESSION_PARSER_H
#define IP_SESSION_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/read/session.h"

#define IP_SESSION_FIELDS 8

struct ip_session_parser {
	struct ip_recording *session;
	const char *name;
	size_t line;
	char *fields[IP_SESSION_FIELDS];
	size_t nfields;
	bool truncated; /* the text does not end in a newline */
};

/* Sets an error that names the line; returns -1. */
int ip_session_bad(const struct ip_session_parser *p, const char *what);

/* Reads field i as a number, decimal or hexadecimal with 0x, of at most max. Returns 0, or -1
 * with an error. */
int ip_session_number(const struct ip_session_parser *p, size_t i, uint64_t max, uint64_t *ret);

/* session_lines.c. Parses a line that has been cut into fields. Returns 0, or -1 with an error. */
int ip_session_parse_line(struct ip_session_parser *p);

/* session_functions.c */
int ip_session_parse_module(struct ip_session_parser *p);
int ip_session_parse_function(struct ip_session_parser *p);
/* session_jumps.c */
int ip_session_parse_silent(struct ip_session_parser *p); /* lines "silent", "shown" and "tails" */
int ip_session_parse_jump(struct ip_session_parser *p);
/* Must be called when all lines have been read. */
void ip_session_index_jumps(struct ip_recording *s);

/* session_threads.c */
int ip_session_parse_thread(struct ip_session_parser *p);

/* session_processes.c */
int ip_session_parse_process(struct ip_session_parser *p);
/* Must be called when all lines have been read. */
void ip_session_index_processes(struct ip_recording *s);

/* session_stacks.c */
int ip_session_parse_stack(struct ip_session_parser *p);
/* Must be called when all lines have been read. */
void ip_session_index_stacks(struct ip_recording *s);

/* Sorts the jumps, whose functions are known, for ip_recording_leads_to(). */
void ip_recording_sort_jumps(struct ip_recording *s);

/* Returns the index of the function of that name, which is added where it is new: the name is
 * borrowed then. module is the first one of its path and build-id. Returns 0 with an error where
 * memory ran out. */
uint32_t ip_recording_add_function(struct ip_recording *s, uint32_t module, const char *name);

/* Keeps the index of functions at most half full. Returns 0, or -1 with an error. */
int ip_recording_grow_index(struct ip_recording *s);

/* session_segments.c. Reads DIR/iprobe/pieces where it exists. Returns 0, or -1 with an error. */
int ip_session_load_pieces(const char *dir, struct ip_recording *s);

#endif
