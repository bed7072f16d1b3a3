/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache in front of a slow store, with points that tell what it does. No special compiler is
 * needed for points:
 *
 *   cc -O2 -g $(pkg-config --cflags iprobe) -Wl,--build-id points.c -o points
 *   coldpatch points
 *   iprobe list points
 *   iprobe run -- ./points 2000          and then: iprobe report, iprobe dump
 *   iprobe run -f 'evict*,miss' -- ./points 2000
 *
 * Without an argument it runs until it is interrupted, for `iprobe attach` and for
 *
 *   bpftrace -p PID -e 'usdt:./points:iprobe:evicted { @used[str(arg0)] = lhist(arg1, 0, 100, 5);
 *   }'
 */
#include <iprobe/probe.h>

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ENTRIES 64
#define KEYS	200

enum reason { FULL, STALE };

struct entry {
	char key[16];
	unsigned value, used;
	unsigned long since;
};

static struct entry cache[ENTRIES];
static unsigned long requests, hits, misses, evictions;
static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

static unsigned next_random(void)
{
	static uint64_t state = 0x9e3779b97f4a7c15;

	state = state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(state >> 33);
}

/* The slow store: some work that depends on the key. */
static unsigned fetch(const char *key)
{
	unsigned value = 0;

	IPROBE_SCOPE(fetching);
	for (unsigned round = 0; round < 200; round++)
		for (const char *p = key; *p; p++)
			value = value * 31 + (unsigned char)*p;
	return value;
}

static void evict(struct entry *e, enum reason reason)
{
	IPROBE_POINT(evicted, e->key, e->used, reason);
	evictions++;
	memset(e, 0, sizeof(*e));
}

static struct entry *place_for(const char *key)
{
	struct entry *oldest = &cache[0];

	for (unsigned i = 0; i < ENTRIES; i++) {
		struct entry *e = &cache[i];

		if (!strcmp(e->key, key)) {
			/* after a while what is cached may have changed */
			if (requests - e->since > 500)
				evict(e, STALE);
			return e;
		}
		if (e->since < oldest->since)
			oldest = e;
	}
	if (*oldest->key)
		evict(oldest, FULL);
	return oldest;
}

static unsigned look_up(const char *key)
{
	IPROBE_SCOPE(looking_up);
	struct entry *e = place_for(key);

	requests++;
	if (*e->key) {
		hits++;
		e->used++;
		return e->value;
	}
	misses++;
	IPROBE_POINT(miss, key, requests, (double)hits > (double)misses);
	snprintf(e->key, sizeof(e->key), "%s", key);
	e->value = fetch(key);
	e->since = requests;
	return e->value;
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 0;
	unsigned sum = 0;

	signal(SIGTERM, stop);
	signal(SIGINT, stop);
	while (!stopped && (!rounds || requests < rounds)) {
		unsigned a = next_random() % KEYS, b = next_random() % KEYS;
		char key[16];

		/* the lower of two: some keys are asked for more often than others */
		snprintf(key, sizeof(key), "key-%u", a < b ? a : b);
		sum += look_up(key);
		if (!rounds && requests % 100 == 0)
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	printf("%lu requests, %lu hits, %lu misses, %lu evictions, sum %08x\n", requests, hits,
	       misses, evictions, sum);
	return 0;
}
