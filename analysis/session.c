/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsing the session file.
 *
 * The text is copied once; fields are cut and unescaped in place, strings point into the copy. A last line
 * without a newline in a file without end lines was cut off in the middle of a write and is left out. Keys
 * that are not known are skipped: a newer iprobe may write more.
 */
#include "analysis/session.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/grow.h"
#include "common/file.h"
#include "common/selection.h"

#define SESSION_VERSION 1
#define SESSION_MAX	(1ull << 30)
#define FIELDS_MAX	8

struct parser {
	struct ip_recording *session;
	const char *name;
	size_t line;
	char *fields[FIELDS_MAX];
	size_t nfields;
	bool truncated; /* the text does not end in a newline */
};

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* \xHH to the byte, in place. A byte of 0 would cut the string: it becomes '?'. */
static void unescape(char *text)
{
	char *out = text;

	for (const char *in = text; *in;) {
		if (in[0] == '\\' && in[1] == 'x' && hex_digit(in[2]) >= 0 && hex_digit(in[3]) >= 0) {
			int byte = hex_digit(in[2]) << 4 | hex_digit(in[3]);

			*out++ = byte ? byte : '?';
			in += 4;
		} else {
			*out++ = *in++;
		}
	}
	*out = '\0';
}

/* Cuts a line at its tabs. What is beyond FIELDS_MAX belongs to a newer version. */
static void split(struct parser *p, char *line)
{
	p->nfields = 0;
	while (line && p->nfields < FIELDS_MAX) {
		char *tab = strchr(line, '\t');

		if (tab)
			*tab++ = '\0';
		unescape(line);
		p->fields[p->nfields++] = line;
		line = tab;
	}
}

static int bad(const struct parser *p, const char *what)
{
	return ip_error("%s: line %zu: %s: the trace is damaged", p->name, p->line, what);
}

/* Field i as a number not above max; decimal, or hexadecimal with 0x. */
static int number(const struct parser *p, size_t i, uint64_t max, uint64_t *ret)
{
	char *end;
	unsigned long long value;

	if (i >= p->nfields || !isdigit((unsigned char)p->fields[i][0]))
		return bad(p, "a number is missing");
	errno = 0;
	value = strtoull(p->fields[i], &end, strncmp(p->fields[i], "0x", 2) ? 10 : 16);
	if (*end)
		return bad(p, "not a number");
	if (errno || value > max)
		return bad(p, "a number is out of range");
	*ret = value;
	return 0;
}

/* Makes room for one more of n items; arrays double at powers of two. */
static int parse_module(struct parser *p)
{
	struct ip_recording *s = p->session;
	uint64_t index, bias, first;

	if (p->nfields < 7)
		return bad(p, "a module needs index, path, build-id, load bias, first number and placement");
	if (number(p, 1, IP_RECORDING_MODULES - 1, &index) < 0 || number(p, 4, UINT64_MAX, &bias) < 0 ||
	    number(p, 5, IP_NUMBER_MAX, &first) < 0)
		return -1;
	if (index >= s->nmodules) {
		struct ip_recording_module *grown = reallocarray(s->modules, index + 1, sizeof(*grown));

		if (!grown)
			return ip_error("out of memory");
		memset(grown + s->nmodules, 0, (index + 1 - s->nmodules) * sizeof(*grown));
		s->modules = grown;
		s->nmodules = index + 1;
	}
	if (s->modules[index].present)
		return bad(p, "a module that is there already");
	s->modules[index] = (struct ip_recording_module){.path = p->fields[2],
							 .build_id = p->fields[3],
							 .load_bias = bias,
							 .first_number = first,
							 .placement = p->fields[6],
							 .same_as = index,
							 .present = true};
	for (size_t i = 0; i < index; i++)
		if (s->modules[i].present && !strcmp(s->modules[i].path, p->fields[2]) &&
		    !strcmp(s->modules[i].build_id, p->fields[3])) {
			s->modules[index].same_as = s->modules[i].same_as;
			break;
		}
	return 0;
}

static uint64_t hash(uint32_t module, const char *name)
{
	uint64_t h = 0xcbf29ce484222325ull ^ module;

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 0x100000001b3ull;
	return h ^ h >> 29;
}

