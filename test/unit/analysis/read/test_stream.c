/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding of records, bit by bit, and what is done about damaged packets.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analysis/read/stream.h"
#include "common/elf/probe_list.h"
#include "common/trace/trace_format.h"
#include "test/unit/test.h"

#define T0 0x123456789000ull
#define SP 0x7ffd12345670ull

/* A stream file in the making. */
struct file {
	uint8_t bytes[1 << 17];
	size_t size;
	uint64_t packets;
	struct ip_packet_header *header; /* of the last packet */
};

static void packet(struct file *f, uint64_t lost, uint32_t tid)
{
	f->header = (void *)(f->bytes + f->size);
	*f->header = (struct ip_packet_header){.magic = IP_CTF_MAGIC,
					       .timestamp_begin = T0,
					       .timestamp_end = T0 + (1ull << 40),
					       .packet_seq_num = f->packets++,
					       .events_discarded = lost,
					       .content_size = 8 * sizeof(*f->header),
					       .packet_size = 8 * sizeof(*f->header),
					       .pid = 1,
					       .tid = tid};
	f->size += sizeof(*f->header);
}

static void word(struct file *f, uint64_t w)
{
	memcpy(f->bytes + f->size, &w, sizeof(w));
	f->size += sizeof(w);
	f->header->content_size += 64;
	f->header->packet_size += 64;
}

static uint64_t payload(uint32_t number, uint64_t sp)
{
	return number | ((sp >> IP_SP_SHIFT) & 2047) << IP_NUMBER_BITS;
}

static void compact(struct file *f, uint32_t kind, uint64_t ts, uint32_t number, uint64_t sp)
{
	word(f, kind | (ts & IP_TIME_MASK) << 3 | payload(number, sp) << 32);
}

static void extended(struct file *f, uint32_t kind, uint64_t ts, uint32_t number, uint64_t sp)
{
	word(f, IP_ID_EXTENDED | (uint64_t)(kind + IP_ID_EXT_BASE) << 3 | ts << 32);
	word(f, ts >> 32 | payload(number, sp) << 32);
	word(f, sp);
}

static void with_values(struct file *f, uint32_t kind, uint64_t ts, uint32_t number, uint64_t sp,
			uint32_t n)
{
	extended(f, kind + IP_ID_PAYLOAD_BASE - IP_ID_EXT_BASE, ts, number, sp);
	word(f, IP_PAYLOAD_WORD(n, 5, 77));
	for (uint32_t i = 0; i < n; i++)
		word(f, ts + i);
}

static struct ip_stream *open_file(const struct file *f, int *ret_fd)
{
	struct ip_stream *stream = NULL;
	char path[64];

