/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges the streams of DIR/kernel by time.
 */
#include "analysis/read/kernel_reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/trace/trace_format.h"

#define NO_SEGMENT   (-1)	  /* before segment 0 */
#define PACKET_MOST  (128u << 10) /* a larger one is damaged: ours have 64 KiB */
#define STREAMS_MOST (3 * IP_KERNEL_CPUS_MAX)
#define OPEN_MOST    128u /* files that stay open: machines have more CPUs than limits allow */

struct stream {
	/* The next event stands in the packet at `at`, and has so many bytes. 0: there is none yet,
	 * or a loss comes before it. */
	uint64_t tsc;
	uint8_t *packet;
	uint32_t size, at, bytes; /* size: of the packet */
	uint32_t cpu;
	bool all;
	bool loses; /* the next record is a loss */
	uint64_t lost_since, lost;
	uint64_t last_tsc; /* of the event before */
	uint64_t discarded, end;
	char *path; /* of its present file */
	char *base; /* the name without the segment */
	/* the segments that it has files of, in their order; NO_SEGMENT: one without */
	int64_t *segments;
	size_t nsegments, segment; /* segment: index of the present one */
	int fd;			   /* -1: it is opened for each packet */
	bool stays_open;
	dev_t device; /* and is the file that it was, then */
	ino_t inode;
	uint64_t offset; /* of the packet's end in the file */
	bool begun;	 /* a packet has been read */
	bool gap;	 /* its packet tells of one before it */
	uint64_t known;	 /* since when its events are there, where older ones are gone; 0 */
};

struct ip_kernel_reader {
	int dir;
	char *path;
	int16_t *sizes; /* by id: the size of its fields + 2; -1: it is none; 0: not looked up */
	struct stream *streams;
	size_t nstreams;
	struct stream **heap; /* the one with the earliest event first */
	size_t n;
	char **damages; /* NULL behind the last */
	size_t ndamages;
	struct stream *last; /* whose event was returned last: it is to be moved on */
	uint64_t limit;	     /* no event of another stream comes before it */
};

__attribute__((format(printf, 3, 4))) static int
damage(struct ip_kernel_reader *reader, const struct stream *stream, const char *format, ...)
{
	char what[160];
	char *line;
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	if (asprintf(&line, "%s: %s", stream->path, what) < 0)
		return ip_error("out of memory");
	reader->damages[reader->ndamages++] = line; /* one a stream at most */
	return 0;
}

/* Opens a stream, which is the file that it was before. */
static int open_stream(const struct ip_kernel_reader *reader, struct stream *s)
{
	int fd = openat(reader->dir, strrchr(s->path, '/') + 1,
			O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	struct stat now;

	if (fd < 0)
		return ip_error_errno("cannot open %s", s->path);
	if (fstat(fd, &now) < 0 ||
	    (s->inode && (now.st_dev != s->device || now.st_ino != s->inode))) {
		close(fd);
		return ip_error("%s has become another file while it was read", s->path);
	}
	s->device = now.st_dev;
	s->inode = now.st_ino;
	return fd;
}

static inline int fields_size(struct ip_kernel_reader *reader, uint16_t id)
{
	int16_t *size = &reader->sizes[id];

	if (!*size) {
		int found = ip_kernel_fields_size(id);

		*size = found < 0 ? -1 : found + 2;
	}
	return *size < 0 ? -1 : *size - 2;
}

static ssize_t read_whole(int fd, void *to, size_t size, uint64_t offset)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = pread(fd, (uint8_t *)to + done, size - done, offset + done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		done += n;
	}
	return done;
}

/* Reads the next packet. 1; 2: the file has no other; 0: there is none that can be read; -1 with an
 * error. */
