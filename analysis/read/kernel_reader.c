/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges the streams of DIR/kernel by time.
 */
#include "analysis/read/kernel_reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/read/kernel_packets.h"
#include "analysis/read/kernel_readahead.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"

#define STREAMS_MOST (3 * IP_KERNEL_CPUS_MAX)
#define THREADS_MOST 4u	  /* that read ahead: the merging of their events takes longer */
#define OPEN_MOST    128u /* files that stay open: machines have more CPUs than limits allow */

struct stream {
	/* The next event stands in the packet at `at`, and has so many bytes. 0: there is none yet,
	 * or a loss comes before it. */
	uint64_t tsc;
	uint32_t at, bytes;
	bool all;
	bool begun; /* it has a file that counts */
	bool loses; /* the next record is a loss */
	struct ip_kernel_packet packet;
	struct ip_kernel_packets *packets;
	uint64_t end, known; /* of its packets up to now */
};

struct ip_kernel_reader {
	int dir;
	char *path;
	struct stream *streams;
	size_t nstreams;
	struct ip_kernel_readahead *ahead;
	struct stream **heap; /* the one with the earliest event first */
	size_t n;
	char **damages; /* NULL behind the last */
	size_t ndamages;
	struct stream *last; /* whose event was returned last: it is to be moved on */
	uint64_t limit;	     /* no event of another stream comes before it */
};

/* What is wrong with a stream, behind which nothing of it is read. */
static int end_stream(struct ip_kernel_reader *reader, struct stream *s)
{
	if (s->packet.damage) /* one a stream at most */
		reader->damages[reader->ndamages++] = ip_steal_ptr(s->packet.damage);
	return 0;
}

/* When the events were known again that were lost before a packet: at its first one. */
static uint64_t end_of_loss(const struct ip_kernel_packet *packet)
{
	uint64_t tsc = packet->end;

	if (packet->size - sizeof(struct ip_kernel_packet_header) >=
	    sizeof(struct ip_kernel_event_header))
		memcpy(&tsc,
		       packet->bytes + sizeof(struct ip_kernel_packet_header) +
			       offsetof(struct ip_kernel_event_header, tsc),
		       sizeof(tsc));
	return tsc < packet->since || tsc > packet->end ? packet->end : tsc;
}

/* Takes packets until there is an event, or a loss before it. 1; 0: there is none; -1 with an
 * error. */
