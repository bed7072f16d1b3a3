/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats that are made of the calling-context tree: folded stacks, and the callgrind format.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/export/export.h"
#include "analysis/export/stack_text.h"
#include "analysis/profile/calltree.h"
#include "analysis/profile/deep_paths.h"
#include "analysis/read/names.h"
#include "common/cleanup.h"
#include "common/error.h"

/* Makes the tree and the names. *ret_threads: NULL where neither threads nor processes are told
 * apart. The caller
 * destroys all three, also after an error. */
static int collect(struct ip_trace_reader *trace, const struct ip_export_options *options,
		   struct ip_tree_threads **ret_threads, struct ip_names **ret_names,
		   struct ip_calltree **ret)
{
	struct ip_calltree_options wanted = {.roots = options->selected, .tid = options->tid};

	*ret = NULL;
	*ret_threads = NULL;
	*ret_names = ip_names_create(trace->session);
	if (!*ret_names || ((options->by_thread || options->by_process) &&
			    ip_tree_threads_create(trace, options->by_process, ret_threads) < 0))
		return -1;
	if (options->full_names)
		ip_names_use_full(*ret_names);
	if (*ret_threads && ip_tree_threads_name(*ret_threads, *ret_names) < 0)
		return -1;
	wanted.threads = *ret_threads;
	if (ip_calltree_collect(trace, &wanted, ret) < 0)
		return -1;
	ip_names_mark_tails(*ret_names, (*ret)->until_tail);
	*options->unchosen = (*ret)->n > 1 ? 0 : (*ret)->events;
	return 0;
}

/* Prints the line of a call path, where there is time in it. Of a path deeper than IP_WAY_MAX the
 * innermost calls are printed. Its thread comes first, where threads are told apart. */
static void print_way(const struct ip_calltree *tree, struct ip_names *names,
		      const struct ip_deep_paths *deep, uint32_t node, uint64_t ns, FILE *out)
{
	const uint32_t depth = deep->depths[node];
	uint32_t way[IP_WAY_MAX];
	size_t n = 0;

	if (!ns)
		return;
	for (uint32_t at = node; n < depth && n < IP_WAY_MAX; at = tree->nodes[at].parent)
		way[n++] = tree->nodes[at].function;
	if (deep->threads) {
		uint32_t thread = tree->nodes[deep->threads[node]].function;

		ip_stack_text_name(out, ip_names_shown(names, thread), ';');
		putc(';', out);
	}
	if (depth > IP_WAY_MAX)
		fputs("[...];", out);
	while (n) {
		ip_stack_text_name(out, ip_names_shown(names, way[--n]), ';');
		if (n)
			putc(';', out);
	}
	fprintf(out, " %" PRIu64 "\n", ns);
}

static int print_ways(struct ip_trace_reader *trace, const struct ip_calltree *tree,
		      struct ip_names *names, FILE *out)
{
	struct ip_deep_paths deep = {0};
	int ret = ip_deep_paths_find(tree, &deep);

	for (uint32_t i = 1; ret == 0 && i < tree->n; i++)
		if (deep.depths[i] <= IP_WAY_MAX)
			print_way(tree, names, &deep, i,
				  ip_recording_ns(trace->session, tree->nodes[i].self), out);
	for (size_t i = 0; ret == 0 && i < deep.size; i++)
		if (deep.ways[i].node)
			print_way(tree, names, &deep, deep.ways[i].node,
				  ip_recording_ns(trace->session, deep.ways[i].self), out);
	ip_deep_paths_clear(&deep);
	return ret;
}

int ip_export_folded(struct ip_trace_reader *trace, const struct ip_export_options *options,
		     FILE *out)
{
	struct ip_tree_threads *threads;
	struct ip_names *names;
	struct ip_calltree *tree;
	int ret = collect(trace, options, &threads, &names, &tree);

	if (ret == 0)
		ret = print_ways(trace, tree, names, out);
	ip_calltree_destroy(tree);
	ip_tree_threads_destroy(threads);
	ip_names_destroy(names);
	return ret;
}

struct callgrind {
	const struct ip_recording *session;
	struct ip_names *names;
	FILE *out;
	/* functions, and threads or processes where they are told apart: in callgrind's eyes they
	 * call what begins in them */
	uint32_t n;
	bool *named; /* by these: the name has been written */
};

/* prefix is "fn" or "cfn". A name is written once, with its number; from then on only the number
 * is written. */
