/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to retry. See retry.h.
 */
#include "common/retry.h"

#include "common/now.h"

#define REST_SHARE     4	      /* a pause is this many times as long as the try took */
#define RETRY_NS       10000000ull    /* added to each pause */
#define REST_MAX_NS    200000000ull   /* longest pause while it fails in silence */
#define RETRY_LIMIT_NS 10000000000ull /* how long it fails in silence */
#define SLOW_NS	       1000000000ull  /* pause between tries afterwards */

uint64_t ip_retry_failed(struct ip_retry *p, uint64_t began_ns, bool *ret_tell)
{
	uint64_t now = ip_now_ns(), rest = RETRY_NS + REST_SHARE * (now - began_ns);
	bool patient;

	p->failing_ns = p->failing_ns ? p->failing_ns : now;
	patient = now - p->failing_ns < RETRY_LIMIT_NS;
	*ret_tell = !patient && !p->told;
	return now + (!patient ? SLOW_NS : rest < REST_MAX_NS ? rest : REST_MAX_NS);
}

bool ip_retry_worked(struct ip_retry *p)
{
	bool told = p->told;

	*p = (struct ip_retry){0};
	return told;
}
