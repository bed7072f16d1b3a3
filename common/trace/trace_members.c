/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of the members of a trace. See trace_members.h.
 */
#include "common/trace/trace_members.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/dir.h"
#include "common/error.h"
#include "common/file.h"
#include "common/trace/kernel_format.h"
#include "common/trace/trace_format.h"
#include "common/trace/trace_segments.h"

#define VERSION	    1
#define COMM_MAX    32
#define SERVICE_MAX 4096

static const char *base_of(const char *name)
{
	return name + strlen(IP_TRACE_SUBDIR "/");
}

static bool is_harmless(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '.' || c == '_' || c == '-';
}

bool ip_trace_member_is_name(const char *name)
{
	struct ip_stream_name stream;
	size_t n = 0;

	while (is_harmless(name[n]) && n < IP_TRACE_MEMBER_NAME)
		n++;
	return n && n < IP_TRACE_MEMBER_NAME && !name[n] && *name != '.' && *name != '-' &&
	       strcmp(name, IP_TRACE_SUBDIR) && strcmp(name, "metadata") &&
	       !ip_stream_name_parse(name, &stream);
}

int ip_trace_member_name(pid_t pid, const char *comm, char *ret, size_t size)
{
	char clean[COMM_MAX + 1];
	size_t n = 0;
	int length;

	for (; comm[n] && n < COMM_MAX; n++)
		clean[n] = is_harmless(comm[n]) ? comm[n] : '_';
	clean[n] = '\0';
	if (*clean == '.' || *clean == '-')
		*clean = '_';
	/* "stream-7" would be a file of a trace */
	length = snprintf(ret, size, "%s%s-%d", *clean ? clean : "_",
			  strcmp(clean, "stream") ? "" : "_", pid);
	if (length < 0 || (size_t)length >= size)
		return ip_error("the name of the directory for process %d is too long", pid);
	return 0;
}

