/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC-32C by tables, eight bytes at a time.
 */
#include "common/trace/checksum.h"

#include <pthread.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78u /* of CRC-32C, the lowest bit first */

static uint32_t tables[8][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_tables(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t sum = i;

		for (int bit = 0; bit < 8; bit++)
			sum = sum & 1 ? sum >> 1 ^ POLYNOMIAL : sum >> 1;
		tables[0][i] = sum;
	}
	for (int t = 1; t < 8; t++)
		for (uint32_t i = 0; i < 256; i++)
			tables[t][i] = tables[t - 1][i] >> 8 ^ tables[0][tables[t - 1][i] & 0xff];
}

uint32_t ip_checksum(uint32_t sum, const void *data, size_t size)
{
	const uint8_t *bytes = data;

	pthread_once(&once, make_tables);
	sum = ~sum;
	for (; size >= 8; bytes += 8, size -= 8) {
		uint64_t word;

		memcpy(&word, bytes, sizeof(word));
		word ^= sum;
		sum = 0;
		for (int i = 0; i < 8; i++)
			sum ^= tables[7 - i][word >> 8 * i & 0xff];
	}
	for (; size; bytes++, size--)
		sum = sum >> 8 ^ tables[0][(sum ^ *bytes) & 0xff];
	return ~sum;
}
