/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace directory.
 */
#include "hotpatcher/trace.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/squeeze.h"
#include "hotpatcher/trace_internal.h"

/* Whether path is a directory that we may move away: a trace of ours, or empty. */
static bool is_trace_or_empty(const char *path)
{
	_cleanup_closedir_ DIR *dir = NULL;
	_cleanup_free_ char *session = NULL;
	struct dirent *entry;

	if (asprintf(&session, "%s/%s", path, IP_TRACE_SESSION) >= 0 && access(session, F_OK) == 0)
		return true;
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			return false;
	return dir;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static int make_room(const char *dir, bool *ret_moved)
{
	_cleanup_free_ char *old = NULL;
	struct stat st;

	*ret_moved = false;
	if (lstat(dir, &st) < 0)
		return 0;
	if (!S_ISDIR(st.st_mode) || !is_trace_or_empty(dir))
		return ip_error("%s exists and is not a trace of iprobe: name another directory with -o",
				dir);
	if (ip_journal_is_locked(dir))
		return ip_error("%s is being written by another iprobe: name another directory with -o", dir);
	if (asprintf(&old, "%s.old", dir) < 0)
		return ip_error("out of memory");
	if (lstat(old, &st) == 0) {
		if (!S_ISDIR(st.st_mode) || !is_trace_or_empty(old))
			return ip_error(
				"%s exists and is not a trace of iprobe: move it away, or name another "
				"directory with -o",
				old);
		if (ip_journal_is_locked(old))
			return ip_error(
				"%s is being written by another iprobe: name another directory with -o", old);
		if (nftw(old, remove_entry, 16, FTW_DEPTH | FTW_PHYS) < 0)
			return ip_error_errno("cannot remove %s", old);
	}
	if (rename(dir, old) < 0)
		return ip_error_errno("cannot keep %s as %s", dir, old);
	*ret_moved = true;
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

/* One descriptor a stream: as many as the hard limit gives. */
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
		trace->dirfd = -1;
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

int ip_trace_create(const char *dir, pid_t pid, const char *command, const struct ip_clock_reading *start,
		    struct ip_trace **ret)
{
	struct ip_trace *trace;
	bool moved;

	if (make_room(dir, &moved) < 0)
		return -1;
	trace = ip_trace_new(dir);
	if (!trace)
		return -1;
	trace->moved_old = moved;
	trace->command = strdup(command);
	trace->pid = pid;
	trace->start = *start;
	if (!trace->command) {
		ip_trace_close(trace);
		return ip_error("out of memory");
	}
	if (mkdir(dir, 0777) == 0)
		trace->dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (trace->dirfd < 0 || mkdirat(trace->dirfd, IP_TRACE_SUBDIR, 0777) < 0) {
		ip_error_errno("cannot make the trace directory %s", dir);
		ip_trace_discard(trace);
		return -1;
	}
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
	for (size_t i = 0; i < trace->nselections; i++)
		free(trace->selections[i]);
	ip_journal_close(trace->journal);
	ip_squeezer_destroy(trace->squeezer);
	ip_rotation_destroy(trace->rotation);
	free(trace->selections);
	free(trace->streams);
	free(trace->labels);
	free(trace->modules);
	free(trace->known);
	free(trace->text);
	free(trace->ending);
	free(trace->dir);
	free(trace->command);
	free(trace);
}

void ip_trace_discard(struct ip_trace *trace)
{
	_cleanup_free_ char *old = NULL;

	if (!trace)
		return;
	if (trace->dirfd >= 0)
		nftw(trace->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	if (trace->moved_old && asprintf(&old, "%s.old", trace->dir) >= 0)
		rename(old, trace->dir); /* fails where the directory could not be removed: then both stay */
	ip_trace_close(trace);
}

int ip_trace_compress(struct ip_trace *trace)
{
	trace->squeezer = ip_squeezer_create();
	return trace->squeezer ? 0 : -1;
}

bool ip_trace_compresses(const struct ip_trace *trace)
{
	return trace->squeezer;
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

const char *ip_trace_dir(const struct ip_trace *trace)
{
	return trace->dir;
}
