/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files share that write what the page tells of waits: functions and objects
 * (html_waits.c), call paths (html_waits_tree.c), threads (html_waits_threads.c).
 */
#ifndef IP_HTML_WAITS_PRIVATE_H
#define IP_HTML_WAITS_PRIVATE_H

#include "analysis/export/html_waits.h"
#include "analysis/export/thread_bars.h"
#include "analysis/wait/wait_paths.h"
#include "analysis/wait/wait_sums.h"
#include "common/json.h"

struct ip_html_waits_writer {
	struct ip_trace_reader *trace;
	const struct ip_html_waits_options *options;
	struct ip_trace_waits *waits;
	struct ip_wait_paths *paths;
	struct ip_thread_bars *bars;
	struct ip_json j;
	struct ip_wait_objects objects; /* at first those of the paths */
	uint32_t *object_of;		/* by object: its index in the page + 1; 0: none yet */
	size_t nobject_of;
	uint32_t *listed; /* by index in the page: the object */
	size_t nlisted;
	bool others; /* an object had no room */
	/* of threads that bars mention: each bar has room for one */
	struct ip_named_thread {
		int32_t tid;
		const char *name;
	} * names;
	size_t nnames;
};

static inline uint64_t ip_html_waits_ns(const struct ip_html_waits_writer *p, uint64_t ticks)
{
	return ip_recording_ns(p->trace->session, ticks);
}

/* The index of an object in the page. The run queue has one, too. */
uint32_t ip_html_waits_object(struct ip_html_waits_writer *p, uint32_t object);

/* The tree of call paths. Returns 0, or -1 with an error. */
int ip_html_waits_put_tree(struct ip_html_waits_writer *p);

/* The bars of threads, and the names of what they mention. Returns 0, or -1 with an error. */
int ip_html_waits_put_threads(struct ip_html_waits_writer *p);

#endif