/* Slot of the index that holds (module, name), or the free one where it belongs. */
static uint32_t *index_slot(const struct ip_recording *s, uint32_t module, const char *name)
{
	size_t i = hash(module, name) & (s->index_size - 1);

	for (;; i = (i + 1) & (s->index_size - 1)) {
		const struct ip_recording_function *f = &s->functions[s->index[i]];

		if (!s->index[i] || (f->module == module && !strcmp(f->linker_name, name)))
			return &s->index[i];
	}
}

/* Keeps the index at most half full. */
static int grow_index(struct ip_recording *s)
{
	uint32_t *old = s->index;
	size_t size = s->index_size;

	if (s->nfunctions * 2 < size)
		return 0;
	s->index_size = size ? 2 * size : 1024;
	s->index = calloc(s->index_size, sizeof(*s->index));
	if (!s->index) {
		s->index = old;
		s->index_size = size;
		return ip_error("out of memory");
	}
	free(old);
	for (size_t i = 1; i < s->nfunctions; i++)
		*index_slot(s, s->functions[i].module, s->functions[i].linker_name) = i;
	return 0;
}

/* frame: from the stack pointer at the entry site to the caller's, 0: unknown. The least that a call takes is
 * the return address. */
static uint32_t room_of(bool inlined, uint64_t frame)
{
	if (inlined)
		return 0;
	return frame > 8 ? frame & ~7ull : 8;
}

static int grow_numbers(struct ip_recording *s, uint32_t number)
{
	struct ip_recording_number *grown;
	size_t n = s->nnumbers ? s->nnumbers : 256;

	if (number < s->nnumbers)
		return 0;
	while (n <= number)
		n *= 2;
	grown = reallocarray(s->numbers, n, sizeof(*grown));
	if (!grown)
		return ip_error("out of memory");
	memset(grown + s->nnumbers, 0, (n - s->nnumbers) * sizeof(*grown));
	s->numbers = grown;
	s->nnumbers = n;
	return 0;
}

static int parse_function(struct parser *p)
{
	struct ip_recording *s = p->session;
	uint64_t num, module, line, frame = 0;
	uint32_t *slot;
	char *name, *file;

	if (p->nfields < 7)
		return bad(p, "a function needs number, module, name, file, line and flags");
	if (number(p, 1, IP_NUMBER_MAX, &num) < 0 || number(p, 2, IP_RECORDING_MODULES - 1, &module) < 0 ||
	    number(p, 5, UINT32_MAX, &line) < 0 ||
	    (p->nfields > 7 && number(p, 7, UINT32_MAX - 15, &frame) < 0))
		return -1;
	name = p->fields[3];
	file = p->fields[4];
	if (!num || !*name)
		return bad(p, "a function without number or name");
	if (module >= s->nmodules || !s->modules[module].present)
		return bad(p, "a function of a module that is not there");
	module = s->modules[module].same_as;
	name[ip_base_name_length(name)] = '\0';
	if (ip_grow(&s->functions, s->nfunctions, sizeof(*s->functions)) < 0 || grow_index(s) < 0)
		return -1;
	slot = index_slot(s, module, name);
	if (!*slot) {
		*slot = s->nfunctions;
		s->functions[s->nfunctions++] =
			(struct ip_recording_function){.linker_name = name, .module = module};
	}
	if (!s->functions[*slot].file && *file && strcmp(file, "-")) {
		s->functions[*slot].file = file;
		s->functions[*slot].line = line;
	}
	if (grow_numbers(s, num) < 0)
		return -1;
	s->numbers[num] = (struct ip_recording_number){
		*slot, room_of(strchr(p->fields[6], 'i'), frame), strchr(p->fields[6], 'e') != NULL};
	return 0;
}

static int parse_stop(struct parser *p)
{
	struct ip_recording *s = p->session;
	struct ip_recording_stop stop = {.kind = p->nfields > 1 ? p->fields[1] : ""};

	if (number(p, 2, UINT64_MAX, &stop.tsc) < 0 || number(p, 3, UINT64_MAX, &stop.duration_ns) < 0 ||
	    number(p, 4, UINT64_MAX, &stop.threads) < 0 || number(p, 5, UINT64_MAX, &stop.pages) < 0 ||
	    number(p, 6, UINT64_MAX, &stop.sites) < 0 || ip_grow(&s->stops, s->nstops, sizeof(*s->stops)) < 0)
		return -1;
	s->stops[s->nstops++] = stop;
	return 0;
}

