/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the whole batches of a file.
 */
#include "analysis/stream_log/batch_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/trace/checksum.h"

#define WINDOW (4u << 20)
/* Behind damage a batch is looked for within so many bytes: more than iprobe has under way. */
#define SEARCHED (32u << 20)
/* Bytes that are read in vain where a batch is looked for, all together: a file may be made of
 * beginnings. What is in line is read in any case. */
#define IN_VAIN (1ull << 30)

/* Bytes in no whole batch, with a batch behind them. */
struct gap {
	uint64_t from, to;
};

struct ip_batch_reader {
	int fd;
	char *path;
	bool device;
	uint64_t next;	 /* where the next batch begins */
	uint64_t *words; /* the window: what lies at `from` */
	uint64_t from;
	size_t have;
	bool known; /* a batch was found: */
	uint64_t id, number;
	const struct ip_stream_log_header *batch;
	uint64_t in_vain; /* of all readings */
	uint64_t within, tail;
	/* what the first reading has found: nothing is searched twice */
	struct gap *gaps;
	size_t ngaps, gap; /* gap: that comes next in this reading */
	bool searched;	   /* up to the end: */
	uint64_t end;
};

int ip_batch_reader_open_fd(int fd, const char *path, struct ip_batch_reader **ret)
{
	struct ip_batch_reader *r = calloc(1, sizeof(*r));
	struct stat st;

	if (!r) {
		close(fd);
		return ip_error("out of memory");
	}
	r->fd = fd;
	r->path = strdup(path);
	r->words = malloc(WINDOW);
	if (!r->path || !r->words || fstat(fd, &st) < 0) {
		ip_batch_reader_close(r);
		return ip_error("out of memory");
	}
	r->device = S_ISBLK(st.st_mode);
	*ret = r;
	return 0;
}

int ip_batch_reader_open(const char *path, struct ip_batch_reader **ret)
{
	struct stat st;
	uint64_t size;
	int fd;

	if (stat(path, &st) == 0 && S_ISBLK(st.st_mode)) {
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
		if (fd < 0)
			return ip_error_errno("%s: cannot open it", path);
	} else {
		fd = ip_open_regular(path, &size);
		if (fd < 0)
			return -1;
	}
	return ip_batch_reader_open_fd(fd, path, ret);
}

void ip_batch_reader_close(struct ip_batch_reader *r)
{
	if (!r)
		return;
	close(r->fd);
	free(r->path);
	free(r->words);
	free(r->gaps);
	free(r);
}

void ip_batch_reader_rewind(struct ip_batch_reader *r)
{
	r->next = 0;
	r->known = false;
	r->batch = NULL;
	r->within = r->tail = 0;
	r->gap = 0;
}

void ip_batch_reader_damage(const struct ip_batch_reader *r, uint64_t *ret_within,
			    uint64_t *ret_tail)
{
	*ret_within = r->within;
	*ret_tail = r->tail;
}

/* Brings bytes of the file at an offset that is a multiple of 8 into the window. Returns how many
 * of the n bytes are there; -1 with an error. */
static ssize_t bring(struct ip_batch_reader *r, uint64_t offset, size_t n, const void **ret)
{
	if (offset < r->from || offset + n > r->from + r->have) {
		r->from = offset;
		r->have = 0;
		while (r->have < WINDOW) {
			const ssize_t done = pread(r->fd, (uint8_t *)r->words + r->have,
						   WINDOW - r->have, offset + r->have);

			if (done < 0 && errno == EINTR)
				continue;
			/* a disk may have lost what lies behind */
			if (done < 0 && errno == EIO && (r->have || r->known))
				break;
			if (done < 0)
				return ip_error_errno("%s: cannot read it", r->path);
			if (!done)
				break;
			r->have += done;
		}
	}
	*ret = (const uint8_t *)r->words + (offset - r->from);
	return offset - r->from + n <= r->have ? n : r->have - (offset - r->from);
}

/* Whether the sections lie within the batch. */
static bool has_good_sections(const struct ip_stream_log_header *h)
{
	size_t at = sizeof(*h);

	while (at < h->size) {
		struct ip_stream_log_section s;

		/* all sizes are multiples of 8, which is that of a section without its content */
		memcpy(&s, (const uint8_t *)h + at, sizeof(s));
		at += sizeof(s);
		if (s.size > h->size - at || ((uint64_t)s.size + 7) / 8 * 8 > h->size - at)
			return false;
		at += ((size_t)s.size + 7) / 8 * 8;
	}
	return true;
}

