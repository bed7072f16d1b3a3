// SPDX-License-Identifier: Apache-2.0
/*
 * The distance of two words: Levenshtein's, and two letters that are swapped count once (the
 * restricted form of Damerau). Three rows of the table are enough.
 */
#include "common/edit_distance.h"

#include <ctype.h>
#include <string.h>

static unsigned fold(char c)
{
	return (unsigned)tolower((unsigned char)c);
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

unsigned ip_edit_distance(const char *a, size_t na, const char *b, size_t nb, unsigned limit)
{
	unsigned before[IP_EDIT_WORD_MAX + 1], above[IP_EDIT_WORD_MAX + 1],
		row[IP_EDIT_WORD_MAX + 1];

	if (na > IP_EDIT_WORD_MAX || nb > IP_EDIT_WORD_MAX || (na > nb ? na - nb : nb - na) > limit)
		return limit + 1;
	for (size_t j = 0; j <= nb; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= na; i++) {
		unsigned best = (unsigned)i;

		memcpy(before, above, (nb + 1) * sizeof(*row));
		memcpy(above, row, (nb + 1) * sizeof(*row));
		row[0] = (unsigned)i;
		for (size_t j = 1; j <= nb; j++) {
			const unsigned ca = fold(a[i - 1]), cb = fold(b[j - 1]);

			row[j] = least(above[j - 1] + (ca != cb), least(above[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && ca == fold(b[j - 2]) && cb == fold(a[i - 2]))
				row[j] = least(row[j], before[j - 2] + 1);
			best = least(best, row[j]);
		}
		/* a swap reaches back over one row, so one more is allowed to look too far */
		if (best > limit + 1)
			return limit + 1;
	}
	return row[nb] > limit ? limit + 1 : row[nb];
}

unsigned ip_edit_limit(size_t n)
{
	const unsigned third = (unsigned)(n > IP_EDIT_WORD_MAX ? IP_EDIT_WORD_MAX : n) / 3;

	return third >= 2 ? third : n > 2 ? 2 : 1;
}
