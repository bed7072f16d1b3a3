/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of a trace while it is written: it is in DIR.XXXXXX, which is renamed at the end. Names
 * are looked up in open directories only (common/dir.h). The metadata and the files about the
 * modules are those of the whole trace, and so is the clock. The session file is that of the
 * whole trace, except for its totals and a line that tells the time that was kept. The streams
 * that are written are never compressed.
 */
#include "analysis/trim/trim_write.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/trace/trace_dir.h"

/* as the recorder's packets; the largest record fits into an empty one */
#define PACKET_WORDS 4095u
#define COPY_MAX     (1ull << 30)

struct ip_trim_writer {
	const struct ip_trace_reader *trace;
	char *dir;
	struct ip_dir_place place; /* of dir */
	/* name of the directory beside dir in which the part is written */
	char temporary[NAME_MAX + 1];
	int dirfd, from; /* from: the whole trace's directory */
	uint8_t uuid[16];
	FILE *out; /* current stream; NULL: it has no packet yet */
	uint32_t stream;
	/* Header of the current packet. seq_num: packets of the stream so far. */
	struct ip_packet_header header;
	uint64_t discarded; /* events lost in the stream so far */
	bool untold;	    /* there are losses that no packet tells yet */
	uint64_t told_at;   /* about when they happened */
	uint64_t latest;    /* time of the thread's packets so far; 0: it has none */
	uint64_t ts, sp;    /* those of the record before, where the packet has one */
	size_t n;
	uint64_t words[PACKET_WORDS + IP_PAYLOAD_HEAD + IP_PAYLOAD_MAX];
	struct ip_trim_result result;
};

static void destroy(struct ip_trim_writer *w)
{
	if (w->out)
		fclose(w->out);
	if (w->dirfd >= 0)
		close(w->dirfd);
	if (w->from >= 0)
		close(w->from);
	ip_dir_place_close(&w->place);
	free(w->dir);
	free(w);
}

void ip_trim_writer_discard(struct ip_trim_writer *w)
{
	_cleanup_free_ char *why = strdup(ip_error_message());

	if (w->dirfd >= 0)
		ip_trace_dir_remove(w->place.parent, w->temporary, w->dirfd, w->dir);
	destroy(w);
	if (why)
		ip_error("%s", why); /* reports the error that has led here */
}

/* Reads a whole file of the trace and puts a 0 after it. The caller frees it. Returns NULL with
 * an error. */
static char *read_file(const struct ip_trim_writer *w, const char *name, uint64_t *ret_size)
{
	_cleanup_free_ char *path = NULL, *text = NULL;
	_cleanup_close_ int fd = -1;

	if (asprintf(&path, "%s/%s", w->trace->dir, name) < 0) {
		path = NULL;
		ip_error("out of memory");
		return NULL;
	}
	fd = ip_open_regular_at(w->from, name, path, ret_size);
	if (fd < 0)
		return NULL;
	if (*ret_size > COPY_MAX) {
		ip_error("%s: too large to be a part of a trace", path);
		return NULL;
	}
	text = malloc(*ret_size + 1);
	if (!text) {
		ip_error("out of memory");
		return NULL;
	}
	if (ip_read_at(fd, path, 0, text, *ret_size) < 0)
		return NULL;
	text[*ret_size] = '\0';
	return ip_steal_ptr(text);
}

static FILE *open_in(struct ip_trim_writer *w, const char *name)
{
	int fd = ip_file_make(w->dirfd, name, O_WRONLY);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");

	if (!out && fd >= 0)
		close(fd);
	if (!out)
		ip_error_errno("cannot make %s/%s", w->dir, name);
	return out;
}

static int close_file(struct ip_trim_writer *w, FILE *out, const char *name)
{
	bool bad = ferror(out);

	bad |= fclose(out) != 0;
	return bad ? ip_error_errno("cannot write %s/%s", w->dir, name) : 0;
}

static int copy_file(struct ip_trim_writer *w, const char *name)
{
	uint64_t size;
	_cleanup_free_ char *text = read_file(w, name, &size);
	FILE *out;

	out = text ? open_in(w, name) : NULL;
	if (!out)
		return -1;
	fwrite(text, 1, size, out);
	return close_file(w, out, name);
}

/* Reads the UUID: packets name the metadata that describes them. */
static int read_uuid(struct ip_trim_writer *w)
{
	struct ip_stream *stream;
	struct ip_packet packet;
	int ret = 0;

	if (!w->trace->nstreams)
		return 0;
	if (ip_trace_reader_stream(w->trace, 0, &stream) < 0)
		return -1;
	ret = ip_stream_next_packet(stream, &packet);
	memcpy(w->uuid, ip_stream_uuid(stream), sizeof(w->uuid));
	ip_stream_close(stream);
	return ret < 0 ? -1 : 0;
}

