/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Causes that may be chance. What another program, an interrupt or a page fault does to a call hits
 * whatever runs: so a function is hit as often as it has of the time. A cause is more frequent.
 */
#ifndef IP_CHANCE_H
#define IP_CHANCE_H

#include "analysis/darc/root_causes.h"

/* Gives up causes that are of few operations, or may be chance, if that is not kept, and sorts the
 * others: those of one call path together, wherever its functions are called, the largest share
 * first. percent: of the operations of the first one, that another has at least. peak, reference:
 * as in ip_root_causes_find(), with what belongs to each node alone; without that, only the figures
 * of nodes tell how much of the time they have. Returns 0, or -1 with an error. */
int ip_chance_give_up(const struct ip_ftree *ftree, const struct ip_darc_operations *peak,
		      const struct ip_darc_operations *reference, double percent, bool keeps,
		      struct ip_root_causes *causes);

#endif
