/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe dump: prints every event of a trace, all threads in order of time.
 *
 * A frame that ended without an exit event (longjmp, exception) gets an exit line, marked
 * "unwound", where an event showed that the frame is gone. So entries and exits are balanced,
 * except for calls that were open at the beginning or end of the recording.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/profile/interest.h"
#include "analysis/profile/merge.h"
#include "analysis/read/names.h"
#include "analysis/read/symbolize.h"
#include "cli/cli.h"
#include "cli/dump/dump_calls.h"
#include "cli/dump/dump_lines.h"
#include "cli/dump/dump_options.h"
#include "cli/elide.h"
#include "cli/filter/filter_check.h"
#include "cli/trace_args.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"
#include "common/units.h"

/* Deeper calls are not indented further. */
#define INDENT_MAX 60u
#define NAME_WIDTH 15u /* a thread's name is no longer */

struct dump {
	const struct cli_dump_options *options;
	struct ip_value_matches *matches;    /* those of options */
	struct cli_dump_calls open;	     /* with conditions: by tags of frames */
	struct ip_interest *interest;	     /* NULL: all events are shown */
	uint64_t calls;			     /* calls opened so far */
	const struct ip_interest_span *span; /* the span of the last line */
	struct ip_trace_reader *trace;
	struct ip_names *names;
	struct ip_symbolizer *places;
	bool *selected;
	/* by function: the text that all its lines share, made when it is first needed */
	char **fragments;
	const uint64_t *payload; /* of the current event; NULL: the event has no values */
	uint32_t pid, tid, member;
	bool several; /* there are several processes: lines of text name them */
	bool named;   /* there are several threads, and names of them: lines of text tell them */
	bool json, stop;
	bool shown;		      /* an event was chosen */
	FILE *out;		      /* where the text of a line goes */
	bool own_line;		      /* it is not put behind a call's entry */
	struct cli_dump_lines *lines; /* NULL: each event is a line, and goes to stdout */
};

/* Makes "function":...,"module":...,"linker_name":... */
static char *json_fragment(struct dump *d, uint32_t function)
{
	const struct ip_recording *s = d->trace->session;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	struct ip_json j;

	if (!out)
		return NULL;
	ip_json_init(&j, out);
	ip_json_object(&j, NULL);
	ip_json_string(&j, "function", ip_names_get(d->names, function));
	ip_json_string(&j, "module", ip_recording_module_name(s, &s->functions[function]));
	ip_json_string(&j, "linker_name", s->functions[function].linker_name);
	ip_json_end_object(&j);
	if (fclose(out) != 0 || !text || size < 3) {
		free(text);
		return NULL;
	}
	/* without the braces and the newline */
	text[strcspn(text, "\n")] = '\0';
	text[strlen(text) - 1] = '\0';
	memmove(text, text + 1, strlen(text));
	return text;
}

static char *text_fragment(struct dump *d, uint32_t function)
{
	char *text = strdup(ip_names_text(d->names, function));

	if (text)
		ip_clean(text);
	return text;
}

static const char *fragment(struct dump *d, uint32_t function)
{
	if (!d->fragments[function])
		d->fragments[function] =
			d->json ? json_fragment(d, function) : text_fragment(d, function);
	if (!d->fragments[function])
		d->stop = true;
	return d->fragments[function];
}

/* Without conditions a frame's tag is the ordinal itself. */
static struct cli_dump_call call_of(const struct dump *d, const struct ip_frame *frame)
{
	if (!d->matches->n)
		return (struct cli_dump_call){.ordinal = frame->tag};
	/* otherwise memory has run out, and nothing is printed any more */
	return frame->tag ? *cli_dump_calls_get(&d->open, frame->tag) : (struct cli_dump_call){0};
}

/* Returns whether values meet all conditions. met: what the call's entry has met. */
static bool has_values(const struct dump *d, uint32_t met, const uint64_t *payload, bool at_exit)
{
	return !d->matches->n || (met | ip_value_matches_test(d->matches, payload, at_exit)) ==
					 ip_value_matches_all(d->matches);
}

/* In place of a call's ordinal: the event is a point, or an exit without its entry. */
#define NO_CALL UINT64_MAX

