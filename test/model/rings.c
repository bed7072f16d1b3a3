// SPDX-License-Identifier: Apache-2.0
/*
 * Explores the protocol of the rings: one thread that records, signal handlers of it that record
 * (between any two of its steps, also on top of one another, also on a stack that makes it look as
 * if the hook below were gone, also leaving by longjmp), and a reader on another processor. Every
 * order of their steps is tried, by depth-first search over all states.
 *
 * The steps are those of runtime/record.c (W1 to W7 here; A1 to A3: with coarse time),
 * runtime/subbuf_recycle.h (O1 to O6), collector/drain.c (D1 to D4) and collector/flight_recorder.h
 * (S1 to S4), on sub-buffers of a few words. Stores become visible in their order, as x86 has it; a
 * step is at most one access to memory that others write, or one that nobody else can see the
 * middle of. Which records may be compact is not looked at: no reader has to do with that, and
 * context.c explores it.
 *
 * What must hold:
 *   - events lie in the order of their stamps
 *   - a word that is read is zero, padding, or what the hook that reserved it wrote: never an older
 *     or younger one's
 *   - drained: each event is delivered once and in order, and delivered + holes + lost = happened
 *   - overwritten: what a snapshot has begins behind exactly as many events as it says were
 *     overwritten; at the end nothing is missing
 *
 *   rings                explores all cases; exit 1 and the steps that lead there where something
 *                        does not hold
 *   rings --mutations    does so with one step done wrongly, for each of the mutations: every one
 *                        must be found
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS scenario->size /* of a sub-buffer, word 0 is not used */
#define MOST  6
#define SPARE                                                                                      \
	(scenario->adds && mutation != NOTHING_TO_SPARE                                            \
		 ? 2                                                                               \
		 : 0) /* words at its end that no record takes */
#define SUBBUFS	 3
#define LEVELS	 3
#define ORDINALS 12
#define NONE	 15
#define NOBODY	 1
#define PAD	 255
#define GAVE_UP	 2
#define STEPS	 400

enum { FREE, OWNED, FULL, LEFT };

enum mutation {
	CORRECT,
	RESERVE_WITHOUT_COMPARING,
	CLOCK_BEFORE_POSITION,
	GUARD_BEFORE_WORDS,
	HANDLER_HANDS_OVER,
	TAKE_WITHOUT_GUARD,
	TAKE_WITHOUT_LOOKING_AGAIN,
	TAKE_NEVER_USED,
	FREE_BEFORE_ZEROING,
	NEVER_SUSPECT,
	HANDLER_RECYCLES_ALL,
	TAIL_WITHOUT_COMPARING,
	ZERO_BEFORE_NAMING,
	BELIEVE_COPIES,
	TAIL_BEFORE_COPIES,
	BELIEVE_PARTS,
	PADDING_IS_EVENTS,
	TAKE_OLDEST_NOT_FULL,
	ADD_WITHOUT_LOOKING,
	ADD_WITHOUT_UNDOING,
	UNDO_WITHOUT_COMPARING,
	RETRY_BEHIND_A_HOLE,
	NOTHING_TO_SPARE,
	MUTATIONS
};

static const char *const mutation_names[MUTATIONS] = {
	"none",
	"4: words are reserved without comparing the position",
	"4: the clock is read before the position",
	"5: the guard is cleared before the words are filled",
	"6: a handler hands a full sub-buffer over",
	"D1: the collector does not look at the guard",
	"D1: the collector does not look again after the guard",
	"D2: the collector takes one that was never in use for the next",
	"D3: the sub-buffer is free before it is zeroed",
	"7: who takes a guard over suspects nothing",
	"O2: a handler takes what a hook below may be filling",
	"O4: the tail is moved without comparing",
	"O5: words are zeroed before the sub-buffer is nobody's",
	"S3: copies are believed without a second look",
	"S4: the tail is read before the copies are made",
	"S4: what was copied in part and is overwritten now counts as whole",
	"O3: padding counts as events",
	"O2: the collector takes an oldest one that is not full",
	"A2: the word is filled, whichever was taken",
	"A3: the addition is not undone",
	"A3: it is undone without comparing",
	"A3: it could not be undone, and the event is recorded all the same",
	"A3: no words are spared at the end of a sub-buffer",
};

