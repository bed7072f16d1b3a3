/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the readings of a live log share (last_calls.c): the first one, which takes its text
 * (log_text.c), and those of the records (log_records.c).
 */
#ifndef IP_LAST_CALLS_PRIVATE_H
#define IP_LAST_CALLS_PRIVATE_H

#include <stdbool.h>

#include "analysis/callstack/frames.h"
#include "analysis/stream_log/batch_reader.h"
#include "analysis/stream_log/last_calls.h"

/* A thread while its records are read. */
struct ip_log_thread {
	struct ip_last_thread thread;
	uint64_t sp; /* of its first record */
	uint32_t number;
	bool known; /* a section has told of it */
	bool ends;  /* another one tells of its end */
	bool now;   /* it is read in this reading */
	bool read;  /* it was */
	bool begun;
	struct ip_frames *frames; /* NULL: not now */
	size_t next;		  /* in thread.calls, once it is full: the oldest one */
	uint64_t batch;		  /* the last one that thread.behind is of */
	struct ip_log_reader *reader;
};

struct ip_log_reader {
	struct ip_batch_reader *batches;
	struct ip_last_calls *last;
	const char *path;
	char *text;
	size_t text_size, text_room;
	struct ip_log_thread **threads; /* by number; NULL: none */
	size_t nthreads;
	size_t most;
	struct ip_log_thread **order; /* threads, in the order in which they are read */
	size_t norder;
	size_t machines;   /* that are there at a time */
	uint64_t nbatches; /* of this reading */
	size_t first, end; /* the threads of `order` that are read now */
	bool failed;	   /* memory ran out in a visitor */
	bool finishes;	   /* what the machine still knows is asked for */
};

/* The first reading: text, threads, and what the end marks say. Returns 0, or -1 with an error. */
int ip_log_text_read(struct ip_log_reader *r);

/* Returns the thread of a number, which is made where it is new; NULL with an error. */
struct ip_log_thread *ip_log_thread_of(struct ip_log_reader *r, uint32_t number);

/* Reads the records of the threads first..end-1 of the order. Returns 0, or -1 with an error. */
int ip_log_records_read(struct ip_log_reader *r);

/* Gives a thread its stack machine. Its first record comes at that time: calls that were open
 * before are put below it. Returns 0, or -1 with an error. */
int ip_log_thread_begin(struct ip_log_thread *t, uint64_t time);
/* Takes the calls that are open, and closes the machine. Returns 0, or -1 with an error. */
int ip_log_thread_finish(struct ip_log_thread *t);

#endif
