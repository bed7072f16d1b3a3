/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The press: what goes in comes out once, in order, whoever compressed it, or nobody.
 */
#include <stdlib.h>
#include <string.h>

#include "collector/compressor.h"
#include "common/abi/ring.h"
#include "common/trace/packet_codec.h"
#include "test/unit/test.h"

#define LIMIT	5
#define PACKETS 3000

static uint64_t words[IP_SUBBUF_WORDS], back[IP_SUBBUF_WORDS];
static uint64_t columns, plain;

static size_t fill(uint64_t number)
{
	size_t n = number * 37 % 4095;

	for (size_t i = 0; i < n; i++)
		words[i] = number + (i & 3) + (i << 5);
	return n;
}

static void submit(struct ip_compressor *p, uint64_t number)
{
	size_t n = fill(number);
	struct ip_packet_header header = {.packet_seq_num = number,
					  .content_size = 8 * (80 + 8 * n),
					  .packet_size = 8 * (80 + 8 * n)};
	struct ip_compressor_packet note = {.slot = number % 7,
					    .subbuf = number % 11,
					    .events = n,
					    .next = {.next_ordinal = number}};

	ip_compressor_submit(p, &header, words, n, &note);
}

static void check(struct ip_packet_codec *s, uint64_t number,
		  const struct ip_compressor_packet *note, const void *bytes, size_t size)
{
	struct ip_encoded_packet_header head;
	size_t n = fill(number);

	memcpy(&head, bytes, sizeof(head));
	assert_int_equal(note->next.next_ordinal, number);
	assert_int_equal(note->subbuf, number % 11);
	assert_int_equal(note->events, n);
	assert_int_equal(head.header.packet_seq_num, number);
	assert_int_equal(size, sizeof(head) + head.bytes);
	assert_int_equal(ip_packet_decode(s, &head, (const uint8_t *)bytes + sizeof(head), back, n),
			 0);
	assert_memory_equal(back, words, n * sizeof(*words));
	columns += head.form == IP_ENCODED_PACKET_COLUMNS;
	plain += head.form == IP_ENCODED_PACKET_PLAIN && n > 1000;
}

static void test_order(void **state)
{
	struct ip_compressor *p = ip_compressor_create(LIMIT, 0);
	struct ip_packet_codec *s = ip_packet_codec_create();
	uint64_t in = 0, out = 0;

	assert_non_null(p);
	srandom(2);
	columns = plain = 0;
	while (out < PACKETS) {
		enum ip_compressor_how how = random() % 3;
		const struct ip_compressor_packet *note;
		const void *bytes;
		size_t size;

		assert_int_equal(ip_compressor_is_empty(p), in == out);
		assert_int_equal(ip_compressor_is_full(p), in - out == LIMIT);
		if (in < PACKETS && !ip_compressor_is_full(p) && random() % 3) {
			submit(p, in++);
		} else if (ip_compressor_take(p, how, &note, &bytes, &size)) {
			check(s, out++, note, bytes, size);
		} else {
			assert_true(in == out || how == IP_COMPRESSOR_READY);
		}
	}
	assert_true(columns > 0);
	assert_true(plain <= ip_compressor_plain(p)); /* short ones do not get smaller */
	/* what is on its way when it ends is given up */
	for (int i = 0; i < LIMIT; i++)
		submit(p, i);
	ip_compressor_destroy(p);
	ip_packet_codec_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_order)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
