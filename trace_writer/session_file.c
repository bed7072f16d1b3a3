/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects the content of the session file, as facts become known.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/elf/elf_file.h"
#include "common/error.h"
#include "common/selection/selection.h"
#include "common/trace/kernel_format.h"
#include "common/trace/no_events.h"
#include "common/trace/text_line.h"
#include "hotpatcher/plan/payload_rules.h"
#include "trace_writer/list_copy.h"
#include "trace_writer/writer_private.h"

#define LIBRARIES_MAX  10000u
#define STOPS_MAX      1000u
#define MODULES_MAX    4096u  /* readers accept a few more */
#define SIGNATURES_MAX 65536u /* readers accept no more */

void ip_trace_put_value(FILE *out, const char *value)
{
	for (;;) {
		size_t plain = 0;
		unsigned char c;

		while ((c = value[plain]) >= 0x20 && c != 0x7f && c != '\\')
			plain++;
		fwrite_unlocked(value, 1, plain, out);
		if (!c)
			return;
		fprintf(out, "\\x%02x", c);
		value += plain + 1;
	}
}

/* Waits until the lists are written: their modules may go from now on. 0, or -1 with an error. */
static int finish_lists(struct ip_trace *trace)
{
	int ret = 0;

	while (trace->ncopies)
		ret |= ip_list_copy_finish(trace->copies[--trace->ncopies]);
	free(ip_steal_ptr(trace->copies));
	return ret;
}

static int copy_list(struct ip_trace *trace, const struct ip_module *module, const char *id)
{
	const struct ip_pl_header *h = module->list->header;
	_cleanup_free_ char *name = NULL, *path = NULL;
	struct ip_list_copy *copy;
	int fd;
	uint64_t size = h->strings_offset + h->strings_size;
	uint64_t probes_end = h->probes_offset + h->nprobes * sizeof(struct ip_pl_probe);
	uint64_t functions_end =
		h->functions_offset + h->nfunctions * sizeof(struct ip_pl_function);

	size = probes_end > size ? probes_end : size;
	size = functions_end > size ? functions_end : size;
	if (asprintf(&name, "%s/%s.probes", IP_TRACE_SUBDIR, id) < 0)
		name = NULL;
	if (!name || asprintf(&path, "%s/%s", trace->dir, name) < 0) {
		path = NULL;
		return ip_error("out of memory");
	}
	unlinkat(trace->dirfd, name, 0); /* left by a session that was broken off, and goes on */
	fd = ip_file_make(trace->dirfd, name, O_WRONLY);
	if (fd < 0)
		return ip_error_errno("cannot make %s", path);
	if (ip_array_grow(&trace->copies, trace->ncopies, sizeof(*trace->copies)) < 0) {
		close(fd);
		return -1;
	}
	if (ip_list_copy_start(fd, h, size, path, &copy) < 0)
		return -1;
	if (copy)
		trace->copies[trace->ncopies++] = copy;
	return 0;
}

/* Adds the module's line if it is new. Returns its index, or -1 with an error. */
static int add_module(struct ip_trace *trace, const struct ip_module *module, uint32_t first_number)
{
	char id[2 * IP_BUILD_ID_MAX + 1];
	char *key = NULL;
	void *grown;

	ip_build_id_format(module->elf->build_id, module->elf->build_id_size, id);
	if (asprintf(&key, "%s %lx", id, module->load_bias) < 0)
		return ip_error("out of memory");
	for (size_t i = 0; i < trace->nmodules; i++)
		if (!strcmp(trace->modules[i], key)) {
			free(key);
			return i;
		}
	/* a module that is loaded at very many addresses is shown at one of them */
	for (size_t i = 0; trace->nmodules >= MODULES_MAX && i < trace->nmodules; i++)
		if (!strncmp(trace->modules[i], id, strlen(id))) {
			free(key);
			return i;
		}
	grown = realloc(trace->modules, (trace->nmodules + 1) * sizeof(*trace->modules));
	if (!grown) {
		free(key);
		return ip_error("out of memory");
	}
	trace->modules = grown;
	trace->modules[trace->nmodules] = key;
	if (copy_list(trace, module, id) < 0)
		return -1;
	fprintf(trace->text_out, "module\t%zu\t", trace->nmodules);
	ip_trace_put_value(trace->text_out, module->path);
	fprintf(trace->text_out, "\t%s\t%lu\t%u\t%s\n", id, module->load_bias, first_number,
		ip_placement_name(module->list->header->placement));
	return trace->nmodules++;
}

