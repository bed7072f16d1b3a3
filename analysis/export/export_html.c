/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the page: the parts of analysis/export/html/ around one JSON document, which holds what
 * the page draws. The document is bounded, whatever the size of the trace: the longest stays,
 * sums of all other stays, the heaviest call paths and functions. What was left out is counted,
 * and the page shows the count.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/export/export.h"
#include "analysis/export/html_document.h"
#include "analysis/export/html_latency.h"
#include "analysis/export/html_processes.h"
#include "analysis/export/html_waits.h"
#include "analysis/export/timeline.h"
#include "analysis/export/timeline_details.h"
#include "analysis/profile/calltree.h"
#include "analysis/profile/latency/latency.h"
#include "analysis/profile/stats.h"
#include "analysis/profile/tree_compare.h"
#include "analysis/read/members.h"
#include "analysis/read/names.h"
#include "analysis/wait/idle/idle_tree.h"
#include "analysis/wait/trace_waits.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"

#define STAYS	  100000u
#define SLICES	  1024u
#define NODES	  50000u
#define LATENCIES 200u /* functions with a histogram */
#define HEAT	  96u  /* columns of a heat map */
#define UNUSED	  UINT32_MAX

struct page {
	struct ip_trace_reader *trace;
	const struct ip_export_options *options;
	struct ip_names *names, *other_names;
	FILE *out;
	struct ip_stats *stats;
	struct ip_calltree *tree;
	struct ip_tree_threads *threads; /* of its first level; NULL: not told apart */
	struct ip_timeline *timeline;
	struct ip_timeline_details *details;
	struct ip_latencies *latencies;
	struct ip_tree_compare *other; /* the comparison with the other trace; NULL: none */
	/* functions of the session, followed by those that only the other trace has */
	uint32_t nfunctions;
	uint32_t *shown; /* by function: its index in the page; UNUSED: it is not in the page */
	bool *ranked;	 /* by function of the session: it has a histogram */
	/* functions that have no histogram because there are too many functions */
	uint32_t unranked;
	struct ip_idle_waits idle; /* set aside */
	uint64_t began, ended;	   /* the recording, TSC */
	uint64_t recorded;	   /* for how long, ticks */
	const char *separator;
};

static uint64_t ns(const struct page *p, uint64_t ticks)
{
	return ip_recording_ns(p->trace->session, ticks);
}

static void put_string(struct page *p, const char *text)
{
	_cleanup_free_ char *quoted = NULL;
	size_t size = 0;
	FILE *memory = open_memstream(&quoted, &size);
	struct ip_json j;

	if (memory) {
		ip_json_init(&j, memory);
		ip_json_string(&j, NULL, text);
	}
	if (!memory || fclose(memory) != 0 || !quoted) {
		fputs("null", p->out);
		return;
	}
	ip_html_put_json(p->out, quoted);
}

static void put_field(struct page *p, const char *key, const char *text)
{
	fprintf(p->out, "%s\"%s\":", p->separator, key);
	put_string(p, text);
	p->separator = ",";
}

static void put_number(struct page *p, const char *key, uint64_t value)
{
	fprintf(p->out, "%s\"%s\":%" PRIu64, p->separator, key, value);
	p->separator = ",";
}

static bool is_used(const struct page *p, uint32_t function)
{
	const struct ip_call_stats *f;

	if (function >= p->trace->session->nfunctions)
		return !ip_tree_thread_of(p->threads, function);
	f = &p->stats->items[function];
	return p->options->selected[function] && (f->calls || f->points || f->earlier);
}

