/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See list_output.h.
 */
#include "cli/syscalls/list_output.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/error.h"
#include "common/interrupted.h"
#include "common/now.h"

#define LOOK_MS	    100 /* between looks whether the user wants the end */
#define PATIENCE_NS 1000000000ull

FILE *cli_list_output_file(struct cli_list_output *o)
{
	if (!o->file)
		o->file = open_memstream(&o->text, &o->size);
	if (!o->file)
		ip_error("out of memory");
	return o->file;
}

/* Waits until stdout takes something. */
static int wait_for_room(void)
{
	struct pollfd fd = {.fd = STDOUT_FILENO, .events = POLLOUT};
	uint64_t since = 0;

	/* an error that poll() has is one of write() as well */
	while (poll(&fd, 1, LOOK_MS) == 0) {
		if (!ip_interrupted)
			continue;
		if (!since)
			since = ip_now_ns();
		if (ip_now_ns() - since > PATIENCE_NS)
			return ip_error("nobody reads stdout: the rest of the list is left out");
	}
	return 0;
}

static int write_text(const char *text, size_t size)
{
	while (size) {
		ssize_t n;

		if (wait_for_room() < 0)
			return -1;
		/* a pipe that has room takes that much at once */
		n = write(STDOUT_FILENO, text, size < PIPE_BUF ? size : PIPE_BUF);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return ip_error_errno("cannot write to stdout");
		text += n > 0 ? n : 0;
		size -= n > 0 ? n : 0;
	}
	return 0;
}

int cli_list_output_write(struct cli_list_output *o)
{
	int ret = 0;

	if (!o->file || o->failed)
		return 0;
	if (fflush(o->file) != 0 || ferror(o->file))
		ret = ip_error("out of memory");
	else
		ret = write_text(o->text, o->size);
	cli_list_output_clear(o);
	o->failed = ret < 0;
	return ret;
}

void cli_list_output_clear(struct cli_list_output *o)
{
	if (o->file)
		fclose(o->file);
	free(o->text);
	*o = (struct cli_list_output){0};
}
