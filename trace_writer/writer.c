/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace directory. See writer.h.
 */
#include "trace_writer/writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/trace/packet_codec.h"
#include "common/trace/trace_members.h"
#include "trace_writer/writer_private.h"

/* Checks that no living iprobe writes the trace, or that of one of its members. Returns -1 with an
 * error. */
static int check_unlocked(int fd, const char *path)
{
	struct ip_trace_members members;
	bool locked = ip_journal_is_locked(fd);
	int ret = ip_trace_members_read(fd, path, &members);

	for (size_t i = 0; !locked && ret == 0 && i < members.n; i++) {
		_cleanup_close_ int member = ip_trace_member_open(fd, members.items[i].name);

		locked = member >= 0 && ip_journal_is_locked(member);
		if (member < 0 && errno != ENOENT)
			ret = ip_error_errno("cannot open %s/%s", path, members.items[i].name);
	}
	ip_trace_members_clear(&members);
	if (locked)
		return ip_error(
			"%s is being written by another iprobe: name another directory with -o",
			path);
	return ret < 0 ? -1 : 0;
}

/* Opens the directory of that name. It must be a trace of iprobe that no living iprobe writes, or
 * empty. Returns -1 if there is nothing, -2 with an error. */
static int open_trace(int parent, const char *name, const char *path)
{
	_cleanup_close_ int fd = ip_dir_open(parent, name);

	if (fd < 0 && errno == ENOENT)
		return -1;
	if (fd < 0 && errno == EPERM)
		ip_error("%s is another user's: name another directory with -o", path);
	else if (fd < 0 || !ip_trace_dir_is_one(fd))
		ip_error("%s exists and is not a trace of iprobe: name another directory with -o",
			 path);
	else if (check_unlocked(fd, path) == 0)
		return ip_steal_fd(&fd);
	return -2;
}

/* Renames the existing directory to DIR.old and removes the directory that was DIR.old. Both are
 * checked before either is changed. *ret_moved: a descriptor of the renamed directory, or -1. */
static int make_room(const char *dir, const struct ip_dir_place *place, int *ret_moved)
{
	_cleanup_free_ char *old = NULL;
	_cleanup_close_ int there = open_trace(place->parent, place->name, dir), before = -1;
	char name[NAME_MAX + 1];

	*ret_moved = -1;
	if (there < 0)
		return there + 1;
	if (asprintf(&old, "%s.old", dir) < 0) {
		old = NULL;
		return ip_error("out of memory");
	}
	if (snprintf(name, sizeof(name), "%s.old", place->name) >= (int)sizeof(name))
		return ip_error("%s: the name is too long", old);
	before = open_trace(place->parent, name, old);
	if (before < -1 ||
	    (before >= 0 && (ip_trace_dir_check(before, old) < 0 ||
			     ip_trace_dir_remove(place->parent, name, before, old) < 0)))
		return -1;
	if (ip_dir_rename(place->parent, place->name, name) < 0)
		return ip_error_errno("cannot keep %s as %s", dir, old);
	if (!ip_dir_is_at(place->parent, name, there)) {
		/* it is not the directory that was checked: it gets its name back */
		ip_dir_rename(place->parent, name, place->name);
		return ip_error("%s: another has been put in its place meanwhile", dir);
	}
	*ret_moved = ip_steal_fd(&there);
	return 0;
}

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

/* Every stream needs a descriptor: raises the limit to the hard limit. */
static void raise_descriptor_limit(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
}

struct ip_trace *ip_trace_new(const char *dir)
{
	struct ip_trace *trace = calloc(1, sizeof(*trace));

	if (trace) {
		trace->dirfd = trace->old = trace->place.parent = -1;
		trace->dir = strdup(dir);
		trace->known = calloc(1, (IP_NUMBER_MAX + 8) / 8);
		trace->text_out = open_memstream(&trace->text, &trace->text_size);
		if (trace->dir && trace->known && trace->text_out) {
			raise_descriptor_limit();
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
	if (make_room(dir, &trace->place, &trace->old) < 0) {
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
	for (size_t i = 0; i < trace->nlabels; i++)
		free((char *)trace->labels[i].label);
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
	char old[NAME_MAX + 1];

	if (!trace)
		return;
	why = strdup(ip_error_message());
	if (trace->dirfd >= 0)
		ip_trace_dir_remove(trace->place.parent, trace->place.name, trace->dirfd,
				    trace->dir);
	/* if the directory could not be removed, both directories stay */
	if (trace->old >= 0 &&
	    snprintf(old, sizeof(old), "%s.old", trace->place.name) < (int)sizeof(old) &&
	    ip_dir_is_at(trace->place.parent, old, trace->old))
		ip_dir_rename(trace->place.parent, old, trace->place.name);
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

int ip_trace_dirfd(const struct ip_trace *trace)
{
	return trace->dirfd;
}
