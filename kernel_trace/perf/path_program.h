/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program of BPF that copies paths which system calls were given (path_ring.h).
 */
#ifndef IP_PATH_PROGRAM_H
#define IP_PATH_PROGRAM_H

#include <stdint.h>

#include "common/trace/call_path.h"

struct ip_thread_filter;

/* What the program writes for each path: length - offsetof(text) bytes of text, with its end; none:
 * it could not be read. */
struct ip_path_record {
	uint64_t ns; /* CLOCK_MONOTONIC */
	uint64_t address;
	int32_t tid;
	uint16_t number;
	uint8_t argument, unused;
	char text[IP_CALL_PATH_MOST];
};

/* Loads the program and attaches it: it works until the descriptor is closed that is returned. -1
 * with an error. ring: a BPF_MAP_TYPE_RINGBUF. dropped: a BPF_MAP_TYPE_ARRAY of one 64-bit number,
 * which counts the records for which the ring had no room. */
int ip_path_program_attach(const struct ip_thread_filter *filter, int ring, int dropped);

#endif
