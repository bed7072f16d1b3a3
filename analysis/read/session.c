/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the session file.
 *
 * The text is copied once. Fields are cut and unescaped in the copy, and strings point into it.
 * A last line without a newline, in a file without end lines, was cut off in the middle of a
 * write and is left out.
 */
#include "analysis/read/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analysis/read/kernel_calls.h"
#include "analysis/read/members.h"
#include "analysis/read/session_parser.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"

#define SESSION_VERSION 1
#define SESSION_MAX	(1ull << 30)

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Replaces \xHH by the byte, in place. A byte of 0 would cut the string: it becomes '?'. */
static void unescape(char *text)
{
	char *out = text;

	for (const char *in = text; *in;) {
		if (in[0] == '\\' && in[1] == 'x' && hex_digit(in[2]) >= 0 &&
		    hex_digit(in[3]) >= 0) {
			int byte = hex_digit(in[2]) << 4 | hex_digit(in[3]);

			*out++ = byte ? byte : '?';
			in += 4;
		} else {
			*out++ = *in++;
		}
	}
	*out = '\0';
}

/* Cuts a line at its tabs. Fields beyond IP_SESSION_FIELDS belong to a newer version and are
 * left out. */
static void split(struct ip_session_parser *p, char *line)
{
	p->nfields = 0;
	while (line && p->nfields < IP_SESSION_FIELDS) {
		char *tab = strchr(line, '\t');

		if (tab)
			*tab++ = '\0';
		unescape(line);
		p->fields[p->nfields++] = line;
		line = tab;
	}
}

static int parse_first_line(struct ip_session_parser *p)
{
	uint64_t version;

	if (strcmp(p->fields[0], "iprobe-session"))
		return ip_error("%s: not a session of iprobe", p->name);
	if (ip_session_number(p, 1, UINT64_MAX, &version) < 0)
		return -1;
	if (version != SESSION_VERSION)
		return ip_error(
			"%s: written by another version of iprobe (format %llu, this one reads %d)",
			p->name, (unsigned long long)version, SESSION_VERSION);
	return 0;
}

/* Checks the values that all other values are computed with. Returns 0, or -1 with an error. */
static int check(const struct ip_session_parser *p)
{
	const struct ip_recording *s = p->session;

	if (!s->tsc_hz || s->tsc_hz > 1000000000000ull)
		return ip_error("%s: the frequency of the clock (tsc_hz) is missing or makes no "
				"sense: the trace is damaged",
				p->name);
	if (s->tsc_end && s->tsc_end < s->tsc_start)
		return ip_error("%s: the end (tsc_end) lies before the start: the trace is damaged",
				p->name);
	return 0;
}

static int parse_text(struct ip_session_parser *p, size_t size)
{
	char *text = p->session->text, *end = text + size;

	while (text < end) {
		char *newline = memchr(text, '\n', end - text);

		p->line++;
		if (!newline)
			break; /* cut off in the middle */
		*newline = '\0';
		split(p, text);
		if ((p->line == 1 ? parse_first_line(p) : ip_session_parse_line(p)) < 0)
			return -1;
		text = newline + 1;
	}
	if (p->line == 0 || (p->line == 1 && text < end))
		return ip_error("%s: not a session of iprobe", p->name);
	ip_session_index_jumps(p->session);
	ip_recording_index_threads(p->session);
	ip_session_index_processes(p->session);
	ip_session_index_stacks(p->session);
	return check(p) < 0 ? -1 : ip_changes_index(&p->session->changes, p->session);
}

