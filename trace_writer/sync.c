/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the session file and the metadata to disk. Each is written whole or not at all.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "trace_writer/writer_private.h"

#define RESERVE	   65536u /* bytes of the disk, for the last lines */
#define LABEL_ROOM 128u	  /* bytes of the metadata, for one label */

static void put_line(FILE *out, const char *key, const char *value)
{
	fprintf(out, "%s\t", key);
	ip_trace_put_value(out, value);
	putc('\n', out);
}

/* The id of this boot. Times of the TSC of two traces can be compared if they have the same. */
static void put_boot(FILE *out)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	char id[64];

	if (!file || !fgets(id, sizeof(id), file))
		return;
	id[strcspn(id, "\n")] = '\0';
	if (*id)
		put_line(out, "boot", id);
}

static FILE *open_new(struct ip_trace *trace, const char *name, char **ret_temporary)
{
	int fd;
	FILE *out;

	if (asprintf(ret_temporary, "%s.new", name) < 0) {
		*ret_temporary = NULL;
		return NULL;
	}
	unlinkat(trace->dirfd, *ret_temporary, 0); /* left by an iprobe that was killed */
	fd = ip_file_make(trace->dirfd, *ret_temporary, O_WRONLY);
	out = fd < 0 ? NULL : fdopen(fd, "w");
	if (!out && fd >= 0)
		close(fd);
	return out;
}

/* Flushes and checks the temporary file, and renames it to name. */
static int commit(struct ip_trace *trace, FILE *out, const char *temporary, const char *name)
{
	bool bad = ferror(out) | (fflush(out) != 0);
	int error = errno;

	fclose(out);
	if (!bad && renameat(trace->dirfd, temporary, trace->dirfd, name) == 0)
		return 0;
	error = bad ? error : errno;
	unlinkat(trace->dirfd, temporary, 0);
	errno = error;
	return ip_error_errno("cannot write %s/%s", trace->dir, name);
}

/* Writes the lines that are known from the beginning. */
static void put_head(const struct ip_trace *trace, FILE *out)
{
	struct utsname u = {0};
	char kernel[sizeof(u.sysname) + sizeof(u.release) + sizeof(u.version) + sizeof(u.machine) +
		    8];

	uname(&u);
	snprintf(kernel, sizeof(kernel), "%s %s %s %s", u.sysname, u.release, u.version, u.machine);
	fprintf(out, "iprobe-session\t1\n");
	put_line(out, "host", u.nodename);
	put_line(out, "kernel", kernel);
	put_boot(out);
	put_line(out, "command", trace->command);
	fprintf(out, "pid\t%d\nstart_realtime\t%lu\ntsc_start\t%lu\n", trace->pid,
		trace->start.realtime_ns, trace->start.tsc);
	if (trace->tsc_end)
		fprintf(out, "tsc_end\t%lu\n", trace->tsc_end);
	if (trace->live_tsc)
		fprintf(out, "live\t%lu\n", trace->live_tsc);
	if (trace->idle_tsc)
		fprintf(out, "idle\t%lu\n", trace->idle_tsc);
	fprintf(out, "tsc_hz\t%lu\nends\tpackets\n", trace->hz);
}

char *ip_trace_head(struct ip_trace *trace, size_t *ret_size)
{
	struct ip_clock_reading now;
	char *text = NULL;
	FILE *out = open_memstream(&text, ret_size);

	if (!out)
		return NULL;
	trace->hz = ip_clock_hz(&trace->start, &now, 2000000);
	put_head(trace, out);
	if (fclose(out) != 0)
		free(ip_steal_ptr(text));
	return text;
}

const char *ip_trace_text(struct ip_trace *trace, size_t *ret_size)
{
	fflush(trace->text_out);
	*ret_size = trace->text_size;
	return trace->text;
}

