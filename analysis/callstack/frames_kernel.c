/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of the kernel's functions. They lie above the user's innermost frame, and exist between
 * two events of the thread only: events come from user mode, where no function of the kernel is
 * open. So no rule of the stack machine meets them.
 */
#include "analysis/callstack/frames_private.h"

/* When the innermost open call ends, or the next one begins. */
static uint64_t next_of(const struct ip_frames *t)
{
	uint64_t next = UINT64_MAX;

	if (t->kernel && t->kernel_at < t->kernel->n)
		next = t->kernel->calls[t->kernel_at].start;
	if (t->kernel_open && t->kernel_ends[t->kernel_open - 1] < next)
		next = t->kernel_ends[t->kernel_open - 1];
	return next;
}

void ip_frames_set_kernel(struct ip_frames *t, uint32_t pid, uint32_t tid, uint64_t since)
{
	const struct ip_kernel_thread *k = ip_kernel_calls_find(t->session->kernel_calls, pid, tid);
	size_t low = 0, high = k ? k->n : 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (k->calls[middle].start < since)
			low = middle + 1;
		else
			high = middle;
	}
	t->kernel = k;
	t->kernel_at = low;
	t->kernel_open = 0;
	t->kernel_next = next_of(t);
	ip_frames_set_notice(t);
}

uint64_t ip_frames_kernel_next(const struct ip_frames *t)
{
	return t->kernel_next;
}

static void pass_time(struct ip_frames *t, uint64_t ts)
{
	if (ts <= t->now)
		return;
	if (t->n)
		t->frames[t->n - 1].self += ts - t->now;
	t->now = ts;
}

static int enter(struct ip_frames *t, const struct ip_kernel_call *c, uint64_t event)
{
	/* A return behind the thread's next event is that of another call: its own was missed. */
	const bool unknown = c->end == IP_KERNEL_END_UNKNOWN ||
			     (event != UINT64_MAX && c->end >= event) ||
			     t->kernel_open == IP_KERNEL_DEPTH;

	pass_time(t, c->start);
	if (ip_frames_push(t, c->function, 0, unknown ? IP_FRAME_ENTRY_ONLY : 0) < 0)
		return -1;
	if (unknown)
		ip_frames_end_top_as(t, IP_END_UNKNOWN);
	else
		t->kernel_ends[t->kernel_open++] = c->end;
	return 0;
}

int ip_frames_pass_kernel(struct ip_frames *t, uint64_t until, uint64_t event)
{
	while (t->kernel_next < until) {
		if (t->kernel_open && t->kernel_ends[t->kernel_open - 1] == t->kernel_next) {
			pass_time(t, t->kernel_next);
			t->kernel_open--;
			ip_frames_end_top_as(t, IP_END_EXIT);
		} else if (enter(t, &t->kernel->calls[t->kernel_at++], event) < 0) {
			return -1;
		}
		t->kernel_next = next_of(t);
	}
	return 0;
}

int ip_frames_feed_kernel(struct ip_frames *t, uint64_t until, uint64_t event)
{
	const int ret = ip_frames_pass_kernel(t, until, event);

	ip_frames_set_notice(t);
	return ret;
}
