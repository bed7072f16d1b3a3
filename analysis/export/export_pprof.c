/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a profile for pprof: profile.proto (github.com/google/pprof/proto), compressed by gzip
 * as its readers expect. A sample is a call path. Its values are the number of calls that ended
 * that path and their self time. A location is a function.
 *
 * With events of the kernel there are two values more: how much of the time was on a CPU, and how
 * much off it. They stand in samples of their own, one for each thing that the path waited for,
 * which is a label: adding up samples gives the same sums.
 */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "analysis/export/export.h"
#include "analysis/export/protobuf.h"
#include "analysis/profile/calltree.h"
#include "analysis/profile/deep_paths.h"
#include "analysis/read/names.h"
#include "analysis/wait/idle/idle_tree.h"
#include "analysis/wait/wait_paths.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"

/* Numbers of fields. */
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE,
	PROFILE_MAPPING,
	PROFILE_LOCATION,
	PROFILE_FUNCTION,
	PROFILE_STRING
};
enum { PROFILE_TIME = 9, PROFILE_DURATION, PROFILE_COMMENT = 13, PROFILE_DEFAULT_TYPE };
enum { TYPE_TYPE = 1, TYPE_UNIT };
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE, SAMPLE_LABEL };
enum { LABEL_KEY = 1, LABEL_TEXT, LABEL_NUMBER };
enum {
	MAPPING_ID = 1,
	MAPPING_FILE = 5,
	MAPPING_BUILD_ID,
	MAPPING_HAS_FUNCTIONS,
	MAPPING_HAS_FILES,
	MAPPING_HAS_LINES
};
enum { LOCATION_ID = 1, LOCATION_MAPPING, LOCATION_LINE = 4 };
enum { LINE_FUNCTION = 1, LINE_LINE };
enum { FUNCTION_ID = 1, FUNCTION_NAME, FUNCTION_LINKER_NAME, FUNCTION_FILE, FUNCTION_LINE };

/* The table of strings. A string is written when it is first used; from then on its number
 * stands for it. */
struct strings {
	struct ip_message *out;
	char **texts; /* open addressing; NULL: free */
	uint32_t *numbers;
	size_t size, n;
	bool failed;
};

static size_t string_slot(const struct strings *s, const char *text)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (const char *p = text; *p; p++)
		h = (h ^ (unsigned char)*p) * 0x100000001b3ull;
	for (size_t i = (h ^ h >> 29) & (s->size - 1);; i = (i + 1) & (s->size - 1))
		if (!s->texts[i] || !strcmp(s->texts[i], text))
			return i;
}

static int grow_strings(struct strings *s)
{
	struct strings old = *s;

	s->size = old.size ? 2 * old.size : 1024;
	s->texts = calloc(s->size, sizeof(*s->texts));
	s->numbers = calloc(s->size, sizeof(*s->numbers));
	if (!s->texts || !s->numbers) {
		free(s->texts);
		free(s->numbers);
		*s = old;
		s->failed = true;
		return -1;
	}
	for (size_t i = 0; i < old.size; i++)
		if (old.texts[i]) {
			size_t at = string_slot(s, old.texts[i]);

			s->texts[at] = old.texts[i];
			s->numbers[at] = old.numbers[i];
		}
	free(old.texts);
	free(old.numbers);
	return 0;
}

static uint32_t string_number(struct strings *s, const char *text)
{
	_cleanup_free_ char *clean = strdup(text);
	size_t at;

	if (!clean || (2 * (s->n + 1) > s->size && grow_strings(s) < 0)) {
		s->failed = true;
		return 0;
	}
	ip_clean(clean); /* strings must be UTF-8 */
	at = string_slot(s, clean);
	if (!s->texts[at]) {
		ip_message_string(s->out, PROFILE_STRING, clean);
		s->texts[at] = ip_steal_ptr(clean);
		s->numbers[at] = s->n++;
	}
	return s->numbers[at];
}

static void clear_strings(struct strings *s)
{
	for (size_t i = 0; i < s->size; i++)
		free(s->texts[i]);
	free(s->texts);
	free(s->numbers);
}

struct pprof {
	const struct ip_recording *session;
	struct ip_names *names;
	struct strings strings;
	struct ip_message out;		       /* the profile */
	struct ip_message one, two, three;     /* parts of the profile that are being made */
	const struct ip_tree_threads *threads; /* or processes; NULL: not told apart */
	bool *used;			       /* by function: it is in the profile */
	struct ip_wait_paths *waits;	       /* NULL: no events of the kernel */
};

