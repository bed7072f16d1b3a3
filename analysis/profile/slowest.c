/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A heap of the slowest calls so far, the least slow on top, and a place for each call that is
 * open.
 */
#include "analysis/profile/slowest.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/read/value_key.h"
#include "common/error.h"
#include "common/trace/trace_format.h"

#define KEPT_MAX (64u << 20)

/* A call that is open. Its number + 1 is the tag of its frame. */
struct open_call {
	uint64_t *args;	 /* NULL: none */
	uint32_t around; /* function; free: the next free place + 1 */
	uint32_t met;	 /* conditions that its entry meets, one bit each */
	size_t depth;
};

struct finder {
	struct ip_slowest *found;
	const struct ip_slowest_options *options;
	size_t most; /* calls that are kept */
	const struct ip_thread_packets *thread;
	const uint64_t *payload; /* that came with the current event */
	struct open_call *open;
	size_t nopen, room;
	uint32_t free; /* first free place + 1; 0: none */
	size_t kept;   /* bytes of args of open calls */
	uint64_t ordinal;
	bool failed;
};

static void on_run(void *context, const struct ip_thread_packets *run)
{
	((struct finder *)context)->thread = run;
}

static void on_values(void *context, const uint64_t *payload)
{
	((struct finder *)context)->payload = payload;
}

static size_t size_of(const uint64_t *payload)
{
	return (1 + (size_t)IP_PAYLOAD_N(payload[0])) * sizeof(*payload);
}

static uint64_t *copy(struct finder *f, const uint64_t *payload)
{
	uint64_t *words = malloc(size_of(payload));

	if (words)
		memcpy(words, payload, size_of(payload));
	else
		f->failed = f->failed || ip_error("out of memory");
	return words;
}

/* Takes a place for a call. Returns NULL with an error where memory ran out. */
static struct open_call *take_place(struct finder *f, uint32_t *ret_tag)
{
	struct open_call *place;

	if (f->free) {
		*ret_tag = f->free;
		place = &f->open[f->free - 1];
		f->free = place->around;
		return place;
	}
	if (f->nopen == f->room) {
		size_t room = f->room ? 2 * f->room : 256;

		place = room < UINT32_MAX ? reallocarray(f->open, room, sizeof(*place)) : NULL;
		if (!place) {
			f->failed = f->failed || ip_error("out of memory");
			return NULL;
		}
		f->open = place;
		f->room = room;
	}
	*ret_tag = ++f->nopen;
	return &f->open[f->nopen - 1];
}

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	struct finder *f = context;
	const struct ip_value_matches *matches = f->options->matches;
	struct open_call *place;

	if (f->failed || !f->options->selected[frame->function])
		return;
	place = take_place(f, &frame->tag);
	if (!place)
		return;
	*place = (struct open_call){.around = depth ? frame[-1].function : IP_NO_CALL_AROUND,
				    .depth = depth,
				    .met = ip_value_matches_test(matches, f->payload, false)};
	if (!f->payload)
		return;
	if (size_of(f->payload) > KEPT_MAX - f->kept) {
		f->found->unkept++;
		return;
	}
	place->args = copy(f, f->payload);
	f->kept += place->args ? size_of(f->payload) : 0;
}

static long double key_of(const struct finder *f, const struct ip_slow_call *call)
{
	if (f->options->by == IP_SLOWEST_BY_VALUE)
		return call->number;
	return f->options->by == IP_SLOWEST_BY_SELF ? call->self : call->ticks;
}

/* Returns whether a is less slow than b. Of calls that are equal, the later one is. */
static bool is_less(const struct finder *f, const struct ip_slow_call *a,
		    const struct ip_slow_call *b)
{
	long double x = key_of(f, a), y = key_of(f, b);

	return x != y ? x < y : a->ordinal > b->ordinal;
}

static void swap(struct ip_slow_call *a, struct ip_slow_call *b)
{
	struct ip_slow_call kept = *a;

	*a = *b;
	*b = kept;
}