/* Returns whether a line is wanted. */
static bool is_wanted(struct dump *d, uint64_t call, size_t depth, uint64_t ts, uint64_t ns)
{
	const struct cli_dump_options *o = d->options;
	const struct ip_interest_span *span;

	if (ns < o->filter.from_ns || ns > o->filter.to_ns || depth >= o->filter.depth)
		return false;
	if (!d->interest)
		return true;
	if (call == NO_CALL ? o->min_duration_ns > 0 : !ip_interest_is_long(d->interest, call))
		return false;
	if (!o->around)
		return true;
	span = ip_interest_span_at(d->interest, ts);
	if (span && span != d->span && d->span && !d->json) {
		if (!d->lines)
			ip_print(stdout, "--\n");
		else if (cli_dump_lines_separate(d->lines, "--") < 0)
			d->stop = true;
	}
	d->span = span ? span : d->span;
	return span;
}

/* Prints the name that the thread has at ts: in text padded to a column, in JSON a member. */
static void print_thread(const struct dump *d, uint64_t ts)
{
	const char *name = d->named || d->json ? ip_recording_thread_name_at(d->trace->session,
									     d->member, d->tid, ts)
					       : NULL;
	char text[64];
	struct ip_json j;

	if (d->json && name) {
		ip_json_init_inside(&j, d->out);
		ip_json_string(&j, "thread", name);
	} else if (d->named && !d->json) {
		snprintf(text, sizeof(text), "%s", name ? name : "");
		ip_clean(text);
		ip_print(d->out, " %s", text);
		for (size_t width = cli_width_of(text); width < NAME_WIDTH; width++)
			ip_print(d->out, " ");
	}
}

/* Prints the common part of a line. Returns false where nothing is to be printed. */
static bool begin_line(struct dump *d, uint32_t function, uint64_t call, const char *event,
		       size_t depth, uint64_t ts)
{
	uint64_t ns = ip_recording_since_start(d->trace->session, ts);
	const char *text;
	bool is_exit;

	if (!d->selected[function] || d->stop || !is_wanted(d, call, depth, ts, ns))
		return false;
	text = fragment(d, function);
	if (!text)
		return false;
	d->shown = true;
	is_exit = *event == 'e' && event[1] == 'x';
	d->own_line = !d->lines || !is_exit || call == NO_CALL ||
		      !cli_dump_lines_closes(d->lines, d->tid, call);
	if (!d->own_line)
		return true;
	if (d->json) {
		ip_print(d->out,
			 "{\"ts\":%" PRIu64
			 ",\"pid\":%u,\"tid\":%u,\"event\":\"%s\",\"depth\":%zu,%s",
			 ns, d->pid, d->tid, event, depth, text);
		print_thread(d, ts);
		return true;
	}
	depth = depth < INDENT_MAX ? depth : INDENT_MAX;
	if (d->lines)
		cli_dump_lines_begin(d->lines, d->tid, depth);
	ip_print(d->out, "%5" PRIu64 ".%09" PRIu64 " %*.0u%8u", ns / 1000000000, ns % 1000000000,
		 d->several ? 8 : 0, d->several ? d->pid : 0, d->tid);
	print_thread(d, ts);
	ip_print(d->out, "  %*s", d->lines ? 0 : (int)(2 * depth), "");
	if (d->lines)
		cli_dump_lines_headed(d->lines);
	ip_print(d->out, "%s%s", is_exit ? "} " : "", text);
	return true;
}

static void end_line(struct dump *d, const char *text, const char *json)
{
	if (d->lines) {
		ip_print(d->out, "%s", text);
		if (cli_dump_lines_end(d->lines) < 0)
			d->stop = true;
	} else {
		ip_print(d->out, "%s\n", d->json ? json : text);
	}
	if (ferror(stdout))
		d->stop = true;
}

/* Prints the values of a call or point: (fd=3, path="/etc/motd"). */
static void print_args(const struct dump *d)
{
	const struct ip_signature *signature =
		ip_recording_signature(d->trace->session, d->payload);
	struct ip_json j;

	if (!signature)
		return;
	if (!d->json) {
		ip_print(d->out, "(");
		ip_values_print(d->out, signature, d->payload);
		ip_print(d->out, ")");
		return;
	}
	ip_json_init_inside(&j, d->out);
	ip_json_object(&j, "args");
	ip_values_json(&j, signature, d->payload);
	ip_json_end_object(&j);
	if (ip_values_cut(signature, d->payload))
		ip_json_bool(&j, "cut", true);
}

