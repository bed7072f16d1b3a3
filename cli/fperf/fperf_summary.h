/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What fperf tells on stderr: a summary of what was counted, and the windows of --alternate.
 */
#ifndef IP_CLI_FPERF_SUMMARY_H
#define IP_CLI_FPERF_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>

#include "fperf/fperf.h"
#include "session/session.h"

/* Whether results are few for want of calls, rather than for the budget. */
bool fperf_summary_is_little(const struct ip_fperf_summary *sum);

/* Prints the summary, with what limits the results. several: the line says of which process it is.
 */
void fperf_summary_tell(const struct ip_session_summary *s, struct ip_fperf *f, bool several);

/* Prints a window of --alternate; the operation of struct ip_fperf_options. The first call prints
 * none: what the process did before belongs to no window. */
void fperf_summary_window(void *context, int pid, bool counted, uint64_t wall_ns, uint64_t cpu_ns);

#endif
