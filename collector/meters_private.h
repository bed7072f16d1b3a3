/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What meters.c (places), meters_read.c (reading the blocks) and meters_write.c (the files) share.
 */
#ifndef IP_METERS_PRIVATE_H
#define IP_METERS_PRIVATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "collector/meters.h"
#include "common/abi/meters.h"
#include "common/cleanup.h"
#include "hotpatcher/plan/user_payload.h"

struct ip_meter {
	uint32_t number;
	uint32_t duty;	 /* IP_DUTY_COUNT, IP_DUTY_HIST, IP_DUTY_TIMED or IP_DUTY_USER */
	uint32_t offset; /* of the meter in each block */
	uint64_t calls;	 /* IP_DUTY_HIST: calls whose duration is known */
	uint64_t sum, self, min, max, unmeasured;
	uint64_t buckets[IP_HIST_BUCKETS];
	bool tail_exits; /* the meter is a struct ip_hist_tails */
	uint64_t tailed;
	bool keeps_max; /* the longest call is found anew for each look: */
	/* since the last look; and between that one and the look before */
	uint64_t next_max, look_max;
	uint32_t cell;	/* IP_DUTY_USER: distance of the cell from offset */
	uint64_t *sums; /* IP_DUTY_USER: sums of threads that have ended */
	char *name, *module;
};

/* What the thread of a block has counted and measured. */
struct ip_meter_block_sum {
	uint64_t calls, self;
};

struct ip_counters {
	/* While the session changes its plan, the drain thread takes over what ended threads
	 * leave. */
	pthread_mutex_t lock;
	struct ip_area *area;
	struct ip_meter *meters;
	size_t nmeters;
	const struct ip_user_payload *user; /* NULL: none */
	const struct ip_meter_kind *kind;   /* NULL: counts and histograms */
	/* calls left out since the payload was running already, of threads that have ended */
	uint64_t reentered;
	bool saves_timed;
	uint32_t *meter_of; /* by number: index into meters + 1 */
	/* by block, parts included: the contents at the last reading. NULL: zeroes */
	char **seen;
	struct ip_meter_block_sum *sums; /* by block, parts not included */
	uint32_t nblocks;
};

static inline void ip_meters_unlock(pthread_mutex_t **lock)
{
	pthread_mutex_unlock(*lock);
}

/* Holds the lock to the end of the scope. */
#define HOLD(c)                                                                                    \
	__attribute__((unused)) _cleanup_(ip_meters_unlock) pthread_mutex_t *held_ =               \
		(pthread_mutex_lock(&(c)->lock), &(c)->lock)

/* Returns whether the duty has a histogram. */
static inline bool ip_meter_measures(uint32_t duty)
{
	return duty == IP_DUTY_HIST || duty == IP_DUTY_TIMED;
}

static inline uint32_t ip_meter_load32(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static inline uint64_t ip_meter_load64(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

#endif
