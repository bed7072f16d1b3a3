/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies of FPerf that are not its own (fperf/policy.h): two that could be, and two that keep to
 * nothing.
 */
#ifndef TEST_POLICIES_H
#define TEST_POLICIES_H

#include "fperf/policy.h"

extern const struct ip_fperf_policy test_rounds, test_rate, test_spendthrift, test_miser;

#endif
