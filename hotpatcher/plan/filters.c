/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracer's side of filters: options, rules of functions, names of threads.
 */
#include "hotpatcher/plan/filters.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/notice.h"
#include "common/trace/trace_format.h"
#include "hotpatcher/ptrace/stop.h"

#define LOOK_NS	   100000000ull /* how often the names of known threads are read again */
#define RULES_PAGE 4096ull

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

/* Reads the next id in a list of thread ids. Returns the rest of the list; NULL at its end. *ret: 0
 * if it is no id. */
static const char *next_tid(const char *text, uint32_t *ret)
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
		p = next_tid(p, &tid);
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
	options->start = options->stop = (struct ip_filter_trigger){0};
}

bool ip_filters_any(const struct ip_filter_options *o)
{
	return o->depth || o->min_duration_ns || o->nsamples || o->start.name || o->stop.name ||
	       o->tids || o->names || o->callsite;
}

static bool same_pid_namespace(pid_t pid)
{
	char name[64], ours[64] = "", theirs[64] = "?";

	snprintf(name, sizeof(name), "/proc/%d/ns/pid", pid);
	return readlink("/proc/self/ns/pid", ours, sizeof(ours) - 1) > 0 &&
	       readlink(name, theirs, sizeof(theirs) - 1) > 0 && !strcmp(ours, theirs);
}

/* Returns the thread's id in the target's own namespace; 0: there is no such thread. */
static uint32_t inner_tid(pid_t pid, uint32_t tid)
{
	_cleanup_fclose_ FILE *file = NULL;
	char name[96], line[512];
	const char *last;

	snprintf(name, sizeof(name), "/proc/%d/task/%u/status", pid, tid);
	file = fopen(name, "re");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "NSpid:", 6)) {
			last = strrchr(line, '\t');
			return last ? strtoul(last, NULL, 10) : 0;
		}
	return 0;
}

static int begin_threads(const struct ip_filter_options *o, struct ip_filters *f,
			 const struct ip_target *target)
{
	for (const char *p = o->tids; p;) {
		uint32_t tid;

		p = next_tid(p, &tid);
		f->thread[f->nthreads] = inner_tid(target->pid, tid);
		if (!f->thread[f->nthreads++])
			return ip_error(
				"pid %d has no thread %u (--tid): ls /proc/%d/task shows them",
				target->pid, tid, target->pid);
	}
	f->threads = (o->tids ? 1 : 0) | (o->names ? 2 : 0);
	return 0;
}

