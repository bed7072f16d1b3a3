/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the rules' sessions. They belong to no user, so they have a limit of their own, for all
 * together: sessions beyond it wait. Sessions that only watch leave a quarter of it to those that
 * record.
 */
#include "access/protocol.h"
#include "common/error.h"
#include "common/units.h"
#include "iprobed/daemon_private.h"
#include "iprobed/rules/rules_private.h"

#define SHARING	   4
#define SEARCH	   (3 * IP_IPROBED_BESIDE)
#define RING_LEAST (8ull << 20)

/* Where the rule says nothing, more than a few processes share what these would have, as iprobe
 * attach divides it (service/service.h). One more process is iprobe attach itself. */
uint64_t ip_rules_memory_of(const struct ip_rules_rule *rule, size_t n)
{
	uint64_t rings = (rule->ring ? rule->ring : IP_REQUEST_MEMORY_USUAL) * n;

	if (!rule->ring && n > SHARING) {
		rings = IP_REQUEST_MEMORY_USUAL * SHARING;
		if (rings < RING_LEAST * n)
			rings = RING_LEAST * n;
	}
	if (rule->action == IP_RULES_DARC) /* its session is another process than its search */
		return (rule->kernel ? 2 : 1) * rings + SEARCH +
		       (rule->kernel ? ip_iprobed_kernel_memory(IP_REQUEST_KERNEL_BUFFER_USUAL)
				     : 0);
	if (rule->kernel)
		rings += ip_iprobed_kernel_memory(IP_RULES_KERNEL_BUFFER);
	return rings + IP_IPROBED_BESIDE * (n > 1 ? n + 1 : 1);
}

static uint64_t limit_of(const struct ip_rules *e)
{
	uint64_t given = e->options->memory;

	/* read each time, since the limits of groups change */
	return given ? given
		     : ip_iprobed_memory_there("/proc/self/cgroup", "/sys/fs/cgroup",
					       "/proc/meminfo") /
			       4;
}

int ip_rules_memory_check(const struct ip_rules *e, uint64_t needed)
{
	uint64_t limit = limit_of(e);
	char a[32], b[32];

	if (needed <= limit)
		return 0;
	return ip_error("its session needs %s of memory, and all those of rules have %s (iprobed "
			"--memory-of-rules): let it have less (memory)",
			ip_format_size(needed, a), ip_format_size(limit, b));
}

bool ip_rules_memory_fits(const struct ip_rules *e, const struct ip_rules_target *t,
			  uint64_t needed, bool watch)
{
	uint64_t limit = limit_of(e), all = needed;

	for (size_t i = 0; i < e->ntargets; i++)
		if (e->targets[i] != t && (e->targets[i]->doing == IP_RULES_WATCH ||
					   e->targets[i]->doing == IP_RULES_ACT))
			all += e->targets[i]->memory;
	/* A session that can never have its memory does not wait: it fails. */
	return all <= (watch ? limit / 4 * 3 : limit) || needed > limit || (all == needed && watch);
}
