/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows how a trace is being read. The reader's threads call nothing of this file.
 */
#include "cli/screen/reading_screen.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/screen/screen.h"
#include "cli/screen/text_output.h"
#include "cli/trace_args.h"
#include "common/cleanup.h"
#include "common/interrupted.h"
#include "common/print.h"
#include "common/units.h"

/* A reading that is over soon has no page: it would flash. But it waits for LATEST_NS at most. */
#define FIRST_NS  150000000ull
#define LATEST_NS 350000000ull
#define SOON_NS	  250000000ull
#define EVERY_NS  250000000ull
/* To show takes at most one part in so many of the time. */
#define SHARE 10

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void on_fatal_interrupt(int number)
{
	cli_screen_close();
	signal(number, SIG_DFL);
	raise(number);
}

/* The second one ends the process. */
static void on_interrupt(int number)
{
	if (ip_interrupted)
		on_fatal_interrupt(number);
	ip_interrupted = number;
}

/* Ctrl-C means again what it did before. */
static void end_signals(void)
{
	struct sigaction now;

	if (sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
		signal(SIGINT, SIG_DFL);
}

/* Returns the time that is left; UINT64_MAX: it is not known. */
static uint64_t left_ns(const struct cli_reading_screen *s, uint64_t now)
{
	const struct ip_trace_progress *p = &s->progress;

	if (!p->read_bytes || p->read_bytes > p->all_bytes)
		return UINT64_MAX;
	return (double)(now - s->begin_ns) * (p->all_bytes - p->read_bytes) / p->read_bytes;
}

static void print_progress(const struct cli_reading_screen *s, FILE *out)
{
	const struct ip_trace_progress *p = &s->progress;
	uint64_t now = now_ns(), left = left_ns(s, now);
	char done[16], all[16], rate[16], duration[24];

	if (!p->all_bytes) {
		ip_print(out, CLI_SCREEN_BOLD "opening: %s of records found" CLI_SCREEN_PLAIN "\n",
			 ip_format_size(p->read_bytes, done));
		return;
	}
	ip_print(out, CLI_SCREEN_BOLD "reading: %.0f %%, %s of %s, %s/s",
		 100.0 * p->read_bytes / p->all_bytes, ip_format_size(p->read_bytes, done),
		 ip_format_size(p->all_bytes, all),
		 ip_format_size(1e9 * p->read_bytes / (now - s->begin_ns + 1), rate));
	if (left != UINT64_MAX)
		ip_print(out, ", %s left",
			 ip_format_duration((left / 1000000000 + 1) * 1000000000, duration));
	ip_print(out, "   (Ctrl-C: show what has been read)" CLI_SCREEN_PLAIN "\n");
}

/* Puts the table and the line of progress on the screen. */
static void put(struct cli_reading_screen *s)
{
	_cleanup_free_ char *text = NULL;
	const char *table = s->table ? s->table : "";
	size_t lines, columns, size, line = 0;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return;
	s->put_ns = now_ns();
	cli_screen_size(&lines, &columns);
	for (; line + 2 < lines && *table; line++) {
		size_t n = strcspn(table, "\n");
		_cleanup_free_ char *one = strndup(table, n);

		ip_print(out, "%s\n", one ? one : "");
		table += n + !!table[n];
	}
	for (; line + 1 < lines; line++)
		ip_print(out, "\n");
	print_progress(s, out);
	if (fclose(out) == 0)
		cli_screen_show(text, size);
}

static enum ip_progress_request look(void *context, const struct ip_trace_progress *p)
{
	struct cli_reading_screen *s = context;
	uint64_t now = now_ns(), elapsed = now - s->start_ns;

	(void)p;
	if (ip_interrupted)
		return IP_PROGRESS_STOP;
	if (now < s->due_ns || (!s->open && elapsed < LATEST_NS && left_ns(s, now) < SOON_NS)) {
		/* a table that takes long to make waits, but the line goes on */
		if (s->open && (cli_screen_has_changed() || now >= s->put_ns + EVERY_NS))
			put(s);
		return IP_PROGRESS_NONE;
	}
	if (s->open)
		cli_screen_has_changed();
	s->asked_ns = now;
	return IP_PROGRESS_SHOW;
}

/* Makes the table. The threads that read print nothing. */
static void make_table(struct cli_reading_screen *s, void *result)
{
	struct cli_text_output printed;
	size_t lines, columns;
	char *text;
	int done;

	cli_screen_size(&lines, &columns);
	if (cli_text_output_begin(&printed) < 0)
		return;
	done = s->print(s->context, result, lines);
	text = cli_text_output_end(&printed);
	if (done < 0 || !text) {
		free(text);
		return;
	}
	free(s->table);
	s->table = text;
}

static void show(void *context, const struct ip_trace_progress *p, void *result)
{
	struct cli_reading_screen *s = context;
	uint64_t took;

	(void)p;
	if (!s->open)
		cli_screen_open_output();
	s->open = true;
	if (result)
		make_table(s, result);
	put(s);
	took = SHARE * (now_ns() - s->asked_ns);
	s->due_ns = s->asked_ns + (took > EVERY_NS ? took : EVERY_NS);
}

/* Makes ready to show something; on_signal: what Ctrl-C does. Returns false where there is no
 * terminal for it. */
static bool watch(struct cli_reading_screen *s, void (*on_signal)(int))
{
	const char *terminal = getenv("TERM");
	struct sigaction action = {.sa_handler = on_signal}, before;

	if (!isatty(STDOUT_FILENO) || !terminal || !*terminal || !strcmp(terminal, "dumb") ||
	    !cli_screen_is_ours())
		return false;
	s->progress = (struct ip_trace_progress){.look = look, .show = show, .context = s};
	s->watches = true;
	s->begin_ns = now_ns();
	if (!s->start_ns)
		s->start_ns = s->begin_ns;
	s->due_ns = s->start_ns + FIRST_NS;
	/* a background job of a shell ignores it */
	if (sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
		sigaction(SIGINT, &action, NULL);
	return true;
}

/* Gives the terminal back. */
static void leave_page(struct cli_reading_screen *s)
{
	s->watches = false;
	if (s->open)
		cli_screen_close_output();
	s->open = false;
	free(s->table);
	s->table = NULL;
}

int cli_reading_screen_open(struct cli_reading_screen *s, const char *dir, const char *process,
			    struct ip_trace_reader **ret)
{
	bool watches = s && watch(s, on_fatal_interrupt);
	int done;

	if (watches)
		s->due_ns = s->start_ns + LATEST_NS;
	done = cli_reader_open_told(dir, process, watches ? &s->progress : NULL, ret);
	if (done == 0 && cli_reader_add_kernel(*ret) < 0) {
		ip_trace_reader_close(ip_steal_ptr(*ret));
		done = -1;
	}

	if (watches) {
		leave_page(s);
		end_signals();
	}
	return done;
}

void cli_reading_screen_begin(struct cli_reading_screen *s, struct ip_trace_reader *trace)
{
	if (!watch(s, on_interrupt))
		return;
	s->dir = trace->dir;
	trace->progress = &s->progress;
}

void cli_reading_screen_end(struct cli_reading_screen *s, struct ip_trace_reader *trace)
{
	if (!s->watches)
		return;
	trace->progress = NULL;
	leave_page(s);
	end_signals();
	s->interrupted = ip_interrupted;
}

void cli_reading_screen_leave(const struct cli_reading_screen *s)
{
	const struct ip_trace_progress *p = &s->progress;

	if (!s->interrupted)
		return;
	fflush(stdout);
	if (p->stopped)
		ip_print(stderr,
			 "iprobe: %s: interrupted: %.1f %% of it was read, and all figures are of "
			 "that part\n",
			 s->dir, p->all_bytes ? 100.0 * p->read_bytes / p->all_bytes : 100);
	signal(SIGINT, SIG_DFL);
	raise(SIGINT);
}
