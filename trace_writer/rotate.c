/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pieces of a trace that keeps its newest part. The steps are those of rotate.h.
 */
#include "trace_writer/rotate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/trace/trace_segments.h"
#include "trace_writer/writer_private.h"

#define USUAL_SIZE (1ull << 30)

struct ip_trace_rotation {
	int fd; /* the file of the table */
	unsigned most;
	uint64_t piece_size;
	uint64_t in_newest; /* bytes of packets in the newest piece */
	/* totals of all that was written, and the newest piece's number, first and tsc */
	struct ip_trace_segment total;
	struct ip_trace_segments pieces;
};

uint64_t ip_trace_usual_max_size(int dir, bool *ret_tenth)
{
	struct statvfs v;
	uint64_t tenth;

	*ret_tenth = false;
	if (fstatvfs(dir, &v) < 0)
		return USUAL_SIZE;
	tenth = (uint64_t)v.f_bavail * v.f_frsize / 10;
	*ret_tenth = tenth < USUAL_SIZE;
	return *ret_tenth ? tenth : USUAL_SIZE;
}

bool ip_trace_rotates(const struct ip_trace *trace)
{
	return trace->rotation;
}

unsigned ip_rotation_pieces(const struct ip_trace *trace)
{
	return trace->rotation ? trace->rotation->most : 0;
}

uint32_t ip_rotation_newest(const struct ip_trace *trace)
{
	return trace->rotation ? trace->rotation->pieces.newest : 0;
}

uint32_t ip_rotation_first(const struct ip_trace *trace)
{
	return trace->rotation ? ip_trace_segments_newest(&trace->rotation->pieces)->first : 0;
}

void ip_rotation_destroy(struct ip_trace_rotation *r)
{
	if (!r)
		return;
	if (r->fd >= 0)
		close(r->fd);
	free(r);
}

/* Step 1. Returns 0, or -1 with errno. */
static int put(struct ip_trace_rotation *r, const struct ip_trace_segment *piece)
{
	char line[IP_TRACE_SEGMENT_LINE];
	ssize_t done;

	ip_trace_segment_format(piece, line);
	do
		done = pwrite(r->fd, line, sizeof(line), ip_trace_segment_place(piece->number));
	while (done < 0 && errno == EINTR);
	if (done != sizeof(line)) {
		errno = done < 0 ? errno : ENOSPC;
		return -1;
	}
	r->pieces.items[piece->number % IP_TRACE_SEGMENTS_ROOM] = *piece;
	r->pieces.newest = piece->number;
	return 0;
}

static int new_rotation(struct ip_trace *trace, unsigned pieces, uint64_t max_size, int flags)
{
	struct ip_trace_rotation *r = calloc(1, sizeof(*r));

	if (!r)
		return ip_error("out of memory");
	trace->rotation = r;
	r->most = pieces;
	r->fd = openat(trace->dirfd, IP_TRACE_PIECES,
		       O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | flags, 0600);
	if (r->fd < 0)
		return ip_error_errno("cannot open %s/%s", trace->dir, IP_TRACE_PIECES);
	return ip_trace_set_max_size(trace, max_size);
}

int ip_trace_set_max_size(struct ip_trace *trace, uint64_t max_size)
{
	struct ip_trace_rotation *r = trace->rotation;

	if (max_size / r->most < IP_TRACE_PIECE_LEAST)
		return ip_error("%s: %lu bytes in %u pieces: a piece must hold 256 KiB (give more "
				"--max-size, or fewer pieces)",
				trace->dir, max_size, r->most);
	r->piece_size = max_size / r->most;
	return 0;
}