static int choose_functions(struct page *p)
{
	uint32_t n = 0;

	p->shown = malloc((p->nfunctions + 1) * sizeof(*p->shown));
	if (!p->shown)
		return ip_error("out of memory");
	for (uint32_t i = 0; i < p->nfunctions; i++)
		p->shown[i] = UNUSED;
	for (uint32_t i = 0; i < p->nfunctions; i++)
		if (is_used(p, i))
			p->shown[i] = n++;
	*p->options->unchosen = n ? 0 : p->stats->events;
	/* call paths lead through functions that were not selected */
	for (uint32_t i = 1; i < p->tree->n; i++)
		if (p->shown[p->tree->nodes[i].function] == UNUSED)
			p->shown[p->tree->nodes[i].function] = n++;
	return 0;
}

/* Returns whether functions were called that were not selected. */
static bool is_selection(const struct page *p)
{
	for (size_t i = 0; i < p->stats->nitems; i++)
		if ((p->stats->items[i].calls || p->stats->items[i].earlier) &&
		    !p->options->selected[i])
			return true;
	return false;
}

static int put_meta(struct page *p)
{
	const struct ip_recording *s = p->trace->session;
	_cleanup_free_ char *processes = ip_html_processes(p->trace);
	char when[64];

	ip_html_start(s, when);
	fputs("{\"meta\":{", p->out);
	p->separator = "";
	put_field(p, "dir", p->trace->dir);
	put_field(p, "host", s->host);
	put_field(p, "command", s->command);
	put_field(p, "start", when);
	put_field(p, "version", IP_VERSION);
	put_number(p, "pid", s->pid);
	put_field(p, "service", s->members ? s->members->service : NULL);
	put_number(p, "recorded", ns(p, p->recorded));
	/* times of the page count from there; dump and trim count from the start of the session */
	put_number(p, "begin", ip_recording_since_start(s, p->trace->begin));
	put_number(p, "duration", ns(p, p->timeline->ticks));
	put_number(p, "events", p->stats->events);
	put_number(p, "lost", p->trace->lost);
	put_number(p, "invalid", s->invalid);
	put_number(p, "threads", p->trace->threads);
	put_number(p, "processes", p->trace->processes);
	put_number(p, "probed", s->nfunctions - 1);
	put_number(p, "late", s->coarse ? ns(p, s->late) : 0);
	put_number(p, "damaged", p->trace->ndamages);
	put_number(p, "summed", p->timeline->summed);
	put_number(p, "deeper", p->timeline->deeper);
	put_number(p, "beyond", p->timeline->beyond);
	put_number(p, "unranked", p->unranked);
	put_number(p, "selected", is_selection(p));
	if (p->options->other) {
		put_field(p, "other", p->options->other->dir);
		put_number(p, "other_ns",
			   ip_recording_ns(p->options->other->session, p->other->ticks));
	}
	fputs("},\n\"processes\":", p->out);
	if (!processes)
		return -1;
	ip_html_put_json(p->out, processes);
	return 0;
}

static const struct ip_recording_function *function_of(const struct page *p, uint32_t i,
						       const struct ip_recording **ret_session,
						       const char **ret_name)
{
	uint32_t own = p->trace->session->nfunctions;

	*ret_session = i < own ? p->trace->session : p->options->other->session;
	*ret_name = i < own ? ip_names_shown(p->names, i)
			    : ip_names_shown(p->other_names, p->other->functions[i - own]);
	return &(*ret_session)->functions[i < own ? i : p->other->functions[i - own]];
}

/* Puts the short form of a function's name, with the note that ip_names_shown() has added, where it
 * is another one. */
static void put_short(struct page *p, uint32_t i, const char *name)
{
	const uint32_t own = p->trace->session->nfunctions,
		       function = i < own ? i : p->other->functions[i - own];
	struct ip_names *names = i < own ? p->names : p->other_names;
	const char *whole = ip_names_get(names, function), *form = ip_names_short(names, function);
	_cleanup_free_ char *text = NULL;

	if (strcmp(whole, form) && asprintf(&text, "%s%s", form, name + strlen(whole)) >= 0)
		put_field(p, "short", text);
}