struct subbuf {
	uint8_t state, slot, ordinal, suspect, surplus, suspended;
	uint8_t word[MOST];
	uint8_t owner[MOST]; /* of the last reservation: not part of the protocol */
};

/* Steps of a hook. */
enum pc {
	W2,
	W3,
	W4_CUR,
	W4_CLOCK,
	W4_RESERVE,
	W4_SURPLUS,
	W4_FILL,
	W5,
	A2_ADD,
	A3_UNDO,
	A3_BACK,
	DONE,
	C_LEAVING,
	C_LEAVE,
	C_SURPLUS,
	C_PAD,
	C_FULL,
	C_TAKE,
	O1,
	O2,
	O4,
	O5,
	O6,
	O6_ZERO,
	C_DESCRIBE,
	C_NAME,
	C_USE,
	C_UNNAME,
	C_FREE,
	C_NEITHER
};
static const char *const pc_names[] = {
	"W2",	    "W3",      "W4 cur",  "W4 clock", "W4 reserve", "W4 surplus", "W4 fill", "W5",
	"A2 add",   "A3 undo", "A3 back", "done",     "leaving",    "leave",	  "surplus", "pad",
	"full",	    "take",    "O1",	  "O2",	      "O4",	    "O5",	  "O6",	     "zero",
	"describe", "name",    "use",	  "unname",   "free",	    "neither"};

struct hook {
	uint8_t pc, words, outermost, looks_gone; /* looks_gone: to it the hook below is */
	uint8_t sub, position;			  /* cur as it was read */
	uint8_t time, id, w, taken, tail_ordinal, tail_events, tries;
	uint8_t adds;  /* A1: no hook is below, and it is a compact record */
	uint8_t first; /* of its sub-buffer */
};

struct state {
	uint8_t cur, position, guard, leaving, tail_ordinal, tail_events, lost;
	uint8_t clock, last_time, next_id, left, signals, jumps;
	struct subbuf subs[SUBBUFS];
	uint8_t first_id[ORDINALS];
	uint8_t depth; /* hooks in flight, one on top of the other */
	struct hook hooks[LEVELS];
	/* the reader */
	uint8_t rpc, k, rordinal, n, rw, rstate, next_ordinal, holes, delivered, last_id, snapshots,
		steals, rtail, rsurplus;
	uint8_t copy[MOST], owner[MOST];
} __attribute__((aligned(8)));

struct scenario {
	const char *name;
	bool overwrite, longjmp, alternate, adds;
	uint8_t size, subbufs, events, signals, steals, snapshots;
	const char *words; /* of each event, in turn */
};

static const struct scenario *scenario;
static enum mutation mutation;

static const char *trail[STEPS];
static unsigned depth;
static const char *wrong;
static uint64_t explored;

/* The states that were seen, by 64 bits of hash. */
static uint64_t *seen, seen_size, seen_used;

static bool is_new(const struct state *s)
{
	uint64_t p[sizeof(*s) / 8], h = 0x9e3779b97f4a7c15ull, i;

	memcpy(p, s, sizeof(p));
	for (size_t k = 0; k < sizeof(*s) / 8; k++) {
		h = (h ^ p[k]) * 0xff51afd7ed558ccdull;
		h ^= h >> 32;
	}
	h += !h;
	if (2 * seen_used >= seen_size) {
		uint64_t *old = seen, old_size = seen_size;

		seen_size = old_size ? 2 * old_size : 1 << 20;
		seen = calloc(seen_size, sizeof(*seen));
		if (!seen)
			abort();
		for (uint64_t k = 0; k < old_size; k++)
			if (old[k]) {
				for (i = old[k] & (seen_size - 1); seen[i];)
					i = (i + 1) & (seen_size - 1);
				seen[i] = old[k];
			}
		free(old);
	}
	for (i = h & (seen_size - 1); seen[i]; i = (i + 1) & (seen_size - 1))
		if (seen[i] == h)
			return false;
	seen[i] = h;
	seen_used++;
	return true;
}

static void fail(const char *what)
{
	if (!wrong)
		wrong = what;
}

/* The position while there is no sub-buffer, of whichever ordinal. */
static uint8_t rest(uint8_t position)
{
	return position / WORDS * WORDS + (SPARE ? WORDS - SPARE : 0);
}

static void reset(struct subbuf *b)
{
	memset(b->word, 0, sizeof(b->word));
	memset(b->owner, 0, sizeof(b->owner));
}