void ip_filters_describe(const struct ip_filter_options *o,
			 void (*tell)(void *data, const char *text), void *data)
{
	char text[512];

	if (o->depth) {
		snprintf(text, sizeof(text), "depth %u", o->depth);
		tell(data, text);
	}
	if (o->min_duration_ns) {
		snprintf(text, sizeof(text), "min-duration %" PRIu64 " ns", o->min_duration_ns);
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
	if (o->tids) {
		snprintf(text, sizeof(text), "tid %s", o->tids);
		tell(data, text);
	}
	if (o->names) {
		snprintf(text, sizeof(text), "thread %s", o->names);
		tell(data, text);
	}
	if (o->callsite)
		tell(data, "callsite");
}

int ip_filters_begin(const struct ip_filter_options *o, struct ip_area *area,
		     const struct ip_target *target, const struct ip_clock_reading *start)
{
	struct ip_filters *f = area->filters;
	struct ip_clock_reading now;
	uint64_t hz;

	memset(f, 0, sizeof(*f));
	if (!ip_filters_any(o))
		return 0;
	if (begin_threads(o, f, target) < 0)
		return -1;
	hz = ip_clock_hz(start, &now, 2000000);
	f->depth = o->depth;
	f->min_ticks = (unsigned __int128)o->min_duration_ns * hz / 1000000000;
	if (o->min_duration_ns && !f->min_ticks)
		f->min_ticks = 1;
	f->start_after = o->start.name ? o->start.calls : 0;
	f->stop_after = o->stop.name ? o->stop.calls : 0;
	f->callsite = o->callsite;
	f->frames = o->depth || o->min_duration_ns || o->nsamples || o->start.name || o->names;
	return 0;
}

/* A function, with the part of its name that it has in common with its parts and instances. */
struct named {
	const struct ip_plan_function *f;
	const char *name;
	size_t length;
};

static int compare_names(const struct named *x, const struct named *y)
{
	size_t least = x->length < y->length ? x->length : y->length;
	int order = x->f->module_index < y->f->module_index
			    ? -1
			    : x->f->module_index > y->f->module_index;

	if (!order)
		order = memcmp(x->name, y->name, least);
	if (!order)
		order = x->length < y->length ? -1 : x->length > y->length;
	return order;
}

static int by_name(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	int order = compare_names(x, y);

	return order ? order : x->f->number < y->f->number ? -1 : x->f->number > y->f->number;
}

static bool matches(const struct ip_selection *selection, const struct ip_plan_function *f)
{
	const struct ip_probe_list *list = f->module->list;
	const struct ip_pl_function *function = &list->functions[f->function];

	return ip_selection_match(selection, ip_probe_list_string(list, function->name),
				  function->file ? ip_probe_list_string(list, function->file)
						 : NULL,
				  f->module->path);
}

static struct ip_filter_rule rule_for(const struct ip_filter_options *o,
				      const struct ip_plan_function *f)
{
	struct ip_filter_rule rule = {0};

	for (size_t i = 0; i < o->nsamples; i++) /* the last one that matches decides */
		if (!o->samples[i].selection || matches(o->samples[i].selection, f))
			rule.every = o->samples[i].every;
	if (o->start.name && matches(o->start.selection, f))
		rule.flags |= IP_RULE_START;
	if (o->stop.name && matches(o->stop.selection, f))
		rule.flags |= IP_RULE_STOP;
	if (f->inlined && !f->jumps)
		rule.flags |= IP_RULE_INLINED | IP_RULE_SITE;
	if (f->jumps)
		rule.flags |= IP_RULE_JUMP;
	if (f->silent)
		rule.flags |= IP_RULE_SILENT;
	if (f->entry_only)
		rule.flags |= IP_RULE_NO_EXIT;
	if (f->module->list->header->placement == IP_PLACEMENT_FENTRY)
		rule.flags |= IP_RULE_EXACT;
	return rule;
}

static void add_frames(struct ip_filter_rule *rules, const struct ip_plan *plan);

struct ip_filter_rule *ip_filters_call_sites(const struct ip_plan *plan)
{
	static const struct ip_filter_options none;
	struct ip_filter_rule *rules = calloc(plan->nfunctions + 1, sizeof(*rules));

	if (!rules) {
		ip_error("out of memory");
		return NULL;
	}
	for (size_t i = 0; i < plan->nfunctions; i++)
		rules[i] = rule_for(&none, &plan->functions[i]);
	add_frames(rules, plan);
	return rules;
}

/* Sets where the return address lies, if all entry sites of the function agree. */
static void add_frames(struct ip_filter_rule *rules, const struct ip_plan *plan)
{
	for (size_t i = 0; i < plan->nchanges; i++) {
		const struct ip_plan_function *f = &plan->functions[plan->function_of[i]];
		const struct ip_pl_probe *probe = &f->module->list->probes[plan->probe_of[i]];
		struct ip_filter_rule *rule = &rules[plan->function_of[i]];

		if (probe->kind != IP_PROBE_ENTRY)
			continue;
		if (probe->form == IP_FORM_JUMP)
			rule->flags &= ~IP_RULE_SITE;
		if (f->inlined || f->jumps)
			continue;
		if (!probe->frame || probe->frame >= UINT16_MAX ||
		    (rule->frame && rule->frame != probe->frame))
			rule->frame = UINT16_MAX;
		else
			rule->frame = probe->frame;
	}
	for (size_t i = 0; i < plan->nfunctions; i++)
		if (rules[i].frame == UINT16_MAX)
			rules[i].frame = 0;
}

/* Gives the parts and instances of a function a common group: the smallest of their numbers. */
static int add_groups(struct ip_filter_rule *rules, const struct ip_plan *plan)
{
	_cleanup_free_ struct named *names =
		calloc(plan->nfunctions ? plan->nfunctions : 1, sizeof(*names));

	if (!names)
		return ip_error("out of memory");
	for (size_t i = 0; i < plan->nfunctions; i++) {
		const struct ip_plan_function *f = &plan->functions[i];
		const struct ip_probe_list *list = f->module->list;
		const char *name = ip_probe_list_string(list, list->functions[f->function].name);

		names[i] = (struct named){f, name, ip_base_name_length(name)};
	}
	qsort(names, plan->nfunctions, sizeof(*names), by_name);
	for (size_t i = 0, first = 0; i < plan->nfunctions; i++) {
		if (compare_names(&names[first], &names[i]))
			first = i;
		rules[names[i].f - plan->functions].group = names[first].f->number;
	}
	return 0;
}

static int reserve(struct ip_area *area, uint32_t n)
{
	uint64_t size =
		((uint64_t)n * sizeof(struct ip_filter_rule) + RULES_PAGE - 1) & ~(RULES_PAGE - 1);

	if (n > IP_AREA_RULES)
		return ip_error("probe numbers up to %u are too many", n);
	if (fallocate(area->fd, 0, IP_AREA_RULES_OFFSET, size) < 0)
		return ip_error_errno("cannot allocate memory for the rules of %u functions", n);
	return 0;
}

int ip_filters_add_plan(const struct ip_filter_options *o, struct ip_area *area,
			const struct ip_plan *plan)
{
	_cleanup_free_ struct ip_filter_rule *rules =
		calloc(plan->nfunctions ? plan->nfunctions : 1, sizeof(*rules));
	uint32_t n = area->nrules;

	if (!ip_filters_any(o))
		return 0;
	if (!rules)
		return ip_error("out of memory");
	for (size_t i = 0; i < plan->nfunctions; i++) {
		if (plan->functions[i].number > IP_NUMBER_MAX)
			return ip_error("the runtime's memory is damaged (numbers of functions)");
		rules[i] = rule_for(o, &plan->functions[i]);
		if (plan->functions[i].number >= n)
			n = plan->functions[i].number + 1;
	}
	add_frames(rules, plan);
	if (add_groups(rules, plan) < 0 || reserve(area, n) < 0)
		return -1;
	for (size_t i = 0; i < plan->nfunctions; i++) {
		struct ip_filter_rule *rule = &area->rules[plan->functions[i].number];

		/* if the function was live before, its count goes on */
		rules[i].count = rule->count;
		*rule = rules[i];
	}
	area->nrules = n;
	__atomic_store_n(&area->filters->nrules, n, __ATOMIC_RELEASE);
	return 0;
}

static int check_trigger(const struct ip_filter_trigger *t, const char *option,
			 const struct ip_plan *plan, pid_t pid)
{
	if (!t->name)
		return 0;
	for (size_t i = 0; i < plan->nfunctions; i++)
		if (matches(t->selection, &plan->functions[i]))
			return 0;
	return ip_error(
		"pid %d: no function that is recorded matches %s %s: iprobe list shows names", pid,
		option, t->name);
}

int ip_filters_check(const struct ip_filter_options *o, const struct ip_plan *plan, pid_t pid)
{
	return check_trigger(&o->start, "--start-on", plan, pid) < 0 ||
			       check_trigger(&o->stop, "--stop-on", plan, pid) < 0
		       ? -1
		       : 0;
}

void ip_filters_tell_samples(const struct ip_filter_options *o, pid_t pid)
{
	for (size_t i = 0; i < o->nsamples; i++) {
		_cleanup_free_ char *unused = ip_selection_unused(o->samples[i].selection);

		if (unused)
			ip_notice("pid %d: no function that is recorded matches %s of --sample %u",
				  pid, unused, o->samples[i].every);
	}
}

void ip_filters_tell_names(const struct ip_filter_options *o, const struct ip_filter_names *names,
			   pid_t pid)
{
	const char *p = o->names;

	for (unsigned i = 0; p && i < 64; i++) {
		int length = strcspn(p, ",");

		if (length && !(names->seen & 1ull << i))
			ip_notice("pid %d: no thread that called what is recorded had a name that "
				  "matches %.*s (--thread)",
				  pid, length, p);
		p = p[length] ? p + length + 1 : NULL;
	}
}

/* Returns whether the name matches one of the globs. *seen: adds the globs that it matches. */
static bool match_name(const char *globs, const char *name, uint64_t *seen)
{
	bool matched = false;
	unsigned i = 0;

	for (const char *p = globs;; p++, i++) {
		char glob[256];
		size_t length = strcspn(p, ",");

		if (length < sizeof(glob)) {
			memcpy(glob, p, length);
			glob[length] = '\0';
			if (fnmatch(glob, name, 0) == 0) {
				*seen |= i < 64 ? 1ull << i : 0;
				matched = true;
			}
		}
		p += length;
		if (!*p)
			return matched;
	}
}

/* Reads the name of a thread. pid and tid are ids in the target's namespace. */
static bool thread_name(const struct ip_target *target, pid_t pid, pid_t tid, char *name,
			size_t size)
{
	_cleanup_fclose_ FILE *file = NULL;
	char path[96];

	if (same_pid_namespace(target->pid)) {
		snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", pid, tid);
	} else {
		_cleanup_closedir_ DIR *dir = NULL;
		struct dirent *entry;

		snprintf(path, sizeof(path), "/proc/%d/task", target->pid);
		dir = pid == target->inner_pid ? opendir(path) : NULL;
		while (dir && (entry = readdir(dir)))
			if (isdigit((unsigned char)*entry->d_name) &&
			    inner_tid(target->pid, strtoul(entry->d_name, NULL, 10)) ==
				    (uint32_t)tid)
				break;
		if (!dir || !entry)
			return false;
		snprintf(path, sizeof(path), "/proc/%d/task/%lu/comm", target->pid,
			 strtoul(entry->d_name, NULL, 10));
	}
	file = fopen(path, "re");
	if (!file || !fgets(name, size, file))
		return false;
	name[strcspn(name, "\n")] = '\0';
	return true;
}

/* Returns whether --tid names the thread. Then it is recorded, whatever its name is. */
static bool named_by_id(const struct ip_filters *f, uint32_t tid)
{
	for (uint32_t i = 0; f->threads & 1 && i < f->nthreads && i < IP_FILTER_THREADS; i++)
		if (f->thread[i] == tid)
			return true;
	return false;
}

void ip_filters_step(const struct ip_filter_options *o, struct ip_area *area,
		     const struct ip_target *target, struct ip_filter_names *names)
{
	uint32_t used = __atomic_load_n(&area->header->slots_used, __ATOMIC_ACQUIRE);
	uint64_t now;
	bool all;

	if (!o->names)
		return;
	now = ip_now_ns();
	all = now >= names->next_ns;
	for (uint32_t i = 0; i < used && i < IP_AREA_SLOTS; i++) {
		struct ip_slot *slot = &area->slots[i];
		uint32_t wanted;
		char name[64];

		if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != IP_SLOT_CLAIMED ||
		    (!all && slot->wanted != IP_SLOT_UNDECIDED) ||
		    named_by_id(area->filters, slot->tid))
			continue;
		wanted = thread_name(target, slot->pid, slot->tid, name, sizeof(name)) &&
					 match_name(o->names, name, &names->seen)
				 ? IP_SLOT_WANTED
				 : IP_SLOT_UNWANTED;
		if (wanted != slot->wanted)
			__atomic_store_n(&slot->wanted, wanted, __ATOMIC_RELEASE);
	}
	if (all)
		names->next_ns = ip_now_ns() + LOOK_NS;
}

bool ip_filters_stopped(const struct ip_filter_options *o, const struct ip_area *area)
{
	return o->stop.name && __atomic_load_n(&area->filters->stopped, __ATOMIC_RELAXED);
}
