/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses counts and computes bounds of percentiles.
 *
 * The file is written whole or not at all, so a file without its last line is damaged. A line
 * that is not known is skipped: a newer iprobe may write more.
 */
#include "analysis/profile/counts.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/read/members.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/trace/trace_format.h"

struct reader {
	const char *name;
	const struct ip_recording *session;
	const struct ip_recording_member *member; /* whose numbers they are; NULL: the session's */
	struct ip_counts *counts;
	const char *at; /* in the line, which ends in a zero byte */
	size_t line;
};

static int bad(const struct reader *r, const char *what)
{
	return ip_error("%s: line %zu: %s: the trace is damaged", r->name, r->line, what);
}

/* Takes a number and the separator after it. */
static bool take(struct reader *r, char separator, uint64_t *ret)
{
	char *end;

	if (!isdigit((unsigned char)*r->at))
		return false;
	errno = 0;
	*ret = strtoull(r->at, &end, 10);
	if (errno || (*end && *end != separator))
		return false;
	r->at = *end ? end + 1 : end;
	return true;
}

/* Takes "KEY\t". */
static bool is(struct reader *r, const char *key)
{
	size_t n = strlen(key);

	if (strncmp(r->at, key, n) || r->at[n] != '\t')
		return false;
	r->at += n + 1;
	return true;
}