/* Leaves out a field of 0: readers take a missing field as 0. */
static void put_field(struct ip_message *m, unsigned field, uint64_t n)
{
	if (n)
		ip_message_number(m, field, n);
}

static void put_type(struct pprof *p, const char *type, const char *unit)
{
	uint32_t t = string_number(&p->strings, type), u = string_number(&p->strings, unit);

	ip_message_reset(&p->one);
	put_field(&p->one, TYPE_TYPE, t);
	put_field(&p->one, TYPE_UNIT, u);
	ip_message_message(&p->out, PROFILE_SAMPLE_TYPE, &p->one);
}

/* Puts a label of the sample: the text, or the number where there is none. */
static void put_label(struct pprof *p, const char *key, const char *text, uint64_t number)
{
	uint32_t k = string_number(&p->strings, key);

	ip_message_reset(&p->two);
	put_field(&p->two, LABEL_KEY, k);
	if (text)
		put_field(&p->two, LABEL_TEXT, string_number(&p->strings, text));
	else
		put_field(&p->two, LABEL_NUMBER, number);
	ip_message_message(&p->one, SAMPLE_LABEL, &p->two);
}

/* go tool pprof -tags, -tagroot thread, -tagfocus. A process has the labels pid and process. */
static void put_thread(struct pprof *p, const struct ip_tree_thread *thread)
{
	_cleanup_free_ char *text =
		p->threads->by_process ? NULL : ip_tree_thread_text(p->threads, thread);

	if (text)
		put_label(p, "thread", text + strlen("thread "), 0);
	else if (!p->threads->by_process)
		p->strings.failed = true;
	if (!p->threads->by_process)
		put_label(p, "tid", NULL, thread->tid);
	put_label(p, "pid", NULL, thread->process->pid);
	if (thread->process->name)
		put_label(p, "process", thread->process->name, 0);
}

/* The leaf comes first. A location has the number of its function, from 1. The location after
 * the last function stands for the calls that are left out where a path is cut. */
static void begin_sample(struct pprof *p, const struct ip_calltree *tree, uint32_t node)
{
	struct ip_message *sample = &p->one, *way = &p->two;
	unsigned left = IP_WAY_MAX;

	ip_message_reset(sample);
	ip_message_reset(way);
	for (uint32_t at = node; at && !ip_tree_thread_of(p->threads, tree->nodes[at].function);
	     at = tree->nodes[at].parent) {
		if (!left--) {
			ip_message_element(way, p->session->nfunctions + 1ull);
			p->used[p->session->nfunctions] = true;
			break;
		}
		p->used[tree->nodes[at].function] = true;
		ip_message_element(way, tree->nodes[at].function + 1ull);
	}
	ip_message_message(sample, SAMPLE_LOCATION, way);
}

/* Puts the values, each in the place of its type. times in ticks. */
static void put_values(struct pprof *p, uint64_t calls, uint64_t self, uint64_t cpu, uint64_t off)
{
	struct ip_message *values = &p->three;

	ip_message_reset(values);
	ip_message_element(values, calls);
	ip_message_element(values, ip_recording_ns(p->session, self));
	if (p->waits) {
		ip_message_element(values, ip_recording_ns(p->session, cpu));
		ip_message_element(values, ip_recording_ns(p->session, off));
	}
	ip_message_message(&p->one, SAMPLE_VALUE, values);
}

static void put_sample(struct pprof *p, const struct ip_calltree *tree,
		       const struct ip_deep_paths *deep, uint32_t node, uint64_t calls,
		       uint64_t self)
{
	const uint32_t thread = deep->threads ? deep->threads[node] : 0;

	begin_sample(p, tree, node);
	put_values(p, calls, self, 0, 0);
	if (thread)
		put_thread(p, ip_tree_thread_of(p->threads, tree->nodes[thread].function));
	ip_message_message(&p->out, PROFILE_SAMPLE, &p->one);
}

/* The thread's node that a call path begins at; NULL: not told apart. */
static const struct ip_tree_thread *thread_of(const struct pprof *p, const struct ip_calltree *tree,
					      uint32_t node)
{
	while (node && tree->nodes[node].parent)
		node = tree->nodes[node].parent;
	return node ? ip_tree_thread_of(p->threads, tree->nodes[node].function) : NULL;
}

