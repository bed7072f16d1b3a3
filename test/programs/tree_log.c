/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree_log.h: the log itself.
 */
#define _GNU_SOURCE
#include "tree_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct record {
	char kind; /* 'E' enter, 'L' leave, 'U' unwind: the name is a number */
	char name[31];
};

#define RECORDS (1u << 20)

static __thread struct record *records;
static __thread unsigned nrecords;
static __thread int depth;
static __thread int opened;
static int silent;

/* In the order of first use; a handler that comes meanwhile finds the log closed and is the
 * test's own fault: programs log once before they let signals come. */
static void open_log(void)
{
	const char *dir = getenv("TREE_LOG");
	char path[512];
	int fd;

	opened = 1;
	if (!dir)
		return;
	snprintf(path, sizeof(path), "%s/%s.%d.%ld", dir, program_invocation_short_name, getpid(),
		 syscall(SYS_gettid));
	fd = open(path, O_RDWR | O_CREAT, 0644);
	if (fd < 0 || ftruncate(fd, (off_t)RECORDS * sizeof(struct record)))
		abort();
	records = mmap(NULL, (size_t)RECORDS * sizeof(struct record), PROT_READ | PROT_WRITE,
		       MAP_SHARED, fd, 0);
	close(fd);
	if (records == MAP_FAILED)
		abort();
}

static void add(char kind, const char *name)
{
	int saved = errno;

	if (silent)
		return;
	if (!opened)
		open_log();
	errno = saved;
	if (!records)
		return;
	unsigned i = __atomic_fetch_add(&nrecords, 1, __ATOMIC_RELAXED);

	if (i >= RECORDS || strlen(name) >= sizeof(records[i].name))
		abort();
	strcpy(records[i].name, name);
	records[i].kind = kind;
}

int log_enter(const char *name)
{
	add('E', name);
	return depth++;
}

void log_leave(const char *name)
{
	depth--;
	add('L', name);
}

void log_unwind(int to)
{
	char text[16];

	depth = to + 1;
	snprintf(text, sizeof(text), "%d", to);
	add('U', text);
}

void log_silence(void)
{
	silent = 1;
}
