/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps segments in memory. What a writer needs is counted: a segment goes when neither the list
 * nor a writer has it.
 */
#include "kernel_trace/segments/kernel_segments.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/dir.h"
#include "common/error.h"

#define SHARES 8u /* segments that the memory has room for */

struct piece {
	struct piece *next;
	size_t size;
	char path[48];
	uint8_t data[];
};

struct segment {
	struct segment *next; /* the one after it in time */
	struct piece *first, *last;
	uint64_t bytes;
	uint32_t number;
	unsigned users; /* the list, and whoever writes it */
};

struct ip_kernel_segments {
	pthread_mutex_t lock;
	struct segment *oldest, *newest;
	uint64_t most, bytes;
};

static void leave(struct segment *s)
{
	if (--s->users)
		return;
	while (s->first) {
		struct piece *p = s->first;

		s->first = p->next;
		free(p);
	}
	free(s);
}

struct ip_kernel_segments *ip_kernel_segments_create(uint64_t most)
{
	struct ip_kernel_segments *s = calloc(1, sizeof(*s));

	if (s)
		s->oldest = s->newest = calloc(1, sizeof(*s->newest));
	if (!s || !s->newest) {
		free(s);
		ip_error("out of memory");
		return NULL;
	}
	s->most = most;
	s->newest->users = 1;
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

/* Drops the oldest segments that have no room. The newest one stays. */
static void trim(struct ip_kernel_segments *s)
{
	while (s->bytes > s->most && s->oldest != s->newest) {
		struct segment *gone = s->oldest;

		s->oldest = gone->next;
		s->bytes -= gone->bytes;
		leave(gone);
	}
}

void ip_kernel_segments_destroy(struct ip_kernel_segments *s)
{
	if (!s)
		return;
	s->most = 0;
	trim(s);
	leave(s->newest);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

int ip_kernel_segments_add(struct ip_kernel_segments *s, const char *path, const void *data,
			   size_t size)
{
	struct piece *p = malloc(sizeof(*p) + size);

	if (!p || strlen(path) >= sizeof(p->path)) {
		free(p);
		return ip_error("out of memory");
	}
	p->next = NULL;
	p->size = size;
	strcpy(p->path, path);
	memcpy(p->data, data, size);
	pthread_mutex_lock(&s->lock);
	if (s->newest->last)
		s->newest->last->next = p;
	else
		s->newest->first = p;
	s->newest->last = p;
	s->newest->bytes += sizeof(*p) + size;
	s->bytes += sizeof(*p) + size;
	trim(s);
	pthread_mutex_unlock(&s->lock);
	return 0;
}

bool ip_kernel_segments_is_full(const struct ip_kernel_segments *s)
{
	return s->newest->bytes >= s->most / SHARES;
}

uint32_t ip_kernel_segments_begin(struct ip_kernel_segments *s)
{
	struct segment *next = calloc(1, sizeof(*next));

	/* without memory for a new one the last one becomes larger */
	if (!next)
		return s->newest->number;
	next->users = 1;
	next->number = s->newest->number + 1;
	pthread_mutex_lock(&s->lock);
	s->newest->next = next;
	s->newest = next;
	trim(s);
	pthread_mutex_unlock(&s->lock);
	return next->number;
}

uint32_t ip_kernel_segments_first(const struct ip_kernel_segments *s)
{
	return s->oldest->number;
}

static int write_piece(int dir, const struct piece *p)
{
	_cleanup_close_ int fd = ip_file_make(dir, p->path, O_WRONLY | O_APPEND);
	size_t done = 0;

	if (fd < 0 && errno == EEXIST)
		fd = openat(dir, p->path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return ip_error_errno("cannot make %s of the trace", p->path);
	while (done < p->size) {
		ssize_t n = write(fd, p->data + done, p->size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return ip_error_errno("cannot write %s of the trace", p->path);
		done += n;
	}
	return 0;
}

int ip_kernel_segments_write(struct ip_kernel_segments *s, int dir, uint64_t most,
			     uint32_t *ret_first, uint64_t *ret_bytes)
{
	struct segment *first, *last, *next;
	const struct piece *end; /* of the last segment, which may grow */
	uint64_t bytes;
	int ret = 0, error;

	pthread_mutex_lock(&s->lock);
	first = s->oldest;
	last = s->newest;
	for (bytes = s->bytes; bytes > most && first != last; first = first->next)
		bytes -= first->bytes;
	end = last->last;
	for (struct segment *i = first; i; i = i->next)
		i->users++;
	pthread_mutex_unlock(&s->lock);
	*ret_first = first->number;
	*ret_bytes = 0;
	if (bytes > most) /* not even the newest one has room */
		end = first == last ? NULL : end;
	for (struct segment *i = first; ret == 0 && i; i = i == last ? NULL : i->next) {
		if (i == last && !end)
			break;
		for (const struct piece *p = i->first; ret == 0 && p; p = p->next) {
			ret = write_piece(dir, p);
			*ret_bytes += p->size;
			if (p == end)
				break;
		}
	}
	error = errno;
	pthread_mutex_lock(&s->lock);
	for (struct segment *i = first; i; i = next) {
		next = i == last ? NULL : i->next;
		leave(i);
	}
	pthread_mutex_unlock(&s->lock);
	errno = error;
	return ret;
}