/* A word that somebody has read. */
static void check_word(uint8_t word, uint8_t owner)
{
	if (word && word != PAD && word != owner)
		fail("a word was read that another hook had written");
}

static int find(const struct state *s, uint8_t ordinal)
{
	int found = -1;

	for (int k = 0; k < scenario->subbufs; k++) {
		const struct subbuf *b = &s->subs[k];

		if (b->slot == NOBODY || b->ordinal != ordinal || b->state == FREE)
			continue;
		found = k;
		if (b->word[1] || b->word[WORDS - 1])
			break;
	}
	return found;
}

static void begin_hook(struct state *s, bool looks_gone)
{
	static const char one[] = "1";
	const char *words = scenario->words ? scenario->words : one;
	struct hook *h = &s->hooks[s->depth];
	unsigned nth = scenario->events - s->left + scenario->signals - s->signals;

	*h = (struct hook){.words = words[nth % strlen(words)] - '0', .looks_gone = looks_gone};
	s->depth++;
}

/* The event has its words. Whether it is the first of its sub-buffer. */
static bool begins(struct state *s, struct hook *h)
{
	bool first = !s->first_id[h->position / WORDS];

	h->id = ++s->next_id;
	if (first)
		s->first_id[h->position / WORDS] = h->id;
	for (int i = 0; i < h->words; i++)
		s->subs[h->sub].owner[h->position % WORDS + i] = h->id;
	return first;
}

/* The words at the position that was read are the hook's, whose event happens now. */
static void reserved(struct state *s, struct hook *h)
{
	begins(s, h);
	if (h->time < s->last_time)
		fail("events do not lie in the order of their stamps");
	s->last_time = h->time;
	h->w = 0;
	h->pc = h->words > 1 ? W4_SURPLUS : W4_FILL;
}

