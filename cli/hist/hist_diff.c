/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe hist --diff: pairs the histograms of two traces, tells how far each two are apart, and
 * sorts what differs most first.
 */
#include "cli/hist/hist_diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/profile/latency/profile_peaks.h"
#include "cli/report/function_pairs.h"
#include "cli/trace_args.h"
#include "common/cleanup.h"
#include "common/error.h"

#define SLICES	   64u	 /* by which phases are told from chance */
#define SAME_CLOCK 0.001 /* bins of ticks are the same ones */

static const char *const names[] = {
	[CLI_HIST_DIFFERS] = "differs",	   [CLI_HIST_NEW] = "new",	 [CLI_HIST_GONE] = "gone",
	[CLI_HIST_ALIKE] = "alike",	   [CLI_HIST_UNSURE] = "unsure", [CLI_HIST_FEW] = "few",
	[CLI_HIST_UNTESTED] = "not tested"};

const char *cli_hist_verdict_name(enum cli_hist_verdict verdict)
{
	return names[verdict];
}

/* The items of a trace as they are to be paired. */
struct side {
	struct cli_pair_side pairs;
	char **values;
};

static void clear_side(struct side *side)
{
	for (size_t i = 0; side->values && i < side->pairs.n; i++)
		free(side->values[i]);
	free(side->values);
	free(side->pairs.functions);
}

static int make_side(const struct cli_hist *h, struct side *ret)
{
	ret->pairs = (struct cli_pair_side){.session = h->session, .n = h->n};
	ret->pairs.functions = calloc(h->n + 1, sizeof(*ret->pairs.functions));
	ret->values = h->by ? calloc(h->n + 1, sizeof(*ret->values)) : NULL;
	if (!ret->pairs.functions || (h->by && !ret->values))
		return ip_error("out of memory");
	ret->pairs.values = (const char **)ret->values;
	for (size_t i = 0; i < h->n; i++) {
		const struct ip_value_group *value = cli_hist_value(h, h->order[i]);

		ret->pairs.functions[i] = &h->session->functions[cli_hist_function(h, h->order[i])];
		if (!value)
			continue;
		ret->values[i] = ip_value_group_text(h->latencies->groups->values, value);
		if (!ret->values[i])
			return -1;
	}
	return 0;
}

static int make_pairs(struct cli_hist_diff *d)
{
	const struct cli_hist *before = &d->before.hist, *after = &d->after.hist;
	struct side sides[2] = {0};
	_cleanup_free_ struct cli_item_pair *pairs = NULL;
	int ret = -1;

	if (make_side(before, &sides[0]) == 0 && make_side(after, &sides[1]) == 0)
		ret = cli_pairs_find(&sides[0].pairs, &sides[1].pairs, &pairs, &d->n);
	clear_side(&sides[0]);
	clear_side(&sides[1]);
	if (ret < 0)
		return -1;
	d->pairs = calloc(d->n + 1, sizeof(*d->pairs));
	if (!d->pairs)
		return ip_error("out of memory");
	for (size_t i = 0; i < d->n; i++) {
		d->pairs[i].before = pairs[i].before == CLI_NO_PAIR
					     ? CLI_HIST_NONE
					     : before->order[pairs[i].before];
		d->pairs[i].after = pairs[i].after == CLI_NO_PAIR ? CLI_HIST_NONE
								  : after->order[pairs[i].after];
	}
	return 0;
}

/* Returns whether bins of ticks have the same bounds. */
static bool are_same_ticks(const struct cli_hist_diff *d)
{
	const struct ip_counts *before = d->before.counts, *after = d->after.counts;
	const double ratio =
		(double)d->before.hist.session->tsc_hz / (double)d->after.hist.session->tsc_hz;

	return before->shift == after->shift && before->nbuckets == after->nbuckets &&
	       fabs(ratio - 1) <= SAME_CLOCK;
}

static struct ip_profile profile_of(const struct cli_histogram *f)
{
	const uint32_t *over_time = f->logged ? f->logged->over_time : NULL;

	return (struct ip_profile){.calls = f->calls, .by_slice = over_time, .nslices = SLICES};
}

static bool any(const bool *peaks)
{
	return memchr(peaks, true, IP_LATENCY_BUCKETS) != NULL;
}

