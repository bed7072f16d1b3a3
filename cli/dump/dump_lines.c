/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of iprobe dump on a terminal.
 */
#include "cli/dump/dump_lines.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"

/* How many lines wait for the exits of calls. More threads than that interleave rarely. */
#define WAITING 512u

struct line {
	char *head, *text, *behind; /* before the guides; name and values; what stands at the end */
	size_t depth;
	uint64_t call;
	uint32_t tid; /* 0: it belongs to no thread */
	bool opens, closed;
};

struct cli_dump_lines {
	struct line items[WAITING]; /* a ring */
	size_t first, n;
	struct line now;     /* the line that is being made */
	struct line *closes; /* the entry whose line goes on; NULL: now is a line of its own */
	FILE *out;
	char *text;
	size_t size;
	bool dim, failed;
};

struct cli_dump_lines *cli_dump_lines_create(bool dim)
{
	struct cli_dump_lines *l = calloc(1, sizeof(*l));

	if (l) {
		l->dim = dim;
		l->out = open_memstream(&l->text, &l->size);
	}
	if (!l || !l->out) {
		free(l);
		ip_error("out of memory");
		return NULL;
	}
	return l;
}

static void clear(struct line *line)
{
	free(line->head);
	free(line->text);
	free(line->behind);
	*line = (struct line){0};
}

static void print(const struct cli_dump_lines *l, const struct line *line)
{
	ip_print(stdout, "%s", line->head ? line->head : "");
	if (l->dim && line->depth)
		ip_print(stdout, "\033[2m");
	for (size_t i = 0; i < line->depth; i++)
		ip_print(stdout, "| ");
	if (l->dim && line->depth)
		ip_print(stdout, "\033[0m");
	ip_print(stdout, "%s", line->text ? line->text : "");
	if (line->opens && !line->closed)
		ip_print(stdout, " {");
	ip_print(stdout, "%s\n", line->behind ? line->behind : "");
}

/* Prints the oldest line that waits. */
static void print_first(struct cli_dump_lines *l)
{
	struct line *line = &l->items[l->first];

	print(l, line);
	clear(line);
	l->first = (l->first + 1) % WAITING;
	l->n--;
}

void cli_dump_lines_destroy(struct cli_dump_lines *l)
{
	if (!l)
		return;
	while (l->n)
		print_first(l);
	clear(&l->now);
	fclose(l->out);
	free(l->text);
	free(l);
}

FILE *cli_dump_lines_out(struct cli_dump_lines *l)
{
	return l->out;
}

/* Takes what has been printed since the last time; malloc'ed. */
static char *take(struct cli_dump_lines *l)
{
	char *text;

	if (fflush(l->out) != 0) {
		l->failed = true;
		return NULL;
	}
	text = strndup(l->text, l->size);
	l->failed |= !text;
	fseeko(l->out, 0, SEEK_SET);
	return text;
}

void cli_dump_lines_begin(struct cli_dump_lines *l, uint32_t tid, size_t depth)
{
	clear(&l->now);
	l->now = (struct line){.tid = tid, .depth = depth};
	l->closes = NULL;
}

void cli_dump_lines_headed(struct cli_dump_lines *l)
{
	l->now.head = take(l);
}

void cli_dump_lines_opens(struct cli_dump_lines *l, uint64_t call)
{
	l->now.text = take(l);
	l->now.opens = true;
	l->now.call = call;
}

bool cli_dump_lines_closes(struct cli_dump_lines *l, uint32_t tid, uint64_t call)
{
	l->closes = NULL;
	for (size_t i = l->n; i-- > 0;) {
		struct line *line = &l->items[(l->first + i) % WAITING];

		if (line->tid != tid)
			continue;
		if (line->opens && !line->closed && line->call == call)
			l->closes = line;
		break;
	}
	return l->closes;
}

/* Puts the rest of a call's line behind its entry: "name(args)" + " = 7;  12 ns". */
static void close_line(struct cli_dump_lines *l)
{
	_cleanup_free_ char *rest = take(l);
	char *text;

	if (!rest || asprintf(&text, "%s%s", l->closes->text ? l->closes->text : "", rest) < 0) {
		l->failed = true;
		return;
	}
	free(l->closes->text);
	l->closes->text = text;
	l->closes->closed = true;
}

int cli_dump_lines_end(struct cli_dump_lines *l)
{
	if (l->closes) {
		close_line(l);
		l->closes = NULL;
		return l->failed ? -1 : 0;
	}
	*(l->now.opens ? &l->now.behind : &l->now.text) = take(l);
	if (l->n == WAITING)
		print_first(l);
	l->items[(l->first + l->n++) % WAITING] = l->now;
	l->now = (struct line){0};
	return l->failed ? -1 : 0;
}

int cli_dump_lines_separate(struct cli_dump_lines *l, const char *text)
{
	cli_dump_lines_begin(l, 0, 0);
	ip_print(l->out, "%s", text);
	return cli_dump_lines_end(l);
}
