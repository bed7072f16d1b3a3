/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the results of fperf go. See fperf_output.h.
 */
#include "cli/fperf/fperf_output.h"

#include <errno.h>
#include <unistd.h>

#include "common/dir.h"
#include "common/error.h"
#include "common/print.h"

int fperf_output_open(const struct fperf_options *o, struct fperf_output *ret)
{
	int fd;

	*ret = (struct fperf_output){0};
	if (!o->output)
		return 0;
	fd = ip_file_open_output(o->output, &ret->made);
	if (fd < 0)
		return -1;
	ret->file = fdopen(fd, "w");
	return ret->file ? 0 : ip_error_errno("cannot write %s", o->output);
}

void fperf_output_close(const struct fperf_options *o, struct fperf_output *output, bool written)
{
	if (output->file && output->made && !written)
		ip_file_unmake(o->output, fileno(output->file));
	if (output->file)
		fclose(output->file);
}

int fperf_output_print(const struct fperf_options *o, struct fperf_output *output,
		       struct ip_fperf *f, const char *end)
{
	FILE *out = output->file ? output->file : stdout;

	if (output->file && ftruncate(fileno(out), 0) < 0 && errno != EINVAL)
		return ip_error_errno("cannot write %s", o->output);
	if (o->program && o->format == FPERF_TABLE)
		ip_print(out, "pid %d (%s)\n", o->pid, o->program);
	fperf_print(out, f, o->format, o->limit, end, o->pid);
	if (o->program && o->format == FPERF_TABLE)
		ip_print(out, "\n");
	if (fflush(out) != 0)
		return ip_error_errno("cannot write %s", o->output ? o->output : "to stdout");
	/* only the stream knows whether something could not be written before the last fflush() */
	if (ferror(out))
		return ip_error("cannot write %s: a part of it is missing",
				o->output ? o->output : "to stdout");
	return 0;
}
