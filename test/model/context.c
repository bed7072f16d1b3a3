// SPDX-License-Identifier: Apache-2.0
/*
 * Explores what compact records take for granted: that the record in front of them has nearly their
 * time (slot->epoch) and nearly their stack pointer (slot->last_sp). One thread, and signal
 * handlers of it that come between any two of its steps, also on top of one another, also on a
 * stack that makes it look as if the hook below were gone, also leaving by longjmp. No reader: none
 * looks at the two. How words are reserved, filled and read is rings.c's; here a sub-buffer has
 * room for some records, and a pool of them may run out.
 *
 * The steps are those of runtime/record.c (2 to 7, A1 to A3): `fast` is what hooks.S and record()
 * do in line, `extended` is record_extended(), `change` is rt_change_subbuf(). A step is one access
 * to what handlers change. Stack pointers are one of two that are not near each other; upper bits
 * of the time change now and then.
 *
 * What must hold: a compact record is never the first of its sub-buffer, and has the upper bits and
 * the stack pointer of the record that lies in front of it in the ring.
 *
 * What is left out, since it does not hold: two handlers in one hook, of which the first runs on a
 * stack that lies above and wrongly takes the hook for gone. It clears the guard, so the second
 * believes what the hook has noted and not yet written. One record may have a wrong stack pointer
 * then, or lie 2^29 ticks off. And what is not needed, as trying without it shows: that a nested
 * record makes the next one extended (6), where who fails to reserve does.
 *
 *   context               explores all cases; exit 1 and the steps that lead there where it does
 *                         not hold
 *   context --mutations   does so with one step done wrongly, for each of the mutations: every one
 *                         must be found
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE	 scenario->size /* words of a sub-buffer; word 0 is not used */
#define SPARE	 (scenario->adds ? 2 : 0)
#define LEVELS	 3
#define UNKNOWN	 15 /* an epoch: the next record is extended */
#define EXTENDED 2  /* words */
#define CHANGES	 2  /* of the time's upper bits */
#define STEPS	 400
#define TABLE	 (1u << 23)

enum mutation {
	CORRECT,
	FAILED_KEEPS_EPOCH,
	TAKER_KEEPS_EPOCH,
	COMPACT_BEGINS_SUBBUF,
	NOTES_AFTERWARDS,
	TIME_IS_ENOUGH,
	STACK_IS_ENOUGH,
	UNDONE_KEEPS_EPOCH,
	MUTATIONS
};

static const char *const mutation_names[MUTATIONS] = {
	"none",
	"4: a reservation that failed leaves the epoch as it is",
	"7: who takes a guard over leaves the epoch as it is",
	"4: the first record of a sub-buffer may be compact",
	"4: the stack pointer is noted behind the reservation",
	"4: the stack pointer is not compared",
	"4: the time is not compared",
	"A3: an addition that was undone leaves the epoch as it is",
};

enum pc {
	BEGIN,
	FAST_CUR,
	FAST_EPOCH,
	FAST_STACK,
	FAST_NOTE_STACK,
	FAST_NOTE_EPOCH,
	FAST_RESERVE,
	FAST_NOTE_LATE,
	FAST_FORGET,
	UNDO,
	HOLE,
	EXT_CUR,
	EXT_NOTE_STACK,
	EXT_NOTE_EPOCH,
	EXT_RESERVE,
	LEAVE,
	TAKE,
	USE,
	GIVE_BACK,
	END,
	AGAIN,
	DONE
};

static const char *const pc_names[] = {
	"begin",     "cur",	  "epoch",   "stack", "note stack", "note epoch",
	"reserve",   "note late", "forget",  "undo",  "hole",	    "ext cur",
	"ext stack", "ext epoch", "ext put", "leave", "take",	    "use",
	"give back", "end",	  "again",   "done"};

struct hook {
	uint8_t pc, cur, none, time, stack; /* cur, none: as they were read */
	uint8_t nested, looks_gone, slow;   /* slow: it is in C */
};

struct state {
	uint8_t cur, none; /* the position; 1: there is no sub-buffer */
	uint8_t guard, epoch, last, pool, clock, changes, left, signals, jumps,
		depth; /* clock: the upper bits */
	/* of the record that lies last in the ring: not part of the protocol */
	uint8_t first, ring_time, ring_stack;
	struct hook hooks[LEVELS];
} __attribute__((aligned(8)));

