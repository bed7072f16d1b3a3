/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes beginnings and ends of frames.
 */
#include "analysis/export/export_events.h"

#include "analysis/profile/merge.h"
#include "common/error.h"

struct walk {
	const struct ip_export_options *options;
	const struct ip_export_writer *writer;
	void *context;
	const uint64_t *payload; /* of the event that is being fed */
	bool stop, any;
};

static void write_event(struct walk *w, const struct ip_export_event *e)
{
	if (w->stop || !w->options->selected[e->function])
		return;
	w->any = true;
	w->stop = !w->writer->event(w->context, e);
}

static void tell(struct walk *w, enum ip_export_kind kind, uint32_t function, uint64_t ts,
		 const uint64_t *payload)
{
	write_event(w, &(struct ip_export_event){kind, function, ts, payload, false});
}

/* A call of a function without exit probes becomes an instant event. */
static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	struct walk *w = context;

	tell(w, frame->flags & IP_FRAME_ENTRY_ONLY ? IP_EXPORT_INSTANT : IP_EXPORT_BEGIN,
	     frame->function, frame->start, w->payload);
}

/* Values that come with the event which shows that a frame was left or came back do not belong
 * to that frame. */
static void on_left(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	tell(context, IP_EXPORT_END, frame->function, ts, NULL);
}

static void on_resumed(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	tell(context, IP_EXPORT_BEGIN, frame->function, ts, NULL);
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts,
		      enum ip_frame_end how)
{
	struct walk *w = context;
	const struct ip_export_event e = {IP_EXPORT_END, frame->function, ts,
					  ip_frame_has_result(frame, how) ? w->payload : NULL,
					  frame->flags & IP_FRAME_TAIL};

	/* otherwise the frame was left before, or it became an instant event */
	if (how == IP_END_EXIT || how == IP_END_UNFINISHED)
		write_event(w, &e);
}

static void on_point(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	struct walk *w = context;

	tell(w, IP_EXPORT_INSTANT, function, ts, w->payload);
}

static void on_values(void *context, const uint64_t *payload)
{
	((struct walk *)context)->payload = payload;
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
	struct walk *w = context;

	w->writer->run(w->context, run);
}

int ip_export_events(struct ip_trace_reader *trace, const struct ip_export_options *options,
		     const struct ip_export_writer *writer, void *context, FILE *out)
{
	static const struct ip_frames_ops ops = {.opened = on_opened,
						 .left = on_left,
						 .resumed = on_resumed,
						 .closed = on_closed,
						 .point = on_point,
						 .values = on_values};
	struct walk w = {.options = options, .writer = writer, .context = context};
	const struct ip_trace_visitor visitor = {.ops = &ops, .context = &w, .run = on_run};
	uint64_t events;

	if (ip_merge(trace, options->tid, &visitor, &w.stop, &events) < 0)
		return -1;
	*options->unchosen = w.any ? 0 : events;
	return w.stop && !ferror(out) ? ip_error("out of memory") : 0;
}
