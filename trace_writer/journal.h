/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal: how far the collector has come, in a file of the trace directory (IP_TRACE_JOURNAL),
 * so that another iprobe goes on where one was killed, without a gap and without a duplicate.
 *
 *   1. Before a packet is appended to a stream its state from then on is written, with the size
 *      that the stream has then, over the older of the slot's two entries.
 *   2. The packet is appended.
 *   3. The sub-buffer is freed.
 *
 * Killed before 2 is complete the stream is shorter than the newer entry says: the older one holds,
 * the stream is cut off there, and the sub-buffer is taken again. Killed before 3 the newer one
 * holds: its ordinal says that the sub-buffer has been taken, and it is only freed. What changes
 * the state without a packet (the end of a claim) has the same size in both: the newer one holds.
 *
 * A stream may be in pieces (rotate.h): the size is that of the piece that an entry names, and an
 * entry whose piece has been removed on purpose holds, as one without a packet does. One that did
 * not hold before must not come to do so: who goes on erases it.
 *
 * The file is locked while its iprobe lives, and removed when the recording ends properly. It says
 * nothing of what a machine keeps that loses power: the target is gone then, too.
 */
#ifndef IP_JOURNAL_H
#define IP_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"

/* How far a slot has come. */
struct ip_progress {
	uint64_t claimed;      /* slot->claimed of the claim that this is about */
	uint64_t next_ordinal; /* of the sub-buffer to take next */
	uint64_t holes;	       /* zero words taken since the claim */
	/* by threads that had this slot earlier: events_discarded only grows */
	uint64_t lost_before;
	uint64_t last_discarded;
	uint64_t events, invalid; /* of all claims */
	uint64_t beyond;	  /* events that were taken but not written: no room */
	uint64_t last;		  /* time of the claim's last event that was written; 0: none was */
	uint32_t tid, pid;
	uint32_t released; /* the claim has ended */
	uint32_t reserved;
};

struct ip_journal_entry {
	uint64_t seq;	  /* 0: none */
	uint64_t size;	  /* of the stream, or of its piece, bytes */
	uint64_t packets; /* in the stream */
	uint64_t piece;
	struct ip_progress progress;
	uint64_t seq_again; /* written last */
};

struct ip_journal_head {
	uint64_t magic;
	uint32_t session; /* ip_area_header.session */
	int32_t pid;
	uint64_t started; /* of the process, clock ticks since boot */
	uint64_t max_size;
	uint8_t uuid[16];
	struct ip_clock_reading start;
	uint32_t compressed; /* streams are */
	uint32_t pieces;     /* the trace keeps the newest so many; 0: everything */
	uint32_t next;	     /* the number that the session is about to have; 0: none */
	uint32_t reserved;
};

struct ip_journal;

/* Makes it in the directory, locked. -1 with an error. */
int ip_journal_create(int dirfd, const struct ip_journal_head *head, struct ip_journal **ret);

/* Opens the one that a dead iprobe left. 1: there is none; -1: an iprobe that lives has it, or it
 * is damaged. */
int ip_journal_open(int dirfd, struct ip_journal_head *head, struct ip_journal **ret);

/* The session will go on under another number (follow_exec.h): from here on it is known by both. -1
 * with an error. */
int ip_journal_expect_session(struct ip_journal *journal, uint32_t session);
/* It does: it is known by this one. The same. */
int ip_journal_set_session(struct ip_journal *journal, uint32_t session);

/* Whether an iprobe that lives writes this directory. */
bool ip_journal_is_locked(int dirfd);

/* Step 1: what holds once the stream (its piece) has that size. -1 with errno. */
int ip_journal_put(struct ip_journal *journal, uint32_t slot, const struct ip_progress *progress,
		   uint32_t piece, uint64_t size, uint64_t packets);

/* The packet could not be appended: what held before does. */
void ip_journal_undo(struct ip_journal *journal, uint32_t slot);

/* What holds for a slot; seq 0: nothing was ever written. What does not is erased. size_of: how
 * large the file of a stream's piece is, UINT64_MAX where it has been removed on purpose. -1
 * with an error where the stream is not the journal's. */
int ip_journal_get(struct ip_journal *journal, uint32_t slot,
		   uint64_t (*size_of)(void *context, uint32_t slot, uint32_t piece), void *context,
		   struct ip_journal_entry *ret);

/* Keeps that much of the disk free for what is written last: it is there again when the journal is
 * removed. */
void ip_journal_reserve(struct ip_journal *journal, uint64_t size);

void ip_journal_close(struct ip_journal *journal);

#endif
