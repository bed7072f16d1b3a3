/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formulas of counters. A value and its derivatives by all counters are computed together.
 */
#include "fperf/formula.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

#define DIVISOR_MAX 4096u
#define EXACT	    1e-9

struct value {
	double value;
	double by[IP_PMU_COUNTERS]; /* derivatives by the counters */
	/* it is a sum of counters times constants, and of a constant: so by is the same
	 * everywhere */
	bool is_sum;
	bool vague; /* the interval of a divisor reaches 0 */
};

static bool is_constant(const struct value *v)
{
	for (unsigned i = 0; i < IP_PMU_COUNTERS; i++)
		if (v->by[i] != 0)
			return false;
	return v->is_sum;
}

static int add(struct ip_formula *f, char kind, unsigned counter, double value)
{
	if (f->n == IP_FORMULA_TOKENS)
		return ip_error("more than %u parts", IP_FORMULA_TOKENS);
	f->tokens[f->n].kind = kind;
	f->tokens[f->n].counter = counter;
	f->tokens[f->n++].value = value;
	return 0;
}

/* Parses the text between two bars. */
static int parse_one(const char *text, size_t length, unsigned ncounters, double hz,
		     struct ip_formula *ret)
{
	bool is_counter = *text == 'N';
	const char *const number_at = is_counter ? text + 1 : text;
	size_t digits = 0;
	double number = strtod(number_at, NULL);

	while (number_at[digits] >= '0' && number_at[digits] <= '9')
		digits++;
	if (length == 1 && strchr("+-*/", *text))
		return add(ret, *text, 0, 0);
	if (length == 1 && *text == '#')
		return hz > 0 ? add(ret, '=', 0, hz)
			      : ip_error("nobody knows the clock of this processor");
	if (!digits || digits + is_counter != length || digits > 15)
		return ip_error("'%.*s' is no part of a formula", (int)length, text);
	if (!is_counter)
		return add(ret, '=', 0, number);
	if (number >= ncounters || number >= IP_PMU_COUNTERS)
		return ip_error("there is no N%.0f", number);
	return add(ret, 'N', (unsigned)number, 0);
}

int ip_formula_parse(const char *text, unsigned ncounters, double hz, struct ip_formula *ret)
{
	const char *at = text;
	unsigned depth = 0;

	*ret = (struct ip_formula){0};
	while (*(at += strspn(at, "|"))) {
		size_t length = strcspn(at, "|");

		if (parse_one(at, length, ncounters, hz, ret) < 0)
			return ip_error_prefix("formula %s", text);
		at += length;
		if (strchr("N=", ret->tokens[ret->n - 1].kind))
			depth++;
		else if (depth-- < 2)
			return ip_error("formula %s: too few values for an operator", text);
	}
	return depth == 1 ? 0 : ip_error("formula %s: %u values are left, not one", text, depth);
}

static double deviation(const struct value *v, const double *ci)
{
	double sum = 0;

	for (unsigned i = 0; i < IP_PMU_COUNTERS; i++)
		if (v->by[i] != 0)
			sum += ci[i] < 0 ? INFINITY : fabs(v->by[i]) * ci[i];
	return sum;
}

/* Computes a op b into *a. */
static void apply(char op, struct value *a, const struct value *b, const double *ci)
{
	bool constants = op == '*' ? is_constant(a) || is_constant(b) : is_constant(b);
	double x = a->value, y = b->value;

	a->vague |= b->vague;
	a->is_sum &= b->is_sum && (op == '+' || op == '-' || constants);
	if (op == '/')
		a->vague |= !(fabs(y) > deviation(b, ci));
	a->value = op == '+' ? x + y : op == '-' ? x - y : op == '*' ? x * y : y != 0 ? x / y : NAN;
	for (unsigned i = 0; i < IP_PMU_COUNTERS; i++) {
		if (op == '+')
			a->by[i] += b->by[i];
		else if (op == '-')
			a->by[i] -= b->by[i];
		else if (op == '*')
			a->by[i] = a->by[i] * y + b->by[i] * x;
		else
			a->by[i] = y != 0 ? (a->by[i] * y - b->by[i] * x) / (y * y) : NAN;
	}
}

static struct value evaluate(const struct ip_formula *f, const double *means, const double *ci)
{
	struct value pile[IP_FORMULA_TOKENS + 1];
	unsigned top = 0;

	for (unsigned i = 0; i < f->n; i++) {
		char kind = f->tokens[i].kind;
		unsigned counter = f->tokens[i].counter;

		if (kind == 'N' || kind == '=') {
			pile[top] = (struct value){.value = f->tokens[i].value, .is_sum = true};
			if (kind == 'N') {
				pile[top].value = means[counter];
				pile[top].by[counter] = 1;
			}
			top++;
		} else {
			top--;
			apply(kind, &pile[top - 1], &pile[top], ci);
		}
	}
	return pile[0];
}

bool ip_formula_weights(const struct ip_formula *f, unsigned ncounters, int32_t *weights,
			uint32_t *ret_divisor)
{
	static const double zeros[IP_PMU_COUNTERS];
	struct value v = evaluate(f, zeros, zeros);
	bool fits = false;

	/* With all counters at 0 the value is the constant term. */
	if (!v.is_sum || v.value != 0)
		return false;
	for (uint32_t divisor = 1; divisor <= DIVISOR_MAX && !fits; divisor++) {
		fits = true;
		for (unsigned i = 0; i < ncounters; i++) {
			double weight = v.by[i] * divisor;

			fits &= fabs(weight) <= IP_FORMULA_WEIGHT &&
				fabs(weight - round(weight)) < EXACT * divisor;
			if (fits)
				weights[i] = (int32_t)round(weight);
		}
		*ret_divisor = divisor;
	}
	return fits;
}

double ip_formula_value(const struct ip_formula *f, const double *means, const double *ci,
			double *ret_ci)
{
	struct value v = evaluate(f, means, ci);
	double half = deviation(&v, ci);

	*ret_ci = v.vague || !isfinite(v.value) || !isfinite(half) ? -1 : half;
	return v.value;
}
