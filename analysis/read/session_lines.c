/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the lines of the session file, except those about modules and functions. A key that is
 * not known is skipped: a newer iprobe may write more.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/read/session_parser.h"
#include "common/array.h"
#include "common/error.h"

int ip_session_bad(const struct ip_session_parser *p, const char *what)
{
	return ip_error("%s: line %zu: %s: the trace is damaged", p->name, p->line, what);
}

/* Reads field i as a number, decimal or hexadecimal with 0x, of at most max. */
int ip_session_number(const struct ip_session_parser *p, size_t i, uint64_t max, uint64_t *ret)
{
	char *end;
	unsigned long long value;

	if (i >= p->nfields || !isdigit((unsigned char)p->fields[i][0]))
		return ip_session_bad(p, "a number is missing");
	errno = 0;
	value = strtoull(p->fields[i], &end, strncmp(p->fields[i], "0x", 2) ? 10 : 16);
	if (*end)
		return ip_session_bad(p, "not a number");
	if (errno || value > max)
		return ip_session_bad(p, "a number is out of range");
	*ret = value;
	return 0;
}

static int parse_stop(struct ip_session_parser *p)
{
	struct ip_recording *s = p->session;
	struct ip_recording_stop stop = {.kind = p->nfields > 1 ? p->fields[1] : "",
					 .failed =
						 p->nfields > 7 && !strcmp(p->fields[7], "failed")};

	if (ip_session_number(p, 2, UINT64_MAX, &stop.tsc) < 0 ||
	    ip_session_number(p, 3, UINT64_MAX, &stop.duration_ns) < 0 ||
	    ip_session_number(p, 4, UINT64_MAX, &stop.threads) < 0 ||
	    ip_session_number(p, 5, UINT64_MAX, &stop.pages) < 0 ||
	    ip_session_number(p, 6, UINT64_MAX, &stop.sites) < 0 ||
	    ip_array_grow(&s->stops, s->nstops, sizeof(*s->stops)) < 0)
		return -1;
	s->stops[s->nstops++] = stop;
	return 0;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* A recording that was resumed has a line of each part. */
static int parse_looks(struct ip_session_parser *p)
{
	struct ip_recording *s = p->session;
	uint64_t n, ns, longest;

	if (ip_session_number(p, 1, UINT64_MAX, &n) < 0 ||
	    ip_session_number(p, 2, UINT64_MAX, &ns) < 0 ||
	    ip_session_number(p, 3, UINT64_MAX, &longest) < 0)
		return -1;
	s->looks = sum(s->looks, n);
	s->looks_ns = sum(s->looks_ns, ns);
	if (longest > s->looks_longest_ns)
		s->looks_longest_ns = longest;
	return 0;
}

static int parse_no_events(struct ip_session_parser *p)
{
	struct ip_recording *s = p->session;

	if (p->nfields < 3)
		return ip_session_bad(p, "a reason needs a word and a text");
	if (ip_array_grow(&s->no_events, s->nno_events, sizeof(*s->no_events)) < 0)
		return -1;
	s->no_events[s->nno_events++] = (struct ip_recording_reason){p->fields[1], p->fields[2]};
	return 0;
}

/* The first line counts: probes were live from then on. */
static int parse_live(struct ip_session_parser *p)
{
	uint64_t tsc = 0;

	if (ip_session_number(p, 1, UINT64_MAX, &tsc) < 0)
		return -1;
	if (!p->session->tsc_live)
		p->session->tsc_live = tsc;
	return 0;
}

static int parse_exec(struct ip_session_parser *p)
{
	struct ip_recording *s = p->session;
	uint64_t pid = 0, tsc = 0;

	if (ip_session_number(p, 1, UINT32_MAX, &pid) < 0 ||
	    ip_session_number(p, 2, UINT64_MAX, &tsc) < 0 ||
	    ip_array_grow(&s->execs, s->nexecs, sizeof(*s->execs)) < 0)
		return -1;
	s->execs[s->nexecs++] = (struct ip_recording_exec){.pid = pid, .tsc = tsc};
	return 0;
}

/* The line belongs to the last exec of the process. */
static int parse_resumed(struct ip_session_parser *p)
{
	struct ip_recording *s = p->session;
	uint64_t pid = 0, from = 0, to = 0;

	if (ip_session_number(p, 1, UINT32_MAX, &pid) < 0 ||
	    ip_session_number(p, 2, UINT64_MAX, &from) < 0 ||
	    ip_session_number(p, 3, UINT64_MAX, &to) < 0)
		return -1;
	for (size_t i = s->nexecs; i--;)
		if (s->execs[i].pid == pid) {
			s->execs[i].gap_tsc = from;
			s->execs[i].again_tsc = to;
			break;
		}
	return 0;
}

static int parse_missing(struct ip_session_parser *p)
{
	struct ip_recording *s = p->session;
	uint64_t num = 0, from = 0, to = 0;

	if (ip_session_number(p, 1, UINT32_MAX, &num) < 0 ||
	    ip_session_number(p, 2, UINT64_MAX, &from) < 0 ||
	    ip_session_number(p, 3, UINT64_MAX, &to) < 0 ||
	    ip_array_grow(&s->missing, s->nmissing, sizeof(*s->missing)) < 0)
		return -1;
	s->missing[s->nmissing++] =
		(struct ip_recording_missing){.number = num, .from = from, .to = to};
	return 0;
}

static int parse_trimmed(struct ip_session_parser *p)
{
	struct ip_recording *s = p->session;

	if (ip_session_number(p, 1, UINT64_MAX, &s->trimmed_from) < 0 ||
	    ip_session_number(p, 2, UINT64_MAX, &s->trimmed_to) < 0)
		return -1;
	if (s->trimmed_to < s->trimmed_from)
		return ip_session_bad(p, "a part of the trace that ends before it begins");
	s->trimmed = true;
	return 0;
}

static int parse_rotated(struct ip_session_parser *p)
{
	struct ip_recording *s = p->session;

	s->rotates = true;
	return ip_session_number(p, 1, UINT64_MAX, &s->rotated) < 0 ||
			       ip_session_number(p, 2, UINT32_MAX, &s->rotated_pieces) < 0 ||
			       ip_session_number(p, 3, UINT64_MAX, &s->rotated_packets) < 0 ||
			       ip_session_number(p, 4, UINT64_MAX, &s->rotated_bytes) < 0 ||
			       ip_session_number(p, 5, UINT64_MAX, &s->rotated_tsc) < 0
		       ? -1
		       : 0;
}

static int parse_limit(struct ip_session_parser *p)
{
	if (p->nfields < 3)
		return 0;
	p->session->limit_by = p->fields[2];
	return ip_session_number(p, 1, UINT64_MAX, &p->session->limit);
}

static int parse_kernel(struct ip_session_parser *p)
{
	if (p->nfields < 4)
		return 0;
	p->session->kernel_groups = p->fields[3];
	return ip_session_number(p, 1, UINT64_MAX, &p->session->kernel_events) < 0 ||
			       ip_session_number(p, 2, UINT64_MAX, &p->session->kernel_lost) < 0
		       ? -1
		       : 0;
}

static int parse_clock(struct ip_session_parser *p)
{
	p->session->monotonic |= p->nfields > 1 && !strcmp(p->fields[1], "monotonic");
	return 0;
}

static int parse_ends(struct ip_session_parser *p)
{
	p->session->ends |= p->nfields > 1 && !strcmp(p->fields[1], "packets");
	return 0;
}

static int parse_compressed(struct ip_session_parser *p)
{
	p->session->compressed = true;
	return ip_session_number(p, 2, UINT64_MAX, &p->session->plain);
}

static int parse_coarse(struct ip_session_parser *p)
{
	p->session->coarse = true;
	return ip_session_number(p, 1, UINT64_MAX, &p->session->late) < 0 ||
			       ip_session_number(p, 2, UINT64_MAX, &p->session->latest) < 0
		       ? -1
		       : 0;
}

static int add_text(struct ip_session_parser *p, const char ***texts, size_t *n)
{
	if (ip_array_grow(texts, *n, sizeof(**texts)) < 0)
		return -1;
	(*texts)[(*n)++] = p->nfields > 1 ? p->fields[1] : "";
	return 0;
}

static int parse_filter(struct ip_session_parser *p)
{
	return add_text(p, &p->session->filters, &p->session->nfilters);
}

static int parse_selection(struct ip_session_parser *p)
{
	return add_text(p, &p->session->selections, &p->session->nselections);
}

static int parse_payload(struct ip_session_parser *p)
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
				return ip_session_bad(p, "not a list of numbers");
			for (uint64_t n = first; n <= last && n < s->nnumbers; n++)
				s->numbers[n].payload = kind;
			s->payloads |= kind != IP_RECORDING_LOG;
		}
	}
	return 0; /* a payload of a newer version: the function has logged nothing */
}