bool ip_trace_knows(const struct ip_trace *trace, uint32_t number)
{
	return number <= IP_NUMBER_MAX && trace->known[number / 8] & 1 << number % 8;
}

size_t ip_trace_functions(const struct ip_trace *trace)
{
	return trace->nfunctions;
}

/* Appends "MODULE:FUNCTION" to the text of all labels, of which a program has up to millions. 0, or
 * -1 with an error. */
static int add_label_text(struct ip_trace *trace, const char *module, const char *function,
			  uint32_t *ret)
{
	const size_t length = strlen(module), size = strlen(function) + 1,
		     end = trace->label_size + length + 1 + size;
	char *at;

	if (end > UINT32_MAX)
		return ip_error("the names of the functions take more than 4 GiB");
	if (end > trace->label_room) {
		const size_t room = end > 2 * trace->label_room ? end : 2 * trace->label_room;

		at = realloc(trace->label_text, room);
		if (!at)
			return ip_error("out of memory");
		trace->label_text = at;
		trace->label_room = room;
	}
	at = trace->label_text + trace->label_size;
	memcpy(at, module, length);
	at[length] = ':';
	memcpy(at + length + 1, function, size);
	*ret = trace->label_size;
	trace->label_size = end;
	return 0;
}

int ip_trace_add_label(struct ip_trace *trace, uint32_t number, const char *module_path,
		       const char *name, bool inlined)
{
	const bool plain = ip_name_is_plain(name);
	_cleanup_free_ char *readable = plain ? NULL : ip_demangle(name, true);
	const char *base = strrchr(module_path, '/');
	uint32_t label = 0;

	if (ip_array_grow(&trace->labels, trace->nlabels, sizeof(*trace->labels)) < 0)
		return -1;
	if (!plain && !readable)
		return ip_error("out of memory");
	if (add_label_text(trace, base ? base + 1 : module_path, plain ? name : readable, &label) <
	    0)
		return -1;
	trace->labels[trace->nlabels++] = (struct ip_ctf_label){number, label};
	/* the number of the other instance is next to it (ip_plan_bind) */
	trace->nfunctions += !ip_trace_knows(trace, inlined ? number - 1 : number + 1);
	trace->known[number / 8] |= 1 << number % 8;
	return 0;
}

/* As ip_trace_put_value(), which writes what has to be replaced in it. */
static void put_name(struct ip_text_line *line, const char *name)
{
	size_t plain = 0;
	unsigned char c;

	while ((c = name[plain]) >= 0x20 && c != 0x7f && c != '\\')
		plain++;
	if (!c) {
		ip_text_put_bytes(line, name, plain);
		return;
	}
	ip_text_flush(line);
	ip_trace_put_value(line->out, name);
}

