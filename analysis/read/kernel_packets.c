/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and checks packets of DIR/kernel, one stream's.
 */
#include "analysis/read/kernel_packets.h"

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
#include "common/error.h"
#include "common/trace/trace_format.h"

#define PACKET_MOST (128u << 10) /* a larger one is damaged: ours have 64 KiB */

struct ip_kernel_packets {
	int dir;
	const char *directory;
	char *path; /* of its present file */
	char *base; /* the name without the segment */
	/* the segments that it has files of, in their order; IP_KERNEL_NO_SEGMENT: one without */
	int64_t *segments;
	size_t nsegments, segment; /* segment: index of the present one */
	int fd;			   /* -1: it is opened for each packet */
	bool stays_open;
	dev_t device; /* and is the file that it was, then */
	ino_t inode;
	uint64_t offset; /* of the packet's end in the file */
	bool begun;	 /* a packet has been read */
	uint32_t cpu;
	uint64_t discarded, end; /* of the packet before */
	uint64_t last_tsc;	 /* of the event before */
	uint64_t known;
};

int16_t ip_kernel_packet_sizes[UINT16_MAX + 1];

__attribute__((format(printf, 3, 4))) static int
damage(const struct ip_kernel_packets *p, struct ip_kernel_packet *packet, const char *format, ...)
{
	char what[160];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	if (asprintf(&packet->damage, "%s: %s", p->path, what) >= 0)
		return 0;
	packet->damage = NULL;
	return ip_error("out of memory");
}

