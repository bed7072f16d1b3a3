/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of probes.d: any bytes as a file. What it takes can be used: each selection and profile is found by its name, and each
 * reference has been followed.
 *
 * covers: hotpatcher/yaml_tree.c hotpatcher/probes_d.c
 */
#include "common/selection.h"
#include "fuzz.h"
#include "hotpatcher/probes_d.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ip_probes_d probes = {0};

	if (ip_probes_d_add(&probes, (const char *)data, size, "file") < 0 || ip_probes_d_check(&probes) < 0)
		fuzz_check_error();
	for (size_t i = 0; i < probes.nselections; i++) {
		const struct ip_named_selection *s = &probes.selections[i];

		fuzz_assert(ip_probes_d_selection(&probes, s->name) == s);
		fuzz_assert(*s->functions && s->place.line && s->place.column);
	}
	for (size_t i = 0; i < probes.nprofiles; i++) {
		const struct ip_profile *p = &probes.profiles[i];

		fuzz_assert(ip_probes_d_profile(&probes, p->name) == p);
		fuzz_assert(!p->budget_samples || !p->budget_percent);
	}
	ip_probes_d_clear(&probes);
	return 0;
}
