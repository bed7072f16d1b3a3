/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FPerf and functions that jump to others at their end: a sample of such a function lasts until
 * what it has jumped to returns (runtime/fperf_chain.c). For that all functions that its calls may
 * go on in, directly or by jumps of their own, have to be live: it needs them. While one of them is
 * not live the function is counted, and takes no samples (policy.h, 6).
 *
 *   1. Before probes of a function change, or a change without a stop leaves it without probes for
 *      a moment, those that need it are held: their jumps do nothing from then on, and what is open
 *      of them is cut, for its exit may go unseen.
 *   2. When the change is over the same is cut once more, for what began in between, and jumps are
 *      followed again where all that is needed is live.
 */
#ifndef IP_FPERF_TAILS_H
#define IP_FPERF_TAILS_H

#include "fperf/fperf_private.h"
#include "fperf/policy.h"

/* Whether all that it needs is live. */
bool ip_fperf_has_needs(const struct ip_fperf *f, const struct ip_fperf_function *function);

/* The tail exits of a function that are followed have this number. */
void ip_fperf_place_jumps(struct ip_fperf *f, struct ip_fperf_function *function, uint32_t number);

/* Step 1, for those that need a function that comes or goes by what was decided; for those that
 * need that one. items: as functions. */
void ip_fperf_hold(struct ip_fperf *f, const struct ip_fperf_item *items);
void ip_fperf_hold_needing(struct ip_fperf *f, const struct ip_fperf_function *function);

/* Step 2, for all that are held. out is as it is now. */
void ip_fperf_release_held(struct ip_fperf *f);

/* No sample that is open of the function will ever end. */
void ip_fperf_forget_open(struct ip_fperf *f, struct ip_fperf_function *function);

#endif