static void move_down(const struct finder *f, struct ip_slow_call *heap, size_t n)
{
	for (size_t i = 0;;) {
		size_t least = i, left = 2 * i + 1, right = left + 1;

		if (left < n && is_less(f, &heap[left], &heap[least]))
			least = left;
		if (right < n && is_less(f, &heap[right], &heap[least]))
			least = right;
		if (least == i)
			return;
		swap(&heap[i], &heap[least]);
		i = least;
	}
}

static void move_up(const struct finder *f, struct ip_slow_call *heap, size_t i)
{
	for (; i && is_less(f, &heap[i], &heap[(i - 1) / 2]); i = (i - 1) / 2)
		swap(&heap[i], &heap[(i - 1) / 2]);
}

static void clear(struct ip_slow_call *call)
{
	free(call->args);
	free(call->result);
}

static bool value_of(const struct ip_value_name *name, const uint64_t *args, const uint64_t *result,
		     struct ip_value *ret)
{
	return ip_value_name_get(name, result, true, ret) ||
	       ip_value_name_get(name, args, false, ret);
}

bool ip_slow_call_value(const struct ip_slow_call *call, const struct ip_value_name *name,
			struct ip_value *ret)
{
	return value_of(name, call->args, call->result, ret);
}

/* Returns whether the call can be compared with others. */
static bool find_number(struct finder *f, struct ip_slow_call *call, const uint64_t *args,
			const uint64_t *result)
{
	struct ip_value value;
	struct ip_value_key key;

	if (f->options->by != IP_SLOWEST_BY_VALUE)
		return true;
	if (value_of(f->options->value, args, result, &value)) {
		key = ip_value_key_make(&value, false);
		if (ip_value_key_number(&key, &call->number))
			return true;
	}
	f->found->numberless++;
	return false;
}

/* Keeps a call that is slow enough. It takes the ownership of *args then. */
static void consider(struct finder *f, struct ip_slow_call *call, uint64_t **args,
		     const uint64_t *result)
{
	struct ip_slowest *s = f->found;
	bool full = s->n == f->most;

	if (full && !is_less(f, &s->calls[0], call))
		return;
	if (!full && !(s->n & (s->n - 1))) {
		struct ip_slow_call *calls =
			reallocarray(s->calls, s->n ? 2 * s->n : 1, sizeof(*calls));

		if (!calls) {
			f->failed = f->failed || ip_error("out of memory");
			return;
		}
		s->calls = calls;
	}
	call->args = *args;
	*args = NULL;
	call->result = result ? copy(f, result) : NULL;
	if (full) {
		clear(&s->calls[0]);
		s->calls[0] = *call;
		move_down(f, s->calls, s->n);
	} else {
		s->calls[s->n] = *call;
		move_up(f, s->calls, s->n++);
	}
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	struct finder *f = context;
	const struct ip_value_matches *matches = f->options->matches;
	const uint64_t *result = ip_frame_has_result(frame, how) ? f->payload : NULL;
	struct open_call *place;
	uint32_t met;
	struct ip_slow_call call = {.start = frame->start,
				    .ticks = ip_frame_ticks(frame, end),
				    .self = frame->self,
				    .ordinal = f->ordinal++,
				    .function = frame->function,
				    .flags = frame->flags,
				    .how = how};

	if (!frame->tag)
		return;
	place = &f->open[frame->tag - 1];
	met = place->met | ip_value_matches_test(matches, result, true);
	f->kept -= place->args ? size_of(place->args) : 0;
	call.around = place->around;
	call.depth = place->depth;
	call.pid = f->thread->pid;
	call.tid = f->thread->tid;
	call.member = f->thread->member;
	if (!f->failed && how != IP_END_UNKNOWN && met == ip_value_matches_all(matches)) {
		if (frame->flags & IP_FRAME_SUSPECT)
			f->found->suspect++;
		else if (frame->flags & IP_FRAME_EARLIER)
			f->found->earlier++;
		else if (find_number(f, &call, place->args, result))
			consider(f, &call, &place->args, result);
	}
	free(place->args);
	*place = (struct open_call){.around = f->free};
	f->free = frame->tag;
}

