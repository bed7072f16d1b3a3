/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assembler text as gcc writes it, line by line.
 */
#ifndef COLD_STAGE_LINE_H
#define COLD_STAGE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* A line without its newline. next: the text behind the newline; NULL if the text ends in this
 * line. */
struct line {
	const char *text, *next;
	size_t length;
};

static inline struct line line_at(const char *p, const char *end)
{
	const char *eol = p < end ? memchr(p, '\n', end - p) : NULL;

	return (struct line){
		.text = p, .next = eol ? eol + 1 : NULL, .length = (eol ? eol : end) - p};
}

static inline bool begins(struct line l, const char *with)
{
	size_t n = strlen(with);

	return l.length >= n && !memcmp(l.text, with, n);
}

static inline bool is(struct line l, const char *text)
{
	return l.length == strlen(text) && !memcmp(l.text, text, l.length);
}

static inline bool has(struct line l, const char *what)
{
	return memmem(l.text, l.length, what, strlen(what));
}

/* Whether a line is an instruction of the compiler's own. The line must stand outside of #APP. */
static inline bool is_instruction(struct line l)
{
	return l.length > 1 && l.text[0] == '\t' && l.text[1] != '.' && l.text[1] != '#';
}

/* mnemonic must begin where the line begins, and end with a whole word. */
static inline bool is_mnemonic(struct line l, const char *mnemonic)
{
	size_t n = strlen(mnemonic);

	return begins(l, mnemonic) && (l.length == n || strchr(" \t;#", l.text[n]));
}

/* Finds the compiler's next instruction from p on. It skips directives, labels, comments and the
 * user's asm. Returns 1 with *ret; 0 if the text ends before. */
static inline int next_instruction(const char *p, const char *end, struct line *ret)
{
	bool app = false;

	while (p < end) {
		struct line l = line_at(p, end);

		if (!l.next)
			return 0;
		if (begins(l, "#APP"))
			app = true;
		else if (begins(l, "#NO_APP"))
			app = false;
		else if (!app && is_instruction(l)) {
			*ret = l;
			return 1;
		}
		p = l.next;
	}
	return 0;
}

#endif
