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

#include "common/error.h"
#include "hotpatcher/trace_internal.h"

void ip_trace_close_streams(struct ip_trace *trace)
{
	for (size_t i = 0; i < trace->nstreams; i++)
		if (trace->streams[i].fd >= 0) {
			close(trace->streams[i].fd);
			trace->streams[i].fd = -1;
		}
}

static int stream_fd(struct ip_trace *trace, uint32_t stream)
{
	char name[32];

	if (stream >= trace->nstreams) {
		size_t n = stream + 64;
		struct ip_trace_stream *grown = realloc(trace->streams, n * sizeof(*grown));

		if (!grown)
			return ip_error("out of memory");
		for (size_t i = trace->nstreams; i < n; i++)
			grown[i] = (struct ip_trace_stream){.fd = -1};
		trace->streams = grown;
		trace->nstreams = n;
	}
	if (trace->streams[stream].fd >= 0)
		return trace->streams[stream].fd;
	snprintf(name, sizeof(name), "stream-%u", stream);
	for (int i = 0; i < 2 && trace->streams[stream].fd < 0; i++) {
		if (i && errno != EMFILE)
			break;
		if (i)
			ip_trace_close_streams(trace);
		trace->streams[stream].fd =
			openat(trace->dirfd, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	}
	if (trace->streams[stream].fd < 0)
		return ip_error_errno("cannot make %s/%s", trace->dir, name);
	return trace->streams[stream].fd;
}

int ip_trace_write_packet(struct ip_trace *trace, uint32_t stream, struct ip_packet_header *header,
			  const uint64_t *words, size_t n)
{
	size_t size = sizeof(*header) + n * sizeof(*words);
	struct iovec parts[2] = {{header, sizeof(*header)}, {(void *)words, n * sizeof(*words)}};
	int fd = stream_fd(trace, stream);
	off_t before;
	ssize_t done;

	if (fd < 0)
		return -1;
	header->magic = IP_CTF_MAGIC;
	memcpy(header->uuid, trace->uuid, sizeof(header->uuid));
	header->stream_id = 0;
	header->content_size = header->packet_size = 8 * size;
	header->packet_seq_num = trace->streams[stream].packets;
	before = lseek(fd, 0, SEEK_END);
	do {
		done = writev(fd, parts, 2);
	} while (done < 0 && errno == EINTR);
	if (done == (ssize_t)size) {
		trace->streams[stream].packets++;
		trace->bytes += size;
		return 0;
	}
	/* a short write leaves half a packet: take it back, the trace stays readable up to here */
	if (done >= 0)
		errno = ENOSPC;
	ip_error_errno("cannot write %s/stream-%u", trace->dir, stream);
	if (done > 0 && ftruncate(fd, before) < 0)
		ip_error_errno("cannot write %s/stream-%u, nor cut it", trace->dir, stream);
	return -1;
}