static int parse_thread(struct parser *p)
{
	struct ip_recording *s = p->session;
	uint64_t tid = 0;

	if (number(p, 1, UINT32_MAX, &tid) < 0 || ip_grow(&s->threads, s->nthreads, sizeof(*s->threads)) < 0)
		return -1;
	s->threads[s->nthreads++] = (struct ip_recording_thread){tid, p->nfields > 2 ? p->fields[2] : ""};
	return 0;
}

static int parse_exec(struct parser *p)
{
	struct ip_recording *s = p->session;
	uint64_t pid = 0, tsc = 0;

	if (number(p, 1, UINT32_MAX, &pid) < 0 || number(p, 2, UINT64_MAX, &tsc) < 0 ||
	    ip_grow(&s->execs, s->nexecs, sizeof(*s->execs)) < 0)
		return -1;
	s->execs[s->nexecs++] = (struct ip_recording_exec){.pid = pid, .tsc = tsc};
	return 0;
}

/* Belongs to the last exec of the process. */
static int parse_again(struct parser *p)
{
	struct ip_recording *s = p->session;
	uint64_t pid = 0, from = 0, to = 0;

	if (number(p, 1, UINT32_MAX, &pid) < 0 || number(p, 2, UINT64_MAX, &from) < 0 ||
	    number(p, 3, UINT64_MAX, &to) < 0)
		return -1;
	for (size_t i = s->nexecs; i--;)
		if (s->execs[i].pid == pid) {
			s->execs[i].gap_tsc = from;
			s->execs[i].again_tsc = to;
			break;
		}
	return 0;
}

static int parse_missing(struct parser *p)
{
	struct ip_recording *s = p->session;
	uint64_t num = 0, from = 0, to = 0;

	if (number(p, 1, UINT32_MAX, &num) < 0 || number(p, 2, UINT64_MAX, &from) < 0 ||
	    number(p, 3, UINT64_MAX, &to) < 0 || ip_grow(&s->missing, s->nmissing, sizeof(*s->missing)) < 0)
		return -1;
	s->missing[s->nmissing++] = (struct ip_recording_missing){num, from, to};
	return 0;
}

static int parse_trimmed(struct parser *p)
{
	struct ip_recording *s = p->session;

	if (number(p, 1, UINT64_MAX, &s->trimmed_from) < 0 || number(p, 2, UINT64_MAX, &s->trimmed_to) < 0)
		return -1;
	if (s->trimmed_to < s->trimmed_from)
		return bad(p, "a part of the trace that ends before it begins");
	s->trimmed = true;
	return 0;
}

static int parse_coarse(struct parser *p)
{
	p->session->coarse = true;
	return number(p, 1, UINT64_MAX, &p->session->late) < 0 || number(p, 2, UINT64_MAX, &p->session->latest) < 0 ? -1 : 0;
}

static int parse_payload(struct parser *p)
{
	static const char *const kinds[] = {"log", "count", "hist", "user"};
	struct ip_recording *s = p->session;
	const char *numbers = p->nfields > 2 ? p->fields[2] : "";

	for (uint8_t kind = 0; kind < sizeof(kinds) / sizeof(*kinds); kind++) {
		uint64_t first, last;

		if (p->nfields < 2 || strcmp(p->fields[1], kinds[kind]))
			continue;
		while (*numbers) {
			if (!ip_numbers_next(&numbers, &first, &last))
				return bad(p, "not a list of numbers");
			for (uint64_t n = first; n <= last && n < s->nnumbers; n++)
				s->numbers[n].payload = kind;
			s->payloads |= kind != IP_RECORDING_LOG;
		}
	}
	return 0; /* one of a newer version: it has logged nothing */
}

static int parse_change(struct parser *p)
{
	uint64_t tsc = 0;
	const char *wrong;

	if (number(p, 1, UINT64_MAX, &tsc) < 0)
		return -1;
	wrong = ip_changes_add(&p->session->changes, p->session, !strcmp(p->fields[0], "removed"), tsc,
			       p->nfields > 2 ? p->fields[2] : "");
	return wrong ? bad(p, wrong) : 0;
}

