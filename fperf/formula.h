/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formulas by which an event follows from counters, as PAPI writes them for its presets. They are
 * in postfix notation, with bars between the parts. N0, N1... are counters, digits are a whole
 * number, # is the clock rate of a core in Hz. + - * / take two values and leave one: "N0|N1|4|*|+"
 * is N0 + 4 N1.
 *
 * A sum of counters, each times a constant (nearly all presets are such sums), is computed in each
 * sample (weights, common/abi/fperf_pmu.h). It has mean and interval as any counter. PAPI applies
 * any other formula, such as a quotient, to the total counts, and fperf applies it to the means.
 * Its value in each sample would not give that: the mean of quotients is not the quotient of means.
 *
 * The interval of such a formula is computed by the delta method, with the gradient at the means.
 * The covariances of the counters are not kept (each hook would have to sum up the products of all
 * pairs). Whatever they are, the deviation of a sum is at most the sum of the deviations. So the
 * intervals of the parts are added up, each times its derivative. This interval is never too
 * narrow. It is too wide if counters go up and down together, as they mostly do. There is no
 * interval if that of a divisor reaches 0.
 */
#ifndef IP_FORMULA_H
#define IP_FORMULA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/abi/fperf_pmu.h"

#define IP_FORMULA_TOKENS 64u
#define IP_FORMULA_WEIGHT 4096 /* largest weight, so that sums do not overflow */

struct ip_formula {
	unsigned n;
	struct {
		char kind; /* N: counter; =: value; or one of + - * / */
		unsigned counter;
		double value;
	} tokens[IP_FORMULA_TOKENS];
};

/* hz: clock rate of a core; 0: not known. Returns -1 with an error. */
int ip_formula_parse(const char *text, unsigned ncounters, double hz, struct ip_formula *ret);

/* Returns whether the formula is a sum of weights[i] * counter i, divided by *ret_divisor. */
bool ip_formula_weights(const struct ip_formula *f, unsigned ncounters, int32_t *weights,
			uint32_t *ret_divisor);

/* Computes the formula from means. ci: half the widths of their intervals (negative: not known).
 * Returns NAN if a divisor is 0. *ret_ci negative: not known. */
double ip_formula_value(const struct ip_formula *f, const double *means, const double *ci,
			double *ret_ci);

#endif