int ip_trace_member_open(int dirfd, const char *name)
{
	return openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

void ip_trace_members_clear(struct ip_trace_members *m)
{
	for (size_t i = 0; i < m->n; i++)
		free(m->items[i].name);
	free(m->items);
	free(m->service);
	free(m->kernel_groups);
	free(m->kernel_source);
	*m = (struct ip_trace_members){0};
}

int ip_trace_members_add(struct ip_trace_members *m, const char *name, pid_t pid)
{
	char *copy;

	if (!ip_trace_member_is_name(name))
		return ip_error("'%s' is no name of a member of a trace", name);
	if (pid <= 0)
		return ip_error("%d is no process id of a member of a trace", pid);
	if (m->n == IP_TRACE_MEMBERS_MAX)
		return ip_error("more than %u processes in one trace: begin another one",
				IP_TRACE_MEMBERS_MAX);
	for (size_t i = 0; i < m->n; i++)
		if (!strcmp(m->items[i].name, name))
			return ip_error("the trace has a member %s already", name);
	if (ip_array_grow(&m->items, m->n, sizeof(*m->items)) < 0)
		return -1;
	copy = strdup(name);
	if (!copy)
		return ip_error("out of memory");
	m->items[m->n++] = (struct ip_trace_member){.name = copy, .pid = pid};
	return 0;
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Copies n bytes of text with \xHH replaced. A byte of 0 would cut the string: it becomes '?'. */
static char *unescape(const char *text, size_t n)
{
	char *copy = malloc(n + 1);
	size_t used = 0;

	if (!copy)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		char c = text[i];

		if (c == '\\' && i + 3 < n && text[i + 1] == 'x' && hex_digit(text[i + 2]) >= 0 &&
		    hex_digit(text[i + 3]) >= 0) {
			c = (char)(hex_digit(text[i + 2]) << 4 | hex_digit(text[i + 3]));
			i += 3;
		}
		copy[used++] = c ? c : '?';
	}
	copy[used] = '\0';
	return copy;
}

/* Parses "PID<TAB>NAME". Returns false if it is none. */
static bool parse_member(const char *text, size_t n, pid_t *ret_pid,
			 char ret_name[IP_TRACE_MEMBER_NAME])
{
	const char *tab = memchr(text, '\t', n);
	size_t digits = tab ? (size_t)(tab - text) : 0, length = tab ? n - digits - 1 : 0;
	uint64_t pid = 0;

	if (!digits || digits > 10 || !length || length >= IP_TRACE_MEMBER_NAME)
		return false;
	for (size_t i = 0; i < digits; i++) {
		if (!isdigit((unsigned char)text[i]))
			return false;
		pid = pid * 10 + (uint64_t)(text[i] - '0');
	}
	memcpy(ret_name, tab + 1, length);
	ret_name[length] = '\0';
	*ret_pid = (pid_t)pid;
	return pid && pid <= INT_MAX && strlen(ret_name) == length;
}

/* Returns the length of "KEY<TAB>" at the beginning of a line; 0: the line has another key. */
static size_t key_length(const char *line, size_t n, const char *key)
{
	size_t length = strlen(key);

	return n > length && !memcmp(line, key, length) && line[length] == '\t' ? length + 1 : 0;
}

/* Parses "N<TAB>LOST<TAB>GROUPS". Returns false if it is none. */
static bool parse_kernel(struct ip_trace_members *m, const char *text, size_t n)
{
	char copy[128], *end;
	unsigned groups;

	if (n >= sizeof(copy))
		return false;
	memcpy(copy, text, n);
	copy[n] = '\0';
	if (!isdigit((unsigned char)*copy))
		return false;
	m->kernel_events = strtoull(copy, &end, 10);
	if (*end != '\t' || !isdigit((unsigned char)end[1]))
		return false;
	m->kernel_lost = strtoull(end + 1, &end, 10);
	if (*end != '\t' || strlen(copy) != n || ip_kernel_groups_parse(end + 1, &groups) < 0)
		return false;
	m->kernel_groups = ip_kernel_groups_text(groups);
	return m->kernel_groups;
}

static int parse_line(struct ip_trace_members *m, const char *line, size_t n)
{
	char name[IP_TRACE_MEMBER_NAME];
	size_t at;
	pid_t pid;

	if ((at = key_length(line, n, "service")) && !m->service) {
		m->service = unescape(line + at, n - at);
		return m->service ? 0 : ip_error("out of memory");
	}
	if ((at = key_length(line, n, "kernel_source")) && !m->kernel_source) {
		m->kernel_source = unescape(line + at, n - at);
		return m->kernel_source ? 0 : ip_error("out of memory");
	}
	if ((at = key_length(line, n, "kernel_events")) && !m->kernel_groups)
		return parse_kernel(m, line + at, n - at)
			       ? 0
			       : ip_error("not the events of the kernel: their number, those that "
					  "were lost, and their groups");
	if (!(at = key_length(line, n, "member")))
		return 0;
	if (!parse_member(line + at, n - at, &pid, name))
		return ip_error("not a member with its process id and its name");
	return ip_trace_members_add(m, name, pid);
}

int ip_trace_members_parse(const char *name, const char *text, size_t size,
			   struct ip_trace_members *ret)
{
	static const char first[] = "iprobe-members\t";
	const char *end = text + size;
	size_t number = 0;

	*ret = (struct ip_trace_members){0};
	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t n = (size_t)((newline ? newline : end) - text);
		bool good;

		number++;
		if (number == 1) {
			good = n == sizeof(first) && !memcmp(text, first, sizeof(first) - 1) &&
			       text[n - 1] == '0' + VERSION;
			if (!good)
				return ip_error("%s: not a list of the members of a trace, or of "
						"another version of iprobe",
						name);
		} else if (parse_line(ret, text, n) < 0) {
			ip_trace_members_clear(ret);
			return ip_error_prefix("%s:%zu", name, number);
		}
		text = newline ? newline + 1 : end;
	}
	return number ? 0 : ip_error("%s: not a list of the members of a trace: it is empty", name);
}