/* iprobe can read a trace that has lost its metadata. */
static int copy_metadata(struct ip_trim_writer *w)
{
	struct stat st;

	return fstatat(w->from, "metadata", &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT
		       ? 0
		       : copy_file(w, "metadata");
}

/* Counts and histograms (common/trace/trace_format.h) are about the whole trace only. */
static bool is_whole(const struct ip_trace_reader *trace, const struct ip_trim_options *o)
{
	for (size_t i = 0; i < trace->nruns; i++)
		if (trace->runs[i].off)
			return false;
	return o->from <= trace->begin && o->to > trace->end && !o->tid && !o->pid &&
	       !o->selected && o->depth == SIZE_MAX;
}

/* Chooses the files that are copied, by name. The journal is only for an iprobe that continues
 * the recording. */
static bool is_wanted(const char *name, bool whole)
{
	size_t n = strlen(name);

	if (!strcmp(name, "counts"))
		return whole;
	return !strcmp(name, "stamps") || (n > 7 && !strcmp(name + n - 7, ".probes"));
}

static int copy_subdir(struct ip_trim_writer *w, bool whole)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	int fd = openat(w->from, IP_TRACE_SUBDIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir && fd >= 0)
		close(fd);
	if (!dir)
		return ip_error_errno("cannot read %s/%s", w->trace->dir, IP_TRACE_SUBDIR);
	while ((entry = readdir(dir))) {
		_cleanup_free_ char *name = NULL;
		struct stat st;

		if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode) || !is_wanted(entry->d_name, whole))
			continue;
		if (asprintf(&name, "%s/%s", IP_TRACE_SUBDIR, entry->d_name) < 0)
			return ip_error("out of memory");
		if (copy_file(w, name) < 0)
			return -1;
	}
	return 0;
}

int ip_trim_writer_create(const struct ip_trace_reader *trace,
			  const struct ip_trim_options *options, const char *dir,
			  struct ip_trim_writer **ret)
{
	struct ip_trim_writer *w = calloc(1, sizeof(*w));
	int inner = -1;
	struct stat st;

