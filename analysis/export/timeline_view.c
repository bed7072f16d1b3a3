/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills the cells of a picture, from the events of a slice or from the timeline of the run.
 */
#include "analysis/export/timeline_view.h"

#include <stdlib.h>

#include "common/cleanup.h"
#include "common/error.h"

/* A call that is open while a slice is read. */
struct row {
	struct ip_timeline_item item;
	uint64_t since; /* when the stay on the stack began */
	bool open;
};

struct drawing {
	struct ip_timeline_view *view;
	struct row *rows;
	uint64_t calls;
};

uint64_t ip_timeline_view_time(const struct ip_timeline_view *v, size_t column)
{
	return v->from + (uint64_t)((unsigned __int128)(v->to - v->from) * column / v->columns);
}

static size_t column_of(const struct ip_timeline_view *v, uint64_t ts)
{
	size_t c = (unsigned __int128)(ts - v->from) * v->columns / (v->to - v->from);

	if (c >= v->columns)
		return v->columns - 1;
	/* both divisions round down */
	while (c + 1 < v->columns && ip_timeline_view_time(v, c + 1) <= ts)
		c++;
	return c;
}

/* Returns how much of a column lies in [from, to). */
static uint64_t overlap(const struct ip_timeline_view *v, size_t column, uint64_t from, uint64_t to)
{
	uint64_t begin = ip_timeline_view_time(v, column),
		 end = ip_timeline_view_time(v, column + 1);

	begin = begin > from ? begin : from;
	end = end < to ? end : to;
	return end > begin ? end - begin : 0;
}

/* Puts the time [from, to) of a call into the cells of its row. */
static void put(struct ip_timeline_view *v, const struct ip_timeline_item *item, uint64_t from,
		uint64_t to)
{
	struct ip_timeline_cell *cells = v->cells + (size_t)(item->depth - v->first) * v->columns;
	size_t last;

	if (from >= v->to || to < v->from || (to == v->from && from < to))
		return;
	from = from > v->from ? from : v->from;
	to = to < v->to ? to : v->to;
	last = column_of(v, to > from ? to - 1 : from);
	for (size_t c = column_of(v, from); c <= last; c++) {
		struct ip_timeline_cell *cell = &cells[c];
		uint64_t ticks = item->end - item->start,
			 longest = cell->longest.end - cell->longest.start;

		cell->covered += overlap(v, c, from, to);
		if (!cell->calls++ || ticks > longest)
			cell->longest = *item;
	}
}

static bool is_shown(const struct ip_timeline_view *v, size_t depth)
{
	return depth >= v->first && depth - v->first < v->rows;
}

/* ---- a slice that is read ---- */

static void begin_bar(struct drawing *d, const struct ip_frame *frame, size_t depth, uint64_t since)
{
	struct ip_timeline_view *v = d->view;

	if (depth >= v->deepest && since < v->to)
		v->deepest = depth < UINT32_MAX ? depth + 1 : UINT32_MAX;
	if (is_shown(v, depth))
		d->rows[depth - v->first] = (struct row){.item = {.start = frame->start,
								  .function = frame->function,
								  .depth = depth,
								  .tag = frame->tag},
							 .since = since,
							 .open = true};
}

static void end_bar(struct drawing *d, size_t depth, uint64_t ts, bool open)
{
	struct row *row = is_shown(d->view, depth) ? &d->rows[depth - d->view->first] : NULL;

	if (!row || !row->open)
		return;
	row->open = false;
	row->item.end = ts;
	row->item.open = open;
	put(d->view, &row->item, row->since, ts);
}

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	struct drawing *d = context;

	frame->tag = d->calls < IP_NO_TAG ? d->calls : IP_NO_TAG;
	d->calls++;
	begin_bar(d, frame, depth, frame->start);
}

static void on_left(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	end_bar(context, depth, ts, false);
}

static void on_resumed(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	begin_bar(context, frame, depth, ts);
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	if (how != IP_END_UNWOUND) /* otherwise the stay ended when the frame was left */
		end_bar(context, depth, end, false);
}

static void on_point(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	struct drawing *d = context;
	struct ip_timeline_item item = {.start = ts,
					.end = ts,
					.function = function,
					.depth = depth,
					.tag = d->calls < IP_NO_TAG ? d->calls : IP_NO_TAG,
					.point = true};

	d->calls++;
	if (depth >= d->view->deepest && ts >= d->view->from && ts < d->view->to)
		d->view->deepest = depth < UINT32_MAX ? depth + 1 : UINT32_MAX;
	if (is_shown(d->view, depth))
		put(d->view, &item, ts, ts);
}

static void on_open(void *context, const struct ip_frame *frames, size_t n, uint64_t now, bool end)
{
	struct drawing *d = context;
	struct ip_timeline_view *v = d->view;

	for (size_t depth = v->first; depth < n && is_shown(v, depth); depth++)
		if (end)
			end_bar(d, depth, v->to, true);
		else
			begin_bar(d, &frames[depth], depth, frames[depth].start);
	if (n > v->deepest)
		v->deepest = n < UINT32_MAX ? n : UINT32_MAX;
}