	*ret_fd = memfd_create("stream", MFD_CLOEXEC);
	assert_int_equal(write(*ret_fd, f->bytes, f->size), f->size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", *ret_fd);
	if (ip_stream_open(path, &stream) < 0)
		assert_null(stream);
	return stream;
}

/* Reads all, step events at a time. Returns the number of events. */
static size_t read_all(const struct file *f, struct ip_event *events, size_t max, size_t step,
		       bool *ret_damaged)
{
	int fd;
	struct ip_stream *stream = open_file(f, &fd);
	struct ip_packet p;
	size_t n = 0;

	assert_non_null(stream);
	while (ip_stream_next_packet(stream, &p) == 1) {
		ssize_t got;

		while ((got = ip_stream_read(stream, events + n, step < max - n ? step : max - n)) >
		       0)
			n += got;
		assert_int_equal(got, 0);
	}
	*ret_damaged = ip_stream_damage(stream);
	ip_stream_close(stream);
	close(fd);
	return n;
}

static struct file file;

static struct file *new_file(void)
{
	memset(&file, 0, sizeof(file));
	return &file;
}

static void test_records(void **state)
{
	static const int64_t moves[] = {-16,   16,   0,	   -8,	 8,	-8192, 8184,
					-8000, 8000, 8184, 8184, -8192, -8192};
	struct ip_event events[64];
	struct file *f = new_file();
	uint64_t sp = SP, ts = T0 | (IP_TIME_MASK - 20);
	bool damaged;

	(void)state;
	packet(f, 0, 1);
	extended(f, IP_PROBE_ENTRY, ts, IP_NUMBER_MAX, sp);
	for (size_t i = 0; i < N_ELEMENTS(moves); i++)
		compact(f, 1 + i % 6, ts + 1 + i, 1 + i, sp += moves[i]);
	extended(f, IP_PROBE_EXIT, ts + 1000, 5, 0x5555);
	for (size_t step = 1; step < 16; step++) {
		sp = SP;
		assert_int_equal(read_all(f, events, 64, step, &damaged), N_ELEMENTS(moves) + 2);
		assert_false(damaged);
		assert_true(events[0].ts == ts && events[0].sp == sp &&
			    events[0].number == IP_NUMBER_MAX && events[0].kind == IP_PROBE_ENTRY);
		for (size_t i = 0; i < N_ELEMENTS(moves); i++) {
			const struct ip_event *e = &events[1 + i];

			sp += moves[i];
			assert_true(e->ts == ts + 1 + i && e->sp == sp && e->number == 1 + i &&
				    e->kind == 1 + i % 6);
		}
		assert_int_equal(events[N_ELEMENTS(moves) + 1].sp, 0x5550);
		assert_int_equal(events[N_ELEMENTS(moves) + 1].ts, ts + 1000);
	}
}

/* The chain goes on into the thread's next packet, not into another thread's. */
/* Records with values, of every length, across the reader's buffer; between them compact ones that
 * count on them. */
static void test_payloads(void **state)
{
	struct file *f = new_file();
	uint64_t ts = T0, n = 0;
	struct ip_event events[16];
	struct ip_stream *stream;
	struct ip_packet p;
	ssize_t got;
	int fd;

	(void)state;
	packet(f, 0, 1);
	for (uint32_t i = 0; i < 140; i++) {
		with_values(f, IP_PROBE_ENTRY, ts + 2 * i, 9, SP, i);
		compact(f, IP_PROBE_EXIT, ts + 2 * i + 1, 9, SP);
	}
	with_values(f, IP_PROBE_POINT, ts + 280, 9, SP, IP_PAYLOAD_MAX);
	stream = open_file(f, &fd);
	assert_int_equal(ip_stream_next_packet(stream, &p), 1);
	while ((got = ip_stream_read(stream, events, 16)) > 0) {
		for (ssize_t i = 0; i < got; i++, n++) {
			const uint64_t *payload =
				ip_event_payload(&events[i], ip_stream_payloads(stream));
			uint32_t words = n == 280 ? IP_PAYLOAD_MAX : n / 2;

			assert_int_equal(events[i].ts, ts + n);
			assert_int_equal(events[i].sp, SP);
			assert_int_equal(events[i].number, 9);
			assert_int_equal(events[i].kind, n == 280 ? IP_PROBE_POINT
							 : n % 2  ? IP_PROBE_EXIT
								  : IP_PROBE_ENTRY);
			if (n % 2) {
				assert_null(payload);
				continue;
			}
			assert_int_equal(IP_PAYLOAD_N(*payload), words);
			assert_int_equal(IP_PAYLOAD_MISSING(*payload), 5);
			assert_int_equal(IP_PAYLOAD_SIGNATURE(*payload), 77);
			for (uint32_t k = 0; k < words; k++)
				assert_int_equal(payload[1 + k], events[i].ts + k);
		}
	}
	assert_int_equal(got, 0);
	assert_int_equal(n, 281);
	assert_null(ip_stream_damage(stream));
	ip_stream_close(stream);
	close(fd);
}

static void test_bad_payloads(void **state)
{
	struct ip_event events[8];
	bool damaged;

	(void)state;
	for (uint32_t n = 3; n <= IP_PAYLOAD_MAX + 1; n += IP_PAYLOAD_MAX - 2) {
		struct file *f = new_file();

		packet(f, 0, 1);
		extended(f, IP_PROBE_ENTRY, T0, 1, SP);
		extended(f, IP_PROBE_ENTRY + IP_ID_PAYLOAD_BASE - IP_ID_EXT_BASE, T0 + 1, 1, SP);
		word(f, IP_PAYLOAD_WORD(n, 0, 1));
		for (uint32_t i = n == 3 ? 1 : 0; i < n; i++)
			word(f, 1);
		assert_int_equal(read_all(f, events, 8, 8, &damaged), 1);
		assert_true(damaged);
	}
	for (uint32_t missing = 1; missing < 4; missing++) { /* cut off in its head */
		struct file *f = new_file();

		packet(f, 0, 1);
		with_values(f, IP_PROBE_ENTRY, T0, 1, SP, 0);
		f->size -= missing * 8;
		f->header->content_size = f->header->packet_size -= missing * 64;
		assert_int_equal(read_all(f, events, 8, 8, &damaged), 0);
		assert_true(damaged);
	}
}

static void test_chain_of_packets(void **state)
{
	struct ip_event events[64];
	struct file *f = new_file();
	bool damaged;

	(void)state;
	packet(f, 0, 1);
	extended(f, IP_PROBE_ENTRY, T0, 1, SP);
	packet(f, 3, 1);
	compact(f, IP_PROBE_EXIT, T0 + 5, 1, SP - 8);
	assert_int_equal(read_all(f, events, 64, 64, &damaged), 2);
	assert_false(damaged);
	assert_int_equal(events[1].sp, SP - 8);
	packet(f, 3, 2);
	compact(f, IP_PROBE_EXIT, T0 + 6, 1, SP);
	extended(f, IP_PROBE_ENTRY, T0 + 7, 1, SP);
	assert_int_equal(read_all(f, events, 64, 64, &damaged), 3);
	assert_true(damaged);
	assert_int_equal(events[2].ts, T0 + 7);
}

static void test_packets_tell_losses(void **state)
{
	struct file *f = new_file();
	struct ip_packet p;
	struct ip_stream *stream;
	int fd;

	(void)state;
	packet(f, 2, 1);
	packet(f, 2, 1);
	packet(f, 9, 1);
	f->packets += 4;
	packet(f, 9, 2);
	stream = open_file(f, &fd);
	assert_int_equal(ip_stream_next_packet(stream, &p), 1);
	assert_int_equal(p.lost, 2);
	assert_int_equal(ip_stream_next_packet(stream, &p), 1);
	assert_int_equal(p.lost, 0);
	assert_int_equal(ip_stream_next_packet(stream, &p), 1);
	assert_int_equal(p.lost, 7);
	assert_int_equal(ip_stream_next_packet(stream, &p), 1);
	assert_int_equal(p.missing, 4);
	assert_int_equal(p.tid, 2);
	assert_int_equal(ip_stream_next_packet(stream, &p), 0);
	assert_null(ip_stream_damage(stream));
	ip_stream_close(stream);
	close(fd);
}

/* What a damaged packet held behind the damage is missing in front of the next one. */
static void test_damage_is_a_loss(void **state)
{
	struct file *f = new_file();
	struct ip_event events[8];
	struct ip_packet p;
	struct ip_stream *stream;
	int fd;

	(void)state;
	for (int i = 0; i < 3; i++) {
		packet(f, 0, 1);
		extended(f, IP_PROBE_ENTRY, T0 + 10 * i, 1, SP);
		if (i == 0)
			word(f, 0);
	}
	stream = open_file(f, &fd);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ip_stream_next_packet(stream, &p), 1);
		assert_int_equal(p.missing, i == 1);
		assert_int_equal(ip_stream_read(stream, events, 8), 1);
		assert_int_equal(ip_stream_read(stream, events, 8), 0);
	}
	assert_non_null(ip_stream_damage(stream));
	ip_stream_close(stream);
	close(fd);
}