int ip_trace_rotate(struct ip_trace *trace, unsigned pieces, uint64_t max_size)
{
	const struct ip_trace_segment first = {.tsc = trace->start.tsc};

	if (new_rotation(trace, pieces, max_size, O_CREAT | O_EXCL) < 0)
		return -1;
	/* This makes sure that a full disk does not prevent the writing of a line. It is not an
	 * error if the space is not available. */
	fallocate(trace->rotation->fd, FALLOC_FL_KEEP_SIZE, 0, IP_TRACE_SEGMENTS_SIZE);
	trace->rotation->total = first;
	return put(trace->rotation, &first) < 0
		       ? ip_error_errno("cannot write %s/%s", trace->dir, IP_TRACE_PIECES)
		       : 0;
}

/* Calls visit for each file of a stream that is in pieces. */
static int each_file(struct ip_trace *trace, int (*visit)(struct ip_trace *trace, const char *file,
							  const struct ip_stream_name *name))
{
	int fd = openat(trace->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), ret = 0;
	_cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!dir)
		return ip_error_errno("cannot read %s", trace->dir);
	while (ret == 0 && (entry = readdir(dir))) {
		struct ip_stream_name name;

		if (ip_stream_name_parse(entry->d_name, &name) && name.in_pieces)
			ret = visit(trace, entry->d_name, &name);
	}
	return ret;
}

static int remove_file(struct ip_trace *trace, const char *file)
{
	int error;

	if (unlinkat(trace->dirfd, file, 0) == 0 || errno == ENOENT)
		return 0;
	error = errno;
	ip_error_errno("cannot remove %s/%s", trace->dir, file);
	errno = error;
	return -1;
}

static int remove_old(struct ip_trace *trace, const char *file, const struct ip_stream_name *name)
{
	return name->piece < ip_rotation_first(trace) ? remove_file(trace, file) : 0;
}

/* Returns the oldest piece that can be kept beside a new one. A whole new piece must have room, and
 * the number of pieces must not exceed the limit. */
static uint32_t next_first(const struct ip_trace_rotation *r)
{
	uint32_t first = ip_trace_segments_newest(&r->pieces)->first, next = r->pieces.newest + 1;

	while (first < next && (next - first >= r->most ||
				r->total.bytes - ip_trace_segment_at(&r->pieces, first)->bytes >
					(r->most - 1) * r->piece_size))
		first++;
	return first;
}

/* Steps 1 and 2: a new piece begins. */
static int begin_piece(struct ip_trace *trace)
{
	struct ip_trace_rotation *r = trace->rotation;
	const uint32_t before = ip_rotation_first(trace);
	struct ip_clock_reading now;
	struct ip_trace_segment next;

	ip_clock_read(&now);
	next = r->total;
	next.number = r->pieces.newest + 1;
	next.first = next_first(r);
	next.tsc = now.tsc > ip_trace_segments_newest(&r->pieces)->tsc
			   ? now.tsc
			   : ip_trace_segments_newest(&r->pieces)->tsc;
	if (put(r, &next) < 0) {
		int error = errno;

		ip_error_errno("cannot write %s/%s", trace->dir, IP_TRACE_PIECES);
		errno = error;
		return -1;
	}
	r->in_newest = 0;
	ip_trace_close_streams(trace);
	if (next.first == before)
		return 0;
	trace->bytes = r->total.bytes - ip_trace_segments_first(&r->pieces)->bytes;
	return each_file(trace, remove_old);
}

int ip_rotation_make_room(struct ip_trace *trace, size_t size)
{
	const struct ip_trace_rotation *r = trace->rotation;

	if (!r || !r->in_newest || r->in_newest + size <= r->piece_size)
		return 0;
	return begin_piece(trace);
}

int ip_trace_rotate_now(struct ip_trace *trace, uint32_t *ret_newest)
{
	if (begin_piece(trace) < 0)
		return -1;
	*ret_newest = ip_rotation_newest(trace);
	return 0;
}

int ip_trace_rotate_if_full(struct ip_trace *trace, uint32_t *ret_first, uint32_t *ret_newest)
{
	if (ip_rotation_make_room(trace, 0) < 0)
		return -1;
	*ret_first = ip_rotation_first(trace);
	*ret_newest = ip_rotation_newest(trace);
	return 0;
}