/* Opens the present file, which is the one that it was before. */
static int open_file(struct ip_kernel_packets *p)
{
	int fd = openat(p->dir, strrchr(p->path, '/') + 1,
			O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	struct stat now;

	if (fd < 0)
		return ip_error_errno("cannot open %s", p->path);
	if (fstat(fd, &now) < 0 ||
	    (p->inode && (now.st_dev != p->device || now.st_ino != p->inode))) {
		close(fd);
		return ip_error("%s has become another file while it was read", p->path);
	}
	p->device = now.st_dev;
	p->inode = now.st_ino;
	return fd;
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

static inline int fields_size(uint16_t id)
{
	int16_t size = __atomic_load_n(&ip_kernel_packet_sizes[id], __ATOMIC_RELAXED);

	if (!size) {
		int found = ip_kernel_fields_size(id);

		size = found < 0 ? -1 : found + 2;
		__atomic_store_n(&ip_kernel_packet_sizes[id], size, __ATOMIC_RELAXED);
	}
	return size < 0 ? -1 : size - 2;
}

static int check_events(struct ip_kernel_packets *p, struct ip_kernel_packet *packet)
{
	uint64_t last = p->last_tsc;
	uint32_t at = sizeof(struct ip_kernel_packet_header);
	int fields = 0;

	while (at < packet->size) {
		struct ip_kernel_event_header h;

		if (packet->size - at < sizeof(h))
			break;
		memcpy(&h, packet->bytes + at, sizeof(h));
		fields = fields_size(h.id);
		if (fields < 0 || (uint32_t)fields > packet->size - at - sizeof(h) ||
		    h.tsc < last || h.tsc > packet->end)
			break;
		last = h.tsc;
		at += sizeof(h) + fields;
	}
	p->last_tsc = last;
	packet->sound = at;
	if (at == packet->size)
		return 0;
	return packet->size - at < sizeof(struct ip_kernel_event_header)
		       ? damage(p, packet, "an event is cut off in the packet before %lu",
				p->offset)
		       : damage(p, packet, "the packet before %lu has what is no event", p->offset);
}

/* What the header of the next packet tells. */
static void note_header(struct ip_kernel_packets *p, const struct ip_kernel_packet_header *h,
			struct ip_kernel_packet *packet)
{
	packet->gap = !p->offset && h->packet_seq_num;
	/* a mark begins a segment: what happened before it was in one that is gone */
	if (!p->begun && packet->size == sizeof(*h)) {
		packet->gap = true;
		p->known = h->packet_seq_num ? 0 : h->timestamp_end;
	}
	packet->known = p->known;
	packet->lost = h->events_discarded - p->discarded;
	packet->since = p->end;
	packet->cpu = p->cpu = h->cpu_id;
	packet->end = p->end = h->timestamp_end;
	p->offset += packet->size;
	p->discarded = h->events_discarded;
	if (packet->size == sizeof(*h)) /* it tells of a loss alone */
		p->last_tsc = h->timestamp_end;
	p->begun = true;
}

/* Reads the next packet. 1; 2: the file has no other; 0: there is none that can be read; -1 with an
 * error. */
static int take_packet(struct ip_kernel_packets *p, int fd, struct ip_kernel_packet *packet)
{
	struct ip_kernel_packet_header h;
	ssize_t n = read_whole(fd, &h, sizeof(h), p->offset);

	if (n < 0)
		return ip_error_errno("cannot read %s", p->path);
	if (n == 0)
		return 2;
	if (n < (ssize_t)sizeof(h))
		return damage(p, packet, "its last packet, at %lu, is cut off", p->offset);
	if (h.magic != IP_CTF_MAGIC || h.content_size != h.packet_size || h.packet_size % 8 ||
	    h.packet_size / 8 < sizeof(h) || h.packet_size / 8 > PACKET_MOST)
		return damage(p, packet, "there is no packet at %lu", p->offset);
	if (h.cpu_id >= IP_KERNEL_CPUS_MAX || (p->begun && h.cpu_id != p->cpu) ||
	    h.timestamp_end < h.timestamp_begin || (p->begun && h.timestamp_begin < p->end) ||
	    (p->begun && h.events_discarded < p->discarded))
		return damage(p, packet, "the packet at %lu does not fit the one before",
			      p->offset);
	if (!packet->bytes)
		packet->bytes = malloc(PACKET_MOST);
	if (!packet->bytes)
		return ip_error("out of memory");
	packet->size = h.packet_size / 8;
	n = read_whole(fd, packet->bytes, packet->size, p->offset);
	if (n < 0)
		return ip_error_errno("cannot read %s", p->path);
	if ((size_t)n < packet->size)
		return damage(p, packet, "its last packet, at %lu, is cut off", p->offset);
	note_header(p, &h, packet);
	return check_events(p, packet) < 0 ? -1 : 1;
}

static int name_file(struct ip_kernel_packets *p)
{
	const int64_t segment = p->segments[p->segment];

	free(p->path);
	if ((segment == IP_KERNEL_NO_SEGMENT
		     ? asprintf(&p->path, "%s/%s", p->directory, p->base)
		     : asprintf(&p->path, "%s/%s-%" PRId64, p->directory, p->base, segment)) >= 0)
		return 0;
	p->path = NULL;
	return ip_error("out of memory");
}

/* Goes on in the next segment. 1; 0: there is none that can be read; -1 with an error. */
static int next_file(struct ip_kernel_packets *p, struct ip_kernel_packet *packet)
{
	if (p->segment + 1 >= p->nsegments)
		return 0;
	if (p->segments[p->segment + 1] != p->segments[p->segment] + 1)
		return damage(p, packet, "its next segment is missing");
	p->segment++;
	if (name_file(p) < 0)
		return -1;
	p->inode = 0;
	p->offset = p->discarded = 0;
	if (p->fd >= 0)
		close(p->fd);
	p->fd = p->stays_open ? open_file(p) : -1;
	return p->stays_open && p->fd < 0 ? -1 : 1;
}

int ip_kernel_packets_next(struct ip_kernel_packets *p, struct ip_kernel_packet *packet)
{
	int got;

	free(packet->damage);
	*packet = (struct ip_kernel_packet){.bytes = packet->bytes};
	do {
		int fd = p->fd >= 0 ? p->fd : open_file(p);

		got = fd < 0 ? -1 : take_packet(p, fd, packet);
		if (fd >= 0 && p->fd < 0)
			close(fd);
	} while (got == 2 && (got = next_file(p, packet)) == 1);
	if (got == 0)
		packet->size = 0;
	return got;
}

void ip_kernel_packet_clear(struct ip_kernel_packet *packet)
{
	free(packet->bytes);
	free(packet->damage);
	*packet = (struct ip_kernel_packet){0};
}

struct ip_kernel_packets *ip_kernel_packets_create(int dir, const char *path, const char *base,
						   size_t base_length)
{
	struct ip_kernel_packets *p = malloc(sizeof(*p));

	if (p) {
		*p = (struct ip_kernel_packets){.dir = dir, .directory = path, .fd = -1};
		p->base = strndup(base, base_length);
		if (p->base)
			return p;
	}
	ip_kernel_packets_destroy(p);
	ip_error("out of memory");
	return NULL;
}

void ip_kernel_packets_destroy(struct ip_kernel_packets *p)
{
	if (!p)
		return;
	if (p->fd >= 0)
		close(p->fd);
	free(p->path);
	free(p->base);
	free(p->segments);
	free(p);
}

int ip_kernel_packets_add(struct ip_kernel_packets *p, int64_t segment)
{
	if (ip_array_grow(&p->segments, p->nsegments, sizeof(*p->segments)) < 0)
		return -1;
	p->segments[p->nsegments++] = segment;
	return 0;
}

bool ip_kernel_packets_has_base(const struct ip_kernel_packets *p, const char *name,
				size_t base_length)
{
	return !strncmp(p->base, name, base_length) && !p->base[base_length];
}

static int by_number(const void *left, const void *right)
{
	const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

	return a < b ? -1 : a > b;
}

void ip_kernel_packets_sort(struct ip_kernel_packets *p)
{
	if (p->nsegments)
		qsort(p->segments, p->nsegments, sizeof(*p->segments), by_number);
}

bool ip_kernel_packets_has_segment(const struct ip_kernel_packets *p, int64_t segment)
{
	return p->nsegments &&
	       bsearch(&segment, p->segments, p->nsegments, sizeof(segment), by_number);
}

int64_t ip_kernel_packets_last(const struct ip_kernel_packets *p)
{
	return p->nsegments ? p->segments[p->nsegments - 1] : IP_KERNEL_NO_SEGMENT;
}

int ip_kernel_packets_begin(struct ip_kernel_packets *p, int64_t segment, bool stays_open)
{
	while (p->segment < p->nsegments && p->segments[p->segment] < segment)
		p->segment++;
	if (p->segment == p->nsegments)
		return 0; /* it has none that counts */
	if (name_file(p) < 0)
		return -1;
	p->stays_open = stays_open;
	if (stays_open)
		p->fd = open_file(p);
	return stays_open && p->fd < 0 ? -1 : 1;
}