static int take_packet(struct ip_kernel_reader *reader, struct stream *s, int fd,
		       uint64_t *ret_lost, uint64_t *ret_since)
{
	struct ip_kernel_packet_header h;
	ssize_t n = read_whole(fd, &h, sizeof(h), s->offset);

	if (n < 0)
		return ip_error_errno("cannot read %s", s->path);
	if (n == 0)
		return 2;
	if (n < (ssize_t)sizeof(h))
		return damage(reader, s, "its last packet, at %lu, is cut off", s->offset);
	if (h.magic != IP_CTF_MAGIC || h.content_size != h.packet_size || h.packet_size % 8 ||
	    h.packet_size / 8 < sizeof(h) || h.packet_size / 8 > PACKET_MOST)
		return damage(reader, s, "there is no packet at %lu", s->offset);
	if (h.cpu_id >= IP_KERNEL_CPUS_MAX || (s->begun && h.cpu_id != s->cpu) ||
	    h.timestamp_end < h.timestamp_begin || (s->begun && h.timestamp_begin < s->end) ||
	    (s->begun && h.events_discarded < s->discarded))
		return damage(reader, s, "the packet at %lu does not fit the one before",
			      s->offset);
	if (!s->packet)
		s->packet = malloc(PACKET_MOST);
	if (!s->packet)
		return ip_error("out of memory");
	s->size = h.packet_size / 8;
	n = read_whole(fd, s->packet, s->size, s->offset);
	if (n < 0)
		return ip_error_errno("cannot read %s", s->path);
	if ((size_t)n < s->size)
		return damage(reader, s, "its last packet, at %lu, is cut off", s->offset);
	s->gap = !s->offset && h.packet_seq_num;
	/* a mark begins a segment: what happened before it was in one that is gone */
	if (!s->begun && s->size == sizeof(h)) {
		s->gap = true;
		s->known = h.packet_seq_num ? 0 : h.timestamp_end;
	}
	*ret_lost = h.events_discarded - s->discarded;
	*ret_since = s->end;
	s->offset += s->size;
	s->at = sizeof(h);
	s->cpu = h.cpu_id;
	s->discarded = h.events_discarded;
	if (s->size == sizeof(h)) /* it tells of a loss alone */
		s->last_tsc = h.timestamp_end;
	s->end = h.timestamp_end;
	s->begun = true;
	return 1;
}

static int name_file(const struct ip_kernel_reader *reader, struct stream *s)
{
	const int64_t segment = s->segments[s->segment];

	free(s->path);
	if ((segment == NO_SEGMENT
		     ? asprintf(&s->path, "%s/%s", reader->path, s->base)
		     : asprintf(&s->path, "%s/%s-%" PRId64, reader->path, s->base, segment)) >= 0)
		return 0;
	s->path = NULL;
	return ip_error("out of memory");
}

/* Goes on in the next segment. 1; 0: there is none that can be read; -1 with an error. */
static int next_file(struct ip_kernel_reader *reader, struct stream *s)
{
	if (s->segment + 1 >= s->nsegments)
		return 0;
	if (s->segments[s->segment + 1] != s->segments[s->segment] + 1)
		return damage(reader, s, "its next segment is missing");
	s->segment++;
	if (name_file(reader, s) < 0)
		return -1;
	s->inode = 0;
	s->offset = s->discarded = 0;
	if (s->fd >= 0)
		close(s->fd);
	s->fd = s->stays_open ? open_stream(reader, s) : -1;
	return s->stays_open && s->fd < 0 ? -1 : 1;
}

static int next_packet(struct ip_kernel_reader *reader, struct stream *s, uint64_t *ret_lost,
		       uint64_t *ret_since)
{
	int got;

	do {
		int fd = s->fd >= 0 ? s->fd : open_stream(reader, s);

		got = fd < 0 ? -1 : take_packet(reader, s, fd, ret_lost, ret_since);
		if (fd >= 0 && s->fd < 0)
			close(fd);
	} while (got == 2 && (got = next_file(reader, s)) == 1);
	return got;
}

/* Takes packets until there is an event, or a loss before it. 1; 0: there is none; -1 with an
 * error. */
static int next_events(struct ip_kernel_reader *reader, struct stream *s)
{
	uint64_t lost = 0, since = 0;
	int got;

	while (s->at == s->size) {
		got = next_packet(reader, s, &lost, &since);
		if (got <= 0)
			return got;
		if (lost || (s->gap && (since || s->at == s->size))) {
			uint64_t tsc = s->end;

			if (s->size - s->at >= sizeof(struct ip_kernel_event_header))
				memcpy(&tsc,
				       s->packet + s->at +
					       offsetof(struct ip_kernel_event_header, tsc),
				       sizeof(tsc));
			s->tsc = tsc < since || tsc > s->end ? s->end : tsc;
			s->lost_since = since;
			s->lost = lost;
			s->loses = true;
			return 1;
		}
	}
	return 1;
}