static void print_function(struct callgrind *c, const char *prefix, uint32_t function)
{
	static const struct ip_recording_function thread = {.module = IP_NO_MODULE};
	const struct ip_recording_function *f =
		function < c->session->nfunctions ? &c->session->functions[function] : &thread;
	bool called = *prefix == 'c';

	/* The number of a function also serves for its file and module: equal names under
	 * several numbers do no harm. */
	fprintf(c->out, "%s=(%u)", called ? "cob" : "ob",
		f->module == IP_NO_MODULE ? 0 : f->module + 1);
	if (!c->named[function]) {
		putc(' ', c->out);
		ip_stack_text_name(c->out,
				   f->module == IP_NO_MODULE ? "[unknown]"
							     : c->session->modules[f->module].path,
				   '\n');
	}
	fprintf(c->out, "\n%s=(%u)", called ? "cfi" : "fl", function + 1);
	if (!c->named[function]) {
		putc(' ', c->out);
		ip_stack_text_name(c->out, f->file ? f->file : "???", '\n');
	}
	fprintf(c->out, "\n%s=(%u)", prefix, function + 1);
	if (!c->named[function]) {
		putc(' ', c->out);
		ip_stack_text_name(c->out, ip_names_shown(c->names, function), '\n');
	}
	putc('\n', c->out);
	c->named[function] = true;
}

static uint32_t line_of(const struct callgrind *c, uint32_t function)
{
	return function < c->session->nfunctions ? c->session->functions[function].line : 0;
}

static void print_arcs(struct callgrind *c, const struct ip_call_arc *arcs, size_t n,
		       const uint64_t *self)
{
	const struct ip_recording *s = c->session;

	for (uint32_t f = 0, at = 0; f < c->n; f++) {
		while (at < n && arcs[at].caller < f)
			at++;
		if (self[f] == UINT64_MAX)
			continue;
		putc('\n', c->out);
		print_function(c, "fn", f);
		fprintf(c->out, "%u %" PRIu64 "\n", line_of(c, f), ip_recording_ns(s, self[f]));
		for (size_t i = at; i < n && arcs[i].caller == f; i++) {
			print_function(c, "cfn", arcs[i].callee);
			fprintf(c->out, "calls=%" PRIu64 " %u\n%u %" PRIu64 "\n", arcs[i].calls,
				line_of(c, arcs[i].callee), line_of(c, f),
				ip_recording_ns(s, arcs[i].total));
		}
	}
}

int ip_export_callgrind(struct ip_trace_reader *trace, const struct ip_export_options *options,
			FILE *out)
{
	const struct ip_recording *s = trace->session;
	struct callgrind c = {.session = s, .out = out};
	_cleanup_free_ struct ip_call_arc *arcs = NULL;
	_cleanup_free_ uint64_t *self = NULL;
	_cleanup_free_ bool *named = NULL;
	struct ip_tree_threads *threads;
	struct ip_calltree *tree;
	ssize_t n = -1;
	uint64_t all = 0;

	if (collect(trace, options, &threads, &c.names, &tree) == 0) {
		c.n = s->nfunctions + (threads ? threads->n : 0);
		self = malloc(c.n * sizeof(*self));
		c.named = named = calloc(c.n, sizeof(*named));
		if (!self || !named)
			ip_error("out of memory");
		else
			n = ip_calltree_arcs(tree, &arcs);
	}
	if (n >= 0) {
		/* UINT64_MAX: the function was not called */
		memset(self, 0xff, c.n * sizeof(*self));
		for (uint32_t i = 1; i < tree->n; i++) {
			uint64_t *sum = &self[tree->nodes[i].function];

			*sum = (*sum == UINT64_MAX ? 0 : *sum) + tree->nodes[i].self;
			all += tree->nodes[i].self;
		}
		fprintf(out,
			"# callgrind format\nversion: 1\ncreator: iprobe\npid: %" PRIu64 "\ncmd: ",
			s->pid);
		ip_stack_text_name(out, s->command ? s->command : "?", '\n');
		fprintf(out,
			"\npositions: line\nevent: ns : Time (ns)\nevents: ns\nsummary: %" PRIu64
			"\n",
			ip_recording_ns(s, all));
		print_arcs(&c, arcs, n, self);
	}
	ip_calltree_destroy(tree);
	ip_tree_threads_destroy(threads);
	ip_names_destroy(c.names);
	return n < 0 ? -1 : 0;
}
