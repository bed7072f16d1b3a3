/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures calls in sampled packets.
 */
#include "collector/hot_functions.h"

#include <stdlib.h>

#include "common/arch/x86_64/tsc.h"
#include "common/elf/probe_list.h"
#include "common/error.h"
#include "common/trace/trace_format.h"

#define SAMPLE	  4u	/* one packet in so many is looked at */
#define CALLS_MIN 2000u /* fewer calls are not enough to judge */
#define DEPTH	  256u
#define FUNCTIONS (1u << IP_NUMBER_BITS)

struct seen {
	uint32_t calls, children;
	uint64_t ticks; /* from entry to exit, less the time of inner calls */
};

struct open_call {
	uint64_t begin, inner;
	uint32_t number, children;
};

struct ip_hot {
	unsigned percent;
	uint64_t cost, packets, ticks; /* ticks: time of all packets that were looked at */
	/* by number; the kernel gives memory only to pages that are used */
	struct seen *seen;
	uint32_t *touched;
	size_t ntouched;
	struct open_call stack[DEPTH];
};

/* Returns the cost of two readings of the clock, in its ticks. */
static uint64_t measure(void)
{
	uint64_t best = UINT64_MAX;

	for (int round = 0; round < 50; round++) {
		uint64_t from = ip_tsc(), took;

		for (int i = 0; i < 200; i++)
			ip_tsc();
		took = (ip_tsc() - from) / 100;
		best = took < best ? took : best;
	}
	return best ? best : 1;
}

struct ip_hot *ip_hot_create(unsigned percent)
{
	struct ip_hot *h = calloc(1, sizeof(*h));

	if (h) {
		h->percent = percent;
		h->seen = calloc(FUNCTIONS, sizeof(*h->seen));
		h->touched = calloc(FUNCTIONS, sizeof(*h->touched));
	}
	if (!h || !h->seen || !h->touched) {
		ip_hot_destroy(h);
		ip_error("out of memory");
		return NULL;
	}
	h->cost = measure();
	return h;
}

void ip_hot_destroy(struct ip_hot *h)
{
	if (!h)
		return;
	free(h->seen);
	free(h->touched);
	free(h);
}

uint64_t ip_hot_cost(const struct ip_hot *h)
{
	return h->cost;
}

void ip_hot_set_cost(struct ip_hot *h, uint64_t ticks)
{
	h->cost = ticks;
}

struct ended_call {
	uint64_t own;
	uint32_t number, children;
};

static void note_call(struct ip_hot *h, const struct ended_call *call)
{
	struct seen *s = &h->seen[call->number];

	if (!s->calls)
		h->touched[h->ntouched++] = call->number;
	s->calls++;
	s->children += call->children;
	s->ticks += call->own;
}

void ip_hot_packet(struct ip_hot *h, const uint64_t *records, size_t words, uint64_t events,
		   uint64_t begin, uint64_t end)
{
	struct ended_call longest = {0};
	uint64_t time = begin;
	size_t n = 0;

	if (h->packets++ % SAMPLE)
		return;
	h->ticks += end - begin;
	/* All events together are too few to make one function hot. */
	if (events / 2 * h->cost * IP_HOT_OFTEN < end - begin)
		return;
	for (size_t i = 0; i < words;) {
		uint64_t word = records[i], id = word & 7;
		uint32_t number = word >> 32 & IP_NUMBER_MAX;

		if (id == IP_ID_EXTENDED && i + IP_EXT_WORDS <= words) {
			id = (word >> 3 & IP_TIME_MASK) - IP_ID_EXT_BASE;
			time = word >> 32 | records[i + 1] << 32;
			number = records[i + 1] >> 32 & IP_NUMBER_MAX;
			i += IP_EXT_WORDS;
			if (id > IP_ID_PAYLOAD_BASE - IP_ID_EXT_BASE) {
				id -= IP_ID_PAYLOAD_BASE - IP_ID_EXT_BASE;
				i += i < words ? 1 + IP_PAYLOAD_N(records[i]) : 0;
			}
		} else {
			uint64_t stamp = (time & ~IP_TIME_MASK) | (word >> 3 & IP_TIME_MASK);

			time = stamp;
			i++;
		}
		if (id == IP_PROBE_ENTRY) {
			if (n == DEPTH)
				n = 0;
			h->stack[n++] = (struct open_call){.begin = time, .number = number};
		} else if (id == IP_PROBE_EXIT || id == IP_PROBE_TAIL_EXIT) {
			struct open_call *top = n ? &h->stack[n - 1] : NULL;

			/* a tail exit: the call goes on in another function, and this one has done
			 * its own part */
			if (top && id == IP_PROBE_TAIL_EXIT && top->number + 1 == number)
				number = top->number;
			/* the exit of another function: after longjmp, or of a call that began
			 * before the packet */
			if (!top || top->number != number) {
				n = 0;
				continue;
			}
			struct ended_call ended = {time - top->begin, number, top->children};

			ended.own -= ended.own > top->inner ? top->inner : ended.own;
			if (ended.own > longest.own) {
				struct ended_call shorter = longest;

				longest = ended;
				ended = shorter;
			}
			if (ended.number)
				note_call(h, &ended);
			if (--n) {
				h->stack[n - 1].inner += time - top->begin;
				h->stack[n - 1].children++;
			}
		}
	}
	h->ticks -= longest.own < h->ticks ? longest.own : h->ticks;
}

/* Returns whether the function is hot, and fills in ret. */
static int judge(const struct ip_hot *h, uint32_t number, uint64_t hz, struct ip_hot_function *ret)
{
	const struct seen *s = &h->seen[number];
	uint64_t calls = s->calls, probes = (calls + s->children) * h->cost / 2, own;

	if (calls < CALLS_MIN || calls * h->cost * IP_HOT_OFTEN < h->ticks)
		return 0;
	own = s->ticks > probes ? (s->ticks - probes) / calls : 0;
	*ret = (struct ip_hot_function){.number = number,
					.calls = calls,
					.own_ticks = own,
					.per_second = (double)calls * hz / (h->ticks + 1),
					.share = 100 * h->cost / (h->cost + own)};
	return ret->share >= h->percent;
}

size_t ip_hot_take(struct ip_hot *h, uint64_t hz, struct ip_hot_function *ret, size_t n)
{
	size_t found = 0;

	for (size_t i = 0; i < h->ntouched && found < n; i++)
		found += judge(h, h->touched[i], hz, &ret[found]);
	if (!found && h->ticks < 2 * hz) /* seldom called functions need time to show */
		return 0;
	for (size_t i = 0; i < h->ntouched; i++)
		h->seen[h->touched[i]] = (struct seen){0};
	h->ntouched = 0;
	h->ticks = 0;
	return found;
}

int ip_hot_is_even_counted(const struct ip_hot *h, const struct ip_hot_function *f)
{
	uint64_t cost = h->cost / IP_HOT_COUNT_SHARE;

	return 100 * cost >= h->percent * (cost + f->own_ticks);
}
