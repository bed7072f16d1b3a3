/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes a stream file.
 *
 * A compact record is decoded from the record before it (time and stack pointer), across packets
 * of the same thread as long as nothing is missing between them. Where the record before is not
 * known, compact records are skipped up to the next extended record: the writer begins each
 * sub-buffer with one.
 *
 * Damage: a bad packet header ends the stream, since nothing tells where the next packet begins.
 * A bad record ends its packet, and so do words that cannot be unpacked.
 *
 * The first bytes of a stream, not its name, tell whether it is compressed
 * (common/trace/packet_codec.h). The words of a compressed packet are unpacked when the caller
 * reads the first of them. So a reader that looks at all headers reads nothing else.
 */
#include "analysis/read/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/read/unpack.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/trace/trace_format.h"

#define BUFFER_SIZE 32768u
#define SMALL_SIZE  8192u	 /* holds any record */
#define PACKET_MAX  (1ull << 30) /* bytes; iprobe writes packets of 32 KiB */
#define WORD	    sizeof(uint64_t)
#define BATCH_MAX   16384u /* events: so the payloads of a batch can be numbered in 24 bits */

struct ip_stream {
	int fd;
	char *path;
	uint64_t size;
	const char *const *later; /* files that follow this one */
	size_t nlater;

	bool compressed;
	/* head of the packet, where the stream is compressed */
	struct ip_encoded_packet_header encoded;
	struct ip_unpack **unpack; /* what unpacks it: own_unpack, or the caller's */
	struct ip_unpack *own_unpack;

	uint64_t packet;   /* offset of the packet's header */
	uint64_t next;	   /* offset of the next packet's header */
	uint64_t position; /* offset of the next word to read into the buffer */
	/* bytes of the packet that are not decoded yet, including those in the buffer */
	uint64_t left;
	size_t at, filled; /* in words of the buffer */

	bool begun; /* a packet has been read */
	uint64_t begin, end;
	uint64_t sequence, discarded;
	uint32_t pid, tid;
	uint8_t uuid[16];

	bool spoiled; /* the rest of the packet is damaged: its events are missing */
	bool known;   /* ts and sp are those of the record before */
	uint64_t ts, sp;

	struct ip_stream_renumber shift;

	uint64_t *payloads; /* payloads of the events that were delivered last */
	size_t npayloads, payloads_size;

	char *damage;
	uint64_t *buffer;
	/* size of the buffer in bytes; in a compressed stream it holds the whole packet */
	size_t room;
};

static void damaged(struct ip_stream *s, uint64_t offset, const char *what)
{
	if (s->damage)
		return;
	if (asprintf(&s->damage, "%s: %s at byte %llu of %llu: only what is good has been read",
		     s->path, what, (unsigned long long)offset, (unsigned long long)s->size) < 0)
		s->damage = NULL;
}

const char *ip_stream_damage(const struct ip_stream *s)
{
	return s->damage;
}

/* Returns what is wrong with a header, or NULL. */
static const char *check_header(const struct ip_stream *s, const struct ip_packet_header *h)
{
	if (h->magic != IP_CTF_MAGIC)
		return "no packet";
	if (h->stream_id)
		return "packet of an unknown kind of stream";
	if (s->begun && memcmp(h->uuid, s->uuid, sizeof(h->uuid)))
		return "packet of another trace";
	if (h->content_size % (8 * WORD) || h->content_size < 8 * sizeof(*h) ||
	    h->packet_size < h->content_size || h->packet_size % (8 * WORD) ||
	    h->packet_size / 8 > PACKET_MAX)
		return "packet of an impossible size";
	if (h->timestamp_end < h->timestamp_begin)
		return "packet that ends before it begins";
	return NULL;
}

static size_t head_size(const struct ip_stream *s)
{
	return s->compressed ? sizeof(struct ip_encoded_packet_header)
			     : sizeof(struct ip_packet_header);
}

/* Reads the next packet header. *ret_problem is what is wrong with it, or NULL. Returns 0, or -1
 * with an error where reading fails. */
