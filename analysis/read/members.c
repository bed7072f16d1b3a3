/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts recordings together. See members.h.
 *
 * Everything that a member's numbers and indexes point to was checked when its session file was
 * parsed; here indexes are translated by tables that cover all of them.
 */
#include "analysis/read/members.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/read/session_parser.h"
#include "common/array.h"
#include "common/error.h"
#include "common/trace/end_reason.h"

/* Members of which it is tried whether they have the same tables. */
#define ALIKE 16u

void ip_recording_members_destroy(struct ip_recording_members *members)
{
	if (!members)
		return;
	for (size_t i = 0; i < members->n; i++) {
		struct ip_recording_member *m = &members->items[i];

		ip_changes_clear(&m->changes);
		ip_recording_destroy(m->own);
		free(m->functions);
		free(m->modules);
		free(m->name);
	}
	free(members->items);
	free(members->service);
	free(members->kernel_groups);
	free(members->kernel_source);
	free(members);
}

const struct ip_changes *ip_recording_changes(const struct ip_recording *s, uint32_t member)
{
	return s->members ? &s->members->items[member].changes : &s->changes;
}

static bool differ(const char *a, const char *b)
{
	return a && b && strcmp(a, b);
}

/* The time of the boot by the wall clock, in ns, as far as the start of the recording tells it. */
static double boot_ns(const struct ip_recording *s)
{
	return (double)s->start_realtime - s->tsc_start * 1e9 / s->tsc_hz;
}

/* The wall clock may be set, and its distance to the TSC is known only as well as the frequency.
 * Beyond this distance the TSC has begun anew. */
#define BOOT_NS	  10e9
#define BOOT_PART 1e-3

const char *ip_recording_other_clock(const struct ip_recording *a, const struct ip_recording *b)
{
	static _Thread_local char why[160];
	double far;

	if (a->monotonic != b->monotonic)
		snprintf(why, sizeof(why), "its times are those of %s, the others' those of %s",
			 b->monotonic ? "CLOCK_MONOTONIC_RAW" : "the TSC",
			 a->monotonic ? "CLOCK_MONOTONIC_RAW" : "the TSC");
	else if (a->boot && b->boot)
		return strcmp(a->boot, b->boot) ? "it was recorded on another machine, or before "
						  "or after a boot of this one"
						: NULL;
	else if (differ(a->host, b->host))
		snprintf(why, sizeof(why), "it was recorded on host %.40s, the others on %.40s",
			 b->host, a->host);
	else if (differ(a->kernel, b->kernel))
		return "it was recorded under another kernel";
	else if (a->tsc_hz > b->tsc_hz + b->tsc_hz * BOOT_PART ||
		 b->tsc_hz > a->tsc_hz + a->tsc_hz * BOOT_PART)
		snprintf(why, sizeof(why), "its clock runs at %.3f MHz, that of the others at %.3f",
			 b->tsc_hz / 1e6, a->tsc_hz / 1e6);
	else if (a->start_realtime && b->start_realtime) {
		far = boot_ns(a) - boot_ns(b);
		/* both have the same error of the frequency, which counts for the time between */
		if ((far < 0 ? -far : far) <=
		    BOOT_NS + BOOT_PART * ((double)a->start_realtime > (double)b->start_realtime
						   ? a->start_realtime - b->start_realtime
						   : b->start_realtime - a->start_realtime))
			return NULL;
		return "it was recorded before or after a boot of the machine";
	} else {
		return NULL;
	}
	return why;
}

/* An index of modules: by path and build-id the first one, and by load bias, too, each one. */
struct module_index {
	uint32_t *slots; /* index of a module + 1; 0: free */
	size_t size;
};

static uint64_t hash_text(uint64_t h, const char *text)
{
	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001b3ull;
	return h ^ h >> 29;
}

static bool same_module(const struct ip_recording_module *a, const struct ip_recording_module *b)
{
	return !strcmp(a->path, b->path) && !strcmp(a->build_id, b->build_id);
}