/* One step of the topmost hook. */
static void step_hook(struct state *s)
{
	struct hook *h = &s->hooks[s->depth - 1];
	struct subbuf *b = h->sub < SUBBUFS ? &s->subs[h->sub] : NULL;
	uint8_t end = (h->position + WORDS - 1) / WORDS * WORDS;

	switch (h->pc) {
	case W2:
		h->outermost = !s->guard;
		if (s->guard && (h->looks_gone || s->guard >= s->depth)) {
			/* 7: the hook that set it is gone, or looks so */
			h->outermost = 1;
			if (mutation != NEVER_SUSPECT) {
				if (s->cur != NONE)
					s->subs[s->cur].suspect = 1;
				if (s->leaving)
					s->subs[s->leaving - 1].suspect = 1;
			}
		}
		if (h->adds != GAVE_UP)
			h->adds = scenario->adds && !s->guard && h->words == 1;
		h->pc = h->outermost ? W3 : W4_CUR;
		break;
	case W3:
		s->guard = s->depth;
		h->pc = mutation == CLOCK_BEFORE_POSITION ? W4_CLOCK : W4_CUR;
		break;
	case W4_CUR:
		h->sub = s->cur;
		h->position = s->position;
		if (h->position % WORDS == 0 || h->position % WORDS > WORDS - SPARE - h->words)
			h->pc = h->adds == 1 ? A3_BACK : h->sub == NONE ? C_TAKE : C_LEAVING;
		else
			h->pc = mutation == CLOCK_BEFORE_POSITION && h->outermost ? W4_RESERVE
										  : W4_CLOCK;
		break;
	case W4_CLOCK:
		h->time = ++s->clock;
		h->pc = mutation == CLOCK_BEFORE_POSITION && h->outermost ? W4_CUR
			: h->adds					  ? A2_ADD
									  : W4_RESERVE;
		break;
	case A2_ADD: {
		bool same = s->cur == h->sub && s->position == h->position;

		if (!same && mutation != ADD_WITHOUT_LOOKING) {
			h->sub = s->cur;
			h->position = s->position++;
			h->pc = A3_UNDO;
			if (h->sub != NONE) /* an event that is a hole, unless it is undone */
				h->first = begins(s, h);
			break;
		}
		s->position++;
		reserved(s, h);
		break;
	}
	case A3_UNDO:
		h->pc = A3_BACK;
		if (mutation == ADD_WITHOUT_UNDOING)
			break;
		if ((s->cur != h->sub || s->position != h->position + 1) &&
		    mutation != UNDO_WITHOUT_COMPARING) {
			if (h->sub != NONE && mutation != RETRY_BEHIND_A_HOLE)
				h->pc = W5;
			break;
		}
		s->cur = h->sub;
		s->position = h->position;
		if (h->sub == NONE)
			break;
		b->owner[h->position % WORDS] = 0;
		s->next_id--;
		if (h->first)
			s->first_id[h->position / WORDS] = 0;
		break;
	case A3_BACK:
		s->guard = 0;
		h->adds = GAVE_UP;
		h->pc = W2;
		break;
	case W4_RESERVE:
		if (mutation != RESERVE_WITHOUT_COMPARING &&
		    (s->cur != h->sub || s->position != h->position)) {
			h->pc = mutation == CLOCK_BEFORE_POSITION && h->outermost ? W4_CLOCK
										  : W4_CUR;
			if (mutation == CLOCK_BEFORE_POSITION)
				h->pc = W4_CUR; /* with the time it has */
			break;
		}
		s->cur = h->sub;
		s->position = h->position + h->words;
		reserved(s, h);
		if (mutation == GUARD_BEFORE_WORDS && h->outermost)
			s->guard = 0;
		break;
	case W4_SURPLUS:
		b->surplus += h->words - 1;
		h->pc = W4_FILL;
		break;
	case W4_FILL:
		b->word[h->position % WORDS + h->w] = h->id;
		if (++h->w == h->words)
			h->pc = W5;
		break;
	case W5:
		if (h->outermost)
			s->guard = 0;
		h->pc = DONE;
		break;
	case C_LEAVING:
		s->leaving = h->sub + 1;
		h->pc = C_LEAVE;
		break;
	case C_LEAVE:
		if (s->cur != h->sub || s->position != h->position) {
			h->pc = W4_CUR;
			break;
		}
		s->cur = NONE;
		s->position = rest(end);
		h->w = h->position;
		h->pc = C_SURPLUS;
		break;
	case C_SURPLUS:
		if (mutation != PADDING_IS_EVENTS)
			b->surplus += end - h->position;
		h->pc = C_PAD;
		break;
	case C_PAD:
		/* nobody looks at it yet but to skip it */
		for (int i = h->position; i < end; i++) {
			b->word[i % WORDS] = PAD;
			b->owner[i % WORDS] = PAD;
		}
		h->pc = C_FULL;
		break;
	case C_FULL:
		if (h->outermost || mutation == HANDLER_HANDS_OVER)
			b->state = FULL;
		h->sub = NONE;
		h->position = rest(end);
		h->pc = C_TAKE;
		break;
	case C_TAKE:
		h->pc = scenario->overwrite ? O1 : C_NEITHER;
		for (int k = 0; k < scenario->subbufs; k++)
			if (s->subs[k].state == FREE) {
				s->subs[k].state = OWNED;
				h->taken = k;
				h->pc = C_DESCRIBE;
				break;
			}
		break;
	case O1:
		h->tail_ordinal = s->tail_ordinal;
		h->tail_events = s->tail_events;
		h->pc = h->tail_ordinal >= h->position / WORDS ? C_NEITHER : O2;
		break;
	case O2: {
		int k = find(s, h->tail_ordinal);

		if (k < 0) {
			h->pc = s->tail_ordinal != h->tail_ordinal && h->tries++ < 3 ? O1
										     : C_NEITHER;
			break;
		}
		h->taken = k;
		h->pc = s->subs[k].state == FULL ||
					(s->subs[k].state == OWNED &&
					 (h->outermost || mutation == HANDLER_RECYCLES_ALL))
				? O4
				: C_NEITHER;
		break;
	}
	case O4: /* O3 with it: the surplus is final */
		if (mutation != TAIL_WITHOUT_COMPARING && s->tail_ordinal != h->tail_ordinal) {
			h->pc = O1;
			break;
		}
		s->tail_ordinal = h->tail_ordinal + 1;
		s->tail_events = h->tail_events + WORDS - 1 - s->subs[h->taken].surplus;
		h->pc = mutation == ZERO_BEFORE_NAMING ? O6_ZERO : O5;
		break;
	case O5:
		s->subs[h->taken].slot = NOBODY;
		h->pc = mutation == ZERO_BEFORE_NAMING ? C_DESCRIBE : O6;
		break;
	case O6:
		s->subs[h->taken].state = s->subs[h->taken].suspect ? LEFT : OWNED;
		h->pc = s->subs[h->taken].suspect ? O1 : O6_ZERO;
		break;
	case O6_ZERO:
		reset(&s->subs[h->taken]);
		h->pc = mutation == ZERO_BEFORE_NAMING ? O5 : C_DESCRIBE;
		break;
	case C_DESCRIBE:
		s->subs[h->taken].ordinal = h->position / WORDS;
		s->subs[h->taken].suspect = s->subs[h->taken].surplus = 0;
		h->pc = C_NAME;
		break;
	case C_NAME:
		s->subs[h->taken].slot = 0;
		h->pc = C_USE;
		break;
	case C_USE:
		if (s->cur != h->sub || s->position != h->position) {
			h->pc = C_UNNAME;
			break;
		}
		s->cur = h->taken;
		s->position = h->position / WORDS * WORDS + 1;
		h->pc = W4_CUR;
		break;
	case C_UNNAME:
		s->subs[h->taken].slot = NOBODY;
		h->pc = C_FREE;
		break;
	case C_FREE:
		s->subs[h->taken].state = FREE;
		h->pc = W4_CUR;
		break;
	case C_NEITHER:
		if (s->cur != h->sub || s->position != h->position) {
			h->pc = W4_CUR;
			break;
		}
		if (s->position != rest(s->position)) {
			s->position = rest(s->position);
			h->pc = W4_CUR;
			break;
		}
		s->lost++;
		h->pc = W5;
		break;
	}
}

