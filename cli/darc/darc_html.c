/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the page of a search: the histogram with its peaks, and the tree of causes. Its document
 * has what --json prints. Of an ftree that is large the root causes and what takes longest are
 * there.
 */
#include "cli/darc/darc_html.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "analysis/export/html_document.h"
#include "cli/export/output_file.h"
#include "common/cleanup.h"
#include "common/error.h"

#define NODES 5000u

void cli_darc_html_meta(struct ip_json *j, const struct ip_trace_reader *trace)
{
	const struct ip_recording *s = trace->session;
	char when[64];

	ip_html_start(s, when);
	ip_json_object(j, "meta");
	ip_json_string(j, "dir", trace->dir);
	ip_json_string(j, "host", s->host);
	ip_json_string(j, "command", s->command);
	ip_json_uint(j, "pid", s->pid);
	ip_json_string(j, "start", when);
	ip_json_string(j, "version", IP_VERSION);
	ip_json_uint(j, "damaged", trace->ndamages);
	ip_json_uint(j, "late", s->coarse ? ip_recording_ns(s, s->late) : 0);
	ip_json_end_object(j);
}

/* Each function has its number, its whole name, and what people see of it. */
void cli_darc_html_names(struct ip_json *j, struct ip_names *names, const struct ip_ftree *ftree,
			 const bool *used)
{
	ip_json_array(j, "functions");
	for (size_t i = 0; i < ftree->n; i++) {
		const uint32_t function = ftree->nodes[i].function;

		if (!used[i])
			continue;
		ip_json_uint(j, NULL, function);
		ip_json_string(j, NULL, ip_names_get(names, function));
		ip_json_string(j, NULL, ip_names_shown(names, function));
	}
	ip_json_end_array(j);
}

int cli_darc_file_try(const char *path, const char *option)
{
	struct cli_output out;
	struct stat st;

	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return ip_error("%s is a directory: name a file with %s", path, option);
	/* what is no plain file is written directly: whoever reads it would see an end */
	if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return 0;
	if (cli_output_open(path, &out) < 0)
		return -1;
	cli_output_close(&out, path, -1);
	return 0;
}

int cli_darc_html_write(const char *path, const struct ip_html_parts *page, const char *document)
{
	struct cli_output out;

	if (cli_output_open(path, &out) < 0)
		return -1;
	ip_html_document_write(out.file, page, document);
	return cli_output_close(&out, path, 0);
}

static int by_size(const void *left, const void *right)
{
	const double a = *(const double *)left, b = *(const double *)right;

	return a < b ? 1 : a > b ? -1 : 0;
}

/* Chooses the nodes: those on the paths of root causes, and what takes longest in the place of
 * these, with all above them. The caller frees the array, by node. NULL with an error. */
static bool *choose_nodes(const struct ip_darc_search *s)
{
	const struct ip_root_causes *c = &s->causes;
	bool *used = calloc(s->ftree.n + 1, sizeof(*used));
	_cleanup_free_ double *sizes = malloc((c->nfigures + 1) * sizeof(*sizes));
	double least = 0;
	size_t n = 0;

	if (!used || !sizes) {
		free(used);
		ip_error("out of memory");
		return NULL;
	}
	for (size_t i = 0; c->figures && i < c->nfigures; i++)
		if (c->figures[i].looked)
			sizes[n++] = c->figures[i].longest;
	if (n > NODES) {
		qsort(sizes, n, sizeof(*sizes), by_size);
		least = sizes[NODES];
	}
	for (size_t i = 0; i < s->variances.n && i < NODES; i++)
		used[s->variances.nodes[i].node] = true;
	for (uint32_t i = 0; c->figures && i < c->nfigures && i < s->ftree.n; i++) {
		const struct ip_darc_figures *f = &c->figures[i];

		if (f->looked && (n <= NODES || f->cause || f->longest > least))
			for (uint32_t k = i; k != IP_FTREE_NONE && !used[k];
			     k = s->ftree.nodes[k].parent)
				used[k] = true;
	}
	used[0] = true;
	return used;
}

static int put_document(FILE *out, const struct cli_darc *d, const struct ip_trace_reader *trace)
{
	struct ip_json j;

	ip_json_init(&j, out);
	ip_json_object(&j, NULL);
	cli_darc_html_meta(&j, trace);
	if (cli_darc_json_put(&j, "result", d) < 0)
		return -1;
	ip_json_bool(&j, "variance", d->search->options.variance);
	ip_json_uint(&j, "depth", d->search->options.depth);
	cli_darc_html_names(&j, d->names, &d->search->ftree, d->used);
	ip_json_end_object(&j);
	return 0;
}

int cli_darc_html(const struct cli_darc *found, const struct ip_trace_reader *trace,
		  const char *path)
{
	_cleanup_free_ bool *used = path ? choose_nodes(found->search) : NULL;
	struct cli_darc d = *found;
	_cleanup_free_ char *document = NULL;
	FILE *memory = NULL;
	size_t size;
	int ret;

	if (!path)
		return 0;
	d.used = used;
	memory = used ? open_memstream(&document, &size) : NULL;
	if (!memory)
		return ip_error("out of memory");
	ret = put_document(memory, &d, trace);
	if (fclose(memory) != 0 && ret == 0)
		ret = ip_error("out of memory");
	return ret == 0 ? cli_darc_html_write(path, &ip_html_darc, document) : -1;
}
