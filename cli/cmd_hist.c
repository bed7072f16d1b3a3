/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe hist: latency histograms of functions.
 */
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/counts.h"
#include "analysis/latency.h"
#include "analysis/names.h"
#include "cli/cli.h"
#include "cli/filter_options.h"
#include "cli/reader.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/units.h"

static const char help[] =
	"usage: iprobe hist [OPTIONS] [DIR]\n\n"
	"Shows how many calls of a function lasted how long (iprobe.data), in powers of two, and where the "
	"peaks are.\n\n"
	"  -f, --functions SEL  these functions only\n"
	"  -n, --limit N        the first N functions in the order of total time (default 10; with -f all)\n"
	"      --over-time      a heat map: time from left to right, duration upwards\n"
	"      --tid TID        this thread only\n"
	"      --json           one JSON document\n";

#define BAR    50u
#define SLICES 64u

struct hist {
	struct ip_trace_reader *trace;
	struct ip_names *names;
	struct ip_latencies *latencies;
	struct ip_counts *counts;
	uint32_t *order; /* functions, the most expensive first */
	size_t n;
};

/* Of one function, whether its calls were logged or its histogram was made in the process (--payload hist). */
struct histogram {
	uint64_t count, min, max, total; /* ns */
	unsigned nbuckets;
	uint64_t calls[IP_LATENCY_BUCKETS], from[IP_LATENCY_BUCKETS], to[IP_LATENCY_BUCKETS];
	bool peaks[IP_LATENCY_BUCKETS];
	const struct ip_latency *logged; /* NULL: it was not logged */
};

static uint64_t calls_of(const struct hist *h, uint32_t function)
{
	uint64_t logged = h->latencies->functions[function].count;

	return logged ? logged : h->latencies->tid ? 0 : h->counts->functions[function].ended;
}

static uint64_t total_of(const struct hist *h, uint32_t function)
{
	const struct ip_latency *f = &h->latencies->functions[function];

	return f->count ? f->total : ip_recording_ns(h->trace->session, h->counts->functions[function].sum);
}

static void make_histogram(const struct hist *h, uint32_t function, struct histogram *ret)
{
	const struct ip_latency *f = &h->latencies->functions[function];
	const struct ip_count *c = &h->counts->functions[function];
	const struct ip_recording *s = h->trace->session;
	struct ip_latency counted = {.count = c->ended};

	*ret = (struct histogram){
		.count = f->count, .min = f->min, .max = f->max, .nbuckets = IP_LATENCY_BUCKETS};
	ret->total = total_of(h, function);
	if (f->count) {
		ret->logged = f;
		memcpy(ret->calls, f->calls, sizeof(ret->calls));
		for (unsigned b = 0; b < IP_LATENCY_BUCKETS; b++) {
			ret->from[b] = ip_latency_from(b);
			ret->to[b] = ip_latency_to(b);
		}
		ip_latency_peaks(f, ret->peaks);
		return;
	}
	ret->count = c->ended;
	ret->min = ip_recording_ns(s, c->min);
	ret->max = ip_recording_ns(s, c->max);
	ret->nbuckets = h->counts->nbuckets;
	for (unsigned b = 0; b < ret->nbuckets; b++) {
		ret->calls[b] = counted.calls[b] = c->buckets[b];
		ret->from[b] = ip_counts_from(h->counts, s, b);
		ret->to[b] = ip_counts_to(h->counts, s, b);
	}
	ip_latency_peaks(&counted, ret->peaks);
}

static bool any_measured(const struct hist *h)
{
	for (size_t i = 0; i < h->counts->nfunctions; i++)
		if (h->counts->functions[i].ended)
			return true;
	return false;
}

/* Histograms that were made in the process know no thread and no time. */
static void warn_of_measured(const struct hist *h)
{
	if (h->latencies->tid && any_measured(h))
		fprintf(stderr,
			"iprobe: %s: --payload hist does not tell threads apart: with --tid only functions that were logged are "
			"shown\n",
			h->trace->dir);
	if (h->latencies->nslices && any_measured(h))
		fprintf(stderr, "iprobe: %s: --payload hist keeps no times: --over-time shows these functions as without it\n",
			h->trace->dir);
}

struct key {
	uint64_t total;
	uint32_t function;
};

static int by_total(const void *a, const void *b)
{
	const struct key *x = a, *y = b;

	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	return (x->function > y->function) - (x->function < y->function);
}

