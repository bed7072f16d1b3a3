/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace reader. An input is a session file, the byte 0x1e, and a stream file; one without 0x1e
 * is taken for both. What is read goes through the call stack machine of one thread, whose promises
 * are checked: each frame that was opened is closed once, not before it began. Between two packets
 * another machine takes over the state of the first one, and sees the same from there on. What
 * stands behind 0x1e is read as counts of that session, too.
 *
 * covers: analysis/read/session.c analysis/read/session_lines.c
 * covers: analysis/read/session_functions.c analysis/read/values.c
 * covers: analysis/read/stream.c analysis/read/unpack.c
 * covers: analysis/read/session_stacks.c analysis/callstack/frames_attach.c
 * covers: analysis/read/value_key.c analysis/read/value_name.c analysis/read/value_match.c
 * covers: analysis/profile/counts.c analysis/read/session_processes.c
 * covers: analysis/callstack/frames_words.c
 */
#include <sys/stat.h>

#include "analysis/callstack/frames.h"
#include "analysis/callstack/frames_words.h"
#include "analysis/callstack/trace.h"
#include "analysis/profile/counts.h"
#include "analysis/profile/value_groups.h"
#include "analysis/read/session.h"
#include "analysis/read/stream.h"
#include "analysis/read/value_match.h"
#include "analysis/read/values.h"
#include "common/trace/trace_format.h"
#include "common/trace/trace_segments.h"
#include "fuzz.h"

#define SEPARATOR 0x1e

/* What a stream is read with where the input's session is none. */
static const char small_session[] = "iprobe-session\t1\ntsc_hz\t1000\nmodule\t0\tm\t\t0\t1\t-\n"
				    "function\t1\t0\tf\t\t0\t-\nfunction\t2\t0\tf\t\t0\ti\n";

static struct {
	uint64_t open, left, closed, orphans, names;
} counts;

/* A copy of a key is equal to it and is shown without what it was made of. */
static void check_key(FILE *out, const struct ip_value *value, bool ranges)
{
	struct ip_value_key key = ip_value_key_make(value, ranges), copy = key;
	uint64_t *words;
	struct ip_json json;
	double from, to;
	char *text;

	fuzz_assert(ip_value_key_copy(&copy, &words) == 0);
	fuzz_assert(ip_value_key_equals(&key, &copy) && ip_value_key_equals(&copy, &key));
	fuzz_assert(ip_value_key_compare(&key, &copy) == 0);
	fuzz_assert(ip_value_key_hash(&key) == ip_value_key_hash(&copy));
	/* a NaN has no bounds that can be compared */
	if (ip_value_key_bounds(&copy, &from, &to))
		fuzz_assert(!(from > to));
	ip_value_key_print(out, &copy);
	ip_json_init(&json, out);
	ip_value_key_json(&json, NULL, &copy);
	text = ip_value_key_text(&copy);
	fuzz_assert(text && ip_value_key_is(&copy));
	free(text);
	free(words);
}

/* What conditions that are made of a trace's own names say is of no interest here. */
static void check_matches(const struct ip_recording *session, const char *name,
			  const uint64_t *payload)
{
	static const char *const ends[] = {"=*",    "!=a*", "==x", "<1", "<=2.5",
					   ">0x10", ">=-5", "=1",  "!",	 "<x"};

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		struct ip_value_matches matches = {0};
		char text[IP_SIGNATURE_MAX + 8];

		snprintf(text, sizeof(text), "%s%s", name, ends[i]);
		if (ip_value_matches_add(&matches, text) == 0 &&
		    ip_value_matches_find(&matches, session, "fuzz") == 0) {
			fuzz_assert(ip_value_matches_test(&matches, payload, false) <= 1);
			fuzz_assert(ip_value_matches_test(&matches, payload, true) <= 1);
		}
		ip_value_matches_clear(&matches);
	}
}

