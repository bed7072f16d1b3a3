/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The items that iprobe hist shows: functions, or values of functions, each with its histogram.
 */
#include <string.h>

#include "analysis/profile/value_filter.h"
#include "cli/hist/hist.h"

static const struct ip_latency *logged_of(const struct cli_hist *h, uint32_t item)
{
	static const struct ip_latency none;

	return h->latencies ? &h->latencies->functions[item] : &none;
}

const struct ip_value_group *cli_hist_value(const struct cli_hist *h, uint32_t item)
{
	const struct ip_groups *groups = h->latencies ? h->latencies->groups : NULL;

	return groups ? groups->values->items[item] : NULL;
}

uint32_t cli_hist_function(const struct cli_hist *h, uint32_t item)
{
	const struct ip_value_group *value = cli_hist_value(h, item);

	return value ? value->function : item;
}

uint64_t cli_hist_calls(const struct cli_hist *h, uint32_t item)
{
	uint64_t logged = logged_of(h, item)->count;

	/* histograms that the process made tell neither threads nor values */
	if (logged || cli_hist_value(h, item) ||
	    (h->latencies && (h->latencies->tid || ip_value_filter_is_on(h->latencies->matches))))
		return logged;
	return h->counts->functions[item].ended;
}

uint64_t cli_hist_total(const struct cli_hist *h, uint32_t item)
{
	const struct ip_latency *f = logged_of(h, item);

	return ip_recording_ns(h->session, f->count ? f->total : h->counts->functions[item].sum);
}

void cli_hist_make(const struct cli_hist *h, uint32_t item, struct cli_histogram *ret)
{
	const struct ip_latency *f = logged_of(h, item);
	const struct ip_count *c = &h->counts->functions[cli_hist_function(h, item)];
	const struct ip_recording *s = h->session;
	struct ip_latency counted = {.count = c->ended};

	*ret = (struct cli_histogram){.count = f->count,
				      .min = ip_recording_ns(s, f->min),
				      .max = ip_recording_ns(s, f->max),
				      .nbuckets = IP_LATENCY_BUCKETS};
	ret->total = cli_hist_total(h, item);
	ret->until_tail = f->until_tail;
	if (f->count) {
		ret->logged = f;
		memcpy(ret->calls, f->calls, sizeof(ret->calls));
		for (unsigned b = 0; b < IP_LATENCY_BUCKETS; b++) {
			ret->from[b] = ip_latency_from(b);
			ret->to[b] = ip_latency_to(b);
		}
		ip_latency_peaks(f, ret->peaks);
		return;
	}
	ret->count = c->ended;
	ret->self = ip_recording_ns(s, c->self);
	ret->has_self = c->has_self;
	ret->min = ip_recording_ns(s, c->min);
	ret->max = ip_recording_ns(s, c->max);
	ret->nbuckets = h->counts->nbuckets;
	for (unsigned b = 0; b < ret->nbuckets; b++) {
		ret->calls[b] = counted.calls[b] = c->buckets[b];
		ret->from[b] = ip_counts_from(h->counts, s, b);
		ret->to[b] = ip_counts_to(h->counts, s, b);
	}
	ip_latency_peaks(&counted, ret->peaks);
}
