/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of filters: reading them, and telling them. See filters.h.
 */
#include "common/cleanup.h"
#include "common/error.h"
#include "common/units.h"
#include "hotpatcher/plan/filters_private.h"
#include <ctype.h>
#include <string.h>

static int parse_number(const char *text, size_t length, uint32_t *ret)
{
	uint64_t n = 0;

	if (!length || length > 9)
		return -1;
	for (size_t i = 0; i < length; i++) {
		if (!isdigit((unsigned char)text[i]))
			return -1;
		n = 10 * n + (text[i] - '0');
	}
	*ret = n;
	return n ? 0 : -1;
}

int ip_filter_parse_sample(struct ip_filter_options *options, const char *text)
{
	struct ip_filter_sample *sample = &options->samples[options->nsamples];
	size_t length = strcspn(text, ":");

	if (options->nsamples == IP_FILTER_SAMPLES)
		return ip_error("--sample: at most %u of them", IP_FILTER_SAMPLES);
	*sample = (struct ip_filter_sample){0};
	if (parse_number(text, length, &sample->every) < 0)
		return ip_error("--sample %s: not N or N:SEL with a number from 1 to 999999999",
				text);
	if (text[length] && ip_selection_parse(text + length + 1, &sample->selection) < 0)
		return ip_error_prefix("--sample %s", text);
	options->nsamples++;
	return 0;
}

int ip_filter_parse_trigger(const char *text, struct ip_filter_trigger *ret)
{
	const char *colon = strrchr(text, ':');
	size_t length = strlen(text);

	free(ret->name);
	ip_selection_destroy(ret->selection);
	*ret = (struct ip_filter_trigger){.calls = 1};
	/* the last of these colons must not be one of ns::f */
	if (colon && (colon == text || colon[-1] != ':') && colon[1] &&
	    strspn(colon + 1, "0123456789") == strlen(colon + 1)) {
		if (parse_number(colon + 1, strlen(colon + 1), &ret->calls) < 0)
			return ip_error("%s: calls are counted from 1 to 999999999", text);
		length = colon - text;
	}
	if (!length)
		return ip_error("%s: the name of a function is missing", text);
	ret->name = strndup(text, length);
	if (!ret->name)
		return ip_error("out of memory");
	return ip_selection_parse(ret->name, &ret->selection);
}

int ip_filter_parse_within(const char *text, struct ip_filter_trigger *ret)
{
	free(ret->name);
	ip_selection_destroy(ret->selection);
	*ret = (struct ip_filter_trigger){.name = *text ? strdup(text) : NULL};
	if (!ret->name)
		return *text ? ip_error("out of memory")
			     : ip_error("--within needs the name of a function");
	/* it comes from another user, too: no files are opened */
	return ip_selection_parse_names(text, &ret->selection) < 0
		       ? ip_error_prefix("--within %s", text)
		       : 0;
}

/* Reads the next id in a list of thread ids. Returns the rest of the list; NULL at its end. *ret: 0
 * if it is no id. */
const char *ip_filters_next_tid(const char *text, uint32_t *ret)
{
	size_t length = strcspn(text, ",");

	if (parse_number(text, length, ret) < 0)
		*ret = 0;
	return text[length] ? text + length + 1 : NULL;
}

int ip_filter_check_tids(const char *text)
{
	uint32_t tid, n = 0;

	for (const char *p = text; p;) {
		p = ip_filters_next_tid(p, &tid);
		if (!tid)
			return ip_error("--tid %s: not a list of thread ids, separated by commas",
					text);
		if (++n > IP_FILTER_THREADS)
			return ip_error("--tid: at most %u threads; --thread takes globs of names",
					IP_FILTER_THREADS);
	}
	return 0;
}

void ip_filter_options_clear(struct ip_filter_options *options)
{
	for (size_t i = 0; i < options->nsamples; i++)
		ip_selection_destroy(options->samples[i].selection);
	options->nsamples = 0;
	free(options->start.name);
	ip_selection_destroy(options->start.selection);
	free(options->stop.name);
	ip_selection_destroy(options->stop.selection);
	free(options->within.name);
	ip_selection_destroy(options->within.selection);
	options->start = options->stop = options->within = (struct ip_filter_trigger){0};
}

bool ip_filters_has_conditions(const struct ip_filter_options *o)
{
	return o->requests && ip_value_requests_any(o->requests, IP_REQUEST_WHEN);
}

/* Whether anything is left out besides what lies within no function of --within. */
static bool leaves_out(const struct ip_filter_options *o)
{
	return o->depth || o->min_duration_ns || o->nsamples || o->start.name || o->stop.name ||
	       o->tids || o->names || ip_filters_has_conditions(o);
}

bool ip_filters_any(const struct ip_filter_options *o)
{
	return o->callsite || o->within.name || leaves_out(o);
}

bool ip_filters_are_sites(const struct ip_filter_options *o)
{
	return o->callsite && !o->within.name && !leaves_out(o);
}

bool ip_filters_are_within(const struct ip_filter_options *o)
{
	return o->within.name && !o->callsite && !leaves_out(o);
}

void ip_filters_describe(const struct ip_filter_options *o,
			 void (*tell)(void *data, const char *text), void *data)
{
	char text[512], duration[24];

	if (o->depth) {
		snprintf(text, sizeof(text), "depth %u", o->depth);
		tell(data, text);
	}
	if (o->min_duration_ns) {
		snprintf(text, sizeof(text), "min-duration %s",
			 ip_format_duration(o->min_duration_ns, duration));
		tell(data, text);
	}
	for (size_t i = 0; i < o->nsamples; i++) {
		_cleanup_free_ char *of =
			o->samples[i].selection ? ip_selection_text(o->samples[i].selection) : NULL;

		snprintf(text, sizeof(text), "sample %u%s%s", o->samples[i].every, of ? ":" : "",
			 of ? of : "");
		tell(data, text);
	}
	if (o->start.name) {
		snprintf(text, sizeof(text), "start-on %s:%u", o->start.name, o->start.calls);
		tell(data, text);
	}
	if (o->stop.name) {
		snprintf(text, sizeof(text), "stop-on %s:%u", o->stop.name, o->stop.calls);
		tell(data, text);
	}
	if (o->within.name) {
		snprintf(text, sizeof(text), "within %s", o->within.name);
		tell(data, text);
	}
	if (o->tids) {
		snprintf(text, sizeof(text), "tid %s", o->tids);
		tell(data, text);
	}
	if (o->names) {
		snprintf(text, sizeof(text), "thread %s", o->names);
		tell(data, text);
	}
	for (size_t i = 0; o->requests && i < o->requests->n; i++)
		if (o->requests->items[i].kind == IP_REQUEST_WHEN) {
			snprintf(text, sizeof(text), "when %s", o->requests->items[i].text);
			tell(data, text);
		}
	if (o->callsite)
		tell(data, "callsite");
}
