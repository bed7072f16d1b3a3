/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying a probe list into a trace. See list_copy.h.
 */
#include "trace_writer/list_copy.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"

#define SHORT (1u << 20) /* bytes that are written sooner than a thread is made */

struct ip_list_copy {
	int fd;
	const char *bytes;
	size_t size;
	char *name;
	int error; /* errno; 0: none */
	pthread_t thread;
};

/* Returns 0, or errno. */
static int write_all(int fd, const char *bytes, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = write(fd, bytes + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? errno : ENOSPC;
		done += n;
	}
	return 0;
}

static void *run(void *context)
{
	struct ip_list_copy *copy = context;

	copy->error = write_all(copy->fd, copy->bytes, copy->size);
	return NULL;
}

static int begin(struct ip_list_copy *copy)
{
	sigset_t all, before;
	int error;

	sigfillset(&all); /* signals are for the main thread */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&copy->thread, NULL, run, copy);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

static int tell(const char *name, int error)
{
	errno = error;
	return error ? ip_error_errno("cannot write %s", name) : 0;
}

int ip_list_copy_start(int fd, const void *bytes, size_t size, const char *name,
		       struct ip_list_copy **ret)
{
	_cleanup_close_ int own = fd;
	struct ip_list_copy *copy = size > SHORT ? calloc(1, sizeof(*copy)) : NULL;

	*ret = NULL;
	if (copy) {
		*copy = (struct ip_list_copy){
			.fd = fd, .bytes = bytes, .size = size, .name = strdup(name)};
		if (copy->name && begin(copy) == 0) {
			own = -1;
			*ret = copy;
			return 0;
		}
		free(copy->name);
		free(copy);
	}
	return tell(name, write_all(fd, bytes, size));
}

int ip_list_copy_finish(struct ip_list_copy *copy)
{
	int ret;

	pthread_join(copy->thread, NULL);
	ret = tell(copy->name, copy->error);
	close(copy->fd);
	free(copy->name);
	free(copy);
	return ret;
}