/* A name that the trace has, or has not: an error tells which there are then. */
static void check_name(const struct ip_recording *session, const char *name,
		       const uint64_t *payload)
{
	struct ip_value_name found;
	struct ip_value value;

	if (ip_value_name_find(session, "fuzz", name, &found) < 0)
		fuzz_check_error();
	else if (ip_value_name_is_text(&found))
		for (int at_exit = 0; at_exit < 2; at_exit++)
			if (ip_value_name_get(&found, payload, at_exit, &value))
				fuzz_assert(value.type->code == 's');
	ip_value_name_clear(&found);
}

/* Each value by itself. Of an input a few names only: for each of them all signatures are read. */
static void check_values(FILE *out, const struct ip_recording *session, const uint64_t *payload)
{
	const struct ip_signature *signature = ip_recording_signature(session, payload);
	struct ip_value value;

	for (unsigned i = 0; signature && i < signature->n; i++) {
		const char *name = signature->values[i].name;

		if (ip_value_at(signature, payload, i, &value)) {
			fuzz_assert(value.place == i);
			check_key(out, &value, false);
			check_key(out, &value, true);
		}
		if (name && counts.names++ < 4) {
			struct ip_value_groups *groups =
				ip_value_groups_create(session, "fuzz", name);

			if (groups) {
				fuzz_assert(ip_value_groups_at_entry(groups, 0, payload) == 0);
				fuzz_assert(ip_value_groups_at_entry(groups, 0, payload) == 0);
			}
			ip_value_groups_destroy(groups);
			check_matches(session, name, payload);
			check_matches(session, "arg2", payload);
			check_matches(session, "retval", payload);
			check_name(session, name, payload);
			check_name(session, name + 1, payload);
			check_name(session, "arg17", payload);
		}
	}
}

/* Values are shown in both ways; JSON is one object. */
static void show_values(const struct ip_recording *session, const uint64_t *payload)
{
	const struct ip_signature *signature = ip_recording_signature(session, payload);
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	struct ip_json json;

	fuzz_assert(out && IP_PAYLOAD_N(*payload) <= IP_PAYLOAD_MAX);
	if (signature) {
		ip_values_print(out, signature, payload);
		ip_json_init(&json, out);
		ip_json_object(&json, NULL);
		ip_values_json(&json, signature, payload);
		ip_value_json(&json, "retval", signature, payload);
		ip_json_bool(&json, "cut", ip_values_cut(signature, payload));
		ip_json_end_object(&json);
		check_values(out, session, payload);
	}
	fclose(out);
	free(text);
}

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	counts.open++;
}

static void on_left(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	fuzz_assert(ts >= frame->start);
	counts.left++;
}

static void on_resumed(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	fuzz_assert(counts.left > 0);
	counts.left--;
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	fuzz_assert(end >= frame->start && frame->self <= end - frame->start);
	fuzz_assert(counts.open > counts.closed);
	counts.closed++;
	if (how == IP_END_UNWOUND) {
		fuzz_assert(counts.left > 0);
		counts.left--;
	}
}

static void on_orphan(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	counts.orphans++;
}

static const struct ip_frames_ops ops = {.opened = on_opened,
					 .left = on_left,
					 .resumed = on_resumed,
					 .closed = on_closed,
					 .orphan = on_orphan};

/* What a visitor was told, as a number. */
static void mix(void *context, uint64_t what, uint64_t function, uint64_t depth, uint64_t ts)
{
	uint64_t *hash = context;

	*hash = (*hash ^ what ^ function << 8 ^ depth << 40 ^ ts) * 0x9e3779b97f4a7c15ull;
	*hash ^= *hash >> 29;
}

static void hash_opened(void *context, struct ip_frame *frame, size_t depth)
{
	mix(context, 1 | frame->flags << 4, frame->function, depth, frame->start);
}

static void hash_left(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	mix(context, 2, frame->function, depth, ts);
}

static void hash_resumed(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	mix(context, 3, frame->function, depth, ts);
}

static void hash_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
			enum ip_frame_end how)
{
	mix(context, 4 | how << 4, frame->function, depth, end ^ frame->self << 1 ^ frame->lost);
}

