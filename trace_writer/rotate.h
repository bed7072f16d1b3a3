/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the newest part of a trace. The streams are in pieces (common/trace/trace_segments.h), and
 * the oldest pieces are removed. A packet goes into the newest piece. If that piece would become
 * larger than a piece may be:
 *
 *   1. The table gets the line of a new piece, which is the newest from here on. The line names the
 *      first piece that counts. The pieces before it do not count any more. The first piece's line
 *      holds the totals of what they held.
 *   2. The files of the pieces that do not count are removed.
 *   3. The packet is written, by the steps of journal.h, into a file of the new piece.
 *
 * If iprobe is killed before 1, the recording goes on in the old piece. If it is killed before 2 is
 * complete, files are left over. Readers ignore them, and the iprobe that goes on with the
 * recording removes them. Each entry of the journal names the piece that its packet is in. An entry
 * whose piece does not count any more still says how far its slot had come. But an entry must not
 * do so if its packet was never complete. So the iprobe that goes on erases such entries, also a
 * slot's very first one (journal.h).
 */
#ifndef IP_ROTATE_H
#define IP_ROTATE_H

#include <stddef.h>
#include <stdint.h>

struct ip_trace;
struct ip_trace_rotation;
struct ip_progress;

/* How many pieces there may be; the number of the newest piece; the number of the oldest piece that
 * counts. All are 0 if the trace is not in pieces. */
unsigned ip_rotation_pieces(const struct ip_trace *trace);
uint32_t ip_rotation_newest(const struct ip_trace *trace);
uint32_t ip_rotation_first(const struct ip_trace *trace);

/* Call this before a packet of that size is written. It does nothing if the trace is not in pieces.
 * Returns 0, or -1 with an error and errno. */
int ip_rotation_make_room(struct ip_trace *trace, size_t size);
/* Other bytes belong to the newest piece. */
void ip_rotation_add_bytes(struct ip_trace *trace, uint64_t size);
/* Call this after the packet has been written. */
void ip_rotation_wrote(struct ip_trace *trace, size_t size);
/* Call this when a slot's state has changed from before to after. */
void ip_rotation_advanced(struct ip_trace *trace, const struct ip_progress *before,
			  const struct ip_progress *after);

/* ip_rotation_reopen() goes on with a trace of at most `pieces` pieces. Before ip_rotation_settle()
 * is called, the caller must know the valid end of each stream (piece, size, packets and progress
 * of struct ip_trace_stream). ip_rotation_settle() removes all files that do not count. Both return
 * 0, or -1 with an error. */
int ip_rotation_reopen(struct ip_trace *trace, unsigned pieces, uint64_t max_size);
int ip_rotation_settle(struct ip_trace *trace);

void ip_rotation_destroy(struct ip_trace_rotation *rotation);

#endif
