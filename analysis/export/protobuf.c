/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/export/protobuf.h"

#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX 10 /* the most bytes of a variable-length number */

enum { WIRE_NUMBER = 0, WIRE_BYTES = 2 };

void ip_message_deinit(struct ip_message *m)
{
	free(m->bytes);
	*m = (struct ip_message){0};
}

void ip_message_reset(struct ip_message *m)
{
	m->n = 0;
	m->failed = false;
}

static bool make_room(struct ip_message *m, size_t more)
{
	size_t room = m->room ? m->room : 64;
	uint8_t *bytes;

	if (m->failed)
		return false;
	if (m->room - m->n >= more)
		return true;
	while (room - m->n < more)
		room *= 2;
	bytes = realloc(m->bytes, room);
	if (!bytes) {
		m->failed = true;
		return false;
	}
	m->bytes = bytes;
	m->room = room;
	return true;
}

static void put(struct ip_message *m, uint64_t n)
{
	for (; n > 127; n >>= 7)
		m->bytes[m->n++] = (n & 127) | 128;
	m->bytes[m->n++] = n;
}

void ip_message_element(struct ip_message *m, uint64_t n)
{
	if (make_room(m, NUMBER_MAX))
		put(m, n);
}

void ip_message_number(struct ip_message *m, unsigned field, uint64_t n)
{
	if (!make_room(m, 2 * NUMBER_MAX))
		return;
	put(m, (uint64_t)field << 3 | WIRE_NUMBER);
	put(m, n);
}

void ip_message_bytes(struct ip_message *m, unsigned field, const void *bytes, size_t n)
{
	if (!make_room(m, 2 * NUMBER_MAX + n))
		return;
	put(m, (uint64_t)field << 3 | WIRE_BYTES);
	put(m, n);
	if (n)
		memcpy(m->bytes + m->n, bytes, n);
	m->n += n;
}

void ip_message_string(struct ip_message *m, unsigned field, const char *text)
{
	ip_message_bytes(m, field, text, strlen(text));
}

void ip_message_message(struct ip_message *m, unsigned field, const struct ip_message *inner)
{
	m->failed |= inner->failed;
	ip_message_bytes(m, field, inner->bytes, inner->n);
}