static void hash_orphan(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	mix(context, 5, function, depth, ts);
}

static const struct ip_frames_ops hash_ops = {.opened = hash_opened,
					      .left = hash_left,
					      .resumed = hash_resumed,
					      .closed = hash_closed,
					      .orphan = hash_orphan};

/* Two machines: the second one begins with the state of the first one before the packet at_packet.
 * From there on both see the same, and end alike. */
static void read_on(const struct ip_recording *session, const char *path, unsigned at_packet)
{
	uint64_t hashes[2] = {0, 0};
	struct ip_frames *first = ip_frames_create(session, &hash_ops, &hashes[0]), *second = NULL;
	struct ip_frames_state *state;
	struct ip_stream *stream;
	struct ip_stream_mark mark;
	struct ip_event events[7];
	struct ip_packet packet;
	ssize_t got;

	fuzz_assert(first && ip_stream_open(path, &stream) == 0);
	for (unsigned i = 0;; i++) {
		if (i == at_packet) {
			second = ip_frames_create(session, &hash_ops, &hashes[1]);
			state = ip_frames_save(first);
			fuzz_assert(second && state && ip_frames_restore(second, state) == 0);
			ip_frames_state_destroy(state);
			hashes[0] = 0;
			/* the stream goes on from its mark as if it had not been left */
			ip_stream_mark(stream, &mark);
			ip_stream_close(stream);
			fuzz_assert(ip_stream_open(path, &stream) == 0);
			fuzz_assert(ip_stream_go_to(stream, &mark) == 0);
		}
		if (ip_stream_next_packet(stream, &packet) <= 0)
			break;
		if (packet.lost || packet.missing) {
			ip_frames_loss(first);
			if (second)
				ip_frames_loss(second);
		}
		while ((got = ip_stream_read(stream, events, 7)) > 0) {
			fuzz_assert(ip_frames_feed(first, events, got) == 0);
			fuzz_assert(!second || ip_frames_feed(second, events, got) == 0);
		}
	}
	ip_frames_finish(first, 0);
	if (second) {
		ip_frames_finish(second, 0);
		fuzz_assert(hashes[0] == hashes[1]);
	}
	ip_stream_close(stream);
	ip_frames_destroy(first);
	ip_frames_destroy(second);
}

/* Opens the frames of one stack of the attach. Returns how many there may be. */
static uint64_t open_earlier(const struct ip_recording *session, struct ip_frames *frames)
{
	struct ip_thread_packets run = {0};
	const struct ip_recording_stack *stack;

	for (size_t i = 0; i < session->nstacks; i++) {
		stack = &session->stacks[i];
		run.stack = ip_recording_find_stack(session, stack->pid, stack->tid);
		fuzz_assert(run.stack && run.stack <= i + 1);
		fuzz_assert(stack->n <= IP_STACK_FRAMES_MAX &&
			    stack->first + stack->n <= session->nstack_frames);
	}
	fuzz_assert(ip_frames_begin_run(frames, &run) == 0);
	return run.stack ? session->stacks[run.stack - 1].n : 0;
}

/* The calls that have ended, as a number that does not depend on their order. */
static uint64_t call_number(const struct ip_frames_call *c, uint64_t how)
{
	uint64_t hash = how;

	mix(&hash, c->flags, c->function, c->depth, c->end);
	mix(&hash, 6, 0, 0, c->ticks);
	mix(&hash, 7, 0, 0, c->self);
	return hash;
}

static void sum_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		       enum ip_frame_end how)
{
	const struct ip_frames_call call = {.end = end,
					    .ticks = ip_frame_ticks(frame, end),
					    .self = frame->self,
					    .function = frame->function,
					    .flags = frame->flags,
					    .depth = depth};

	*(uint64_t *)context += call_number(&call, how);
}

/* The common path of the stack machine tells the same of the stream as the machine does that gets
 * each event. */
