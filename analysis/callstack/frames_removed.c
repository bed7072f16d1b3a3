/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles functions that are removed from the recording while the stack machine has frames of
 * theirs.
 */
#include "analysis/callstack/frames_private.h"

#include "common/elf/probe_list.h"

uint64_t ip_frames_next_removal(const struct ip_frames *t)
{
	const struct ip_changes *c = t->changes;

	return t->nremovals < c->nremovals ? c->removals[t->nremovals] : UINT64_MAX;
}

static bool is_removed(const struct ip_frames *t, const struct ip_frame *f, uint64_t ts)
{
	return ip_changes_is_off(t->changes, f->function, ts);
}

/* Ends the open frames of removed functions and closes the gaps in the array. */
static void end_removed(struct ip_frames *t, uint64_t ts)
{
	size_t first = 0, kept, segment = 0, top = 0, suspect = 0;

	while (first < t->n && !is_removed(t, &t->frames[first], ts))
		first++;
	if (first == t->n)
		return;
	for (size_t i = t->n; i-- > first;) {
		struct ip_frame *f = &t->frames[i];

		if (!is_removed(t, f, ts)) {
			if (t->ops.left)
				t->ops.left(t->context, f, i, t->now);
			continue;
		}
		t->active[f->function]--;
		f->lost = t->gaps - f->lost;
		f->flags |= i < t->suspect ? IP_FRAME_SUSPECT : 0;
		if (t->ops.closed)
			t->ops.closed(t->context, f, i, f->start > ts ? f->start : ts,
				      IP_END_UNFINISHED);
	}
	kept = 0;
	for (size_t i = 0; i < t->n; i++) {
		if (segment < t->top && i == t->starts[segment + 1]) {
			segment++;
			/* unless all frames of the segment before were removed */
			if (t->starts[top] != kept)
				t->starts[++top] = kept;
		}
		if (i >= first && is_removed(t, &t->frames[i], ts))
			continue;
		suspect += i < t->suspect;
		t->frames[kept++] = t->frames[i];
	}
	if (top && t->starts[top] == kept)
		top--;
	t->n = kept;
	t->top = top;
	t->suspect = suspect;
	for (size_t i = first; t->ops.resumed && i < t->n; i++)
		t->ops.resumed(t->context, &t->frames[i], i, t->now);
}

/* Handles the removals before ts. */
void ip_frames_pass_removals(struct ip_frames *t, uint64_t ts)
{
	while (t->removal < ts) {
		if (t->n) {
			if (t->removal > t->now) {
				t->frames[t->n - 1].self += t->removal - t->now;
				t->now = t->removal;
			}
			end_removed(t, t->removal);
		}
		t->nremovals++;
		t->removal = ip_frames_next_removal(t);
	}
	ip_frames_set_notice(t);
	t->late = false;
}

/* Returns whether an event after a removal is the exit of a frame that the removal would end. */
bool ip_frames_is_late_exit(struct ip_frames *t, const struct ip_event *e,
			    struct ip_recording_number number)
{
	if (t->late || (e->kind != IP_PROBE_EXIT && e->kind != IP_PROBE_TAIL_EXIT) ||
	    !number.changes || !t->active[number.function] ||
	    !ip_changes_is_off(t->changes, number.function, e->ts))
		return false;
	t->late = true;
	return true;
}