/* go tool pprof -sample_index off_cpu -tags, -tagfocus. */
static int put_waits(struct pprof *p)
{
	for (size_t i = 0; i < p->waits->n; i++) {
		const struct ip_wait_path *path = &p->waits->items[i];
		const bool cpu = path->object == IP_PATH_CPU;
		const struct ip_tree_thread *thread = thread_of(p, p->waits->tree, path->node);
		const char *object;

		if (path->object == IP_PATH_UNKNOWN || path->object == IP_PATH_IDLE)
			continue;
		object = ip_wait_paths_object(p->waits, path->object);
		if (!object)
			return -1;
		begin_sample(p, p->waits->tree, path->node);
		put_values(p, 0, 0, cpu ? path->ticks : 0, cpu ? 0 : path->ticks);
		if (!cpu)
			put_label(p, "wait", object, 0);
		if (thread)
			put_thread(p, thread);
		ip_message_message(&p->out, PROFILE_SAMPLE, &p->one);
	}
	return 0;
}

static void put_mapping(struct pprof *p, uint32_t module)
{
	const struct ip_recording_module *recorded = &p->session->modules[module];
	uint32_t path = string_number(&p->strings, recorded->path),
		 id = string_number(&p->strings, recorded->build_id);

	ip_message_reset(&p->one);
	put_field(&p->one, MAPPING_ID, module + 1ull);
	put_field(&p->one, MAPPING_FILE, path);
	put_field(&p->one, MAPPING_BUILD_ID, id);
	put_field(&p->one, MAPPING_HAS_FUNCTIONS, 1);
	put_field(&p->one, MAPPING_HAS_FILES, 1);
	put_field(&p->one, MAPPING_HAS_LINES, 1);
	ip_message_message(&p->out, PROFILE_MAPPING, &p->one);
}

/* The function number nfunctions stands for the calls that are left out. */
static void put_function(struct pprof *p, uint32_t function)
{
	static const struct ip_recording_function left_out = {.linker_name = "[...]",
							      .module = IP_NO_MODULE};
	bool cut = function == p->session->nfunctions;
	const struct ip_recording_function *f = cut ? &left_out : &p->session->functions[function];
	uint32_t name = string_number(&p->strings,
				      cut ? f->linker_name : ip_names_shown(p->names, function));
	uint32_t linker_name = string_number(&p->strings, f->linker_name),
		 file = string_number(&p->strings, f->file ? f->file : "");

	ip_message_reset(&p->one);
	put_field(&p->one, FUNCTION_ID, function + 1ull);
	put_field(&p->one, FUNCTION_NAME, name);
	put_field(&p->one, FUNCTION_LINKER_NAME, linker_name);
	put_field(&p->one, FUNCTION_FILE, file);
	put_field(&p->one, FUNCTION_LINE, f->line);
	ip_message_message(&p->out, PROFILE_FUNCTION, &p->one);
	ip_message_reset(&p->one);
	ip_message_reset(&p->two);
	put_field(&p->one, LOCATION_ID, function + 1ull);
	put_field(&p->one, LOCATION_MAPPING, f->module == IP_NO_MODULE ? 0 : f->module + 1ull);
	put_field(&p->two, LINE_FUNCTION, function + 1ull);
	put_field(&p->two, LINE_LINE, f->line);
	ip_message_message(&p->one, LOCATION_LINE, &p->two);
	ip_message_message(&p->out, PROFILE_LOCATION, &p->one);
}

static int put_samples(struct pprof *p, const struct ip_calltree *tree)
{
	struct ip_deep_paths deep;
	int ret = ip_deep_paths_find(tree, &deep);

	for (uint32_t i = 1; ret == 0 && i < tree->n; i++) {
		const struct ip_call_node *node = &tree->nodes[i];

		if (deep.depths[i] <= IP_WAY_MAX && (node->calls || node->self))
			put_sample(p, tree, &deep, i, node->calls, node->self);
	}
	for (size_t i = 0; ret == 0 && i < deep.size; i++)
		if (deep.ways[i].node)
			put_sample(p, tree, &deep, deep.ways[i].node, deep.ways[i].calls,
				   deep.ways[i].self);
	ip_deep_paths_clear(&deep);
	return ret;
}