static int parse_library(struct parser *p)
{
	struct ip_recording *s = p->session;
	struct ip_recording_library library = {.unload = p->fields[0][0] == 'u'};

	if (p->nfields < 5)
		return bad(p, "a library needs time, load bias, build-id and path");
	if (number(p, 1, UINT64_MAX, &library.tsc) < 0 || number(p, 2, UINT64_MAX, &library.load_bias) < 0 ||
	    ip_grow(&s->libraries, s->nlibraries, sizeof(*s->libraries)) < 0)
		return -1;
	library.build_id = p->fields[3];
	library.path = p->fields[4];
	s->libraries[s->nlibraries++] = library;
	return 0;
}

static int parse_signature(struct parser *p)
{
	struct ip_recording *s = p->session;
	uint64_t id;

	if (number(p, 1, IP_RECORDING_SIGNATURES, &id) < 0)
		return -1;
	if (!id || p->nfields < 3)
		return bad(p, "a signature needs a number and a text");
	while (s->nsignatures < id) {
		if (ip_grow(&s->signatures, s->nsignatures, sizeof(*s->signatures)) < 0)
			return -1;
		s->signatures[s->nsignatures++] = (struct ip_signature){0};
	}
	/* one that a newer version has written is left out: its values are not shown */
	if (!s->signatures[id - 1].n && ip_signature_parse(p->fields[2], &s->signatures[id - 1]) < 0)
		s->signatures[id - 1].n = 0;
	return 0;
}

static int parse_line(struct parser *p)
{
	struct ip_recording *s = p->session;
	const char *key = p->fields[0];
	const struct {
		const char *key;
		const char **text;
	} texts[] = {{"host", &s->host}, {"kernel", &s->kernel}, {"command", &s->command}, {"end", &s->end}};
	const struct {
		const char *key;
		uint64_t *value;
	} numbers[] = {{"pid", &s->pid},
		       {"start_realtime", &s->start_realtime},
		       {"tsc_start", &s->tsc_start},
		       {"tsc_end", &s->tsc_end},
		       {"tsc_hz", &s->tsc_hz},
		       {"events", &s->events},
		       {"lost", &s->lost},
		       {"more_stops", &s->more_stops},
		       {"more_stops_ns", &s->more_stops_ns},
		       {"more_stops_longest_ns", &s->more_stops_longest_ns},
		       {"unserved", &s->unserved},
		       {"overwritten", &s->overwritten},
		       {"filtered", &s->filtered}};
	const struct {
		const char *key;
		int (*parse)(struct parser *p);
	} parsers[] = {{"module", parse_module},
		       {"function", parse_function},
		       {"stop", parse_stop},
		       {"thread", parse_thread},
		       {"exec", parse_exec},
		       {"again", parse_again},
		       {"missing", parse_missing},
		       {"payload", parse_payload},
		       {"added", parse_change},
		       {"removed", parse_change},
		       {"load", parse_library},
		       {"unload", parse_library},
		       {"signature", parse_signature},
		       {"trimmed", parse_trimmed},
		       {"coarse", parse_coarse}};

	for (size_t i = 0; i < sizeof(parsers) / sizeof(parsers[0]); i++)
		if (!strcmp(key, parsers[i].key))
			return parsers[i].parse(p);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (!strcmp(key, texts[i].key) && p->nfields > 1)
			*texts[i].text = p->fields[1];
	s->overwrites |= !strcmp(key, "overwritten");
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (!strcmp(key, numbers[i].key))
			return number(p, 1, UINT64_MAX, numbers[i].value);
	return 0;
}

static int parse_first_line(struct parser *p)
{
	uint64_t version;

	if (strcmp(p->fields[0], "iprobe-session"))
		return ip_error("%s: not a session of iprobe", p->name);
	if (number(p, 1, UINT64_MAX, &version) < 0)
		return -1;
	if (version != SESSION_VERSION)
		return ip_error("%s: written by another version of iprobe (format %llu, this one reads %d)",
				p->name, (unsigned long long)version, SESSION_VERSION);
	return 0;
}

/* Whether the values that everything else is computed with make sense. */
static int check(const struct parser *p)
{
	const struct ip_recording *s = p->session;

	if (!s->tsc_hz || s->tsc_hz > 1000000000000ull)
		return ip_error(
			"%s: the frequency of the clock (tsc_hz) is missing or makes no sense: the trace is "
			"damaged",
			p->name);
	if (s->tsc_end && s->tsc_end < s->tsc_start)
		return ip_error("%s: the end (tsc_end) lies before the start: the trace is damaged", p->name);
	return 0;
}

