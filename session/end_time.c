/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the end of a session. See end_time.h.
 */
#include "session/end_time.h"

#include <unistd.h>

#include "common/clock.h"
#include "common/proc.h"
#include "hotpatcher/ptrace/priority_guard.h"
#include "hotpatcher/ptrace/stop.h"
#include "session/session_private.h"

/* For how long the threads of this process have waited for a CPU; 0: the kernel does not tell. */
static uint64_t queued(void)
{
	struct ip_proc_cpu cpu;

	return ip_proc_cpu(getpid(), &cpu) < 0 ? 0 : cpu.queued_ns;
}

/* A thread that has ended, as the drain thread, takes its time with it. */
static uint64_t since(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

void ip_end_time_start(struct ip_session *s)
{
	s->end_time.start_queued = queued();
}

void ip_end_time_notice(struct ip_session *s)
{
	s->end_time.noticed_ns = ip_now_ns();
	s->end_time.noticed_queued = queued();
	s->end_time.noticed_in_vain = ip_stop_log_failed(&s->summary->stops);
}

void ip_end_time_idle(struct ip_session *s)
{
	if (!s->idle_tsc)
		s->idle_tsc = ip_clock_now();
}

void ip_end_time_idle_elsewhere(struct ip_session *s)
{
	const struct ip_area_header *h = s->area->header;
	struct ip_clock_reading now;
	uint64_t since_start, tsc;

	if (!s->live_tsc || __atomic_load_n(&h->idle, __ATOMIC_ACQUIRE) !=
				    __atomic_load_n(&h->session, __ATOMIC_RELAXED))
		return;
	since_start = __atomic_load_n(&h->idle_ns, __ATOMIC_RELAXED) - s->start.raw_ns;
	ip_clock_read(&now);
	/* the target may have written anything */
	if (since_start > now.raw_ns - s->start.raw_ns || now.raw_ns <= s->start.raw_ns)
		return;
	tsc = s->start.tsc + (unsigned __int128)since_start * (now.tsc - s->start.tsc) /
				     (now.raw_ns - s->start.raw_ns);
	if (tsc >= s->live_tsc && tsc < s->idle_tsc)
		s->idle_tsc = tsc;
}

void ip_end_time_restore(struct ip_session *s)
{
	s->end_time.restored_ns = ip_now_ns();
}

void ip_end_time_fill(struct ip_session *s)
{
	const struct ip_end_time_notes *n = &s->end_time;
	const uint64_t now = ip_now_ns(), all = queued();
	struct ip_end_time *t = &s->summary->end_time;

	if (!n->noticed_ns)
		return;
	t->prioritized = ip_priority_guard_may_lend();
	t->recording = since(n->noticed_ns, s->start_ns);
	t->queued_recording = since(n->noticed_queued, n->start_queued);
	if (s->summary->end == IP_END_DURATION)
		t->noticed = since(n->noticed_ns, s->start_ns + s->options->duration_ns);
	t->restored = since(n->restored_ns, n->noticed_ns);
	t->written = since(now, n->restored_ns ? n->restored_ns : n->noticed_ns);
	t->queued = since(all, n->noticed_queued);
	t->in_vain = ip_stop_log_failed(&s->summary->stops) - n->noticed_in_vain;
}
