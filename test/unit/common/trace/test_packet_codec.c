/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets made small and back: any words survive, damage is noticed.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/trace/packet_codec.h"
#include "test/unit/test.h"

#define MOST 4096

static uint64_t words[MOST], back[MOST];

static struct ip_packet_header header_for(size_t n)
{
	return (struct ip_packet_header){.magic = IP_CTF_MAGIC,
					 .content_size = 8 * (80 + 8 * n),
					 .packet_size = 8 * (80 + 8 * n),
					 .timestamp_begin = 5,
					 .tid = 7};
}

/* Squeezes the first n words and compares what comes back; the size on disk. */
static size_t there_and_back(struct ip_packet_codec *s, size_t n, bool plain)
{
	struct ip_packet_header header = header_for(n);
	uint8_t *out = malloc(ip_encoded_packet_room(n));
	struct ip_encoded_packet_header head;
	size_t size;

	assert_non_null(out);
	size = plain ? ip_packet_encode_plain(&header, words, n, out)
		     : ip_packet_encode(s, &header, words, n, out);
	assert_true(size <= ip_encoded_packet_room(n));
	memcpy(&head, out, sizeof(head));
	assert_int_equal(head.magic, IP_ENCODED_PACKET_MAGIC);
	assert_memory_equal(&head.header, &header, sizeof(header));
	assert_int_equal(size, sizeof(head) + head.bytes);
	assert_int_equal(head.skip,
			 IP_ENCODED_PACKET_SKIP +
				 (head.form == IP_ENCODED_PACKET_PLAIN ? head.bytes : 0));
	memset(back, 0xaa, sizeof(back));
	assert_int_equal(ip_packet_decode(s, &head, out + sizeof(head), back, n), 0);
	assert_memory_equal(back, words, n * sizeof(*words));
	free(out);
	return size;
}

static void test_any_words(void **state)
{
	struct ip_packet_codec *s = ip_packet_codec_create();

	srandom(1);
	for (size_t n = 0; n < MOST; n = 2 * n + 1)
		for (int kind = 0; kind < 3; kind++) {
			for (size_t i = 0; i < n; i++)
				words[i] = kind == 0 ? 0
					   : kind == 1
						   ? ~0ull >> (i % 64)
						   : (uint64_t)random() << 33 ^
							     (uint64_t)random() << 11 ^ random();
			there_and_back(s, n, false);
			there_and_back(s, n, true);
		}
	ip_packet_codec_destroy(s);
}

static void fill_with_calls(size_t n)
{
	uint64_t time = 0x123456789;

	for (size_t i = 0; i < n; i++) {
		time += 40 + random() % 16;
		words[i] = (1 + i % 2) | (time & IP_TIME_MASK) << 3 | (7 + i / 2 % 5) << 32 |
			   (i % 4) << 53;
	}
}

/* Calls in a loop, whose durations vary: one byte of eight is not known beforehand. */
static void test_calls_become_small(void **state)
{
	struct ip_packet_codec *s = ip_packet_codec_create();

	fill_with_calls(4095);
	assert_true(there_and_back(s, 4095, false) < 4095 * 2);
	ip_packet_codec_destroy(s);
}

static void test_damage_is_noticed(void **state)
{
	struct ip_packet_codec *s = ip_packet_codec_create();
	struct ip_packet_header header = header_for(1000);
	uint8_t *out = malloc(ip_encoded_packet_room(1000));
	struct ip_encoded_packet_header head;
	unsigned unnoticed = 0;

	fill_with_calls(1000);
	ip_packet_encode(s, &header, words, 1000, out);
	memcpy(&head, out, sizeof(head));
	assert_int_equal(head.form, IP_ENCODED_PACKET_COLUMNS);
	for (size_t i = 0; i < head.bytes; i++) {
		out[sizeof(head) + i] ^= 0x10;
		if (ip_packet_decode(s, &head, out + sizeof(head), back, 1000) ==
		    0) { /* a few bits of a frame mean nothing */
			assert_memory_equal(back, words, 1000 * sizeof(*words));
			unnoticed++;
		}
		out[sizeof(head) + i] ^= 0x10;
	}
	assert_true(unnoticed < 8);
	/* neither more nor fewer words than there are, nor a part of the frame, nor a form that
	 * nobody knows */
	assert_int_equal(ip_packet_decode(s, &head, out + sizeof(head), back, 999), -1);
	assert_int_equal(ip_packet_decode(s, &head, out + sizeof(head), back, 1001), -1);
	head.bytes--;
	assert_int_equal(ip_packet_decode(s, &head, out + sizeof(head), back, 1000), -1);
	head.bytes++;
	head.form = 9;
	assert_int_equal(ip_packet_decode(s, &head, out + sizeof(head), back, 1000), -1);
	free(out);
	ip_packet_codec_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_words),
		cmocka_unit_test(test_calls_become_small),
		cmocka_unit_test(test_damage_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
