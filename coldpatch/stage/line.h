/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assembler text as gcc writes it, line by line.
 */
#ifndef COLD_STAGE_LINE_H
#define COLD_STAGE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* A line without its end. next: behind its end; NULL: the text ends in it. */
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

/* Whether it is one of the compiler's own, where it stands outside of #APP. */
static inline bool is_instruction(struct line l)
{
	return l.length > 1 && l.text[0] == '\t' && l.text[1] != '.' && l.text[1] != '#';
}

/* mnemonic begins where the line does; it must end there, too. */
static inline bool is_mnemonic(struct line l, const char *mnemonic)
{
	size_t n = strlen(mnemonic);

	return begins(l, mnemonic) && (l.length == n || strchr(" \t;#", l.text[n]));
}

/* The next instruction of the compiler's own, from p on; directives, labels, comments and the
 * user's asm are passed over. 1: *ret; 0: the text ends before. */
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