struct scenario {
	const char *name;
	bool adds, elsewhere, longjmp; /* elsewhere: handlers may run on stacks that lie above */
	uint8_t size, events, signals, pool;
};

static const struct scenario *scenario;
static enum mutation mutation;
static const char *trail[STEPS], *wrong;
static unsigned depth;
static uint64_t *seen, seen_used;

static bool is_new(const struct state *s)
{
	uint64_t p[sizeof(*s) / 8], h = 0x9e3779b97f4a7c15ull, i;

	memcpy(p, s, sizeof(p));
	for (size_t k = 0; k < sizeof(*s) / 8; k++) {
		h = (h ^ p[k]) * 0xff51afd7ed558ccdull;
		h ^= h >> 32;
	}
	h += !h;
	for (i = h % TABLE; seen[i]; i = (i + 1) % TABLE)
		if (seen[i] == h)
			return false;
	if (++seen_used > TABLE / 4 * 3) {
		fputs("context: more states than there is room for\n", stderr);
		exit(2);
	}
	seen[i] = h;
	return true;
}

static bool has_room(const struct hook *h, uint8_t words)
{
	return h->cur % SIZE && h->cur % SIZE + words <= SIZE - SPARE;
}

static bool is_unchanged(const struct state *s, const struct hook *h)
{
	return s->cur == h->cur && s->none == h->none;
}

static void read_cur(const struct state *s, struct hook *h)
{
	h->cur = s->cur;
	h->none = s->none;
}

/* The position while there is no sub-buffer, of whichever ordinal. */
static uint8_t rest(uint8_t cur)
{
	return cur / SIZE * SIZE + (SPARE ? SIZE - SPARE : 0);
}

/* The hook's record lies behind those that are there. */
static void append(struct state *s, const struct hook *h, bool compact)
{
	if (compact && s->first)
		wrong = "the first record of a sub-buffer is compact";
	else if (compact && s->ring_time != h->time)
		wrong = "a compact record has other upper bits than the one in front of it";
	else if (compact && s->ring_stack != h->stack)
		wrong = "a compact record's stack pointer is not near that of the one in front of "
			"it";
	s->first = 0;
	s->ring_time = h->time;
	s->ring_stack = h->stack;
}

/* The hook cannot do it in line: hooks.S begins anew in C, which goes on. */
static void give_up(struct hook *h)
{
	h->pc = h->slow ? EXT_CUR : AGAIN;
}

static void step_fast(struct state *s, struct hook *h)
{
	switch (h->pc) {
	case FAST_CUR: /* and the clock: whoever comes in between changes cur */
		read_cur(s, h);
		h->time = s->clock;
		h->pc = FAST_EPOCH;
		if (!has_room(h, 1))
			give_up(h);
		break;
	case FAST_EPOCH:
		h->pc = FAST_STACK;
		if (s->epoch != h->time && (mutation != STACK_IS_ENOUGH || s->epoch == UNKNOWN))
			give_up(h);
		break;
	case FAST_STACK:
		h->pc = mutation == NOTES_AFTERWARDS ? FAST_NOTE_EPOCH : FAST_NOTE_STACK;
		if (s->last != h->stack && mutation != TIME_IS_ENOUGH)
			give_up(h);
		break;
	case FAST_NOTE_STACK:
		s->last = h->stack;
		h->pc = h->slow ? FAST_NOTE_EPOCH : FAST_RESERVE;
		break;
	case FAST_NOTE_EPOCH:
		s->epoch = h->time;
		h->pc = FAST_RESERVE;
		break;
	case FAST_RESERVE:
		if (scenario->adds && !h->slow) {
			if (!is_unchanged(s, h)) {
				read_cur(s, h);
				s->cur++;
				h->pc = UNDO;
				break;
			}
		} else if (!is_unchanged(s, h)) {
			h->pc = mutation == FAILED_KEEPS_EPOCH ? h->slow ? FAST_CUR : AGAIN
							       : FAST_FORGET;
			break;
		}
		s->cur++;
		append(s, h, true);
		h->pc = mutation == NOTES_AFTERWARDS ? FAST_NOTE_LATE : END;
		break;
	case FAST_NOTE_LATE:
		s->last = h->stack;
		h->pc = END;
		break;
	case FAST_FORGET:
		s->epoch = UNKNOWN;
		h->pc = h->slow ? FAST_CUR : AGAIN;
		break;
	case UNDO:
		h->pc = h->none ? FAST_FORGET : HOLE;
		if (s->cur == h->cur + 1 && s->none == h->none) {
			s->cur = h->cur;
			h->pc = mutation == UNDONE_KEEPS_EPOCH ? AGAIN : FAST_FORGET;
		}
		break;
	case HOLE: /* the event is lost */
		s->epoch = UNKNOWN;
		h->pc = END;
		break;
	}
}