static int parse_change(struct ip_session_parser *p)
{
	uint64_t tsc = 0;
	const char *wrong;

	if (ip_session_number(p, 1, UINT64_MAX, &tsc) < 0)
		return -1;
	wrong = ip_changes_add(&p->session->changes, p->session, !strcmp(p->fields[0], "removed"),
			       tsc, p->nfields > 2 ? p->fields[2] : "");
	return wrong ? ip_session_bad(p, wrong) : 0;
}

static int parse_dropped(struct ip_session_parser *p)
{
	struct ip_recording *s = p->session;
	struct ip_recording_drop drop = {.counted =
						 p->nfields > 3 && !strcmp(p->fields[3], "count")};
	uint64_t num;

	if (ip_session_number(p, 1, UINT64_MAX, &drop.tsc) < 0 ||
	    ip_session_number(p, 2, IP_NUMBER_MAX, &num) < 0 ||
	    ip_session_number(p, 4, UINT64_MAX, &drop.per_second) < 0 ||
	    ip_session_number(p, 5, UINT64_MAX, &drop.own_ticks) < 0 ||
	    ip_session_number(p, 6, 100, &drop.percent) < 0 ||
	    ip_array_grow(&s->drops, s->ndrops, sizeof(*s->drops)) < 0)
		return -1;
	drop.function = ip_recording_number(s, num).function;
	s->payloads |= drop.counted;
	s->drops[s->ndrops++] = drop;
	return 0;
}

