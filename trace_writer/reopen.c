/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goes on with a trace whose iprobe was killed.
 *
 *   1. The trace's journal must belong to this process and session, and no living iprobe may have
 *      it. It is locked.
 *   2. The session file is read back. It does not have its last lines yet.
 *   3. Each stream is cut off where the journal says. If the trace is in pieces (rotate.h), files
 *      that do not count are removed.
 *
 * The directory is the user's own, but its session file may come from anywhere: numbers are
 * checked.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/abi/area.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/proc.h"
#include "trace_writer/writer_private.h"

#define FIELDS 8

int ip_trace_begin_journal(struct ip_trace *trace, uint32_t session, uint64_t max_size)
{
	struct ip_journal_header head = {.session = session,
					 .pid = trace->pid,
					 .started = ip_proc_started_at(trace->pid),
					 .max_size = max_size,
					 .start = trace->start,
					 .compressed = trace->codec != NULL,
					 .pieces = ip_rotation_pieces(trace)};

	memcpy(head.uuid, trace->uuid, sizeof(head.uuid));
	return ip_journal_create(trace->dirfd, &head, &trace->journal);
}

int ip_trace_expect_journal(struct ip_trace *trace, uint32_t session)
{
	return trace->journal ? ip_journal_expect_session(trace->journal, session) : 0;
}

int ip_trace_move_journal(struct ip_trace *trace, uint32_t session)
{
	return trace->journal ? ip_journal_set_session(trace->journal, session) : 0;
}

/* Replaces \xHH in place. */
static void unescape(char *text)
{
	char *out = text;

	while (*text) {
		unsigned c;

		if (text[0] == '\\' && text[1] == 'x' && isxdigit((unsigned char)text[2]) &&
		    isxdigit((unsigned char)text[3]) && sscanf(text + 2, "%2x", &c) == 1) {
			*out++ = c;
			text += 4;
		} else {
			*out++ = *text++;
		}
	}
	*out = '\0';
}

static int add_selection(struct ip_trace *trace, const char *text)
{
	if (ip_array_grow(&trace->selections, trace->nselections, sizeof(*trace->selections)) < 0)
		return -1;
	trace->selections[trace->nselections] = strdup(text);
	if (!trace->selections[trace->nselections])
		return ip_error("out of memory");
	trace->nselections++;
	return 0;
}

/* the paths of the modules, for labels */
struct paths {
	char **items;
	size_t n;
};

static int add_module(struct ip_trace *trace, char **fields, struct paths *paths)
{
	void *grown = realloc(trace->modules, (trace->nmodules + 1) * sizeof(*trace->modules));

	if (!grown)
		return ip_error("out of memory");
	trace->modules = grown;
	if (strtoull(fields[1], NULL, 10) != trace->nmodules ||
	    asprintf(&trace->modules[trace->nmodules], "%s %llx", fields[3],
		     strtoull(fields[4], NULL, 10)) < 0)
		return ip_error("%s/%s: a module is missing", trace->dir, IP_TRACE_SESSION);
	trace->nmodules++;
	if (ip_array_grow(&paths->items, paths->n, sizeof(*paths->items)) < 0)
		return -1;
	unescape(fields[2]);
	paths->items[paths->n] = strdup(fields[2]);
	return paths->items[paths->n++] ? 0 : ip_error("out of memory");
}

static int add_function(struct ip_trace *trace, char **fields, const struct paths *paths)
{
	uint64_t number = strtoull(fields[1], NULL, 10), module = strtoull(fields[2], NULL, 10);

	if (!number || number >= IP_NUMBER_MAX || module >= paths->n)
		return ip_error("%s/%s: a function's number makes no sense", trace->dir,
				IP_TRACE_SESSION);
	unescape(fields[3]);
	return ip_trace_knows(trace, number)
		       ? 0
		       : ip_trace_add_label(trace, number, paths->items[module], fields[3],
					    strchr(fields[6], 'i'));
}

/* Reads one line, without its newline. */
static int read_line(struct ip_trace *trace, char *line, struct paths *paths)
{
	static const char *const heads[] = {
		"iprobe-session", "host",    "kernel", "boot", "pid", "start_realtime",
		"tsc_start",	  "tsc_end", "tsc_hz", "ends", "idle"};
	_cleanup_free_ char *copy = strdup(line);
	char *fields[FIELDS], *rest = copy, *field;
	size_t n = 0;

	if (!copy)
		return ip_error("out of memory");
	while (n < FIELDS && (field = strsep(&rest, "\t")))
		fields[n++] = field;
	for (size_t i = n; i < FIELDS; i++)
		fields[i] = copy + strlen(line); /* empty */
	for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++)
		if (!strcmp(fields[0], heads[i]))
			return 0;
	if (!strcmp(fields[0], "live")) {
		trace->live_tsc = strtoull(fields[1], NULL, 10);
		return 0;
	}
	if (!strcmp(fields[0], "command")) {
		unescape(fields[1]);
		free(trace->command);
		trace->command = strdup(fields[1]);
		return trace->command ? 0 : ip_error("out of memory");
	}
	fprintf(trace->text_out, "%s\n", line);
	if (!strcmp(fields[0], "module"))
		return add_module(trace, fields, paths);
	if (!strcmp(fields[0], "function"))
		return add_function(trace, fields, paths);
	if (!strcmp(fields[0], "selection")) {
		unescape(fields[1]);
		return add_selection(trace, fields[1]);
	}
	trace->nsignatures += !strcmp(fields[0], "signature");
	trace->nlibraries += !strcmp(fields[0], "load") || !strcmp(fields[0], "unload");
	return 0;
}

