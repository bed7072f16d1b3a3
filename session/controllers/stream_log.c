/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session with a live log.
 */
#include "session/controllers/stream_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/notice.h"
#include "common/now.h"
#include "session/session_private.h"
#include "stream_log/stream_log.h"

#define END_NS	 2000000000ull /* for what waits, when nothing is recorded any more */
#define TEXT_NAP 5000000ull
#define RATE_NS	 1000000000ull /* until the clock's rate is told anew; four times as long then */

struct log_session {
	struct ip_session_controller controller;
	struct ip_stream_log *log;
	size_t told; /* bytes of the trace's text */
	bool live, failed;
	uint64_t rate_ns, rate_after_ns;
};

static void destroy(void *data)
{
	struct log_session *l = data;

	/* the collector is gone by now */
	ip_stream_log_destroy(l->log);
	free(l);
}

static uint64_t count_lost(void *data)
{
	struct ip_collector_stats stats;

	ip_collector_stats(data, &stats);
	return stats.lost;
}

/* Tells one line. Returns false if there is no room. */
static bool tell_number(struct log_session *l, const char *key, uint64_t number)
{
	char line[64];
	const size_t size = snprintf(line, sizeof(line), "%s\t%lu\n", key, number);

	return ip_stream_log_text(l->log, line, size) == size;
}

static void tell_text(struct log_session *l, struct ip_session *s)
{
	size_t size;
	const char *text = ip_trace_text(s->trace, &size);

	if (size > l->told)
		l->told += ip_stream_log_text(l->log, text + l->told, size - l->told);
}

static int begin(void *data, struct ip_session *s)
{
	struct log_session *l = data;
	size_t size;
	_cleanup_free_ char *head = ip_trace_head(s->trace, &size);

	if (!head)
		return ip_error("out of memory");
	ip_stream_log_begin(l->log, ip_trace_hz(s->trace), count_lost, s->collector);
	if (ip_stream_log_text(l->log, head, size) != size)
		return ip_error("--stream %s: it takes nothing", s->options->stream);
	tell_text(l, s);
	l->rate_after_ns = RATE_NS;
	l->rate_ns = ip_now_ns() + RATE_NS;
	return ip_collector_observe(s->collector, ip_stream_log_observer(l->log));
}

/* The longer the session, the better its clock is known. */
static void tell_rate(struct log_session *l, struct ip_session *s)
{
	struct ip_clock_reading now;

	ip_clock_read(&now);
	if (!tell_number(l, "tsc_hz", ip_clock_hz(&s->start, &now, 0)))
		return;
	l->rate_after_ns *= 4;
	l->rate_ns = ip_now_ns() + l->rate_after_ns;
}

static enum ip_end_reason step(void *data, struct ip_session *s)
{
	struct log_session *l = data;
	const char *failure = ip_stream_log_failure(l->log);

	tell_text(l, s);
	if (!l->live && s->live_tsc)
		l->live = tell_number(l, "live", s->live_tsc);
	if (ip_now_ns() >= l->rate_ns)
		tell_rate(l, s);
	if (failure && !l->failed)
		ip_notice_of(s->target->pid,
			     "--stream %s: %s: the live log ends here, the recording goes on",
			     s->options->stream, failure);
	l->failed = failure;
	return IP_END_NONE;
}

static uint64_t nap(const void *data, uint64_t now_ns)
{
	return IP_STREAM_LOG_LOOK_NS;
}

static void end(void *data, struct ip_session *s)
{
	struct log_session *l = data;
	const uint64_t limit = ip_now_ns() + END_NS;
	_cleanup_free_ char *line = NULL;
	const char *failure;
	size_t size;

	ip_collector_observe(s->collector, NULL);
	ip_trace_text(s->trace, &size);
	/* of a receiver that is slow, the text is the last to be given up */
	for (tell_text(l, s); l->told < size && ip_now_ns() < limit; tell_text(l, s)) {
		if (ip_stream_log_failure(l->log))
			break;
		ip_session_nap(TEXT_NAP);
	}
	tell_rate(l, s);
	tell_number(l, "idle", s->idle_tsc);
	tell_number(l, "tsc_end", ip_clock_now());
	if (asprintf(&line, "end\t%s\n", ip_session_end_text(s->summary)) > 0)
		ip_stream_log_text(l->log, line, strlen(line));
	else
		line = NULL;
	failure = ip_stream_log_failure(l->log);
	snprintf(s->summary->stream_failure, sizeof(s->summary->stream_failure), "%s",
		 failure ? failure : "");
	ip_stream_log_end(ip_steal_ptr(l->log), ip_clock_now(), END_NS, &s->summary->stream);
	if (s->summary->stream.hangs && !*s->summary->stream_failure)
		snprintf(s->summary->stream_failure, sizeof(s->summary->stream_failure),
			 "a write or sync of it hangs, and was left");
}

int ip_session_add_stream_log(struct ip_session *s)
{
	struct log_session *l;

	if (!s->options->stream)
		return 0;
	l = calloc(1, sizeof(*l));
	if (!l)
		return ip_error("out of memory");
	l->controller = (struct ip_session_controller){.data = l,
						       .begin = begin,
						       .step = step,
						       .nap = nap,
						       .end = end,
						       .destroy = destroy};
	if (ip_stream_log_open(s->options->stream,
			       s->options->stream_interval_ns ? s->options->stream_interval_ns
							      : IP_STREAM_LOG_INTERVAL_NS,
			       &l->log) < 0) {
		free(l);
		return -1;
	}
	ip_controllers_add(s, &l->controller);
	return 0;
}
