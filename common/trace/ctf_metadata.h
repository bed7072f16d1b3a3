/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DIR/metadata of a trace: describes the layout of trace_format.h in TSDL (CTF 1.8). So babeltrace2
 * and Trace Compass can open the directory as it is, and print functions by name.
 */
#ifndef IP_CTF_METADATA_H
#define IP_CTF_METADATA_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct ip_ctf_label {
	uint32_t number; /* probe number as in the records */
	/* where it begins in the text of all labels: "module:function", and a zero; several numbers
	 * may have the same label */
	uint32_t label;
};

struct ip_ctf_thread {
	uint32_t tid;
	char name[16]; /* the last one that is known; empty: none */
};

/* The caller keeps the ownership of everything. */
struct ip_ctf_metadata {
	uint8_t uuid[16]; /* as in each packet header */
	uint64_t tsc_hz;
	uint64_t tsc_start;	    /* TSC when the session began */
	uint64_t start_realtime_ns; /* CLOCK_REALTIME at that moment */
	const char *host;	    /* NULL: left out */
	const char *command;	    /* NULL: left out */
	const struct ip_ctf_label *labels;
	size_t nlabels;
	const char *label_text;
	const struct ip_ctf_thread *threads; /* become thread_TID = "NAME" of the environment */
	size_t nthreads;
};

/* Writes the text to out; does not flush or close it. Returns 0, or -1 with an error: a number is
 * out of range, tsc_hz is 0, or writing has failed. Bytes that a TSDL string cannot hold are
 * replaced by '?'. */
int ip_ctf_metadata_write(FILE *out, const struct ip_ctf_metadata *m);

#endif