/* Prints where a call comes from, if that was recorded: <- main+0x3f demo.c:12 */
static void print_caller(struct dump *d, uint32_t function)
{
	uint64_t address = ip_recording_call_site(d->payload);
	uint32_t module = d->trace->session->functions[function].module;
	const struct ip_place *place =
		address ? ip_symbolizer_get(d->places, d->member, module, address) : NULL;
	_cleanup_free_ char *text = NULL;
	char hex[24];
	struct ip_json j;

	if (!address)
		return;
	if (place && !d->json)
		text = ip_place_text(place);
	if (!place || (!d->json && !text)) {
		d->stop = true;
		return;
	}
	if (!d->json) {
		ip_print(d->out, "  <- %s", text);
		return;
	}
	snprintf(hex, sizeof(hex), "%#" PRIx64, address);
	ip_json_init_inside(&j, d->out);
	ip_json_object(&j, "caller");
	ip_json_string(&j, "address", hex);
	ip_json_string(&j, "function", place->name);
	if (place->function)
		ip_json_uint(&j, "offset", place->offset);
	ip_json_string(&j, "module", place->module);
	ip_json_string(&j, "file", place->file);
	if (place->file)
		ip_json_uint(&j, "line", place->line);
	ip_json_end_object(&j);
}

/* Prints the value that a function returns: = 0 */
static void print_retval(const struct dump *d)
{
	const struct ip_signature *signature =
		ip_recording_signature(d->trace->session, d->payload);
	struct ip_json j;

	if (!signature)
		return;
	if (!d->json) {
		ip_print(d->out, " = ");
		ip_values_print(d->out, signature, d->payload);
		return;
	}
	ip_json_init_inside(&j, d->out);
	ip_value_json(&j, "retval", signature, d->payload);
	if (ip_values_cut(signature, d->payload))
		ip_json_bool(&j, "cut", true);
}

static void print_exit(struct dump *d, const struct ip_frame *frame, size_t depth, uint64_t ts,
		       enum ip_frame_end how)
{
	uint64_t ns = ip_recording_ns(d->trace->session, ts - frame->start);
	const struct cli_dump_call call = call_of(d, frame);
	bool has_result = ip_frame_has_result(frame, how),
	     earlier = frame->flags & IP_FRAME_EARLIER;
	char buffer[16];

	if (!has_values(d, call.met, has_result ? d->payload : NULL, true) ||
	    !begin_line(d, frame->function, call.ordinal, "exit", depth, ts))
		return;
	if (has_result)
		print_retval(d);
	if (d->json)
		ip_print(d->out, ",\"duration_ns\":%" PRIu64 "%s", ns,
			 earlier ? ",\"earlier\":true" : "");
	else
		ip_print(d->out, "%s  %s%s", d->own_line ? "" : ";", earlier ? ">= " : "",
			 ip_format_ns(ns, buffer));
	if (d->interest && ip_interest_is_slow(d->interest, call.ordinal))
		ip_print(d->out, "%s", d->json ? ",\"slow\":true" : "  (slow)");
	if (how == IP_END_EXIT && frame->flags & IP_FRAME_TAIL)
		end_line(d, "  (until its tail call)", ",\"tail\":true,\"until_tail_call\":true}");
	else if (how == IP_END_EXIT && frame->flags & IP_FRAME_JUMPED)
		end_line(d, "  (tail call)", ",\"tail\":true}");
	else if (how == IP_END_EXIT)
		end_line(d, "", "}");
	else
		end_line(d, "  (unwound)", ",\"unwound\":true}");
}

