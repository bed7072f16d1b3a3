/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns, and their compression by zstd.
 */
#include "common/trace/packet_codec.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "common/error.h"

#define LEVEL	 3
#define COLUMNS	 8u
#define SP_SHIFT (IP_NUMBER_BITS + 32)

struct ip_packet_codec {
	ZSTD_CCtx *out;
	ZSTD_DCtx *in;
	uint8_t *columns;
	size_t room; /* in words */
};

struct ip_packet_codec *ip_packet_codec_create(void)
{
	struct ip_packet_codec *s = calloc(1, sizeof(*s));

	if (s) {
		s->out = ZSTD_createCCtx();
		s->in = ZSTD_createDCtx();
	}
	if (!s || !s->out || !s->in) {
		ip_packet_codec_destroy(s);
		ip_error("out of memory");
		return NULL;
	}
	ZSTD_CCtx_setParameter(s->out, ZSTD_c_compressionLevel, LEVEL);
	ZSTD_CCtx_setParameter(s->out, ZSTD_c_checksumFlag, 1);
	return s;
}

void ip_packet_codec_destroy(struct ip_packet_codec *s)
{
	if (!s)
		return;
	ZSTD_freeCCtx(s->out);
	ZSTD_freeDCtx(s->in);
	free(s->columns);
	free(s);
}

size_t ip_encoded_packet_room(size_t n)
{
	return sizeof(struct ip_encoded_packet_header) + ZSTD_compressBound(n * sizeof(uint64_t));
}

static bool make_room(struct ip_packet_codec *s, size_t n)
{
	uint8_t *columns;

	if (n <= s->room)
		return true;
	columns = realloc(s->columns, n * COLUMNS);
	if (!columns)
		return false;
	s->columns = columns;
	s->room = n;
	return true;
}

static void to_columns(const uint64_t *words, size_t n, uint8_t *columns)
{
	uint32_t time_before = 0, sp_before = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t w = words[i];
		uint32_t time = w >> 3 & IP_TIME_MASK, sp = w >> SP_SHIFT;
		uint32_t low = (uint32_t)w << IP_TIME_BITS | ((time - time_before) & IP_TIME_MASK);
		uint32_t high = (sp - sp_before) << IP_NUMBER_BITS | (w >> 32 & IP_NUMBER_MAX);

		time_before = time;
		sp_before = sp;
		columns[i] = low;
		columns[n + i] = low >> 8;
		columns[2 * n + i] = low >> 16;
		columns[3 * n + i] = low >> 24;
		columns[4 * n + i] = high;
		columns[5 * n + i] = high >> 8;
		columns[6 * n + i] = high >> 16;
		columns[7 * n + i] = high >> 24;
	}
}

static void from_columns(const uint8_t *columns, size_t n, uint64_t *words)
{
	uint32_t time = 0, sp = 0;

	for (size_t i = 0; i < n; i++) {
		uint32_t low = columns[i] | columns[n + i] << 8 | columns[2 * n + i] << 16 |
			       (uint32_t)columns[3 * n + i] << 24;
		uint32_t high = columns[4 * n + i] | columns[5 * n + i] << 8 |
				columns[6 * n + i] << 16 | (uint32_t)columns[7 * n + i] << 24;

		time = (time + low) & IP_TIME_MASK;
		sp += high >> IP_NUMBER_BITS;
		words[i] = low >> IP_TIME_BITS | (uint64_t)time << 3 |
			   (uint64_t)(high & IP_NUMBER_MAX) << 32 | (uint64_t)sp << SP_SHIFT;
	}
}

static void put_head(const struct ip_packet_header *header, enum ip_encoded_packet_form form,
		     size_t bytes, void *out)
{
	const struct ip_encoded_packet_header head = {
		.magic = IP_ENCODED_PACKET_MAGIC,
		.skip = IP_ENCODED_PACKET_SKIP + (form == IP_ENCODED_PACKET_PLAIN ? bytes : 0),
		.header = *header,
		.form = form,
		.bytes = bytes};

	memcpy(out, &head, sizeof(head));
}

size_t ip_packet_encode_plain(const struct ip_packet_header *header, const uint64_t *words,
			      size_t n, void *out)
{
	put_head(header, IP_ENCODED_PACKET_PLAIN, n * sizeof(*words), out);
	memcpy((uint8_t *)out + sizeof(struct ip_encoded_packet_header), words, n * sizeof(*words));
	return sizeof(struct ip_encoded_packet_header) + n * sizeof(*words);
}

size_t ip_packet_encode(struct ip_packet_codec *s, const struct ip_packet_header *header,
			const uint64_t *words, size_t n, void *out)
{
	uint8_t *frame = (uint8_t *)out + sizeof(struct ip_encoded_packet_header);
	size_t size;

	if (!n || !make_room(s, n))
		return ip_packet_encode_plain(header, words, n, out);
	to_columns(words, n, s->columns);
	size = ZSTD_compress2(s->out, frame, ZSTD_compressBound(n * COLUMNS), s->columns,
			      n * COLUMNS);
	if (ZSTD_isError(size) || size >= n * COLUMNS)
		return ip_packet_encode_plain(header, words, n, out);
	put_head(header, IP_ENCODED_PACKET_COLUMNS, size, out);
	return sizeof(struct ip_encoded_packet_header) + size;
}

int ip_packet_decode(struct ip_packet_codec *s, const struct ip_encoded_packet_header *head,
		     const void *bytes, uint64_t *words, size_t n)
{
	if (head->form == IP_ENCODED_PACKET_PLAIN) {
		if (head->bytes != n * sizeof(*words))
			return -1;
		memcpy(words, bytes, head->bytes);
		return 0;
	}
	if (head->form != IP_ENCODED_PACKET_COLUMNS || !make_room(s, n) ||
	    ZSTD_decompressDCtx(s->in, s->columns, n * COLUMNS, bytes, head->bytes) != n * COLUMNS)
		return -1;
	from_columns(s->columns, n, words);
	return 0;
}
