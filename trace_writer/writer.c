/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace directory. See writer.h.
 */
#include "trace_writer/writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/trace/packet_codec.h"
#include "trace_writer/place.h"
#include "trace_writer/writer_private.h"

char *ip_proc_command(pid_t pid)
{
	char path[64], *text = NULL;
	size_t used = 0;
	_cleanup_fclose_ FILE *file = NULL;
	int c;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	file = fopen(path, "re");
	text = calloc(1, 4097);
	if (!text)
		abort();
	while (file && used < 4096 && (c = getc(file)) != EOF)
		text[used++] = c ? c : ' ';
	while (used && text[used - 1] == ' ')
		text[--used] = '\0';
	return text;
}

/* Appends to the body of the session file. open_memstream() would write to all of the room that it
 * makes, and copy what it has. */
static ssize_t append(void *cookie, const char *data, size_t size)
{
	struct ip_trace *trace = cookie;

	if (size > trace->text_room - trace->text_size) {
		const size_t room = 2 * trace->text_room + size;
		char *text = realloc(trace->text, room);

		if (!text)
			return 0;
		trace->text = text;
		trace->text_room = room;
	}
	memcpy(trace->text + trace->text_size, data, size);
	trace->text_size += size;
	return size;
}

struct ip_trace *ip_trace_new(const char *dir)
{
	struct ip_trace *trace = calloc(1, sizeof(*trace));

	if (trace) {
		trace->dirfd = trace->old = trace->place.parent = -1;
		trace->dir = strdup(dir);
		trace->known = calloc(1, (IP_NUMBER_MAX + 8) / 8);
		trace->text_out = fopencookie(trace, "w", (cookie_io_functions_t){.write = append});
		if (trace->dir && trace->known && trace->text_out) {
			ip_descriptor_limit_raise(); /* every stream needs one */
			return trace;
		}
	}
	ip_trace_close(trace);
	ip_error("out of memory");
	return NULL;
}

int ip_trace_create(const char *dir, pid_t pid, const char *command,
		    const struct ip_clock_reading *start, struct ip_trace **ret)
{
	struct ip_dir_place place;

	return ip_dir_locate(dir, &place) < 0
		       ? -1
		       : ip_trace_create_at(&place, dir, pid, command, start, ret);
}

int ip_trace_create_at(struct ip_dir_place *place, const char *dir, pid_t pid, const char *command,
		       const struct ip_clock_reading *start, struct ip_trace **ret)
{
	struct ip_trace *trace = ip_trace_new(dir);
	int inner;

	if (!trace) {
		ip_dir_place_close(place);
		return -1;
	}
	trace->place = *place;
	place->parent = -1;
	if (ip_trace_place_take(dir, &trace->place, &trace->old) < 0) {
		ip_trace_close(trace);
		return -1;
	}
	trace->command = strdup(command);
	trace->pid = pid;
	trace->start = *start;
	if (!trace->command) {
		ip_trace_discard(trace);
		return ip_error("out of memory");
	}
	trace->dirfd = ip_dir_make(trace->place.parent, trace->place.name);
	inner = trace->dirfd < 0 ? -1 : ip_dir_make(trace->dirfd, IP_TRACE_SUBDIR);
	if (inner < 0) {
		ip_error_errno("cannot make the trace directory %s", dir);
		ip_trace_discard(trace);
		return -1;
	}
	close(inner);
	if (getrandom(trace->uuid, sizeof(trace->uuid), 0) != sizeof(trace->uuid))
		memcpy(trace->uuid, start, sizeof(trace->uuid));
	*ret = trace;
	return 0;
}

void ip_trace_close(struct ip_trace *trace)
{
	if (!trace)
		return;
	ip_trace_close_streams(trace);
	for (size_t i = 0; i < trace->nmodules; i++)
		free(trace->modules[i]);
	if (trace->text_out)
		fclose(trace->text_out);
	if (trace->dirfd >= 0)
		close(trace->dirfd);
	if (trace->old >= 0)
		close(trace->old);
	ip_dir_place_close(&trace->place);
	for (size_t i = 0; i < trace->nselections; i++)
		free(trace->selections[i]);
	ip_journal_close(trace->journal);
	ip_packet_codec_destroy(trace->codec);
	ip_rotation_destroy(trace->rotation);
	free(trace->selections);
	free(trace->streams);
	free(trace->labels);
	free(trace->label_text);
	free(trace->threads);
	free(trace->modules);
	free(trace->known);
	free(trace->silent);
	free(trace->text);
	free(trace->ending);
	free(trace->dir);
	free(trace->command);
	free(trace);
}

void ip_trace_discard(struct ip_trace *trace)
{
	_cleanup_free_ char *why = NULL;

	if (!trace)
		return;
	why = strdup(ip_error_message());
	if (trace->dirfd >= 0)
		ip_trace_dir_remove(trace->place.parent, trace->place.name, trace->dirfd,
				    trace->dir);
	ip_trace_place_give_back(&trace->place, trace->old);
	ip_trace_close(trace);
	if (why)
		ip_error("%s", why); /* the error that has led here */
}

int ip_trace_compress(struct ip_trace *trace)
{
	trace->codec = ip_packet_codec_create();
	return trace->codec ? 0 : -1;
}

bool ip_trace_compresses(const struct ip_trace *trace)
{
	return trace->codec;
}

uint64_t ip_trace_ns(const struct ip_trace *trace, uint64_t tsc)
{
	if (!trace->hz || tsc < trace->start.tsc)
		return 0;
	return (unsigned __int128)(tsc - trace->start.tsc) * 1000000000 / trace->hz;
}

uint64_t ip_trace_bytes(const struct ip_trace *trace)
{
	return trace->bytes;
}

void ip_trace_share_limit(struct ip_trace *trace, uint64_t *written)
{
	trace->shared_bytes = written;
}

uint64_t ip_trace_limited_bytes(const struct ip_trace *trace)
{
	return trace->shared_bytes ? __atomic_load_n(trace->shared_bytes, __ATOMIC_RELAXED)
				   : trace->bytes;
}

int ip_trace_dirfd(const struct ip_trace *trace)
{
	return trace->dirfd;
}
