/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The leaky bucket: the policy (policy.h) that fperf has.
 *
 * What costs. A call of a live function that has no quota costs an increment (count_ns), and where
 * it is not called often what the probe needs must come from afar first (cold_ns). A sample costs
 * its readings (sample_ns). Taking probes out or putting them in costs a stop (change_ns), however
 * many they are. So functions that are seldom called cost next to nothing while they are live, and
 * a few hot ones cost all the rest: hot is a function's rate of calls times what each costs.
 *
 * The bucket. budget is what may be spent a second; what is not spent is saved up to a limit, what
 * is spent too much is overdrawn and paid back before anything else is bought. Who calls decide()
 * reckons it from what was really spent, measured in the target, so it does not matter if what is
 * expected here is wrong: over any stretch of time T, spent <= budget * T + limit + what is spent
 * between two looks, and each look that finds it overdrawn lowers the rate of spending below STEADY
 * of the budget, or there is nothing left to lower.
 *
 * The decision:
 *   1. Functions are taken in the order of what they cost while live. As long as all together cost
 *      less than STEADY of the budget they stay live for good: nearly all functions of a program.
 *      One that is out comes back for good only after a while, and where less than RETURN is used;
 *      and those that would go stay while a change costs more than they do (WORTH_S): lest those at
 *      the border come and go, each time with a stop.
 *   2. The others are hot. They are out, and take turns: where what is saved up pays for it
 *      (counting them, their samples, two changes), the ones that need it most are let in together.
 *      Who has fewer than two samples comes first, then who has the widest interval, times how long
 *      it has been out, times its share of the first event, up to some bounds: the busiest are what
 *      people look for, but each comes round. If the first of them cannot be paid for yet, nobody
 *      comes in: it is saved for, lest cheaper ones starve it; and one that costs more than can
 *      ever be saved comes in when all is saved, and is paid back later. A turn is planned to last
 *      good_s, so that as many functions as can be have one: how often each is called is known
 *      after a few. It is longer where what is saved up lasts longer (up to IP_FPERF_WINDOW_MAX_S),
 *      and shorter where it does not. All of them are counted; who needs samples most gets a few,
 *      as far as they can be paid, and what is left is divided by share and width.
 *      One that stays, but needs a function that is out, takes turns, too: what it needs comes in
 *      along with it. Who is there for others only never comes in by itself.
 *   3. Quotas. Each live function that has fewer than two samples may take two, always: this is the
 *      promise that whoever is called is seen. Of what the budget has left the rest is divided by
 *      share and by the width of the intervals, no more than a function is called; where that is
 *      less than a sample each, the widest get one. Of n samples that are all alike the interval
 *      has no width; they count as if it were 3 / n.
 *      Who was not called in the last interval gets one sample, too, as far as there are any left:
 *      else of one that is called in bursts none would be seen.
 *   4. `every` spreads a quota over the calls of an interval, so that the samples are of all of it.
 *      A call that is passed over costs hook_ns twice, so that is done, the seldom called first, as
 *      far as SPREADING of the budget goes; samples of the others are of the interval's beginning.
 *
 * Exclusive samples need all functions live. So where some are out nobody has a quota, and the turn
 * is one of all: it costs what the process can do in a window, since each call inside of a sample
 * may be measured.
 */
#ifndef IP_LEAKY_BUCKET_H
#define IP_LEAKY_BUCKET_H

#include "fperf/policy.h"

extern const struct ip_fperf_policy ip_fperf_bucket;

#endif
