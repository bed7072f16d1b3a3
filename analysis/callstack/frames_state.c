/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps what the stack machine knows between two packets, so that a reader can begin in the middle
 * of a thread. What can be derived is not kept: the number of open frames of each function, and the
 * index of the abandoned frames.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/callstack/frames_private.h"
#include "common/array.h"
#include "common/error.h"

struct ip_frames_state {
	struct ip_frames machine; /* its pointers are not valid, but for those below */
	struct ip_frame *frames;
	struct ip_frame_jump *jumps;
	struct ip_frames_part *parts;
	struct ip_abandoned_frames_entry *abandoned;
	size_t size;
};

size_t ip_frames_open(const struct ip_frames *t, const struct ip_frame **ret)
{
	*ret = t->frames;
	return t->n;
}

/* Copies n elements. *size grows by their bytes. Returns false where memory ran out. */
static bool copy(void *ret, const void *from, size_t n, size_t each, size_t *size)
{
	void **p = ret;

	*p = NULL;
	if (!n)
		return true;
	*p = reallocarray(NULL, n, each);
	if (*p)
		memcpy(*p, from, n * each);
	*size += n * each;
	return *p;
}

struct ip_frames_state *ip_frames_save(const struct ip_frames *t)
{
	struct ip_frames_state *s = calloc(1, sizeof(*s));

	if (!s) {
		ip_error("out of memory");
		return NULL;
	}
	s->machine = *t;
	s->size = sizeof(*s);
	if (!copy(&s->frames, t->frames, t->n, sizeof(*s->frames), &s->size) ||
	    !copy(&s->jumps, t->jumps, t->n, sizeof(*s->jumps), &s->size) ||
	    !copy(&s->parts, t->parts, t->nparts, sizeof(*s->parts), &s->size) ||
	    !copy(&s->abandoned, t->abandoned.entries, t->abandoned.n, sizeof(*s->abandoned),
		  &s->size)) {
		ip_frames_state_destroy(s);
		ip_error("out of memory");
		return NULL;
	}
	return s;
}

void ip_frames_state_destroy(struct ip_frames_state *s)
{
	if (!s)
		return;
	free(s->frames);
	free(s->jumps);
	free(s->parts);
	free(s->abandoned);
	free(s);
}

size_t ip_frames_state_size(const struct ip_frames_state *s)
{
	return s->size;
}

static int restore_frames(struct ip_frames *t, const struct ip_frames_state *s)
{
	while (t->capacity < s->machine.n) {
		t->n = t->capacity;
		if (ip_frames_reserve(t) < 0) {
			t->n = 0;
			return -1;
		}
	}
	t->n = s->machine.n;
	if (t->n) {
		memcpy(t->frames, s->frames, t->n * sizeof(*t->frames));
		memcpy(t->jumps, s->jumps, t->n * sizeof(*t->jumps));
	}
	for (size_t i = 0; i < t->n; i++)
		t->active[t->frames[i].function]++;
	return 0;
}

static int restore_abandoned(struct ip_frames *t, const struct ip_frames_state *s)
{
	struct ip_abandoned_frames_entry old;

	for (size_t i = 0; i < s->machine.abandoned.n; i++)
		if (ip_abandoned_frames_add(&t->abandoned, &s->abandoned[i], &old) < 0)
			return ip_error("out of memory");
	return 0;
}

int ip_frames_restore(struct ip_frames *t, const struct ip_frames_state *s)
{
	const struct ip_frames *from = &s->machine;

	if (restore_frames(t, s) < 0 || restore_abandoned(t, s) < 0)
		return -1;
	for (t->nparts = 0; t->nparts < from->nparts; t->nparts++) {
		if (ip_array_grow(&t->parts, t->nparts, sizeof(*t->parts)) < 0)
			return -1;
		t->parts[t->nparts] = s->parts[t->nparts];
	}
	memcpy(t->starts, from->starts, sizeof(t->starts));
	t->top = from->top;
	t->now = from->now;
	t->suspect = from->suspect;
	t->group = from->group;
	t->held_sp = from->held_sp;
	t->held_function = from->held_function;
	t->holds = from->holds;
	t->joins = from->joins;
	t->removal = from->removal;
	t->nremovals = from->nremovals;
	t->notice = from->notice;
	t->gaps = from->gaps;
	t->lossy = from->lossy;
	t->late = from->late;
	return 0;
}
