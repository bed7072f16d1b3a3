/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches: first all latencies, then operations of the peak and of the reference.
 */
#include "analysis/darc/search.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/units.h"

#define REFERENCE_MOST 1000u  /* operations */
#define VARIANCE_MOST  20000u /* operations */

const char *ip_darc_state_name(enum ip_darc_state state)
{
	static const char *const names[] = {
		[IP_DARC_IN_PROGRESS] = "in progress",
		[IP_DARC_NO_PEAK] = "no peak",
		[IP_DARC_NO_DIFFERENCE] = "no difference found",
		[IP_DARC_MAXIMUM_DEPTH] = "maximum depth reached",
		[IP_DARC_FOUND] = "root cause found",
		[IP_DARC_CHANGED] = "profile changed",
	};

	return names[state];
}

/* The reference of a peak: the one with most calls of those that are faster. */
static const struct ip_peak *find_reference(const struct ip_peaks *peaks,
					    const struct ip_peak *peak)
{
	const struct ip_peak *best = NULL;

	for (const struct ip_peak *p = peaks->items; p < peak; p++)
		if (!p->refused && (!best || p->count > best->count))
			best = p;
	return best;
}

static void take_peak(struct ip_darc_search *s, const struct ip_peak *peak)
{
	const struct ip_peak *reference = find_reference(&s->peaks, peak);

	s->peak = peak - s->peaks.items + 1;
	s->ranges[0] = (struct ip_darc_range){.from_ns = peak->core_from_ns,
					      .to_ns = peak->core_to_ns,
					      .count = peak->core_count};
	if (!reference)
		return;
	s->ranges[1] = (struct ip_darc_range){.from_ns = reference->from_ns,
					      .to_ns = reference->to_ns,
					      .count = reference->count,
					      .most = REFERENCE_MOST};
	if (s->options.all_faster) {
		s->ranges[1].from_ns = 0;
		s->ranges[1].to_ns = peak->core_from_ns;
		s->ranges[1].count =
			ip_darc_latencies_between(&s->latencies, 0, peak->core_from_ns);
	}
}

/* The operations from a duration on; all others are the reference. */
static void take_slower(struct ip_darc_search *s, uint64_t ns)
{
	s->ranges[0] = (struct ip_darc_range){
		.from_ns = ns,
		.to_ns = UINT64_MAX,
		.count = ip_darc_latencies_between(&s->latencies, ns, UINT64_MAX)};
	s->ranges[1] = (struct ip_darc_range){.to_ns = ns,
					      .count = s->latencies.bins.count - s->ranges[0].count,
					      .most = REFERENCE_MOST};
}

/* Finds which operations are searched. Returns false, with the reason, where there are none. */
static bool choose(struct ip_darc_search *s)
{
	const struct ip_darc_options *o = &s->options;
	const size_t n = ip_peaks_count(&s->peaks);
	const uint64_t calls = s->latencies.bins.count;
	const struct ip_peak *peak;
	char time[16];

	if (calls < o->start_operations || calls < IP_PEAK_SAMPLES) {
		const uint64_t needed = o->start_operations > IP_PEAK_SAMPLES ? o->start_operations
									      : IP_PEAK_SAMPLES;

		snprintf(s->reason, sizeof(s->reason),
			 "%" PRIu64 " calls: at least %" PRIu64 " are needed", calls, needed);
		return false;
	}
	switch (o->choice) {
	case IP_DARC_SLOWER:
	case IP_DARC_PERCENTILE:
		take_slower(s, o->choice == IP_DARC_SLOWER
				       ? o->slower_ns
				       : ip_darc_latencies_percentile(&s->latencies, o->share));
		if (s->ranges[0].count >= IP_PEAK_SAMPLES)
			return true;
		snprintf(s->reason, sizeof(s->reason),
			 "%" PRIu64 " calls of %s or more: at least %u are needed",
			 s->ranges[0].count, ip_format_ns(s->ranges[0].from_ns, time),
			 IP_PEAK_SAMPLES);
		return false;
	case IP_DARC_PEAK:
		peak = ip_peaks_number(&s->peaks, o->number);
		if (!peak) {
			snprintf(s->reason, sizeof(s->reason), "there is no peak %zu", o->number);
			return false;
		}
		take_peak(s, peak);
		return true;
	default:
		if (n < 2) {
			snprintf(s->reason, sizeof(s->reason),
				 "%s: nothing tells slow calls from others",
				 n ? "all calls are of one peak" : "there is no peak");
			return false;
		}
		take_peak(s, ip_peaks_number(&s->peaks, n));
		return true;
	}
}