/* What a hook named, and left by longjmp before it was in use: one that was in use has records or
 * padding. */
static bool never_used(const struct subbuf *b)
{
	for (int i = 1; i < WORDS; i++)
		if (b->word[i])
			return false;
	return b->state == OWNED;
}

/* What a drained sub-buffer holds. */
static void deliver(struct state *s)
{
	uint8_t hole = 0;

	for (int i = 1; i < s->n; i++) {
		check_word(s->copy[i], s->owner[i]);
		if (!s->copy[i] && s->owner[i] && s->owner[i] != hole) {
			hole = s->owner[i];
			/* not the rest of one that is there in part */
			if (i == 1 || s->copy[i - 1] != hole)
				s->holes++;
		}
		if (!s->copy[i] || s->copy[i] == PAD || s->copy[i] == s->last_id)
			continue;
		if (s->copy[i] < s->last_id)
			fail("events were delivered twice, or out of order");
		s->last_id = s->copy[i];
		s->delivered++;
	}
}

enum { R_LOOK, R_GUARD, R_COPY, R_GIVE, R_FREE, R_AGAIN, R_TAIL, R_STEAL };

/* One step of the collector that drains; false: it has nothing to do. quiet: nobody records any
 * more. */
static bool step_drain(struct state *s, uint8_t k, bool quiet)
{
	struct subbuf *b;

	switch (s->rpc) {
	case R_LOOK:
		b = &s->subs[k];
		if ((b->state != FULL && b->state != OWNED) || b->slot == NOBODY || b->suspended ||
		    (b->ordinal != s->next_ordinal &&
		     (!never_used(b) || mutation == TAKE_NEVER_USED)))
			return false;
		if (b->state == OWNED && !quiet &&
		    (s->cur == k || s->position / WORDS <= b->ordinal))
			return false;
		s->k = k;
		s->rordinal = b->ordinal;
		s->n = s->cur == k && s->position % WORDS ? s->position % WORDS : WORDS;
		s->rw = 1;
		s->rpc = b->state == OWNED && !quiet && mutation != TAKE_WITHOUT_GUARD ? R_GUARD
										       : R_COPY;
		return true;
	case R_GUARD:
		if (s->guard) /* looks again later */
			s->rpc = R_LOOK;
		else
			s->rpc = mutation == TAKE_WITHOUT_LOOKING_AGAIN ? R_COPY : R_AGAIN;
		return true;
	case R_AGAIN:
		b = &s->subs[s->k];
		s->rpc = b->state == OWNED && b->slot != NOBODY && b->ordinal == s->rordinal &&
					 (b->ordinal == s->next_ordinal || never_used(b))
				 ? R_COPY
				 : R_LOOK;
		return true;
	case R_COPY:
		b = &s->subs[s->k];
		s->copy[s->rw] = b->word[s->rw];
		s->owner[s->rw] = b->owner[s->rw];
		if (++s->rw >= s->n) {
			if (s->cur == s->k || !never_used(b) || mutation == TAKE_NEVER_USED) {
				deliver(s);
				s->next_ordinal++;
			}
			s->rpc = R_GIVE;
		}
		return true;
	case R_GIVE:
		b = &s->subs[s->k];
		b->slot = NOBODY;
		if (b->suspect) {
			b->suspended = 1;
			s->rpc = R_LOOK;
			return true;
		}
		if (mutation == FREE_BEFORE_ZEROING)
			b->state = FREE;
		else
			reset(b);
		s->rpc = R_FREE;
		return true;
	default:
		b = &s->subs[s->k];
		if (mutation == FREE_BEFORE_ZEROING)
			reset(b);
		else
			b->state = FREE;
		s->rpc = R_LOOK;
		return true;
	}
}

