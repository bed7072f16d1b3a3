/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The longest stays are kept in a heap with the shortest of them on top. Where the heap is full,
 * the shorter of a new stay and the top goes into the sums. At the end the stays in the heap are
 * exact, all others are in the sums, and no stay is in both.
 *
 * Each depth of each run of a thread has a row (a thread whose process became another program
 * has several runs). Where there may be more rows than there is room for, the trace is read
 * twice. The first reading finds out how much time there is in each row. Then the rows with the
 * most time are kept. As long as all functions are selected, a row is kept only if the rows of
 * lower depth above it are kept, too.
 */
#include "analysis/export/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/callstack/frames_words.h"
#include "common/array.h"
#include "common/error.h"

#define NO_ROW	 UINT32_MAX
#define LEFT_OUT (UINT32_MAX - 1)
/* of all rows together, 48 MiB; beyond that the slices become longer */
#define SUMS_MAX   (2u << 20)
#define SLICES_MIN 16u

struct ip_timeline_candidate {
	uint64_t ticks;
	uint32_t number, depth;
	bool kept;
};

static uint64_t length(const struct ip_timeline_call *stay)
{
	return stay->end - stay->start;
}

uint64_t ip_timeline_slice(const struct ip_timeline *t, size_t i)
{
	return (unsigned __int128)t->ticks * i / t->nslices;
}

/* Goes to the slice in which the time is. Most stays begin where the one before did. */
static void go_to_slice(struct ip_timeline *t, uint64_t ticks)
{
	size_t i;

	if (ticks >= t->slice_begin && ticks < t->slice_end)
		return;
	i = (unsigned __int128)ticks * t->nslices / t->ticks;
	if (i >= t->nslices)
		i = t->nslices - 1;
	/* both divisions round down */
	while (i + 1 < t->nslices && ip_timeline_slice(t, i + 1) <= ticks)
		i++;
	t->slice = i;
	t->slice_begin = ip_timeline_slice(t, i);
	t->slice_end = i + 1 < t->nslices ? ip_timeline_slice(t, i + 1) : UINT64_MAX;
}

/* The majority vote of Boyer and Moore, weighted. It is exact where one function has more than
 * half of the time. */
static void vote(struct ip_timeline_sum *sum, uint32_t function, uint64_t ticks)
{
	if (sum->function == function) {
		sum->vote += ticks;
	} else if (sum->vote >= ticks) {
		sum->vote -= ticks;
	} else {
		sum->vote = ticks - sum->vote;
		sum->function = function;
	}
}

/* Makes the slices twice as long. */
static void coarsen(struct ip_timeline *t)
{
	t->nslices /= 2;
	t->slice_begin = t->slice_end = 0;
	for (size_t r = 0; r < t->nrows; r++) {
		struct ip_timeline_sum *sums = t->rows[r].sums;

		for (size_t i = 0; sums && i < t->nslices; i++) {
			struct ip_timeline_sum sum = sums[2 * i];
			const struct ip_timeline_sum *next = &sums[2 * i + 1];

			if (!sum.calls && !sum.covered && !sum.vote)
				sum.function = next->function; /* sum is empty */
			sum.covered += next->covered;
			sum.calls = sum.calls + next->calls < sum.calls ? UINT32_MAX
									: sum.calls + next->calls;
			if (next->vote)
				vote(&sum, next->function, next->vote);
			sums[i] = sum;
		}
		if (sums) {
			sums = reallocarray(sums, t->nslices, sizeof(*sums));
			if (sums)
				t->rows[r].sums = sums;
		}
	}
}

static struct ip_timeline_sum *make_sums(struct ip_timeline *t)
{
	struct ip_timeline_sum *sums;

	while (++t->nsummed * t->nslices > SUMS_MAX && t->nslices > SLICES_MIN) {
		t->nsummed--;
		coarsen(t);
	}
	sums = calloc(t->nslices, sizeof(*sums));
	t->failed |= !sums;
	return sums;
}

static uint32_t *make_bins(struct ip_timeline *t)
{
	uint32_t *bins;

	while (t->ticks >> t->bin_shift >> IP_TIMELINE_BINS)
		t->bin_shift++;
	t->nbins = (t->ticks >> t->bin_shift) + 1; /* a stay may end at ticks */
	bins = calloc(t->nbins, sizeof(*bins));
	t->failed |= !bins;
	return bins;
}

