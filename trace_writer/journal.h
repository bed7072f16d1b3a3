/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal is a file of the trace directory (IP_TRACE_JOURNAL). It says how far the collector
 * has come. So if an iprobe is killed, another one can go on at the same place, without a gap and
 * without a duplicate.
 *
 *   1. Before a packet is appended to a slot's stream, the collector writes a journal entry over
 *      the older of the slot's two entries. The entry holds the state that the slot has after the
 *      packet, and the size that the stream has then.
 *   2. The packet is appended.
 *   3. The sub-buffer is freed.
 *
 * If iprobe is killed before 2 is complete, the stream is shorter than the newer entry says. Then
 * the older entry is valid, the stream is cut off at its size, and the sub-buffer is taken again.
 * If iprobe is killed before 3, the newer entry is valid. Its ordinal says that the sub-buffer has
 * been taken, so the sub-buffer is only freed. Some changes of the state come without a packet (the
 * end of a claim). Then both entries have the same size, and the newer one is valid.
 *
 * A stream may be in pieces (rotate.h). Then the size is that of the piece that the entry names. If
 * that piece has been removed on purpose, the entry is valid, as one without a packet is. An entry
 * that was not valid before must not become valid in this way: the iprobe that goes on with the
 * trace erases it.
 *
 * The file is locked while its iprobe lives, and removed when the recording ends properly. The
 * journal does not protect against a loss of power: the target is gone then, too.
 */
#ifndef IP_JOURNAL_H
#define IP_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"

/* How far a slot has come. */
struct ip_progress {
	uint64_t claimed;      /* slot->claimed of the claim that this state belongs to */
	uint64_t next_ordinal; /* ordinal of the sub-buffer to take next */
	uint64_t holes;	       /* zero words taken since the claim */
	/* lost to threads that had this slot earlier: events_discarded only grows */
	uint64_t lost_before;
	uint64_t last_discarded;
	uint64_t events, invalid; /* of all claims */
	uint64_t beyond;	  /* events that were taken but not written: no room */
	uint64_t last;		  /* time of the claim's last event that was written; 0: none */
	uint32_t tid, pid;
	uint32_t released; /* the claim has ended */
	uint32_t claims;   /* up to this one, of threads that had the slot; 0: not told */
};

struct ip_journal_entry {
	uint64_t seq;	  /* number of the entry; 0: no entry */
	uint64_t size;	  /* of the stream, or of its piece, in bytes */
	uint64_t packets; /* in the whole stream */
	uint64_t piece;
	struct ip_progress progress;
	uint64_t seq_again; /* the same as seq; written last */
};

struct ip_journal_header {
	uint64_t magic;
	uint32_t session; /* ip_area_header.session */
	int32_t pid;
	uint64_t started; /* start of the process, in clock ticks since boot */
	uint64_t max_size;
	uint8_t uuid[16];
	struct ip_clock_reading start;
	uint32_t compressed; /* the streams are compressed */
	uint32_t pieces;     /* how many pieces the trace keeps; 0: everything */
	uint32_t next;	     /* the number that the session will have next; 0: none */
	uint32_t reserved;
};

struct ip_journal;

/* Makes the journal in the directory and locks it. Returns 0, or -1 with an error. */
int ip_journal_create(int dirfd, const struct ip_journal_header *head, struct ip_journal **ret);

/* Opens the journal that a dead iprobe left, and locks it. Returns 0; 1 if there is none; -1 with
 * an error if a living iprobe has it, or if it is damaged. */
int ip_journal_open(int dirfd, struct ip_journal_header *head, struct ip_journal **ret);

/* Records that the session will go on under another number (follow_exec.h). From here on both
 * numbers name the session. Returns 0, or -1 with an error. */
int ip_journal_expect_session(struct ip_journal *journal, uint32_t session);
/* Records that the session has gone on under the other number. Now only that number names it.
 * Returns 0, or -1 with an error. */
int ip_journal_set_session(struct ip_journal *journal, uint32_t session);

/* Whether a living iprobe writes this directory. */
bool ip_journal_is_locked(int dirfd);

/* Step 1: writes the state that is valid once the stream (or its piece) has that size. Returns 0,
 * or -1 with errno. */
int ip_journal_put(struct ip_journal *journal, uint32_t slot, const struct ip_progress *progress,
		   uint32_t piece, uint64_t size, uint64_t packets);

/* Tells that the packet could not be appended: the previous entry is valid again. */
void ip_journal_undo(struct ip_journal *journal, uint32_t slot);

/* Returns a slot's valid entry; seq 0: nothing was ever written. If the newer entry is not valid,
 * it is erased. size_of returns the size of the file of a stream's piece, in bytes; UINT64_MAX if
 * the piece has been removed on purpose. Returns 0, or -1 with an error if the stream does not fit
 * the journal. */
int ip_journal_get(struct ip_journal *journal, uint32_t slot,
		   uint64_t (*size_of)(void *context, uint32_t slot, uint32_t piece), void *context,
		   struct ip_journal_entry *ret);

/* Keeps `size` bytes of the disk free for the last lines of the trace. Removing the journal gives
 * this space back. */
void ip_journal_reserve(struct ip_journal *journal, uint64_t size);

void ip_journal_close(struct ip_journal *journal);

#endif