static int add_function(struct ip_trace *trace, const struct ip_plan_function *f, unsigned module)
{
	struct ip_text_line line;
	const struct ip_probe_list *list = f->module->list;
	const struct ip_pl_function *function = &list->functions[f->function];
	const char *name = ip_probe_list_string(list, function->name);

	if (f->number > IP_NUMBER_MAX || ip_trace_knows(trace, f->number))
		return 0;
	if (ip_trace_add_label(trace, f->number, f->module->path, name, f->inlined) < 0)
		return -1;
	ip_text_begin(&line, trace->text_out);
	ip_text_put(&line, "function\t");
	ip_text_put_number(&line, f->number);
	ip_text_put(&line, "\t");
	ip_text_put_number(&line, module);
	ip_text_put(&line, "\t");
	put_name(&line, name);
	ip_text_put(&line, "\t");
	put_name(&line, function->file ? ip_probe_list_string(list, function->file) : "");
	ip_text_put(&line, "\t");
	ip_text_put_number(&line, function->line);
	ip_text_put(&line, "\t");
	ip_text_put(&line, f->jumps ? "j" : f->inlined ? "i" : f->entry_only ? "" : "-");
	ip_text_put(&line, f->entry_only ? "e" : "");
	ip_text_put(&line, f->returns ? "r\t" : "\t");
	ip_text_put_number(&line, f->frame == UINT32_MAX ? 0 : f->frame);
	ip_text_put(&line, "\n");
	ip_text_flush(&line);
	return 0;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Writes "1-4,7" and the line's end. */
static void put_numbers(FILE *out, uint32_t *numbers, size_t n)
{
	qsort(numbers, n, sizeof(*numbers), by_number);
	for (size_t i = 0, last; i < n; i = last + 1) {
		for (last = i; last + 1 < n && numbers[last + 1] == numbers[last] + 1;)
			last++;
		fprintf(out, "%s%u", i ? "," : "", numbers[i]);
		if (last > i)
			fprintf(out, "-%u", numbers[last]);
	}
	putc('\n', out);
}

static bool is_set(const uint8_t *bits, uint32_t number)
{
	return bits[number / 8] & 1 << number % 8;
}

/* Tells which of the plan's functions have become silent, or are silent no longer. */
static int add_silent(struct ip_trace *trace, const struct ip_plan *plan, bool silent)
{
	_cleanup_free_ uint32_t *numbers = calloc(plan->nfunctions + 1, sizeof(*numbers));
	size_t n = 0;

	if (!numbers)
		return ip_error("out of memory");
	for (size_t i = 0; i < plan->nfunctions; i++) {
		const struct ip_plan_function *f = &plan->functions[i];

		if (f->number > IP_NUMBER_MAX || f->silent != silent ||
		    is_set(trace->silent, f->number) == silent)
			continue;
		trace->silent[f->number / 8] ^= 1 << f->number % 8;
		numbers[n++] = f->number;
	}
	if (n) {
		fprintf(trace->text_out, "%s\t", silent ? "silent" : "shown");
		put_numbers(trace->text_out, numbers, n);
	}
	return 0;
}

/* Tells where tail exits lead. Each function is told once: the targets that it was bound to at
 * first remain valid. */
static int add_jumps(struct ip_trace *trace, const struct ip_plan *plan,
		     const struct ip_modules *modules, const struct ip_area *area)
{
	if (!trace->silent) {
		trace->silent = calloc(2, IP_NUMBER_MAX / 8 + 1);
		trace->jumps = trace->silent + IP_NUMBER_MAX / 8 + 1;
	}
	if (!trace->silent)
		return ip_error("out of memory");
	if (add_silent(trace, plan, true) < 0 || add_silent(trace, plan, false) < 0)
		return -1;
	for (size_t i = 0; i < plan->njumps; i++) {
		const struct ip_plan_jump *jump = &plan->jumps[i];
		uint64_t from = ip_plan_first_number(area, &modules->items[jump->module_index]) +
				(uint64_t)IP_NUMBERS_PER_FUNCTION * jump->function + 1,
			 to = ip_plan_first_number(area, &modules->items[jump->to_module]) +
			      (uint64_t)IP_NUMBERS_PER_FUNCTION * jump->to_function;

		if (from <= IP_NUMBER_MAX && to <= IP_NUMBER_MAX && !is_set(trace->jumps, from))
			fprintf(trace->text_out, "jump\t%lu\t%lu\n", from, to);
	}
	for (size_t i = 0; i < plan->nfunctions; i++)
		if (plan->functions[i].jumps && plan->functions[i].number <= IP_NUMBER_MAX)
			trace->jumps[plan->functions[i].number / 8] |=
				1 << plan->functions[i].number % 8;
	return 0;
}

int ip_trace_show(struct ip_trace *trace, const struct ip_plan *plan)
{
	return trace->silent ? add_silent(trace, plan, false) : 0;
}

static int add_plan(struct ip_trace *trace, const struct ip_plan *plan,
		    const struct ip_modules *modules, const struct ip_area *area)
{
	_cleanup_free_ int *index = calloc(modules->n ? modules->n : 1, sizeof(*index));

	if (!index)
		return ip_error("out of memory");
	for (size_t i = 0; i < plan->nfunctions; i++) {
		const struct ip_plan_function *f = &plan->functions[i];

		if (!index[f->module_index]) {
			int at =
				add_module(trace, f->module, ip_plan_first_number(area, f->module));

			if (at < 0)
				return -1;
			index[f->module_index] = at + 1;
		}
		if (add_function(trace, f, index[f->module_index] - 1) < 0)
			return -1;
	}
	return add_jumps(trace, plan, modules, area);
}

int ip_trace_add_plan(struct ip_trace *trace, const struct ip_plan *plan,
		      const struct ip_modules *modules, const struct ip_area *area)
{
	const int added = add_plan(trace, plan, modules, area);

	/* of two errors, the first one is told */
	_cleanup_free_ char *why = added < 0 ? strdup(ip_error_message()) : NULL;

	if (finish_lists(trace) < 0 && added == 0)
		return -1;
	return why ? ip_error("%s", why) : added;
}

int64_t ip_trace_add_signature(struct ip_trace *trace, const char *text)
{
	if (trace->nsignatures == SIGNATURES_MAX)
		return 0;
	fprintf(trace->text_out, "signature\t%u\t", ++trace->nsignatures);
	ip_trace_put_value(trace->text_out, text);
	putc('\n', trace->text_out);
	return trace->nsignatures;
}

int ip_trace_add_change(struct ip_trace *trace, const char *what, uint64_t tsc,
			const struct ip_plan *plan)
{
	_cleanup_free_ uint32_t *numbers = NULL;

	if (!plan->nfunctions)
		return 0;
	numbers = calloc(plan->nfunctions, sizeof(*numbers));
	if (!numbers)
		return ip_error("out of memory");
	for (size_t i = 0; i < plan->nfunctions; i++)
		numbers[i] = plan->functions[i].number;
	fprintf(trace->text_out, "%s\t%lu\t", what, tsc);
	put_numbers(trace->text_out, numbers, plan->nfunctions);
	return 0;
}

/* Tells which measured functions end by tail calls: their measurement ends there. numbers has room
 * for all functions. */
static void add_tails(struct ip_trace *trace, const struct ip_plan *plan, uint32_t *numbers)
{
	size_t n = 0;

	for (size_t i = 0; i < plan->nfunctions; i++)
		if (plan->functions[i].tails && ip_plan_measures(&plan->functions[i]))
			numbers[n++] = plan->functions[i].number;
	if (!n)
		return;
	fputs("tails\t", trace->text_out);
	put_numbers(trace->text_out, numbers, n);
}

int ip_trace_add_payloads(struct ip_trace *trace, const struct ip_plan *plan)
{
	_cleanup_free_ uint32_t *numbers = calloc(plan->nfunctions + 1, sizeof(*numbers));

	if (!numbers)
		return ip_error("out of memory");
	for (uint32_t duty = IP_DUTY_LOG + 1; duty <= IP_DUTY_USER; duty++) {
		size_t n = 0;

		for (size_t i = 0; i < plan->nfunctions; i++)
			if (plan->functions[i].duty == duty)
				numbers[n++] = plan->functions[i].number;
		if (!n)
			continue;
		fprintf(trace->text_out, "payload\t%s\t", ip_duty_name(duty));
		put_numbers(trace->text_out, numbers, n);
	}
	add_tails(trace, plan, numbers);
	return 0;
}

void ip_trace_add_dropped(struct ip_trace *trace, uint64_t tsc, uint32_t first, bool counted,
			  uint64_t per_second, uint64_t own_ticks, unsigned percent)
{
	uint32_t number = ip_trace_knows(trace, first) ? first : first + 1;

	fprintf(trace->text_out, "dropped\t%lu\t%u\t%s\t%lu\t%lu\t%u\n", tsc, number,
		counted ? "count" : "idle", per_second, own_ticks, percent);
}

int ip_trace_add_stop(struct ip_trace *trace, const struct ip_stop_record *stop)
{
	/* every change writes the whole file anew, so the file must not grow without limit */
	if (++trace->nstops > STOPS_MAX) {
		trace->more_stops.n++;
		trace->more_stops.ns += stop->ns;
		if (stop->ns > trace->more_stops.longest_ns)
			trace->more_stops.longest_ns = stop->ns;
		return 0;
	}
	fprintf(trace->text_out, "stop\t%s\t%lu\t%lu\t%zu\t%zu\t%zu%s\n", stop->kind, stop->tsc,
		stop->ns, stop->threads, stop->pages, stop->sites, stop->failed ? "\tfailed" : "");
	return 0;
}

void ip_trace_add_library(struct ip_trace *trace, const char *what, const struct ip_module *module)
{
	char id[2 * IP_BUILD_ID_MAX + 1];
	struct ip_clock_reading now;

	/* a program may load and unload libraries all day */
	if (!trace || ++trace->nlibraries > LIBRARIES_MAX)
		return;
	ip_clock_read(&now);
	ip_build_id_format(module->elf->build_id, module->elf->build_id_size, id);
	fprintf(trace->text_out, "%s\t%lu\t%lu\t%s\t", what, now.tsc, module->load_bias, id);
	ip_trace_put_value(trace->text_out, module->path);
	putc('\n', trace->text_out);
}

uint64_t ip_trace_add_live(struct ip_trace *trace)
{
	struct ip_clock_reading now;

	/* The line has no need to be on disk at once: a trace without it counts from its start. */
	ip_clock_read(&now);
	if (!trace->live_tsc)
		trace->live_tsc = now.tsc;
	return trace->live_tsc;
}

void ip_trace_add_idle(struct ip_trace *trace, uint64_t tsc)
{
	trace->idle_tsc = tsc;
}

void ip_trace_add_exec(struct ip_trace *trace, pid_t pid)
{
	struct ip_clock_reading now;

	ip_clock_read(&now);
	fprintf(trace->text_out, "exec\t%d\t%lu\n", pid, now.tsc);
}

void ip_trace_add_resumed(struct ip_trace *trace, pid_t pid, uint64_t from_tsc, uint64_t to_tsc)
{
	fprintf(trace->text_out, "again\t%d\t%lu\t%lu\n", pid, from_tsc, to_tsc);
}

void ip_trace_add_missing(struct ip_trace *trace, uint32_t number, uint64_t from_tsc,
			  uint64_t to_tsc)
{
	fprintf(trace->text_out, "missing\t%u\t%lu\t%lu\n", number, from_tsc, to_tsc);
}

void ip_trace_add_kernel(struct ip_trace *trace, unsigned groups, uint64_t events, uint64_t lost,
			 const char *source)
{
	if (source)
		fprintf(trace->text_out, "kernel_source\t%s\n", source);
	fprintf(trace->text_out, "kernel_events\t%lu\t%lu\t", events, lost);
	for (unsigned i = 0, n = 0; i < IP_KERNEL_GROUPS; i++)
		if (groups >> i & 1)
			fprintf(trace->text_out, "%s%s", n++ ? "," : "", ip_kernel_group_name(i));
	putc('\n', trace->text_out);
}

void ip_trace_add_coarse(struct ip_trace *trace, uint64_t late, uint64_t latest, uint64_t refreshes,
			 uint64_t cpu_ns)
{
	fprintf(trace->text_out, "coarse\t%lu\t%lu\t%lu\t%lu\n", late, latest, refreshes, cpu_ns);
}

void ip_trace_add_compressed(struct ip_trace *trace, uint64_t plain)
{
	fprintf(trace->text_out, "compressed\tzstd\t%lu\n", plain);
}

void ip_trace_add_limit(struct ip_trace *trace, uint64_t bytes, const char *by)
{
	fprintf(trace->text_out, "limit\t%lu\t%s\n", bytes, by);
}

void ip_trace_add_until(struct ip_trace *trace, const char *condition)
{
	fputs("until\t", trace->text_out);
	ip_trace_put_value(trace->text_out, condition);
	putc('\n', trace->text_out);
}

void ip_trace_add_clock(struct ip_trace *trace, const char *name)
{
	fprintf(trace->text_out, "clock\t%s\n", name);
}

void ip_trace_add_overwritten(struct ip_trace *trace, uint64_t events)
{
	fprintf(trace->text_out, "overwritten\t%lu\n", events);
}

void ip_trace_add_rotated(struct ip_trace *trace)
{
	struct ip_trace_rotated r;

	ip_trace_rotated(trace, &r);
	fprintf(trace->text_out, "rotated\t%lu\t%lu\t%lu\t%lu\t%lu\n", r.events, r.pieces,
		r.packets, r.bytes, r.tsc);
}

/* Keeps the last name of each thread for other readers of CTF. Without memory they see fewer. */
static void note_thread(struct ip_trace *trace, uint32_t tid, const char *name)
{
	struct ip_ctf_thread *t = NULL;

	for (size_t i = 0; i < trace->nthreads && !t; i++)
		if (trace->threads[i].tid == tid)
			t = &trace->threads[i];
	if (!t) {
		if (!*name ||
		    ip_array_grow(&trace->threads, trace->nthreads, sizeof(*trace->threads)) < 0)
			return;
		t = &trace->threads[trace->nthreads++];
		t->tid = tid;
	}
	snprintf(t->name, sizeof(t->name), "%s", name);
}

void ip_trace_add_thread(struct ip_trace *trace, pid_t tid, const char *name, uint64_t tsc)
{
	fprintf(trace->text_out, "thread\t%d\t", tid);
	ip_trace_put_value(trace->text_out, name);
	fprintf(trace->text_out, "\t%lu\n", tsc);
	note_thread(trace, tid, name);
}

void ip_trace_add_process(struct ip_trace *trace, pid_t pid, pid_t parent, bool forked,
			  const char *name, const char *command)
{
	fprintf(trace->text_out, "process\t%d\t%d\t%s\t", pid, parent, forked ? "f" : "-");
	ip_trace_put_value(trace->text_out, name);
	putc('\t', trace->text_out);
	ip_trace_put_value(trace->text_out, command);
	putc('\n', trace->text_out);
}

void ip_trace_add_stack(struct ip_trace *trace, pid_t pid, pid_t tid, uint64_t tsc,
			const struct ip_trace_stack_frame *frames, size_t n)
{
	fprintf(trace->text_out, "stack\t%d\t%d\t%lu\t", pid, tid, tsc);
	for (size_t i = 0; i < n; i++)
		fprintf(trace->text_out, "%s%u:%lu", i ? "," : "", frames[i].number, frames[i].sp);
	putc('\n', trace->text_out);
}

void ip_trace_add_no_events(struct ip_trace *trace, const struct ip_no_events_reason *reason)
{
	fprintf(trace->text_out, "no_events\t%s\t", reason->code);
	ip_trace_put_value(trace->text_out, reason->text);
	putc('\n', trace->text_out);
}

void ip_trace_add_selection(struct ip_trace *trace, const char *text)
{
	fprintf(trace->text_out, "selection\t");
	ip_trace_put_value(trace->text_out, text);
	putc('\n', trace->text_out);
}

void ip_trace_add_filter(struct ip_trace *trace, const char *text)
{
	fputs("filter\t", trace->text_out);
	ip_trace_put_value(trace->text_out, text);
	putc('\n', trace->text_out);
}

static int add_others(struct ip_trace *trace, const struct ip_plan *plan,
		      const struct ip_modules *modules)
{
	_cleanup_free_ bool *named = calloc(modules->n + 1, sizeof(*named));
	char id[2 * IP_BUILD_ID_MAX + 1];

	if (!named)
		return ip_error("out of memory");
	for (size_t i = 0; i < plan->nfunctions; i++)
		named[plan->functions[i].module_index] = true;
	for (size_t i = 0; i < modules->n; i++) {
		const struct ip_module *m = &modules->items[i];

		if (named[i] || !m->elf || !m->elf->build_id_size)
			continue;
		ip_build_id_format(m->elf->build_id, m->elf->build_id_size, id);
		if (m->list && copy_list(trace, m, id) < 0)
			return -1;
		fprintf(trace->text_out, "other\t%lu\t%s\t", m->load_bias, id);
		ip_trace_put_value(trace->text_out, m->path);
		putc('\n', trace->text_out);
	}
	return 0;
}

int ip_trace_add_others(struct ip_trace *trace, const struct ip_plan *plan,
			const struct ip_modules *modules)
{
	const int added = add_others(trace, plan, modules);

	return finish_lists(trace) < 0 ? -1 : added;
}

void ip_trace_add_filtered(struct ip_trace *trace, uint64_t events)
{
	fprintf(trace->text_out, "filtered\t%lu\n", events);
}

void ip_trace_add_looks(struct ip_trace *trace, const struct ip_stop_looks *looks)
{
	ip_stop_looks_add(&trace->looks, looks);
}
