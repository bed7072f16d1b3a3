/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FPerf's control: what was spent, and which functions are live. The policy (policy.h) decides. The
 * controller here gives it its numbers, and does what it has decided.
 *
 * When there is a decision:
 *   - FIRST_NS after the start (hot functions show within a millisecond).
 *   - At the end of each interval.
 *   - At the end of each window in which hot functions have had their turn. Then no sample begins
 *     any more, and open samples get ENDING_NS to end. Otherwise calls that are longer than a
 *     window would be missing among the samples.
 *   - As soon as the account is overdrawn and gets deeper into debt, at most once in OVERDRAWN_NS.
 *
 * All cells are read for a decision. Between decisions the controller reads what threads report of
 * themselves, and every COUNT_NS the number of calls: calls that are only counted are reported
 * nowhere else, and a function may get hot at any moment. Both take time with thousands of
 * functions and hundreds of threads. So the pauses between them are so long that they take no more
 * than their share (OWN_LOOKS) of what fperf itself may take of a CPU.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "fperf/account.h"
#include "fperf/fperf_private.h"
#include "fperf/policy.h"
#include "fperf/tails.h"
#include "hotpatcher/ptrace/stop.h"
#include "session/session_private.h"
#include "session/update.h"

#define LOOK_NS	     1000000ull
#define CALM_LOOK_NS 5000000ull
#define COUNT_NS     20000000ull
/* in a young session the pause between two looks is its age divided by this */
#define YOUNG	     16
#define FIRST_NS     2000000ull
#define WINDOW_NS    2000000ull
#define ENDING_NS    6000000ull
#define GOOD_S	     0.008 /* length of a turn if CPU time is exact; otherwise each tick matters */
#define OVERDRAWN_NS 5000000ull
/* Part of the income. If the debt has grown by more since the last decision, there is another
 * one. */
#define FALLING_S 0.01
#define SHOW_NS	  1000000000ull
/* Pause after a change that failed. It is doubled after each further one, up to RETRY_MAX_NS. */
#define RETRY_NS     200000000ull
#define RETRY_MAX_NS 3200000000ull
/* fperf itself may take as much of a CPU as the target may lose. This CPU may be the target's, or
 * the other half of its core, which nearly halves its speed. Changes for turns may take OWN_TURNS
 * of that; reading all cells, and deciding, OWN_LOOKS. Without a budget it is as with a budget of
 * MOST_OWN. */
#define OWN_TURNS 0.3
/* A user who looks for only some seconds must have seen all functions by then. */
#define EARLY_NS    10000000000ull
#define EARLY_TURNS 3.0
#define OWN_LOOKS   0.2
/* No call takes less. CPU time is known by the tick only, and may not have been updated yet. */
#define CALL_S 3e-9

/* The function's rate is computed from now on. */
static void note_coming(const struct ip_fperf *f, struct ip_fperf_function *fn, uint64_t now)
{
	fn->exact = ip_fperf_is_watched(f);
	fn->looked_s = ip_fperf_undisturbed(f);
	fn->looked_cpu_s = f->cpu_ns / 1e9;
	fn->looked_ns = now;
	fn->looked_calls = fn->now.calls;
}

static void begin(struct ip_fperf *f, struct ip_session *s)
{
	uint64_t now = ip_now_ns();

	ip_fperf_open_account(f, s, now);
	ip_fperf_watch(f, s->target->pid);
	ip_fperf_look(f);
	ip_fperf_settle(f, s, true);
	/* From here on the length of the stretch is known. */
	now = ip_now_ns();
	for (size_t i = 0; i < f->nfunctions; i++)
		note_coming(f, &f->functions[i], now);
	f->running = true;
	f->start_ns = f->shown_ns = now;
	f->due_ns = now + FIRST_NS;
	f->window_ns = now;
	f->interval_ns = f->options.interval_ns;
	f->interval_end_ns = now + f->interval_ns;
	f->window_s = 2 * WINDOW_NS / 1e9;
	f->own_start_s = ip_fperf_own(CLOCK_PROCESS_CPUTIME_ID);
	ip_fperf_set_whole(f, true);
	if (f->options.alternate_ns && f->options.window)
		f->options.window(f->options.context, s->target->pid, true, 0, 0);
}

