/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces that keep the newest (--rotate N): streams are written in pieces,
 * DIR/stream-SLOT-PIECE[.zst], and the oldest pieces are removed.
 *
 * DIR/iprobe/pieces is a table of lines of 256 bytes each, that of piece P at place P mod 128:
 *
 *   piece P FIRST TSC PACKETS BYTES EVENTS LOST fields separated by tabs, decimal, spaces up to the
 *   newline
 *
 * written when the piece begins. FIRST: the oldest piece that is there from then on; TSC: now, so
 * that no packet of an earlier piece has an event after it. The others are totals of all pieces
 * before P: packets, bytes and events in them, and the events that were lost until then. So the
 * line with the highest P tells which pieces are there, and line FIRST what was removed. A line is
 * written by one call and does not cross a page: it is there as a whole or not at all.
 */
#ifndef IP_TRACE_SEGMENTS_H
#define IP_TRACE_SEGMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IP_TRACE_PIECES	       "iprobe/pieces"
#define IP_TRACE_SEGMENT_LINE  256u
#define IP_TRACE_SEGMENTS_MAX  64u  /* that are there */
#define IP_TRACE_SEGMENTS_ROOM 128u /* lines: the next one goes over none that counts */
#define IP_TRACE_SEGMENTS_SIZE (IP_TRACE_SEGMENTS_ROOM * IP_TRACE_SEGMENT_LINE)
#define IP_STREAM_NAME_MAX     40u

struct ip_trace_segment {
	uint32_t number, first;
	uint64_t tsc, packets, bytes, events, lost;
};

struct ip_trace_segments {
	/* by number mod IP_TRACE_SEGMENTS_ROOM; good from the newest one's first to the newest */
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

/* The oldest one that is there: its totals are what was removed. */
static inline const struct ip_trace_segment *
ip_trace_segments_first(const struct ip_trace_segments *p)
{
	return ip_trace_segment_at(p, ip_trace_segments_newest(p)->first);
}

/* Its line, without a NUL; where it belongs in the file. */
void ip_trace_segment_format(const struct ip_trace_segment *piece,
			     char line[IP_TRACE_SEGMENT_LINE]);
static inline uint64_t ip_trace_segment_place(uint32_t number)
{
	return (uint64_t)(number % IP_TRACE_SEGMENTS_ROOM) * IP_TRACE_SEGMENT_LINE;
}

/* The table; what is no line is left out. -1 with an error that names the file where it does not
 * tell what is there. */
int ip_trace_segments_parse(const char *name, const char *text, size_t size,
			    struct ip_trace_segments *ret);

/* What the name of a stream's file says. */
struct ip_stream_name {
	uint32_t slot, piece;
	bool in_pieces;	 /* it has a piece */
	bool compressed; /* common/packet_codec.h */
};

void ip_stream_name_format(const struct ip_stream_name *name, char ret[IP_STREAM_NAME_MAX]);
/* false: it is no stream. */
bool ip_stream_name_parse(const char *text, struct ip_stream_name *ret);

#endif