static int read_header(struct ip_stream *s, struct ip_packet_header *ret, const char **ret_problem)
{
	if (ip_read_at(s->fd, s->path, s->next, s->compressed ? (void *)&s->encoded : ret,
		       head_size(s)) < 0)
		return -1;
	if (s->compressed && s->encoded.magic != IP_ENCODED_PACKET_MAGIC) {
		*ret_problem = "no packet";
		return 0;
	}
	if (s->compressed)
		*ret = s->encoded.header;
	*ret_problem = check_header(s, ret);
	if (!*ret_problem && s->compressed)
		*ret_problem = ip_unpack_check(&s->encoded);
	return 0;
}

/* Finds out whether the stream is compressed. */
static int open_kind(struct ip_stream *s)
{
	uint32_t magic;

	if (s->size < sizeof(magic))
		return 0;
	if (ip_read_at(s->fd, s->path, 0, &magic, sizeof(magic)) < 0)
		return -1;
	s->compressed = magic == IP_ENCODED_PACKET_MAGIC;
	return 0;
}

static int open_stream(const char *path, size_t room, struct ip_unpack **unpack,
		       struct ip_stream **ret)
{
	struct ip_stream *s = calloc(1, sizeof(*s));
	struct ip_packet_header header;
	const char *problem;

	if (!s)
		return ip_error("out of memory");
	s->fd = -1;
	s->path = strdup(path);
	s->unpack = unpack ? unpack : &s->own_unpack;
	s->room = room;
	s->shift.most = s->shift.signature_most = UINT32_MAX - 1;
	s->buffer = malloc(room);
	if (!s->path || !s->buffer) {
		ip_stream_close(s);
		return ip_error("out of memory");
	}
	s->fd = ip_open_regular(path, &s->size);
	if (s->fd < 0) {
		ip_stream_close(s);
		return -1;
	}
	if (open_kind(s) < 0) {
		ip_stream_close(s);
		return -1;
	}
	if (s->size >= head_size(s)) {
		if (read_header(s, &header, &problem) < 0) {
			ip_stream_close(s);
			return -1;
		}
		if (problem) {
			ip_stream_close(s);
			return ip_error("%s: not a stream of iprobe, or damaged from the start (%s "
					"at byte 0)",
					path, problem);
		}
	}
	*ret = s;
	return 0;
}

int ip_stream_open(const char *path, struct ip_stream **ret)
{
	return open_stream(path, BUFFER_SIZE, NULL, ret);
}

int ip_stream_open_small(const char *path, struct ip_unpack **unpack, struct ip_stream **ret)
{
	return open_stream(path, SMALL_SIZE, unpack, ret);
}

void ip_stream_close(struct ip_stream *s)
{
	if (!s)
		return;
	if (s->fd >= 0)
		close(s->fd);
	free(s->path);
	ip_unpack_destroy(s->own_unpack);
	free(s->buffer);
	free(s->payloads);
	free(s->damage);
	free(s);
}

const char *ip_stream_path(const struct ip_stream *s)
{
	return s->path;
}

const uint8_t *ip_stream_uuid(const struct ip_stream *s)
{
	return s->uuid;
}

void ip_stream_renumber(struct ip_stream *s, const struct ip_stream_renumber *shift)
{
	s->shift = *shift;
}

void ip_stream_go_on(struct ip_stream *s, const char *const *paths, size_t n)
{
	s->later = paths;
	s->nlater = n;
}

static int open_later(struct ip_stream *s)
{
	char *path = strdup(*s->later);

	if (!path)
		return ip_error("out of memory");
	free(s->path);
	s->path = path;
	s->later++;
	s->nlater--;
	close(s->fd);
	s->size = s->next = 0;
	s->compressed = false;
	s->fd = ip_open_regular(path, &s->size);
	if (s->fd < 0 && ip_access(path, F_OK) < 0 && errno == ENOENT)
		return ip_error("%s: it has been rotated away (--rotate) while the trace was being "
				"read: try again",
				path);
	return s->fd < 0 ? -1 : open_kind(s);
}

/* Goes to the next packet of the current file. Returns as ip_stream_next_packet(), and 0 also
 * where the rest of the file is damaged. */