/* Why a call has no exit. */
static const char *no_end(const struct dump *d, const struct ip_frame *frame)
{
	return d->trace->session->functions[frame->function].kernel ? "  (its end is not known)"
								    : "  (it has no exit probes)";
}

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	struct dump *d = context;
	uint32_t ordinal, met = 0;

	/* the same ordinals as in the first reading (interest.c) */
	ordinal = d->calls < UINT32_MAX ? d->calls++ : UINT32_MAX;
	frame->tag = ordinal;
	if (d->matches->n) {
		met = ip_value_matches_test(d->matches, d->payload, false);
		frame->tag = cli_dump_calls_open(&d->open, ordinal, met);
		d->stop = d->stop || !frame->tag;
	}
	if (has_values(d, met, NULL, false) &&
	    begin_line(context, frame->function, ordinal, "entry", depth, frame->start)) {
		print_args(context);
		if (d->lines && !ip_recording_signature(d->trace->session, d->payload))
			ip_print(d->out, "()");
		if (d->json && d->interest && ip_interest_is_slow(d->interest, ordinal))
			ip_print(d->out, ",\"slow\":true");
		if (d->lines && !(frame->flags & (IP_FRAME_ENTRY_ONLY | IP_FRAME_AGAIN)))
			cli_dump_lines_opens(d->lines, ordinal);
		else if (!d->json)
			ip_print(d->out, "%s",
				 frame->flags & IP_FRAME_ENTRY_ONLY ? no_end(d, frame)
				 : frame->flags & IP_FRAME_AGAIN    ? "  (again, by a tail call)"
								    : " {");
		else if (frame->flags & IP_FRAME_ENTRY_ONLY)
			ip_print(d->out, "%s",
				 d->trace->session->functions[frame->function].kernel
					 ? ",\"end_unknown\":true"
					 : ",\"entry_only\":true");
		else if (frame->flags & IP_FRAME_AGAIN)
			ip_print(d->out, ",\"again\":true");
		else if (frame->flags & IP_FRAME_EARLIER)
			ip_print(d->out, ",\"earlier\":true");
		if (!d->json && frame->flags & IP_FRAME_EARLIER)
			ip_print(d->out, "  (open before the recording)");
		print_caller(context, frame->function);
		end_line(context, "", "}");
	}
}

static void on_left(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	print_exit(context, frame, depth, ts, IP_END_UNWOUND);
}

static void on_resumed(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	const struct cli_dump_call call = call_of(context, frame);

	if (has_values(context, call.met, NULL, false) &&
	    begin_line(context, frame->function, call.ordinal, "entry", depth, ts))
		end_line(context, " {  (resumed)", ",\"resumed\":true}");
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	struct dump *d = context;

	if (how == IP_END_EXIT)
		print_exit(context, frame, depth, end, how);
	if (d->matches->n && frame->tag)
		cli_dump_calls_close(&d->open, frame->tag);
}

static void on_orphan(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	const struct dump *d = context;

	if (has_values(d, 0, d->payload, true) &&
	    begin_line(context, function, NO_CALL, "exit", depth, ts)) {
		print_retval(context);
		end_line(context, "  (its entry is not in the trace)", ",\"orphan\":true}");
	}
}

static void on_point(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	const struct dump *d = context;

	if (has_values(d, 0, d->payload, false) &&
	    begin_line(context, function, NO_CALL, "point", depth, ts)) {
		print_args(context);
		end_line(context, "  (point)", "}");
	}
}

static void on_values(void *context, const uint64_t *payload)
{
	struct dump *d = context;

	d->payload = payload;
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
	struct dump *d = context;

	d->pid = run->pid;
	d->tid = run->tid;
	d->member = run->member;
}

static int print_all(struct dump *d, uint32_t tid)
{
	static const struct ip_frames_ops ops = {.opened = on_opened,
						 .left = on_left,
						 .resumed = on_resumed,
						 .closed = on_closed,
						 .orphan = on_orphan,
						 .point = on_point,
						 .values = on_values};
	const struct ip_trace_visitor visitor = {.ops = &ops, .context = d, .run = on_run};
	uint64_t events;

	if (ip_merge(d->trace, tid, &visitor, &d->stop, &events) < 0)
		return -1;
	if (cli_reader_check_stdout() < 0)
		return -1;
	if (d->stop)
		return ip_error("out of memory");
	if (tid && !events)
		return ip_error("%s: no events of a thread %u", d->trace->dir, tid);
	if (!d->shown)
		cli_filter_warn_none(d->trace, &d->options->filter, events);
	return 0;
}

