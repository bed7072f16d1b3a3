/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths that system calls were given, as lines of DIR/iprobe/descriptors (trace_format.h): what
 * stood in the caller's memory when the call returned. The kernel's events have its address only.
 */
#ifndef IP_CALL_PATH_H
#define IP_CALL_PATH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define IP_CALL_PATH_KIND "path" /* of the line, in place of a descriptor's kind */
#define IP_CALL_PATH_MOST 4096u	 /* bytes, with the one that ends it */
/* So many ticks may lie between a call's return and the copy: an interrupt, or the machine below,
 * may come between them. */
#define IP_CALL_PATH_BEHIND 5000000u

/* tid 0: from tsc to address (a time, too) paths are missing. */
struct ip_call_path {
	uint64_t tsc; /* the call returned then, or a moment before or after */
	uint64_t address;
	int32_t tid;
	uint16_t number;  /* of the system call */
	uint8_t argument; /* which one of it, from 0 */
	/* NULL: it could not be read (the kernel itself may have found no memory there) */
	const char *text;
};

/* Writes the line. Control characters of the text, which would break it, become '?'. Returns its
 * bytes. */
uint64_t ip_call_path_write(FILE *out, const struct ip_call_path *path);

/* Reads a line without its end, into which ret->text points. Returns whether it is one. */
bool ip_call_path_parse(const char *line, struct ip_call_path *ret);

#endif
