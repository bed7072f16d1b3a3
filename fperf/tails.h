/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FPerf and functions that jump to others at their end. A sample of such a function lasts until the
 * function that it has jumped to returns (runtime/fperf_chain.c). For that, all functions in which
 * its calls may go on, directly or by further jumps, have to be live: it needs them. While one of
 * them is not live, the function is counted, and takes no samples (policy.h, 6).
 *
 *   1. Probes of a function may change, or a change without a stop may leave it without probes for
 *      a moment. Before that, the functions that need it are held: their jumps do nothing from then
 *      on, and their open samples are cut, since their exits may not be seen.
 *   2. When the change is over, their open samples are cut once more, for those that began in
 *      between. Jumps are followed again if all needed functions are live.
 */
#ifndef IP_FPERF_TAILS_H
#define IP_FPERF_TAILS_H

#include "fperf/fperf_private.h"
#include "fperf/policy.h"

/* Returns whether all functions that it needs are live. */
bool ip_fperf_has_needs(const struct ip_fperf *f, const struct ip_fperf_function *function);

/* Notes that the tail exits of a function that are followed have this number. */
void ip_fperf_place_jumps(struct ip_fperf *f, struct ip_fperf_function *function, uint32_t number);

/* Step 1. ip_fperf_hold(): for the functions that need one that comes or goes according to items,
 * which has the same indices as functions. ip_fperf_hold_needing(): for the functions that need
 * this one. */
void ip_fperf_hold(struct ip_fperf *f, const struct ip_fperf_item *items);
void ip_fperf_hold_needing(struct ip_fperf *f, const struct ip_fperf_function *function);

/* Step 2, for all functions that are held. Their members out must be up to date. */
void ip_fperf_release_held(struct ip_fperf *f);

/* No open sample of the function will ever end. */
void ip_fperf_forget_open(struct ip_fperf *f, struct ip_fperf_function *function);

#endif