/* One step of a snapshot: of one sub-buffer that is the first to be kept. */
static bool step_snapshot(struct state *s, uint8_t k)
{
	struct subbuf *b = &s->subs[s->k];
	uint8_t before;

	switch (s->rpc) {
	case R_LOOK:
		b = &s->subs[k];
		if (!s->snapshots || (b->state != FULL && b->state != OWNED) || b->slot == NOBODY)
			return false;
		s->snapshots--;
		s->k = k;
		s->rordinal = b->ordinal;
		s->n = s->cur == k && s->position % WORDS ? s->position % WORDS : WORDS;
		s->rstate = b->state;
		s->rsurplus = b->surplus;
		s->rtail = s->tail_events << 4 | s->tail_ordinal;
		s->rw = 1;
		s->rpc = R_COPY;
		return true;
	case R_COPY:
		s->copy[s->rw] = b->word[s->rw];
		s->owner[s->rw] = b->owner[s->rw];
		if (++s->rw >= s->n)
			s->rpc = R_AGAIN;
		return true;
	case R_AGAIN:
		s->rpc = R_TAIL;
		if (mutation != BELIEVE_COPIES &&
		    (b->slot == NOBODY || b->ordinal != s->rordinal)) {
			s->rpc = R_LOOK; /* torn: left out */
			return true;
		}
		for (int i = 1; i < s->n; i++) {
			check_word(s->copy[i], s->owner[i]);
			if (s->copy[i] && s->copy[i] != PAD &&
			    s->first_id[s->rordinal] > s->copy[i])
				fail("a snapshot has words of an older sub-buffer");
			if (s->copy[i] && s->copy[i] != PAD && s->first_id[s->rordinal + 1] &&
			    s->first_id[s->rordinal + 1] <= s->copy[i])
				fail("a snapshot has words of a younger sub-buffer");
		}
		return true;
	case R_TAIL:
		s->rpc = R_LOOK;
		if (mutation != TAIL_BEFORE_COPIES)
			s->rtail = s->tail_events << 4 | s->tail_ordinal;
		before = s->rtail >> 4;
		/* only of the oldest that is kept, or the one before it, do we know without having
		 * copied others */
		if ((s->rtail & 15) == s->rordinal + 1 && s->rstate != FULL &&
		    mutation != BELIEVE_PARTS)
			return true; /* more may have come before it was overwritten: left out */
		if ((s->rtail & 15) == s->rordinal + 1 && mutation != TAIL_BEFORE_COPIES)
			before -= WORDS - 1 - s->rsurplus;
		else if ((s->rtail & 15) != s->rordinal && mutation != TAIL_BEFORE_COPIES)
			return true;
		if (s->first_id[s->rordinal] && before != s->first_id[s->rordinal] - 1 &&
		    b->state == FULL && b->ordinal == s->rordinal)
			fail("a snapshot says another number of events that were overwritten");
		return true;
	}
	return false;
}

/* The collector takes the oldest for others (collector/flight_recorder_quota.c). */
static bool step_steal(struct state *s)
{
	int k = find(s, s->tail_ordinal);

	if (!s->steals || k < 0 || s->rpc != R_LOOK ||
	    (s->cur == k && mutation != TAKE_OLDEST_NOT_FULL))
		return false;
	if (s->subs[k].state != FULL &&
	    (mutation != TAKE_OLDEST_NOT_FULL || s->subs[k].state != OWNED))
		return false;
	/* the compare-and-exchange has seen the tail as it is now */
	s->steals--;
	s->tail_events += WORDS - 1 - s->subs[k].surplus;
	s->tail_ordinal++;
	s->subs[k].slot = NOBODY;
	s->k = k;
	s->rpc = R_STEAL;
	return true;
}

