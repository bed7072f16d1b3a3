/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program that benchmarks/switches records: two threads on one CPU that hand work to each
 * other, so that the kernel switches at a rate.
 *
 *   switches MILLISECONDS SWITCHES_PER_SECOND CPU [asleep]
 *
 * Each turn of a thread is the same amount of work; between turns it waits for the other one. With
 * a fourth argument there is no work: the first thread sleeps until its next turn is due. Each
 * 20 ms the first thread notes the time (CLOCK_MONOTONIC), the turns so far and the CPU time of the
 * process, all in ns; the notes are printed at the end, one in a line. A line "ready" comes first.
 * SIGTERM ends it sooner, with its notes.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define UNWATCHED __attribute__((no_instrument_function))
#define NOTE_NS	  20000000ull

struct note {
	uint64_t ns, turns, cpu;
};

static sem_t turn[2];
static volatile int over;
static volatile sig_atomic_t told_to_end;
static uint64_t each; /* steps in a turn */

__attribute__((noinline)) void once(void)
{
	__asm__ volatile("");
}

UNWATCHED static void note_signal(int unused)
{
	(void)unused;
	told_to_end = 1;
}

UNWATCHED static uint64_t ns_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

UNWATCHED static void work(uint64_t steps)
{
	for (uint64_t i = 0; i < steps; i++)
		__asm__ volatile("" : "+r"(i));
}

UNWATCHED static void *other(void *unused)
{
	for (;;) {
		while (sem_wait(&turn[1]))
			;
		if (over)
			return unused;
		work(each);
		sem_post(&turn[0]);
	}
}

/* Steps that take so long, of CPU time: others may have the CPU. */
UNWATCHED static uint64_t steps_of(uint64_t ns)
{
	const uint64_t steps = 10000000;
	uint64_t best = UINT64_MAX, begin, took;

	for (int i = 0; i < 5; i++) {
		begin = ns_of(CLOCK_PROCESS_CPUTIME_ID);
		work(steps);
		took = ns_of(CLOCK_PROCESS_CPUTIME_ID) - begin;
		if (took < best)
			best = took;
	}
	return steps * ns / best;
}

UNWATCHED static void sleep_until(uint64_t ns)
{
	const struct timespec t = {ns / 1000000000, ns % 1000000000};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

UNWATCHED int main(int argc, char **argv)
{
	const uint64_t length = argc > 3 ? strtoull(argv[1], NULL, 10) * 1000000 : 0;
	const uint64_t rate = argc > 3 ? strtoull(argv[2], NULL, 10) : 0;
	const bool asleep = argc > 4;
	struct note *notes = calloc(length / NOTE_NS + 2, sizeof(*notes));
	uint64_t begin, now, turns = 0;
	size_t n = 0;
	pthread_t thread;
	cpu_set_t cpu;

	if (!notes || !rate)
		return 1;
	CPU_ZERO(&cpu);
	CPU_SET(atoi(argv[3]), &cpu);
	sched_setaffinity(0, sizeof(cpu), &cpu);
	each = asleep ? 0 : steps_of(1000000000 / rate);
	signal(SIGTERM, note_signal);
	sem_init(&turn[0], 0, 0);
	sem_init(&turn[1], 0, 0);
	if (pthread_create(&thread, NULL, other, NULL))
		return 1;
	once();
	puts("ready");
	fflush(stdout);
	begin = now = ns_of(CLOCK_MONOTONIC);
	while (now - begin < length && !told_to_end) {
		if (now - begin >= n * NOTE_NS)
			notes[n++] = (struct note){now, turns, ns_of(CLOCK_PROCESS_CPUTIME_ID)};
		if (asleep)
			sleep_until(begin + turns * 1000000000 / rate);
		work(each);
		sem_post(&turn[1]);
		while (sem_wait(&turn[0]))
			;
		turns += 2;
		now = ns_of(CLOCK_MONOTONIC);
	}
	over = 1;
	sem_post(&turn[1]);
	pthread_join(thread, NULL);
	for (size_t i = 0; i < n; i++)
		printf("%lu %lu %lu\n", notes[i].ns, notes[i].turns, notes[i].cpu);
	return 0;
}
