/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays that grow by doubling, without a member for their capacity: an array of n elements is full
 * whenever n is zero or a power of two.
 */
#ifndef IP_ARRAY_H
#define IP_ARRAY_H

#include "common/error.h"

#include <stdlib.h>

/* Makes room for one more element in *array, a pointer to malloc'ed elements. The array holds n
 * elements of the given size, and has only ever grown by this function, one by one. Returns 0, or
 * -1 with an error. */
static inline int ip_array_grow(void *array, size_t n, size_t size)
{
	void **p = array;
	void *grown;

	if (n & (n - 1))
		return 0;
	grown = reallocarray(*p, n ? 2 * n : 1, size);
	if (!grown)
		return ip_error("out of memory");
	*p = grown;
	return 0;
}

#endif
