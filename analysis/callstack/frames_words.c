/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out which events may be taken on the common path.
 */
#include "analysis/callstack/frames_words.h"

#include <stdlib.h>

#include "common/error.h"

/* Returns what stands for a number of the recording. For numbers that are not known that is 0: they
 * have function 0, and their exits may be common. */
static struct ip_frames_number number_of(const struct ip_frames *t, uint32_t i)
{
	struct ip_recording_number number = ip_recording_number(t->session, i);
	struct ip_frames_number f = {.function = number.function};

	if (number.silent || number.entry_only || number.changes ||
	    (t->hosts && t->hosts[number.function])) {
		f.function = IP_FRAMES_NO_NUMBER;
		return f;
	}
	if (!number.function)
		return f;
	f.reach = number.room < BELOW ? BELOW - number.room : 0;
	f.tail_common = !number.jumps && !(t->hosts && t->has_parts[number.function]);
	f.tail_returns = t->session->functions[number.function].returns;
	return f;
}

/* Makes the numbers of a stream. There is one for each that a word can have; most of the memory is
 * never touched. */
static bool make_numbers(struct ip_frames *t, const struct ip_stream_renumber *shift)
{
	size_t n = (size_t)IP_NUMBER_MAX + 1, known = t->session->nnumbers;

	if (t->numbers && t->numbers_base == shift->base && t->numbers_most == shift->most)
		return true;
	/* what follows may fail: no table is left that is none of these numbers */
	free(t->numbers);
	t->numbers = NULL;
	if (shift->base >= known)
		return false;
	t->numbers = calloc(n, sizeof(*t->numbers));
	if (!t->numbers)
		return false;
	t->numbers_base = shift->base;
	t->numbers_most = shift->most;
	for (size_t i = 0; i < n && i <= shift->most && i < known - shift->base; i++)
		t->numbers[i] = number_of(t, shift->base + i);
	/* a record without a number is damaged */
	t->numbers[0] = (struct ip_frames_number){.function = IP_FRAMES_NO_NUMBER};
	return true;
}

/* Makes room for n more frames. Returns false where there is none. */
static bool reserve(struct ip_frames *t, size_t n)
{
	size_t frames = t->n;
	int done = 0;

	while (done == 0 && t->capacity < frames + n && frames + n <= DEPTH_MAX) {
		t->n = t->capacity;
		done = ip_frames_reserve(t);
		t->n = frames;
	}
	return t->capacity >= frames + n;
}

size_t ip_frames_prepare_words(struct ip_frames *t, const struct ip_stream_words *words)
{
	size_t n = words->n < IP_FRAMES_WORDS ? words->n : IP_FRAMES_WORDS;

	/* the upper bits of the time are the same in all compact records */
	if (t->holds || t->joins || t->lossy || words->ts != t->now ||
	    (words->ts | IP_TIME_MASK) > t->notice || !make_numbers(t, words->shift) ||
	    !reserve(t, n))
		return 0;
	return n;
}
