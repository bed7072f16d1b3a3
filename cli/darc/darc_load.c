/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens traces that are searched.
 */
#include "cli/darc/darc_load.h"

#include "cli/export/output_file.h"
#include "cli/trace_args.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"

int cli_darc_open(const char *dir, const struct cli_filter *filter, bool kernel,
		  struct cli_darc_trace *ret)
{
	*ret = (struct cli_darc_trace){0};
	if (cli_reader_open(dir, filter->process, &ret->trace) < 0)
		return -1;
	ret->names = ip_names_create(ret->trace->session);
	ret->places = ip_symbolizer_create(dir, ret->trace->session);
	if (!ret->names || !ret->places)
		return -1;
	if (filter->full_names)
		ip_names_use_full(ret->names);
	if (kernel && ip_trace_waits_read(ret->trace, true, &ret->waits) < 0)
		return -1;
	for (const char *const *line = ret->waits ? ret->waits->damage : NULL; line && *line;
	     line++)
		ip_print(stderr, "iprobe: %s\n", *line);
	return 0;
}

void cli_darc_clear(struct cli_darc_trace *t)
{
	ip_stretches_destroy(t->stretches, t->search.causes.n);
	ip_darc_search_clear(&t->search);
	ip_trace_waits_destroy(t->waits);
	ip_symbolizer_destroy(t->places);
	ip_names_destroy(t->names);
	ip_trace_reader_close(t->trace);
	*t = (struct cli_darc_trace){0};
}

int cli_darc_find_function(const struct cli_darc_trace *t, const char *option,
			   const char *selection, uint32_t *ret)
{
	_cleanup_free_ bool *selected = cli_reader_select(t->trace, selection);
	uint32_t first = 0, second = 0;
	size_t n = 0;

	for (uint32_t i = 0; selected && i < t->trace->session->nfunctions; i++) {
		if (!selected[i])
			continue;
		n++;
		second = first && !second ? i : second;
		first = first ? first : i;
	}
	if (!selected)
		return -1;
	*ret = first;
	return n == 1 ? 0
		      : ip_error("%s %s means several functions (%s, %s%s): name one", option,
				 selection, ip_names_get(t->names, first),
				 ip_names_get(t->names, second), n > 2 ? ", ..." : "");
}

struct cli_darc cli_darc_of(const struct cli_darc_trace *t, const struct ip_darc_search *profile)
{
	return (struct cli_darc){.search = &t->search,
				 .profile = profile ? profile : &t->search,
				 .names = t->names,
				 .places = t->places,
				 .waits = t->waits,
				 .stretches = t->stretches,
				 .lost = t->trace->lost};
}

static int write_json(const struct cli_darc *d, const char *path)
{
	struct cli_output out;
	struct ip_json j;

	if (cli_output_open(path, &out) < 0)
		return -1;
	ip_json_init(&j, out.file);
	return cli_output_close(&out, path, cli_darc_json_put(&j, NULL, d));
}

int cli_darc_print(const struct cli_darc *d, bool json, const char *output)
{
	if (output)
		return write_json(d, output) < 0 ? -1 : cli_darc_summary(d, json);
	if (json)
		return cli_darc_json(d);
	return d->search->options.variance ? cli_darc_variance_text(d) : cli_darc_text(d);
}