/* Step 2. */
static int read_session(struct ip_trace *trace)
{
	_cleanup_free_ char *line = NULL;
	_cleanup_fclose_ FILE *file = NULL;
	struct paths paths = {0};
	size_t capacity = 0;
	ssize_t n;
	int ret = 0, fd = openat(trace->dirfd, IP_TRACE_SESSION,
				 O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	file = fd < 0 ? NULL : fdopen(fd, "r");
	if (!file)
		return ip_error_errno("cannot read %s/%s", trace->dir, IP_TRACE_SESSION);
	while (ret == 0 && (n = getline(&line, &capacity, file)) > 0) {
		line[strcspn(line, "\n")] = '\0';
		ret = read_line(trace, line, &paths);
	}
	for (size_t i = 0; i < paths.n; i++)
		free(paths.items[i]);
	free(paths.items);
	if (ret == 0 && !trace->command)
		return ip_error("%s/%s: it ends too early", trace->dir, IP_TRACE_SESSION);
	return ret;
}

static uint64_t size_of(void *context, uint32_t stream, uint32_t piece)
{
	const struct ip_trace *trace = context;
	char name[IP_STREAM_NAME_MAX];
	struct stat st;

	if (piece < ip_rotation_first(trace))
		return UINT64_MAX;
	ip_trace_stream_name(trace, stream, piece, name);
	return fstatat(trace->dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_size : 0;
}

static int cut_off(struct ip_trace *trace, uint32_t stream, const struct ip_journal_entry *e)
{
	char name[IP_STREAM_NAME_MAX];
	uint64_t size = size_of(trace, stream, e->piece);
	_cleanup_close_ int fd = -1;

	if (size == UINT64_MAX || size <= e->size)
		return 0;
	ip_trace_stream_name(trace, stream, e->piece, name);
	fd = openat(trace->dirfd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
	if (fd < 0 || ftruncate(fd, e->size) < 0)
		return ip_error_errno("cannot cut %s/%s off", trace->dir, name);
	return 0;
}

/* Step 3. */
static int read_streams(struct ip_trace *trace)
{
	for (uint32_t i = 0; i < IP_AREA_SLOTS; i++) {
		struct ip_journal_entry e;

		if (ip_journal_get(trace->journal, i, size_of, trace, &e) < 0 ||
		    cut_off(trace, i, &e) < 0)
			return -1;
		if (!e.seq)
			continue;
		if (ip_trace_grow_streams(trace, i) < 0)
			return -1;
		trace->streams[i].piece = e.piece;
		trace->streams[i].size = e.size;
		trace->streams[i].packets = trace->streams[i].prepared = e.packets;
		trace->streams[i].progress = e.progress;
		trace->bytes += e.size;
	}
	return ip_trace_rotates(trace) ? ip_rotation_settle(trace) : 0;
}

int ip_trace_reopen(const char *dir, pid_t pid, uint32_t session, struct ip_trace **ret,
		    uint64_t *ret_max_size)
{
	struct ip_trace *trace = ip_trace_new(dir);
	struct ip_journal_header head;
	int opened;

	if (!trace)
		return -1;
	if (ip_dir_locate(dir, &trace->place) < 0)
		goto fail;
	trace->dirfd = ip_dir_open(trace->place.parent, trace->place.name);
	if (trace->dirfd < 0 && errno == EPERM) {
		ip_error("the trace %s is another user's (-o names it)", dir);
		goto fail;
	}
	if (trace->dirfd < 0) {
		ip_error_errno("cannot open the trace %s (-o names it)", dir);
		goto fail;
	}
	opened = ip_journal_open(trace->dirfd, &head, &trace->journal);
	if (opened > 0)
		ip_error("%s is not a recording that was broken off (-o names it)", dir);
	else if (opened < 0)
		ip_error_prefix("%s", dir);
	else if (head.pid != pid || (head.session != session && head.next != session) ||
		 head.started != ip_proc_started_at(pid))
		opened = ip_error("%s is the trace of another session, of pid %d", dir, head.pid);
	if (opened)
		goto fail;
	trace->pid = pid;
	trace->start = head.start;
	memcpy(trace->uuid, head.uuid, sizeof(trace->uuid));
	if ((head.compressed && ip_trace_compress(trace) < 0) ||
	    (head.pieces && ip_rotation_reopen(trace, head.pieces, head.max_size) < 0) ||
	    read_session(trace) < 0 || read_streams(trace) < 0)
		goto fail;
	/* it was not on disk yet when the iprobe was killed: a later time would be wrong */
	if (!trace->live_tsc)
		trace->live_tsc = trace->start.tsc;
	*ret_max_size = head.max_size;
	*ret = trace;
	return 0;
fail:
	ip_trace_close(trace);
	return -1;
}

bool ip_trace_progress(const struct ip_trace *trace, uint32_t stream, struct ip_progress *ret)
{
	if (stream >= trace->nstreams || !trace->streams[stream].progress.claimed)
		return false;
	*ret = trace->streams[stream].progress;
	return true;
}

const struct ip_clock_reading *ip_trace_start(const struct ip_trace *trace)
{
	return &trace->start;
}

size_t ip_trace_selections(const struct ip_trace *trace, char *const **ret)
{
	*ret = trace->selections;
	return trace->nselections;
}