static int parse_library(struct ip_session_parser *p)
{
	struct ip_recording *s = p->session;
	struct ip_recording_library library = {.unload = p->fields[0][0] == 'u'};

	if (p->nfields < 5)
		return ip_session_bad(p, "a library needs time, load bias, build-id and path");
	if (ip_session_number(p, 1, UINT64_MAX, &library.tsc) < 0 ||
	    ip_session_number(p, 2, UINT64_MAX, &library.load_bias) < 0 ||
	    ip_array_grow(&s->libraries, s->nlibraries, sizeof(*s->libraries)) < 0)
		return -1;
	library.build_id = p->fields[3];
	library.path = p->fields[4];
	s->libraries[s->nlibraries++] = library;
	return 0;
}

static int parse_other(struct ip_session_parser *p)
{
	struct ip_recording *s = p->session;
	struct ip_recording_module other = {.placement = "", .present = true};

	if (p->nfields < 4 || s->nothers >= IP_RECORDING_MODULES)
		return ip_session_bad(p, "no sensible file without probes");
	if (ip_session_number(p, 1, UINT64_MAX, &other.load_bias) < 0 ||
	    ip_array_grow(&s->others, s->nothers, sizeof(*s->others)) < 0)
		return -1;
	other.build_id = p->fields[2];
	other.path = p->fields[3];
	s->others[s->nothers++] = other;
	return 0;
}

