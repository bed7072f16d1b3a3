/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what functions of live processes wait for. See top_kernel.h.
 */
#include "cli/top/top_kernel.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/wait/trace_waits.h"
#include "analysis/wait/wait_profile.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/dir.h"
#include "common/error.h"
#include "session/session.h"

#define UNKNOWN_SHARE 200 /* one part in so many of the elapsed time may be unknown */

static void clear_process(struct cli_top_kernel_process *p)
{
	for (size_t i = 0; i < p->nfunctions; i++)
		for (size_t k = 0; k < p->functions[i].nobjects; k++)
			free(p->functions[i].objects[k].name);
	free(p->functions);
	p->functions = NULL;
	p->nfunctions = 0;
	p->known = false;
}

bool cli_top_kernel_fits(pid_t pid)
{
	unsigned char ident[EI_NIDENT];
	char path[32];
	_cleanup_close_ int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 || read(fd, ident, sizeof(ident)) != sizeof(ident) ||
	       ident[EI_CLASS] != ELFCLASS32;
}

void cli_top_kernel_clear(struct cli_top_kernel *kernel)
{
	for (size_t i = 0; i < kernel->n; i++)
		clear_process(&kernel->items[i]);
	free(kernel->items);
	*kernel = (struct cli_top_kernel){.with_idle = kernel->with_idle};
}

/* ---- which function of the counts one of a snapshot is ---- */

struct by_name {
	const struct ip_recording *recording;
	uint32_t *order; /* functions, by linker name, then by module */
};

static const struct ip_recording *sorted;

static int compare_keys(const char *name, const char *module, const struct ip_recording *r,
			uint32_t f)
{
	const int order = strcmp(name, r->functions[f].linker_name);

	return order ? order : strcmp(module, ip_recording_module_name(r, &r->functions[f]));
}

static int compare(const void *left, const void *right)
{
	const struct ip_recording_function *f = &sorted->functions[*(const uint32_t *)left];

	return compare_keys(f->linker_name, ip_recording_module_name(sorted, f), sorted,
			    *(const uint32_t *)right);
}

static int sort_names(const struct ip_recording *recording, struct by_name *ret)
{
	*ret = (struct by_name){recording,
				calloc(recording->nfunctions + 1ul, sizeof(*ret->order))};
	if (!ret->order)
		return ip_error("out of memory");
	for (uint32_t i = 0; i < recording->nfunctions; i++)
		ret->order[i] = i;
	sorted = recording;
	if (recording->nfunctions)
		qsort(ret->order, recording->nfunctions, sizeof(*ret->order), compare);
	return 0;
}