static bool step_stolen(struct state *s)
{
	struct subbuf *b = &s->subs[s->k];

	if (s->rpc != R_STEAL)
		return false;
	s->rpc = R_LOOK;
	if (b->suspect) {
		b->state = LEFT;
		return true;
	}
	reset(b);
	b->state = FREE;
	return true;
}

static void check_end(const struct state *s)
{
	struct state e = *s;
	uint8_t happened = s->next_id + s->lost, kept = 0, last = 0;

	if (!scenario->longjmp && happened != scenario->events + scenario->signals - s->signals)
		fail("there are more or fewer events than calls");

	if (!scenario->overwrite) {
		for (bool more = true; more && !wrong;) {
			more = false;
			for (uint8_t k = 0; k < scenario->subbufs && !more; k++)
				more = step_drain(&e, e.rpc == R_LOOK ? k : e.k, true);
		}
		if (e.delivered + e.holes + e.lost != happened)
			fail("delivered, holes and lost are not what happened");
		return;
	}
	for (uint8_t o = s->tail_ordinal; o <= s->position / WORDS && o < ORDINALS; o++) {
		int k = find(s, o);

		for (int i = 1; k >= 0 && i < WORDS; i++) {
			check_word(s->subs[k].word[i], s->subs[k].owner[i]);
			if (s->subs[k].owner[i] && s->subs[k].owner[i] != PAD &&
			    s->subs[k].owner[i] != last) {
				if (s->subs[k].owner[i] < last)
					fail("events are kept out of order");
				last = s->subs[k].owner[i];
				kept++;
			}
		}
	}
	if (kept + s->tail_events + s->lost != happened)
		fail("kept, overwritten and lost are not what happened");
}

static bool explore(const struct state *s);

static bool follow(const struct state *s, const char *what)
{
	bool done;

	if (depth >= STEPS) {
		fail("it goes on for ever");
		return false;
	}
	trail[depth++] = what;
	done = !wrong && explore(s);
	if (done)
		depth--; /* else the trail stays */
	return done;
}

static bool explore(const struct state *s)
{
	struct state n;

	if (!is_new(s))
		return true;
	explored++;
	/* the thread */
	if (s->depth) {
		n = *s;
		if (n.hooks[n.depth - 1].pc == DONE) {
			memset(&n.hooks[n.depth - 1], 0, sizeof(*n.hooks));
			n.depth--;
			if (!follow(&n, "return"))
				return false;
			if (n.depth && n.jumps) {
				memset(&n.hooks[n.depth - 1], 0, sizeof(*n.hooks));
				n.depth--;
				n.jumps--;
				if (!follow(&n, "longjmp"))
					return false;
			}
		} else {
			const char *name = pc_names[n.hooks[n.depth - 1].pc];

			step_hook(&n);
			if (!follow(&n, name))
				return false;
		}
	} else if (s->left) {
		n = *s;
		begin_hook(&n, false);
		n.left--;
		if (!follow(&n, "call"))
			return false;
	} else if (s->rpc == R_LOOK) {
		check_end(s);
		if (wrong)
			return false;
	}
	/* its signals */
	for (int alternate = 0; alternate <= scenario->alternate; alternate++)
		if (s->depth && s->depth < LEVELS && s->signals) {
			n = *s;
			begin_hook(&n, alternate);
			n.signals--;
			if (!follow(&n, alternate ? "SIGNAL on another stack" : "SIGNAL"))
				return false;
		}
	/* the reader */
	for (uint8_t k = 0; k < scenario->subbufs; k++) {
		n = *s;
		if (n.rpc == R_STEAL)
			break;
		if (scenario->overwrite ? step_snapshot(&n, k) : step_drain(&n, k, false))
			if (!follow(&n, "                    READER"))
				return false;
		if (s->rpc != R_LOOK)
			break;
	}
	n = *s;
	if (scenario->overwrite && step_steal(&n) &&
	    !follow(&n, "                    READER takes the oldest"))
		return false;
	n = *s;
	if (scenario->overwrite && step_stolen(&n) &&
	    !follow(&n, "                    READER gives it back"))
		return false;
	return true;
}

