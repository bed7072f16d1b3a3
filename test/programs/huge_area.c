/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says that iprobe's area is memory of huge pages, of which it has none: who reads it gets SIGBUS.
 *
 * Prints "ready", does so for the first line on stdin, prints "huge", or "none" where the kernel
 * has no such memory, and ends with stdin.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define HUGE  (2ul << 20)
#define WORDS 48 /* of what is exported */

__attribute__((noinline)) void step(void)
{
	__asm__ volatile("" ::: "memory");
}

/* Where the first mapping of the area is. */
QUIET static uintptr_t find_area(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	uintptr_t from = 0, start;

	while (maps && !from && fgets(line, sizeof(line), maps))
		if (strstr(line, "/memfd:iprobe (deleted)") && sscanf(line, "%lx-", &start) == 1)
			from = start;
	if (maps)
		fclose(maps);
	return from;
}

/* The runtime's word for it, in what it exports. */
QUIET static int say_that_it_is(uintptr_t before, uintptr_t now)
{
	uintptr_t *anchor = dlsym(RTLD_DEFAULT, "iprobe_rt_anchor"),
		  page = (uintptr_t)anchor & -4096ul;
	int said = 0;

	if (!anchor || mprotect((void *)page, 8192, PROT_READ | PROT_WRITE))
		return 0;
	for (unsigned i = 0; i < WORDS; i++)
		if (anchor[i] == before) {
			anchor[i] = now;
			said++;
		}
	return said;
}

QUIET static const char *replace(void)
{
	uintptr_t area = find_area();
	int fd = memfd_create("iprobe", MFD_HUGETLB | MFD_ALLOW_SEALING | MFD_CLOEXEC);
	void *at;

	if (!area || fd < 0 || ftruncate(fd, 512 * HUGE) < 0)
		return "none";
	/* nothing is reserved: there need not be a single page */
	at = mmap(NULL, 512 * HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	return at != MAP_FAILED && say_that_it_is(area, (uintptr_t)at) ? "huge" : "none";
}

QUIET int main(void)
{
	char line[64];

	step();
	puts("ready");
	fflush(stdout);
	if (fgets(line, sizeof(line), stdin)) {
		puts(replace());
		fflush(stdout);
	}
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}
