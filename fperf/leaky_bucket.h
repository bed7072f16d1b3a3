/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The leaky bucket: fperf's policy (policy.h).
 *
 * What costs. A call of a live function that has no quota costs an increment (count_ns). If the
 * function is not called often, what its probe needs must also be fetched from a far cache
 * (cold_ns). A sample costs its readings (sample_ns). Taking probes out or putting them in costs a
 * change (change_ns), however many they are. So functions that are seldom called cost next to
 * nothing while they are live, and a few hot ones cost all the rest. The cost of a function is its
 * rate of calls times the cost of a call.
 *
 * The bucket. budget is what may be spent per second. What is not spent is saved, up to a limit. If
 * too much is spent, the account is overdrawn, and this is paid back before anything else is
 * bought. The caller of decide() computes the account from what was really spent, as measured in
 * the target. So it does not matter if the costs expected here are wrong. Over any time T: spent <=
 * budget * T + limit + what is spent between two looks. And each look that finds the account
 * overdrawn lowers the rate of spending below STEADY of the budget, or nothing is left to be
 * lowered.
 *
 * The decision:
 *   1. Functions are taken in the order of what they cost while live. As long as all together cost
 *      less than STEADY of the budget, they stay live for good: nearly all functions of a program.
 *      A function that is out comes back for good only after a while, and only if less than RETURN
 *      is used. Functions that would go stay if a change costs more than they do (WORTH_S). So
 *      functions at the border do not come and go, each time with a stop.
 *   2. The other functions are hot. They are out, and take turns. When the savings can pay for it
 *      (counting them, their samples, two changes), the functions that need it most come in
 *      together. Functions with fewer than two samples come first. The others are ordered by the
 *      width of their interval, times how long they have been out, times their share of the first
 *      event, within bounds: the busiest functions are what users look for, but each function gets
 *      its turn. If the first function cannot be paid for yet, none comes in: the savings are kept
 *      for it, so that cheaper functions do not starve it. A function that costs more than can ever
 *      be saved comes in when the savings are full, and is paid back later. A turn is planned to
 *      last good_s, so that as many functions as possible get one: the call rate of a function is
 *      known after a few turns. It is longer if the savings last longer (up to
 *      IP_FPERF_WINDOW_MAX_S), and shorter if they do not. All functions of a turn are counted. The
 *      functions that need samples most get a few, as far as they can be paid. What is left is
 *      divided by share and width.
 *      A function that stays, but needs a function that is out, takes turns, too: the needed
 *      function comes in together with it. A function that is only needed by others never comes in
 *      by itself.
 *   3. Quotas. Each live function that has fewer than two samples may always take two. This is the
 *      promise that each function that is called is seen. The rest of the budget is divided by
 *      share and by the width of the intervals, and no function gets more samples than it is
 *      called. If this is less than one sample each, the functions with the widest intervals get
 *      one. The interval of n samples that are all alike has no width. They count as if it were
 *      3 / n.
 *      A function that was not called in the last interval gets one sample, too, as long as any are
 *      left. Otherwise no call would be seen of a function that is called in bursts.
 *   4. `every` spreads a quota over the calls of an interval, so that the samples come from all of
 *      it. A call that is passed over costs hook_ns twice. So this is done for the functions that
 *      are called least, as far as SPREADING of the budget goes. Samples of the other functions
 *      come from the beginning of the interval.
 *
 * Exclusive samples need all functions live. So if some are out, no function has a quota, and the
 * turn is one of all functions. Such a turn costs all that the process can do in a window, since
 * each call inside of a sample may be measured.
 */
#ifndef IP_LEAKY_BUCKET_H
#define IP_LEAKY_BUCKET_H

#include "fperf/policy.h"

extern const struct ip_fperf_policy ip_fperf_bucket;

#endif
