/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a live log to its place, in a thread of its own: whoever puts bytes in never waits. Where
 * the place is slow the bytes wait in memory, as many as fit; then they are refused.
 *
 * A second thread syncs files and block devices, again and again while something is new. So what
 * was written is with the kernel at once, where it survives the end of this process, and on the
 * disk as soon as the disk has taken what was written before.
 */
#ifndef IP_LOG_WRITER_H
#define IP_LOG_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IP_LOG_WRITER_ROOM (16u << 20) /* bytes that wait */

struct ip_log_writer;

struct ip_log_writer_counts {
	uint64_t written;	  /* bytes */
	uint64_t unwritten;	  /* bytes that were put in, and never written */
	uint64_t synced;	  /* bytes that are on the disk */
	uint64_t longest_sync_ns; /* the longest time that a sync took */
	bool syncs;
	bool hangs; /* a write or sync has not returned: it is left as it is */
};

/* fd is the writer's from now on, also if this fails. blocks: ip_log_place_open(). Returns NULL
 * with an error. */
struct ip_log_writer *ip_log_writer_start(int fd, bool blocks);

/* Takes all of the bytes, or none: then there is no room, or writing has failed. */
bool ip_log_writer_put(struct ip_log_writer *w, const void *bytes, size_t size);
/* Returns how many bytes wait; where writing has failed, IP_LOG_WRITER_ROOM. */
size_t ip_log_writer_waiting(struct ip_log_writer *w);
/* Why writing has failed, as one line; NULL: it has not. */
const char *ip_log_writer_failure(struct ip_log_writer *w);

/* Waits until all is written and synced, for limit_ns at most, and ends the threads. Where one
 * hangs in the kernel, it is left: it ends when the kernel lets it go, and frees what it has. */
void ip_log_writer_end(struct ip_log_writer *w, uint64_t limit_ns,
		       struct ip_log_writer_counts *ret);

#endif