/* More than the reader's buffer, read in odd portions. */
static void test_large_packet(void **state)
{
	static struct ip_event events[15000];
	struct file *f = new_file();
	bool damaged;

	(void)state;
	packet(f, 0, 1);
	for (unsigned i = 0; i < 12000; i++) {
		if (i % 100 == 0)
			extended(f, IP_PROBE_ENTRY, T0 + i, 1 + i, SP);
		else
			compact(f, IP_PROBE_ENTRY, T0 + i, 1 + i, SP);
	}
	for (size_t step = 1; step < 3000; step = step * 7 + 1) {
		assert_int_equal(read_all(f, events, 15000, step, &damaged), 12000);
		assert_false(damaged);
		for (unsigned i = 0; i < 12000; i++)
			assert_true(events[i].number == 1 + i && events[i].ts == T0 + i &&
				    events[i].sp == SP);
	}
}

/* Each is read up to where it is good. */
static void test_damage(void **state)
{
	struct ip_event events[64];
	bool damaged;

	(void)state;
	for (int what = 0; what < 8; what++) {
		struct file *f = new_file();
		size_t good = 4;

		packet(f, 0, 1);
		extended(f, IP_PROBE_ENTRY, T0, 1, SP);
		compact(f, IP_PROBE_EXIT, T0 + 1, 1, SP);
		packet(f, 0, 1);
		compact(f, IP_PROBE_ENTRY, T0 + 2, 1, SP);
		compact(f, IP_PROBE_EXIT, T0 + 3, 1, SP);
		switch (what) {
		case 0: /* half a record is missing */
			f->size -= 4;
			good = 3;
			break;
		case 1: /* half a header */
			f->size -= 16 + 40;
			good = 2;
			break;
		case 2:
			f->header->magic++;
			good = 2;
			break;
		case 3:
			f->header->uuid[3]++;
			good = 2;
			break;
		case 4:
			f->header->packet_size = f->header->content_size = 8;
			good = 2;
			break;
		case 5: /* no probe number */
			word(f, IP_PROBE_ENTRY);
			compact(f, IP_PROBE_EXIT, T0 + 3, 1, SP);
			break;
		case 6: /* an extended record that has no room */
			word(f, IP_ID_EXTENDED | (uint64_t)(IP_ID_EXT_BASE + 1) << 3);
			break;
		default: /* a time from another day */
			extended(f, IP_PROBE_ENTRY, T0 << 4, 1, SP);
		}
		assert_int_equal(read_all(f, events, 64, 64, &damaged), good);
		assert_true(damaged);
	}
}

static void test_no_stream(void **state)
{
	struct file *f = new_file();
	bool damaged;
	int fd;

	(void)state;
	assert_int_equal(read_all(f, NULL, 0, 0, &damaged), 0);
	assert_false(damaged);
	packet(f, 0, 1);
	f->header->timestamp_end = 1;
	assert_null(open_file(f, &fd));
	assert_error("packet that ends before it begins");
	close(fd);
	memset(f->bytes, 'x', 200);
	f->size = 200;
	assert_null(open_file(f, &fd));
	assert_error("not a stream of iprobe");
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_records),
		cmocka_unit_test(test_payloads),
		cmocka_unit_test(test_bad_payloads),
		cmocka_unit_test(test_chain_of_packets),
		cmocka_unit_test(test_packets_tell_losses),
		cmocka_unit_test(test_damage_is_a_loss),
		cmocka_unit_test(test_large_packet),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_no_stream),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
