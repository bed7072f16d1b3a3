/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading one stream file of a trace: packets, and the events in them (common/trace_format.h).
 *
 * The file is input from outside, and may have been cut off by a crash or a full disk: what is good
 * is read, what is not is left out and told by ip_stream_damage(). Memory is one buffer of a fixed
 * size, of a compressed stream that of a packet, which is bounded. Not mmap: a file that shrinks
 * under the reader would kill it.
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
	/* 0: it came without values; else where ip_stream_payload() has them */
	uint32_t payload : 24;
};

struct ip_packet {
	uint64_t offset; /* in the file */
	uint64_t begin, end;
	uint64_t lost;	  /* events lost between the packet before and this one */
	uint64_t missing; /* packets that are missing before this one */
	uint64_t bytes;	  /* of its records, uncompressed */
	uint32_t pid, tid;
	bool ended; /* it has no records: the thread has ended, between begin and end */
};

struct ip_stream;
struct ip_unpack;

/* Opens a stream and looks at its first packet. 0, or -1 with an error: cannot open, or the
 * first packet is not one of iprobe's. An empty file is a stream without packets. */
int ip_stream_open(const char *path, struct ip_stream **ret);

/* The same for one of many that are open at once: with a small buffer, and with what unpacking
 * needs shared by them. *unpack: NULL at first, made when it is needed, the caller's to be freed
 * behind the last stream. */
int ip_stream_open_small(const char *path, struct ip_unpack **unpack, struct ip_stream **ret);
void ip_stream_close(struct ip_stream *stream);

/* Behind the packets of what it was opened with come those of these files, one after the other:
 * pieces of one stream. The paths are borrowed. */
void ip_stream_go_on(struct ip_stream *stream, const char *const *paths, size_t n);

/* Goes to the next packet (what was not read of the one before is skipped). 1; 0 at the end,
 * which may be where the damage begins; -1 with an error where reading fails. */
int ip_stream_next_packet(struct ip_stream *stream, struct ip_packet *ret);

/* The 16 bytes that name the trace in the packet read last; valid as long as the stream. */
const uint8_t *ip_stream_uuid(const struct ip_stream *stream);

/* Decodes up to max events of the packet into events. The number of them; 0 at the packet's end;
 * -1 with an error where reading fails. */
ssize_t ip_stream_read(struct ip_stream *stream, struct ip_event *events, size_t max);

/* The values of an event that ip_stream_read() has just delivered: the word that tells of them
 * and what follows (common/trace_format.h; as many words as it says are there). base: what
 * ip_stream_payloads() says, until the next read. */
const uint64_t *ip_stream_payloads(const struct ip_stream *stream);

static inline const uint64_t *ip_event_payload(const struct ip_event *event, const uint64_t *base)
{
	return event->payload ? base + event->payload - 1 : NULL;
}

const char *ip_stream_path(const struct ip_stream *stream);

/* What is wrong with the file as far as it has been read, as one line that names file and
 * offset; NULL: nothing. Owned by the stream. */
const char *ip_stream_damage(const struct ip_stream *stream);

#endif