/* Finds the next event of a stream. 1; 0: there is none; -1 with an error. */
static inline int advance(struct ip_kernel_reader *reader, struct stream *s)
{
	struct ip_kernel_event_header h;
	int fields;

	s->at += s->bytes;
	s->bytes = 0;
	s->loses = false;
	if (s->at == s->size) {
		const int got = next_events(reader, s);

		if (got <= 0 || s->loses)
			return got;
	}
	if (s->size - s->at < sizeof(h))
		return damage(reader, s, "an event is cut off in the packet before %lu", s->offset);
	memcpy(&h, s->packet + s->at, sizeof(h));
	fields = fields_size(reader, h.id);
	if (fields < 0 || (uint32_t)fields > s->size - s->at - sizeof(h) || h.tsc < s->last_tsc ||
	    h.tsc > s->end)
		return damage(reader, s, "the packet before %lu has what is no event", s->offset);
	s->tsc = s->last_tsc = h.tsc;
	s->bytes = sizeof(h) + fields;
	return 1;
}

static inline bool before(const struct stream *a, const struct stream *b)
{
	return a->tsc != b->tsc ? a->tsc < b->tsc : a < b;
}

/* Puts the first stream of the heap where it belongs. */
static inline void settle(struct ip_kernel_reader *reader)
{
	struct stream *const moved = reader->heap[0];
	size_t i = 0;

	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= reader->n)
			break;
		if (child + 1 < reader->n && before(reader->heap[child + 1], reader->heap[child]))
			child++;
		if (!before(reader->heap[child], moved))
			break;
		reader->heap[i] = reader->heap[child];
		i = child;
	}
	reader->heap[i] = moved;
}

/* The next event of a stream, whose header has been read. */
static inline void put_event(const struct stream *s, const struct ip_kernel_event_header *h,
			     struct ip_kernel_record *ret)
{
	*ret = (struct ip_kernel_record){.tsc = h->tsc,
					 .tid = h->tid,
					 .cpu = s->cpu,
					 .size = s->bytes - sizeof(*h),
					 .id = h->id,
					 .context = h->context,
					 .fields = s->packet + s->at + sizeof(*h),
					 .all = s->all};
}

/* The next record of the stream that has the first one. */
static int of_first(struct ip_kernel_reader *reader, struct ip_kernel_record *ret)
{
	struct ip_kernel_event_header h;
	const struct stream *s;

	settle(reader);
	if (!reader->n) {
		reader->last = NULL;
		return 0;
	}
	reader->limit = UINT64_MAX;
	for (size_t i = 1; i < 3 && i < reader->n; i++)
		if (reader->heap[i]->tsc < reader->limit)
			reader->limit = reader->heap[i]->tsc;
	s = reader->last = reader->heap[0];
	if (s->loses) {
		*ret = (struct ip_kernel_record){.id = IP_KERNEL_LOST,
						 .tsc = s->tsc,
						 .lost_since = s->lost_since,
						 .lost = s->lost,
						 .cpu = s->cpu,
						 .all = s->all};
		return 1;
	}
	memcpy(&h, s->packet + s->at, sizeof(h));
	put_event(s, &h, ret);
	return 1;
}

/* The next event of the stream is in another packet, or is none. */
__attribute__((noinline)) static int next_by_all(struct ip_kernel_reader *reader,
						 struct ip_kernel_record *ret)
{
	int got = reader->last ? advance(reader, reader->last) : 1;

	if (got < 0)
		return -1;
	if (got == 0)
		reader->heap[0] = reader->heap[--reader->n];
	return of_first(reader, ret);
}

