/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One stream of DIR/kernel (common/trace/kernel_format.h): events are gathered into packets, which
 * are appended to its file. The file is made with the first packet.
 */
#ifndef IP_KERNEL_STREAM_H
#define IP_KERNEL_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ip_call_path;

/* Takes events in the place of files, by the thread that records. A negative value ends the
 * recording. */
struct ip_kernel_sink {
	/* An event (common/trace/kernel_format.h). Those of a CPU come in their order; those of the
	 * beginning come as those of CPU IP_KERNEL_CPUS_MAX. */
	int (*event)(void *context, uint32_t cpu, const uint8_t *event, size_t size);
	/* So many events of the CPU were lost behind the last one: of all processes, or of the
	 * targets. */
	int (*lost)(void *context, bool all, uint32_t cpu, uint64_t n);
	/* A path that a system call was given, or a gap in them. Those of calls that returned
	 * before until() have come by then. NULL: paths are not recorded. */
	int (*path)(void *context, const struct ip_call_path *path);
	/* All events before tsc have come. */
	int (*until)(void *context, uint64_t tsc);
	/* The thread that records has failed, and ends. NULL: nobody is told but who asks. */
	void (*failed)(void *context, const char *why);
	void *context;
	bool everywhere; /* it takes those of all processes, and IP_KERNEL_SCHED_EXEC, too */
	bool hurries;	 /* while events come they are read every few milliseconds */
};

struct ip_kernel_segments;
struct ip_recorded_segments;

struct ip_kernel_stream {
	int dir, fd;
	char name[32];
	/* files are in segments: this is the one of the next packet */
	bool in_segments;
	uint32_t segment;
	struct ip_kernel_segments *kept; /* NULL: packets are written to files. Borrowed */
	bool all;			 /* it is one of all processes */
	uint32_t cpu;
	const uint8_t *uuid; /* 16 bytes */
	uint8_t *packet;     /* IP_KERNEL_PACKET_SIZE bytes; NULL: nothing was gathered yet */
	uint32_t used;	     /* of them; 0: no packet is begun */
	uint64_t begin, end; /* times of the first and the last event of the packet */
	uint64_t lost, told_lost, lost_before; /* of lost: before the segment */
	uint64_t size;			       /* of the file */
	bool marks;			       /* private */
	const struct ip_kernel_sink *sink;     /* NULL: there is a file */
	bool failed;			       /* the sink has */
	uint64_t packets;		       /* in the segment */
	uint64_t bytes, events;		       /* of all; events: with those that are gathered */
};

/* dir, uuid: borrowed. part: which of the streams of that CPU it is. */
void ip_kernel_stream_init(struct ip_kernel_stream *stream, int dir, const uint8_t uuid[16],
			   const char *part, uint32_t cpu);

/* It is in segments, if there are some, from the newest one on. */
void ip_kernel_stream_put_in(struct ip_kernel_stream *stream,
			     const struct ip_recorded_segments *segments);

/* Where the next event goes: room for IP_EVENT_SIZE_MAX bytes (event_layout.h). The packet before
 * may be written for that. Returns NULL with an error. */
uint8_t *ip_kernel_stream_room(struct ip_kernel_stream *stream);
/* The event that was written there becomes part of the stream. */
void ip_kernel_stream_add(struct ip_kernel_stream *stream, uint64_t tsc, uint32_t size);

/* From here on, that many events were lost altogether. Returns 0, or -1 with an error. */
int ip_kernel_stream_lost(struct ip_kernel_stream *stream, uint64_t total);

/* Writes what is gathered. Returns 0, or -1 with an error. */
int ip_kernel_stream_flush(struct ip_kernel_stream *stream);
/* Begins the stream by a packet without events that tells of a gap up to tsc. Returns 0, or -1 with
 * an error. */
int ip_kernel_stream_begin(struct ip_kernel_stream *stream, uint64_t tsc);

/* Ends the segment, and begins another one. The events up to tsc are all that there are. Returns 0,
 * or -1 with an error. */
int ip_kernel_stream_cut(struct ip_kernel_stream *stream, uint32_t segment, uint64_t tsc);

/* Writes what is gathered. The events up to tsc are all that there are: a stream that has begun
 * says so, by a packet without events if need be. Returns 0, or -1 with an error. */
int ip_kernel_stream_mark(struct ip_kernel_stream *stream, uint64_t tsc);
/* Writes what is gathered, and what was lost after it, up to tsc. Returns 0, or -1 with an error.
 */
int ip_kernel_stream_finish(struct ip_kernel_stream *stream, uint64_t tsc);
void ip_kernel_stream_clear(struct ip_kernel_stream *stream);

#endif