static void put_function(struct page *p, uint32_t i)
{
	const struct ip_recording *session;
	const char *name;
	const struct ip_recording_function *f;

	fputs(p->separator, p->out);
	p->separator = "";
	putc('{', p->out);
	if (ip_tree_thread_of(p->threads, i)) {
		put_field(p, "name", ip_names_get(p->names, i));
		putc('}', p->out);
		p->separator = ",\n";
		return;
	}
	f = function_of(p, i, &session, &name);
	put_field(p, "name", name);
	put_short(p, i, name);
	put_field(p, "module", ip_recording_module_name(session, f));
	put_field(p, "file", f->file);
	put_number(p, "line", f->line);
	if (i < p->trace->session->nfunctions && is_used(p, i)) {
		const struct ip_call_stats *stats = &p->stats->items[i];
		struct ip_stats_summary sum;

		ip_stats_summarize(session, stats, &sum);
		put_number(p, "calls", stats->calls + stats->points);
		put_number(p, "total", sum.total);
		put_number(p, "self", sum.self);
		/* one that has no call that ended has no durations */
		if (stats->histogram.count || stats->histogram.dropped) {
			put_number(p, "min", sum.min);
			put_number(p, "avg", sum.avg);
			put_number(p, "p50", sum.p50);
			put_number(p, "p90", sum.p90);
			put_number(p, "p99", sum.p99);
			put_number(p, "p999", sum.p999);
			put_number(p, "max", sum.max);
		}
		put_number(p, "threads", stats->threads);
		put_number(p, "untilTail", stats->until_tail);
	}
	putc('}', p->out);
	p->separator = ",\n";
}

static int put_functions(struct page *p)
{
	uint32_t n = 0;
	_cleanup_free_ uint32_t *order = malloc((p->nfunctions + 1) * sizeof(*order));

	if (!order)
		return ip_error("out of memory");
	for (uint32_t i = 0; i < p->nfunctions; i++)
		if (p->shown[i] != UNUSED) {
			order[p->shown[i]] = i;
			n++;
		}
	fputs(",\n\"functions\":[", p->out);
	p->separator = "";
	for (uint32_t i = 0; i < n; i++)
		put_function(p, order[i]);
	putc(']', p->out);
	return 0;
}

