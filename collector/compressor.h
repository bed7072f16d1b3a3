/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compressor compresses packets in a thread of its own, while the collector goes on draining.
 * Packets come out in the order in which they go in.
 *
 *   1. The collector submits a packet. Its sub-buffer stays as it is. (Its ordinal is below the one
 *      that is to be taken next, so the collector does not take it again.) If iprobe is killed now,
 *      the next iprobe finds the sub-buffer.
 *   2. The thread takes the oldest packet that waits, and compresses it.
 *   3. The collector writes the oldest packet if it is ready (journal.h), and frees its sub-buffer.
 *   4. If as many packets as allowed are in the compressor, the collector writes the oldest one
 *      uncompressed. If the thread has begun to compress this packet (it may have no CPU to go on),
 *      the thread keeps its job, whose result is not used, and another job takes its place in the
 *      queue. So neither waits for the other.
 *
 * So rings are emptied as fast as without compression. Packets for which the thread is too slow are
 * larger on disk, and are counted.
 */
#ifndef IP_COMPRESSOR_H
#define IP_COMPRESSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/trace/trace_format.h"
#include "trace_writer/journal.h"

struct ip_compressor;

/* What belongs to a packet. */
struct ip_compressor_packet {
	uint32_t slot, subbuf; /* subbuf: the one to be freed. IP_NO_SLOT: none */
	uint64_t events;
	size_t plain; /* its size in bytes without compression */
	struct ip_progress next;
};

enum ip_compressor_how {
	IP_COMPRESSOR_READY, /* the oldest packet if it is ready */
	IP_COMPRESSOR_MUST,  /* the oldest packet, as in step 4 */
	/* the oldest packet, compressed. If it is not ready, the collector compresses it */
	IP_COMPRESSOR_WAIT,
};

/* limit: number of packets that may be in the compressor. nice: the nice value of the thread.
 * Returns NULL with an error. If no thread can be created, the collector does all the work
 * itself. */
struct ip_compressor *ip_compressor_create(unsigned limit, int nice);
/* Packets in the compressor are lost. compressor may be NULL. */
void ip_compressor_destroy(struct ip_compressor *compressor);

bool ip_compressor_is_full(const struct ip_compressor *compressor);
bool ip_compressor_is_empty(const struct ip_compressor *compressor);

/* The compressor must not be full. All arguments are copied. */
void ip_compressor_submit(struct ip_compressor *compressor, const struct ip_packet_header *header,
			  const uint64_t *words, size_t n, const struct ip_compressor_packet *note);

/* Takes the oldest packet out. Returns false if there is none, or if how is IP_COMPRESSOR_READY and
 * it is not ready. The results are valid until the next packet is submitted. */
bool ip_compressor_take(struct ip_compressor *compressor, enum ip_compressor_how how,
			const struct ip_compressor_packet **ret, const void **ret_bytes,
			size_t *ret_size);

/* Returns the number of packets that were left uncompressed because the thread was too slow. */
uint64_t ip_compressor_plain(const struct ip_compressor *compressor);

#endif
