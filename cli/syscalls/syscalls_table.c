/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints sums of system calls.
 */
#include "cli/syscalls/syscalls_table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/syscalls/syscall_flags.h"
#include "common/json.h"
#include "common/print.h"
#include "common/trace/kernel_format.h"
#include "common/units.h"

#define ERRORS_SHOWN 4u /* by name, on a line of the table */

struct total {
	uint64_t ticks, calls, errors, open, earlier, unknown;
};

static uint64_t ns_of(const struct cli_syscalls_table *t, uint64_t ticks)
{
	return (double)ticks * 1e9 / (double)t->hz + 0.5;
}

static const char *text_of(const struct cli_syscalls_table *t, uint64_t ticks, char *buffer)
{
	return ip_format_ns(ns_of(t, ticks), buffer);
}

static uint64_t p99_of(const struct ip_syscall_sum *sum)
{
	return ip_histogram_percentile(&sum->durations, 0.99, sum->min, sum->max);
}

static struct total add_up(const struct cli_syscalls_table *t)
{
	struct total total = {0};

	for (size_t i = 0; i < t->sums.n; i++) {
		total.ticks += t->sums.items[i].ticks;
		total.calls += t->sums.items[i].calls;
		total.errors += t->sums.items[i].errors;
		total.open += t->sums.items[i].open;
		total.earlier += t->sums.items[i].earlier;
		total.unknown += t->sums.items[i].unknown;
	}
	return total;
}

static void print_head(const struct cli_syscalls_table *t, const struct total *total, FILE *out)
{
	char count[32], length[16];

	ip_print(out, "# ");
	if (t->pid)
		ip_print(out, "pid %d: ", t->pid);
	else if (t->live)
		ip_print(out, "%zu process%s and what %s fork%s: ", t->processes,
			 t->processes == 1 ? "" : "es", t->processes == 1 ? "it" : "they",
			 t->processes == 1 ? "s" : "");
	ip_print(out, "%s%s system call%s, %s", t->read.lost ? "at least " : "",
		 ip_format_count(total->calls, count), ip_plural(total->calls),
		 text_of(t, t->read.end - t->read.begin, length));
	if (t->read.lost)
		ip_print(
			out,
			"; %s EVENTS OF THE KERNEL WERE LOST: calls are missing, and the result or "
			"the time of others",
			ip_format_count(t->read.lost, count));
	if (t->read.events && !t->read.scheduled)
		ip_print(out, "; no events of the scheduler: whether calls were blocked is not "
			      "known");
	ip_print(out, "\n\n");
}

/* "ENOENT 12, EAGAIN 3" */
static void print_errors(const struct ip_syscall_sum *sum, FILE *out)
{
	char name[24];

	for (size_t i = 0; i < sum->nby_error && i < ERRORS_SHOWN; i++)
		ip_print(out, "%s%s %" PRIu64, i ? ", " : "  ",
			 ip_syscall_error_name(sum->by_error[i].number, name),
			 sum->by_error[i].count);
	if (sum->nby_error > ERRORS_SHOWN)
		ip_print(out, ", and %zu more kinds", sum->nby_error - ERRORS_SHOWN);
}

/* The longest name among the first lines. */
static int width_of_names(const struct cli_syscalls_table *t, size_t lines)
{
	size_t width = strlen("SYSCALL");
	char name[32];

	for (size_t i = 0; i < t->sums.n && i < lines; i++) {
		const size_t n = strlen(ip_syscall_name(t->sums.items[i].number, name));

		width = n > width ? n : width;
	}
	return (int)width;
}

/* width: of the names of system calls, where something follows. */
static void print_row(const struct cli_syscalls_table *t, const struct ip_syscall_sum *sum,
		      const struct total *total, int width, FILE *out)
{
	const uint64_t off = sum->parts.blocked + sum->parts.runqueue;
	char ticks[16], blocked[16], mean[16], p99[16], max[16], name[32], none[] = "-";
	const bool known = sum->parts.unknown < sum->ticks || !sum->ticks;

	ip_print(out, "%6.2f %9s %9s %9s %9s %9s %9" PRIu64 " %8" PRIu64 "  %-*s",
		 total->ticks ? 100.0 * (double)sum->ticks / (double)total->ticks : 0.0,
		 text_of(t, sum->ticks, ticks), known ? text_of(t, off, blocked) : none,
		 sum->timed ? text_of(t, ip_syscall_sum_mean(sum), mean) : none,
		 sum->timed ? text_of(t, p99_of(sum), p99) : none,
		 sum->timed ? text_of(t, sum->max, max) : none, sum->calls, sum->errors,
		 t->owner || sum->nby_error ? width : 0, ip_syscall_name(sum->number, name));
	if (t->owner)
		ip_print(out, "  %s", t->owner(t->context, sum->owner, true));
	print_errors(sum, out);
	ip_print(out, "\n");
}

