/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what descriptors were.
 */
#include "analysis/wait/descriptors/descriptors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/wait/descriptors/descriptor_births.h"
#include "analysis/wait/descriptors/inherited.h"
#include "analysis/wait/thread_states.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/trace/kernel_format.h"
#include "common/trace/trace_format.h"

#define SIZE_MOST (256u << 20)
#define MANY_MOST 1000u /* closings that are not of one descriptor alone */

static int compare(const void *left, const void *right)
{
	const struct ip_descriptor *a = left, *b = right;

	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	if (a->fd != b->fd)
		return a->fd < b->fd ? -1 : 1;
	return a->from < b->from ? -1 : a->from > b->from;
}

/* FROM PID FD KIND TEXT, separated by tabs. */
static bool parse_line(char *line, struct ip_descriptor *ret)
{
	uint64_t from;
	uint32_t pid;
	int32_t fd;
	char kind[16];
	int n;

	if (sscanf(line, "%" SCNu64 "\t%" SCNu32 "\t%" SCNd32 "\t%15[a-z_]\t%n", &from, &pid, &fd,
		   kind, &n) != 4 ||
	    fd < 0)
		return false;
	for (int i = 0; i < IP_WAIT_KINDS; i++)
		if (!strcmp(kind, ip_wait_kind_name(i))) {
			*ret = (struct ip_descriptor){from, UINT64_MAX, pid, fd, i, line + n};
			return true;
		}
	return false;
}

/* Adds what a line tells. Returns 0, or -1 with an error. */
static int take_line(char *line, struct ip_descriptors *ret)
{
	struct ip_call_path path;
	struct ip_descriptor d;

	if (ip_call_path_parse(line, &path))
		return ip_call_paths_add(&ret->paths, &path);
	if (!parse_line(line, &d)) {
		ret->invalid++;
		return 0;
	}
	if (ip_array_grow(&ret->items, ret->n, sizeof(d)) < 0)
		return -1;
	ret->items[ret->n++] = d;
	ret->first = ret->first && ret->first < d.from ? ret->first : d.from;
	return 0;
}

int ip_descriptors_parse(char *text, struct ip_descriptors *ret)
{
	while (*text) {
		char *end = text + strcspn(text, "\n");

		if (!*end) { /* the last line is not whole: iprobe was killed */
			ret->invalid++;
			break;
		}
		*end = '\0';
		if (take_line(text, ret) < 0)
			return -1;
		text = end + 1;
	}
	ip_call_paths_sort(&ret->paths);
	if (ret->n)
		qsort(ret->items, ret->n, sizeof(*ret->items), compare);
	return 0;
}

/* Appends a file to the text of others. */
static int append(const char *path, char **text, size_t *size)
{
	_cleanup_free_ char *more = NULL;
	char *grown;
	size_t n;

	if (ip_read_regular_text(path, SIZE_MOST, &more, &n) < 0)
		return -1;
	if (n + *size > SIZE_MOST)
		return ip_error("%s: with the files before it, it is too large", path);
	grown = realloc(*text, *size + n + 2);
	if (!grown)
		return ip_error("out of memory");
	*text = grown;
	/* the last line of the file before may not be whole */
	if (*size && grown[*size - 1] != '\n')
		grown[(*size)++] = '\n';
	memcpy(grown + *size, more, n + 1);
	*size += n;
	return 0;
}

/* Reads the files of segments (common/trace/kernel_format.h). What they tell is in order of time by
 * itself: the lines have times. */
static int read_segments(const char *dir, char **text, size_t *size)
{
	static const char *const base = IP_TRACE_DESCRIPTORS "-";
	const char *name = strrchr(base, '/') + 1;
	_cleanup_free_ char *sub = NULL;
	_cleanup_closedir_ DIR *open_dir = NULL;
	const struct dirent *entry;
	int ret = 0;

	if (asprintf(&sub, "%s/" IP_TRACE_SUBDIR, dir) < 0) {
		sub = NULL;
		return ip_error("out of memory");
	}
	open_dir = opendir(sub);
	while (ret == 0 && open_dir && (entry = readdir(open_dir))) {
		_cleanup_free_ char *path = NULL;
		uint32_t segment;

		if (strncmp(entry->d_name, name, strlen(name)) ||
		    !ip_kernel_segment_parse(entry->d_name + strlen(name), &segment))
			continue;
		if (asprintf(&path, "%s/%s", sub, entry->d_name) < 0) {
			path = NULL;
			return ip_error("out of memory");
		}
		ret = append(path, text, size);
	}
	return ret;
}

