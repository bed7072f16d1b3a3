/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: files of packets.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/trace/packet_codec.h"
#include "trace_writer/writer_private.h"

#define WORD sizeof(uint64_t)

void ip_trace_close_streams(struct ip_trace *trace)
{
	for (size_t i = 0; i < trace->nstreams; i++)
		if (trace->streams[i].fd >= 0) {
			close(trace->streams[i].fd);
			trace->streams[i].fd = -1;
		}
}

int ip_trace_grow_streams(struct ip_trace *trace, uint32_t stream)
{
	size_t n = stream + 64;
	struct ip_trace_stream *grown;

	if (stream < trace->nstreams)
		return 0;
	grown = realloc(trace->streams, n * sizeof(*grown));
	if (!grown)
		return ip_error("out of memory");
	for (size_t i = trace->nstreams; i < n; i++)
		grown[i] = (struct ip_trace_stream){.fd = -1};
	trace->streams = grown;
	trace->nstreams = n;
	return 0;
}

void ip_trace_stream_name(const struct ip_trace *trace, uint32_t stream, uint32_t piece,
			  char ret[IP_STREAM_NAME_MAX])
{
	const struct ip_stream_name name = {stream, piece, ip_trace_rotates(trace),
					    ip_trace_compresses(trace)};

	ip_stream_name_format(&name, ret);
}

static int stream_fd(struct ip_trace *trace, uint32_t stream)
{
	char name[IP_STREAM_NAME_MAX];

	if (ip_trace_grow_streams(trace, stream) < 0)
		return -1;
	if (trace->streams[stream].fd >= 0)
		return trace->streams[stream].fd;
	ip_trace_stream_name(trace, stream, ip_rotation_newest(trace), name);
	for (int i = 0; i < 2 && trace->streams[stream].fd < 0; i++) {
		if (i && errno != EMFILE)
			break;
		if (i)
			ip_trace_close_streams(trace);
		trace->streams[stream].fd = openat(
			trace->dirfd, name,
			O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0600);
	}
	if (trace->streams[stream].fd < 0)
		return ip_error_errno("cannot make %s/%s", trace->dir, name);
	return trace->streams[stream].fd;
}

static int cannot_write(const struct ip_trace *trace, const char *what, uint32_t stream)
{
	int error = errno;

	ip_error_errno("cannot write %s/%s%u", trace->dir, what, stream);
	errno = error;
	return -1;
}

int ip_trace_prepare_packet(struct ip_trace *trace, uint32_t stream,
			    struct ip_packet_header *header, size_t n)
{
	if (ip_trace_grow_streams(trace, stream) < 0)
		return -1;
	header->magic = IP_CTF_MAGIC;
	memcpy(header->uuid, trace->uuid, sizeof(header->uuid));
	header->stream_id = 0;
	header->content_size = header->packet_size = 8 * (sizeof(*header) + n * WORD);
	header->packet_seq_num = trace->streams[stream].prepared++;
	return 0;
}

static void advance(struct ip_trace *trace, uint32_t stream, const struct ip_progress *progress)
{
	ip_rotation_advanced(trace, &trace->streams[stream].progress, progress);
	trace->streams[stream].progress = *progress;
}

/* Appends a packet by the steps of journal.h. The parts are changed. */
static int append(struct ip_trace *trace, uint32_t stream, struct iovec *parts, int nparts,
		  const struct ip_progress *progress)
{
	struct ip_trace_stream *s = &trace->streams[stream]; /* the caller has prepared it */
	size_t size = 0, done = 0;
	uint64_t before;
	uint32_t piece;
	int fd, error;

	for (int i = 0; i < nparts; i++)
		size += parts[i].iov_len;
	if (ip_rotation_make_room(trace, size) < 0) {
		s->prepared = s->packets;
		return -1;
	}
	fd = stream_fd(trace, stream);
	if (fd < 0)
		return -1;
	piece = ip_rotation_newest(trace);
	before = s->piece == piece ? s->size : 0;
	if (trace->journal && ip_journal_put(trace->journal, stream, progress, piece, before + size,
					     s->packets + 1) < 0) {
		s->prepared = s->packets;
		return cannot_write(trace, IP_TRACE_JOURNAL " of stream-", stream);
	}
	while (done < size) {
		ssize_t written = writev(fd, parts, nparts);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			break;
		done += written;
		while (nparts && (size_t)written >= parts->iov_len) {
			written -= parts->iov_len;
			parts++;
			nparts--;
		}
		if (nparts) {
			parts->iov_base = (char *)parts->iov_base + written;
			parts->iov_len -= written;
		}
	}
	if (done == size) {
		s->packets++;
		s->piece = piece;
		s->size = before + size;
		trace->bytes += size;
		if (trace->shared_bytes)
			__atomic_add_fetch(trace->shared_bytes, size, __ATOMIC_RELAXED);
		ip_rotation_wrote(trace, size);
		advance(trace, stream, progress);
		return 0;
	}
	/* the half packet is removed, so that the trace stays readable up to here */
	error = errno;
	s->prepared = s->packets;
	if (trace->journal)
		ip_journal_undo(trace->journal, stream);
	if (done && ftruncate(fd, before) < 0)
		return cannot_write(trace, "(nor cut it) stream-", stream);
	errno = error;
	return cannot_write(trace, "stream-", stream);
}

int ip_trace_append_encoded(struct ip_trace *trace, uint32_t stream, const void *bytes, size_t size,
			    const struct ip_progress *progress)
{
	struct iovec part = {(void *)bytes, size};

	return append(trace, stream, &part, 1, progress);
}

int ip_trace_write_packet(struct ip_trace *trace, uint32_t stream, struct ip_packet_header *header,
			  const uint64_t *words, size_t n, const struct ip_progress *progress)
{
	struct iovec parts[2] = {{header, sizeof(*header)}, {(void *)words, n * WORD}};
	_cleanup_free_ void *encoded = NULL;

	if (ip_trace_prepare_packet(trace, stream, header, n) < 0)
		return -1;
	if (!trace->codec)
		return append(trace, stream, parts, 2, progress);
	encoded = malloc(ip_encoded_packet_room(n));
	if (!encoded)
		return ip_error("out of memory");
	return ip_trace_append_encoded(trace, stream, encoded,
				       ip_packet_encode(trace->codec, header, words, n, encoded),
				       progress);
}

int ip_trace_note_progress(struct ip_trace *trace, uint32_t stream,
			   const struct ip_progress *progress)
{
	if (ip_trace_grow_streams(trace, stream) < 0)
		return -1;
	if (trace->journal &&
	    ip_journal_put(trace->journal, stream, progress, trace->streams[stream].piece,
			   trace->streams[stream].size, trace->streams[stream].packets) < 0)
		return cannot_write(trace, IP_TRACE_JOURNAL " of stream-", stream);
	advance(trace, stream, progress);
	return 0;
}

void ip_trace_add_bytes(struct ip_trace *trace, uint64_t bytes)
{
	trace->bytes += bytes;
	ip_rotation_add_bytes(trace, bytes);
	if (trace->shared_bytes)
		__atomic_add_fetch(trace->shared_bytes, bytes, __ATOMIC_RELAXED);
}