static void sum_up(struct ip_timeline *t, const struct ip_timeline_call *stay)
{
	struct ip_timeline_row *row = &t->rows[stay->row];
	size_t i;

	if (!row->sums)
		row->sums = make_sums(t);
	if (!row->sums)
		return;
	if (!t->ends)
		t->ends = make_bins(t);
	if (!t->ends)
		return;
	t->summed++;
	t->ends[stay->end >> t->bin_shift] += t->ends[stay->end >> t->bin_shift] != UINT32_MAX;
	go_to_slice(t, stay->start);
	i = t->slice;
	row->sums[i].calls += row->sums[i].calls != UINT32_MAX;
	for (uint64_t at = stay->start, to = t->slice_end;;) {
		if (to > stay->end)
			to = stay->end;
		row->sums[i].covered += to - at;
		/* a stay too short to be measured has a vote, too */
		vote(&row->sums[i], stay->function, to > at ? to - at : 1);
		at = to;
		if (at >= stay->end)
			return;
		to = ++i + 1 < t->nslices ? ip_timeline_slice(t, i + 1) : UINT64_MAX;
	}
}

/* Moves the element at i down to its place in the heap. */
static void sink(struct ip_timeline_call *heap, size_t n, size_t i)
{
	const struct ip_timeline_call stay = heap[i];

	for (;;) {
		size_t child = 2 * i + 1;

		if (child < n && child + 1 < n && length(&heap[child + 1]) < length(&heap[child]))
			child++;
		if (child >= n || length(&heap[child]) >= length(&stay))
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = stay;
}

static void keep(struct ip_timeline *t, const struct ip_timeline_call *stay)
{
	size_t i;

	if (t->nstays == t->most) {
		if (!t->most || length(stay) <= length(&t->stays[0])) {
			sum_up(t, stay);
			return;
		}
		sum_up(t, &t->stays[0]);
		t->stays[0] = *stay;
		sink(t->stays, t->nstays, 0);
		return;
	}
	if (ip_array_grow(&t->stays, t->nstays, sizeof(*t->stays)) < 0) {
		t->failed = true;
		return;
	}
	for (i = t->nstays++; i && length(&t->stays[(i - 1) / 2]) > length(stay); i = (i - 1) / 2)
		t->stays[i] = t->stays[(i - 1) / 2];
	t->stays[i] = *stay;
}

/* Returns whether the row with the number is kept. */
static bool has_room(const struct ip_timeline *t, size_t number)
{
	/* someone may have changed the trace between two readings */
	return number < t->ncandidates && t->candidates[number].kept;
}

static uint32_t row_of(struct ip_timeline *t, size_t depth)
{
	size_t number;

	if (t->row_of_depth[depth] != NO_ROW)
		return t->row_of_depth[depth];
	number = t->wanted++;
	if (t->receiver && (!t->candidates || has_room(t, number)))
		return t->row_of_depth[depth] = t->reread < t->nrows ? t->reread++ : LEFT_OUT;
	if (t->weighing) {
		if (ip_array_grow(&t->candidates, number, sizeof(*t->candidates)) < 0) {
			t->failed = true;
			return NO_ROW;
		}
		t->candidates[number] =
			(struct ip_timeline_candidate){.number = number, .depth = depth};
		return t->row_of_depth[depth] = number;
	}
	if (t->candidates && !has_room(t, number))
		return t->row_of_depth[depth] = LEFT_OUT;
	if (ip_array_grow(&t->rows, t->nrows, sizeof(*t->rows)) < 0) {
		t->failed = true;
		return NO_ROW;
	}
	t->rows[t->nrows] = (struct ip_timeline_row){
		.pid = t->run_pid, .tid = t->run_tid, .process = t->run_process, .depth = depth};
	return t->row_of_depth[depth] = t->nrows++;
}

/* Returns whether the stay is only in sums. Those that are kept are in the order of the reading. */
static bool is_summed(struct ip_timeline *t, const struct ip_timeline_call *stay)
{
	size_t *at = &t->cursors[stay->row];

	if (length(stay) != t->shortest)
		return length(stay) < t->shortest;
	for (; *at < t->nstays && t->stays[*at].row == stay->row; ++*at) {
		const struct ip_timeline_call *kept = &t->stays[*at];

		if (kept->start > stay->start ||
		    (kept->start == stay->start && kept->end > stay->end))
			return true;
		if (kept->start == stay->start && kept->end == stay->end) {
			++*at;
			return false;
		}
	}
	return true;
}

/* start: of the call, of which the stay that ends is the first one or a later one. */
static inline void call_ends(struct ip_timeline *t, uint32_t function, size_t depth, uint64_t start,
			     uint64_t ts)
{
	struct ip_timeline_call stay;

	if (t->skip || t->failed || (t->selected && !t->selected[function]))
		return;
	if (depth >= IP_TIMELINE_DEPTHS) {
		t->deeper += !t->weighing && !t->receiver;
		return;
	}
	if (start < t->resumed[depth])
		start = t->resumed[depth];
	stay = (struct ip_timeline_call){
		.start = start, .end = ts, .function = function, .row = row_of(t, depth)};
	if (stay.row == NO_ROW)
		return;
	if (stay.row == LEFT_OUT) {
		t->beyond += !t->receiver;
		return;
	}
	stay.start = stay.start > t->begin ? stay.start - t->begin : 0;
	stay.end = stay.end > t->begin ? stay.end - t->begin : 0;
	if (stay.end > t->ticks)
		stay.end = t->ticks;
	if (stay.start > stay.end)
		stay.start = stay.end;
	if (t->weighing)
		t->candidates[stay.row].ticks += length(&stay);
	else if (t->receiver)
		t->failed = is_summed(t, &stay) &&
			    t->receiver->call(t->receiver_context, &stay, depth) < 0;
	else
		keep(t, &stay);
}

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	struct ip_timeline *t = context;

	frame->tag = t->calls++; /* for the index of a run */
	/* a frame of the attach may be open since later than the time of the events */
	if (depth < IP_TIMELINE_DEPTHS)
		t->resumed[depth] = 0;
}

