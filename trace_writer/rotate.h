/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeping the newest: streams in pieces (common/trace_segments.h), of which the oldest are removed.
 * A packet goes into the newest piece. Where that would become larger than a piece may be:
 *
 *   1. The table gets the line of a new piece. From here on that is the newest, and those before
 *      its first one do not count any more: what they held is in the first one's line.
 *   2. The files of the pieces that do not count are removed.
 *   3. The packet is written, by the steps of journal.h, into a file of the new piece.
 *
 * Killed before 1 it goes on in the piece before. Killed before 2 is complete files are left over,
 * which readers leave out; who goes on with the recording removes them. The journal's entries name
 * the piece that their packet is in. One whose piece does not count any more says how far its slot
 * had come all the same; so that no entry does so whose packet was never complete, who goes on
 * erases those, a slot's very first one too (journal.h).
 */
#ifndef IP_ROTATE_H
#define IP_ROTATE_H

#include <stddef.h>
#include <stdint.h>

struct ip_trace;
struct ip_trace_rotation;
struct ip_progress;

/* How many there may be, the newest, and the oldest that counts. All 0: the trace is not in
 * pieces. */
unsigned ip_rotation_pieces(const struct ip_trace *trace);
uint32_t ip_rotation_newest(const struct ip_trace *trace);
uint32_t ip_rotation_first(const struct ip_trace *trace);

/* Before a packet of that size is written; of a trace that is not in pieces it does nothing. -1
 * with an error and errno. */
int ip_rotation_make_room(struct ip_trace *trace, size_t size);
/* It has been written. */
void ip_rotation_wrote(struct ip_trace *trace, size_t size);
/* A slot has come from before to after. */
void ip_rotation_advanced(struct ip_trace *trace, const struct ip_progress *before,
			  const struct ip_progress *after);

/* Goes on with a trace in so many pieces; the streams' good ends (ip_trace_stream.piece, size,
 * packets, progress) are known when ip_rotation_settle() is called, which removes all else. -1
 * with an error. */
int ip_rotation_reopen(struct ip_trace *trace, unsigned pieces, uint64_t max_size);
int ip_rotation_settle(struct ip_trace *trace);

void ip_rotation_destroy(struct ip_trace_rotation *rotation);

#endif