/* UINT32_MAX: there is none. */
static uint32_t find(const struct by_name *names, const char *name, const char *module)
{
	size_t low = 0, high = names->recording->nfunctions;

	while (low < high) {
		const size_t middle = (low + high) / 2;
		const int order =
			compare_keys(name, module, names->recording, names->order[middle]);

		if (!order)
			return names->order[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return UINT32_MAX;
}

/* ---- a snapshot ---- */

/* Puts a object where it belongs, if it is one of the longest. Takes the object. */
static void add_object(struct cli_top_wait *w, const struct cli_top_object *object)
{
	size_t at = w->nobjects;

	while (at && w->objects[at - 1].ns < object->ns)
		at--;
	if (at == CLI_TOP_OBJECTS_MOST) {
		free(object->name);
		return;
	}
	if (w->nobjects == CLI_TOP_OBJECTS_MOST)
		free(w->objects[--w->nobjects].name);
	memmove(&w->objects[at + 1], &w->objects[at], (w->nobjects - at) * sizeof(*w->objects));
	w->objects[at] = *object;
	w->nobjects++;
}

static void fill(struct cli_top_wait *w, const struct ip_recording *r,
		 const struct ip_wait_parts *parts, uint64_t open)
{
	const uint64_t runqueue = ip_recording_ns(r, parts->runqueue);

	w->elapsed_ns += ip_recording_ns(r, parts->elapsed);
	w->cpu_ns += ip_recording_ns(r, parts->cpu);
	w->unknown_ns += ip_recording_ns(r, parts->unknown);
	w->waited_ns += ip_recording_ns(r, parts->elapsed - parts->cpu - parts->unknown);
	w->idle_ns += ip_recording_ns(r, parts->idle);
	w->open += open;
	if (runqueue)
		add_object(w, &(struct cli_top_object){.kind = "runqueue", .ns = runqueue});
}

static int take_profile(struct cli_top_kernel_process *p, const struct by_name *names,
			struct ip_trace_waits *waits, const struct ip_wait_profile *w)
{
	const struct ip_recording *own = w->session;
	_cleanup_free_ uint32_t *to = calloc(own->nfunctions + 1ul, sizeof(*to));

	p->functions = calloc(names->recording->nfunctions + 1ul, sizeof(*p->functions));
	if (!to || !p->functions)
		return ip_error("out of memory");
	p->nfunctions = names->recording->nfunctions;
	for (uint32_t i = 0; i < own->nfunctions; i++) {
		to[i] = w->functions[i].elapsed || w->open_calls[i]
				? find(names, own->functions[i].linker_name,
				       ip_recording_module_name(own, &own->functions[i]))
				: UINT32_MAX;
		if (to[i] != UINT32_MAX)
			fill(&p->functions[to[i]], own, &w->functions[i], w->open_calls[i]);
	}
	for (size_t i = 0; i < w->nwaits; i++) {
		const struct ip_wait_object *o = &w->objects[w->waits[i].object];
		struct cli_top_object object = {.kind = ip_wait_kind_name(o->kind),
						.ns = ip_recording_ns(own, w->waits[i].ticks),
						.idle_ns = ip_recording_ns(own, w->waits[i].idle)};
		struct cli_top_wait *f = to[w->waits[i].owner] != UINT32_MAX
						 ? &p->functions[to[w->waits[i].owner]]
						 : NULL;

		/* names are looked up for those that stay */
		if (!f || (f->nobjects == CLI_TOP_OBJECTS_MOST &&
			   f->objects[f->nobjects - 1].ns >= object.ns))
			continue;
		object.name = strdup(ip_object_name(waits->names, o));
		if (!object.name)
			return ip_error("out of memory");
		add_object(f, &object);
	}
	p->known = true;
	return 0;
}

/* Since when all threads' calls are known: rings may have no room for the whole interval. */
static uint64_t known_from(const struct ip_trace_reader *trace)
{
	uint64_t from = 0;

	for (size_t i = 0; i < trace->nruns; i++)
		if (trace->runs[i].lost && trace->runs[i].begin > from)
			from = trace->runs[i].begin;
	return from;
}

static int read_trace(struct cli_top_kernel *kernel, struct cli_top_kernel_process *p,
		      const struct by_name *names, const char *dir, uint64_t from, uint64_t to)
{
	struct ip_trace_reader *trace;
	struct ip_trace_waits *waits = NULL;
	struct ip_wait_profile *profile = NULL;
	struct ip_idle_waits idle = {0};
	uint64_t since, kept;
	int ret;

	if (ip_trace_reader_open(dir, &trace) < 0)
		return -1;
	ret = ip_trace_waits_read(trace, false, &waits);
	if (ret == 0)
		ret = ip_error("pid %d: its session has no events of the kernel", p->pid);
	if (ret > 0 && !kernel->with_idle &&
	    ip_idle_waits_find(trace, waits->states, &waits->descriptors, &idle) < 0)
		ret = -1;
	since = known_from(trace);
	if (ret > 0) {
		profile = ip_wait_profile_between(trace, waits->states, &waits->descriptors, &idle,
						  from, to);
		ret = profile ? take_profile(p, names, waits, profile) : -1;
		if (ip_states_lost_between(waits->states, from, to))
			kernel->lost += waits->states->lost;
		/* older events of the kernel may have had no room, either */
		if (waits->states->begin > since)
			since = waits->states->begin;
	}
	kept = since < to ? ip_recording_ns(trace->session, to - since) : 0;
	if (since > from && kept < kernel->kept_ns)
		kernel->kept_ns = kept;
	ip_wait_profile_destroy(profile);
	ip_idle_waits_clear(&idle);
	ip_trace_waits_destroy(waits);
	ip_trace_reader_close(trace);
	return ret < 0 ? -1 : 0;
}

static void remove_snapshot(const char *dir)
{
	struct ip_dir_place place;

	if (ip_dir_locate(dir, &place) < 0)
		return;
	ip_dir_remove(place.parent, place.name);
	ip_dir_place_close(&place);
}

static int read_process(struct cli_top_kernel *kernel, struct cli_top_kernel_process *p,
			const struct cli_live_counts *counts, const struct by_name *names,
			const char *place)
{
	_cleanup_free_ char *dir = NULL;
	struct ip_session_snapshot done;
	int ret;

	if (asprintf(&dir, "%s/snapshot-%d", place, p->pid) < 0) {
		dir = NULL;
		return ip_error("out of memory");
	}
	if (ip_session_ask_snapshot(p->pid, 0, dir, NULL, &done) < 0)
		return -1;
	ret = read_trace(kernel, p, names, dir, counts->before->tsc, counts->now->tsc);
	remove_snapshot(dir);
	return ret;
}

static void note_missing(struct cli_top_kernel *kernel, const char *why)
{
	if (!kernel->without++)
		snprintf(kernel->why, sizeof(kernel->why), "%s", why);
}

int cli_top_kernel_read(struct cli_top_kernel *kernel, const struct cli_live_counts *counts,
			const char *place)
{
	struct by_name names;

	cli_top_kernel_clear(kernel);
	kernel->kept_ns = UINT64_MAX;
	if (!counts->recording || !counts->before)
		return 0;
	if (sort_names(counts->recording, &names) < 0)
		return -1;
	for (size_t i = 0; i < counts->n; i++) {
		const struct cli_live_process *live = &counts->processes[i];
		struct cli_top_kernel_process p = {.pid = live->pid};

		if (!live->known || live->ended)
			continue;
		if (live->joined) {
			note_missing(kernel, "the session was begun by another command");
			continue;
		}
		if (!cli_top_kernel_fits(live->pid)) {
			note_missing(kernel, "system calls of a 32-bit program cannot be told from "
					     "those of others");
			continue;
		}
		if (read_process(kernel, &p, counts, &names, place) < 0) {
			clear_process(&p);
			note_missing(kernel, ip_error_message());
			continue;
		}
		if (ip_array_grow(&kernel->items, kernel->n, sizeof(p)) < 0) {
			clear_process(&p);
			free(names.order);
			return -1;
		}
		kernel->items[kernel->n++] = p;
	}
	free(names.order);
	return 0;
}

/* ---- rows ---- */

/* An object of one name in several processes is one: each has a lock of that name. */
static void join_object(struct cli_top_wait *w, const struct cli_top_object *object)
{
	struct cli_top_object joined = *object;
	size_t at = 0;

	while (at < w->nobjects && (strcmp(w->objects[at].kind, object->kind) != 0 ||
				    strcmp(w->objects[at].name ? w->objects[at].name : "",
					   object->name ? object->name : "") != 0))
		at++;
	if (at < w->nobjects) {
		joined.ns += w->objects[at].ns;
		joined.idle_ns += w->objects[at].idle_ns;
		memmove(&w->objects[at], &w->objects[at + 1],
			(--w->nobjects - at) * sizeof(*w->objects));
	}
	for (at = w->nobjects; at && w->objects[at - 1].ns < joined.ns;)
		at--;
	if (at == CLI_TOP_OBJECTS_MOST)
		return;
	w->nobjects -= w->nobjects == CLI_TOP_OBJECTS_MOST;
	memmove(&w->objects[at + 1], &w->objects[at], (w->nobjects - at) * sizeof(*w->objects));
	w->objects[at] = joined;
	w->nobjects++;
}

bool cli_top_kernel_wait(const struct cli_top_kernel *kernel, uint32_t function, pid_t pid,
			 struct cli_top_wait *ret)
{
	bool known = false;

	*ret = (struct cli_top_wait){0};
	for (size_t i = 0; i < kernel->n; i++) {
		const struct cli_top_kernel_process *p = &kernel->items[i];
		const struct cli_top_wait *w = &p->functions[function];

		if (!p->known || function >= p->nfunctions || (pid && p->pid != pid) ||
		    (!w->elapsed_ns && !w->open))
			continue;
		known = true;
		ret->elapsed_ns += w->elapsed_ns;
		ret->cpu_ns += w->cpu_ns;
		ret->waited_ns += w->waited_ns;
		ret->unknown_ns += w->unknown_ns;
		ret->idle_ns += w->idle_ns;
		ret->open += w->open;
		for (size_t k = 0; k < w->nobjects; k++)
			join_object(ret, &w->objects[k]);
	}
	return known;
}

static double percent(const struct cli_top_wait *w, uint64_t ns)
{
	if (!w->elapsed_ns || w->unknown_ns > w->elapsed_ns / UNKNOWN_SHARE)
		return -1;
	return 100.0 * (double)ns / (double)(w->elapsed_ns - w->unknown_ns);
}

double cli_top_wait_percent(const struct cli_top_wait *w)
{
	return percent(w, w->waited_ns);
}

double cli_top_wait_busy_percent(const struct cli_top_wait *w)
{
	return percent(w, w->waited_ns > w->idle_ns ? w->waited_ns - w->idle_ns : 0);
}
