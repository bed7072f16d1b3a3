/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes notices to the receiver. See notice.h.
 */
#include "common/notice.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/print.h"

static void (*receiver)(const char *who, const char *text);
static bool (*asked)(const char *text);

void ip_notice_to(void (*tell)(const char *who, const char *text))
{
	receiver = tell;
}

static void say(const char *who, const char *format, va_list args)
{
	char *text = NULL;
	size_t size;
	FILE *out;

	if (!receiver)
		return;
	out = open_memstream(&text, &size);
	if (!out)
		return;
	ip_vprint(out, format, args);
	if (fclose(out) == 0)
		receiver(who, text);
	free(text);
}

void ip_notice(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say("iprobe", format, args);
	va_end(args);
}

void ip_notice_ask(bool (*told_before)(const char *text))
{
	asked = told_before;
}

void ip_notice_of(pid_t pid, const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	if (text && !(asked && asked(text)))
		ip_notice("pid %d: %s", pid, text);
}

void ip_notice_from(const char *who, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(who, format, args);
	va_end(args);
}
