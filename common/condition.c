/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of --until conditions, and how measured values are checked against them. See
 * condition.h.
 */
#include "common/condition.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/units.h"

static const struct {
	const char *name;
	enum ip_condition_measure measure;
	double share;
} measures[] = {
	{"p50", IP_CONDITION_SHARE, 0.5},    {"p90", IP_CONDITION_SHARE, 0.9},
	{"p95", IP_CONDITION_SHARE, 0.95},   {"p99", IP_CONDITION_SHARE, 0.99},
	{"p999", IP_CONDITION_SHARE, 0.999}, {"mean", IP_CONDITION_MEAN, 0},
	{"calls", IP_CONDITION_RATE, 0},
};

#define N_MEASURES (sizeof(measures) / sizeof(*measures))

static int parse_measure(const char *name, struct ip_condition *ret)
{
	for (size_t i = 0; i < N_MEASURES; i++)
		if (!strcmp(measures[i].name, name)) {
			ret->measure = measures[i].measure;
			ret->share = measures[i].share;
			return 0;
		}
	return ip_error("there are p50, p90, p95, p99, p999, mean and calls, not '%.32s'", name);
}

static int parse_limit(const char *text, struct ip_condition *ret)
{
	char *end;

	if (ret->measure != IP_CONDITION_RATE)
		return ip_parse_duration(text, &ret->limit) < 0 ? -1
		       : ret->limit				? 0
				    : ip_error("a limit of 0 is no limit");
	errno = 0;
	ret->limit = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno
		       ? 0
		       : ip_error("'%.32s' is no number of calls", text);
}

static int parse(const char *text, struct ip_condition *ret)
{
	const char *more = strchr(text, '>'), *colon = strchr(text, ':');
	_cleanup_free_ char *name = NULL, *limit = NULL;
	char *slash;

	if (!more || !colon || more > colon || !colon[1])
		return ip_error("it is written as p99>10ms/1s:FUNCTION (p50, p90, p95, p99, p999, "
				"mean, calls)");
	name = strndup(text, more - text);
	limit = strndup(more + 1, colon - more - 1);
	ret->text = strdup(text);
	ret->functions = strdup(colon + 1);
	if (!name || !limit || !ret->text || !ret->functions)
		return ip_error("out of memory");
	slash = strchr(limit, '/');
	if (slash)
		*slash = '\0';
	ret->over_ns = 1000000000;
	if (parse_measure(name, ret) < 0 || parse_limit(limit, ret) < 0 ||
	    (slash && ip_parse_duration(slash + 1, &ret->over_ns) < 0) ||
	    ip_selection_parse(ret->functions, &ret->selection) < 0)
		return -1;
	if (ret->over_ns < IP_CONDITION_OVER_MIN || ret->over_ns > IP_CONDITION_OVER_MAX)
		return ip_error("it is judged over 100ms to 60s");
	return 0;
}

int ip_condition_parse(const char *text, struct ip_condition *ret)
{
	*ret = (struct ip_condition){0};
	if (parse(text, ret) == 0)
		return 0;
	ip_condition_clear(ret);
	return ip_error_prefix("--until %.256s", text);
}

void ip_condition_clear(struct ip_condition *c)
{
	free(c->text);
	free(c->functions);
	ip_selection_destroy(c->selection);
	*c = (struct ip_condition){0};
}

int ip_conditions_add(struct ip_conditions *options, const char *text)
{
	struct ip_condition condition, *grown;

	if (options->n == IP_CONDITIONS_MAX)
		return ip_error("--until %.256s: a session takes %u of them at most", text,
				IP_CONDITIONS_MAX);
	if (ip_condition_parse(text, &condition) < 0)
		return -1;
	grown = reallocarray(options->items, options->n + 1, sizeof(*grown));
	if (!grown) {
		ip_condition_clear(&condition);
		return ip_error("out of memory");
	}
	options->items = grown;
	options->items[options->n++] = condition;
	return 0;
}

void ip_conditions_clear(struct ip_conditions *options)
{
	for (size_t i = 0; i < options->n; i++)
		ip_condition_clear(&options->items[i]);
	free(options->items);
	*options = (struct ip_conditions){0};
}

/* The last bucket has no upper bound. The bound of one bucket more is taken for it. */
double ip_condition_percentile(const struct ip_condition_durations *d, double share)
{
	uint64_t total = 0, seen = 0, rank;

	for (unsigned i = 0; i < IP_HIST_BUCKETS; i++)
		total += d->buckets[i];
	if (!total)
		return 0;
	rank = ceil(share * (double)total);
	rank = rank ? rank : 1;
	for (unsigned i = 0; i < IP_HIST_BUCKETS; i++) {
		double from = i ? ldexp(1, IP_HIST_SHIFT + i - 1) : 0,
		       to = ldexp(1, IP_HIST_SHIFT + i);

		if (seen + d->buckets[i] >= rank)
			return from + (to - from) * (double)(rank - seen) / (double)d->buckets[i];
		seen += d->buckets[i];
	}
	return 0;
}

bool ip_condition_holds(const struct ip_condition *c, const struct ip_condition_durations *d,
			double ns_per_tick, double *ret)
{
	*ret = 0;
	if (c->measure == IP_CONDITION_RATE) {
		*ret = d->calls;
		return d->calls > c->limit;
	}
	if (d->calls < IP_CONDITION_CALLS)
		return false;
	*ret = c->measure == IP_CONDITION_MEAN ? (double)d->sum / (double)d->calls
					       : ip_condition_percentile(d, c->share);
	*ret *= ns_per_tick;
	return *ret > (double)c->limit;
}

char *ip_condition_say(const struct ip_condition *c, const char *function, double value,
		       uint64_t calls, uint64_t in_ns, char *buffer)
{
	const char *name = "calls";
	char figure[16], in[16], count[32];

	for (size_t i = 0; i < N_MEASURES; i++)
		if (measures[i].measure == c->measure && measures[i].share == c->share)
			name = measures[i].name;
	if (c->measure == IP_CONDITION_RATE)
		snprintf(buffer, 512, "%.200s was called %s times in the last %s", function,
			 ip_format_count(calls, count), ip_format_ns(in_ns, in));
	else
		snprintf(buffer, 512, "%s of %.200s was %s in the last %s (%s calls)", name,
			 function, ip_format_ns(value, figure), ip_format_ns(in_ns, in),
			 ip_format_count(calls, count));
	return buffer;
}