int ip_trace_members_read(int dirfd, const char *path, struct ip_trace_members *ret)
{
	_cleanup_close_ int inner = ip_trace_member_open(dirfd, IP_TRACE_SUBDIR), fd = -1;
	_cleanup_free_ char *full = NULL, *text = NULL;
	uint64_t size;

	*ret = (struct ip_trace_members){0};
	if (inner < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
		return 1;
	if (inner < 0)
		return ip_error_errno("cannot open %s/%s", path, IP_TRACE_SUBDIR);
	if (faccessat(inner, base_of(IP_TRACE_MEMBERS), F_OK, AT_SYMLINK_NOFOLLOW | AT_EACCESS) <
		    0 &&
	    errno == ENOENT)
		return 1;
	if (asprintf(&full, "%s/%s", path, IP_TRACE_MEMBERS) < 0) {
		full = NULL;
		return ip_error("out of memory");
	}
	fd = ip_open_regular_at(inner, base_of(IP_TRACE_MEMBERS), full, &size);
	if (fd < 0)
		return -1;
	if (size > IP_TRACE_MEMBERS_SIZE)
		return ip_error("%s: too large to be a list of the members of a trace", full);
	text = malloc(size + 1);
	if (!text)
		return ip_error("out of memory");
	return ip_read_at(fd, full, 0, text, size) < 0
		       ? -1
		       : ip_trace_members_parse(full, text, size, ret);
}

static void put_escaped(FILE *out, const char *text)
{
	for (size_t i = 0; text[i] && i < SERVICE_MAX; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c < 0x20 || c == 0x7f || c == '\\')
			fprintf(out, "\\x%02x", c);
		else
			putc(c, out);
	}
}

static int put(int inner, const char *temporary, const struct ip_trace_members *m)
{
	int fd = ip_file_make(inner, temporary, O_WRONLY), error;
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
	bool bad;

	if (!out) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	fprintf(out, "iprobe-members\t%d\n", VERSION);
	if (m->service) {
		fputs("service\t", out);
		put_escaped(out, m->service);
		putc('\n', out);
	}
	for (size_t i = 0; i < m->n; i++)
		fprintf(out, "member\t%d\t%s\n", m->items[i].pid, m->items[i].name);
	if (m->kernel_source) {
		fputs("kernel_source\t", out);
		put_escaped(out, m->kernel_source);
		putc('\n', out);
	}
	if (m->kernel_groups)
		fprintf(out, "kernel_events\t%lu\t%lu\t%s\n", m->kernel_events, m->kernel_lost,
			m->kernel_groups);
	bad = ferror(out) | (fflush(out) != 0);
	error = errno;
	fclose(out);
	errno = error;
	return bad ? -1 : 0;
}

int ip_trace_members_write(int dirfd, const char *path, const struct ip_trace_members *m)
{
	static const char temporary[] = "members.new";
	_cleanup_close_ int inner = ip_dir_open(dirfd, IP_TRACE_SUBDIR);
	int error;

	if (inner < 0 && errno == ENOENT)
		inner = ip_dir_make(dirfd, IP_TRACE_SUBDIR);
	if (inner < 0)
		return ip_error_errno("cannot open %s/%s", path, IP_TRACE_SUBDIR);
	unlinkat(inner, temporary, 0); /* left by an iprobe that was killed */
	if (put(inner, temporary, m) == 0 &&
	    renameat(inner, temporary, inner, base_of(IP_TRACE_MEMBERS)) == 0)
		return 0;
	error = errno;
	unlinkat(inner, temporary, 0);
	errno = error;
	return ip_error_errno("cannot write %s/%s", path, IP_TRACE_MEMBERS);
}
