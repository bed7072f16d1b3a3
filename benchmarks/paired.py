# SPDX-License-Identifier: Apache-2.0
"""Slow-downs from windows that take turns, and a sequential test of them against a limit.

A run is a list of windows (on, cost): on tells whether what is measured was there, cost is the CPU
time of a unit of work, on average over the window (None: not known). Units are alike, so costs may
be compared.

1. Each window is held against the mean of its two neighbours, as the logarithm of the ratio: a
   drift of the machine's speed that is a straight line over three windows cancels.
2. A slow-down may come in bursts, so that a median or a trimmed mean would leave out what is
   looked for. What is cut off is only what no burst can be: a ratio is drawn in where it is
   further from the median than the largest burst that is allowed and NOISE times the spread of
   all ratios. The mean is taken of that.
3. Neighbouring ratios share windows. So the interval is that of the means of batches of
   consecutive ratios, by Student's t.
4. Whoever looks several times and stops at the first clear answer is wrong more often than one who
   looks once. With LOOKS looks each interval is one of 1 - 0.05 / LOOKS (Bonferroni), so that all
   of them together hold the truth in 95 % of the cases.
"""

import math
from statistics import NormalDist, fmean, median, stdev

BATCHES = 6  # of each run
LEAST = 4  # ratios in a batch
NOISE = 4  # standard deviations
LOOKS = (2, 4, 8, 16, 32)  # the numbers of runs after which there is a look; one more at the end


def t_quantile(p, n):
    """Student's t with n degrees of freedom (Cornish and Fisher's expansion; from n = 3 on it is
    exact to 2 % for the p that are used here).
    """
    z = NormalDist().inv_cdf(p)
    if n < 3:
        return math.inf
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * n**4)
    )


def ratios(windows):
    """Logarithms: how much more a unit costs where it is on."""
    found = []
    for (a_on, a), (b_on, b), (c_on, c) in zip(windows, windows[1:], windows[2:]):
        if a_on == c_on != b_on and None not in (a, b, c):
            ratio = math.log(b) - (math.log(a) + math.log(c)) / 2
            found.append(ratio if b_on else -ratio)
    return found


def draw_in(values, burst):
    middle = median(values)
    most = burst + NOISE * 1.4826 * median(abs(v - middle) for v in values)
    return [min(max(v, middle - most), middle + most) for v in values]


def slow_down(runs, burst, looks=1):
    """(mean, half the width of its interval, number of ratios) of runs, each a list of ratios; None
    where there is too little. burst: by how much more a window may cost because of what was saved
    up for it.
    """
    runs = [run for run in runs if len(run) >= BATCHES * LEAST]
    if not runs:
        return None
    drawn_in = iter(draw_in([ratio for run in runs for ratio in run], burst))
    batches = []
    for run in runs:
        values = [next(drawn_in) for _ in run]
        for i in range(BATCHES):
            batches.append(fmean(values[len(run) * i // BATCHES : len(run) * (i + 1) // BATCHES]))
    mean = fmean(batches)
    half = (
        t_quantile(1 - 0.025 / looks, len(batches) - 1) * stdev(batches) / math.sqrt(len(batches))
    )
    return (
        math.expm1(mean),
        (math.expm1(mean + half) - math.expm1(mean - half)) / 2,
        sum(len(run) for run in runs),
    )


def judge(slow, besides, limit):
    """'within', 'over' or 'unresolved'. besides: what is known without noise, and added."""
    if slow is None or slow[0] + slow[1] < 0:
        return "unresolved"  # nothing is faster with probes: that is noise
    if slow[0] + slow[1] + besides <= limit:
        return "within"
    return "over" if slow[0] - slow[1] + besides > limit else "unresolved"
