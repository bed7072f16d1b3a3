/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the trace writer share: the directory (writer.c), the content of the session
 * file (session_file.c), writing that file and the metadata to disk (sync.c), streams of packets
 * (streams.c).
 */
#ifndef IP_WRITER_PRIVATE_H
#define IP_WRITER_PRIVATE_H

#include <stdio.h>

#include "common/trace/ctf_metadata.h"
#include "common/trace/trace_dir.h"
#include "common/trace/trace_segments.h"
#include "trace_writer/rotate.h"
#include "trace_writer/writer.h"

struct ip_trace_stream {
	int fd;
	uint32_t piece; /* the newest piece with a packet of this stream; 0: not in pieces */
	uint64_t packets, size;	     /* size: of the file, or of that piece's file */
	uint64_t prepared;	     /* packets that have a number, also those not yet written */
	struct ip_progress progress; /* of the slot, as it was last written */
};

struct ip_trace {
	char *dir;
	struct ip_dir_place place; /* where it was made; none if it was reopened */
	int dirfd;
	uint8_t uuid[16];
	pid_t pid;
	char *command;
	struct ip_clock_reading start;
	uint64_t hz;
	uint64_t tsc_end;
	uint64_t live_tsc, idle_tsc; /* 0: not yet; common/trace/trace_format.h */
	struct ip_trace_stream *streams;
	size_t nstreams;
	uint64_t bytes;
	uint64_t *shared_bytes; /* of all traces that share one limit; NULL: this one has its own */
	/* the body of the session file; lines are added as facts become known. text has what
	 * text_out was flushed to */
	char *text;
	size_t text_size, text_room;
	FILE *text_out;
	struct ip_ctf_label *labels;
	size_t nlabels;
	char *label_text; /* of all labels; room for label_room bytes */
	size_t label_size, label_room;
	struct ip_ctf_thread *threads;
	size_t nthreads;
	struct ip_list_copy **copies; /* that are being written */
	size_t ncopies;
	char **modules; /* "build-id bias" of the modules in the session file */
	size_t nmodules;
	uint8_t *known; /* bitmap of the numbers in the session file */
	size_t nfunctions;
	uint8_t *silent,
		/* bitmaps by number, in one block of memory. silent: the session file says that the
		 * function is silent. jumps: it says where the function's tail exits lead. */
		*jumps;
	uint32_t nsignatures;
	uint32_t nlibraries; /* that were loaded or unloaded */
	uint32_t nstops;
	struct {
		uint64_t n, ns, longest_ns;
	} more_stops; /* stops that have no line of their own */
	struct ip_stop_looks looks;
	char *ending;
	struct ip_journal *journal;
	struct ip_trace_rotation *rotation; /* NULL: the trace keeps everything */
	struct ip_packet_codec *codec;	    /* of compressed streams; NULL: they are plain */
	char **selections; /* the session's selections in their order, if the trace was reopened */
	size_t nselections;
	size_t synced_size; /* of text, when it was last written */
	int old;	    /* the directory that was moved to DIR.old; -1: none */
};

/* Makes room for the stream. Returns 0, or -1 with an error. */
int ip_trace_grow_streams(struct ip_trace *trace, uint32_t stream);

/* Adds a number and its label, "module:function", which other CTF readers show. Returns 0, or -1
 * with an error. */
int ip_trace_add_label(struct ip_trace *trace, uint32_t number, const char *module_path,
		       const char *name, bool inlined);

/* Makes an empty trace. Returns NULL with an error. */
struct ip_trace *ip_trace_new(const char *dir);

/* Writes a value of the session file. Control characters and backslash become \xHH. */
void ip_trace_put_value(FILE *out, const char *value);

/* Gives stream-N, or stream-N.zst; stream-N-PIECE if the trace is in pieces. */
void ip_trace_stream_name(const struct ip_trace *trace, uint32_t stream, uint32_t piece,
			  char ret[IP_STREAM_NAME_MAX]);

/* Closes the descriptors of the streams. Each is opened again when its stream gets a packet. */
void ip_trace_close_streams(struct ip_trace *trace);

#endif
