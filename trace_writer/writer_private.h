/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of a trace's writer share: the directory (trace.c), what its session file tells
 * (session_file.c), putting that and the metadata on disk (sync.c), streams of packets (streams.c).
 */
#ifndef IP_WRITER_PRIVATE_H
#define IP_WRITER_PRIVATE_H

#include <stdio.h>

#include "common/ctf_metadata.h"
#include "common/trace_dir.h"
#include "common/trace_segments.h"
#include "trace_writer/rotate.h"
#include "trace_writer/writer.h"

struct ip_trace_stream {
	int fd;
	uint32_t piece; /* the newest that it has a packet in; 0: the trace is not in pieces */
	uint64_t packets, size; /* size: of the file, or of that piece's */
	uint64_t prepared;	/* packets that have a number, those not yet written included */
	struct ip_progress progress; /* of the slot, as it was written last */
};

struct ip_trace {
	char *dir;
	struct ip_dir_place place; /* where it was made; none where it was opened again */
	int dirfd;
	uint8_t uuid[16];
	pid_t pid;
	char *command;
	struct ip_clock_reading start;
	uint64_t hz;
	uint64_t tsc_end;
	struct ip_trace_stream *streams;
	size_t nstreams;
	uint64_t bytes;
	/* the body of the session file, grown as things become known */
	char *text;
	size_t text_size;
	FILE *text_out;
	struct ip_ctf_label *labels; /* labels are owned */
	size_t nlabels;
	char **modules; /* "build-id bias" of those written */
	size_t nmodules;
	uint8_t *known; /* bitmap of numbers written */
	size_t nfunctions;
	uint8_t *silent,
		/* bits by number: told to be silent; where its tail exits lead has been told. One
		 * block of memory */
		*jumps;
	uint32_t nsignatures;
	uint32_t nlibraries; /* that came or went */
	uint32_t nstops;
	struct {
		uint64_t n, ns, longest_ns;
	} more_stops; /* that have no line of their own */
	char *ending;
	struct ip_journal *journal;
	struct ip_trace_rotation *rotation; /* it keeps the newest; NULL: it keeps everything */
	struct ip_packet_codec *codec;	    /* streams are compressed; NULL: they are plain */
	char **selections; /* where the trace was opened again: the session's, in their order */
	size_t nselections;
	size_t synced_size; /* of text, when it was written last */
	int old;	    /* what was there before, and is DIR.old now; -1: nothing was */
};

/* Room for the stream. -1 with an error. */
int ip_trace_grow_streams(struct ip_trace *trace, uint32_t stream);

/* A number is known from now on, by the label that other CTF readers show: "module:function". */
int ip_trace_add_label(struct ip_trace *trace, uint32_t number, const char *module_path,
		       const char *name, bool inlined);

/* An empty one; fields that cannot be had are zero. */
struct ip_trace *ip_trace_new(const char *dir);

/* A value of the session file: control characters and backslash as \xHH. */
void ip_trace_put_value(FILE *out, const char *value);

/* stream-N, or stream-N.zst; stream-N-PIECE where it is in pieces. */
void ip_trace_stream_name(const struct ip_trace *trace, uint32_t stream, uint32_t piece,
			  char ret[IP_STREAM_NAME_MAX]);

/* Closes the descriptors of streams; they are opened again as they get packets. */
void ip_trace_close_streams(struct ip_trace *trace);

#endif
