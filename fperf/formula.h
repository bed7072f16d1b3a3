/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formulas by which an event follows from counters, as PAPI writes them for its presets: postfix,
 * parts between bars. N0, N1... are counters, digits a whole number, # the clock of a core in Hz,
 * and + - * / take two values and leave one: "N0|N1|4|*|+" is N0 + 4 N1.
 *
 * A sum of counters, each times a constant (nearly all presets are), is taken in each sample
 * (weights, common/abi/fperf_pmu.h): it has mean and interval as any counter. PAPI applies any
 * other, such as a quotient, to what was counted all in all, and so do we to the means. What it is
 * in each sample would say nothing about that: the mean of quotients is not the quotient of means.
 *
 * The interval then is by the delta method, with the gradient at the means. How the counters vary
 * together is not kept (products of all pairs would have to be added up in each hook); whatever it
 * is, the deviation of a sum is not more than the sum of the deviations: so the parts' intervals
 * are added up, each times its derivative. That is never too narrow, and too wide where counters go
 * up and down together, as they mostly do. There is no interval where that of a divisor reaches 0.
 */
#ifndef IP_FORMULA_H
#define IP_FORMULA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/abi/fperf_pmu.h"

#define IP_FORMULA_TOKENS 64u
#define IP_FORMULA_WEIGHT 4096 /* no larger one, so that sums do not overflow */

struct ip_formula {
	unsigned n;
	struct {
		char kind; /* N: counter; =: value; + - * / */
		unsigned counter;
		double value;
	} tokens[IP_FORMULA_TOKENS];
};

/* hz: of a core; 0: not known. -1 with an error. */
int ip_formula_parse(const char *text, unsigned ncounters, double hz, struct ip_formula *ret);

/* Whether it is a sum of weights[i] * counter i, divided by *ret_divisor. */
bool ip_formula_weights(const struct ip_formula *f, unsigned ncounters, int32_t *weights,
			uint32_t *ret_divisor);

/* Of means, with half the widths of their intervals (negative: not known). NAN: a divisor is 0.
 * *ret_ci negative: not known. */
double ip_formula_value(const struct ip_formula *f, const double *means, const double *ci,
			double *ret_ci);

#endif
