/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds a session that records within a budget: as a controller (controller.h) it takes all probes
 * out where more was spent than the budget allows (credit.h), and in again where half of what may
 * be saved is there. So the session records for a while, and rests for a while.
 *
 * What is spent, in CPU time of the process:
 *   records   what threads have written into their rings, two words as a pair of probes, at what
 *             one costs that is called as often (ip_fperf_call_cost()). A record with a return
 *             address has several words: so that is rather too much.
 *   stops     their length, times the number of CPUs that the process keeps busy, those by which
 *             probes go out and come in among them. The first one is the attach.
 *
 * The stops have the kind IP_BUDGET_STOP in the trace. What is selected stays selected: who changes
 * the selection meanwhile changes what comes in.
 */
#ifndef IP_RECORDING_BUDGET_H
#define IP_RECORDING_BUDGET_H

struct ip_recording_budget;
struct ip_session_controller;

#define IP_BUDGET_STOP "budget"

/* share: of the CPU time of the process, above 0. Returns NULL with an error. The caller destroys
 * it behind the session. */
struct ip_recording_budget *ip_recording_budget_create(double share);
void ip_recording_budget_destroy(struct ip_recording_budget *budget);
/* It belongs to the budget. */
const struct ip_session_controller *
ip_recording_budget_controller(const struct ip_recording_budget *budget);

#endif
