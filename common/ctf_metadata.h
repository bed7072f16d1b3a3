/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DIR/metadata of a trace: the layout of trace_format.h told in TSDL (CTF 1.8), so that babeltrace2
 * and Trace Compass open the directory as it is and print functions by name.
 */
#ifndef IP_CTF_METADATA_H
#define IP_CTF_METADATA_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct ip_ctf_label {
	uint32_t number;   /* probe number as in the records */
	const char *label; /* "module:function"; several numbers may have the same one */
};

/* Everything is borrowed from the caller. */
struct ip_ctf_metadata {
	uint8_t uuid[16]; /* as in each packet header */
	uint64_t tsc_hz;
	uint64_t tsc_start;	    /* TSC when the session began ... */
	uint64_t start_realtime_ns; /* ... and CLOCK_REALTIME at that moment */
	const char *host;	    /* NULL: left out */
	const char *command;	    /* NULL: left out */
	const struct ip_ctf_label *labels;
	size_t nlabels;
};

/* Writes the text to out (not flushed, not closed). 0, or -1 with an error: a number out of
 * range, tsc_hz of 0, or out has failed. Bytes that a TSDL string cannot hold are replaced by
 * '?'. */
int ip_ctf_metadata_write(FILE *out, const struct ip_ctf_metadata *m);

#endif