static int index_modules(struct module_index *index, const struct ip_recording_members *members)
{
	size_t n = 0;

	for (size_t i = 0; i < members->n; i++)
		n += members->items[i].own->nmodules;
	for (index->size = 64; index->size < 4 * n + 4;)
		index->size *= 2;
	index->slots = calloc(index->size, sizeof(*index->slots));
	return index->slots ? 0 : ip_error("out of memory");
}

/* Returns the slot of the module where it is loaded at this bias (any: of the first one of its path
 * and build-id), or the free slot where it belongs. */
static uint32_t *module_slot(const struct ip_recording *s, const struct module_index *index,
			     const struct ip_recording_module *own, bool any)
{
	uint64_t h = hash_text(hash_text(0xcbf29ce484222325ull, own->path), own->build_id);
	size_t at;

	if (!any)
		h = (h ^ own->load_bias) * 0x9e3779b97f4a7c15ull >> 7;
	for (at = h & (index->size - 1); index->slots[at]; at = (at + 1) & (index->size - 1)) {
		uint32_t i = index->slots[at] - 1;

		if (same_module(&s->modules[i], own) &&
		    (any ? s->modules[i].same_as == i : s->modules[i].load_bias == own->load_bias))
			break;
	}
	return &index->slots[at];
}

/* Finds the module, loaded where the member has it; adds it where it is new. */
static int join_module(struct ip_recording *s, struct module_index *index, uint32_t member,
		       const struct ip_recording_module *own, uint32_t *ret)
{
	uint32_t *slot = module_slot(s, index, own, false), *first;

	if (*slot) {
		*ret = *slot - 1;
		return 0;
	}
	if (ip_array_grow(&s->modules, s->nmodules, sizeof(*s->modules)) < 0)
		return -1;
	first = module_slot(s, index, own, true);
	*ret = s->nmodules++;
	s->modules[*ret] = *own;
	s->modules[*ret].member = member;
	s->modules[*ret].same_as = *first ? *first - 1 : *ret;
	if (!*first)
		*first = *ret + 1;
	/* the slot may have been taken for the first one */
	*module_slot(s, index, own, false) = *ret + 1;
	return 0;
}

static int join_modules(struct ip_recording *s, struct module_index *index, uint32_t member)
{
	struct ip_recording_member *m = &s->members->items[member];

	m->modules = calloc(m->own->nmodules + 1, sizeof(*m->modules));
	if (!m->modules)
		return ip_error("out of memory");
	for (size_t i = 0; i < m->own->nmodules; i++) {
		m->modules[i] = IP_NO_MODULE;
		if (m->own->modules[i].present &&
		    join_module(s, index, member, &m->own->modules[i], &m->modules[i]) < 0)
			return -1;
	}
	m->others = s->nothers;
	m->nothers = m->own->nothers;
	for (size_t i = 0; i < m->own->nothers; i++) {
		if (ip_array_grow(&s->others, s->nothers, sizeof(*s->others)) < 0)
			return -1;
		s->others[s->nothers] = m->own->others[i];
		s->others[s->nothers++].member = member;
	}
	return 0;
}

