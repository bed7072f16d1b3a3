/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile for pprof: profile.proto (github.com/google/pprof/proto), compressed by gzip as its readers expect. A sample is a way of
 * calls, its values the calls that ended that way and the time that they spent themselves; a location is a function.
 *
 * Of Protocol Buffers' encoding ("Encoding", protobuf.dev) no more is needed than variable-length numbers (wire type 0) and
 * length-delimited fields (2): strings, messages, packed lists of numbers.
 */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "analysis/calltree.h"
#include "analysis/deep_ways.h"
#include "analysis/export.h"
#include "analysis/names.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/grow.h"

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
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE };
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

/* A message that is being made; a failure shows at the end. */
struct message {
	char *text;
	size_t size;
	FILE *out;
};

static void begin(struct message *m)
{
	m->text = NULL;
	m->out = open_memstream(&m->text, &m->size);
}

static void put_number(FILE *out, uint64_t n)
{
	for (; n > 127; n >>= 7)
		putc((n & 127) | 128, out);
	putc(n, out);
}

/* 0 is what a field has that is not there. */
static void put_field(FILE *out, int field, uint64_t n)
{
	if (!n)
		return;
	put_number(out, (uint64_t)field << 3);
	put_number(out, n);
}

static void put_bytes(FILE *out, int field, const char *bytes, size_t n)
{
	put_number(out, (uint64_t)field << 3 | 2);
	put_number(out, n);
	fwrite(bytes, 1, n, out);
}

/* Ends an inner message, and puts it into out. */
static int put_message(FILE *out, int field, struct message *m)
{
	bool bad = !m->out || ferror(m->out);

	if (m->out && fclose(m->out) != 0)
		bad = true;
	if (!bad)
		put_bytes(out, field, m->text, m->size);
	free(m->text);
	m->text = NULL;
	return bad ? ip_error("out of memory") : 0;
}

