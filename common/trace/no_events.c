/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a recording has no events. See no_events.h.
 */
#include "common/trace/no_events.h"

#include <stdarg.h>
#include <stdio.h>

void ip_no_events_add(struct ip_no_events *reasons, const char *code, const char *format, ...)
{
	struct ip_no_events_reason *r;
	va_list args;

	if (reasons->n == IP_NO_EVENTS_MAX)
		return;
	r = &reasons->items[reasons->n++];
	r->code = code;
	va_start(args, format);
	vsnprintf(r->text, sizeof(r->text), format, args);
	va_end(args);
}