int ip_descriptors_read(const char *dir, struct ip_descriptors *ret)
{
	_cleanup_free_ char *path = NULL;
	size_t size = 0;

	*ret = (struct ip_descriptors){0};
	if (asprintf(&path, "%s/%s", dir, IP_TRACE_DESCRIPTORS) < 0) {
		path = NULL;
		return ip_error("out of memory");
	}
	if ((ip_access(path, F_OK) == 0 || errno != ENOENT) &&
	    append(path, &ret->memory, &size) < 0)
		return -1;
	if (read_segments(dir, &ret->memory, &size) < 0) {
		ip_descriptors_clear(ret);
		return -1;
	}
	if (!ret->memory)
		return 0;
	if (ip_descriptors_parse(ret->memory, ret) == 0)
		return 0;
	ip_descriptors_clear(ret);
	return -1;
}

void ip_descriptors_clear(struct ip_descriptors *descriptors)
{
	free(descriptors->items);
	free(descriptors->paths.items);
	free(descriptors->memory);
	ip_inherited_destroy(descriptors->inherited);
	ip_descriptor_births_destroy(descriptors->births);
	*descriptors = (struct ip_descriptors){0};
}

/* The number of items that are not behind a key. */
static size_t up_to(const struct ip_descriptors *descriptors, const struct ip_descriptor *key)
{
	size_t low = 0, high = descriptors->n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (compare(&descriptors->items[middle], key) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void end_one(struct ip_descriptors *descriptors, uint32_t pid, int32_t fd, uint64_t tsc)
{
	const struct ip_descriptor key = {.from = tsc, .pid = pid, .fd = fd};
	const size_t n = up_to(descriptors, &key);
	struct ip_descriptor *d = n ? &descriptors->items[n - 1] : NULL;

	if (d && d->pid == pid && d->fd == fd && d->to > tsc)
		d->to = tsc;
}

/* Items of one process, or of all: of a range of numbers, or of one number in all processes. */
static void end_many(struct ip_descriptors *descriptors, uint32_t pid, const struct ip_closing *c)
{
	for (size_t i = 0; i < descriptors->n; i++) {
		struct ip_descriptor *d = &descriptors->items[i];

		if ((!pid || d->pid == pid) && (uint32_t)d->fd >= c->from &&
		    (uint32_t)d->fd <= c->to && d->from <= c->tsc && d->to > c->tsc)
			d->to = c->tsc;
	}
}

void ip_descriptors_end(struct ip_descriptors *descriptors, const struct ip_closing *closings,
			size_t n,
			uint32_t (*pid_of)(const void *context, int32_t tid, uint64_t tsc),
			const void *context)
{
	size_t many = 0;

	for (size_t i = 0; i < n; i++) {
		const struct ip_closing *c = &closings[i];
		const uint32_t pid = pid_of(context, c->tid, c->tsc);

		if (pid && c->from == c->to) {
			end_one(descriptors, pid, c->from, c->tsc);
		} else if (many++ < MANY_MOST) {
			end_many(descriptors, pid, c);
		} else { /* more than one can follow: nothing is known from here on */
			const struct ip_closing all = {.tsc = c->tsc, .to = UINT32_MAX};

			end_many(descriptors, 0, &all);
			return;
		}
	}
}

/* When what a process had at its beginning was noted: the earliest of its lines. */
static uint64_t first_of(const struct ip_descriptors *descriptors, uint32_t pid)
{
	const struct ip_descriptor key = {.pid = pid, .fd = -1, .from = UINT64_MAX};
	uint64_t first = UINT64_MAX;

	for (size_t i = up_to(descriptors, &key);
	     i < descriptors->n && descriptors->items[i].pid == pid; i++)
		first = descriptors->items[i].from < first ? descriptors->items[i].from : first;
	return first;
}

const struct ip_descriptor *ip_descriptors_find(const struct ip_descriptors *descriptors,
						uint32_t pid, int32_t fd, uint64_t tsc)
{
	const struct ip_descriptor key = {.from = !tsc ? first_of(descriptors, pid)
						  : tsc > descriptors->first ? tsc
									     : descriptors->first,
					  .pid = pid,
					  .fd = fd};
	const size_t n = up_to(descriptors, &key);
	const struct ip_descriptor *d = n ? &descriptors->items[n - 1] : NULL;

	d = d && d->pid == pid && d->fd == fd ? d : NULL;
	if (descriptors->inherited)
		return ip_inherited_find(descriptors->inherited, descriptors, d, pid, fd, key.from);
	return d && key.from < d->to ? d : NULL;
}

enum ip_wait_kind ip_descriptors_kind(const struct ip_descriptors *descriptors, uint32_t pid,
				      int32_t fd, uint64_t tsc)
{
	const struct ip_descriptor *d = ip_descriptors_find(descriptors, pid, fd, tsc);

	if (d)
		return d->kind;
	return descriptors->births ? ip_descriptor_births_kind(descriptors->births, pid, fd, tsc)
				   : IP_WAIT_OTHER;
}
