/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces that keep the newest part (--rotate N): streams are written in pieces,
 * DIR/stream-SLOT-PIECE[.zst], and the oldest pieces are removed.
 *
 * DIR/iprobe/pieces is a table of lines of 256 bytes each. The line of piece P is at place P mod
 * 128:
 *
 *   piece P FIRST TSC PACKETS BYTES EVENTS LOST
 *
 * The fields are separated by tabs and decimal. Spaces fill the line up to the newline. The line is
 * written when the piece begins. FIRST: the oldest piece that exists from then on. TSC: the present
 * time, so no packet of an earlier piece has an event after it. The other fields are totals of all
 * pieces before P: their packets, bytes and events, and the events that were lost until then. So
 * the line with the highest P tells which pieces exist, and line FIRST what was removed. A line is
 * written by one call and does not cross a page: it is written as a whole or not at all.
 */
#ifndef IP_TRACE_SEGMENTS_H
#define IP_TRACE_SEGMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IP_TRACE_PIECES	       "iprobe/pieces"
#define IP_TRACE_SEGMENT_LINE  256u
#define IP_TRACE_SEGMENTS_MAX  64u  /* pieces that exist at a time */
#define IP_TRACE_SEGMENTS_ROOM 128u /* lines: a new line overwrites none that is needed */
#define IP_TRACE_SEGMENTS_SIZE (IP_TRACE_SEGMENTS_ROOM * IP_TRACE_SEGMENT_LINE)
#define IP_STREAM_NAME_MAX     40u

struct ip_trace_segment {
	uint32_t number, first;
	uint64_t tsc, packets, bytes, events, lost;
};

struct ip_trace_segments {
	/* by number mod IP_TRACE_SEGMENTS_ROOM; valid from the newest one's first to the newest */
	struct ip_trace_segment items[IP_TRACE_SEGMENTS_ROOM];
	uint32_t newest;
};

static inline const struct ip_trace_segment *ip_trace_segment_at(const struct ip_trace_segments *p,
								 uint32_t number)
{
	return &p->items[number % IP_TRACE_SEGMENTS_ROOM];
}

static inline const struct ip_trace_segment *
ip_trace_segments_newest(const struct ip_trace_segments *p)
{
	return ip_trace_segment_at(p, p->newest);
}

/* The oldest piece that exists: its totals are what was removed. */
static inline const struct ip_trace_segment *
ip_trace_segments_first(const struct ip_trace_segments *p)
{
	return ip_trace_segment_at(p, ip_trace_segments_newest(p)->first);
}

/* ip_trace_segment_format() writes the line of a piece, without a NUL. ip_trace_segment_place()
 * returns its offset in the file. */
void ip_trace_segment_format(const struct ip_trace_segment *piece,
			     char line[IP_TRACE_SEGMENT_LINE]);
static inline uint64_t ip_trace_segment_place(uint32_t number)
{
	return (uint64_t)(number % IP_TRACE_SEGMENTS_ROOM) * IP_TRACE_SEGMENT_LINE;
}

/* Parses the table; skips what is no line. Returns -1 with an error that names the file, if the
 * table does not tell which pieces exist. */
int ip_trace_segments_parse(const char *name, const char *text, size_t size,
			    struct ip_trace_segments *ret);

/* The parts of the name of a stream's file. */
struct ip_stream_name {
	uint32_t slot, piece;
	bool in_pieces;	 /* the name has a piece */
	bool compressed; /* compressed, see common/trace/packet_codec.h */
};

void ip_stream_name_format(const struct ip_stream_name *name, char ret[IP_STREAM_NAME_MAX]);
/* Returns false if it is no stream. */
bool ip_stream_name_parse(const char *text, struct ip_stream_name *ret);

#endif