/* A target may have overwritten its figures with anything: sums stop where they would wrap. */
static uint64_t add(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

static struct ip_count *function_of(const struct reader *r, uint64_t number)
{
	uint32_t function = 0;

	if (number <= IP_NUMBER_MAX && r->member)
		number = ip_member_number(r->member, number);
	else if (number > IP_NUMBER_MAX)
		number = r->session->nnumbers;
	if (number < r->session->nnumbers)
		function = ip_recording_number(r->session, number).function;
	return &r->counts->functions[function];
}

static int parse_count(struct reader *r)
{
	struct ip_count *c;
	uint64_t number, calls;

	if (!take(r, '\t', &number) || !take(r, '\t', &calls))
		return bad(r, "a count needs a number and calls");
	c = function_of(r, number);
	c->counted = true;
	c->calls = add(c->calls, calls);
	r->counts->calls = add(r->counts->calls, calls);
	return 0;
}

static int parse_hist(struct reader *r)
{
	uint64_t number, ended, unmeasured, sum, min, max;
	struct ip_count *c;

	if (!r->counts->nbuckets)
		return bad(r, "a histogram in front of its buckets");
	if (!take(r, '\t', &number) || !take(r, '\t', &ended) || !take(r, '\t', &unmeasured) ||
	    !take(r, '\t', &sum) || !take(r, '\t', &min) || !take(r, '\t', &max))
		return bad(r, "a histogram needs a number, calls, unmeasured ones, sum, min, max "
			      "and buckets");
	c = function_of(r, number);
	c->measured = true;
	for (unsigned i = 0; i < r->counts->nbuckets; i++) {
		uint64_t n;

		if (!take(r, ',', &n))
			return bad(r, "a bucket is missing");
		c->buckets[i] = add(c->buckets[i], n);
	}
	if (ended) {
		if (!c->ended || min < c->min)
			c->min = min;
		if (max > c->max)
			c->max = max;
	}
	c->sum = add(c->sum, sum);
	c->ended = add(c->ended, ended);
	c->calls = add(c->calls, add(ended, unmeasured));
	r->counts->calls = add(r->counts->calls, add(ended, unmeasured));
	return 0;
}

/* Traces of older versions have no such line. */
static int parse_self(struct reader *r)
{
	struct ip_count *c;
	uint64_t number, self;

	if (!take(r, '\t', &number) || !take(r, '\t', &self))
		return bad(r, "self time needs a number and ticks");
	c = function_of(r, number);
	c->self = add(c->self, self);
	c->has_self = true;
	return 0;
}

/* Traces of older versions, and functions without tail exits, have no such line. */
static int parse_tailed(struct reader *r)
{
	uint64_t number, tailed;
	struct ip_count *c;

	if (!take(r, '\t', &number) || !take(r, '\t', &tailed))
		return bad(r, "ends at tail exits need a number and calls");
	c = function_of(r, number);
	c->tailed = add(c->tailed, tailed);
	c->has_tailed = true;
	return 0;
}

/* Traces of older versions have no such line. */
static int parse_thread(struct reader *r)
{
	struct ip_counts *c = r->counts;
	uint64_t pid, tid, claimed, calls, self;

	if (!take(r, '\t', &pid) || pid > UINT32_MAX || !take(r, '\t', &tid) || tid > UINT32_MAX ||
	    !take(r, '\t', &claimed) || !take(r, '\t', &calls) || !take(r, '\t', &self))
		return bad(r, "a thread needs a process, a number, a time, calls and ticks");
	if (ip_array_grow(&c->threads, c->nthreads, sizeof(*c->threads)) < 0)
		return -1;
	c->threads[c->nthreads++] = (struct ip_count_thread){
		.member = r->member ? r->member - r->session->members->items : 0,
		.pid = pid,
		.tid = tid,
		.claimed = claimed,
		.calls = calls,
		.self = self};
	return 0;
}

static int parse_buckets(struct reader *r)
{
	uint64_t n, shift;

	if (!take(r, '\t', &n) || !take(r, '\t', &shift) || !n || n > IP_COUNT_BUCKETS ||
	    shift > 64 - n)
		return bad(r, "no sensible buckets");
	if (r->counts->nbuckets && (r->counts->nbuckets != n || r->counts->shift != shift))
		return bad(r, "other buckets than those before");
	r->counts->nbuckets = n;
	r->counts->shift = shift;
	return 0;
}

static int parse_line(struct reader *r)
{
	if (is(r, "count"))
		return parse_count(r);
	if (is(r, "hist"))
		return parse_hist(r);
	if (is(r, "self"))
		return parse_self(r);
	if (is(r, "tailed"))
		return parse_tailed(r);
	if (is(r, "buckets"))
		return parse_buckets(r);
	if (is(r, "thread"))
		return parse_thread(r);
	if (is(r, "time") && !take(r, '\t', &r->counts->tsc))
		return bad(r, "a time is missing");
	return 0;
}

static int parse_text(struct reader *r, char *text, char *end)
{
	bool complete = false;

	for (char *next; text < end; text = next) {
		char *newline = memchr(text, '\n', end - text);

		r->line++;
		if (!newline)
			break;
		*newline = '\0';
		next = newline + 1;
		r->at = text;
		if (r->line == 1) {
			uint64_t version;

			if (!is(r, "iprobe-counts") || !take(r, '\t', &version))
				return ip_error("%s: not counts of iprobe", r->name);
			if (version != 1)
				return ip_error("%s: written by another version of iprobe (format "
						"%lu, this one reads 1)",
						r->name, version);
		} else if (parse_line(r) < 0) {
			return -1;
		}
		complete = !strcmp(text, "end");
	}
	return complete ? 0 : bad(r, "the end is missing");
}

struct ip_counts *ip_counts_create(const struct ip_recording *session)
{
	struct ip_counts *c = calloc(1, sizeof(*c));

	if (c)
		c->functions = calloc(session->nfunctions, sizeof(*c->functions));
	if (!c || !c->functions) {
		free(c);
		ip_error("out of memory");
		return NULL;
	}
	c->nfunctions = session->nfunctions;
	return c;
}

int ip_counts_add(const char *name, const char *text, size_t size,
		  const struct ip_recording *session, const struct ip_recording_member *member,
		  struct ip_counts *counts)
{
	struct reader r = {.name = name, .session = session, .member = member, .counts = counts};
	_cleanup_free_ char *copy = malloc(size + 1);
	uint64_t tsc = counts->tsc;

	if (!copy)
		return ip_error("out of memory");
	memcpy(copy, text, size);
	copy[size] = '\0';
	if (parse_text(&r, copy, copy + size) < 0)
		return -1;
	if (counts->tsc < tsc)
		counts->tsc = tsc;
	return 0;
}

int ip_counts_parse(const char *name, const char *text, size_t size,
		    const struct ip_recording *session, struct ip_counts **ret)
{
	struct ip_counts *counts = ip_counts_create(session);

	if (!counts || ip_counts_add(name, text, size, session, NULL, counts) < 0) {
		ip_counts_destroy(counts);
		return -1;
	}
	*ret = counts;
	return 0;
}

void ip_counts_destroy(struct ip_counts *counts)
{
	if (!counts)
		return;
	free(counts->functions);
	free(counts->threads);
	free(counts);
}

uint64_t ip_counts_from(const struct ip_counts *c, const struct ip_recording *s, unsigned bucket)
{
	return bucket ? ip_recording_ns(s, 1ull << (c->shift + bucket - 1)) : 0;
}

uint64_t ip_counts_to(const struct ip_counts *c, const struct ip_recording *s, unsigned bucket)
{
	return bucket + 1 < c->nbuckets ? ip_recording_ns(s, 1ull << (c->shift + bucket))
					: UINT64_MAX;
}

void ip_counts_percentile(const struct ip_counts *c, const struct ip_recording *s,
			  const struct ip_count *count, double share, uint64_t *ret_from,
			  uint64_t *ret_below)
{
	uint64_t total = 0, seen = 0, rank, min = ip_recording_ns(s, count->min),
		 max = ip_recording_ns(s, count->max);
	unsigned bucket = 0, last = 0;
	double position;

	for (unsigned i = 0; i < c->nbuckets; i++)
		total = add(total, count->buckets[i]);
	position = ceil(share * (double)total);
	rank = position >= 0x1p64 ? UINT64_MAX : position > 1 ? (uint64_t)position : 1;
	for (; bucket < c->nbuckets; bucket++) {
		seen = add(seen, count->buckets[bucket]);
		if (count->buckets[bucket])
			last = bucket;
		if (seen >= rank)
			break;
	}
	*ret_from = ip_counts_from(c, s, last);
	*ret_below = ip_counts_to(c, s, last);
	if (*ret_from < min)
		*ret_from = min;
	if (*ret_below > max)
		*ret_below = max;
	if (*ret_below < *ret_from) /* in a damaged trace */
		*ret_below = *ret_from;
}