static int parse_text(struct parser *p, size_t size)
{
	char *text = p->session->text, *end = text + size;

	while (text < end) {
		char *newline = memchr(text, '\n', end - text);

		p->line++;
		if (!newline)
			break; /* cut off in the middle */
		*newline = '\0';
		split(p, text);
		if ((p->line == 1 ? parse_first_line(p) : parse_line(p)) < 0)
			return -1;
		text = newline + 1;
	}
	if (p->line == 0 || (p->line == 1 && text < end))
		return ip_error("%s: not a session of iprobe", p->name);
	return check(p) < 0 ? -1 : ip_changes_index(&p->session->changes, p->session);
}

int ip_recording_parse(const char *name, const void *data, size_t size, struct ip_recording **ret)
{
	struct ip_recording *s = calloc(1, sizeof(*s));
	struct parser p = {.session = s, .name = name};

	if (s) {
		s->text = malloc(size + 1);
		s->functions = calloc(1, sizeof(*s->functions));
	}
	if (!s || !s->text || !s->functions) {
		ip_recording_destroy(s);
		return ip_error("out of memory");
	}
	memcpy(s->text, data, size);
	s->text[size] = '\0';
	s->functions[0] = (struct ip_recording_function){.linker_name = "[unknown]", .module = IP_NO_MODULE};
	s->nfunctions = 1;
	if (grow_index(s) < 0 || parse_text(&p, size) < 0) {
		ip_recording_destroy(s);
		return -1;
	}
	s->ended = s->end != NULL;
	*ret = s;
	return 0;
}

int ip_recording_load(const char *dir, struct ip_recording **ret)
{
	_cleanup_free_ char *path = NULL, *text = NULL;
	_cleanup_close_ int fd = -1;
	uint64_t size;
	struct stat st;

	if (stat(dir, &st) < 0)
		return ip_error_errno("%s: cannot open the trace directory", dir);
	if (!S_ISDIR(st.st_mode))
		return ip_error(
			"%s: not a trace: a trace is a directory that iprobe run or iprobe attach wrote",
			dir);
	if (asprintf(&path, "%s/%s", dir, IP_TRACE_SESSION) < 0) {
		path = NULL;
		return ip_error("out of memory");
	}
	if (stat(path, &st) < 0)
		return ip_error("%s: not a trace of iprobe: it has no %s", dir, IP_TRACE_SESSION);
	fd = ip_open_regular(path, &size);
	if (fd < 0)
		return -1;
	if (size > SESSION_MAX)
		return ip_error("%s: too large to be a session of iprobe", path);
	text = malloc(size + 1);
	if (!text)
		return ip_error("out of memory");
	if (ip_read_at(fd, path, 0, text, size) < 0)
		return -1;
	return ip_recording_parse(path, text, size, ret);
}

void ip_recording_destroy(struct ip_recording *s)
{
	if (!s)
		return;
	free(s->modules);
	free(s->functions);
	free(s->stops);
	free(s->threads);
	free(s->execs);
	free(s->missing);
	free(s->libraries);
	free(s->signatures);
	free(s->numbers);
	ip_changes_clear(&s->changes);
	free(s->index);
	free(s->text);
	free(s);
}

const char *ip_recording_module_name(const struct ip_recording *s, const struct ip_recording_function *f)
{
	const char *path, *slash;

	if (f->module == IP_NO_MODULE)
		return "[unknown]";
	path = s->modules[f->module].path;
	slash = strrchr(path, '/');
	path = slash && slash[1] ? slash + 1 : path;
	return *path ? path : "[unknown]";
}

uint64_t ip_recording_ns(const struct ip_recording *s, uint64_t ticks)
{
	unsigned __int128 ns = ((unsigned __int128)ticks * 1000000000 + s->tsc_hz / 2) / s->tsc_hz;

	return ns > UINT64_MAX ? UINT64_MAX : ns;
}

uint64_t ip_recording_since_start(const struct ip_recording *s, uint64_t ts)
{
	return ts > s->tsc_start ? ip_recording_ns(s, ts - s->tsc_start) : 0;
}
