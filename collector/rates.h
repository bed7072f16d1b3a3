/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast the session of a process records, seen from outside. The rates are read from the rings,
 * without a request to the session's iprobe.
 */
#ifndef IP_RATES_H
#define IP_RATES_H

#include <stdbool.h>
#include <stdint.h>

#include "hotpatcher/process/target.h"
#include "hotpatcher/shm/area.h"

/* Where the rings were when they were looked at last. */
struct ip_ring_looks;

/* Returns NULL where memory ran out. */
struct ip_ring_looks *ip_ring_looks_create(void);
void ip_ring_looks_destroy(struct ip_ring_looks *looks);
/* Returns how many records of 8 bytes have come since the last look; a record with values counts as
 * more than one. The first time: how many there are. *ret_lost, which may be NULL: lost events. The
 * target may write anything there. */
uint64_t ip_ring_looks_grown(struct ip_ring_looks *looks, const struct ip_area *area,
			     uint64_t *ret_lost);

/* What the process's threads write into rings per second, computed from the interval. Calls that
 * are counted instead of logged write nothing. */
struct ip_rates {
	/* the session's iprobe; its process id as it sees it itself */
	pid_t iprobe;
	uint64_t interval_ns; /* length of the interval */
	uint64_t events;      /* records of 8 bytes; a record with values counts as more than one */
	uint64_t bytes;
	uint64_t lost; /* lost events */
};

/* Reads the rings twice, interval_ns apart. Returns true if the process has a session and its rings
 * may be read. */
bool ip_rates_look(const struct ip_target *target, uint64_t interval_ns, struct ip_rates *ret);

#endif