static int draw_events(const struct ip_run_timeline *t, struct ip_timeline_view *v)
{
	static const struct ip_frames_ops ops = {.opened = on_opened,
						 .left = on_left,
						 .resumed = on_resumed,
						 .closed = on_closed,
						 .point = on_point};
	_cleanup_free_ struct row *rows = calloc(v->rows, sizeof(*rows));
	struct drawing d = {.view = v, .rows = rows};
	const struct ip_slice_visitor visitor = {
		.ops = &ops, .context = &d, .calls = &d.calls, .open = on_open};

	if (!rows)
		return ip_error("out of memory");
	v->exact = true;
	return ip_run_index_visit(t->index, v->from, v->to - 1, &visitor);
}

/* ---- the timeline of the run ---- */

static void draw_kept(const struct ip_timeline *t, struct ip_timeline_view *v, uint32_t row,
		      uint64_t from, uint64_t to)
{
	size_t low = 0, high = t->nstays;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct ip_timeline_call *c = &t->stays[middle];

		if (c->row < row || (c->row == row && c->end <= from))
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < t->nstays && t->stays[low].row == row && t->stays[low].start < to; low++) {
		const struct ip_timeline_call *c = &t->stays[low];
		struct ip_timeline_item item = {.start = t->begin + c->start,
						.end = t->begin + c->end,
						.function = c->function,
						.depth = t->rows[row].depth,
						.tag = IP_NO_TAG};

		put(v, &item, item.start, item.end);
	}
}

/* Adds the short calls of a slice of the timeline to the cells that it touches. */
static void draw_sum(struct ip_timeline_view *v, uint32_t depth, const struct ip_timeline_sum *sum,
		     uint64_t begin, uint64_t end)
{
	struct ip_timeline_cell *cells = v->cells + (size_t)(depth - v->first) * v->columns;
	uint64_t from = begin > v->from ? begin : v->from, to = end < v->to ? end : v->to;
	size_t last;

	if (from >= to || (!sum->calls && !sum->covered))
		return;
	last = column_of(v, to - 1);
	for (size_t c = column_of(v, from); c <= last; c++) {
		struct ip_timeline_cell *cell = &cells[c];
		double share = (double)overlap(v, c, from, to) / (end - begin);
		uint64_t calls = sum->calls * share, covered = sum->covered * share;

		if (!cell->calls || (cell->summed && covered > cell->covered))
			cell->longest = (struct ip_timeline_item){.start = from,
								  .end = from,
								  .function = sum->function,
								  .depth = depth,
								  .tag = IP_NO_TAG};
		cell->summed = true;
		cell->calls += calls ? calls : 1;
		cell->covered += covered;
	}
}

static void draw_sums(const struct ip_timeline *t, struct ip_timeline_view *v)
{
	uint64_t from = v->from > t->begin ? v->from - t->begin : 0,
		 to = v->to > t->begin ? v->to - t->begin : 0;
	size_t first = 0, high = t->nslices;

	while (high - first > 1) {
		size_t middle = first + (high - first) / 2;

		if (ip_timeline_slice(t, middle) <= from)
			first = middle;
		else
			high = middle;
	}
	for (uint32_t r = 0; r < t->nrows; r++) {
		uint32_t depth = t->rows[r].depth;

		if (depth >= v->deepest)
			v->deepest = depth + 1;
		if (!is_shown(v, depth))
			continue;
		draw_kept(t, v, r, from, to);
		for (size_t i = first; t->rows[r].sums && i < t->nslices; i++) {
			uint64_t begin = ip_timeline_slice(t, i);

			if (begin >= to)
				break;
			draw_sum(v, depth, &t->rows[r].sums[i], t->begin + begin,
				 t->begin + ip_timeline_slice(t, i + 1));
		}
	}
}

int ip_timeline_view_make(const struct ip_run_timeline *t, uint64_t from, uint64_t to,
			  size_t columns, uint32_t first, uint32_t rows,
			  struct ip_timeline_view *ret)
{
	int done = 0;

	*ret = (struct ip_timeline_view){.from = from,
					 .to = to > from ? to : from + 1,
					 .columns = columns ? columns : 1,
					 .first = first,
					 .rows = rows ? rows : 1};
	ret->cells = calloc(ret->rows * ret->columns, sizeof(*ret->cells));
	if (!ret->cells)
		return ip_error("out of memory");
	ret->events = ip_run_index_cost(t->index, ret->from, ret->to);
	if (ret->events <= IP_TIMELINE_VIEW_EVENTS) {
		done = draw_events(t, ret);
	} else {
		ret->events = 0;
		draw_sums(t->sums, ret);
	}
	if (done < 0) {
		free(ret->cells);
		ret->cells = NULL;
	}
	return done;
}