static int make_order(struct hist *h, const bool *selected, size_t limit)
{
	const struct ip_latencies *l = h->latencies;
	_cleanup_free_ struct key *keys = calloc(l->nfunctions, sizeof(*keys));

	h->order = calloc(l->nfunctions, sizeof(*h->order));
	if (!keys || !h->order)
		return ip_error("out of memory");
	for (size_t i = 0; i < l->nfunctions; i++)
		if (selected[i] && calls_of(h, i))
			keys[h->n++] = (struct key){total_of(h, i), i};
	if (!h->n)
		return ip_error("%s: none of the functions has a call that ended%s", h->trace->dir,
				!l->tid	       ? ""
				: any_measured(h) ? " in that thread and was logged (--payload hist does not tell threads apart: leave "
						    "--tid out)"
						  : " in that thread");
	qsort(keys, h->n, sizeof(*keys), by_total);
	for (size_t i = 0; i < h->n; i++)
		h->order[i] = keys[i].function;
	if (h->n > limit)
		h->n = limit;
	return 0;
}

/* First and last bucket with calls. */
static void bounds(const uint64_t *calls, unsigned n, unsigned *ret_first, unsigned *ret_last)
{
	*ret_first = *ret_last = 0;
	for (unsigned b = 0, found = 0; b < n; b++)
		if (calls[b]) {
			*ret_first = found++ ? *ret_first : b;
			*ret_last = b;
		}
}

static void print_head(const struct hist *h, uint32_t function, const struct histogram *f)
{
	char count[32], min[16], max[16], mean[16];

	ip_print_clean(stdout, ip_names_get(h->names, function));
	printf(": %s call%s, %s to %s, %s in the mean\n", ip_format_count(f->count, count),
	       f->count == 1 ? "" : "s", ip_format_ns(f->min, min), ip_format_ns(f->max, max),
	       ip_format_ns((double)f->total / f->count, mean));
}

static void print_bars(const struct histogram *f)
{
	unsigned first, last;
	uint64_t most = 1;

	bounds(f->calls, f->nbuckets, &first, &last);
	for (unsigned b = first; b <= last; b++)
		most = f->calls[b] > most ? f->calls[b] : most;
	printf("%9s   %8s %13s\n", "from", "below", "calls");
	for (unsigned b = first; b <= last; b++) {
		char from[16], to[16], count[32];
		unsigned length = f->calls[b] ? (unsigned)((double)f->calls[b] / most * BAR + 0.999) : 0;

		printf("%9s - %8s %13s ", ip_format_ns(f->from[b], from),
		       f->to[b] == UINT64_MAX ? "" : ip_format_ns(f->to[b], to),
		       ip_format_count(f->calls[b], count));
		for (unsigned i = 0; i < length; i++)
			putchar('#');
		puts(f->peaks[b] ? " < peak" : "");
	}
}

/* Rows are buckets, the longest on top; a darker cell has more calls, each shade four times the one before. */
static void print_heat(const struct hist *h, const struct ip_latency *f)
{
	static const char shades[] = " .:-=+*#%@";
	unsigned first, last;
	char from[16], length[16];

	bounds(f->calls, IP_LATENCY_BUCKETS, &first, &last);
	for (unsigned b = last + 1; b-- > first;) {
		printf("%9s |", ip_format_ns(ip_latency_from(b), from));
		for (size_t s = 0; s < h->latencies->nslices; s++) {
			uint32_t n = f->over_time[s * IP_LATENCY_BUCKETS + b];
			unsigned shade = n ? 1 + (31 - __builtin_clz(n)) / 2 : 0;

			putchar(shades[shade < sizeof(shades) - 1 ? shade : sizeof(shades) - 2]);
		}
		puts("|");
	}
	printf("%9s  0%*s\n", "", (int)h->latencies->nslices - 1,
	       ip_format_ns((double)h->latencies->slice_ns * h->latencies->nslices, length));
	printf("%9s  calls in a cell: . 1 to 3, : to 15, - to 63, = to 255, + to 1023, ...\n", "");
}

static void print_text(const struct hist *h)
{
	for (size_t i = 0; i < h->n; i++) {
		struct histogram f;

		make_histogram(h, h->order[i], &f);
		if (i)
			putchar('\n');
		print_head(h, h->order[i], &f);
		if (h->latencies->nslices && f.logged)
			print_heat(h, f.logged);
		else
			print_bars(&f);
	}
}

static void json_over_time(struct ip_json *j, const struct hist *h, const struct ip_latency *f)
{
	ip_json_array(j, "over_time");
	for (size_t s = 0; s < h->latencies->nslices; s++)
		for (unsigned b = 0; b < IP_LATENCY_BUCKETS; b++) {
			uint32_t n = f->over_time[s * IP_LATENCY_BUCKETS + b];

			if (!n)
				continue;
			ip_json_object(j, NULL);
			ip_json_uint(j, "begin_ns", s * h->latencies->slice_ns);
			ip_json_uint(j, "from_ns", ip_latency_from(b));
			ip_json_uint(j, "calls", n);
			ip_json_end_object(j);
		}
	ip_json_end_array(j);
}