static int next_of_file(struct ip_stream *s, struct ip_packet *ret)
{
	struct ip_packet_header h;
	const char *problem;
	uint64_t end, rest = s->size - s->next;

	if (rest < head_size(s)) {
		damaged(s, s->next, "cut off in a packet header");
		s->next = s->size;
		return 0;
	}
	if (read_header(s, &h, &problem) < 0)
		return -1;
	if (problem) {
		damaged(s, s->next, problem);
		s->next = s->size;
		return 0;
	}
	end = s->compressed ? sizeof(s->encoded) + s->encoded.bytes : h.packet_size / 8;
	s->left = h.content_size / 8 - sizeof(h);
	if (end > rest) {
		damaged(s, s->next, "packet that is cut off");
		end = rest;
		if (s->compressed)
			s->left = 0; /* a part of a compressed packet cannot be read */
		else if (s->left > rest - sizeof(h))
			s->left = (rest - sizeof(h)) / WORD * WORD;
	}
	*ret = (struct ip_packet){.offset = s->next,
				  .begin = h.timestamp_begin,
				  .end = h.timestamp_end,
				  .bytes = s->left,
				  .pid = h.pid,
				  .tid = h.tid};
	if (h.events_discarded > s->discarded || !s->begun)
		ret->lost = h.events_discarded - (s->begun ? s->discarded : 0);
	ret->ended = s->begun && !ret->lost && h.content_size == 8 * sizeof(h);
	if (s->begun && h.packet_seq_num > s->sequence + 1)
		ret->missing = h.packet_seq_num - s->sequence - 1;
	/* A packet whose rest is damaged counts as missing. */
	ret->missing += s->spoiled;
	s->spoiled = false;
	if (!s->begun || ret->missing || s->pid != h.pid || s->tid != h.tid)
		s->known = false;
	memcpy(s->uuid, h.uuid, sizeof(s->uuid));
	s->begun = true;
	s->begin = h.timestamp_begin;
	s->end = h.timestamp_end;
	s->sequence = h.packet_seq_num;
	s->discarded = h.events_discarded;
	s->pid = h.pid;
	s->tid = h.tid;
	s->packet = s->next;
	s->position = s->next + head_size(s);
	s->next += end;
	s->at = s->filled = 0;
	return 1;
}

int ip_stream_next_packet(struct ip_stream *s, struct ip_packet *ret)
{
	s->left = 0;
	for (;;) {
		int more = s->next < s->size ? next_of_file(s, ret) : 0;

		if (more || (s->next >= s->size && !s->nlater))
			return more;
		if (s->next >= s->size && open_later(s) < 0)
			return -1;
	}
}

void ip_stream_mark(const struct ip_stream *s, struct ip_stream_mark *ret)
{
	*ret = (struct ip_stream_mark){.next = s->next,
				       .nlater = s->nlater,
				       .sequence = s->sequence,
				       .discarded = s->discarded,
				       .ts = s->ts,
				       .sp = s->sp,
				       .pid = s->pid,
				       .tid = s->tid,
				       .begun = s->begun,
				       .known = s->known,
				       .spoiled = s->spoiled};
	memcpy(ret->uuid, s->uuid, sizeof(ret->uuid));
}

int ip_stream_go_to(struct ip_stream *s, const struct ip_stream_mark *mark)
{
	if (mark->nlater < s->nlater) {
		/* open_later() opens the first of the files that are left */
		s->later += s->nlater - mark->nlater - 1;
		s->nlater = mark->nlater + 1;
		if (open_later(s) < 0)
			return -1;
	}
	if (mark->next > s->size)
		return ip_error("%s: changed while it was being read", s->path);
	s->next = mark->next;
	s->left = 0;
	s->at = s->filled = 0;
	s->sequence = mark->sequence;
	s->discarded = mark->discarded;
	s->ts = mark->ts;
	s->sp = mark->sp;
	s->pid = mark->pid;
	s->tid = mark->tid;
	memcpy(s->uuid, mark->uuid, sizeof(s->uuid));
	s->begun = mark->begun;
	s->known = mark->known;
	s->spoiled = mark->spoiled;
	return 0;
}

static uint64_t offset_of(const struct ip_stream *s, size_t at)
{
	return s->compressed ? s->packet : s->position - (s->filled - at) * WORD;
}

