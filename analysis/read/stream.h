/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one stream file of a trace: packets, and the events in them (common/trace/trace_format.h).
 *
 * The file is input from outside, and a crash or a full disk may have cut it off. The reader
 * reads what is good, leaves out the rest, and ip_stream_damage() tells what is wrong. Memory is
 * one buffer of a fixed size. For a compressed stream the buffer holds one packet, whose size is
 * bounded. The reader does not use mmap: a file that shrinks while it is mapped would kill the
 * reader.
 */
#ifndef IP_STREAM_H
#define IP_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ip_event {
	uint64_t ts;	   /* TSC */
	uint64_t sp;	   /* stack pointer, lowest 4 bits 0 */
	uint32_t number;   /* probe number, never 0 */
	uint32_t kind : 8; /* enum ip_probe_kind; other values belong to a newer version */
	/* 0: the event came without values; else ip_event_payload() finds them with it */
	uint32_t payload : 24;
};

struct ip_packet {
	uint64_t offset; /* in the file */
	uint64_t begin, end;
	uint64_t lost;	  /* events lost between the packet before and this one */
	uint64_t missing; /* packets that are missing between the packet before and this one */
	uint64_t bytes;	  /* size of its records, uncompressed */
	uint32_t pid, tid;
	bool ended; /* The packet has no records: the thread has ended, between begin and end. */
};

/* A place between two packets of a stream. A reader that has been there may go there again. */
struct ip_stream_mark {
	uint64_t next; /* offset of the next packet's header */
	size_t nlater; /* files that follow this one */
	/* Of the packet before the place, and of its last record: */
	uint64_t sequence, discarded, ts, sp;
	uint32_t pid, tid;
	uint8_t uuid[16];
	bool begun, known, spoiled;
};

struct ip_stream;
struct ip_unpack;

/* Opens a stream and looks at its first packet. Returns 0, or -1 with an error: the file cannot
 * be opened, or its first packet is not one of iprobe's. An empty file is a stream without
 * packets. */
int ip_stream_open(const char *path, struct ip_stream **ret);

/* Opens a stream as ip_stream_open() does, for a caller that has many streams open at once: the
 * buffer is small, and the streams share the memory that unpacking needs. *unpack is NULL at
 * first and is made when it is needed; the caller frees it after the last stream. */
int ip_stream_open_small(const char *path, struct ip_unpack **unpack, struct ip_stream **ret);
void ip_stream_close(struct ip_stream *stream);

/* Adds files whose packets follow those of the file that the stream was opened with, one file
 * after the other. They are the pieces of one stream. The paths are borrowed. */
void ip_stream_go_on(struct ip_stream *stream, const char *const *paths, size_t n);

/* How the numbers in a stream are told to the reader: of functions, and of signatures of values.
 * Those up to most become base + number; larger ones become base + most + 1. A signature 0 stays
 * 0. */
struct ip_stream_renumber {
	uint32_t base, most;
	uint32_t signature_base, signature_most;
};

/* Shifts the numbers of all events from now on. */
void ip_stream_renumber(struct ip_stream *stream, const struct ip_stream_renumber *shift);

/* Goes to the next packet and skips what was not read of the packet before. Returns 1; 0 at the
 * end, which may be where the damage begins; -1 with an error where reading fails. */
int ip_stream_next_packet(struct ip_stream *stream, struct ip_packet *ret);

/* ip_stream_mark() notes the place before the next packet. It must be called when all events of the
 * packet that was read last have been read. ip_stream_go_to() goes to a place of these files. The
 * stream must have been opened anew: it has no damage, and no packet of it has been read. Returns
 * 0, or -1 with an error: the file has become shorter, or cannot be opened any more. */
void ip_stream_mark(const struct ip_stream *stream, struct ip_stream_mark *ret);
int ip_stream_go_to(struct ip_stream *stream, const struct ip_stream_mark *mark);

/* Returns the 16 bytes that name the trace in the packet that was read last. They are valid as
 * long as the stream. */
const uint8_t *ip_stream_uuid(const struct ip_stream *stream);

/* Decodes up to max events of the packet into events. Returns their number; 0 at the packet's
 * end; -1 with an error where reading fails. */
ssize_t ip_stream_read(struct ip_stream *stream, struct ip_event *events, size_t max);

/* Words of the packet, of which the first ones may be compact records
 * (common/trace/trace_format.h). */
struct ip_stream_words {
	const uint64_t *words;
	size_t n;
	uint64_t ts, sp;			/* of the record before the first word */
	const struct ip_stream_renumber *shift; /* how the numbers are told to the reader */
};

/* Tells which words come next, for a caller that decodes compact records itself. They are valid
 * until the next call for the stream. Returns 1; 0 where the next record is not a compact one, or
 * is to be left out, or the packet is at its end; -1 with an error where reading fails. */
int ip_stream_words(struct ip_stream *stream, struct ip_stream_words *ret);

/* Tells that the caller has decoded the first n of these words, all of them compact records. ts and
 * sp are those of the last one. */
void ip_stream_pass(struct ip_stream *stream, size_t n, uint64_t ts, uint64_t sp);

/* ip_event_payload() returns the values of an event that ip_stream_read() has just delivered:
 * the word that describes them and the value words after it (common/trace/trace_format.h). As many
 * words as the first one says are there. base is what ip_stream_payloads() returns; it is valid
 * until the next read. */
const uint64_t *ip_stream_payloads(const struct ip_stream *stream);

static inline const uint64_t *ip_event_payload(const struct ip_event *event, const uint64_t *base)
{
	return event->payload ? base + event->payload - 1 : NULL;
}

const char *ip_stream_path(const struct ip_stream *stream);

/* Returns what is wrong with the file as far as it has been read, as one line that names file
 * and offset; NULL: nothing. The text is owned by the stream. */
const char *ip_stream_damage(const struct ip_stream *stream);

#endif