static void read_by_words(const struct ip_recording *session, const char *path)
{
	static const struct ip_frames_ops sum_ops = {.closed = sum_closed};
	struct ip_frames_call calls[IP_FRAMES_WORDS];
	struct ip_frames *frames[2];
	uint64_t sums[2] = {0, 0};
	struct ip_stream_words words;
	struct ip_stream *stream;
	struct ip_packet packet;
	struct ip_event event;

	for (unsigned by_words = 0; by_words < 2; by_words++) {
		struct ip_frames *t = ip_frames_create(session, &sum_ops, &sums[by_words]);

		frames[by_words] = t;
		fuzz_assert(t && ip_stream_open(path, &stream) == 0);
		open_earlier(session, t);
		while (ip_stream_next_packet(stream, &packet) > 0) {
			if (packet.lost || packet.missing)
				ip_frames_loss(t);
			for (;;) {
				while (by_words && ip_stream_words(stream, &words) > 0) {
					uint64_t ts, sp;
					size_t n, taken = ip_frames_take_words(t, &words, false,
									       NULL, NULL, calls,
									       &n, &ts, &sp);

					fuzz_assert(taken <= words.n && n <= taken);
					if (!taken)
						break;
					for (size_t i = 0; i < n; i++)
						sums[1] += call_number(&calls[i], IP_END_EXIT);
					ip_stream_pass(stream, taken, ts, sp);
				}
				if (ip_stream_read(stream, &event, 1) <= 0)
					break;
				fuzz_assert(ip_frames_feed(t, &event, 1) == 0);
			}
		}
		ip_frames_finish(t, 0);
		ip_stream_close(stream);
	}
	fuzz_assert(sums[0] == sums[1]);
	ip_frames_destroy(frames[0]);
	ip_frames_destroy(frames[1]);
}

static void read_stream(const struct ip_recording *session, struct ip_stream *stream,
			struct ip_frames *frames)
{
	struct ip_event events[7];
	struct ip_packet packet;
	uint64_t n = open_earlier(session, frames);
	ssize_t got;

	while (ip_stream_next_packet(stream, &packet) > 0) {
		fuzz_assert(packet.begin <= packet.end);
		if (packet.lost)
			ip_frames_loss(frames);
		while ((got = ip_stream_read(stream, events, 7)) > 0) {
			n += got;
			ip_frames_set_payloads(frames, ip_stream_payloads(stream));
			for (ssize_t i = 0; i < got; i++) {
				if (events[i].payload)
					show_values(session,
						    ip_event_payload(&events[i],
								     ip_stream_payloads(stream)));
				fuzz_assert(events[i].number && events[i].number <= IP_NUMBER_MAX &&
					    !(events[i].sp & ((1u << IP_SP_SHIFT) - 1)));
			}
			fuzz_assert(ip_frames_feed(frames, events, got) == 0);
		}
		fuzz_assert(got == 0);
	}
	fuzz_assert(counts.open <= n);
	ip_frames_finish(frames, 0);
	fuzz_assert(counts.open == counts.closed && counts.left == 0);
	if (ip_stream_damage(stream))
		fuzz_assert(strstr(ip_stream_damage(stream), ip_stream_path(stream)));
}

/* Percentiles lie in the bounds that the file tells, and grow with the share. */
static void read_counts(const struct ip_recording *session, const uint8_t *data, size_t size)
{
	struct ip_counts *c;
	uint64_t calls = 0;

	if (ip_counts_parse("fuzz", (const char *)data, size, session, &c) < 0) {
		fuzz_check_error();
		return;
	}
	fuzz_assert(c->nfunctions == session->nfunctions && c->nbuckets <= IP_COUNT_BUCKETS);
	for (unsigned b = 0; b < c->nbuckets; b++)
		fuzz_assert(ip_counts_from(c, session, b) <= ip_counts_to(c, session, b));
	for (size_t i = 0; i < c->nfunctions; i++) {
		const struct ip_count *f = &c->functions[i];
		uint64_t before = 0;

		/* sums do not wrap */
		calls = calls + f->calls < calls ? UINT64_MAX : calls + f->calls;
		fuzz_assert(f->ended <= f->calls);
		for (unsigned percent = 0; f->ended && percent <= 100; percent += 25) {
			uint64_t from, below;

			ip_counts_percentile(c, session, f, percent / 100.0, &from, &below);
			fuzz_assert(from <= below && before <= below);
			before = below;
		}
	}
	fuzz_assert(calls == c->calls);
	ip_counts_destroy(c);
}

