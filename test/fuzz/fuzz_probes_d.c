/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of probes.d: any bytes as a file. What it takes can be used: each selection, profile
 * and rule is found by its name, and each reference has been followed.
 *
 * covers: config/yaml_tree.c config/probes_d.c config/probes_d_values.c config/rule.c
 * config/rule_level.c
 */
#include "common/selection/selection.h"
#include "config/probes_d.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ip_probes_d probes = {0};

	if (ip_probes_d_add(&probes, (const char *)data, size, "file") < 0 ||
	    ip_probes_d_check(&probes) < 0)
		fuzz_check_error();
	for (size_t i = 0; i < probes.nselections; i++) {
		const struct ip_named_selection *s = &probes.selections[i];

		fuzz_assert(ip_probes_d_selection(&probes, s->name) == s);
		fuzz_assert(*s->functions && s->place.line && s->place.column);
	}
	for (size_t i = 0; i < probes.nprofiles; i++) {
		const struct ip_fperf_profile *p = &probes.profiles[i];

		fuzz_assert(ip_probes_d_profile(&probes, p->name) == p);
		fuzz_assert(!p->budget_samples || !p->budget_percent);
	}
	for (size_t i = 0; i < probes.nrules; i++) {
		const struct ip_rules_rule *r = &probes.rules[i];

		fuzz_assert(ip_probes_d_rule(&probes, r->name) == r);
		fuzz_assert(r->for_ns && r->for_ns <= IP_RULES_FOR_MOST &&
			    r->disk >= IP_RULES_DISK_MIN);
		fuzz_assert(r->processes && (!r->at_most || r->per_ns) && r->ring <= r->disk / 2);
		fuzz_assert(!r->until == !r->latency);
		fuzz_assert(r->action != IP_RULES_SNAPSHOT || !(r->overhead_percent > 0));
		fuzz_assert(r->exe.n + r->cmdline.n + r->user.n + r->cgroup.n + r->unit.n);
	}
	ip_probes_d_clear(&probes);
	return 0;
}