static int next_events(struct ip_kernel_reader *reader, struct stream *s)
{
	struct ip_kernel_packet *const packet = &s->packet;

	while (s->at == packet->sound) {
		if (packet->sound < packet->size)
			return end_stream(reader, s);
		if (ip_kernel_readahead_next(reader->ahead, s - reader->streams, packet) < 0)
			return -1;
		if (!packet->size)
			return end_stream(reader, s);
		s->end = packet->end;
		s->known = packet->known;
		s->at = sizeof(struct ip_kernel_packet_header);
		if (packet->lost || (packet->gap && (packet->since || s->at == packet->size))) {
			s->tsc = end_of_loss(packet);
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

	s->at += s->bytes;
	s->bytes = 0;
	s->loses = false;
	if (s->at == s->packet.sound) {
		const int got = next_events(reader, s);

		if (got <= 0 || s->loses)
			return got;
	}
	memcpy(&h, s->packet.bytes + s->at, sizeof(h));
	s->tsc = h.tsc;
	s->bytes = sizeof(h) + ip_kernel_packet_fields(h.id);
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
					 .cpu = s->packet.cpu,
					 .size = s->bytes - sizeof(*h),
					 .id = h->id,
					 .context = h->context,
					 .fields = s->packet.bytes + s->at + sizeof(*h),
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
						 .lost_since = s->packet.since,
						 .lost = s->packet.lost,
						 .cpu = s->packet.cpu,
						 .all = s->all};
		return 1;
	}
	memcpy(&h, s->packet.bytes + s->at, sizeof(h));
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

/* Mostly the next event stands behind the last one. */
int ip_kernel_reader_next(struct ip_kernel_reader *reader, struct ip_kernel_record *ret)
{
	struct stream *s = reader->last;
	struct ip_kernel_event_header h;
	uint32_t at;

	if (!s)
		return next_by_all(reader, ret);
	at = s->at + s->bytes;
	if (at == s->packet.sound)
		return next_by_all(reader, ret);
	memcpy(&h, s->packet.bytes + at, sizeof(h));
	s->tsc = h.tsc;
	s->at = at;
	s->bytes = sizeof(h) + ip_kernel_packet_fields(h.id);
	s->loses = false;
	if (h.tsc >= reader->limit)
		return of_first(reader, ret);
	put_event(s, &h, ret);
	return 1;
}

static struct stream *find_stream(struct ip_kernel_reader *reader, const char *name,
				  const struct ip_kernel_stream_name *parsed)
{
	for (size_t i = reader->nstreams; i-- > 0;)
		if (ip_kernel_packets_has_base(reader->streams[i].packets, name, parsed->base))
			return &reader->streams[i];
	return NULL;
}

static int add_file(struct ip_kernel_reader *reader, const char *name,
		    const struct ip_kernel_stream_name *parsed)
{
	struct stream *s = find_stream(reader, name, parsed);

	if (!s) {
		struct ip_kernel_packets *packets;

		if (reader->nstreams == STREAMS_MOST)
			return ip_error("%s has more than %u streams", reader->path, STREAMS_MOST);
		if (ip_array_grow(&reader->streams, reader->nstreams, sizeof(*s)) < 0)
			return -1;
		packets = ip_kernel_packets_create(reader->dir, reader->path, name, parsed->base);
		if (!packets)
			return -1;
		s = &reader->streams[reader->nstreams++];
		*s = (struct stream){.all = parsed->all, .packets = packets};
	}
	return ip_kernel_packets_add(s->packets, parsed->in_segments ? (int64_t)parsed->segment
								     : IP_KERNEL_NO_SEGMENT);
}

static bool has_segment(const struct ip_kernel_reader *reader, int64_t number)
{
	for (size_t i = 0; i < reader->nstreams; i++)
		if (ip_kernel_packets_has_segment(reader->streams[i].packets, number))
			return true;
	return false;
}

/* Files of older segments may be left of an iprobe that was killed while it removed them: those
 * count that follow each other up to the newest. Returns the first one's number. */
static int64_t find_first(const struct ip_kernel_reader *reader)
{
	int64_t first = IP_KERNEL_NO_SEGMENT;

	for (size_t i = 0; i < reader->nstreams; i++) {
		ip_kernel_packets_sort(reader->streams[i].packets);
		if (ip_kernel_packets_last(reader->streams[i].packets) > first)
			first = ip_kernel_packets_last(reader->streams[i].packets);
	}
	while (first != IP_KERNEL_NO_SEGMENT && has_segment(reader, first - 1))
		first--;
	return first;
}

/* Begins to read all streams that have a file that counts. */
static int begin_streams(struct ip_kernel_reader *reader)
{
	_cleanup_free_ struct ip_kernel_packets **begun =
		calloc(reader->nstreams + 1, sizeof(*begun));
	const int64_t first = find_first(reader);

	if (!begun)
		return ip_error("out of memory");
	for (size_t i = 0; i < reader->nstreams; i++) {
		struct stream *s = &reader->streams[i];
		const int got = ip_kernel_packets_begin(s->packets, first, i < OPEN_MOST);

		if (got < 0)
			return -1;
		s->begun = got;
		begun[i] = got ? s->packets : NULL;
	}
	reader->ahead = ip_kernel_readahead_begin(begun, reader->nstreams);
	return reader->ahead ? 0 : -1;
}

static int open_streams(struct ip_kernel_reader *reader, DIR *dir)
{
	const struct dirent *entry;
	struct ip_kernel_stream_name parsed;

	while ((entry = readdir(dir)))
		if (ip_kernel_stream_name_parse(entry->d_name, &parsed) &&
		    add_file(reader, entry->d_name, &parsed) < 0)
			return -1;
	if (begin_streams(reader) < 0)
		return -1;
	reader->damages = calloc(reader->nstreams + 1, sizeof(*reader->damages));
	reader->heap = calloc(reader->nstreams + 1, sizeof(*reader->heap));
	if (!reader->damages || !reader->heap)
		return ip_error("out of memory");
	for (size_t i = 0; i < reader->nstreams; i++) {
		int got = advance(reader, &reader->streams[i]);

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

int ip_kernel_reader_use_jobs(struct ip_kernel_reader *reader, unsigned jobs)
{
	size_t threads = jobs ? jobs - 1 : 0;

	if (threads > reader->n)
		threads = reader->n;
	if (threads > THREADS_MOST)
		threads = THREADS_MOST;
	return threads ? ip_kernel_readahead_use(reader->ahead, threads) : 0;
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
		if (reader->streams[i].all && reader->streams[i].begun &&
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
	ip_kernel_readahead_end(reader->ahead);
	for (size_t i = 0; i < reader->nstreams; i++) {
		ip_kernel_packets_destroy(reader->streams[i].packets);
		ip_kernel_packet_clear(&reader->streams[i].packet);
	}
	for (size_t i = 0; i < reader->ndamages; i++)
		free(reader->damages[i]);
	if (reader->dir >= 0)
		close(reader->dir);
	free(reader->path);
	free(reader->damages);
	free(reader->streams);
	free(reader->heap);
	free(reader);
}