static void on_point(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	struct finder *f = context;
	struct ip_value value;

	if (!f->options->selected[function])
		return;
	f->found->chosen_points += ip_value_matches_test(f->options->matches, f->payload, false) ==
				   ip_value_matches_all(f->options->matches);
	if (f->options->by == IP_SLOWEST_BY_VALUE)
		f->found->points += ip_value_name_get(f->options->value, f->payload, false, &value);
}

/* Sorts the heap, the slowest first. */
static void sort(const struct finder *f)
{
	struct ip_slow_call *heap = f->found->calls;

	for (size_t n = f->found->n; n > 1; n--) {
		swap(&heap[0], &heap[n - 1]);
		move_down(f, heap, n - 1);
	}
}

/* Whether the inner call was made by the outer one, or by what that has called. */
static bool is_within(const struct ip_slow_call *outer, const struct ip_slow_call *inner)
{
	return outer->member == inner->member && outer->tid == inner->tid &&
	       outer->depth < inner->depth && outer->start <= inner->start &&
	       outer->start + outer->ticks >= inner->start + inner->ticks;
}

static bool is_around_any(const struct ip_slow_call *call, const struct ip_slow_call *others,
			  size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (is_within(call, &others[i]))
			return true;
	return false;
}

size_t ip_slowest_count_around(const struct ip_slowest *s)
{
	size_t n = s->n < IP_SLOWEST_COMPARED ? s->n : IP_SLOWEST_COMPARED, around = 0;

	for (size_t i = 0; i < n; i++)
		around += is_around_any(&s->calls[i], s->calls, n);
	return around;
}

/* Takes the calls in their order until there are n that are around none of those taken. Those that
 * are around others go, and so does what was not taken. */
static void keep_innermost(struct ip_slowest *s, size_t n)
{
	size_t kept = 0, next = 0;

	for (; next < s->n && kept < n; next++) {
		const struct ip_slow_call call = s->calls[next];
		size_t left = 0;

		/* the slots before next are free, or hold what was kept */
		for (size_t i = 0; i < kept; i++) {
			if (is_within(&s->calls[i], &call)) {
				clear(&s->calls[i]);
				s->outer++;
			} else {
				s->calls[left++] = s->calls[i];
			}
		}
		kept = left;
		if (is_around_any(&call, s->calls, kept)) {
			clear(&s->calls[next]);
			s->outer++;
		} else {
			s->calls[kept++] = call;
		}
	}
	for (; next < s->n; next++)
		clear(&s->calls[next]);
	s->n = kept;
}

int ip_slowest_find(struct ip_trace_reader *trace, const struct ip_slowest_options *options,
		    struct ip_slowest **ret)
{
	static const struct ip_frames_ops ops = {
		.opened = on_opened, .closed = on_closed, .point = on_point, .values = on_values};
	struct finder f = {.found = calloc(1, sizeof(*f.found)),
			   .options = options,
			   .most = options->innermost ? IP_SLOWEST_COMPARED : options->n};
	const struct ip_trace_visitor visitor = {.ops = &ops, .context = &f, .run = on_run};
	int done;

	if (!f.found)
		return ip_error("out of memory");
	done = ip_trace_reader_visit(trace, &visitor, &f.found->events);
	for (size_t i = 0; i < f.nopen; i++)
		free(f.open[i].args); /* of calls that an error has left open */
	free(f.open);
	if (done < 0 || f.failed) {
		ip_slowest_destroy(f.found);
		return -1;
	}
	sort(&f);
	if (options->innermost)
		keep_innermost(f.found, options->n);
	*ret = f.found;
	return 0;
}

void ip_slowest_destroy(struct ip_slowest *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		clear(&s->calls[i]);
	free(s->calls);
	free(s);
}