/* The table of strings: each is put when it is first asked for, and is its number from then on. */
struct strings {
	FILE *out;
	char **texts; /* open addressing: NULL: free */
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
	ip_clean(clean); /* strings are UTF-8 */
	at = string_slot(s, clean);
	if (!s->texts[at]) {
		put_bytes(s->out, PROFILE_STRING, clean, strlen(clean));
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
	FILE *out;  /* the profile */
	bool *used; /* by function */
};

static int put_type(struct pprof *p, const char *type, const char *unit)
{
	struct message m;
	uint32_t t = string_number(&p->strings, type), u = string_number(&p->strings, unit);

	begin(&m);
	if (m.out) {
		put_field(m.out, TYPE_TYPE, t);
		put_field(m.out, TYPE_UNIT, u);
	}
	return put_message(p->out, PROFILE_SAMPLE_TYPE, &m);
}

/* The leaf comes first. Locations have the numbers of their functions, from 1; one behind them stands for the calls that are left out
 * where a way is cut. */
static int put_sample(struct pprof *p, const struct ip_calltree *tree, uint32_t node, uint64_t calls, uint64_t self)
{
	unsigned left = IP_WAY_MAX;
	struct message m, way, values;
	int bad;

	begin(&m);
	begin(&way);
	begin(&values);
	for (uint32_t at = node; at && way.out; at = tree->nodes[at].parent) {
		if (!left--) {
			put_number(way.out, p->session->nfunctions + 1ull);
			break;
		}
		p->used[tree->nodes[at].function] = true;
		put_number(way.out, tree->nodes[at].function + 1ull);
	}
	if (values.out) {
		put_number(values.out, calls);
		put_number(values.out, ip_recording_ns(p->session, self));
	}
	bad = m.out ? put_message(m.out, SAMPLE_LOCATION, &way) | put_message(m.out, SAMPLE_VALUE, &values)
		    : -1;
	return put_message(p->out, PROFILE_SAMPLE, &m) | bad;
}

static int put_mapping(struct pprof *p, uint32_t module)
{
	const struct ip_recording_module *recorded = &p->session->modules[module];
	uint32_t path = string_number(&p->strings, recorded->path),
		 id = string_number(&p->strings, recorded->build_id);
	struct message m;

	begin(&m);
	if (m.out) {
		put_field(m.out, MAPPING_ID, module + 1ull);
		put_field(m.out, MAPPING_FILE, path);
		put_field(m.out, MAPPING_BUILD_ID, id);
		put_field(m.out, MAPPING_HAS_FUNCTIONS, 1);
		put_field(m.out, MAPPING_HAS_FILES, 1);
		put_field(m.out, MAPPING_HAS_LINES, 1);
	}
	return put_message(p->out, PROFILE_MAPPING, &m);
}

/* Number nfunctions is that of calls that are left out. */
static int put_function(struct pprof *p, uint32_t function)
{
	static const struct ip_recording_function left_out = {.linker_name = "[...]", .module = IP_NO_MODULE};
	bool cut = function == p->session->nfunctions;
	const struct ip_recording_function *f = cut ? &left_out : &p->session->functions[function];
	uint32_t name = string_number(&p->strings, cut ? f->linker_name : ip_names_get(p->names, function));
	uint32_t linker_name = string_number(&p->strings, f->linker_name),
		 file = string_number(&p->strings, f->file ? f->file : "");
	struct message m, line;

	begin(&m);
	if (m.out) {
		put_field(m.out, FUNCTION_ID, function + 1ull);
		put_field(m.out, FUNCTION_NAME, name);
		put_field(m.out, FUNCTION_LINKER_NAME, linker_name);
		put_field(m.out, FUNCTION_FILE, file);
		put_field(m.out, FUNCTION_LINE, f->line);
	}
	if (put_message(p->out, PROFILE_FUNCTION, &m) < 0)
		return -1;
	begin(&m);
	begin(&line);
	if (m.out && line.out) {
		put_field(m.out, LOCATION_ID, function + 1ull);
		put_field(m.out, LOCATION_MAPPING, f->module == IP_NO_MODULE ? 0 : f->module + 1ull);
		put_field(line.out, LINE_FUNCTION, function + 1ull);
		put_field(line.out, LINE_LINE, f->line);
	}
	if (!m.out || put_message(m.out, LOCATION_LINE, &line) < 0)
		return ip_error("out of memory");
	return put_message(p->out, PROFILE_LOCATION, &m);
}

static int put_samples(struct pprof *p, const struct ip_calltree *tree)
{
	struct ip_deep_ways deep;
	int ret = ip_deep_ways_find(tree, &deep);

	for (uint32_t i = 1; ret == 0 && i < tree->n; i++) {
		const struct ip_call_node *node = &tree->nodes[i];

		if (deep.depths[i] <= IP_WAY_MAX && (node->calls || node->self))
			ret = put_sample(p, tree, i, node->calls, node->self);
	}
	for (size_t i = 0; ret == 0 && i < deep.size; i++)
		if (deep.ways[i].node)
			ret = put_sample(p, tree, deep.ways[i].node, deep.ways[i].calls, deep.ways[i].self);
	if (ret == 0 && deep.n)
		ret = put_function(p, p->session->nfunctions);
	ip_deep_ways_clear(&deep);
	return ret;
}

static int put_profile(struct pprof *p, const struct ip_calltree *tree, uint64_t ticks)
{
	const struct ip_recording *s = p->session;
	uint32_t comment;
	int ret = 0;

	string_number(&p->strings, ""); /* the first one has to be that */
	if (put_type(p, "calls", "count") < 0 || put_type(p, "time", "nanoseconds") < 0)
		return -1;
	ret = put_samples(p, tree);
	for (uint32_t i = 0; ret == 0 && i < s->nmodules; i++)
		if (s->modules[i].present && s->modules[i].same_as == i)
			ret = put_mapping(p, i);
	for (uint32_t i = 0; ret == 0 && i < s->nfunctions; i++)
		if (p->used[i])
			ret = put_function(p, i);
	put_field(p->out, PROFILE_TIME, s->start_realtime);
	put_field(p->out, PROFILE_DURATION, ip_recording_ns(s, ticks));
	comment = string_number(&p->strings, s->command ? s->command : "");
	put_field(p->out, PROFILE_COMMENT, comment);
	put_field(p->out, PROFILE_DEFAULT_TYPE, string_number(&p->strings, "time"));
	return ret == 0 && p->strings.failed ? ip_error("out of memory") : ret;
}

/* 16 more than the largest window: a gzip header and trailer around it (zlib.h). */
static int write_compressed(const char *data, size_t size, FILE *out)
{
	z_stream z = {0};
	uint8_t buffer[65536];
	size_t at = 0;
	int state;

	if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) !=
	    Z_OK)
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
	return 0; /* a write error is the stream's */
}

int ip_export_pprof(struct ip_trace_reader *trace, const struct ip_export_options *options, FILE *out)
{
	const struct ip_calltree_options wanted = {.roots = options->selected, .tid = options->tid};
	const struct ip_recording *s = trace->session;
	struct pprof p = {.session = s, .names = ip_names_create(s)};
	_cleanup_free_ bool *used = calloc(s->nfunctions, sizeof(*used));
	struct ip_calltree *tree = NULL;
	struct message profile;
	int ret = -1;

	begin(&profile);
	p.out = p.strings.out = profile.out;
	p.used = used;
	if (!p.out || !used)
		ip_error("out of memory");
	else if (p.names && ip_calltree_collect(trace, &wanted, &tree) == 0)
		ret = put_profile(&p, tree, trace->end - trace->begin);
	if (p.out && (ferror(p.out) | (fclose(p.out) != 0)))
		ret = ip_error("out of memory");
	if (ret == 0)
		ret = write_compressed(profile.text, profile.size, out);
	free(profile.text);
	clear_strings(&p.strings);
	ip_calltree_destroy(tree);
	ip_names_destroy(p.names);
	return ret;
}