static void on_left(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	call_ends(context, frame->function, depth, frame->start, ts);
}

static void on_resumed(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	struct ip_timeline *t = context;

	if (depth < IP_TIMELINE_DEPTHS)
		t->resumed[depth] = ts;
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	if (how != IP_END_UNWOUND) /* otherwise the stay ended when the frame was left */
		call_ends(context, frame->function, depth, frame->start, end);
}

static void on_point(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	struct ip_timeline *t = context;

	t->calls++;
	call_ends(t, function, depth, ts, ts);
}

/* Calls that begin and end so are not numbered: a run's index needs each call for itself. */
static size_t take_words(void *context, struct ip_frames *frames,
			 const struct ip_stream_words *words, uint64_t *ret_ts, uint64_t *ret_sp)
{
	struct ip_frames_call calls[IP_FRAMES_WORDS];
	struct ip_timeline *t = context;
	size_t n, taken;

	taken = ip_frames_take_words(frames, words, false, NULL, NULL, calls, &n, ret_ts, ret_sp);
	for (size_t i = 0; i < n && !t->skip; i++) {
		const struct ip_frames_call *c = &calls[i];

		call_ends(t, c->function, c->depth, c->end - c->ticks, c->end);
	}
	return taken;
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
	struct ip_timeline *t = context;

	t->skip = t->tid && t->tid != run->tid;
	t->run_pid = run->pid;
	t->run_tid = run->tid;
	t->run_process = run->process;
	memset(t->row_of_depth, 0xff, IP_TIMELINE_DEPTHS * sizeof(*t->row_of_depth));
	memset(t->resumed, 0, IP_TIMELINE_DEPTHS * sizeof(*t->resumed));
	if (t->receiver && !t->failed)
		t->failed = t->receiver->run(t->receiver_context) < 0;
}

