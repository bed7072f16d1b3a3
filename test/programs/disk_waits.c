/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits for a disk, each in a function of its own: reads of a file that is not in memory, with and
 * without the page cache, and page faults of pages that are in a file, and in swap. The program
 * tells the truth of each: "FUNCTION CALLS LEAST_NS LEAST_CPU_NS MOST_NS MOST_CPU_NS READS FAULTS",
 * by the clock, by the thread's own CPU time, and by what the kernel counts: units of 512 bytes
 * that were read, and faults that had to wait. Least is read in the function, most around it:
 * others may have the CPU in between. What cannot be had here is left out.
 *
 * usage: disk_waits ROUNDS FILE
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

#define QUIET __attribute__((no_instrument_function))
#define FUNC  __attribute__((noinline))

#define PAGE	4096u
#define FILE_MB 8u
#define STEP	(128u << 10) /* between pages that are touched: none is read ahead with another */
#define PAGES	128u	     /* in swap */

/* Of the clock, and of the thread's CPU time. */
struct times {
	uint64_t ns, cpu;
};

static struct truth {
	const char *name;
	uint64_t calls, reads, faults;
	struct times least, most;
} truths[4];
static struct times inside;
static int ntruths, file, direct;
static uint8_t *mapped, *buffer;
static uint8_t swapped[PAGES][PAGE] __attribute__((aligned(PAGE)));

QUIET static uint64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* What passes between the two is added. */
QUIET static void begin(struct times *times)
{
	times->cpu -= now(CLOCK_THREAD_CPUTIME_ID);
	times->ns -= now(CLOCK_MONOTONIC_RAW);
}

QUIET static void end(struct times *times)
{
	times->ns += now(CLOCK_MONOTONIC_RAW);
	times->cpu += now(CLOCK_THREAD_CPUTIME_ID);
}

FUNC void on_read(void)
{
	begin(&inside);
	for (uint64_t at = 0; at < FILE_MB << 20; at += STEP)
		if (pread(file, buffer, STEP, at) != STEP)
			abort();
	end(&inside);
}

FUNC void on_direct_read(void)
{
	begin(&inside);
	for (uint64_t at = 0; at < FILE_MB << 20; at += STEP)
		if (pread(direct, buffer, STEP, at) != STEP)
			abort();
	end(&inside);
}

FUNC void on_mapped_file(void)
{
	begin(&inside);
	for (uint64_t at = 0; at < FILE_MB << 20; at += STEP)
		if (((volatile uint8_t *)mapped)[at] != 'x')
			abort();
	end(&inside);
}

QUIET static void touch_swapped(void)
{
	for (unsigned i = 0; i < PAGES; i++)
		if (((volatile uint8_t *)swapped[i])[0] != 'x')
			abort();
}

FUNC void on_swap(void)
{
	begin(&inside);
	touch_swapped();
	end(&inside);
}

QUIET static void timed(const char *name, void (*call)(void))
{
	struct truth *t = truths;
	struct rusage before, after;

	while (t < truths + ntruths && strcmp(t->name, name))
		t++;
	if (t == truths + ntruths)
		truths[ntruths++].name = name;
	getrusage(RUSAGE_THREAD, &before);
	inside = (struct times){0};
	begin(&t->most);
	call();
	end(&t->most);
	getrusage(RUSAGE_THREAD, &after);
	t->calls++;
	t->least.ns += inside.ns;
	t->least.cpu += inside.cpu;
	t->reads += after.ru_inblock - before.ru_inblock;
	t->faults += after.ru_majflt - before.ru_majflt;
}

QUIET static void make_file(const char *path)
{
	file = open(path, O_RDWR | O_CREAT, 0600);
	memset(buffer, 'x', STEP);
	for (unsigned i = 0; i < (FILE_MB << 20) / STEP; i++)
		if (write(file, buffer, STEP) != STEP)
			abort();
	direct = open(path, O_RDONLY | O_DIRECT);
	mapped = mmap(NULL, FILE_MB << 20, PROT_READ, MAP_SHARED, file, 0);
	if (mapped == MAP_FAILED || madvise(mapped, FILE_MB << 20, MADV_RANDOM))
		abort();
}

/* What is mapped stays in memory. */
QUIET static void forget_file(void)
{
	if (madvise(mapped, FILE_MB << 20, MADV_DONTNEED) || fsync(file) ||
	    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED))
		abort();
}

/* Whether pages of an array are in memory. */
QUIET static bool is_there(void *pages, size_t n)
{
	uint8_t there[PAGES];

	if (mincore(pages, n * PAGE, there))
		abort();
	for (size_t i = 0; i < n; i++)
		if (there[i] & 1)
			return true;
	return false;
}

/* Pages are written first, and stay in memory until they are given up once more: when they are
 * mapped, and as they were. Returns false: there is no swap. */
QUIET static bool swap_out(void)
{
	for (unsigned i = 0; i < PAGES; i++)
		swapped[i][0] = 'x';
	for (int tries = 0; tries < 200 && is_there(swapped, PAGES); tries++) {
		touch_swapped();
		if (madvise(swapped, sizeof(swapped), MADV_PAGEOUT))
			return false;
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	}
	return !is_there(swapped, PAGES);
}

QUIET int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[1]) : 0;

	if (!rounds || posix_memalign((void **)&buffer, PAGE, STEP))
		return 2;
	make_file(argv[2]);
	for (int i = 0; i < rounds; i++) {
		forget_file();
		timed("on_read", on_read);
		forget_file();
		if (direct >= 0)
			timed("on_direct_read", on_direct_read);
		timed("on_mapped_file", on_mapped_file);
		if (swap_out())
			timed("on_swap", on_swap);
	}
	for (int i = 0; i < ntruths; i++)
		printf("%s %lu %lu %lu %lu %lu %lu %lu\n", truths[i].name, truths[i].calls,
		       truths[i].least.ns, truths[i].least.cpu, truths[i].most.ns,
		       truths[i].most.cpu, truths[i].reads, truths[i].faults);
	return 0;
}