/* Unpacks all words of a compressed packet. */
static int fill_unpacked(struct ip_stream *s)
{
	size_t size = ip_unpack_words(&s->encoded) * WORD;
	int good;

	if (!*s->unpack)
		*s->unpack = ip_unpack_create();
	if (!*s->unpack)
		return -1;
	if (size > s->room) {
		uint64_t *buffer = realloc(s->buffer, size);

		if (!buffer)
			return ip_error("out of memory");
		s->buffer = buffer;
		s->room = size;
	}
	good = ip_unpack_read(*s->unpack, s->fd, s->path, s->packet, &s->encoded, s->buffer);
	if (good < 0)
		return -1;
	if (!good) {
		damaged(s, s->packet, "packet whose compressed words are damaged");
		s->left = 0;
		s->known = false;
		s->spoiled = true;
	}
	s->at = 0;
	s->filled = s->left / WORD;
	return 0;
}

/* Moves the rest of the buffer to its front and fills the buffer up. */
static int refill(struct ip_stream *s)
{
	size_t kept = s->filled - s->at;
	uint64_t want = s->left - kept * WORD;

	if (s->compressed)
		return fill_unpacked(s);
	memmove(s->buffer, s->buffer + s->at, kept * WORD);
	if (want > s->room - kept * WORD)
		want = s->room - kept * WORD;
	if (ip_read_at(s->fd, s->path, s->position, s->buffer + kept, want) < 0)
		return -1;
	s->position += want;
	s->at = 0;
	s->filled = kept + want / WORD;
	return 0;
}

/* Ends the packet at word at of the buffer. */
static void bad_record(struct ip_stream *s, size_t at, const char *what)
{
	damaged(s, offset_of(s, at), what);
	s->left = 0;
	s->known = false;
	s->spoiled = true;
}

/* Returns whether the record that begins with word is a payload record, which has more words
 * than an extended record. */
static bool has_payload(uint64_t word)
{
	uint64_t id = (word >> 3) & IP_TIME_MASK;

	return id > IP_ID_PAYLOAD_BASE && id < IP_ID_PAYLOAD_BASE + IP_ID_EXTENDED;
}

static inline uint32_t shift_number(const struct ip_stream_renumber *shift, uint32_t number)
{
	return shift->base + (number <= shift->most ? number : shift->most + 1);
}

/* Shifts the signature in the word that describes the values. */
static uint64_t shift_signature(const struct ip_stream_renumber *shift, uint64_t word)
{
	uint32_t number = IP_PAYLOAD_SIGNATURE(word);

	if (!number)
		return word;
	number = shift->signature_base +
		 (number <= shift->signature_most ? number : shift->signature_most + 1);
	return (word & ~IP_PAYLOAD_WORD(0, 0, 0x7fffffff)) | IP_PAYLOAD_WORD(0, 0, number);
}

/* Keeps the n words at w for the caller of ip_stream_payloads(). Returns 0, or -1 where memory
 * ran out. */
static int keep_payload(struct ip_stream *s, const uint64_t *w, size_t n, struct ip_event *ret)
{
	if (s->npayloads + n > s->payloads_size) {
		size_t size = 2 * (s->npayloads + n);
		uint64_t *grown = reallocarray(s->payloads, size, sizeof(*grown));

		if (!grown)
			return ip_error("out of memory");
		s->payloads = grown;
		s->payloads_size = size;
	}
	memcpy(s->payloads + s->npayloads, w, n * WORD);
	s->payloads[s->npayloads] = shift_signature(&s->shift, w[0]);
	ret->payload = s->npayloads + 1;
	s->npayloads += n;
	return 0;
}

const uint64_t *ip_stream_payloads(const struct ip_stream *s)
{
	return s->payloads;
}

/* Decodes the extended record at w, or the head of a payload record. Returns what is wrong with
 * it, or NULL. The time must lie within the packet's bounds, give or take one period of the
 * compact clock: a wrong time would make all later times wrong. */
static const char *decode_extended(struct ip_stream *s, const uint64_t *w, struct ip_event *ret)
{
	uint64_t id = (w[0] >> 3) & IP_TIME_MASK, ts = w[0] >> 32 | w[1] << 32;
	uint64_t slack = IP_TIME_MASK;

	if (has_payload(w[0]))
		id -= IP_ID_PAYLOAD_BASE - IP_ID_EXT_BASE;
	if (id < IP_ID_EXT_BASE + 1 || id >= IP_ID_EXT_BASE + IP_ID_EXTENDED)
		return "record of an unknown kind";
	if ((ts < s->begin && s->begin - ts > slack) || (ts > s->end && ts - s->end > slack))
		return "record with an impossible time";
	ret->ts = s->ts = ts;
	ret->sp = s->sp = w[2] & ~((1ull << IP_SP_SHIFT) - 1);
	ret->number = shift_number(&s->shift, (w[1] >> 32) & IP_NUMBER_MAX);
	ret->kind = id - IP_ID_EXT_BASE;
	ret->payload = 0;
	return (w[1] >> 32) & IP_NUMBER_MAX ? NULL : "record without a probe number";
}

