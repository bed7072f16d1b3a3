/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the batches of a live log (common/trace/stream_log_format.h). The file is input from
 * outside, and may end at any byte, or have holes: a disk that lost its power has what it has. Only
 * batches whose checksum fits are delivered, with sections that lie within them. Behind a damaged
 * part the next whole batch of the same log is looked for, within what may have been under way when
 * all stopped.
 */
#ifndef IP_BATCH_READER_H
#define IP_BATCH_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/trace/stream_log_format.h"

struct ip_batch_reader;

/* Opens a regular file or a block device. Returns 0, or -1 with an error. */
int ip_batch_reader_open(const char *path, struct ip_batch_reader **ret);
/* The same for a descriptor, which is the reader's from now on. */
int ip_batch_reader_open_fd(int fd, const char *path, struct ip_batch_reader **ret);
void ip_batch_reader_close(struct ip_batch_reader *r);

/* Goes to the next batch. Returns 1; 0 at the end of what is whole; -1 with an error where reading
 * fails, or where the file is no live log. *ret_missing: batches that are missing before it. The
 * header is valid until the next call. */
int ip_batch_reader_next(struct ip_batch_reader *r, const struct ip_stream_log_header **ret,
			 uint64_t *ret_missing);

/* A section of the batch. */
struct ip_batch_section {
	uint32_t kind;
	size_t size;
	const uint8_t *content; /* aligned to 8 bytes; NULL before the first section */
};

/* Goes to the next section; section->content is NULL at first. Returns false where there is
 * none. */
bool ip_batch_reader_section(const struct ip_batch_reader *r, struct ip_batch_section *section);

/* Goes back to the first batch. What was searched before is not searched again, and a file that
 * grows ends where it has ended before. */
void ip_batch_reader_rewind(struct ip_batch_reader *r);

/* Bytes that are in no whole batch. tail: those behind the last one. On a block device whatever
 * lies behind the log counts for nothing. */
void ip_batch_reader_damage(const struct ip_batch_reader *r, uint64_t *ret_within,
			    uint64_t *ret_tail);

#endif
