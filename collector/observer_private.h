/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the drain tells of for the observer.
 */
#ifndef IP_OBSERVER_PRIVATE_H
#define IP_OBSERVER_PRIVATE_H

#include <stddef.h>
#include <stdint.h>

#include "collector/collector_private.h"
#include "collector/observer.h"

struct ip_observer_looks;

/* Step 4: words[1..n) are those of the sub-buffer that the slot delivers next. */
void ip_observer_taken(struct ip_collector *c, uint32_t slot, const uint64_t *words, size_t n);
/* All that the slot's thread has left was taken, and the thread has ended. */
void ip_observer_ended(struct ip_collector *c, uint32_t slot);
/* Steps 1 to 3 for all slots. */
void ip_observer_look(struct ip_collector *c);
void ip_observer_destroy(struct ip_observer_looks *looks);

#endif