static void step_extended(struct state *s, struct hook *h)
{
	switch (h->pc) {
	case EXT_CUR:
		read_cur(s, h);
		h->time = s->clock;
		h->pc = has_room(h, EXTENDED) ? EXT_NOTE_STACK : h->none ? TAKE : LEAVE;
		break;
	case EXT_NOTE_STACK:
		s->last = h->stack;
		h->pc = EXT_NOTE_EPOCH;
		break;
	case EXT_NOTE_EPOCH:
		s->epoch = h->nested ? UNKNOWN : h->time;
		h->pc = EXT_RESERVE;
		break;
	case EXT_RESERVE:
		h->pc = EXT_CUR;
		if (!is_unchanged(s, h))
			break;
		s->cur += EXTENDED;
		append(s, h, false);
		h->pc = END;
		break;
	case LEAVE:
		h->pc = EXT_CUR;
		if (!is_unchanged(s, h))
			break;
		s->cur = rest((h->cur + SIZE - 1) / SIZE * SIZE);
		s->none = 1;
		read_cur(s, h);
		h->pc = TAKE;
		break;
	case TAKE:
		if (s->pool) {
			s->pool--;
			h->pc = USE;
			break;
		}
		h->pc = EXT_CUR;
		if (!is_unchanged(s, h)) /* a handler may have found one */
			break;
		if (s->cur == rest(s->cur)) /* the event is lost */
			h->pc = END;
		s->cur = rest(s->cur);
		break;
	case USE:
		if (!is_unchanged(s, h)) {
			h->pc = GIVE_BACK;
			break;
		}
		s->cur = h->cur / SIZE * SIZE + 1;
		s->none = 0;
		s->first = 1;
		h->pc = mutation == COMPACT_BEGINS_SUBBUF && !h->nested ? FAST_CUR : EXT_CUR;
		break;
	case GIVE_BACK:
		s->pool++;
		h->pc = EXT_CUR;
		break;
	}
}

static void step(struct state *s)
{
	struct hook *h = &s->hooks[s->depth - 1];

	switch (h->pc) {
	case BEGIN:
		if (!s->guard) {
			s->guard = s->depth;
			h->pc = FAST_CUR;
		} else if (!h->slow) {
			h->slow = 1; /* C looks again */
		} else if (s->guard < s->depth && !h->looks_gone) {
			h->nested = 1;
			h->pc = EXT_CUR;
		} else {
			if (mutation != TAKER_KEEPS_EPOCH)
				s->epoch = UNKNOWN;
			s->guard = s->depth;
			h->pc = FAST_CUR;
		}
		break;
	case AGAIN:
		s->guard = 0;
		h->slow = 1;
		h->pc = BEGIN;
		break;
	case END:
		if (!h->nested)
			s->guard = 0;
		h->pc = DONE;
		break;
	default:
		if (h->pc < EXT_CUR)
			step_fast(s, h);
		else
			step_extended(s, h);
	}
}

static bool explore(const struct state *s);

static bool follow(const struct state *s, const char *what)
{
	if (depth >= STEPS)
		wrong = "it goes on for ever";
	if (wrong)
		return false;
	trail[depth++] = what;
	if (!explore(s))
		return false; /* the trail stays */
	depth--;
	return true;
}

static void leave(struct state *s)
{
	s->depth--;
	memset(&s->hooks[s->depth], 0, sizeof(struct hook));
}

