/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked with all of fperf, in the place of its leaky bucket: the policy that IPROBE_TEST_POLICY
 * names.
 */
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "fperf/leaky_bucket.h"
#include "test/policies.h"

static int decide(struct ip_fperf_item *items, size_t n, const struct ip_fperf_allowance *means)
{
	static const struct ip_fperf_policy *const policies[] = {&test_rounds, &test_rate,
								 &test_spendthrift, &test_miser};
	const char *name = getenv("IPROBE_TEST_POLICY");

	for (size_t i = 0; name && i < sizeof(policies) / sizeof(*policies); i++)
		if (!strcmp(policies[i]->name, name))
			return policies[i]->decide(items, n, means);
	return ip_error("no such policy");
}

const struct ip_fperf_policy ip_fperf_bucket = {.name = "plugged", .decide = decide};