/* Calls that the kernel broke off, to begin them again: most of them the program has not seen
 * return. iprobe's own stops do it, too. */
static void print_broken_off(const struct cli_syscalls_table *t, FILE *out)
{
	uint64_t n = 0;

	for (size_t i = 0; i < t->sums.n; i++)
		for (size_t k = 0; k < t->sums.items[i].nby_error; k++)
			if (ip_syscall_error_restarts(t->sums.items[i].by_error[k].number))
				n += t->sums.items[i].by_error[k].count;
	if (n)
		ip_print(
			out,
			"%" PRIu64 " call%s (ERESTART...) %s broken off by a signal or a stop, as "
			"iprobe's are, and begun\nagain, which counts as another call; the program "
			"has seen no error, or EINTR of a handler.\n",
			n, ip_plural(n), n == 1 ? "was" : "were");
}

/* Calls that are in the times, and not among those that have returned, or were not seen whole. */
static void print_open(const struct cli_syscalls_table *t, const struct total *total, FILE *out)
{
	struct total open[IP_KERNEL_SYSCALLS_MAX] = {0}; /* by number: calls, ticks */
	const char *between = "";
	char time[16], name[32];

	if (total->earlier)
		ip_print(out,
			 "%" PRIu64 " call%s had begun before the recording: %s time counts from "
			 "there.\n",
			 total->earlier, ip_plural(total->earlier),
			 total->earlier == 1 ? "its" : "their");
	if (total->unknown)
		ip_print(out, "The result of %" PRIu64 " call%s is not known.\n", total->unknown,
			 ip_plural(total->unknown));
	print_broken_off(t, out);
	if (!total->open)
		return;
	for (size_t i = 0; i < t->sums.n; i++) {
		open[t->sums.items[i].number].calls += t->sums.items[i].open;
		open[t->sums.items[i].number].ticks += t->sums.items[i].open_ticks;
	}
	ip_print(out, "Not returned%s: ", t->live ? "" : " at the end");
	/* in the order of the table, each once: several owners may have it */
	for (size_t i = 0; i < t->sums.n; i++) {
		struct total *one = &open[t->sums.items[i].number];

		if (!one->calls)
			continue;
		ip_print(out, "%s%s %" PRIu64 " (%s)", between,
			 ip_syscall_name(t->sums.items[i].number, name), one->calls,
			 text_of(t, one->ticks, time));
		between = ", ";
		one->calls = 0;
	}
	ip_print(out, "\n");
}

void cli_syscalls_table_print(struct cli_syscalls_table *t, FILE *out, size_t lines)
{
	const struct total total = add_up(t);
	static const char *const owners[] = {[CLI_SYSCALLS_BY_FUNCTION] = "  FUNCTION",
					     [CLI_SYSCALLS_BY_DESCRIPTOR] = "  DESCRIPTOR",
					     [CLI_SYSCALLS_BY_PROCESS] = "  PROCESS"};
	size_t limit = t->options->filter.limit, n = 0;
	char time[16];
	int width;

	ip_syscall_sums_sort(&t->sums);
	print_head(t, &total, out);
	if (!t->sums.n) {
		ip_print(out, "No system calls were recorded.\n");
		cli_syscalls_own_print(&t->own, t->hz, "", out);
		return;
	}
	if (lines != SIZE_MAX && limit > (lines > 8 ? lines - 8 : 1))
		limit = lines > 8 ? lines - 8 : 1;
	width = width_of_names(t, limit);
	ip_print(out, "%6s %9s %9s %9s %9s %9s %9s %8s  %-*s%s\n", "%TIME", "TIME", "OFF CPU",
		 "AVG", "P99", "MAX", "CALLS", "ERRORS", t->owner ? width : 0, "SYSCALL",
		 !t->owner ? "" : owners[t->options->by]);
	for (; n < t->sums.n && n < limit; n++)
		print_row(t, &t->sums.items[n], &total, width, out);
	if (n < t->sums.n)
		ip_print(out, "... and %zu more lines (-n)\n", t->sums.n - n);
	ip_print(out, "%6.2f %9s %9s %9s %9s %9s %9" PRIu64 " %8" PRIu64 "  total\n", 100.0,
		 text_of(t, total.ticks, time), "", "", "", "", total.calls, total.errors);
	if (total.open || total.earlier || total.unknown || t->own.calls)
		ip_print(out, "\n");
	print_open(t, &total, out);
	cli_syscalls_own_print(&t->own, t->hz, "", out);
}