/* Mostly the next event stands behind the last one, and is of a kind that was seen before. */
int ip_kernel_reader_next(struct ip_kernel_reader *reader, struct ip_kernel_record *ret)
{
	struct stream *s = reader->last;
	struct ip_kernel_event_header h;
	uint32_t at, left;
	int fields;

	if (!s)
		return next_by_all(reader, ret);
	at = s->at + s->bytes;
	left = s->size - at;
	if (left < sizeof(h))
		return next_by_all(reader, ret);
	memcpy(&h, s->packet + at, sizeof(h));
	fields = reader->sizes[h.id] - 2;
	if (fields < 0 || (uint32_t)fields > left - sizeof(h) || h.tsc < s->last_tsc ||
	    h.tsc > s->end)
		return next_by_all(reader, ret);
	s->tsc = s->last_tsc = h.tsc;
	s->at = at;
	s->bytes = sizeof(h) + fields;
	s->loses = false;
	if (h.tsc >= reader->limit)
		return of_first(reader, ret);
	put_event(s, &h, ret);
	return 1;
}

static struct stream *find_stream(struct ip_kernel_reader *reader, const char *name,
				  const struct ip_kernel_stream_name *parsed)
{
	for (size_t i = reader->nstreams; i-- > 0;) {
		struct stream *s = &reader->streams[i];

		if (!strncmp(s->base, name, parsed->base) && !s->base[parsed->base])
			return s;
	}
	return NULL;
}

static int add_file(struct ip_kernel_reader *reader, const char *name,
		    const struct ip_kernel_stream_name *parsed)
{
	struct stream *s = find_stream(reader, name, parsed);

	if (!s) {
		if (reader->nstreams == STREAMS_MOST)
			return ip_error("%s has more than %u streams", reader->path, STREAMS_MOST);
		if (ip_array_grow(&reader->streams, reader->nstreams, sizeof(*s)) < 0)
			return -1;
		s = &reader->streams[reader->nstreams++];
		*s = (struct stream){.fd = -1, .all = parsed->all};
		s->base = strndup(name, parsed->base);
		if (!s->base)
			return ip_error("out of memory");
	}
	if (ip_array_grow(&s->segments, s->nsegments, sizeof(*s->segments)) < 0)
		return -1;
	s->segments[s->nsegments++] = parsed->in_segments ? (int64_t)parsed->segment : NO_SEGMENT;
	return 0;
}

static int by_number(const void *left, const void *right)
{
	const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

	return a < b ? -1 : a > b;
}

static bool has_segment(const struct ip_kernel_reader *reader, int64_t number)
{
	for (size_t i = 0; i < reader->nstreams; i++)
		if (reader->streams[i].nsegments &&
		    bsearch(&number, reader->streams[i].segments, reader->streams[i].nsegments,
			    sizeof(number), by_number))
			return true;
	return false;
}

/* Files of older segments may be left of an iprobe that was killed while it removed them: those
 * count that follow each other up to the newest. */
static void leave_out_older(struct ip_kernel_reader *reader)
{
	int64_t first = NO_SEGMENT;

	for (size_t i = 0; i < reader->nstreams; i++) {
		const struct stream *s = &reader->streams[i];

		if (s->nsegments)
			qsort(s->segments, s->nsegments, sizeof(*s->segments), by_number);
		if (s->nsegments && s->segments[s->nsegments - 1] > first)
			first = s->segments[s->nsegments - 1];
	}
	while (first != NO_SEGMENT && has_segment(reader, first - 1))
		first--;
	for (size_t i = 0; i < reader->nstreams; i++) {
		struct stream *s = &reader->streams[i];

		while (s->segment < s->nsegments && s->segments[s->segment] < first)
			s->segment++;
	}
}

static int open_files(struct ip_kernel_reader *reader)
{
	for (size_t i = 0; i < reader->nstreams; i++) {
		struct stream *s = &reader->streams[i];

		if (s->segment == s->nsegments)
			continue; /* it has none that counts */
		if (name_file(reader, s) < 0)
			return -1;
		s->stays_open = i < OPEN_MOST;
		if (s->stays_open)
			s->fd = open_stream(reader, s);
		if (s->stays_open && s->fd < 0)
			return -1;
	}
	return 0;
}