/* Notes how often the function is called now. The account must have been settled. changing: a
 * change has been made since the last time, possibly by one of the process's threads, and with the
 * process's caches lost. That says nothing about gaps. */
static void note_rate(const struct ip_fperf *f, struct ip_fperf_function *fn, uint64_t now,
		      bool changing)
{
	double undisturbed = ip_fperf_undisturbed(f);
	double seconds = (now - fn->looked_ns) / 1e9;
	uint64_t more = fn->now.calls - fn->looked_calls;

	fn->exact &= ip_fperf_is_watched(f);
	if (fn->out || seconds < 5e-4)
		return;
	fn->gaps.tick = fn->exact ? 0 : IP_FPERF_TICK_S;
	if (!changing)
		ip_fperf_live(&fn->gaps, more,
			      undisturbed - fn->looked_s > more * CALL_S
				      ? undisturbed - fn->looked_s
				      : more * CALL_S);
	/* A millisecond says little about a function that is called now and then. */
	fn->calls_per_s = more || seconds > 0.05 ? more / seconds : fn->calls_per_s * 0.9;
	fn->live_s += undisturbed - fn->looked_s;
	fn->live_cpu_s += f->cpu_ns / 1e9 - fn->looked_cpu_s;
	fn->looked_ns = now;
	fn->looked_s = undisturbed;
	fn->looked_cpu_s = f->cpu_ns / 1e9;
	fn->looked_calls = fn->now.calls;
}

static double width_of(const struct ip_fperf *f, const struct ip_fperf_function *fn)
{
	double widest = -1;

	for (unsigned e = 0; e < f->options.nevents; e++) {
		double ci, mean = ip_fperf_value(f, fn, e, &ci), width;

		if (ci < 0)
			continue;
		/* The width for events that hardly ever happen is a number of events, and not a
		 * share of their mean. */
		if (!*f->options.events[e]->unit && mean < 1)
			mean = 1;
		width = mean > 0 ? ci / mean : 0;
		widest = width > widest ? width : widest;
	}
	return widest;
}

/* Returns the first event's count per second, for the time that the function was live. */
static double total_of(const struct ip_fperf_function *fn)
{
	return !fn->hidden && fn->mean > 0 ? fn->mean * fn->calls_per_s : 0;
}

static void fill_item(const struct ip_fperf_function *fn, uint64_t now, double all,
		      struct ip_fperf_item *item)
{
	*item = (struct ip_fperf_item){.live = !fn->out,
				       .samples_none = ip_fperf_only_counts(fn),
				       .hidden = fn->hidden,
				       .needs = fn->needs,
				       .nneeds = fn->nneeds,
				       .calls_per_s = fn->calls_per_s,
				       .out_s = fn->out ? (now - fn->since_ns) / 1e9 : 0,
				       .samples = fn->now.ended,
				       .width = fn->width,
				       .share = all > 0 ? total_of(fn) / all : 0};
}

/* Returns what a call that is counted costs now, on average over all live functions. */
static double call_cost(const struct ip_fperf_item *items, size_t n,
			const struct ip_fperf_allowance *m)
{
	double calls = 0, cost = 0;

	for (size_t i = 0; i < n; i++)
		if (items[i].live) {
			calls += items[i].calls_per_s;
			cost += items[i].calls_per_s * ip_fperf_call_cost(items[i].calls_per_s, m);
		}
	return calls > 0 ? cost / calls : m->count_ns;
}

static void set_out(const struct ip_fperf *f, struct ip_fperf_function *fn, bool out, uint64_t now)
{
	if (fn->out == out)
		return;
	if (out)
		fn->live_ns += now - fn->since_ns;
	note_coming(f, fn, now);
	if (out)
		ip_fperf_goes(&fn->gaps, fn->looked_s);
	else
		ip_fperf_comes(&fn->gaps, fn->looked_s);
	fn->out = out;
	fn->came = !out;
	fn->since_ns = now;
}