static void json_row(const struct cli_syscalls_table *t, const struct ip_syscall_sum *sum,
		     struct ip_json *j)
{
	const enum cli_syscalls_by by = t->options->by;
	char name[32];

	ip_json_object(j, NULL);
	ip_json_string(j, "name", ip_syscall_name(sum->number, name));
	ip_json_string(j, "function",
		       t->owner && by == CLI_SYSCALLS_BY_FUNCTION
			       ? t->owner(t->context, sum->owner, false)
			       : NULL);
	if (t->owner && by == CLI_SYSCALLS_BY_DESCRIPTOR)
		ip_json_string(j, "descriptor", t->owner(t->context, sum->owner, false));
	if (t->owner && by == CLI_SYSCALLS_BY_PROCESS) {
		ip_json_uint(j, "pid", t->pid_of(t->context, sum->owner));
		ip_json_string(j, "process", t->owner(t->context, sum->owner, false));
	}
	ip_json_uint(j, "calls", sum->calls);
	ip_json_uint(j, "errors", sum->errors);
	ip_json_object(j, "errors_by_name");
	for (size_t i = 0; i < sum->nby_error; i++)
		ip_json_uint(j, ip_syscall_error_name(sum->by_error[i].number, name),
			     sum->by_error[i].count);
	ip_json_end_object(j);
	ip_json_uint(j, "total_ns", ns_of(t, sum->ticks));
	ip_json_uint(j, "min_ns", sum->timed ? ns_of(t, sum->min) : 0);
	ip_json_uint(j, "avg_ns", ns_of(t, ip_syscall_sum_mean(sum)));
	ip_json_uint(j, "p99_ns", ns_of(t, p99_of(sum)));
	ip_json_uint(j, "max_ns", ns_of(t, sum->max));
	ip_json_uint(j, "cpu_ns", ns_of(t, sum->parts.cpu));
	ip_json_uint(j, "runqueue_ns", ns_of(t, sum->parts.runqueue));
	ip_json_uint(j, "blocked_ns", ns_of(t, sum->parts.blocked));
	ip_json_uint(j, "unknown_ns", ns_of(t, sum->parts.unknown));
	ip_json_uint(j, "timed", sum->timed);
	ip_json_uint(j, "earlier", sum->earlier);
	ip_json_uint(j, "unknown_results", sum->unknown);
	ip_json_uint(j, "open", sum->open);
	ip_json_uint(j, "open_ns", ns_of(t, sum->open_ticks));
	ip_json_end_object(j);
}

void cli_syscalls_table_json(struct cli_syscalls_table *t)
{
	const struct total total = add_up(t);
	struct ip_json j;

	ip_syscall_sums_sort(&t->sums);
	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	if (t->pid)
		ip_json_int(&j, "pid", t->pid);
	else if (t->live)
		ip_json_uint(&j, "processes", t->processes);
	ip_json_uint(&j, "duration_ns", ns_of(t, t->read.end - t->read.begin));
	ip_json_uint(&j, "kernel_events", t->read.events);
	ip_json_uint(&j, "kernel_lost", t->read.lost);
	ip_json_bool(&j, "scheduler", t->read.scheduled);
	ip_json_uint(&j, "calls", total.calls);
	ip_json_uint(&j, "errors", total.errors);
	ip_json_uint(&j, "total_ns", ns_of(t, total.ticks));
	ip_json_uint(&j, "own_calls", t->own.calls);
	ip_json_uint(&j, "own_ns", ns_of(t, t->own.ticks));
	ip_json_array(&j, "syscalls");
	for (size_t i = 0; i < t->sums.n && i < t->options->filter.limit; i++)
		json_row(t, &t->sums.items[i], &j);
	ip_json_end_array(&j);
	ip_json_end_object(&j);
}
