/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names the callees of functions.
 */
#include "hotpatcher/process/callees.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "common/selection/selection.h"
#include "hotpatcher/process/call_search.h"

/* Whoever has built the program may have made up any names. */
#define NAMES_MOST (256u << 20) /* bytes */

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Whether so many bytes of names are too many. */
static int check_size(const struct ip_call_search *s, uint64_t size)
{
	if (ip_interrupted)
		return ip_error("interrupted");
	return size > NAMES_MOST
		       ? ip_error("pid %d: the names of its functions take more than %u MiB",
				  s->target->pid, NAMES_MOST >> 20)
		       : 0;
}

/* Writes the names one after the other, each with a zero behind it. */
static int write_names(const struct ip_call_search *s, bool callees, struct ip_callees *ret)
{
	size_t size;
	uint64_t written = 0;
	FILE *out = open_memstream(&ret->text, &size);
	int done = 0;

	if (!out)
		return ip_error("out of memory");
	for (size_t i = 0; done == 0 && i < s->n; i++) {
		const char *name = ip_call_place_name(&s->places[i]);
		const size_t length = ip_base_name_length(name);

		if (callees && !s->places[i].callee)
			continue;
		written += length + 1;
		done = check_size(s, written);
		if (done == 0)
			fprintf(out, "%.*s%c", (int)length, name, 0);
	}
	return fclose(out) != 0 ? ip_error("out of memory") : done;
}

/* Names all that the text has: n. */
static int sort_names(struct ip_callees *ret, size_t n)
{
	char *at;

	ret->names = calloc(n + 1, sizeof(*ret->names));
	if (!ret->names)
		return ip_error("out of memory");
	at = ret->text;
	for (size_t i = 0; i < n; i++, at += strlen(at) + 1)
		ret->names[i] = at;
	if (n)
		qsort(ret->names, n, sizeof(*ret->names), by_name);
	for (size_t i = 0; i < n; i++)
		if (!ret->n || strcmp(ret->names[ret->n - 1], ret->names[i]))
			ret->names[ret->n++] = ret->names[i];
	return 0;
}

static int name_them(const struct ip_call_search *s, bool callees, struct ip_callees *ret)
{
	return write_names(s, callees, ret) < 0 ? -1
						: sort_names(ret, callees ? s->ncallees : s->n);
}

/* Writes the names of a module's points as write_names() does. *ret_n: how many there are now.
 * Returns 0, or -1 with an error. */
static int write_points(const struct ip_call_search *s, const struct ip_module *module, FILE *out,
			size_t *ret_n, uint64_t *written)
{
	const struct ip_probe_list *list = module->list;
	_cleanup_free_ bool *named =
		list ? calloc(list->header->nfunctions + 1, sizeof(*named)) : NULL;
	int done = list && !named ? ip_error("out of memory") : 0;

	for (uint32_t i = 0; list && done == 0 && i < list->header->nprobes; i++) {
		const uint32_t function = list->probes[i].function;
		const char *name = ip_probe_list_string(list, list->functions[function].name);

		if (list->probes[i].kind != IP_PROBE_POINT || named[function])
			continue;
		named[function] = true;
		*written += strlen(name) + 1;
		done = check_size(s, *written);
		if (done == 0)
			fprintf(out, "%s%c", name, 0);
		*ret_n += done == 0;
	}
	return done;
}

/* Scans the functions that have a module's points of that name in them. Returns how many points;
 * -1 with an error. */
static int scan_points(struct ip_call_search *s, const struct ip_module *module, const char *name)
{
	const struct ip_probe_list *list = module->list;
	int n = 0;

	for (uint32_t i = 0; list && i < list->header->nprobes; i++) {
		const struct ip_pl_probe *probe = &list->probes[i];

		if (probe->kind != IP_PROBE_POINT ||
		    strcmp(ip_probe_list_string(list, list->functions[probe->function].name),
			   name) != 0)
			continue;
		if (ip_call_search_scan_around(s, module->load_bias + probe->offset) < 0)
			return -1;
		n++;
	}
	return n;
}

static int search(struct ip_call_search *s, const char *linker_name)
{
	size_t length = ip_base_name_length(linker_name), callers = 0;

	for (size_t i = 0; i < s->n; i++) {
		const char *name = ip_call_place_name(&s->places[i]);

		if (ip_base_name_length(name) != length || strncmp(name, linker_name, length))
			continue;
		callers++;
		if (ip_call_search_scan(s, &s->places[i]) < 0)
			return -1;
	}
	for (size_t i = 0; i < s->modules.n; i++) {
		const int n = scan_points(s, &s->modules.items[i], linker_name);

		if (n < 0)
			return -1;
		callers += (size_t)n;
	}
	if (!callers)
		return ip_error("pid %d: the probe lists do not tell where %s is", s->target->pid,
				linker_name);
	return ip_call_search_follow_jumps(s);
}

int ip_callees_find(pid_t pid, const char *linker_name, struct ip_callees *ret)
{
	struct ip_call_search s;
	int done = ip_call_search_open(pid, &s);

	*ret = (struct ip_callees){0};
	if (done == 0)
		done = search(&s, linker_name);
	if (done == 0)
		done = name_them(&s, true, ret);
	ret->pointers = s.pointers;
	ip_call_search_clear(&s);
	return done;
}

static int name_points(const struct ip_call_search *s, struct ip_callees *ret)
{
	size_t n = 0, size;
	uint64_t written = 0;
	FILE *out = open_memstream(&ret->text, &size);
	int done = 0;

	if (!out)
		return ip_error("out of memory");
	for (size_t i = 0; done == 0 && i < s->modules.n; i++)
		done = write_points(s, &s->modules.items[i], out, &n, &written);
	if (fclose(out) != 0)
		return ip_error("out of memory");
	return done < 0 ? -1 : sort_names(ret, n);
}

int ip_callees_all(pid_t pid, struct ip_callees *ret, struct ip_callees *ret_points)
{
	struct ip_call_search s;
	int done = ip_call_search_open(pid, &s);

	*ret = (struct ip_callees){0};
	if (ret_points)
		*ret_points = (struct ip_callees){0};
	if (done == 0)
		done = name_them(&s, false, ret);
	if (done == 0 && ret_points)
		done = name_points(&s, ret_points);
	ip_call_search_clear(&s);
	return done;
}

void ip_callees_clear(struct ip_callees *callees)
{
	free(callees->names);
	free(callees->text);
	*callees = (struct ip_callees){0};
}

char *ip_callees_selection(const struct ip_callees *callees)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	bool failed = !out;

	for (size_t i = 0; !failed && i < callees->n; i++) {
		_cleanup_free_ char *item =
			ip_selection_quote(callees->names[i], strlen(callees->names[i]));

		failed = !item || fprintf(out, "%s%s", i ? "," : "", item) < 0;
	}
	if ((out && fclose(out) != 0) || failed) {
		free(text);
		ip_error("out of memory");
		return NULL;
	}
	return text;
}