/* Sorts by row; in a row as they were read: none of them begins before the one before it ends. */
static int by_row_and_start(const void *a, const void *b)
{
	const struct ip_timeline_call *x = a, *y = b;

	if (x->row != y->row)
		return x->row < y->row ? -1 : 1;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

/* Sorts those with the most time first; of equal ones those of lower depth first. */
static int by_ticks(const void *a, const void *b)
{
	const struct ip_timeline_candidate *x = a, *y = b;

	if (x->ticks != y->ticks)
		return x->ticks < y->ticks ? 1 : -1;
	if (x->depth != y->depth)
		return x->depth < y->depth ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

static int by_number(const void *a, const void *b)
{
	const struct ip_timeline_candidate *x = a, *y = b;

	return (x->number > y->number) - (x->number < y->number);
}

/* Finds out which rows to keep. Returns 0, or -1 with an error. */
static int choose_rows(struct ip_timeline *t, struct ip_trace_reader *trace,
		       const struct ip_trace_visitor *visitor)
{
	if (trace->nruns * IP_TIMELINE_DEPTHS <= IP_TIMELINE_ROWS)
		return 0;
	t->weighing = true;
	if (ip_trace_reader_visit(trace, visitor, &t->events) < 0 || t->failed)
		return -1;
	t->weighing = false;
	t->ncandidates = t->wanted;
	if (t->wanted <= IP_TIMELINE_ROWS) {
		free(t->candidates);
		t->candidates = NULL;
	} else {
		qsort(t->candidates, t->wanted, sizeof(*t->candidates), by_ticks);
		for (size_t i = 0; i < IP_TIMELINE_ROWS; i++)
			t->candidates[i].kept = true;
		qsort(t->candidates, t->wanted, sizeof(*t->candidates), by_number);
	}
	t->wanted = 0;
	return 0;
}

static const struct ip_frames_ops ops = {.opened = on_opened,
					 .left = on_left,
					 .resumed = on_resumed,
					 .closed = on_closed,
					 .point = on_point};

/* Returns an empty timeline from begin to end; NULL with an error. */
static struct ip_timeline *create(uint64_t begin, uint64_t end, size_t most, size_t nslices)
{
	struct ip_timeline *t = calloc(1, sizeof(*t));

	if (t) {
		t->row_of_depth = calloc(IP_TIMELINE_DEPTHS, sizeof(*t->row_of_depth));
		t->resumed = calloc(IP_TIMELINE_DEPTHS, sizeof(*t->resumed));
	}
	if (!t || !t->row_of_depth || !t->resumed) {
		ip_timeline_destroy(t);
		ip_error("out of memory");
		return NULL;
	}
	t->most = most;
	t->nslices = nslices;
	t->begin = begin;
	t->ticks = end > begin ? end - begin : 1;
	return t;
}

/* Takes the result of the reading. Returns 0, or -1 with an error. */
static int finish(struct ip_timeline *t, int done, struct ip_timeline **ret)
{
	if (done < 0 || t->failed) {
		if (t->failed)
			ip_error("out of memory");
		ip_timeline_destroy(t);
		return -1;
	}
	if (t->nstays)
		t->shortest = length(&t->stays[0]); /* the top of the heap */
	if (t->nstays)
		qsort(t->stays, t->nstays, sizeof(*t->stays), by_row_and_start);
	*ret = t;
	return 0;
}

int ip_timeline_read_summed(struct ip_timeline *t, struct ip_trace_reader *trace,
			    const struct ip_timeline_receiver *receiver, void *context)
{
	const struct ip_trace_visitor visitor = {
		.ops = &ops, .context = t, .words = take_words, .run = on_run};
	uint64_t events;

	t->cursors = calloc(t->nrows + 1, sizeof(*t->cursors));
	if (!t->cursors)
		return ip_error("out of memory");
	for (size_t i = t->nstays; i--;)
		t->cursors[t->stays[i].row] = i;
	t->wanted = t->reread = 0;
	t->receiver = receiver;
	t->receiver_context = context;
	if (ip_trace_reader_visit(trace, &visitor, &events) < 0 || t->failed)
		return -1;
	return receiver->run(context);
}

int ip_timeline_collect(struct ip_trace_reader *trace, const bool *selected, uint32_t tid,
			size_t most, size_t nslices, struct ip_timeline **ret)
{
	struct ip_timeline *t = create(trace->begin, trace->end, most, nslices);
	const struct ip_trace_visitor visitor = {
		.ops = &ops, .context = t, .words = take_words, .run = on_run};
	int done;

	if (!t)
		return -1;
	t->selected = selected;
	t->tid = tid;
	done = choose_rows(t, trace, &visitor);
	if (done == 0)
		done = ip_trace_reader_visit(trace, &visitor, &t->events);
	return finish(t, done, ret);
}

int ip_timeline_collect_run(struct ip_trace_reader *trace, const struct ip_thread_packets *run,
			    size_t most, size_t nslices, struct ip_timeline **ret,
			    struct ip_run_index **ret_index)
{
	struct ip_timeline *t = create(run->begin, run->end, most, nslices);
	struct ip_run_index *index = NULL;
	const struct ip_slice_visitor visitor = {
		.ops = &ops, .context = t, .calls = t ? &t->calls : NULL};
	int done;

	if (!t)
		return -1;
	on_run(t, run);
	done = ip_run_index_make(trace, run, &visitor, 0, &index);
	if (done == 0)
		t->events = index->events;
	done = finish(t, done, ret);
	if (done < 0)
		ip_run_index_destroy(index);
	else
		*ret_index = index;
	return done;
}

void ip_timeline_destroy(struct ip_timeline *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->nrows; i++)
		free(t->rows[i].sums);
	free(t->rows);
	free(t->stays);
	free(t->row_of_depth);
	free(t->resumed);
	free(t->candidates);
	free(t->ends);
	free(t->cursors);
	free(t);
}