static void compare(const struct cli_hist_diff *d, struct cli_hist_pair *p)
{
	struct cli_histogram before, after;
	struct ip_profile first, second;
	static const enum cli_hist_verdict verdicts[] = {[IP_PROFILES_DIFFER] = CLI_HIST_DIFFERS,
							 [IP_PROFILES_ALIKE] = CLI_HIST_ALIKE,
							 [IP_PROFILES_UNSURE] = CLI_HIST_UNSURE,
							 [IP_PROFILES_FEW] = CLI_HIST_FEW};

	p->distance = (struct ip_profile_distance){.distance = NAN, .shift = NAN, .by_chance = NAN};
	p->fine = NAN;
	p->verdict = p->before == CLI_HIST_NONE ? CLI_HIST_NEW : CLI_HIST_GONE;
	if (p->before == CLI_HIST_NONE || p->after == CLI_HIST_NONE)
		return;
	cli_hist_make(&d->before.hist, p->before, &before);
	cli_hist_make(&d->after.hist, p->after, &after);
	p->verdict = CLI_HIST_UNTESTED;
	if (!before.logged != !after.logged || (!before.logged && !are_same_ticks(d)))
		return;
	first = profile_of(&before);
	second = profile_of(&after);
	ip_profile_compare(&first, &second, IP_LATENCY_BUCKETS, &p->distance);
	if (before.logged && before.logged->durations && after.logged->durations)
		p->fine =
			ip_profile_fine_distance(before.logged->durations, after.logged->durations);
	p->verdict = verdicts[ip_profile_judge(&p->distance, p->fine)];
	ip_profile_new_peaks(&first, &second, p->came);
	ip_profile_new_peaks(&second, &first, p->went);
	/* a peak of few calls makes a small distance */
	if (any(p->came) || any(p->went))
		p->verdict = CLI_HIST_DIFFERS;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* What all functions have in common is the machine's more often than the program's. */
static int find_median_shift(struct cli_hist_diff *d)
{
	_cleanup_free_ double *shifts = calloc(d->n + 1, sizeof(*shifts));
	size_t n = 0;

	if (!shifts)
		return ip_error("out of memory");
	for (size_t i = 0; i < d->n; i++)
		if (!isnan(d->pairs[i].distance.shift) && d->pairs[i].verdict != CLI_HIST_FEW)
			shifts[n++] = d->pairs[i].distance.shift;
	qsort(shifts, n, sizeof(*shifts), by_value);
	d->median_shift = n < CLI_HIST_COMMON ? NAN : shifts[n / 2];
	return 0;
}

static double weight(const struct cli_hist_diff *d, const struct cli_hist_pair *p)
{
	if (p->verdict == CLI_HIST_NEW)
		return (double)cli_hist_total(&d->after.hist, p->after);
	if (p->verdict == CLI_HIST_GONE)
		return (double)cli_hist_total(&d->before.hist, p->before);
	return isnan(p->distance.distance) ? 0 : p->distance.distance;
}

/* What differs first, the largest distance first; then what is new, or gone, the most expensive
 * first. */
static int by_distance(const void *a, const void *b, void *context)
{
	const struct cli_hist_pair *x = a, *y = b;
	const double first = weight(context, x), second = weight(context, y);

	if (x->verdict != y->verdict)
		return x->verdict < y->verdict ? -1 : 1;
	if (first != second)
		return first < second ? 1 : -1;
	if (x->before != y->before)
		return x->before < y->before ? -1 : 1;
	return (x->after > y->after) - (x->after < y->after);
}

static int load(const char *dir, struct cli_hist_options *o, struct cli_hist_trace *ret)
{
	struct ip_latency_slices slices;

	if (cli_hist_open(dir, o, NULL, ret) < 0)
		return -1;
	slices = ip_latency_slices_equal(ret->reader, SLICES);
	if (cli_hist_collect(ret, o, &slices, true) < 0)
		return -1;
	return cli_hist_order(&ret->hist, ret->selected, SIZE_MAX);
}

int cli_hist_show_diff(const char *dir, struct cli_hist_options *o)
{
	struct cli_hist_diff d = {.options = o};
	int ret = load(o->other, o, &d.before);

	if (ret == 0)
		ret = load(dir, o, &d.after);
	if (ret == 0)
		ret = make_pairs(&d);
	for (size_t i = 0; ret == 0 && i < d.n; i++)
		compare(&d, &d.pairs[i]);
	if (ret == 0)
		ret = find_median_shift(&d);
	if (ret == 0) {
		qsort_r(d.pairs, d.n, sizeof(*d.pairs), by_distance, &d);
		cli_reader_warn(d.before.reader);
		cli_reader_warn(d.after.reader);
		if (o->json)
			cli_hist_diff_json(&d);
		else
			ret = cli_hist_diff_text(&d);
	}
	if (ret == 0)
		ret = cli_reader_check_stdout();
	free(d.pairs);
	cli_hist_close(&d.before);
	cli_hist_close(&d.after);
	return ret;
}
