/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a recording ended: the reasons, and the text of each. Traces and summaries contain the text.
 */
#ifndef IP_END_REASON_H
#define IP_END_REASON_H

#include <stdbool.h>

enum ip_end_reason {
	IP_END_NONE = 0,    /* the recording has not ended */
	IP_END_INTERRUPTED, /* Ctrl-C, or a signal that asks for the end */
	IP_END_DURATION,    /* --duration */
	IP_END_UNTIL,	    /* a condition of --until holds; the session says which one */
	IP_END_STOP_ON,	    /* --stop-on */
	IP_END_DETACHED,    /* iprobe detach */
	IP_END_YIELDED,	    /* another iprobe has attached (--yield) */
	IP_END_TARGET_ENDED,
	IP_END_EXECED,	   /* the target executes another program, which is not followed */
	IP_END_SIZE_LIMIT, /* --max-size */
	IP_END_NO_SPACE,   /* the disk has no room left */
	/* a thread shares its thread area, or has none (hotpatcher/inject/thread_areas.h) */
	IP_END_AREAS,
	/* the session read the clock by system calls, and the process came under seccomp */
	IP_END_CONFINED,
	IP_END_WRITE_FAILED, /* the trace could not be written */
	IP_END_NOT_LIVE,     /* the sites could not go live */
	IP_END_NOT_RESUMED,  /* a recording whose iprobe was killed could not continue */
	IP_END_NOT_RECORDED, /* the command ended, or was ended, before anything was recorded */
	IP_END_FAILED,
};

/* Returns a static text; NULL for IP_END_NONE. */
const char *ip_end_reason_text(enum ip_end_reason reason);

/* Returns the reason with this text, as a trace contains it; IP_END_NONE if text is NULL or
 * unknown. */
enum ip_end_reason ip_end_reason_of(const char *text);

/* Whether a recording that ended for this reason ended early. */
bool ip_end_reason_is_early(enum ip_end_reason reason);

/* Whether the recording ended because it had no more room. */
bool ip_end_reason_is_room(enum ip_end_reason reason);

#endif