static bool call(const struct state *s, unsigned stack, bool looks_gone, const char *what)
{
	struct state n = *s;

	n.hooks[n.depth] = (struct hook){.stack = stack, .looks_gone = looks_gone};
	if (n.depth++)
		n.signals--;
	else
		n.left--;
	return follow(&n, what);
}

static bool explore(const struct state *s)
{
	struct state n = *s;

	if (wrong)
		return false;
	if (!is_new(s))
		return true;
	if (!s->depth)
		return !s->left ||
		       (call(s, 0, false, "call") && call(s, 1, false, "call elsewhere"));
	if (s->hooks[s->depth - 1].pc == DONE) {
		leave(&n);
		if (!follow(&n, "return"))
			return false;
		if (n.depth && n.jumps) {
			leave(&n);
			n.jumps--;
			if (!follow(&n, "longjmp"))
				return false;
		}
		return true;
	}
	if (s->depth < LEVELS && s->signals)
		for (unsigned stack = 0; stack < 2; stack++) {
			if (!call(s, stack, false, stack ? "SIGNAL elsewhere" : "SIGNAL"))
				return false;
			if (scenario->elsewhere &&
			    !call(s, stack, true,
				  stack ? "SIGNAL above, elsewhere" : "SIGNAL above"))
				return false;
		}
	if (s->changes) {
		n.changes--;
		n.clock++;
		if (!follow(&n, "                    TIME"))
			return false;
		n = *s;
	}
	step(&n);
	return follow(&n, pc_names[s->hooks[s->depth - 1].pc]);
}

static const struct scenario scenarios[] = {
	{.name = "handlers", .size = 6, .events = 4, .signals = 2, .pool = 3},
	{.name = "other stacks",
	 .size = 6,
	 .elsewhere = true,
	 .events = 4,
	 .signals = 1,
	 .pool = 3},
	{.name = "longjmp",
	 .size = 6,
	 .longjmp = true,
	 .elsewhere = true,
	 .events = 4,
	 .signals = 1,
	 .pool = 2},
	{.name = "added", .adds = true, .size = 8, .events = 4, .signals = 2, .pool = 3},
	{.name = "added, other stacks",
	 .adds = true,
	 .size = 8,
	 .elsewhere = true,
	 .events = 4,
	 .signals = 1,
	 .pool = 3},
	{.name = "added, longjmp",
	 .adds = true,
	 .size = 8,
	 .longjmp = true,
	 .elsewhere = true,
	 .events = 4,
	 .signals = 1,
	 .pool = 2},
};

#define SCENARIOS (sizeof(scenarios) / sizeof(*scenarios))

static bool run(const struct scenario *which)
{
	struct state s;

	scenario = which;
	memset(&s, 0, sizeof(s));
	s.none = 1;
	s.cur = rest(0);
	s.epoch = UNKNOWN;
	s.pool = which->pool;
	s.left = which->events;
	s.signals = which->signals;
	s.jumps = which->longjmp;
	s.changes = CHANGES;
	memset(seen, 0, TABLE * sizeof(*seen));
	seen_used = 0;
	depth = 0;
	wrong = NULL;
	explore(&s);
	return !wrong;
}

int main(int argc, char **argv)
{
	int missed = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1 && strcmp(argv[1], "--mutations")) {
		fputs("usage: context [--mutations]\n", stderr);
		return 2;
	}
	seen = malloc(TABLE * sizeof(*seen));
	if (!seen)
		return 2;
	if (argc == 1) {
		for (size_t i = 0; i < SCENARIOS; i++) {
			bool right = run(&scenarios[i]);

			printf("%-30s %9lu states: %s\n", scenarios[i].name,
			       (unsigned long)seen_used, right ? "all hold" : wrong);
			for (unsigned k = 0; !right && k < depth; k++)
				printf("    %3u %s\n", k, trail[k]);
			if (!right)
				return 1;
		}
		return 0;
	}
	for (mutation = 1; mutation < MUTATIONS; mutation++) {
		size_t i = 0;

		while (i < SCENARIOS && run(&scenarios[i]))
			i++;
		missed += i == SCENARIOS;
		printf("%-60s %s\n", mutation_names[mutation], i < SCENARIOS ? wrong : "NOT FOUND");
	}
	return missed != 0;
}