void ip_rotation_add_bytes(struct ip_trace *trace, uint64_t size)
{
	struct ip_trace_rotation *r = trace->rotation;

	if (!r)
		return;
	r->in_newest += size;
	r->total.bytes += size;
}

void ip_rotation_wrote(struct ip_trace *trace, size_t size)
{
	struct ip_trace_rotation *r = trace->rotation;

	if (!r)
		return;
	ip_rotation_add_bytes(trace, size);
	r->total.packets++;
}

void ip_rotation_advanced(struct ip_trace *trace, const struct ip_progress *before,
			  const struct ip_progress *after)
{
	struct ip_trace_rotation *r = trace->rotation;

	if (!r)
		return;
	r->total.events += after->events - before->events;
	r->total.lost += after->last_discarded - before->last_discarded;
}

int ip_rotation_reopen(struct ip_trace *trace, unsigned pieces, uint64_t max_size)
{
	struct ip_trace_rotation *r;
	char text[IP_TRACE_SEGMENTS_SIZE];
	ssize_t n;

	if (pieces < 2 || pieces > IP_TRACE_SEGMENTS_MAX)
		return ip_error("%s: its journal is damaged", trace->dir);
	if (new_rotation(trace, pieces, max_size, 0) < 0)
		return -1;
	r = trace->rotation;
	n = pread(r->fd, text, sizeof(text), 0);
	if (n < 0)
		return ip_error_errno("cannot read %s/%s", trace->dir, IP_TRACE_PIECES);
	if (ip_trace_segments_parse(IP_TRACE_PIECES, text, n, &r->pieces) < 0)
		return ip_error_prefix("%s", trace->dir);
	r->total = *ip_trace_segments_newest(&r->pieces);
	return 0;
}

/* Removes a file that does not count. Adds up the sizes of the newest piece's files. */
static int settle_file(struct ip_trace *trace, const char *file, const struct ip_stream_name *name)
{
	struct ip_trace_rotation *r = trace->rotation;
	const struct ip_trace_stream *s =
		name->slot < trace->nstreams ? &trace->streams[name->slot] : NULL;
	struct stat st;

	if (name->piece < ip_rotation_first(trace) || name->piece > r->pieces.newest || !s ||
	    !s->packets || name->piece > s->piece || name->compressed != ip_trace_compresses(trace))
		return remove_file(trace, file);
	if (name->piece != r->pieces.newest)
		return 0;
	if (fstatat(trace->dirfd, file, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return ip_error_errno("cannot look at %s/%s", trace->dir, file);
	r->in_newest += st.st_size;
	return 0;
}

int ip_rotation_settle(struct ip_trace *trace)
{
	struct ip_trace_rotation *r = trace->rotation;

	if (each_file(trace, settle_file) < 0)
		return -1;
	r->total.bytes += r->in_newest;
	r->total.packets = r->total.events = r->total.lost = 0;
	for (size_t i = 0; i < trace->nstreams; i++) {
		const struct ip_trace_stream *s = &trace->streams[i];

		r->total.packets += s->packets;
		r->total.events += s->progress.events;
		r->total.lost += s->progress.last_discarded;
	}
	trace->bytes = r->total.bytes - ip_trace_segments_first(&r->pieces)->bytes;
	return 0;
}

void ip_trace_rotated(const struct ip_trace *trace, struct ip_trace_rotated *ret)
{
	const struct ip_trace_segment *first, *before;

	*ret = (struct ip_trace_rotated){0};
	if (!trace->rotation)
		return;
	first = ip_trace_segments_first(&trace->rotation->pieces);
	before = first->number ? ip_trace_segment_at(&trace->rotation->pieces, first->number - 1)
			       : NULL;
	*ret = (struct ip_trace_rotated){
		.pieces = first->number,
		.packets = first->packets,
		.bytes = first->bytes,
		.events = first->events,
		.tsc = first->tsc,
		/* an iprobe that has reopened the trace may not have read the line of the piece
		 * before */
		.early = before && before->number == first->number - 1 ? before->tsc : 0};
}
