/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses and sorts the functions that iprobe hist shows.
 */
#include <stdlib.h>

#include "analysis/profile/value_filter.h"
#include "cli/hist/hist.h"
#include "common/cleanup.h"
#include "common/error.h"

struct key {
	uint64_t total;
	uint32_t function;
};

static int by_total(const void *a, const void *b)
{
	const struct key *x = a, *y = b;

	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	return (x->function > y->function) - (x->function < y->function);
}

bool cli_hist_any_measured(const struct cli_hist *h)
{
	for (size_t i = 0; i < h->counts->nfunctions; i++)
		if (h->counts->functions[i].ended)
			return true;
	return false;
}

static int none_met(const struct cli_hist *h)
{
	const struct ip_value_match *first = &h->latencies->matches->items[0];

	return ip_error("%s: no call that ended%s meets '%s'%s (iprobe report --by 'value:%s' "
			"shows which values there are)",
			h->dir, h->latencies->tid ? " in that thread" : "", first->whole,
			h->latencies->matches->n > 1 ? " and the other conditions" : "",
			first->name);
}

static int none(const struct cli_hist *h)
{
	if (h->latencies && ip_value_filter_is_on(h->latencies->matches))
		return none_met(h);
	if (h->latencies && h->latencies->groups)
		return ip_error("%s: no call that ended%s has recorded the value '%s' (points have "
				"no time: iprobe report --by 'value:%s' counts theirs)",
				h->dir, h->latencies->tid ? " in that thread" : "",
				h->latencies->groups->values->name.text,
				h->latencies->groups->values->name.text);
	if (!h->latencies && !h->pid)
		return ip_error("%s: no call of a function with a histogram has ended yet "
				"(--payload hist)",
				h->dir);
	if (!h->latencies)
		return ip_error("pid %d: no call of a function with a histogram has ended yet "
				"(--payload hist)",
				h->pid);
	for (size_t i = 0; i < h->session->nnumbers; i++)
		if (h->session->numbers[i].payload == IP_RECORDING_COUNT && !h->latencies->tid)
			return ip_error("%s: none of the functions has a call that ended and was "
					"not only counted: --payload count has no times; iprobe "
					"report shows how many calls there were",
					h->dir);
	return ip_error("%s: none of the functions has a call that ended%s", h->dir,
			!h->latencies->tid ? ""
			: cli_hist_any_measured(h)
				? " in that thread and was logged (--payload hist does not tell "
				  "threads apart: leave --tid out)"
				: " in that thread");
}

int cli_hist_order(struct cli_hist *h, const bool *selected, size_t limit)
{
	const struct ip_groups *groups = h->latencies ? h->latencies->groups : NULL;
	size_t n = groups ? h->latencies->nfunctions : h->session->nfunctions;
	_cleanup_free_ struct key *keys = calloc(n + 1, sizeof(*keys));

	h->order = calloc(n + 1, sizeof(*h->order));
	if (!keys || !h->order)
		return ip_error("out of memory");
	for (size_t i = 0; i < n; i++)
		if (selected[cli_hist_function(h, i)] && cli_hist_calls(h, i) &&
		    (!groups ||
		     ip_value_groups_has_values(groups->values, cli_hist_function(h, i))))
			keys[h->n++] = (struct key){cli_hist_total(h, i), i};
	if (!h->n)
		return none(h);
	qsort(keys, h->n, sizeof(*keys), by_total);
	for (size_t i = 0; i < h->n; i++)
		h->order[i] = keys[i].function;
	if (h->n > limit)
		h->n = limit;
	return 0;
}