/* Notes the CPU time of fperf that a change has taken, whether it succeeded or not. */
static void note_own(struct ip_fperf *f, double since)
{
	double own = ip_fperf_own(CLOCK_THREAD_CPUTIME_ID) - since;

	f->own_changes_s += own;
	f->own_turn_s = ip_fperf_learn(f->own_turn_s, 2 * own);
}

/* Delays the next change: a failed change has stopped the target for nothing. */
static void hold_back(struct ip_fperf *f)
{
	f->changes_failed++;
	snprintf(f->failure, sizeof(f->failure), "%s", ip_error_message());
	f->retry_ns = f->retry_ns ? 2 * f->retry_ns : RETRY_NS;
	f->retry_ns = f->retry_ns < RETRY_MAX_NS ? f->retry_ns : RETRY_MAX_NS;
	f->held_until_ns = ip_now_ns() + f->retry_ns;
}

/* Step 3. Functions that go out count as live until the change is over. Functions that come in
 * count as live from then on. Returns -1 if the change failed: then nothing has changed. */
static int change(struct ip_fperf *f, struct ip_session *s, const struct ip_fperf_item *items,
		  size_t n)
{
	const struct ip_change_gap gap = {
		.begins = ip_fperf_gap_begins, .ended = ip_fperf_gap_ended, .context = f};
	const struct ip_change_options options = {.kind = "fperf",
						  .quiet = true,
						  .urgent = true,
						  .no_stop = !f->options.stops,
						  .gap = &gap,
						  .max_stop_ns = s->options->max_stop_ns,
						  .values = s->options->values};
	struct ip_change_result result = {0};
	double stopped, own = ip_fperf_own(CLOCK_THREAD_CPUTIME_ID);
	uint64_t now;

	for (size_t i = 0; i < n; i++)
		f->functions[i].out = !items[i].stay;
	ip_fperf_hold(f, items);
	if (ip_session_update(s, &options, &result) < 0) {
		/* Restore the members. The change will be tried again. */
		for (size_t i = 0; i < n; i++)
			f->functions[i].out = !items[i].live;
		ip_fperf_release_held(f);
		note_own(f, own);
		hold_back(f);
		return -1;
	}
	f->retry_ns = f->held_until_ns = 0;
	now = ip_now_ns();
	ip_fperf_look(f);
	ip_fperf_settle(f, s, true);
	for (size_t i = 0; i < n; i++) {
		f->functions[i].out = !items[i].live;
		if (items[i].live != items[i].stay)
			note_rate(f, &f->functions[i], now, true);
		set_out(f, &f->functions[i], !items[i].stay, now);
	}
	ip_fperf_release_held(f);
	stopped = result.changing_ns;
	stopped = result.stops.ns;
	if (result.stops.n || result.remapped)
		f->change_ns = (1 - IP_FPERF_SETTLED) * f->change_ns +
			       IP_FPERF_SETTLED * stopped * f->credit.busy;
	note_own(f, own);
	f->changes++;
	f->changes_remapped += result.remapped;
	return 0;
}

static bool is_whole(const struct ip_fperf *f)
{
	for (size_t i = 0; i < f->nfunctions; i++)
		if (f->functions[i].out)
			return false;
	return f->options.budget < 0 || f->credit.ns > 0;
}

/* Returns the samples that may be given now, with so many samples a second: what the time since the
 * start has brought, less the samples taken. The promised ones are free (policy.h). No more than
 * one interval's samples are saved: a pause must not pay for a burst. */
static double samples_left(struct ip_fperf *f, uint64_t now)
{
	double rate = f->options.samples_per_s, most = rate * f->interval_ns / 1e9, left;

	if (rate < 0)
		return -1;
	left = rate * (now - f->start_ns) / 1e9 - f->samples_lapsed;
	for (size_t i = 0; i < f->nfunctions; i++)
		left -= f->functions[i].now.begun > IP_FPERF_PROMISED
				? f->functions[i].now.begun - IP_FPERF_PROMISED
				: 0;
	most = most > 1 ? most : 1;
	if (left > most) {
		f->samples_lapsed += left - most;
		left = most;
	}
	return left > 0 ? left : 0;
}