static int open_streams(struct ip_kernel_reader *reader, DIR *dir)
{
	const struct dirent *entry;
	struct ip_kernel_stream_name parsed;

	while ((entry = readdir(dir)))
		if (ip_kernel_stream_name_parse(entry->d_name, &parsed) &&
		    add_file(reader, entry->d_name, &parsed) < 0)
			return -1;
	leave_out_older(reader);
	if (open_files(reader) < 0)
		return -1;
	reader->sizes = calloc(UINT16_MAX + 1, sizeof(*reader->sizes));
	reader->damages = calloc(reader->nstreams + 1, sizeof(*reader->damages));
	reader->heap = calloc(reader->nstreams + 1, sizeof(*reader->heap));
	if (!reader->sizes || !reader->damages || !reader->heap)
		return ip_error("out of memory");
	for (size_t i = 0; i < reader->nstreams; i++) {
		int got = reader->streams[i].path ? advance(reader, &reader->streams[i]) : 0;

		if (got < 0)
			return -1;
		if (got)
			reader->heap[reader->n++] = &reader->streams[i];
	}
	/* sorted is a heap, too */
	for (size_t i = 1; i < reader->n; i++)
		for (size_t k = i; k && before(reader->heap[k], reader->heap[k - 1]); k--) {
			struct stream *swapped = reader->heap[k];

			reader->heap[k] = reader->heap[k - 1];
			reader->heap[k - 1] = swapped;
		}
	return 0;
}

int ip_kernel_reader_open(const char *dir, struct ip_kernel_reader **ret)
{
	char *path = NULL;
	_cleanup_closedir_ DIR *open_dir = NULL;
	struct ip_kernel_reader *reader;

	if (asprintf(&path, "%s/%s", dir, IP_KERNEL_SUBDIR) < 0) {
		return ip_error("out of memory");
	}
	open_dir = opendir(path);
	reader = open_dir ? calloc(1, sizeof(*reader)) : NULL;
	if (!reader) {
		const int failed = open_dir	     ? ip_error("out of memory")
				   : errno == ENOENT ? 0
						     : ip_error_errno("cannot read %s", path);

		free(path);
		return failed;
	}
	reader->path = path;
	reader->dir = fcntl(dirfd(open_dir), F_DUPFD_CLOEXEC, 0);
	if (reader->dir < 0) {
		ip_error_errno("cannot read %s", path);
		ip_kernel_reader_close(reader);
		return -1;
	}
	if (open_streams(reader, open_dir) < 0) {
		ip_kernel_reader_close(reader);
		return -1;
	}
	*ret = reader;
	return 1;
}

uint64_t ip_kernel_reader_begin(const struct ip_kernel_reader *reader)
{
	uint64_t begin = 0;

	for (size_t i = 0; i < reader->nstreams; i++)
		if (reader->streams[i].all && reader->streams[i].known > begin)
			begin = reader->streams[i].known;
	return begin;
}

uint64_t ip_kernel_reader_end(const struct ip_kernel_reader *reader)
{
	uint64_t end = UINT64_MAX;

	for (size_t i = 0; i < reader->nstreams; i++)
		if (reader->streams[i].all && reader->streams[i].path &&
		    reader->streams[i].end < end)
			end = reader->streams[i].end;
	return end == UINT64_MAX ? 0 : end;
}

const char *const *ip_kernel_reader_damage(const struct ip_kernel_reader *reader)
{
	return (const char *const *)reader->damages;
}

void ip_kernel_reader_close(struct ip_kernel_reader *reader)
{
	if (!reader)
		return;
	for (size_t i = 0; i < reader->nstreams; i++) {
		if (reader->streams[i].fd >= 0)
			close(reader->streams[i].fd);
		free(reader->streams[i].path);
		free(reader->streams[i].base);
		free(reader->streams[i].segments);
		free(reader->streams[i].packet);
	}
	for (size_t i = 0; i < reader->ndamages; i++)
		free(reader->damages[i]);
	if (reader->dir >= 0)
		close(reader->dir);
	free(reader->path);
	free(reader->sizes);
	free(reader->damages);
	free(reader->streams);
	free(reader->heap);
	free(reader);
}
