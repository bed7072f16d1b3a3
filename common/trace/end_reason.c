/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of the reasons why recordings end. See end_reason.h. Traces contain these texts: if a text
 * changes, it is no longer recognised in older traces.
 */
#include "common/trace/end_reason.h"

#include <stddef.h>
#include <string.h>

static const char *const texts[] = {
	[IP_END_INTERRUPTED] = "interrupted",
	[IP_END_DURATION] = "duration over",
	[IP_END_UNTIL] = "a condition of --until holds",
	[IP_END_STOP_ON] = "stopped by --stop-on",
	[IP_END_DETACHED] = "ended by iprobe detach",
	[IP_END_YIELDED] = "ended for another iprobe attach",
	[IP_END_TARGET_ENDED] = "target ended",
	[IP_END_EXECED] = "target exec'ed",
	[IP_END_SIZE_LIMIT] = "size limit reached",
	[IP_END_NO_SPACE] = "no space left",
	[IP_END_AREAS] =
		"a thread shares its thread area, or has none: its events cannot be told apart",
	[IP_END_CONFINED] = "the process is under seccomp: its clock cannot be read",
	[IP_END_WRITE_FAILED] = "the trace could not be written",
	[IP_END_NOT_LIVE] = "could not go live",
	[IP_END_NOT_RESUMED] = "could not go on",
	[IP_END_NOT_RECORDED] = "not recorded",
	[IP_END_FAILED] = "failed",
};

const char *ip_end_reason_text(enum ip_end_reason reason)
{
	return texts[reason];
}

enum ip_end_reason ip_end_reason_of(const char *text)
{
	for (size_t i = 1; text && i < sizeof(texts) / sizeof(*texts); i++)
		if (!strcmp(text, texts[i]))
			return i;
	return IP_END_NONE;
}

bool ip_end_reason_is_room(enum ip_end_reason reason)
{
	return reason == IP_END_SIZE_LIMIT || reason == IP_END_NO_SPACE;
}

bool ip_end_reason_is_early(enum ip_end_reason reason)
{
	return ip_end_reason_is_room(reason) || reason == IP_END_AREAS || reason == IP_END_CONFINED;
}