static int join_functions(struct ip_recording *s, struct ip_recording_member *m)
{
	m->functions = calloc(m->own->nfunctions, sizeof(*m->functions));
	if (!m->functions)
		return ip_error("out of memory");
	for (size_t i = 1; i < m->own->nfunctions; i++) {
		const struct ip_recording_function *own = &m->own->functions[i];
		uint32_t module = s->modules[m->modules[own->module]].same_as, f;
		struct ip_recording_function *joined;

		f = ip_recording_add_function(s, module, own->linker_name);
		if (!f)
			return -1;
		joined = &s->functions[f];
		if (!joined->file) {
			joined->file = own->file;
			joined->line = own->line;
		}
		joined->returns |= own->returns;
		joined->tails |= own->tails;
		m->functions[i] = f;
	}
	return 0;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static bool same_signature(const struct ip_signature *a, const struct ip_signature *b)
{
	bool same = a->n == b->n;

	for (unsigned i = 0; same && i < a->n; i++) {
		const struct ip_value_type *x = &a->values[i], *y = &b->values[i];

		same = x->code == y->code && x->size == y->size && same_text(x->name, y->name) &&
		       same_text(x->enumerators, y->enumerators);
	}
	return same;
}

static bool same_signatures(const struct ip_recording *a, const struct ip_recording *b)
{
	bool same = a->nsignatures == b->nsignatures;

	for (size_t i = 0; same && i < a->nsignatures; i++)
		same = same_signature(&a->signatures[i], &b->signatures[i]);
	return same;
}

static int join_signatures(struct ip_recording *s, size_t member)
{
	struct ip_recording_member *m = &s->members->items[member];
	const struct ip_recording *own = m->own;

	m->most_signature = own->nsignatures;
	for (size_t i = member; i-- > 0 && member - i <= ALIKE;)
		if (same_signatures(own, s->members->items[i].own)) {
			m->signatures = s->members->items[i].signatures;
			return 0;
		}
	m->signatures = s->nsignatures;
	if (s->nsignatures + own->nsignatures + 1 > IP_MEMBERS_SIGNATURES)
		return ip_error("the processes have too many signatures of values together: read "
				"their traces one by one");
	/* the one behind the last is for numbers that are not known */
	for (size_t i = 0; i <= own->nsignatures; i++) {
		if (ip_array_grow(&s->signatures, s->nsignatures, sizeof(*s->signatures)) < 0)
			return -1;
		s->signatures[s->nsignatures++] =
			i < own->nsignatures ? own->signatures[i] : (struct ip_signature){0};
	}
	return 0;
}

static struct ip_recording_number joined_number(const struct ip_recording_member *m, uint32_t n)
{
	struct ip_recording_number number = ip_recording_number(m->own, n);

	number.function = m->functions[number.function];
	return number;
}

static bool same_number(struct ip_recording_number a, struct ip_recording_number b)
{
	return a.function == b.function && a.room == b.room && a.entry_only == b.entry_only &&
	       a.payload == b.payload && a.jumps == b.jumps && a.silent == b.silent &&
	       a.changes == b.changes;
}

static bool same_numbers(const struct ip_recording_member *a, const struct ip_recording_member *b)
{
	bool same = a->most == b->most && a->own->njumps == b->own->njumps;

	for (size_t i = 0; same && i < a->own->njumps; i++)
		same = a->own->jumps[i].number == b->own->jumps[i].number &&
		       a->functions[a->own->jumps[i].to] == b->functions[b->own->jumps[i].to];
	for (uint32_t i = 0; same && i <= a->most; i++)
		same = same_number(joined_number(a, i), joined_number(b, i));
	return same;
}

/* Makes room for more numbers. */
static int reserve_numbers(struct ip_recording *s, size_t *room, size_t more)
{
	struct ip_recording_number *grown;
	size_t n = *room ? *room : 1024;

	if (s->nnumbers + more > IP_MEMBERS_NUMBERS)
		return ip_error("the processes have too many functions together: read their traces "
				"one by one");
	while (n < s->nnumbers + more)
		n *= 2;
	if (n == *room)
		return 0;
	grown = reallocarray(s->numbers, n, sizeof(*grown));
	if (!grown)
		return ip_error("out of memory");
	s->numbers = grown;
	*room = n;
	return 0;
}

static int join_numbers(struct ip_recording *s, size_t member, size_t *room)
{
	struct ip_recording_member *m = &s->members->items[member];
	const struct ip_recording *own = m->own;

	m->most = own->nnumbers ? own->nnumbers - 1 : 0;
	while (m->most && !own->numbers[m->most].function)
		m->most--;
	for (size_t i = member; i-- > 0 && member - i <= ALIKE;)
		if (same_numbers(m, &s->members->items[i])) {
			m->numbers = s->members->items[i].numbers;
			return 0;
		}
	if (reserve_numbers(s, room, m->most + 2) < 0)
		return -1;
	m->numbers = s->nnumbers;
	for (uint32_t i = 0; i <= m->most; i++)
		s->numbers[s->nnumbers++] = joined_number(m, i);
	s->numbers[s->nnumbers++] = (struct ip_recording_number){0}; /* unknown ones */
	for (size_t i = 0; i < own->njumps; i++) {
		if (ip_array_grow(&s->jumps, s->njumps, sizeof(*s->jumps)) < 0)
			return -1;
		s->jumps[s->njumps++] = (struct ip_recording_jump){
			m->numbers + own->jumps[i].number, m->functions[own->jumps[i].to]};
	}
	return 0;
}

#define APPEND(list, n, item)                                                                      \
	(ip_array_grow(&(list), (n), sizeof(*(list))) < 0 ? -1 : ((list)[(n)++] = (item), 0))

static int join_lists(struct ip_recording *s, uint32_t member)
{
	struct ip_recording_member *m = &s->members->items[member];
	const struct ip_recording *own = m->own;
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < own->nstops; i++) {
		struct ip_recording_stop stop = own->stops[i];

		stop.member = member;
		ret = APPEND(s->stops, s->nstops, stop);
	}
	m->stacks = s->nstacks;
	for (size_t i = 0; ret == 0 && i < own->nstacks; i++) {
		struct ip_recording_stack stack = own->stacks[i];

		stack.first += s->nstack_frames;
		ret = APPEND(s->stacks, s->nstacks, stack);
	}
	for (size_t i = 0; ret == 0 && i < own->nstack_frames; i++) {
		struct ip_recording_stack_frame frame = own->stack_frames[i];

		frame.number = ip_member_number(m, frame.number);
		ret = APPEND(s->stack_frames, s->nstack_frames, frame);
	}
	for (size_t i = 0; ret == 0 && i < own->nthreads; i++) {
		struct ip_recording_thread thread = own->threads[i];

		thread.member = member;
		ret = APPEND(s->threads, s->nthreads, thread);
	}
	for (size_t i = 0; ret == 0 && i < own->nexecs; i++) {
		struct ip_recording_exec exec = own->execs[i];

		exec.member = member;
		ret = APPEND(s->execs, s->nexecs, exec);
	}
	for (size_t i = 0; ret == 0 && i < own->nmissing; i++) {
		struct ip_recording_missing missing = own->missing[i];

		missing.member = member;
		missing.number = ip_member_number(m, missing.number);
		ret = APPEND(s->missing, s->nmissing, missing);
	}
	for (size_t i = 0; ret == 0 && i < own->ndrops; i++) {
		struct ip_recording_drop drop = own->drops[i];

		drop.member = member;
		drop.function = m->functions[drop.function];
		ret = APPEND(s->drops, s->ndrops, drop);
	}
	for (size_t i = 0; ret == 0 && i < own->nlibraries; i++) {
		struct ip_recording_library library = own->libraries[i];

		library.member = member;
		ret = APPEND(s->libraries, s->nlibraries, library);
	}
	return ret;
}

