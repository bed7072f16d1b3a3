/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A payload of one's own (<iprobe/payload.h>): how often each function was called, how deep it
 * called itself at most, and how often the call came from another place than the one before, in the
 * same thread.
 *
 *   cc -O2 -Iinclude -shared -fPIC -Wl,-z,nodelete -o callers.so examples/callers.c
 *   iprobe run --payload user:./callers.so -- PROGRAM
 *   column -t -s "$(printf '\t')" iprobe.data/iprobe/payload.txt
 */
#include <iprobe/payload.h>

struct cell {
	uint64_t calls, deepest, changes;
	/* not shown */
	uint64_t depth;
	const void *last;
};

static const struct iprobe_field fields[] = {
	{"calls", offsetof(struct cell, calls), IPROBE_SUM},
	{"deepest", offsetof(struct cell, deepest), IPROBE_MAX},
	{"changes", offsetof(struct cell, changes), IPROBE_SUM},
};

static void on_call(const struct iprobe_call *call)
{
	struct cell *c = call->cell;

	if (call->event != IPROBE_ENTRY) {
		/* longjmp and exceptions end calls without a word: then it is too deep */
		c->depth -= c->depth && call->event != IPROBE_POINT;
		return;
	}
	c->calls++;
	if (++c->depth > c->deepest)
		c->deepest = c->depth;
	c->changes += c->last && call->caller != c->last;
	c->last = call->caller;
}

IPROBE_PAYLOAD(on_call, sizeof(struct cell), 0, fields);