static int by_weight(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

static uint64_t weight(const struct page *p, uint32_t node)
{
	uint64_t other = p->other ? p->other->nodes[node].total : 0;

	return p->tree->nodes[node].total > other ? p->tree->nodes[node].total : other;
}

/* Chooses the nodes that are in the page. Returns for each node its index in the page; *ret_n is
 * how many there are. */
static uint32_t *choose_nodes(const struct page *p, size_t *ret_n)
{
	size_t n = p->tree->n, kept = 0, ties = 0;
	_cleanup_free_ uint64_t *weights = malloc(n * sizeof(*weights));
	uint32_t *index = malloc(n * sizeof(*index));
	uint64_t least = 0;

	if (!weights || !index) {
		free(index);
		ip_error("out of memory");
		return NULL;
	}
	for (uint32_t i = 0; i < n; i++)
		weights[i] = i ? weight(p, i) : UINT64_MAX;
	if (n > NODES) {
		qsort(weights, n, sizeof(*weights), by_weight);
		least = weights[NODES];
		/* Several nodes may weigh as much as the first node that has no room. ties is
		 * how many of these have room. */
		for (ties = NODES; ties && weights[NODES - ties] > least;)
			ties--;
	}
	/* a parent has a lower index than its children */
	for (uint32_t i = 0; i < n; i++) {
		uint64_t own = i ? weight(p, i) : UINT64_MAX;

		index[i] = UNUSED;
		if ((i && index[p->tree->nodes[i].parent] == UNUSED) || own < least ||
		    (own == least && n > NODES && !ties))
			continue;
		ties -= own == least && n > NODES;
		index[i] = kept++;
	}
	*ret_n = kept;
	return index;
}

static int put_tree(struct page *p)
{
	size_t n;
	_cleanup_free_ uint32_t *index = choose_nodes(p, &n);
	const char *separator = "";

	if (!index)
		return -1;
	/* Each node: function, parent, calls, total, self. With a comparison also total and self
	 * of the other trace. */
	fprintf(p->out, ",\n\"tree\":{\"left_out\":%zu,\"width\":%d,\"nodes\":[", p->tree->n - n,
		p->other ? 7 : 5);
	for (uint32_t i = 1; i < p->tree->n; i++) {
		const struct ip_call_node *node = &p->tree->nodes[i];

		if (index[i] == UNUSED)
			continue;
		fprintf(p->out, "%s%u,%u,%" PRIu64 ",%" PRIu64 ",%" PRIu64, separator,
			p->shown[node->function], index[node->parent], node->calls,
			ns(p, node->total), ns(p, node->self));
		if (p->other) {
			const struct ip_recording *s = p->options->other->session;

			fprintf(p->out, ",%" PRIu64 ",%" PRIu64,
				ip_recording_ns(s, p->other->nodes[i].total),
				ip_recording_ns(s, p->other->nodes[i].self));
		}
		separator = ",";
	}
	fputs("]}", p->out);
	return 0;
}

static int put_latencies(struct page *p)
{
	const uint64_t from = p->latencies->slices.begin;
	const struct ip_html_latency_options options = {
		.ranked = p->ranked,
		.shown = p->shown,
		.zero_ns = p->trace->begin > from ? ns(p, p->trace->begin - from) : 0};

	_cleanup_free_ char *latency = ip_html_latency(p->latencies, &options);

	if (!latency)
		return -1;
	fputs(",\n\"latency\":", p->out);
	ip_html_put_json(p->out, latency);
	return 0;
}

static void put_row(struct page *p, uint32_t at, size_t *stay)
{
	const struct ip_timeline *t = p->timeline;
	const struct ip_timeline_row *row = &t->rows[at];
	const struct ip_trace_process *process = &p->trace->process_list[row->process];
	uint64_t last = 0;

	fprintf(p->out, "%s{\"pid\":%u,\"tid\":%u,\"depth\":%u,\"name\":", p->separator, row->pid,
		row->tid, row->depth);
	put_string(p, ip_recording_thread_name(p->trace->session, process->member, row->tid));
	if (p->trace->processes > 1) {
		fputs(",\"process\":", p->out);
		put_string(p, process->name);
	}
	/* Each stay: time since the start of the stay before, duration, function. */
	fputs(",\"stays\":[", p->out);
	for (p->separator = ""; *stay < t->nstays && t->stays[*stay].row == at;
	     (*stay)++, p->separator = ",") {
		const struct ip_timeline_call *s = &t->stays[*stay];
		uint64_t start = ns(p, s->start);

		fprintf(p->out, "%s%" PRIu64 ",%" PRIu64 ",%u", p->separator, start - last,
			ns(p, s->end) - start, p->shown[s->function]);
		last = start;
	}
	/* Each sum: slice, time, calls, function. */
	fputs("],\"sums\":[", p->out);
	p->separator = "";
	for (size_t i = 0; row->sums && i < t->nslices; i++) {
		const struct ip_timeline_sum *sum = &row->sums[i];

		if ((!sum->vote && !sum->covered && !sum->calls) ||
		    p->shown[sum->function] == UNUSED)
			continue;
		fprintf(p->out, "%s%zu,%" PRIu64 ",%u,%u", p->separator, i, ns(p, sum->covered),
			sum->calls, p->shown[sum->function]);
		p->separator = ",";
	}
	fputs("]}", p->out);
	p->separator = ",\n";
}

static void put_timeline(struct page *p)
{
	size_t stay = 0;

	fprintf(p->out, ",\n\"timeline\":{\"slices\":%zu,\"rows\":[", p->timeline->nslices);
	p->separator = "";
	for (uint32_t i = 0; i < p->timeline->nrows; i++)
		put_row(p, i, &stay);
	fputs("]}", p->out);
}

/* Spans without any call are put together with the span behind them, and so are those that the
 * limit left out. */
static void put_details(struct page *p)
{
	const struct ip_timeline_details *d = p->details;
	uint64_t calls = 0, longest = d->nspans ? ns(p, p->timeline->shortest) : 0;
	const char *separator = "";

	fprintf(p->out,
		",\n\"details\":{\"longest\":%" PRIu64 ",\"limit\":%" PRIu64 ",\"kept\":%" PRIu64
		",\"left_out\":%" PRIu64 ",\"spans\":[",
		longest, p->options->details, d->kept, d->left_out);
	/* Each span: its end, its calls, its packed text or 0. */
	for (size_t i = 0; i < d->nspans; i++) {
		const struct ip_detail_span *s = &d->spans[i];
		bool last = i + 1 == d->nspans;

		calls += s->calls;
		if (!s->packed && !last && (!s[1].packed || !calls))
			continue;
		fprintf(p->out, "%s%" PRIu64 ",%" PRIu64 ",", separator, ns(p, s->end), calls);
		if (s->packed)
			fprintf(p->out, "\"%s\"", s->packed);
		else
			putc('0', p->out);
		separator = ",\n";
		calls = 0;
	}
	fputs("]}", p->out);
}

/* A trace without events of the kernel has no such member. */
static int put_waits(struct page *p)
{
	const struct ip_html_waits_options options = {.export = p->options,
						      .threads = p->threads,
						      .shown = p->shown,
						      .nshown = p->nfunctions,
						      .idle = &p->idle};
	_cleanup_free_ char *waits = NULL;

	if (!p->options->waits)
		return 0;
	waits = ip_html_waits(p->trace, &options);
	if (!waits)
		return -1;
	fputs(",\n\"waits\":", p->out);
	ip_html_put_json(p->out, waits);
	return 0;
}

/* Sorts the longest total first. */
static int by_total(const void *a, const void *b)
{
	const struct ip_call_stats *x = *(const struct ip_call_stats *const *)a,
				   *y = *(const struct ip_call_stats *const *)b;

	return x->total != y->total ? (x->total < y->total ? 1 : -1) : (x > y) - (x < y);
}

/* Chooses the functions that have a histogram: among the selected functions with calls that have
 * ended, those with the longest total. */
static int rank(struct page *p)
{
	size_t n = p->stats->nitems, ended = 0;
	_cleanup_free_ const struct ip_call_stats **order = calloc(n + 1, sizeof(*order));

	p->ranked = calloc(n + 1, sizeof(*p->ranked));
	if (!order || !p->ranked)
		return ip_error("out of memory");
	for (size_t i = 0; i < n; i++) {
		const struct ip_call_stats *f = &p->stats->items[i];

		if (p->options->selected[i] && (f->histogram.count || f->histogram.dropped))
			order[ended++] = f;
	}
	qsort(order, ended, sizeof(*order), by_total);
	for (size_t i = 0; i < ended && i < LATENCIES; i++)
		p->ranked[order[i] - p->stats->items] = true;
	p->unranked = ended > LATENCIES ? ended - LATENCIES : 0;
	return 0;
}

static int collect(struct page *p)
{
	struct ip_calltree_options tree = {.roots = p->options->selected, .tid = p->options->tid};
	const struct ip_stats_options figures = {.by = IP_GROUP_BY_FUNCTION,
						 .tid = p->options->tid};

	struct ip_latency_options latencies = {.tid = p->options->tid};

	if ((p->options->by_thread || p->options->by_process) &&
	    (ip_tree_threads_create(p->trace, p->options->by_process, &p->threads) < 0 ||
	     ip_tree_threads_name(p->threads, p->names) < 0))
		return -1;
	tree.threads = p->threads;
	if (ip_stats_collect(p->trace, &figures, &p->stats) < 0 || rank(p) < 0)
		return -1;
	latencies.selected = p->ranked;
	latencies.slices = p->options->interval_ns
				   ? ip_latency_slices_every(p->trace, p->options->interval_ns)
				   : ip_latency_slices_equal(p->trace, HEAT);
	if (latencies.slices.n > IP_HTML_INTERVALS)
		return ip_error("%s: that are %zu intervals, and the page has %u at most: choose "
				"longer ones (--interval)",
				p->trace->dir, latencies.slices.n, IP_HTML_INTERVALS);
	if (ip_calltree_collect(p->trace, &tree, &p->tree) < 0 ||
	    ip_timeline_collect(p->trace, p->options->selected, p->options->tid, STAYS, SLICES,
				&p->timeline) < 0 ||
	    ip_latencies_collect(p->trace, &latencies, &p->latencies) < 0)
		return -1;
	/* two traces are compared as they are */
	if (p->options->waits && !p->options->idle && !p->options->other) {
		if (ip_idle_waits_find(p->trace, p->options->waits->states,
				       &p->options->waits->descriptors, &p->idle) < 0 ||
		    ip_idle_tree_fill_from(p->tree, p->trace, &p->idle) < 0)
			return -1;
		ip_calltree_take_off_idle(p->tree);
	}
	p->nfunctions = p->trace->session->nfunctions + (p->threads ? p->threads->n : 0);
	if (p->options->other) {
		if (ip_tree_compare_create(p->tree, p->trace->session, p->options->other,
					   p->options->other_selected, &p->other) < 0)
			return -1;
		p->nfunctions += p->other->nfunctions;
	}
	return choose_functions(p) < 0 ||
			       ip_timeline_details_collect(p->timeline, p->trace, p->shown,
							   p->options->details, &p->details) < 0
		       ? -1
		       : 0;
}

static int put(struct page *p)
{
	fputs(ip_html_export.head, p->out);
	if (put_meta(p) < 0 || put_functions(p) < 0 || put_tree(p) < 0)
		return -1;
	if (put_latencies(p) < 0)
		return -1;
	put_timeline(p);
	put_details(p);
	if (put_waits(p) < 0)
		return -1;
	fputs("}\n", p->out);
	fputs(ip_html_export.tail, p->out);
	return 0;
}

int ip_export_html(struct ip_trace_reader *trace, const struct ip_export_options *options,
		   FILE *out)
{
	struct page p = {.trace = trace,
			 .options = options,
			 .out = out,
			 .began = trace->begin,
			 .ended = trace->end,
			 .recorded = ip_trace_reader_recorded(trace),
			 .names = ip_names_create(trace->session)};
	int ret = -1;

	/* nothing is to be seen before and behind: the end of a recording may take long */
	trace->begin = ip_trace_reader_first_event(trace);
	trace->end = ip_trace_reader_last_moment(trace);
	if (options->other)
		p.other_names = ip_names_create(options->other->session);
	/* the page has both forms, and shows the short one */
	if (p.names)
		ip_names_use_full(p.names);
	if (p.other_names)
		ip_names_use_full(p.other_names);
	if (p.names && (p.other_names || !options->other) && collect(&p) == 0)
		ret = put(&p);
	ip_stats_destroy(p.stats);
	ip_calltree_destroy(p.tree);
	ip_idle_waits_clear(&p.idle);
	ip_tree_threads_destroy(p.threads);
	ip_timeline_destroy(p.timeline);
	ip_timeline_details_destroy(p.details);
	ip_latencies_destroy(p.latencies);
	ip_names_destroy(p.names);
	ip_names_destroy(p.other_names);
	ip_tree_compare_destroy(p.other);
	free(p.shown);
	free(p.ranked);
	trace->begin = p.began;
	trace->end = p.ended;
	return ret;
}
