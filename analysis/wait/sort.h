/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorts what is nearly in order: lists that were put together of sorted ones, such as what each
 * thread did in order of time.
 */
#ifndef IP_SORT_H
#define IP_SORT_H

#include <stddef.h>

/* As qsort(3), and stable: natural merge sort. It takes one pass to find the parts that are in
 * order, and as many more as the logarithm of their number; memory for n items and for two words a
 * part meanwhile. Where there is none, qsort() does it. */
void ip_sort(void *items, size_t n, size_t size, int (*compare)(const void *, const void *));

#endif
