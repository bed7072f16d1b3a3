/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The area of a session that only watches (session/nap.h). Hundreds of them may wait on a machine,
 * so such an area takes what its threads need, and not what a recording may need:
 *
 *   - the fewest sub-buffers that an area has (area.h), since no event is written;
 *   - blocks of meters for four times the threads that the process has, or 32 at least;
 *   - slots for 512 threads. The rest of the table is given back to the kernel, as long as no
 *     session before can have used it: a hook that has outlived its session finds there what
 *     ip_area_begin() has written. A thread that claims one of these slots all the same gets a page
 *     of zeros, which is a free slot.
 */
#ifndef IP_AREA_LEAN_H
#define IP_AREA_LEAN_H

#include <stdbool.h>
#include <stdint.h>

struct ip_area;

/* To be called before ip_area_begin(). lean: whether the session only watches. nthreads: of the
 * target now; 0: not known. */
void ip_area_lean_prepare(struct ip_area *area, bool lean, uint32_t nthreads);

/* To be called after ip_area_begin() of a lean session, before its gate opens: gives back slots.
 * Returns whether it did. */
bool ip_area_lean_give_back(struct ip_area *area);

/* Threads have come: makes memory for all slots again before they are needed. Returns whether it
 * did. */
bool ip_area_lean_take_back(struct ip_area *area);

#endif
