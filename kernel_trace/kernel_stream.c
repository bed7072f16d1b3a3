/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers events of the kernel into packets.
 */
#include "kernel_trace/kernel_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/dir.h"
#include "common/error.h"
#include "common/trace/kernel_format.h"
#include "common/trace/trace_format.h"
#include "kernel_trace/event_layout.h"
#include "kernel_trace/segments/kernel_segments.h"
#include "kernel_trace/segments/recorded_segments.h"

#define PACKET_SIZE (64u << 10)

void ip_kernel_stream_init(struct ip_kernel_stream *stream, int dir, const uint8_t uuid[16],
			   const char *part, uint32_t cpu)
{
	*stream = (struct ip_kernel_stream){.dir = dir, .fd = -1, .cpu = cpu, .uuid = uuid};
	snprintf(stream->name, sizeof(stream->name), "%s_%u", part, cpu);
	stream->all = !strcmp(part, IP_KERNEL_ALL);
}

void ip_kernel_stream_put_in(struct ip_kernel_stream *stream,
			     const struct ip_recorded_segments *segments)
{
	stream->in_segments = segments->any;
	stream->segment = segments->newest;
	stream->kept = segments->kept;
}

static int open_file(struct ip_kernel_stream *stream)
{
	char name[48];

	snprintf(name, sizeof(name), stream->in_segments ? "%s-%u" : "%s", stream->name,
		 stream->segment);
	stream->size = 0;
	return ip_file_make(stream->dir, name, O_WRONLY | O_APPEND);
}

static int keep(struct ip_kernel_stream *stream, const void *data, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), IP_KERNEL_SUBDIR "/%s-%u", stream->name, stream->segment);
	if (ip_kernel_segments_add(stream->kept, path, data, size) < 0)
		return -1;
	stream->bytes += size;
	return 0;
}

/* Appends whole packets only: half of one would make the stream unreadable. */
static int append(struct ip_kernel_stream *stream, const void *data, size_t size)
{
	size_t done = 0;

	if (stream->kept)
		return keep(stream, data, size);
	if (stream->fd < 0)
		stream->fd = open_file(stream);
	if (stream->fd < 0)
		return ip_error_errno("cannot make %s/%s", IP_KERNEL_SUBDIR, stream->name);
	while (done < size) {
		ssize_t n = write(stream->fd, (const uint8_t *)data + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			ip_error_errno("cannot write %s/%s", IP_KERNEL_SUBDIR, stream->name);
			if (done && ftruncate(stream->fd, stream->size) < 0)
				return ip_error_prefix("its last packet is not whole");
			return -1;
		}
		done += n;
	}
	stream->size += size;
	stream->bytes += size;
	return 0;
}

int ip_kernel_stream_flush(struct ip_kernel_stream *stream)
{
	struct ip_kernel_packet_header header = {.magic = IP_CTF_MAGIC,
						 .timestamp_begin = stream->begin,
						 .timestamp_end = stream->end,
						 .content_size = stream->used * 8ull,
						 .packet_size = stream->used * 8ull,
						 .packet_seq_num = stream->packets,
						 .events_discarded =
							 stream->lost - stream->lost_before,
						 .cpu_id = stream->cpu};

	if (stream->sink)
		return stream->failed ? -1 : 0;
	if (!stream->used)
		return 0;
	if (stream->used == sizeof(header)) { /* room was made, and no event has come */
		if (stream->lost == stream->told_lost && !stream->marks) {
			stream->used = 0;
			return 0;
		}
		header.timestamp_begin = stream->end;
	}
	memcpy(header.uuid, stream->uuid, sizeof(header.uuid));
	memcpy(stream->packet, &header, sizeof(header));
	if (append(stream, stream->packet, stream->used) < 0)
		return -1;
	stream->told_lost = stream->lost;
	stream->packets++;
	stream->used = 0;
	return 0;
}

uint8_t *ip_kernel_stream_room(struct ip_kernel_stream *stream)
{
	if (!stream->packet)
		stream->packet = malloc(PACKET_SIZE);
	if (!stream->packet) {
		ip_error("out of memory");
		return NULL;
	}
	if (stream->sink)
		return stream->failed ? NULL : stream->packet;
	if (stream->used + IP_EVENT_SIZE_MAX > PACKET_SIZE && ip_kernel_stream_flush(stream) < 0)
		return NULL;
	if (!stream->used)
		stream->used = sizeof(struct ip_kernel_packet_header);
	return stream->packet + stream->used;
}

void ip_kernel_stream_add(struct ip_kernel_stream *stream, uint64_t tsc, uint32_t size)
{
	if (stream->sink) {
		stream->end = tsc;
		stream->events++;
		stream->failed |= stream->sink->event(stream->sink->context, stream->cpu,
						      stream->packet, size) < 0;
		return;
	}
	if (stream->used == sizeof(struct ip_kernel_packet_header))
		stream->begin = tsc;
	stream->end = tsc;
	stream->used += size;
	stream->events++;
}

int ip_kernel_stream_lost(struct ip_kernel_stream *stream, uint64_t total)
{
	const uint64_t more = total - stream->lost;

	if (total <= stream->lost)
		return 0;
	if (stream->sink) {
		stream->lost = total;
		return stream->sink->lost(stream->sink->context, stream->all, stream->cpu, more);
	}
	/* the packet's events came before the loss */
	if (ip_kernel_stream_flush(stream) < 0)
		return -1;
	stream->lost = total;
	return 0;
}

/* A packet without events. */
static int write_mark(struct ip_kernel_stream *stream, uint64_t tsc)
{
	int ret;

	if (!ip_kernel_stream_room(stream))
		return -1;
	stream->end = tsc > stream->end ? tsc : stream->end;
	stream->marks = true;
	ret = ip_kernel_stream_flush(stream);
	stream->marks = false;
	return ret;
}

int ip_kernel_stream_begin(struct ip_kernel_stream *stream, uint64_t tsc)
{
	stream->packets = 1;
	return write_mark(stream, tsc);
}

int ip_kernel_stream_cut(struct ip_kernel_stream *stream, uint32_t segment, uint64_t tsc)
{
	if (ip_kernel_stream_flush(stream) < 0)
		return -1;
	if (stream->fd >= 0)
		close(stream->fd);
	stream->fd = -1;
	stream->segment = segment;
	stream->packets = 0;
	/* what no packet has told of is told of in the new segment */
	stream->lost_before = stream->told_lost;
	return stream->bytes ? write_mark(stream, tsc) : 0;
}

int ip_kernel_stream_mark(struct ip_kernel_stream *stream, uint64_t tsc)
{
	if (ip_kernel_stream_flush(stream) < 0)
		return -1;
	if (stream->sink)
		return 0;
	return stream->packets && stream->end < tsc ? write_mark(stream, tsc) : 0;
}

int ip_kernel_stream_finish(struct ip_kernel_stream *stream, uint64_t tsc)
{
	if (ip_kernel_stream_flush(stream) < 0)
		return -1;
	if (stream->sink)
		return 0;
	return stream->lost != stream->told_lost && !stream->packets
		       ? write_mark(stream, tsc)
		       : ip_kernel_stream_mark(stream, tsc);
}

void ip_kernel_stream_clear(struct ip_kernel_stream *stream)
{
	if (stream->fd >= 0)
		close(stream->fd);
	free(stream->packet);
	stream->fd = -1;
	stream->packet = NULL;
}
