/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quotas of functions: which calls may become samples.
 */
#include "common/clock.h"
#include "fperf/fperf_private.h"

struct ip_fperf_quota *ip_fperf_quota_of(const struct ip_fperf *f,
					 const struct ip_fperf_function *fn, int instance)
{
	return fn->offsets[instance] ? ip_fperf_at(f, 0, fn->offsets[instance]) : NULL;
}

void ip_fperf_grant(struct ip_fperf *f, struct ip_fperf_function *fn, uint32_t quota,
		    uint32_t every)
{
	bool counted = ip_fperf_only_counts(fn);

	fn->every = every;
	fn->granted = ip_clock_now();
	for (int i = 0; i < 2; i++) {
		struct ip_fperf_quota *control;

		if (!fn->offsets[i])
			continue;
		control = ip_fperf_at(f, 0, fn->offsets[i]);
		__atomic_store_n(&control->every, every, __ATOMIC_RELAXED);
		__atomic_store_n(&control->used_up, fn->granted, __ATOMIC_RELAXED);
		__atomic_store_n(&control->quota, (int32_t)(counted ? 0 : quota), __ATOMIC_RELEASE);
		/* No probe of it is live. Samples that were open when it went out will never
		 * end. */
		if (fn->out) {
			__atomic_store_n(&control->open, 0, __ATOMIC_RELAXED);
			__atomic_fetch_add(&control->turn, 1, __ATOMIC_RELAXED);
		}
		/* If quota is 0 the duty stays as it is. The hook that sees this changes the duty,
		 * when no sample is open. */
		if (counted)
			ip_area_set_duty(f->area, fn->numbers[i], IP_DUTY_COUNT, fn->offsets[i]);
		else if (quota)
			ip_area_set_duty(f->area, fn->numbers[i], IP_DUTY_FPERF, fn->offsets[i]);
	}
}

void ip_fperf_close_quota(struct ip_fperf *f, struct ip_fperf_function *fn)
{
	for (int i = 0; i < 2; i++) {
		struct ip_fperf_quota *control = ip_fperf_quota_of(f, fn, i);

		if (control && __atomic_exchange_n(&control->quota, 0, __ATOMIC_SEQ_CST) > 0)
			__atomic_store_n(&control->used_up, ip_clock_now(), __ATOMIC_RELAXED);
	}
}

int64_t ip_fperf_open_samples(const struct ip_fperf *f, const struct ip_fperf_function *fn)
{
	int64_t open = 0;

	for (int i = 0; i < 2; i++) {
		const struct ip_fperf_quota *control = ip_fperf_quota_of(f, fn, i);
		int32_t n = control ? __atomic_load_n(&control->open, __ATOMIC_RELAXED) : 0;

		open += n > 0 ? n : 0;
	}
	return open;
}
