/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a change without a stop (update.h, remap.h) means for functions that are live meanwhile. For
 * some ten microseconds the functions whose pages change have no probes, although they stay live.
 *
 *   1. Before the change: these functions, and those that go out, begin no more samples (their
 *      quotas are kept here), and their open samples are cut. The exit of an open sample may come
 *      unseen in the gap, and right after it the exit of another call of the same function, whose
 *      entry was not seen. The same is done for functions whose calls may go on in such a function:
 *      they need it (tails.h).
 *   2. After the change: open samples are cut once more, for a hook that was delayed in between.
 *      Then the functions that stay get their quotas again.
 *   3. The calls in the gap are estimated by the function's rate. The error of this estimate is
 *      taken to be as large as the estimate.
 *
 * Exclusive samples are cut by every change (loop.c, whole).
 */
#include "fperf/fperf_private.h"
#include "fperf/tails.h"
#include "hotpatcher/shm/area.h"

void ip_fperf_gap_begins(void *context, const struct ip_module *module, uint32_t function)
{
	struct ip_fperf *f = context;
	struct ip_fperf_function *fn = ip_fperf_find(f, module, function);

	if (!fn || fn->paused)
		return;
	fn->paused = true;
	for (int i = 0; i < 2; i++) {
		struct ip_fperf_quota *control = ip_fperf_quota_of(f, fn, i);

		if (control)
			fn->kept_quota[i] =
				__atomic_exchange_n(&control->quota, 0, __ATOMIC_SEQ_CST);
	}
	ip_fperf_forget_open(f, fn);
	ip_fperf_hold_needing(f, fn);
}

void ip_fperf_gap_ended(void *context, uint64_t ns)
{
	struct ip_fperf *f = context;

	for (size_t k = 0; k < f->nfunctions; k++) {
		struct ip_fperf_function *fn = &f->functions[k];
		double calls = fn->calls_per_s * ns / 1e9;

		if (!fn->paused)
			continue;
		fn->paused = false;
		fn->bare_calls += calls;
		fn->bare_squares += calls * calls;
		ip_fperf_forget_open(f, fn);
		for (int i = 0; i < 2; i++) {
			struct ip_fperf_quota *control = ip_fperf_quota_of(f, fn, i);

			if (!control || fn->out || ip_fperf_only_counts(fn) ||
			    fn->kept_quota[i] <= 0)
				continue;
			__atomic_store_n(&control->quota, fn->kept_quota[i], __ATOMIC_RELEASE);
			ip_area_set_duty(f->area, fn->numbers[i], IP_DUTY_FPERF, fn->offsets[i]);
		}
	}
}