/* Whether the checksum of a batch fits. */
static bool is_whole(const struct ip_stream_log_header *h)
{
	struct ip_stream_log_header copy = *h;

	copy.checksum = 0;
	return ip_checksum(ip_checksum(0, &copy, sizeof(copy)), h + 1, h->size - sizeof(*h)) ==
	       h->checksum;
}

/* Looks for a batch at an offset. in_line: one is expected there. Returns 1; 0 where there is none;
 * -1 with an error; -2 at the end of the file. */
static int look_at(struct ip_batch_reader *r, uint64_t offset, bool in_line)
{
	const struct ip_stream_log_header *h;
	const void *bytes;
	ssize_t have = bring(r, offset, sizeof(*h), &bytes);
	uint32_t size;

	if (have < 0)
		return -1;
	h = bytes;
	if (have < (ssize_t)sizeof(*h))
		return -2;
	size = h->size;
	if (h->magic != IP_STREAM_LOG_MAGIC || h->size < sizeof(*h) ||
	    h->size > IP_STREAM_LOG_MOST || h->size % 8 ||
	    (r->known && (h->id != r->id || h->number <= r->number)) ||
	    (!in_line && r->in_vain > IN_VAIN))
		return 0;
	have = bring(r, offset, size, &bytes);
	if (have < 0)
		return -1;
	h = bytes;
	/* Also one that the end of the file cuts off was read for it. A file that changes may have
	 * another size by now. */
	if (have < (ssize_t)size || h->size != size || !is_whole(h) || !has_good_sections(h)) {
		r->in_vain += size;
		return 0;
	}
	if (h->version != IP_STREAM_LOG_VERSION)
		return ip_error("%s: written by another version of iprobe (format %u, this one "
				"reads %u)",
				r->path, h->version, IP_STREAM_LOG_VERSION);
	r->batch = h;
	return 1;
}

/* Notes what the first reading has found. Returns 0, or -1 with an error. */
static int note_gap(struct ip_batch_reader *r, uint64_t from, uint64_t to)
{
	if (r->searched || r->gap < r->ngaps)
		return 0;
	if (ip_array_grow(&r->gaps, r->ngaps, sizeof(*r->gaps)) < 0)
		return -1;
	r->gaps[r->ngaps++] = (struct gap){from, to};
	r->gap = r->ngaps;
	return 0;
}

/* Returns where the next batch is expected. */
static uint64_t place_in_line(struct ip_batch_reader *r)
{
	return r->gap < r->ngaps && r->gaps[r->gap].from == r->next ? r->gaps[r->gap++].to
								    : r->next;
}

int ip_batch_reader_next(struct ip_batch_reader *r, const struct ip_stream_log_header **ret,
			 uint64_t *ret_missing)
{
	const uint64_t expected = place_in_line(r);
	uint64_t at = expected;
	int found = r->searched && at == r->end ? -2 : look_at(r, at, true);

	while (found == 0 && at - r->next < SEARCHED) {
		at += 8;
		found = look_at(r, at, false);
	}
	if (found == -1)
		return -1;
	if (found != 1) {
		struct stat st;

		if (!r->known)
			return ip_error("%s: not a live log of iprobe (--stream writes one)",
					r->path);
		if (!r->device && fstat(r->fd, &st) == 0 && (uint64_t)st.st_size > r->next)
			r->tail = st.st_size - r->next;
		if (!r->searched)
			r->end = r->next;
		r->searched = true;
		return 0;
	}
	if (at != expected && note_gap(r, r->next, at) < 0)
		return -1;
	r->within += at - r->next;
	*ret_missing = r->known ? r->batch->number - r->number - 1 : r->batch->number;
	r->known = true;
	r->id = r->batch->id;
	r->number = r->batch->number;
	r->next = at + r->batch->size;
	*ret = r->batch;
	return 1;
}

bool ip_batch_reader_section(const struct ip_batch_reader *r, struct ip_batch_section *section)
{
	const uint8_t *batch = (const uint8_t *)r->batch,
		      *at = section->content ? section->content + (section->size + 7) / 8 * 8
					     : batch + sizeof(*r->batch);
	struct ip_stream_log_section s;

	if (at >= batch + r->batch->size)
		return false;
	memcpy(&s, at, sizeof(s));
	*section = (struct ip_batch_section){s.kind, s.size, at + sizeof(s)};
	return true;
}