static void print_json(const struct hist *h)
{
	struct ip_json j;

	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	ip_json_uint(&j, "events", h->latencies->events);
	ip_json_uint(&j, "lost", h->trace->lost);
	if (h->latencies->nslices)
		ip_json_uint(&j, "slice_ns", h->latencies->slice_ns);
	ip_json_array(&j, "functions");
	for (size_t i = 0; i < h->n; i++) {
		const struct ip_recording *s = h->trace->session;
		struct histogram f;

		make_histogram(h, h->order[i], &f);
		ip_json_object(&j, NULL);
		ip_json_string(&j, "function", ip_names_get(h->names, h->order[i]));
		ip_json_string(&j, "module", ip_recording_module_name(s, &s->functions[h->order[i]]));
		ip_json_string(&j, "payload", f.logged ? "log" : "hist");
		ip_json_uint(&j, "calls", f.count);
		ip_json_uint(&j, "min_ns", f.min);
		ip_json_uint(&j, "max_ns", f.max);
		ip_json_uint(&j, "total_ns", f.total);
		ip_json_array(&j, "buckets");
		for (unsigned b = 0; b < f.nbuckets; b++) {
			if (!f.calls[b])
				continue;
			ip_json_object(&j, NULL);
			ip_json_uint(&j, "from_ns", f.from[b]);
			if (f.to[b] == UINT64_MAX)
				ip_json_string(&j, "to_ns", NULL);
			else
				ip_json_uint(&j, "to_ns", f.to[b]);
			ip_json_uint(&j, "calls", f.calls[b]);
			ip_json_bool(&j, "peak", f.peaks[b]);
			ip_json_end_object(&j);
		}
		ip_json_end_array(&j);
		if (h->latencies->nslices && f.logged)
			json_over_time(&j, h, f.logged);
		ip_json_end_object(&j);
	}
	ip_json_end_array(&j);
	ip_json_end_object(&j);
}

struct options {
	struct cli_filter filter;
	bool over_time, json;
};

static int show(const char *dir, const struct options *o)
{
	struct hist h = {0};
	_cleanup_free_ bool *selected = NULL;
	int ret = ip_trace_reader_open(dir, &h.trace);

	if (ret == 0) {
		selected = cli_reader_select(h.trace, o->filter.functions);
		h.names = ip_names_create(h.trace->session);
		ret = selected && h.names ? ip_counts_load(dir, h.trace->session, &h.counts) : -1;
	}
	if (ret == 0)
		ret = ip_latencies_collect(h.trace, selected, o->over_time ? SLICES : 0, o->filter.tid,
					   &h.latencies);
	if (ret == 0)
		ret = make_order(&h, selected, o->filter.limit);
	if (ret == 0) {
		cli_reader_warn(h.trace);
		warn_of_measured(&h);
		if (o->json)
			print_json(&h);
		else
			print_text(&h);
		ret = cli_reader_check_stdout();
	}
	free(h.order);
	ip_latencies_destroy(h.latencies);
	ip_counts_destroy(h.counts);
	ip_names_destroy(h.names);
	ip_trace_reader_close(h.trace);
	return ret < 0 ? cli_fail() : 0;
}

int cmd_hist(int argc, char **argv)
{
	static const struct option long_options[] = {CLI_FILTER_FUNCTIONS,
						     CLI_FILTER_LIMIT,
						     {"over-time", no_argument, NULL, 'o'},
						     CLI_FILTER_TID,
						     {"json", no_argument, NULL, 'j'},
						     {"help", no_argument, NULL, 'h'},
						     {0}};
	struct options o = {.filter = CLI_FILTER_ALL};
	const char *dir;
	int option, code;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "f:n:h", long_options, NULL)) >= 0) {
		int taken = cli_filter_option(argv[0], option, &o.filter);

		if (taken < 0)
			return 2;
		if (taken)
			continue;
		switch (option) {
		case 'o':
			o.over_time = true;
			break;
		case 'j':
			o.json = true;
			break;
		case 'h':
			fputs(help, stdout);
			return 0;
		default:
			return cli_bad_option(argv[0], argc, argv);
		}
	}
	if (o.filter.limit == SIZE_MAX && !o.filter.functions && !o.json)
		o.filter.limit = 10;
	code = cli_reader_dir(argv[0], argc, argv, &dir);
	if (code >= 0)
		return code;
	/* a pager that was left ends us without a word */
	signal(SIGPIPE, SIG_DFL);
	return show(dir, &o);
}