/* Does the first reading, where it is needed. */
static int find_interest(struct dump *d)
{
	const struct cli_dump_options *o = d->options;
	_cleanup_free_ bool *around = o->around ? cli_reader_select(d->trace, o->around) : NULL;
	struct ip_interest_options options = {.tid = o->filter.tid,
					      .min_duration_ns = o->min_duration_ns,
					      .around = around,
					      .slower_than_ns = o->slower_than_ns,
					      .margin_ns = o->margin_ns};
	char slower[16], calls[32], places[32];

	if (o->around && !around)
		return -1;
	if (!o->around && !o->min_duration_ns)
		return 0;
	if (ip_interest_find(d->trace, &options, &d->interest) < 0)
		return -1;
	if (o->around && !d->interest->nslow)
		return ip_error(
			"%s: no call of %s lasts longer than %s (iprobe report tells the longest)",
			d->trace->dir, o->around, ip_format_ns(o->slower_than_ns, slower));
	/* tells before the output begins how much there will be to read */
	if (o->around)
		ip_print(stderr, "iprobe: %s call%s slower than %s, in %s place%s\n",
			 ip_format_count(d->interest->nslow, calls),
			 d->interest->nslow == 1 ? "" : "s",
			 ip_format_ns(o->slower_than_ns, slower),
			 ip_format_count(d->interest->nspans, places),
			 d->interest->nspans == 1 ? "" : "s");
	return 0;
}

static void clear(struct dump *d)
{
	ip_interest_destroy(d->interest);
	for (size_t i = 0; d->fragments && i < d->trace->session->nfunctions; i++)
		free(d->fragments[i]);
	free(d->fragments);
	free(d->selected);
	cli_dump_calls_clear(&d->open);
	ip_names_destroy(d->names);
	ip_symbolizer_destroy(d->places);
	ip_trace_reader_close(d->trace);
}

static int show(const char *dir, struct cli_dump_options *options)
{
	struct dump d = {.options = options,
			 .matches = &options->filter.matches,
			 .json = options->json,
			 .out = stdout};
	int ret = cli_reader_open_functions(dir, options->filter.process, &d.trace);

	if (ret == 0)
		ret = cli_filter_check(d.trace, &options->filter);
	if (ret == 0) {
		d.several = d.trace->processes > 1;
		d.named = d.trace->threads > 1 && d.trace->session->nthreads;
		d.selected = cli_reader_select(d.trace, options->filter.functions);
		ret = d.selected && ip_value_matches_find(d.matches, d.trace->session, dir) == 0
			      ? find_interest(&d)
			      : -1;
	}
	if (ret == 0) {
		d.names = ip_names_create(d.trace->session);
		if (d.names && options->filter.full_names)
			ip_names_use_full(d.names);
		d.places = ip_symbolizer_create(dir, d.trace->session);
		d.fragments = calloc(d.trace->session->nfunctions, sizeof(*d.fragments));
		ret = !d.names || !d.places ? -1 : d.fragments ? 0 : ip_error("out of memory");
	}
	if (ret == 0 && options->pretty) {
		d.lines = cli_dump_lines_create(options->dim);
		d.out = d.lines ? cli_dump_lines_out(d.lines) : stdout;
		ret = d.lines ? 0 : -1;
	}
	if (ret == 0)
		ret = print_all(&d, options->filter.tid);
	cli_dump_lines_destroy(d.lines);
	if (ret == 0) {
		cli_reader_warn(d.trace);
		cli_reader_warn_counted(d.trace);
	}
	clear(&d);
	return ret < 0 ? cli_fail() : 0;
}

int cmd_dump(int argc, char **argv)
{
	struct cli_dump_options options;
	const char *dir;
	int code = cli_dump_parse(argc, argv, &options);

	if (code < 0)
		code = cli_reader_dir(argv[0], argc, argv, &dir);
	if (code >= 0)
		return code;
	/* where the user leaves a pager, this process ends without a message */
	signal(SIGPIPE, SIG_DFL);
	code = show(dir, &options);
	ip_value_matches_clear(&options.filter.matches);
	return code;
}
