/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers output. See output.h.
 */
#include "coldpatch/stage/output.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void output_flush(struct output *o)
{
	if (o->used && !o->failed && !o->sink(o->context, o->buffer, o->used))
		o->failed = true;
	o->used = 0;
}

void output_put(struct output *o, const char *data, size_t size)
{
	if (size > OUTPUT_BUFFER - o->used)
		output_flush(o);
	if (size > OUTPUT_BUFFER) {
		if (!o->failed && !o->sink(o->context, data, size))
			o->failed = true;
		return;
	}
	memcpy(o->buffer + o->used, data, size);
	o->used += size;
}

void output_print(struct output *o, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	output_put(o, text, vsnprintf(text, sizeof(text), format, args));
	va_end(args);
}