ssize_t ip_stream_read(struct ip_stream *s, struct ip_event *events, size_t max)
{
	const struct ip_stream_renumber shift = s->shift;
	size_t n = 0;

	s->npayloads = 0;
	if (max > BATCH_MAX)
		max = BATCH_MAX;
	while (n < max && s->left) {
		const uint64_t *w, *end;
		uint64_t ts = s->ts, sp = s->sp;
		const char *problem = NULL;

		if (s->filled == s->at && refill(s) < 0)
			return -1;
		if (!s->left)
			break;
		w = s->buffer + s->at;
		end = s->buffer + s->filled;

		/* The tight loop: compact records after a record that is known. */
		if (s->known) {
			while (n < max && w < end) {
				uint64_t word = *w;
				uint32_t kind = word & 7, number = (word >> 32) & IP_NUMBER_MAX;

				if (kind == IP_ID_EXTENDED || kind == 0 || number == 0)
					break;
				ts = (ts & ~IP_TIME_MASK) | ((word >> 3) & IP_TIME_MASK);
				/* the signed 11-bit difference to the sp before, in units of 8 */
				sp += (int64_t)(((word >> 53) - (sp >> IP_SP_SHIFT)) << 53) >>
				      (53 - IP_SP_SHIFT);
				events[n++] = (struct ip_event){
					ts, sp, shift_number(&shift, number), kind, 0};
				w++;
			}
			s->left -= (w - s->buffer - s->at) * WORD;
			s->at = w - s->buffer;
			s->ts = ts;
			s->sp = sp;
			if (n == max || w == end)
				continue;
		}

		if ((*w & 7) == IP_ID_EXTENDED) {
			size_t words = has_payload(*w) ? IP_PAYLOAD_HEAD : IP_EXT_WORDS;

			if ((size_t)(end - w) >= words && words == IP_PAYLOAD_HEAD)
				words += IP_PAYLOAD_N(w[IP_PAYLOAD_HEAD - 1]);
			if (words > IP_PAYLOAD_HEAD + IP_PAYLOAD_MAX) {
				problem = "record with too many values";
			} else if ((size_t)(end - w) < words &&
				   s->left > (size_t)(end - w) * WORD) {
				if (refill(s) < 0)
					return -1;
				continue; /* the rest of the record was not in the buffer yet */
			} else if ((size_t)(end - w) < words) {
				problem = "record that is cut off";
			} else {
				problem = decode_extended(s, w, &events[n]);
			}
			if (problem) {
				bad_record(s, s->at, problem);
				break;
			}
			if (words > IP_EXT_WORDS &&
			    keep_payload(s, w + IP_EXT_WORDS, words - IP_EXT_WORDS, &events[n]) < 0)
				return -1;
			n++;
			s->known = true;
			s->at += words;
			s->left -= words * WORD;
		} else if (s->known) {
			bad_record(s, s->at, "record of an unknown kind");
		} else {
			damaged(s, offset_of(s, s->at), "record that needs one which is missing");
			s->at++;
			s->left -= WORD;
		}
	}
	return n;
}

int ip_stream_words(struct ip_stream *s, struct ip_stream_words *ret)
{
	if (!s->known || !s->left)
		return 0;
	if (s->filled == s->at && refill(s) < 0)
		return -1;
	/* words that cannot be unpacked end the packet */
	if (!s->left)
		return 0;
	*ret = (struct ip_stream_words){.words = s->buffer + s->at,
					.n = s->filled - s->at,
					.ts = s->ts,
					.sp = s->sp,
					.shift = &s->shift};
	return 1;
}

void ip_stream_pass(struct ip_stream *s, size_t n, uint64_t ts, uint64_t sp)
{
	s->at += n;
	s->left -= n * WORD;
	s->ts = ts;
	s->sp = sp;
}