bool ip_darc_search_choose(struct ip_darc_search *s)
{
	ip_peaks_find(&s->latencies.bins, &s->peaks);
	s->state = IP_DARC_NO_PEAK;
	return choose(s);
}

bool ip_darc_search_choose_others(struct ip_darc_search *s, enum ip_darc_choice choice,
				  size_t number)
{
	ip_darc_search_forget_causes(s);
	for (size_t i = 0; i < 2; i++) {
		ip_darc_operations_clear(&s->ranges[i].operations);
		s->ranges[i] = (struct ip_darc_range){0};
	}
	s->from_waiting = 0;
	s->options.choice = choice;
	s->options.number = number;
	return ip_darc_search_choose(s);
}

/* Those of a profile. All operations of the peak are wanted: the caller decides when there are
 * enough. */
static void take_ranges(struct ip_darc_search *s, const struct ip_darc_search *profile)
{
	for (size_t i = 0; i < 2; i++)
		s->ranges[i] = (struct ip_darc_range){.from_ns = profile->ranges[i].from_ns,
						      .to_ns = profile->ranges[i].to_ns,
						      .most = profile->ranges[i].most};
	s->ranges[0].most = SIZE_MAX;
}

/* Reads the operations of the ranges, once more where they went on in other threads: which these
 * are is known only when all have been read. */
static int read_ranges(struct ip_darc_search *s, struct ip_trace_reader *trace,
		       const struct ip_darc_read_options *read, size_t n)
{
	struct ip_darc_read_options options = *read;
	struct ip_darc_range first[2] = {s->ranges[0], s->ranges[1]};
	const struct ip_darc_operations *operations[2] = {&first[0].operations,
							  &first[1].operations};
	struct ip_handovers handovers = {0};
	struct ip_ftree ftree = {0};
	uint64_t seen;
	int ret = 0;

	/* of a process at first: nothing is told apart yet */
	if (s->options.nhandovers && read->depth) {
		options.own = false;
		options.depth = 0;
		options.handovers = NULL;
		ret = ip_ftree_begin(&ftree, read->function);
		if (ret == 0)
			ret = ip_darc_operations_read(trace, &options, &ftree, first, n, &seen);
		if (ret == 0)
			ret = ip_handovers_find(trace, s->options.handovers, s->options.nhandovers,
						operations, n, read->waits, read->since,
						&handovers);
		options = *read;
		options.handovers = &handovers;
	}
	if (ret == 0)
		ret = ip_darc_operations_read(trace, &options, &s->ftree, s->ranges, n, &s->seen);
	for (size_t i = 0; i < 2; i++)
		ip_darc_operations_clear(&first[i].operations);
	ip_ftree_clear(&ftree);
	ip_handovers_clear(&handovers);
	return ret;
}

static int find_variance(struct ip_darc_search *s, struct ip_trace_reader *trace,
			 const struct ip_darc_read_options *read)
{
	if (s->latencies.bins.count < IP_PEAK_SAMPLES) {
		snprintf(s->reason, sizeof(s->reason), "%" PRIu64 " calls: at least %u are needed",
			 s->latencies.bins.count, IP_PEAK_SAMPLES);
		return 0;
	}
	s->ranges[0] = (struct ip_darc_range){
		.to_ns = UINT64_MAX, .count = s->latencies.bins.count, .most = VARIANCE_MOST};
	if (read_ranges(s, trace, read, 1) < 0)
		return -1;
	s->state = IP_DARC_FOUND;
	return ip_variances_find(&s->ftree, &s->ranges[0].operations, &s->variances);
}

/* How many operations of the peak would be faster than that if nothing else had had the CPU. */
static size_t count_waiting(const struct ip_darc_range *range, double peak_from)
{
	size_t n = 0;

	for (size_t i = 0; i < range->operations.n; i++) {
		const struct ip_darc_operation *o = &range->operations.items[i];

		n += (double)(o->ticks - o->queued) < peak_from;
	}
	return n;
}

static enum ip_darc_state state_of(const struct ip_root_causes *causes)
{
	/* that F0 as a whole is slower is no answer */
	if (!causes->n || (causes->items[0].stop == IP_DARC_SPREAD && !causes->items[0].node))
		return IP_DARC_NO_DIFFERENCE;
	return causes->depth_reached ? IP_DARC_MAXIMUM_DEPTH : IP_DARC_FOUND;
}