static int write_session(struct ip_trace *trace)
{
	_cleanup_free_ char *temporary = NULL;
	FILE *out = open_new(trace, IP_TRACE_SESSION, &temporary);

	if (!out)
		return ip_error_errno("cannot write %s/%s", trace->dir, IP_TRACE_SESSION);
	put_head(trace, out);
	if (fflush(trace->text_out) != 0 || ferror(trace->text_out)) {
		fclose(out);
		unlinkat(trace->dirfd, temporary, 0);
		return ip_error("out of memory for the lines of %s/%s", trace->dir,
				IP_TRACE_SESSION);
	}
	if (trace->text_size)
		fwrite(trace->text, 1, trace->text_size, out);
	if (trace->more_stops.n)
		fprintf(out, "more_stops\t%lu\nmore_stops_ns\t%lu\nmore_stops_longest_ns\t%lu\n",
			trace->more_stops.n, trace->more_stops.ns, trace->more_stops.longest_ns);
	/* a recording that was resumed has a line of each part */
	if (trace->looks.n)
		fprintf(out, "looks\t%zu\t%lu\t%lu\n", trace->looks.n, trace->looks.ns,
			trace->looks.longest_ns);
	if (trace->ending)
		fputs(trace->ending, out);
	return commit(trace, out, temporary, IP_TRACE_SESSION);
}

static int write_metadata(struct ip_trace *trace)
{
	_cleanup_free_ char *temporary = NULL;
	char buffer[65536]; /* of out, which is closed before it goes */
	FILE *out;
	struct utsname u = {0};
	struct ip_ctf_metadata m = {.tsc_hz = trace->hz,
				    .tsc_start = trace->start.tsc,
				    .start_realtime_ns = trace->start.realtime_ns,
				    .host = u.nodename,
				    .command = trace->command,
				    .labels = trace->labels,
				    .nlabels = trace->nlabels,
				    .label_text = trace->label_text,
				    .threads = trace->threads,
				    .nthreads = trace->nthreads};

	/* The temporary file lies in the sub-directory: a CTF reader fails on unknown files beside
	 * the streams. */
	out = open_new(trace, IP_TRACE_SUBDIR "/metadata", &temporary);
	if (!out)
		return ip_error_errno("cannot write %s/metadata", trace->dir);
	setvbuf(out, buffer, _IOFBF, sizeof(buffer));
	uname(&u); /* m.host points into u */
	memcpy(m.uuid, trace->uuid, sizeof(m.uuid));
	if (ip_ctf_metadata_write(out, &m) < 0) {
		fclose(out);
		unlinkat(trace->dirfd, temporary, 0);
		return -1;
	}
	return commit(trace, out, temporary, "metadata");
}

int ip_trace_save(struct ip_trace *trace, const char *name, const void *data, size_t size)
{
	_cleanup_free_ char *temporary = NULL;
	FILE *out = open_new(trace, name, &temporary);

	if (!out)
		return ip_error_errno("cannot write %s/%s", trace->dir, name);
	fwrite(data, 1, size, out);
	return commit(trace, out, temporary, name);
}

int ip_trace_sync(struct ip_trace *trace)
{
	struct ip_clock_reading now;

	trace->hz = ip_clock_hz(&trace->start, &now, 2000000);
	fflush(trace->text_out);
	trace->synced_size = trace->text_size;
	if (trace->journal)
		ip_journal_reserve(trace->journal,
				   RESERVE + 2 * trace->text_size + LABEL_ROOM * trace->nlabels);
	return write_metadata(trace) < 0 || write_session(trace) < 0 ? -1 : 0;
}

int ip_trace_sync_new(struct ip_trace *trace)
{
	fflush(trace->text_out);
	return trace->text_size == trace->synced_size ? 0 : ip_trace_sync(trace);
}

int ip_trace_finish(struct ip_trace *trace, uint64_t events, uint64_t lost, uint64_t unserved,
		    uint64_t invalid, const char *reason)
{
	struct ip_clock_reading now;

	ip_clock_read(&now);
	trace->tsc_end = now.tsc;
	trace->hz = ip_clock_hz(&trace->start, &now, 50000000);
	if (asprintf(&trace->ending,
		     "events\t%lu\nlost\t%lu\nunserved\t%lu\ninvalid\t%lu\nend\t%s\n", events, lost,
		     unserved, invalid, reason) < 0) {
		trace->ending = NULL;
		return ip_error("out of memory");
	}
	/* No other iprobe needs to go on with the trace. An open descriptor would keep the space
	 * that was reserved. */
	if (trace->journal && unlinkat(trace->dirfd, IP_TRACE_JOURNAL, 0) == 0) {
		ip_journal_close(trace->journal);
		trace->journal = NULL;
	}
	return write_metadata(trace) < 0 || write_session(trace) < 0 ? -1 : 0;
}

uint64_t ip_trace_hz(const struct ip_trace *trace)
{
	return trace->hz;
}
