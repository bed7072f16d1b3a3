/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The press: compresses packets in a thread of its own, while the collector goes on draining. What
 * goes in comes out in the same order.
 *
 *   1. The collector submits a packet. Its sub-buffer stays as it is (its ordinal lies below the
 *      one to be taken next, so that nobody takes it again): an iprobe that is killed now leaves it
 *      to the next one.
 *   2. The thread takes the oldest packet that waits, and compresses it.
 *   3. The collector writes the oldest packet if it is ready (journal.h), and frees its sub-buffer.
 *   4. Where as many are on their way as may be, the oldest is written as it is. If the thread has
 *      begun with it (it may have no CPU to go on) it is left to the thread, for nothing, and
 *      another one takes its place in the queue: nobody waits for anybody.
 *
 * So rings are emptied as fast as without compression; what the thread is too slow for is larger on
 * disk, and counted.
 */
#ifndef IP_COMPRESSOR_H
#define IP_COMPRESSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/trace_format.h"
#include "trace_writer/journal.h"

struct ip_compressor;

/* What belongs to a packet. */
struct ip_compressor_note {
	uint32_t slot, subbuf; /* subbuf: the one to be freed; IP_NO_SLOT: none */
	uint64_t events;
	size_t plain; /* bytes that it would have as it is */
	struct ip_progress next;
};

enum ip_compressor_how {
	IP_COMPRESSOR_READY, /* the oldest if it is ready */
	IP_COMPRESSOR_MUST,  /* the oldest, step 4 */
	IP_COMPRESSOR_WAIT,  /* the oldest, compressed: by ourselves, if it is not ready */
};

/* limit: packets that may be on their way; nice: the thread's nice value. NULL with an error.
 * Without a thread (none can be had) the collector does everything by itself. */
struct ip_compressor *ip_compressor_create(unsigned limit, int nice);
/* What is on its way is lost. NULL is fine. */
void ip_compressor_destroy(struct ip_compressor *compressor);

bool ip_compressor_is_full(const struct ip_compressor *compressor);
bool ip_compressor_is_empty(const struct ip_compressor *compressor);

/* Must not be full. Everything is copied. */
void ip_compressor_submit(struct ip_compressor *compressor, const struct ip_packet_header *header,
			  const uint64_t *words, size_t n, const struct ip_compressor_note *note);

/* Takes the oldest out. false: there is none. What is returned is valid until the next packet is
 * submitted. */
bool ip_compressor_take(struct ip_compressor *compressor, enum ip_compressor_how how,
			const struct ip_compressor_note **ret, const void **ret_bytes,
			size_t *ret_size);

/* Packets that were left as they are because the thread fell behind. */
uint64_t ip_compressor_plain(const struct ip_compressor *compressor);

#endif