static int parse_signature(struct ip_session_parser *p)
{
	struct ip_recording *s = p->session;
	uint64_t id;

	if (ip_session_number(p, 1, IP_RECORDING_SIGNATURES, &id) < 0)
		return -1;
	if (!id || p->nfields < 3)
		return ip_session_bad(p, "a signature needs a number and a text");
	while (s->nsignatures < id) {
		if (ip_array_grow(&s->signatures, s->nsignatures, sizeof(*s->signatures)) < 0)
			return -1;
		s->signatures[s->nsignatures++] = (struct ip_signature){0};
	}
	/* A signature that a newer version has written is left out: its values are not shown. */
	if (!s->signatures[id - 1].n &&
	    ip_signature_parse(p->fields[2], &s->signatures[id - 1]) < 0)
		s->signatures[id - 1].n = 0;
	return 0;
}

int ip_session_parse_line(struct ip_session_parser *p)
{
	struct ip_recording *s = p->session;
	const char *key = p->fields[0];
	const struct {
		const char *key;
		const char **text;
	} texts[] = {{"host", &s->host},
		     {"kernel", &s->kernel},
		     {"command", &s->command},
		     {"boot", &s->boot},
		     {"until", &s->until},
		     {"end", &s->end},
		     {"kernel_source", &s->kernel_source}};
	const struct {
		const char *key;
		uint64_t *value;
	} numbers[] = {{"pid", &s->pid},
		       {"start_realtime", &s->start_realtime},
		       {"tsc_start", &s->tsc_start},
		       {"tsc_end", &s->tsc_end},
		       {"idle", &s->tsc_idle},
		       {"tsc_hz", &s->tsc_hz},
		       {"events", &s->events},
		       {"lost", &s->lost},
		       {"more_stops", &s->more_stops},
		       {"more_stops_ns", &s->more_stops_ns},
		       {"more_stops_longest_ns", &s->more_stops_longest_ns},
		       {"unserved", &s->unserved},
		       {"invalid", &s->invalid},
		       {"overwritten", &s->overwritten},
		       {"filtered", &s->filtered}};
	const struct {
		const char *key;
		int (*parse)(struct ip_session_parser *p);
	} parsers[] = {{"module", ip_session_parse_module},
		       {"function", ip_session_parse_function},
		       {"silent", ip_session_parse_silent},
		       {"shown", ip_session_parse_silent},
		       {"tails", ip_session_parse_silent},
		       {"jump", ip_session_parse_jump},
		       {"stop", parse_stop},
		       {"looks", parse_looks},
		       {"thread", ip_session_parse_thread},
		       {"process", ip_session_parse_process},
		       {"stack", ip_session_parse_stack},
		       {"no_events", parse_no_events},
		       {"live", parse_live},
		       {"exec", parse_exec},
		       {"again", parse_resumed},
		       {"missing", parse_missing},
		       {"filter", parse_filter},
		       {"selection", parse_selection},
		       {"payload", parse_payload},
		       {"dropped", parse_dropped},
		       {"added", parse_change},
		       {"removed", parse_change},
		       {"other", parse_other},
		       {"load", parse_library},
		       {"unload", parse_library},
		       {"signature", parse_signature},
		       {"trimmed", parse_trimmed},
		       {"coarse", parse_coarse},
		       {"compressed", parse_compressed},
		       {"rotated", parse_rotated},
		       {"ends", parse_ends},
		       {"clock", parse_clock},
		       {"limit", parse_limit},
		       {"kernel_events", parse_kernel}};

	for (size_t i = 0; i < sizeof(parsers) / sizeof(parsers[0]); i++)
		if (!strcmp(key, parsers[i].key))
			return parsers[i].parse(p);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (!strcmp(key, texts[i].key) && p->nfields > 1)
			*texts[i].text = p->fields[1];
	s->overwrites |= !strcmp(key, "overwritten");
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (!strcmp(key, numbers[i].key))
			return ip_session_number(p, 1, UINT64_MAX, numbers[i].value);
	return 0;
}
