/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of --until conditions, and how measured values are checked against them. See
 * condition.h.
 */
#include "common/condition.h"

#include <ctype.h>
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
	{"max", IP_CONDITION_MAX, 0},	     {"calls", IP_CONDITION_RATE, 0},
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
	return ip_error("there are p50, p90, p95, p99, p999, mean, max and calls, not '%.32s'",
			name);
}

static int parse_limit(const char *text, struct ip_condition *ret)
{
	char *end;

	ret->bare = ret->measure != IP_CONDITION_RATE && *text &&
		    strchr("0123456789.", text[strlen(text) - 1]);
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

/* Copies a part of the text without blanks at its ends. NULL: out of memory. */
static char *part(const char *from, const char *end)
{
	while (from < end && isspace((unsigned char)*from))
		from++;
	while (end > from && isspace((unsigned char)end[-1]))
		end--;
	return strndup(from, end - from);
}

static int parse(const char *text, struct ip_condition *ret)
{
	const char *more = strchr(text, '>'), *colon = strchr(text, ':');
	_cleanup_free_ char *name = NULL, *limit = NULL, *over = NULL;
	const char *slash;

	if (!more || !colon || more > colon || !colon[1 + strspn(colon + 1, " \t\n\v\f\r")])
		return ip_error("it is written as p99>10ms/1s:FUNCTION (p50, p90, p95, p99, p999, "
				"mean, max, calls)");
	slash = memchr(more, '/', colon - more);
	name = part(text, more);
	limit = part(more + 1, slash ? slash : colon);
	over = part(slash ? slash + 1 : colon, colon);
	ret->text = strdup(text);
	ret->functions = part(colon + 1, colon + strlen(colon));
	if (!name || !limit || !over || !ret->text || !ret->functions)
		return ip_error("out of memory");
	ret->over_ns = 1000000000;
	if (parse_measure(name, ret) < 0 || parse_limit(limit, ret) < 0 ||
	    (slash && ip_parse_duration(over, &ret->over_ns) < 0) ||
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

static const char *name_of(const struct ip_condition *c)
{
	for (size_t i = 0; i < N_MEASURES; i++)
		if (measures[i].measure == c->measure && measures[i].share == c->share)
			return measures[i].name;
	return "?";
}

bool ip_condition_holds(const struct ip_condition *c, const struct ip_condition_durations *d,
			uint64_t span_ns, double ns_per_tick, struct ip_condition_figure *ret)
{
	double over = c->over_ns;

	*ret = (struct ip_condition_figure){.calls = d->calls, .span_ns = span_ns};
	switch (c->measure) {
	case IP_CONDITION_RATE:
		ret->value = d->calls;
		if (span_ns > c->over_ns)
			ret->value *= over / (double)span_ns;
		break;
	case IP_CONDITION_MAX: /* one call is enough */
		ret->value = ns_per_tick * (double)d->max;
		/* the call may have been seen before it was counted */
		if (d->max && !d->calls)
			ret->calls = 1;
		break;
	case IP_CONDITION_MEAN:
		if (d->calls >= IP_CONDITION_CALLS)
			ret->value = ns_per_tick * (double)d->sum / (double)d->calls;
		break;
	case IP_CONDITION_SHARE:
		if (d->calls >= IP_CONDITION_CALLS)
			ret->value = ns_per_tick * ip_condition_percentile(d, c->share);
		break;
	}
	return ret->value > (double)c->limit;
}

uint64_t ip_condition_interval(const struct ip_condition *c)
{
	uint64_t over = c->over_ns;

	if (c->measure == IP_CONDITION_MAX && over > 1000000000)
		over = 1000000000;
	return over / IP_CONDITION_LOOKS;
}

/* at: what stands before the time that was judged; buffer has 400 bytes. */
static char *describe(const struct ip_condition *c, const char *function,
		      const struct ip_condition_figure *f, const char *at, char *buffer)
{
	char figure[16], span[16], count[32];

	ip_format_count(f->calls, count);
	ip_format_ns(f->span_ns, span);
	if (c->measure == IP_CONDITION_RATE)
		snprintf(buffer, 400, "%.200s was called %s time%s %s %s", function, count,
			 ip_plural(f->calls), at, span);
	else
		snprintf(buffer, 400, "%s of %.200s was %s %s %s (%s call%s)", name_of(c), function,
			 ip_format_ns(f->value, figure), at, span, count, ip_plural(f->calls));
	return buffer;
}

char *ip_condition_say(const struct ip_condition *c, const char *function,
		       const struct ip_condition_figure *f, char *buffer)
{
	return describe(c, function, f, "in the last", buffer);
}

char *ip_condition_say_highest(const struct ip_condition *c, const char *function,
			       const struct ip_condition_figure *highest, bool judged, char *buffer)
{
	char said[400], limit[32], over[16];

	ip_format_ns(c->over_ns, over);
	if (function && c->measure == IP_CONDITION_RATE)
		snprintf(buffer, 512, "%s at most, the limit is %s",
			 describe(c, function, highest, "in", said),
			 ip_format_count(c->limit, limit));
	else if (function)
		snprintf(buffer, 512, "the highest %s, the limit is %s",
			 describe(c, function, highest, "over", said),
			 ip_format_ns(c->limit, limit));
	else if (c->measure == IP_CONDITION_MAX || c->measure == IP_CONDITION_RATE)
		snprintf(buffer, 512, "no call of %.200s has returned", c->functions);
	else if (!judged)
		snprintf(buffer, 512, "%s of %.200s is judged over %s, which have not passed",
			 name_of(c), c->functions, over);
	else
		snprintf(buffer, 512,
			 "%s of %.200s takes %u calls that return within %s: there were fewer",
			 name_of(c), c->functions, IP_CONDITION_CALLS, over);
	return buffer;
}
