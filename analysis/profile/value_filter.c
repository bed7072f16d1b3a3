/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands between the stack machine and a view. The tag of a frame is the number of its place here;
 * the place has the tag that the view has given to the frame, which it gets back with each call.
 */
#include "analysis/profile/value_filter.h"

#include <stdlib.h>

#include "common/error.h"

struct open_call {
	uint32_t tag; /* the view's; of a free place the next free one + 1 */
	uint32_t met; /* conditions that the entry meets, one bit each */
};

struct filter {
	const struct ip_trace_visitor *view;
	const struct ip_value_matches *matches;
	const uint64_t *payload; /* that came with the current event */
	struct open_call *open;
	size_t nopen, room;
	uint32_t free; /* the first free place + 1; 0: none */
	bool failed;
};

/* Returns the number of a place + 1; 0 with an error where memory ran out. */
static uint32_t take_place(struct filter *f)
{
	const uint32_t number = f->free;

	if (number) {
		f->free = f->open[number - 1].tag;
		return number;
	}
	if (f->nopen == f->room) {
		const size_t room = f->room ? 2 * f->room : 256;
		struct open_call *open =
			room < UINT32_MAX ? reallocarray(f->open, room, sizeof(*open)) : NULL;

		if (!open) {
			f->failed = f->failed || ip_error("out of memory");
			return 0;
		}
		f->open = open;
		f->room = room;
	}
	return ++f->nopen;
}

static bool meets_all(const struct filter *f, uint32_t met)
{
	return met == ip_value_matches_all(f->matches);
}

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	struct filter *f = context;
	uint32_t number;

	if (f->view->ops->opened)
		f->view->ops->opened(f->view->context, frame, depth);
	number = f->failed ? 0 : take_place(f);
	if (number)
		f->open[number - 1] = (struct open_call){
			frame->tag, ip_value_matches_test(f->matches, f->payload, false)};
	frame->tag = number;
}

/* The frame as the view knows it. */
static struct ip_frame of_view(const struct filter *f, const struct ip_frame *frame)
{
	struct ip_frame copy = *frame;

	copy.tag = f->open[frame->tag - 1].tag;
	return copy;
}

static void on_left(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	const struct filter *f = context;
	struct ip_frame copy;

	if (!frame->tag || !f->view->ops->left)
		return;
	copy = of_view(f, frame);
	f->view->ops->left(f->view->context, &copy, depth, ts);
}

static void on_resumed(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	const struct filter *f = context;
	struct ip_frame copy;

	if (!frame->tag || !f->view->ops->resumed)
		return;
	copy = of_view(f, frame);
	f->view->ops->resumed(f->view->context, &copy, depth, ts);
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	struct filter *f = context;
	const uint64_t *result = ip_frame_has_result(frame, how) ? f->payload : NULL;
	struct open_call *place;
	struct ip_frame copy;

	if (!frame->tag)
		return;
	copy = of_view(f, frame);
	place = &f->open[frame->tag - 1];
	if (meets_all(f, place->met | ip_value_matches_test(f->matches, result, true)))
		f->view->ops->closed(f->view->context, &copy, depth, end, how);
	else if (how != IP_END_UNWOUND && f->view->ops->left) /* that one was left before */
		f->view->ops->left(f->view->context, &copy, depth, end);
	place->tag = f->free;
	f->free = frame->tag;
}

static void on_orphan(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	const struct filter *f = context;

	if (f->view->ops->orphan &&
	    meets_all(f, ip_value_matches_test(f->matches, f->payload, true)))
		f->view->ops->orphan(f->view->context, function, depth, ts);
}

static void on_point(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	const struct filter *f = context;

	if (f->view->ops->point &&
	    meets_all(f, ip_value_matches_test(f->matches, f->payload, false)))
		f->view->ops->point(f->view->context, function, depth, ts);
}

static void on_values(void *context, const uint64_t *payload)
{
	struct filter *f = context;

	f->payload = payload;
	if (f->view->ops->values)
		f->view->ops->values(f->view->context, payload);
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
	const struct filter *f = context;

	if (f->view->run)
		f->view->run(f->view->context, run);
}

int ip_value_filter_visit(struct ip_trace_reader *trace, const struct ip_trace_visitor *view,
			  const struct ip_value_matches *matches, uint64_t *ret_events)
{
	static const struct ip_frames_ops ops = {.opened = on_opened,
						 .left = on_left,
						 .resumed = on_resumed,
						 .closed = on_closed,
						 .orphan = on_orphan,
						 .point = on_point,
						 .values = on_values};
	struct filter f = {.view = view, .matches = matches};
	const struct ip_trace_visitor visitor = {.ops = &ops, .context = &f, .run = on_run};
	int ret;

	if (!ip_value_filter_is_on(matches))
		return ip_trace_reader_visit(trace, view, ret_events);
	ret = ip_trace_reader_visit(trace, &visitor, ret_events);
	free(f.open);
	return f.failed ? -1 : ret;
}
