/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes another trace directory for the same session.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "trace_writer/writer_private.h"

static int copy_file(const struct ip_trace *from, const struct ip_trace *to, const char *name)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int in = -1, out = -1;
	struct stat st;

	if (asprintf(&path, "%s/%s", IP_TRACE_SUBDIR, name) < 0)
		return ip_error("out of memory");
	in = openat(from->dirfd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	out = ip_file_make(to->dirfd, path, O_WRONLY);
	if (in < 0 || out < 0 || fstat(in, &st) < 0)
		return ip_error_errno("cannot copy %s/%s to %s", from->dir, path, to->dir);
	for (off_t done = 0; done < st.st_size;)
		if (sendfile(out, in, &done, st.st_size - done) <= 0)
			return ip_error_errno("cannot write %s/%s", to->dir, path);
	return 0;
}

/* Copies the copies of the probe lists. */
static int copy_lists(const struct ip_trace *from, const struct ip_trace *to)
{
	int fd = ip_dir_open(from->dirfd, IP_TRACE_SUBDIR);
	_cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!dir)
		return ip_error_errno("cannot read %s/%s", from->dir, IP_TRACE_SUBDIR);
	while ((entry = readdir(dir))) {
		const char *end = strrchr(entry->d_name, '.');

		if (end && !strcmp(end, ".probes") && copy_file(from, to, entry->d_name) < 0)
			return -1;
	}
	return 0;
}

static int copy_labels(const struct ip_trace *from, struct ip_trace *to)
{
	size_t capacity = 1;

	while (capacity < from->nlabels) /* the array doubles at powers of two */
		capacity *= 2;
	to->labels = calloc(capacity, sizeof(*to->labels));
	if (!to->labels)
		return ip_error("out of memory");
	to->label_text = malloc(from->label_size + 1);
	if (!to->label_text)
		return ip_error("out of memory");
	if (from->nlabels) {
		memcpy(to->labels, from->labels, from->nlabels * sizeof(*to->labels));
		memcpy(to->label_text, from->label_text, from->label_size);
	}
	to->nlabels = from->nlabels;
	to->label_size = from->label_size;
	to->label_room = from->label_size + 1;
	return 0;
}

/* Whether the new directory would take the place of the session's own. The directory at NAME
 * becomes NAME.old, and the directory at NAME.old is removed: neither may be the session's own. */
static bool is_in_the_way(const struct ip_trace *trace, const struct ip_dir_place *place)
{
	char old[NAME_MAX + 1];

	return ip_dir_is_at(place->parent, place->name, trace->dirfd) ||
	       (snprintf(old, sizeof(old), "%s.old", place->name) < (int)sizeof(old) &&
		ip_dir_is_at(place->parent, old, trace->dirfd));
}

static int copy_threads(const struct ip_trace *from, struct ip_trace *to)
{
	for (; to->nthreads < from->nthreads; to->nthreads++) {
		if (ip_array_grow(&to->threads, to->nthreads, sizeof(*to->threads)) < 0)
			return -1;
		to->threads[to->nthreads] = from->threads[to->nthreads];
	}
	return 0;
}

int ip_trace_clone(const struct ip_trace *trace, struct ip_dir_place *place, struct ip_trace **ret)
{
	struct ip_trace *clone;

	if (is_in_the_way(trace, place)) {
		ip_dir_place_close(place);
		return ip_error(
			"pid %d: its session itself writes to %s: name another directory with -o",
			trace->pid, trace->dir);
	}
	if (ip_trace_create_at(place, place->name, trace->pid, trace->command, &trace->start,
			       &clone) < 0)
		return -1;
	if (trace->codec && ip_trace_compress(clone) < 0) {
		ip_trace_discard(clone);
		return -1;
	}
	fflush(trace->text_out);
	fwrite(trace->text, 1, trace->text_size, clone->text_out);
	clone->live_tsc = trace->live_tsc;
	if (copy_labels(trace, clone) < 0 || copy_threads(trace, clone) < 0 ||
	    copy_lists(trace, clone) < 0) {
		ip_trace_discard(clone);
		return -1;
	}
	*ret = clone;
	return 0;
}