/* The directory that a session file is loaded from, made once. */
static const char *session_dir(const uint8_t *data, size_t size)
{
	static char dir[64], path[80];
	FILE *file;

	if (!*dir) {
		snprintf(dir, sizeof(dir), "/tmp/iprobe-fuzz-%d", getpid());
		snprintf(path, sizeof(path), "%s/iprobe", dir);
		mkdir(dir, 0700);
		mkdir(path, 0700);
		strcat(path, "/session");
	}
	file = fopen(path, "w");
	fuzz_assert(file);
	fuzz_assert(fwrite(data, 1, size, file) == size);
	fuzz_assert(fclose(file) == 0);
	return dir;
}

static void remove_session_dir(void)
{
	char path[80];

	for (int i = 0; i < 3; i++) {
		static const char *const parts[] = {"/iprobe/session", "/iprobe", ""};

		snprintf(path, sizeof(path), "/tmp/iprobe-fuzz-%d%s", getpid(), parts[i]);
		remove(path);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *split = memchr(data, SEPARATOR, size);
	size_t session_size = split ? (size_t)(split - data) : size;
	const uint8_t *stream_data = split ? split + 1 : data;
	struct ip_recording *session, *again;
	struct ip_stream *stream;
	struct ip_frames *frames;
	struct ip_trace_segments pieces;
	char path[64];
	int r;

	if (ip_trace_segments_parse("fuzz", (const char *)data, session_size, &pieces) == 0)
		fuzz_assert(ip_trace_segments_first(&pieces)->number <= pieces.newest);
	r = ip_recording_parse("fuzz", data, session_size, &session);
	if (r < 0)
		fuzz_check_error();
	/* the way over a file, for a part of the inputs: it is slow */
	if (size % 16 == 0) {
		static int registered;

		if (!registered++)
			atexit(remove_session_dir);
		fuzz_assert(ip_recording_load(session_dir(data, session_size), &again) == r);
		if (r == 0)
			ip_recording_destroy(again);
	}
	if (r < 0)
		fuzz_assert(ip_recording_parse("small", small_session, strlen(small_session),
					       &session) == 0);
	for (size_t i = 0; i < session->nfunctions; i++) {
		fuzz_assert(*ip_recording_module_name(session, &session->functions[i]));
		fuzz_assert(*session->functions[i].linker_name);
	}
	for (size_t i = 0; i < session->nthreads; i++) {
		const struct ip_recording_thread *t = &session->threads[i];

		fuzz_assert(!*t->name || ip_recording_thread_name(session, 0, t->tid));
		ip_recording_thread_name_at(session, 0, t->tid, t->tsc - 1);
	}
	for (size_t i = 0; i < session->nprocesses; i++) {
		const struct ip_recording_process *p = &session->processes[i],
						  *last = ip_recording_process(session, p->pid);

		fuzz_assert(last && last >= p && last->pid == p->pid && last->order >= p->order);
	}
	fuzz_assert(ip_recording_since_start(session, session->tsc_start) == 0);

	read_counts(session, stream_data, size - (stream_data - data));
	memset(&counts, 0, sizeof(counts));
	snprintf(path, sizeof(path), "/proc/self/fd/%d",
		 fuzz_file(stream_data, size - (stream_data - data)));
	frames = ip_frames_create(session, &ops, NULL);
	fuzz_assert(frames);
	if (ip_stream_open(path, &stream) < 0) {
		fuzz_check_error();
	} else {
		read_stream(session, stream, frames);
		ip_stream_close(stream);
		read_on(session, path, size % 5);
		read_by_words(session, path);
	}
	ip_frames_destroy(frames);
	ip_recording_destroy(session);
	return 0;
}
