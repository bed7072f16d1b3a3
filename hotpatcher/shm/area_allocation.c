/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocating memory of an area beside other work. See area_allocation.h.
 */
#include "hotpatcher/shm/area_allocation.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#define SHORT (1u << 20) /* bytes that are allocated sooner than a thread is made */

struct ip_area_allocation {
	int fd, error; /* error: errno; 0: none */
	uint64_t offset, size;
	pthread_t thread;
};

/* Returns 0, or errno. */
static int allocate(int fd, uint64_t offset, uint64_t size)
{
	return fallocate(fd, 0, offset, size) < 0 ? errno : 0;
}

static void *run(void *context)
{
	struct ip_area_allocation *a = context;

	a->error = allocate(a->fd, a->offset, a->size);
	return NULL;
}

static int begin(struct ip_area_allocation *a)
{
	sigset_t all, before;
	int error;

	sigfillset(&all); /* signals are for the main thread; here they would end fallocate() */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&a->thread, NULL, run, a);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

int ip_area_allocation_start(int fd, uint64_t offset, uint64_t size,
			     struct ip_area_allocation **ret)
{
	struct ip_area_allocation *a = size > SHORT ? calloc(1, sizeof(*a)) : NULL;

	*ret = NULL;
	if (a) {
		*a = (struct ip_area_allocation){.fd = fd, .offset = offset, .size = size};
		if (begin(a) == 0) {
			*ret = a;
			return 0;
		}
		free(a);
	}
	return allocate(fd, offset, size);
}

int ip_area_allocation_finish(struct ip_area_allocation *allocation)
{
	int error;

	if (!allocation)
		return 0;
	pthread_join(allocation->thread, NULL);
	error = allocation->error;
	free(allocation);
	return error;
}