int ip_recording_parse(const char *name, const void *data, size_t size, struct ip_recording **ret)
{
	struct ip_recording *s = calloc(1, sizeof(*s));
	struct ip_session_parser p = {.session = s, .name = name};

	if (s) {
		s->text = malloc(size + 1);
		s->functions = calloc(1, sizeof(*s->functions));
	}
	if (!s || !s->text || !s->functions) {
		ip_recording_destroy(s);
		return ip_error("out of memory");
	}
	memcpy(s->text, data, size);
	s->text[size] = '\0';
	s->functions[0] =
		(struct ip_recording_function){.linker_name = "[unknown]", .module = IP_NO_MODULE};
	s->nfunctions = 1;
	if (ip_recording_grow_index(s) < 0 || parse_text(&p, size) < 0) {
		ip_recording_destroy(s);
		return -1;
	}
	s->ended = s->end != NULL;
	*ret = s;
	return 0;
}

int ip_recording_load(const char *dir, struct ip_recording **ret)
{
	_cleanup_free_ char *path = NULL, *text = NULL;
	_cleanup_close_ int fd = -1;
	uint64_t size;
	struct stat st;

	if (stat(dir, &st) < 0)
		return ip_error_errno("%s: cannot open the trace directory", dir);
	if (!S_ISDIR(st.st_mode))
		return ip_error("%s: not a trace: a trace is a directory that iprobe run or iprobe "
				"attach wrote",
				dir);
	if (asprintf(&path, "%s/%s", dir, IP_TRACE_SESSION) < 0) {
		path = NULL;
		return ip_error("out of memory");
	}
	if (stat(path, &st) < 0) {
		if (errno != ENOENT && errno != ENOTDIR)
			return ip_error_errno("%s: cannot open the trace", dir);
		return ip_error("%s: not a trace of iprobe: it has no %s", dir, IP_TRACE_SESSION);
	}
	fd = ip_open_regular(path, &size);
	if (fd < 0)
		return -1;
	if (size > SESSION_MAX)
		return ip_error("%s: too large to be a session of iprobe", path);
	text = malloc(size + 1);
	if (!text)
		return ip_error("out of memory");
	if (ip_read_at(fd, path, 0, text, size) < 0)
		return -1;
	if (ip_recording_parse(path, text, size, ret) < 0)
		return -1;
	if (ip_session_load_pieces(dir, *ret) < 0) {
		ip_recording_destroy(ip_steal_ptr(*ret));
		return -1;
	}
	return 0;
}

void ip_recording_destroy(struct ip_recording *s)
{
	if (!s)
		return;
	free(s->modules);
	free(s->functions);
	free(s->stops);
	free(s->threads);
	free(s->processes);
	free(s->stacks);
	free(s->stack_frames);
	free(s->no_events);
	free(s->execs);
	free(s->missing);
	free(s->drops);
	free(s->libraries);
	free(s->others);
	free(s->filters);
	free(s->selections);
	free(s->signatures);
	free(s->numbers);
	free(s->jumps);
	ip_changes_clear(&s->changes);
	ip_recording_members_destroy(s->members);
	ip_kernel_calls_destroy(s->kernel_calls);
	free(s->index);
	free(s->text);
	free(s);
}

const char *ip_recording_module_name(const struct ip_recording *s,
				     const struct ip_recording_function *f)
{
	const char *path, *slash;

	if (f->module == IP_NO_MODULE)
		return "[unknown]";
	path = s->modules[f->module].path;
	slash = strrchr(path, '/');
	path = slash && slash[1] ? slash + 1 : path;
	return *path ? path : "[unknown]";
}

uint64_t ip_recording_ns(const struct ip_recording *s, uint64_t ticks)
{
	unsigned __int128 ns;

	/* a division of 64 bits takes a third of the time, and mostly suffices; tsc_hz is at
	 * most 10^12 */
	if (ticks < UINT64_MAX / 2 / 1000000000)
		return (ticks * 1000000000 + s->tsc_hz / 2) / s->tsc_hz;
	ns = ((unsigned __int128)ticks * 1000000000 + s->tsc_hz / 2) / s->tsc_hz;

	return ns > UINT64_MAX ? UINT64_MAX : ns;
}

uint64_t ip_recording_since_start(const struct ip_recording *s, uint64_t ts)
{
	return ts > s->tsc_start ? ip_recording_ns(s, ts - s->tsc_start) : 0;
}
