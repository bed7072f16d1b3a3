// SPDX-License-Identifier: Apache-2.0
/*
 * The line of the last error, one for each thread.
 *
 * A line is composed in a local buffer first, since an argument may be the line recorded before.
 * Everything that is no printable UTF-8 is escaped (common/print.h). So a name from a file cannot
 * control the terminal of the person who reads the message.
 */
#include "common/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/print.h"

#define LINE_MAX_BYTES 6144 /* a path of PATH_MAX and the description of the error */

static _Thread_local char line[LINE_MAX_BYTES];

/* Records a composed text. wanted: the bytes that the whole text would take. Marks a cut, and
 * escapes what must not be printed. */
static void set_line(char *text, size_t size, size_t wanted)
{
	if (wanted >= size)
		memcpy(text + size - 4, "...", 4);
	if (ip_escape(line, sizeof(line), text) >= sizeof(line))
		memcpy(line + sizeof(line) - 4, "...", 4);
}

static size_t append(char *text, size_t used, const char *format, va_list args)
{
	size_t room = used < LINE_MAX_BYTES ? LINE_MAX_BYTES - used : 0;
	int n = vsnprintf(room ? text + used : NULL, room, format, args);

	return n < 0 ? used : used + (size_t)n;
}

static size_t append_text(char *text, size_t used, const char *what)
{
	size_t room = used < LINE_MAX_BYTES ? LINE_MAX_BYTES - used : 0;
	int n = snprintf(room ? text + used : NULL, room, ": %s", what);

	return n < 0 ? used : used + (size_t)n;
}

static int record(const char *format, va_list args, const char *behind)
{
	int saved_errno = errno;
	char text[LINE_MAX_BYTES] = "";
	size_t used = append(text, 0, format, args);

	if (behind)
		used = append_text(text, used, behind);
	set_line(text, sizeof(text), used);
	errno = saved_errno;
	return -1;
}

int ip_error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	record(format, args, NULL);
	va_end(args);
	return -1;
}

int ip_error_errno(const char *format, ...)
{
	int error = errno;
	char buffer[128];
	va_list args;

	va_start(args, format);
	record(format, args, strerror_r(error, buffer, sizeof(buffer)));
	va_end(args);
	return -1;
}

int ip_error_prefix(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	record(format, args, line);
	va_end(args);
	return -1;
}

const char *ip_error_message(void)
{
	return line;
}