	if (!w)
		return ip_error("out of memory");
	w->trace = trace;
	w->dirfd = w->from = w->place.parent = -1;
	w->dir = strdup(dir);
	if (!w->dir)
		ip_error("out of memory");
	if (!w->dir || ip_dir_locate(dir, &w->place) < 0) {
		destroy(w);
		return -1;
	}
	if (fstatat(w->place.parent, w->place.name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		destroy(w);
		return ip_error("%s exists: name another directory with -o", dir);
	}
	w->from = open(trace->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (w->from < 0) {
		ip_error_errno("cannot read %s", trace->dir);
		destroy(w);
		return -1;
	}
	w->dirfd = ip_dir_make_beside(&w->place, w->temporary);
	inner = w->dirfd < 0 ? -1 : ip_dir_make(w->dirfd, IP_TRACE_SUBDIR);
	if (inner < 0) {
		ip_error_errno("cannot make %s", dir);
		ip_trim_writer_discard(w);
		return -1;
	}
	close(inner);
	if (read_uuid(w) < 0 || copy_metadata(w) < 0 ||
	    copy_subdir(w, is_whole(trace, options)) < 0) {
		ip_trim_writer_discard(w);
		return -1;
	}
	*ret = w;
	return 0;
}

static int write_packet(struct ip_trim_writer *w)
{
	struct ip_packet_header *h = &w->header;
	uint64_t size = sizeof(*h) + w->n * sizeof(*w->words);
	char name[32];

	if (!w->out) {
		snprintf(name, sizeof(name), "stream-%u", w->stream);
		w->out = open_in(w, name);
		if (!w->out)
			return -1;
	}
	h->magic = IP_CTF_MAGIC;
	memcpy(h->uuid, w->uuid, sizeof(h->uuid));
	h->content_size = h->packet_size = 8 * size;
	h->events_discarded = w->discarded;
	fwrite(h, sizeof(*h), 1, w->out);
	fwrite(w->words, sizeof(*w->words), w->n, w->out);
	if (ferror(w->out))
		return ip_error_errno("cannot write %s/stream-%u", w->dir, w->stream);
	h->packet_seq_num++;
	w->result.bytes += size;
	if (h->timestamp_end > w->latest)
		w->latest = h->timestamp_end;
	w->n = 0;
	w->untold = false;
	return 0;
}

static int flush(struct ip_trim_writer *w)
{
	if (!w->n && !w->untold)
		return 0;
	if (!w->n)
		w->header.timestamp_begin = w->header.timestamp_end = w->told_at;
	return write_packet(w);
}

int ip_trim_writer_thread(struct ip_trim_writer *w, uint32_t stream, uint32_t pid, uint32_t tid)
{
	if (flush(w) < 0)
		return -1;
	w->latest = 0;
	w->stream = stream;
	w->header.pid = pid;
	w->header.tid = tid;
	return 0;
}

int ip_trim_writer_lost(struct ip_trim_writer *w, uint64_t n, uint64_t ts)
{
	/* the packet that tells the loss comes after it */
	if (flush(w) < 0)
		return -1;
	w->discarded += n;
	w->result.lost += n;
	w->untold = true;
	w->told_at = ts;
	return 0;
}

int ip_trim_writer_event(struct ip_trim_writer *w, const struct ip_event *e,
			 const uint64_t *payload)
{
	bool compact = w->n && !payload && ip_trim_is_compact(e, w->ts, w->sp);
	size_t values = payload ? 1 + IP_PAYLOAD_N(payload[0]) : 0,
	       words = compact ? 1 : IP_EXT_WORDS + values;
	uint64_t number = e->number | (e->sp >> IP_SP_SHIFT & ((1 << IP_SP_BITS) - 1))
					      << IP_NUMBER_BITS;
	uint64_t *word;

	if (w->n && w->n + words > PACKET_WORDS) {
		if (flush(w) < 0)
			return -1;
		compact = false;
		words = IP_EXT_WORDS + values;
	}
	/* where a thread moves to another processor, its time stamps may go back */
	if (!w->n || e->ts < w->header.timestamp_begin)
		w->header.timestamp_begin = e->ts;
	if (!w->n || e->ts > w->header.timestamp_end)
		w->header.timestamp_end = e->ts;
	word = w->words + w->n;
	if (compact) {
		word[0] = e->kind | (e->ts & IP_TIME_MASK) << 3 | number << 32;
	} else {
		word[0] = IP_ID_EXTENDED |
			  (e->kind + (payload ? IP_ID_PAYLOAD_BASE : IP_ID_EXT_BASE)) << 3 |
			  e->ts << 32;
		word[1] = e->ts >> 32 | number << 32;
		word[2] = e->sp;
		if (payload)
			memcpy(word + IP_EXT_WORDS, payload, values * sizeof(*payload));
	}
	w->n += words;
	w->ts = e->ts;
	w->sp = e->sp;
	w->result.events++;
	return 0;
}

int ip_trim_writer_thread_end(struct ip_trim_writer *w, uint64_t end, uint64_t gone)
{
	struct ip_packet_header *h = &w->header;

	if (flush(w) < 0)
		return -1;
	if (!w->latest)
		return 0;
	h->timestamp_begin = end > w->latest ? end : w->latest;
	h->timestamp_end = gone > h->timestamp_begin ? gone : h->timestamp_begin;
	return write_packet(w);
}

int ip_trim_writer_end_stream(struct ip_trim_writer *w)
{
	FILE *out;
	char name[32];

	if (flush(w) < 0)
		return -1;
	out = ip_steal_ptr(w->out);
	w->discarded = 0;
	w->header.packet_seq_num = 0;
	snprintf(name, sizeof(name), "stream-%u", w->stream);
	return out ? close_file(w, out, name) : 0;
}

static bool begins_with(const char *line, const char *key)
{
	size_t n = strlen(key);

	return !strncmp(line, key, n) && line[n] == '\t';
}

static int write_session(struct ip_trim_writer *w, const struct ip_trim_options *options)
{
	_cleanup_free_ char *text = NULL;
	uint64_t from = options->from > w->trace->begin ? options->from : w->trace->begin, size;
	uint64_t to = options->to <= w->trace->end ? options->to : w->trace->end;
	const char *line, *end;
	FILE *out;

	text = read_file(w, IP_TRACE_SESSION, &size);
	out = text ? open_in(w, IP_TRACE_SESSION) : NULL;
	if (!out)
		return -1;
	/* it is not known at which times these happened */
	bool whole = is_whole(w->trace, options);

	for (line = text; (end = strchr(line, '\n')); line = end + 1)
		if (!begins_with(line, "events") && !begins_with(line, "lost") &&
		    !begins_with(line, "end") && !begins_with(line, "trimmed") &&
		    !begins_with(line, "compressed") &&
		    (whole ||
		     (!begins_with(line, "filtered") && !begins_with(line, "overwritten") &&
		      !begins_with(line, "invalid") && !begins_with(line, "rotated"))))
			fwrite(line, 1, end + 1 - line, out);
	if (to < from)
		to = from;
	if (!w->trace->session->ends)
		fputs("ends\tpackets\n", out);
	fprintf(out, "trimmed\t%" PRIu64 "\t%" PRIu64 "\n", from, to);
	fprintf(out, "events\t%" PRIu64 "\nlost\t%" PRIu64 "\n", w->result.events, w->result.lost);
	/* Copies the reason as it is written, escapes included. A recording that was cut off has
	 * none. */
	line = w->trace->session->ended ? strstr(text, "\nend\t") : NULL;
	if (line)
		fprintf(out, "end\t%.*s\n", (int)strcspn(line + 5, "\n"), line + 5);
	return close_file(w, out, IP_TRACE_SESSION);
}

int ip_trim_writer_finish(struct ip_trim_writer *w, const struct ip_trim_options *options,
			  struct ip_trim_result *ret)
{
	if (write_session(w, options) < 0) {
		ip_trim_writer_discard(w);
		return -1;
	}
	if (ip_dir_rename(w->place.parent, w->temporary, w->place.name) < 0) {
		ip_error_errno("cannot make %s", w->dir);
		ip_trim_writer_discard(w);
		return -1;
	}
	*ret = w->result;
	ret->fd = ip_steal_fd(&w->dirfd);
	destroy(w);
	return 0;
}