static int put_profile(struct pprof *p, const struct ip_calltree *tree, uint64_t ticks)
{
	const struct ip_recording *s = p->session;
	uint32_t comment;
	int ret = 0;

	ip_names_mark_tails(p->names, tree->until_tail);
	string_number(&p->strings, ""); /* the first string must be the empty one */
	put_type(p, "calls", "count");
	put_type(p, "time", "nanoseconds");
	if (p->waits) {
		put_type(p, "cpu", "nanoseconds");
		put_type(p, "off_cpu", "nanoseconds");
	}
	ret = put_samples(p, tree);
	if (ret == 0 && p->waits)
		ret = put_waits(p);
	for (uint32_t i = 0; ret == 0 && i < s->nmodules; i++)
		if (s->modules[i].present && s->modules[i].same_as == i)
			put_mapping(p, i);
	/* the one behind the last stands for what is left out */
	for (uint32_t i = 0; ret == 0 && i <= s->nfunctions; i++)
		if (p->used[i])
			put_function(p, i);
	put_field(&p->out, PROFILE_TIME, s->start_realtime);
	put_field(&p->out, PROFILE_DURATION, ip_recording_ns(s, ticks));
	comment = string_number(&p->strings, s->command ? s->command : "");
	put_field(&p->out, PROFILE_COMMENT, comment);
	put_field(&p->out, PROFILE_DEFAULT_TYPE, string_number(&p->strings, "time"));
	return ret == 0 && (p->strings.failed || p->out.failed) ? ip_error("out of memory") : ret;
}

/* The 16 that is added to the largest window asks zlib for a gzip header and trailer (zlib.h). */
static int write_compressed(const uint8_t *data, size_t size, FILE *out)
{
	z_stream z = {0};
	uint8_t buffer[65536];
	size_t at = 0;
	int state;

	if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + 16, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		return ip_error("out of memory");
	do {
		if (!z.avail_in && at < size) {
			z.avail_in = size - at < 1u << 30 ? size - at : 1u << 30;
			z.next_in = (uint8_t *)data + at;
			at += z.avail_in;
		}
		z.next_out = buffer;
		z.avail_out = sizeof(buffer);
		state = deflate(&z, at == size ? Z_FINISH : Z_NO_FLUSH);
		fwrite(buffer, 1, sizeof(buffer) - z.avail_out, out);
	} while (state == Z_OK && !ferror(out));
	deflateEnd(&z);
	return 0; /* a write error is kept by the stream */
}

static int set_idle_aside(struct ip_trace_reader *trace, const struct ip_export_options *options,
			  struct ip_calltree *tree, struct ip_idle_waits *ret)
{
	if (ip_idle_waits_find(trace, options->waits->states, &options->waits->descriptors, ret) <
		    0 ||
	    ip_idle_tree_fill_from(tree, trace, ret) < 0)
		return -1;
	*options->idle_ns = ip_recording_ns(trace->session, tree->idle);
	ip_calltree_take_off_idle(tree);
	return 0;
}

int ip_export_pprof(struct ip_trace_reader *trace, const struct ip_export_options *options,
		    FILE *out)
{
	struct ip_calltree_options wanted = {.roots = options->selected, .tid = options->tid};
	const struct ip_recording *s = trace->session;
	struct ip_tree_threads *threads = NULL;
	struct pprof p = {.session = s, .names = ip_names_create(s)};
	_cleanup_free_ bool *used = calloc(s->nfunctions + 1ull, sizeof(*used));
	struct ip_calltree *tree = NULL;
	struct ip_idle_waits idle = {0};
	int ret = -1;

	if (p.names)
		ip_names_use_full(p.names); /* pprof shortens names itself */
	p.strings.out = &p.out;
	p.used = used;
	if (!used)
		ip_error("out of memory");
	else if (p.names && (options->by_thread || options->by_process))
		ret = ip_tree_threads_create(trace, options->by_process, &threads);
	else if (p.names)
		ret = 0;
	wanted.threads = p.threads = threads;
	if (ret == 0)
		ret = ip_calltree_collect(trace, &wanted, &tree);
	if (ret == 0 && options->waits && !options->idle)
		ret = set_idle_aside(trace, options, tree, &idle);
	if (ret == 0 && options->waits) {
		const struct ip_wait_paths_options paths = {.roots = options->selected,
							    .tid = options->tid,
							    .threads = threads,
							    .idle = &idle};

		p.waits = ip_wait_paths_make(trace, options->waits, &paths);
		ret = p.waits ? 0 : -1;
	}
	if (ret == 0)
		ret = put_profile(&p, tree, ip_trace_reader_recorded(trace));
	if (tree)
		*options->unchosen = tree->n > 1 ? 0 : tree->events;
	if (ret == 0)
		ret = write_compressed(p.out.bytes, p.out.n, out);
	ip_message_deinit(&p.out);
	ip_message_deinit(&p.one);
	ip_message_deinit(&p.two);
	ip_message_deinit(&p.three);
	clear_strings(&p.strings);
	ip_wait_paths_destroy(p.waits);
	ip_idle_waits_clear(&idle);
	ip_calltree_destroy(tree);
	ip_tree_threads_destroy(threads);
	ip_names_destroy(p.names);
	return ret;
}
