/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packets of one stream of events of the kernel, in the order of its files.
 *
 * The files are input from outside. A packet is checked before it is handed out: its header fits
 * the packet before, and its events are whole, of a known kind and in the order of their times, up
 * to `sound`. A stream ends at the first thing in it that is not so.
 */
#ifndef IP_KERNEL_PACKETS_H
#define IP_KERNEL_PACKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/trace/kernel_format.h"

struct ip_kernel_packets;

struct ip_kernel_packet {
	uint8_t *bytes; /* header and events. NULL: there has been no packet yet */
	uint32_t size;
	uint32_t
		sound; /* where its events end that can be read: damage says why that is not size */
	uint32_t cpu;
	bool gap;	      /* it tells of one before it */
	uint64_t end;	      /* TSC: no event of it is newer */
	uint64_t lost, since; /* so many events were lost before it, since when */
	uint64_t known; /* since when the stream's events are there, where older ones are gone; 0 */
	char *damage;	/* what is wrong behind what is sound, or in the place of a packet; NULL */
};

/* Makes a stream without files. dir: a descriptor that stays the caller's, and stays open; path:
 * the directory's, for messages, which stays, too; base: the name of its files, without a number.
 * NULL with an error. */
struct ip_kernel_packets *ip_kernel_packets_create(int dir, const char *path, const char *base,
						   size_t base_length);
void ip_kernel_packets_destroy(struct ip_kernel_packets *packets);

#define IP_KERNEL_NO_SEGMENT (-1) /* before segment 0 */

/* Adds a file: segment is its number, or IP_KERNEL_NO_SEGMENT. Returns 0, or -1 with an error. */
int ip_kernel_packets_add(struct ip_kernel_packets *packets, int64_t segment);

bool ip_kernel_packets_has_base(const struct ip_kernel_packets *packets, const char *name,
				size_t base_length);

/* For streams all of whose files have been added: */
void ip_kernel_packets_sort(struct ip_kernel_packets *packets);
bool ip_kernel_packets_has_segment(const struct ip_kernel_packets *packets, int64_t segment);
/* The number of its last file; IP_KERNEL_NO_SEGMENT: it has no number, or there is none. */
int64_t ip_kernel_packets_last(const struct ip_kernel_packets *packets);

/* Begins to read with the first file whose number is at least this one. stays_open: the present
 * file stays open; else it is opened for each packet. Returns 1; 0: there is none; -1 with an
 * error. */
int ip_kernel_packets_begin(struct ip_kernel_packets *packets, int64_t segment, bool stays_open);

/* Reads the next packet into *packet, which is zero or an earlier packet: its memory is used
 * again. Returns 1; 0: there is no other, and damage says why where that is not the end; -1 with an
 * error. */
int ip_kernel_packets_next(struct ip_kernel_packets *packets, struct ip_kernel_packet *packet);

void ip_kernel_packet_clear(struct ip_kernel_packet *packet);

/* By the id of an event: the size of its fields + 2; -1: there is none; 0: none was looked up yet.
 * Threads write into it. */
extern int16_t ip_kernel_packet_sizes[UINT16_MAX + 1];

/* The size of the fields of an event that is sound. */
static inline uint32_t ip_kernel_packet_fields(uint16_t id)
{
	return __atomic_load_n(&ip_kernel_packet_sizes[id], __ATOMIC_RELAXED) - 2;
}

#endif
