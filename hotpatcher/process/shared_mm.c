/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds processes that share memory. See shared_mm.h.
 */
#include "hotpatcher/process/shared_mm.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"

#define LOOKS 96
/* looks that must say the same: with one memory that has two sizes by turns, so many do by
 * chance in one of 2^24 cases */
#define ENOUGH 24
#define SIZES  1024

enum answer {
	SHARES,
	DIFFERS,
	REFUSED, /* the kernel has no kcmp, or does not let us ask */
};

static enum answer ask(pid_t a, pid_t b)
{
	const long got = syscall(SYS_kcmp, a, b, KCMP_VM, 0, 0);

	return got == 0 ? SHARES : got > 0 || errno == ESRCH ? DIFFERS : REFUSED;
}

bool ip_shared_mm_is(pid_t a, pid_t b)
{
	return ask(a, b) == SHARES;
}

/* Whether we lack what a look takes. The look gives no answer then. */
static bool is_our_want(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM;
}

/* Reads what every user may see of a process's memory: how many pages it has, of which kinds. 0;
 * -1: it has none, or has ended (errno). */
static int read_sizes(pid_t pid, char *ret, size_t size)
{
	_cleanup_fclose_ FILE *file = NULL;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/statm", pid);
	errno = 0;
	file = fopen(name, "re");
	return file && fgets(ret, size, file) && atol(ret) ? 0 : -1;
}

/* As read_sizes(), and more that only grows or changes at other times: the peak sizes, page tables,
 * swap. */
static int read_more(pid_t pid, char *ret, size_t size)
{
	_cleanup_fclose_ FILE *file = NULL;
	char line[128];
	size_t n = 0;

	snprintf(line, sizeof(line), "/proc/%d/status", pid);
	errno = 0;
	file = fopen(line, "re");
	while (file && fgets(line, sizeof(line), file)) {
		size_t length = strlen(line);

		if ((strncmp(line, "Vm", 2) && strncmp(line, "Rss", 3)) || length >= size - n)
			continue;
		memcpy(ret + n, line, length);
		n += length;
	}
	ret[n] = '\0';
	return n ? 0 : -1;
}

/* The peak size of the process's memory, kB; 0: not known. */
static unsigned long read_peak(pid_t pid)
{
	char sizes[SIZES];
	const char *line =
		read_more(pid, sizes, sizeof(sizes)) < 0 ? NULL : strstr(sizes, "VmPeak:");

	return line ? strtoul(line + strlen("VmPeak:"), NULL, 10) : 0;
}

/* The peak size never falls. So one look is enough, even if the memory of the first process grows
 * all the while. */
static bool differ_by_peak(pid_t a, pid_t b)
{
	const unsigned long before = read_peak(a), other = read_peak(b), after = read_peak(a);

	return before && other && after && (other < before || other > after);
}

/* Whether a kind of look tells that the two memories differ. One memory may have two sizes by
 * turns, and may seem to be two memories once by chance. So it takes several looks that all say the
 * same. A look during which the sizes of the first process change says nothing. */
static bool differ_by(int (*look)(pid_t pid, char *ret, size_t size), pid_t a, pid_t b)
{
	char before[SIZES], other[SIZES], after[SIZES];
	int differed = 0;

	if (look(a, before, sizeof(before)) < 0)
		return !is_our_want(errno);
	for (int i = 0; i < LOOKS; i++) {
		if (look(b, other, sizeof(other)) < 0 || look(a, after, sizeof(after)) < 0)
			return !is_our_want(errno);
		if (!strcmp(before, after)) {
			if (!strcmp(before, other))
				return false;
			if (++differed == ENOUGH)
				return true;
		}
		memcpy(before, after, sizeof(before));
	}
	return false;
}

/* Whether two processes of which the kernel does not tell are seen to differ: if they share one
 * memory, all sizes are the same at any time. */
static bool seem_to_differ(pid_t a, pid_t b)
{
	return differ_by_peak(a, b) || differ_by(read_sizes, a, b) || differ_by(read_more, a, b);
}

bool ip_shared_mm_may_be(pid_t a, pid_t b)
{
	const enum answer answer = ask(a, b);

	return answer == SHARES || (answer == REFUSED && !seem_to_differ(a, b));
}

/* Whether the process has memory. A kernel thread has none, and a process that is ending has none:
 * two of them share nothing. */
static bool has_memory(pid_t pid)
{
	_cleanup_fclose_ FILE *file = NULL;
	unsigned long pages = 0;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/statm", pid);
	file = fopen(name, "re");
	if (!file)
		return is_our_want(errno);
	return fscanf(file, "%lu", &pages) == 1 && pages;
}

int ip_shared_mm_find(pid_t pid, pid_t tid, pid_t **ret, size_t *ret_n)
{
	_cleanup_closedir_ DIR *dir = opendir("/proc");
	struct dirent *entry;

	*ret = NULL;
	*ret_n = 0;
	while (dir && (entry = readdir(dir))) {
		pid_t other = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;

		enum answer answer = other && other != pid ? ask(tid, other) : DIFFERS;
		const int refused = errno;

		if (answer == DIFFERS || !has_memory(other))
			continue;
		if (answer == REFUSED) {
			if (seem_to_differ(tid, other))
				continue;
			free(*ret);
			*ret = NULL;
			return ip_error("pid %d: pid %d may share its memory (all sizes are the "
					"same), and would have to be stopped too: this is not "
					"known, since kcmp is refused (%s): try again, or attach "
					"as root, on a kernel with CONFIG_KCMP",
					pid, other, strerror(refused));
		}
		if (ip_array_grow(ret, *ret_n, sizeof(**ret)) < 0) {
			free(*ret);
			*ret = NULL;
			return -1;
		}
		(*ret)[(*ret_n)++] = other;
	}
	return 0;
}