/* Adds texts that are not there yet: what was selected is mostly the same for all. */
static int join_texts(const char ***texts, size_t *n, const char *const *own, size_t nown)
{
	for (size_t i = 0; i < nown; i++) {
		bool there = false;

		for (size_t k = 0; k < *n && !there; k++)
			there = !strcmp((*texts)[k], own[i]);
		if (!there && APPEND(*texts, *n, own[i]) < 0)
			return -1;
	}
	return 0;
}

/* Why there are no events: where no member has any. */
static int join_reasons(struct ip_recording *s)
{
	for (size_t i = 0; i < s->members->n; i++)
		if (!s->members->items[i].own->nno_events)
			return 0;
	for (size_t i = 0; i < s->members->n; i++) {
		const struct ip_recording *own = s->members->items[i].own;

		for (size_t k = 0; k < own->nno_events; k++) {
			const struct ip_recording_reason *reason = &own->no_events[k];
			bool there = false;

			for (size_t n = 0; n < s->nno_events && !there; n++)
				there = !strcmp(s->no_events[n].text, reason->text);
			if (!there && APPEND(s->no_events, s->nno_events, *reason) < 0)
				return -1;
		}
	}
	return 0;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t length_of(const struct ip_recording *s)
{
	return s->tsc_end ? s->tsc_end - s->tsc_start : 0;
}

/* How much the end of a member tells of the end of the whole. A condition in one member ends the
 * others, which tell that they were interrupted. */
static int weight_of_end(const struct ip_recording *own)
{
	const enum ip_end_reason reason = ip_end_reason_of(own->end);

	if (ip_end_reason_is_early(reason))
		return 2;
	return own->until || reason == IP_END_STOP_ON;
}

/* Whether the end of a member tells more than the end that the whole has until now: of members that
 * ended early the first one does; of those that met a condition the one that did so first; of
 * others the one that ended last. */
static bool tells_more(const struct ip_recording *s, const struct ip_recording *own)
{
	const struct ip_recording *best = s->members->items[s->end_member].own;
	const int weight = weight_of_end(own), least = weight_of_end(best);

	if (weight != least)
		return weight > least;
	return weight == 1   ? own->tsc_end < best->tsc_end
	       : weight == 0 ? own->tsc_end > best->tsc_end
			     : false;
}

/* The times of the whole, and why it ended. */
static void join_times(struct ip_recording *s, uint32_t member, uint64_t *longest)
{
	const struct ip_recording *own = s->members->items[member].own;
	const bool first = member == 0;

	if (first || own->tsc_start < s->tsc_start) {
		s->tsc_start = own->tsc_start;
		s->start_realtime = own->start_realtime;
	}
	/* the longest recording has the best reading of the frequency */
	if (first || length_of(own) > *longest) {
		s->tsc_hz = own->tsc_hz;
		*longest = length_of(own);
	}
	if (first || tells_more(s, own)) {
		s->end_member = member;
		s->end = own->end;
		s->until = own->until;
		s->limit = own->limit;
		s->limit_by = own->limit_by;
	}
	/* from when one of them was live, until none was */
	s->tsc_live = (first || s->tsc_live) && own->tsc_live
			      ? (first || own->tsc_live < s->tsc_live ? own->tsc_live : s->tsc_live)
			      : 0;
	s->tsc_idle =
		(first || s->tsc_idle) && own->tsc_idle ? most(s->tsc_idle, own->tsc_idle) : 0;
	s->tsc_end = (first || s->tsc_end) && own->tsc_end ? most(s->tsc_end, own->tsc_end) : 0;
	s->ended = (first || s->ended) && own->ended;
	if (!s->ended)
		s->end = s->until = NULL;
}

static int join_figures(struct ip_recording *s, uint32_t member, uint64_t *longest)
{
	const struct ip_recording *own = s->members->items[member].own;
	const bool first = member == 0;

	join_times(s, member, longest);
	if (first) {
		s->host = own->host;
		s->kernel = own->kernel;
		s->boot = own->boot;
		s->command = own->command;
		s->pid = own->pid;
		s->monotonic = own->monotonic;
		s->ends = own->ends;
	}
	if (differ(s->command, own->command))
		s->command = NULL;
	s->ends &= own->ends;
	s->overwrites |= own->overwrites;
	s->rotates |= own->rotates;
	s->compressed |= own->compressed;
	s->coarse |= own->coarse;
	s->trimmed |= own->trimmed;
	s->payloads |= own->payloads;
	s->overwritten = sum(s->overwritten, own->overwritten);
	s->rotated = sum(s->rotated, own->rotated);
	s->rotated_pieces = sum(s->rotated_pieces, own->rotated_pieces);
	s->rotated_packets = sum(s->rotated_packets, own->rotated_packets);
	s->rotated_bytes = sum(s->rotated_bytes, own->rotated_bytes);
	s->rotated_lost = sum(s->rotated_lost, own->rotated_lost);
	s->rotated_tsc = most(s->rotated_tsc, own->rotated_tsc);
	s->plain = sum(s->plain, own->plain);
	s->filtered = sum(s->filtered, own->filtered);
	s->events = sum(s->events, own->events);
	s->lost = sum(s->lost, own->lost);
	s->unserved = sum(s->unserved, own->unserved);
	s->invalid = sum(s->invalid, own->invalid);
	s->late = most(s->late, own->late);
	s->latest = most(s->latest, own->latest);
	s->more_stops = sum(s->more_stops, own->more_stops);
	s->more_stops_ns = sum(s->more_stops_ns, own->more_stops_ns);
	s->more_stops_longest_ns = most(s->more_stops_longest_ns, own->more_stops_longest_ns);
	s->looks = sum(s->looks, own->looks);
	s->looks_ns = sum(s->looks_ns, own->looks_ns);
	s->looks_longest_ns = most(s->looks_longest_ns, own->looks_longest_ns);
	return join_texts(&s->filters, &s->nfilters, own->filters, own->nfilters) < 0 ||
			       join_texts(&s->selections, &s->nselections, own->selections,
					  own->nselections) < 0
		       ? -1
		       : 0;
}

/* Orders the changes of a member by the functions of the whole. */
static int join_changes(const struct ip_recording *s, struct ip_recording_member *m)
{
	const struct ip_changes *own = &m->own->changes;
	struct ip_changes *c = &m->changes;

	if (!own->starts)
		return 0;
	c->removals = calloc(own->nremovals + 1, sizeof(*c->removals));
	c->times = calloc(own->n + 1, sizeof(*c->times));
	c->starts = calloc(s->nfunctions + 1, sizeof(*c->starts));
	if (!c->removals || !c->times || !c->starts)
		return ip_error("out of memory");
	if (own->nremovals)
		memcpy(c->removals, own->removals, own->nremovals * sizeof(*c->removals));
	c->nremovals = own->nremovals;
	c->n = own->n;
	/* each function of the member is another one in the whole */
	for (size_t f = 0; f < m->own->nfunctions; f++)
		c->starts[m->functions[f] + 1] = own->starts[f + 1] - own->starts[f];
	for (size_t f = 0; f < s->nfunctions; f++)
		c->starts[f + 1] += c->starts[f];
	for (size_t f = 0; f < m->own->nfunctions; f++)
		memcpy(c->times + c->starts[m->functions[f]], own->times + own->starts[f],
		       (own->starts[f + 1] - own->starts[f]) * sizeof(*c->times));
	return 0;
}

static int by_stop(const void *a, const void *b)
{
	const struct ip_recording_stop *x = a, *y = b;

	if (x->tsc != y->tsc)
		return x->tsc < y->tsc ? -1 : 1;
	return (x->member > y->member) - (x->member < y->member);
}

static int by_library(const void *a, const void *b)
{
	const struct ip_recording_library *x = a, *y = b;

	if (x->tsc != y->tsc)
		return x->tsc < y->tsc ? -1 : 1;
	return (x->member > y->member) - (x->member < y->member);
}

static int join_all(struct ip_recording *s)
{
	struct module_index index = {0};
	uint64_t longest = 0;
	size_t room = 0;
	int ret = index_modules(&index, s->members);

	for (size_t i = 0; ret == 0 && i < s->members->n; i++) {
		struct ip_recording_member *m = &s->members->items[i];

		if (join_modules(s, &index, i) < 0 || join_functions(s, m) < 0 ||
		    join_numbers(s, i, &room) < 0 || join_signatures(s, i) < 0 ||
		    join_lists(s, i) < 0 || join_figures(s, i, &longest) < 0)
			ret = -1;
	}
	for (size_t i = 0; ret == 0 && i < s->members->n; i++)
		ret = join_changes(s, &s->members->items[i]);
	free(index.slots);
	if (ret < 0 || join_reasons(s) < 0)
		return -1;
	ip_recording_sort_jumps(s);
	ip_recording_index_threads(s);
	if (s->nstops)
		qsort(s->stops, s->nstops, sizeof(*s->stops), by_stop);
	if (s->nlibraries)
		qsort(s->libraries, s->nlibraries, sizeof(*s->libraries), by_library);
	return 0;
}

int ip_recording_join(struct ip_recording_members *members, struct ip_recording **ret)
{
	struct ip_recording *s = calloc(1, sizeof(*s));

	if (!s) {
		ip_recording_members_destroy(members);
		return ip_error("out of memory");
	}
	s->members = members;
	s->functions = calloc(1, sizeof(*s->functions));
	if (!s->functions) {
		ip_recording_destroy(s);
		return ip_error("out of memory");
	}
	s->functions[0] =
		(struct ip_recording_function){.linker_name = "[unknown]", .module = IP_NO_MODULE};
	s->nfunctions = 1;
	if (ip_recording_grow_index(s) < 0 || join_all(s) < 0) {
		ip_recording_destroy(s);
		return -1;
	}
	s->trimmed_from = s->tsc_start;
	s->trimmed_to = s->tsc_end;
	*ret = s;
	return 0;
}
