/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that watches itself: what a tracer that was let in before it was executed might have
 * changed.
 *
 *   victim MILLISECONDS
 *
 * Compares its own text with its file, checks arithmetic in registers and a pattern on its stack,
 * for so long. Ends with 0 where all is as it should be; 9 where something has been changed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define STACK 2048

static int differs(void)
{
	static unsigned char file[1 << 16];
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	int found = 0, fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (!maps || fd < 0 || fstat(fd, &st) < 0)
		_exit(8);
	while (fgets(line, sizeof(line), maps)) {
		unsigned long start, end, offset, inode;
		char mode[8];

		if (sscanf(line, "%lx-%lx %7s %lx %*s %lu", &start, &end, mode, &offset, &inode) !=
			    5 ||
		    inode != st.st_ino || mode[2] != 'x')
			continue;
		for (unsigned long at = 0; at < end - start; at += sizeof(file)) {
			unsigned long rest = end - start - at;
			ssize_t got = pread(fd, file, rest < sizeof(file) ? rest : sizeof(file),
					    (off_t)(offset + at));

			found |= got > 0 && memcmp(file, (void *)(start + at), got) != 0;
		}
	}
	fclose(maps);
	close(fd);
	return found;
}

/* Everything that a register may hold across a system call is looked at behind it. */
static int round_is_good(uint64_t x)
{
	volatile unsigned char pattern[STACK];
	const struct timespec t = {0, 200000};
	uint64_t a = x * 3, b = x * 5, c = x * 7, d = x * 11, e = x * 13;

	for (int i = 0; i < STACK; i++)
		pattern[i] = (unsigned char)(x + i);
	__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e));
	if (nanosleep(&t, NULL))
		return 0;
	__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e));
	for (int i = 0; i < STACK; i++)
		if (pattern[i] != (unsigned char)(x + i))
			return 0;
	return a == x * 3 && b == x * 5 && c == x * 7 && d == x * 11 && e == x * 13;
}

int main(int argc, char **argv)
{
	struct timespec began, t;
	const long limit = argc > 1 ? atol(argv[1]) : 0;
	uint64_t x = 1;

	clock_gettime(CLOCK_MONOTONIC, &began);
	do {
		if (!round_is_good(x++))
			return 9;
		clock_gettime(CLOCK_MONOTONIC, &t);
	} while ((t.tv_sec - began.tv_sec) * 1000 + (t.tv_nsec - began.tv_nsec) / 1000000 < limit);
	return differs() ? 9 : 0;
}
