/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far two words are apart: for "do you mean".
 */
#ifndef IP_EDIT_DISTANCE_H
#define IP_EDIT_DISTANCE_H

#include <stddef.h>

/* The longest words that can be compared, in bytes. */
#define IP_EDIT_WORD_MAX 96

/* Returns how many letters have to be put in, taken out, replaced or swapped with their neighbour
 * to make b of a, with case folded; limit + 1 where it is more than limit, or where a word is too
 * long. */
unsigned ip_edit_distance(const char *a, size_t na, const char *b, size_t nb, unsigned limit);

/* Returns how many letters of a word of n bytes may be wrong: a third of them, but at least two; in
 * a word of one or two letters, one. */
unsigned ip_edit_limit(size_t n);

#endif