int ip_darc_search(struct ip_trace_reader *trace, struct ip_trace_waits *waits,
		   const struct ip_darc_options *o, struct ip_darc_search *ret)
{
	const struct ip_darc_read_options read = {.function = o->function,
						  .tid = o->tid,
						  .depth = o->depth,
						  .own = true,
						  .waits = waits,
						  .since = o->since,
						  .places = o->places};
	struct ip_root_causes_options options = {.depth = o->depth,
						 .maxcount_percent = o->maxcount_percent,
						 .ticks_per_ns =
							 (double)trace->session->tsc_hz / 1e9,
						 .queue = waits,
						 .keeps_chance = o->keeps_chance};

	*ret = (struct ip_darc_search){
		.session = trace->session, .options = *o, .state = IP_DARC_NO_PEAK};
	if (ip_ftree_begin(&ret->ftree, o->function) < 0)
		return -1;
	if (o->profile) {
		take_ranges(ret, o->profile);
	} else {
		if (ip_darc_latencies_read(trace, o->function, o->tid, o->since, &ret->latencies) <
		    0)
			return -1;
		if (o->variance) {
			ip_peaks_find(&ret->latencies.bins, &ret->peaks);
			return find_variance(ret, trace, &read);
		}
		if (!ip_darc_search_choose(ret))
			return 0;
		ret->ranges[0].most = o->decision_operations;
	}
	options.peak_from = (double)ret->ranges[0].from_ns * options.ticks_per_ns;
	if (read_ranges(ret, trace, &read, ret->ranges[1].most ? 2 : 1) < 0 ||
	    ip_root_causes_find(&ret->ftree, &ret->ranges[0].operations, &ret->ranges[1].operations,
				&options, &ret->causes) < 0)
		return -1;
	ret->from_waiting = count_waiting(&ret->ranges[0], options.peak_from);
	ret->state = state_of(&ret->causes);
	if (!waits)
		return 0;
	return ip_cause_waits_find(trace, &ret->ftree, &ret->causes, waits, &ret->waits);
}

void ip_darc_search_forget_causes(struct ip_darc_search *s)
{
	ip_cause_waits_destroy(s->waits, s->causes.n);
	s->waits = NULL;
	while (s->causes.n)
		ip_darc_cause_clear(&s->causes.items[--s->causes.n]);
}

void ip_darc_search_clear(struct ip_darc_search *s)
{
	ip_cause_waits_destroy(s->waits, s->causes.n);
	ip_root_causes_clear(&s->causes);
	ip_variances_clear(&s->variances);
	for (size_t i = 0; i < 2; i++)
		ip_darc_operations_clear(&s->ranges[i].operations);
	ip_ftree_clear(&s->ftree);
	ip_darc_latencies_clear(&s->latencies);
}

const char *ip_darc_cause_kind(const struct ip_darc_search *s, size_t cause,
			       const struct ip_cause_part **ret_part)
{
	const struct ip_cause_waits *w = s->waits ? &s->waits[cause] : NULL;
	const enum ip_darc_stop stop = s->causes.items[cause].stop;
	const struct ip_cause_part *part = NULL;

	/* the search has told apart that others had the CPU: it is a cause by itself, or none */
	for (size_t i = 0; w && !part && i < w->n; i++)
		if (ip_cause_is_outside(w->parts[i].kind) == (stop == IP_DARC_PREEMPTED))
			part = &w->parts[i];
	if (part && part->kind == IP_CAUSE_UNKNOWN)
		part = NULL;
	*ret_part = part;
	if (s->ftree.nodes[s->causes.items[cause].node].call_site == IP_FTREE_QUEUED)
		return "queued";
	switch (stop) {
	case IP_DARC_OWN:
		return part ? ip_cause_kind_name(part->kind) : "self";
	case IP_DARC_PREEMPTED:
		return ip_cause_kind_name(part ? part->kind : IP_CAUSE_PREEMPTED);
	default:
		/* that it ran tells nothing where it is not known what it ran */
		if (part && part->kind != IP_CAUSE_SELF)
			return ip_cause_kind_name(part->kind);
		return stop == IP_DARC_SPREAD ? "spread" : "unknown";
	}
}