/* Returns whether the function, or one that it needs, has come in for its turn only. */
static bool has_turn(const struct ip_fperf *f, const struct ip_fperf_function *fn)
{
	bool came = fn->came;

	for (size_t i = 0; i < fn->nneeds && !came; i++)
		came = f->functions[fn->needs[i]].came;
	return came && !fn->out;
}

/* Does steps 2 and 3. */
static void decide(struct ip_fperf *f, struct ip_session *s, bool turns)
{
	size_t n = f->nfunctions, moved = 0, comes = 0;
	double all = 0, coming = 0;
	bool goes = false;
	_cleanup_free_ struct ip_fperf_item *items = calloc(n + 1, sizeof(*items));
	uint64_t now = ip_now_ns();
	struct ip_fperf_allowance allowance = {
		.budget_ns = f->options.budget * 1e9 * f->credit.busy,
		.credit_ns = f->credit.ns,
		.limit_ns = ip_credit_limit(&f->credit),
		.samples = samples_left(f, now),
		.interval_s = f->interval_ns / 1e9,
		.window_s = f->window_s,
		.good_s = f->cpu_time.own >= 0 ? GOOD_S : IP_FPERF_WINDOW_MAX_S,
		.count_ns = f->count_ns,
		.cold_ns = f->cold_ns,
		.sample_ns = f->sample_ns,
		.hook_ns = f->hook_ns,
		.change_ns = f->change_ns,
		.turns = turns && now >= f->held_until_ns &&
			 now - f->turned_ns > ip_fperf_pause(f, f->own_turn_s,
							     now - f->start_ns < EARLY_NS
								     ? EARLY_TURNS * OWN_TURNS
								     : OWN_TURNS) *
						      1e9,
		.exclusive = f->options.exclusive,
		.run_ns = 1e9 * f->credit.busy};

	if (!items)
		return;
	for (size_t i = 0; i < n; i++) {
		f->functions[i].came = false;
		/* Most functions are never called, and nothing is known of them. */
		if (!f->functions[i].now.calls && !f->functions[i].out)
			continue;
		note_rate(f, &f->functions[i], now, false);
		ip_fperf_divide(f, &f->functions[i]);
		if (f->functions[i].measured) {
			double ci;

			f->functions[i].width = width_of(f, &f->functions[i]);
			f->functions[i].mean = ip_fperf_value(f, &f->functions[i], 0, &ci);
			f->functions[i].measured = false;
		}
		all += total_of(&f->functions[i]);
	}
	for (size_t i = 0; i < n; i++)
		fill_item(&f->functions[i], now, all, &items[i]);
	f->call_ns = call_cost(items, n, &allowance);
	if (ip_fperf_decide(f->options.policy, items, n, &allowance) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		goes |= !items[i].stay;
	if (goes || (f->options.budget >= 0 && f->credit.ns <= 0))
		ip_fperf_set_whole(f, false);
	for (size_t i = 0; i < n; i++) {
		moved += items[i].live != items[i].stay;
		comes += items[i].stay && !items[i].live;
		if (items[i].stay && !items[i].live)
			coming += items[i].calls_per_s *
				  ip_fperf_call_cost(items[i].calls_per_s, &allowance);
		/* Otherwise its samples begin when the functions that it needs have come in. */
		if (items[i].stay && ip_fperf_has_needs(f, &f->functions[i]))
			ip_fperf_grant(f, &f->functions[i], items[i].quota, items[i].every);
	}
	if (comes && now >= f->held_until_ns)
		ip_fperf_watch(f, s->target->pid);
	if (moved && (now < f->held_until_ns || change(f, s, items, n) < 0))
		moved = comes = 0;
	if (!comes)
		ip_fperf_unwatch(f);
	for (size_t i = 0; comes && i < n; i++)
		if (items[i].stay && has_turn(f, &f->functions[i]) && f->functions[i].nneeds)
			ip_fperf_grant(f, &f->functions[i], items[i].quota, items[i].every);
	ip_fperf_set_whole(f, is_whole(f));
	now = ip_now_ns();
	/* The time from coming in to going out. Both take time to prepare. */
	if (f->turn_ns && moved && now - f->turn_ns > f->window_length_ns)
		f->window_s =
			(1 - IP_FPERF_SETTLED) * f->window_s +
			IP_FPERF_SETTLED *
				((double)(now - f->turn_ns) - f->window_length_ns + WINDOW_NS) /
				1e9;
	f->turn_ns = comes ? now : 0;
	f->turned_ns = comes ? now : f->turned_ns;
	/* In a turn of exclusive samples each call may be a sample. */
	f->window_length_ns = WINDOW_NS;
	if (!f->options.exclusive)
		f->window_length_ns +=
			(ip_fperf_window(coming, &allowance) - allowance.window_s) * 1e9;
	f->window_end_ns = comes ? now + f->window_length_ns : 0;
	f->ending_ns = 0;
}

/* A window is over. Returns whether samples that it has brought are still open and may still
 * end. */
static bool is_ending(struct ip_fperf *f, uint64_t now)
{
	bool first = !f->ending_ns;
	int64_t open = 0;

	if (first)
		f->ending_ns = now + ENDING_NS;
	for (size_t i = 0; i < f->nfunctions; i++) {
		if (!has_turn(f, &f->functions[i]))
			continue;
		if (first)
			ip_fperf_close_quota(f, &f->functions[i]);
		open += ip_fperf_open_samples(f, &f->functions[i]);
	}
	return open > 0 && now < f->ending_ns;
}

/* A window is over: all functions go out, or those that were live before come in again. */
static void alternate(struct ip_fperf *f, struct ip_session *s)
{
	size_t n = f->nfunctions;
	_cleanup_free_ struct ip_fperf_item *items = calloc(n + 1, sizeof(*items));
	bool counted = !f->resting;
	uint64_t now, cpu;
	double stops;

	if (!items)
		return;
	ip_fperf_look(f);
	ip_fperf_settle(f, s, true);
	stops = f->stops_ns;
	for (size_t i = 0; i < n; i++) {
		struct ip_fperf_function *fn = &f->functions[i];

		items[i].live = !fn->out;
		/* Probes of functions that are not called cost nothing except when they are
		 * changed. */
		items[i].stay = f->resting ? fn->was_live : !fn->out && !fn->now.calls;
		if (!f->resting)
			fn->was_live = !fn->out;
	}
	ip_fperf_set_whole(f, false);
	if (change(f, s, items, n) < 0) {
		ip_fperf_set_whole(f, is_whole(f));
		return;
	}
	ip_fperf_refund_stops(f, stops);
	ip_fperf_set_whole(f, is_whole(f));
	now = ip_now_ns();
	cpu = f->cpu_ns + f->rested_cpu_ns;
	if (f->options.window)
		f->options.window(f->options.context, s->target->pid, counted, now - f->window_ns,
				  cpu - f->window_cpu_ns);
	f->resting = counted;
	f->window_ns = now;
	f->window_cpu_ns = cpu;
	f->interval_end_ns = now + f->interval_ns;
	/* hot functions may have had their turn */
	f->window_length_ns = WINDOW_NS;
	f->window_end_ns = f->resting ? 0 : now + WINDOW_NS;
	f->ending_ns = 0;
}

/* Updates the cost of a sample, as measured so far: hooks that take a sample measure how long it
 * takes. */
static void learn_sample_cost(struct ip_fperf *f)
{
	struct ip_fperf_spent spent = ip_fperf_spent(f);
	uint64_t begun = 0;

	for (size_t i = 0; i < f->nfunctions; i++)
		begun += f->functions[i].now.begun;
	if (begun > 8)
		f->sample_ns = ip_fperf_sample_cost(f, &spent, begun);
}

static void settle_often(struct ip_fperf *f, struct ip_session *s, uint64_t now)
{
	uint64_t age = now - f->start_ns, pause = age / 4 < COUNT_NS ? age / 4 : COUNT_NS;
	double own = ip_fperf_own(CLOCK_THREAD_CPUTIME_ID), least;

	if (now < f->counted_ns) {
		ip_fperf_settle(f, s, false);
		return;
	}
	ip_fperf_settle(f, s, true);
	f->own_count_s =
		ip_fperf_learn(f->own_count_s, ip_fperf_own(CLOCK_THREAD_CPUTIME_ID) - own);
	least = ip_fperf_pause(f, f->own_count_s, OWN_LOOKS) * 1e9;
	f->counted_ns = now + (pause > least ? pause : (uint64_t)least);
}

/* Reads all cells, and decides. */
static void look_and_decide(struct ip_fperf *f, struct ip_session *s, bool turns)
{
	double own = ip_fperf_own(CLOCK_THREAD_CPUTIME_ID);

	ip_fperf_look(f);
	ip_fperf_settle(f, s, true);
	learn_sample_cost(f);
	f->due_ns = ip_now_ns() + OVERDRAWN_NS;
	f->own_changes_s = 0;
	decide(f, s, turns);
	f->credit.debt_ns = f->credit.ns < 0 ? f->credit.ns : 0;
	own = ip_fperf_own(CLOCK_THREAD_CPUTIME_ID) - own - f->own_changes_s;
	f->own_look_s = ip_fperf_learn(f->own_look_s, own);
	f->interval_ns = ip_fperf_pause(f, f->own_look_s, OWN_LOOKS) * 1e9;
	if (f->interval_ns < f->options.interval_ns)
		f->interval_ns = f->options.interval_ns;
}

void ip_fperf_turn(struct ip_fperf *f, struct ip_session *s)
{
	uint64_t now = ip_now_ns();
	bool overdrawn, window_over, interval_over;

	if (!f->area || !s->live || s->execed || !ip_target_alive(s->target))
		return;
	if (!f->running) {
		begin(f, s);
		now = f->start_ns;
	}
	if (now - f->looked_ns < LOOK_NS)
		return;
	settle_often(f, s, now);
	if (f->options.alternate_ns && now - f->window_ns >= f->options.alternate_ns &&
	    now >= f->held_until_ns) {
		alternate(f, s);
		return;
	}
	if (f->resting)
		return;
	window_over = f->window_end_ns && now >= f->window_end_ns && !is_ending(f, now);
	interval_over = now >= f->interval_end_ns && !f->window_end_ns;
	overdrawn = f->options.budget >= 0 &&
		    f->credit.debt_ns - f->credit.ns >
			    FALLING_S * f->options.budget * 1e9 * f->credit.busy;
	if (window_over || interval_over ||
	    (now >= f->due_ns && now >= f->held_until_ns &&
	     (overdrawn || f->due_ns == f->start_ns + FIRST_NS))) {
		look_and_decide(f, s, interval_over && !window_over);
		if (interval_over)
			f->interval_end_ns = ip_now_ns() + f->interval_ns;
	}
	if (f->options.show && now - f->shown_ns > SHOW_NS) {
		ip_fperf_look(f);
		f->options.show(f->options.context, f);
		f->shown_ns = ip_now_ns();
	}
}

/* The end of a window is known. At the beginning each millisecond matters. Later, waking up costs
 * more than it saves: the CPU that fperf takes may be the target's, or the other half of its
 * core. */
uint64_t ip_fperf_nap(const struct ip_fperf *f, uint64_t now)
{
	uint64_t nap = f->running ? (now - f->start_ns) / YOUNG : 0;

	if (f->window_end_ns)
		return f->window_end_ns > now + LOOK_NS ? f->window_end_ns - now : LOOK_NS;
	return nap < LOOK_NS ? LOOK_NS : nap < CALM_LOOK_NS ? nap : CALM_LOOK_NS;
}

void ip_fperf_end(struct ip_fperf *f)
{
	if (!f->area || f->end_ns)
		return;
	ip_fperf_look(f);
	f->end_ns = ip_now_ns();
	f->confined = ip_fperf_makes_calls(f) && (!f->area->may_read || f->area->header->refused);
	f->own_s = ip_fperf_own(CLOCK_PROCESS_CPUTIME_ID) - f->own_start_s;
	f->ended = ip_fperf_close_account(f);
	f->area = NULL;
}