static bool run(const struct scenario *which)
{
	struct state s;

	scenario = which;
	memset(&s, 0, sizeof(s));
	s.cur = NONE;
	s.position = rest(0);
	s.left = which->events;
	s.signals = which->signals;
	s.jumps = which->longjmp;
	s.steals = which->steals;
	s.snapshots = which->snapshots;
	for (int k = 0; k < SUBBUFS; k++)
		s.subs[k].slot = NOBODY;
	free(seen);
	seen = NULL;
	seen_size = seen_used = explored = 0;
	depth = 0;
	wrong = NULL;
	explore(&s);
	return !wrong;
}

static const struct scenario scenarios[] = {
	{.name = "drained", .size = 4, .subbufs = 2, .events = 5, .signals = 1, .words = "112"},
	{.name = "drained, three at once",
	 .size = 4,
	 .subbufs = 2,
	 .events = 2,
	 .signals = 2,
	 .words = "2"},
	{.name = "drained, longjmp",
	 .size = 4,
	 .subbufs = 2,
	 .events = 4,
	 .signals = 1,
	 .longjmp = true,
	 .words = "1"},
	{.name = "drained, other stacks",
	 .size = 4,
	 .subbufs = 2,
	 .events = 4,
	 .signals = 1,
	 .alternate = true,
	 .words = "1"},
	{.name = "overwritten",
	 .overwrite = true,
	 .size = 4,
	 .subbufs = 2,
	 .events = 6,
	 .signals = 1,
	 .snapshots = 1,
	 .words = "112"},
	{.name = "overwritten, three at once",
	 .overwrite = true,
	 .size = 4,
	 .subbufs = 2,
	 .events = 3,
	 .signals = 2,
	 .words = "2"},
	{.name = "overwritten, taken from",
	 .overwrite = true,
	 .size = 4,
	 .subbufs = 2,
	 .events = 5,
	 .signals = 1,
	 .steals = 1,
	 .snapshots = 1,
	 .words = "112"},
	{.name = "overwritten, longjmp",
	 .overwrite = true,
	 .size = 4,
	 .subbufs = 2,
	 .events = 5,
	 .signals = 1,
	 .longjmp = true,
	 .steals = 1,
	 .words = "1"},
	{.name = "overwritten, other stacks",
	 .overwrite = true,
	 .size = 4,
	 .subbufs = 2,
	 .events = 6,
	 .signals = 1,
	 .alternate = true,
	 .steals = 1,
	 .words = "1"},
	{.name = "added",
	 .adds = true,
	 .size = 6,
	 .subbufs = 2,
	 .events = 7,
	 .signals = 1,
	 .words = "11111112"},
	{.name = "added, three at once",
	 .adds = true,
	 .size = 6,
	 .subbufs = 2,
	 .events = 5,
	 .signals = 2,
	 .words = "1"},
	{.name = "added, longjmp",
	 .adds = true,
	 .longjmp = true,
	 .size = 6,
	 .subbufs = 2,
	 .events = 7,
	 .signals = 1,
	 .words = "1"},
	{.name = "added, other stacks",
	 .adds = true,
	 .alternate = true,
	 .size = 6,
	 .subbufs = 2,
	 .events = 4,
	 .signals = 2,
	 .words = "1"},
	{.name = "added and overwritten",
	 .adds = true,
	 .overwrite = true,
	 .alternate = true,
	 .size = 6,
	 .subbufs = 2,
	 .events = 7,
	 .signals = 1,
	 .snapshots = 1,
	 .words = "1"},
};

#define SCENARIOS (sizeof(scenarios) / sizeof(*scenarios))

static void print_trail(void)
{
	for (unsigned i = 0; i < depth; i++)
		printf("    %3u %s\n", i, trail[i]);
}

int main(int argc, char **argv)
{
	int missed = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);

	if (argc > 1 && strcmp(argv[1], "--mutations")) {
		fputs("usage: rings [--mutations]\n", stderr);
		return 2;
	}
	if (argc == 1) {
		for (size_t i = 0; i < SCENARIOS; i++) {
			bool right = run(&scenarios[i]);

			printf("%-30s %9lu states: %s\n", scenarios[i].name,
			       (unsigned long)explored, right ? "all hold" : wrong);
			if (!right) {
				print_trail();
				return 1;
			}
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
